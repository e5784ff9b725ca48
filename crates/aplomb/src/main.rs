//! Minimal: load, attach, stay. (Replaced by the real program.)
use aplomb_kernel::{Kernel, Scheduler, Settings};
fn main() -> anyhow::Result<()> {
    let mut k = Scheduler::load(&Settings::default())?;
    k.attach()?;
    eprintln!("ready: scheduler aplomb attached");
    loop {
        std::thread::sleep(std::time::Duration::from_millis(200));
        for e in k.take_events(1000) {
            eprintln!("{} {} pid {} cpu {} {} {} {}", e.kind.name(), aplomb_kernel::comm_text(&e.comm), e.pid, e.cpu, e.a, e.b, e.c);
        }
        if let Some(x) = k.exited() {
            eprintln!("ended: {x}");
            std::process::exit(1);
        }
    }
}
