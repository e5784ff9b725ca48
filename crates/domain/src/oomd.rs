//! The signals of systemd-oomd (org.freedesktop.oom1(5)), which kills cgroups when memory is short.

use std::io;

use zbus::blocking::Connection;
use zbus::proxy::CacheProperties;

#[zbus::proxy(
    interface = "org.freedesktop.oom1.Manager",
    default_service = "org.freedesktop.oom1",
    default_path = "/org/freedesktop/oom1",
    gen_async = false,
    blocking_name = "OomdManager"
)]
trait OomdManager {
    #[zbus(signal)]
    fn killed(&self, cgroup: &str, reason: &str) -> zbus::Result<()>;
}

/// Start a thread that calls `killed` with the cgroup and the reason of each kill, for as long as
/// this process lives. It ends when the bus does.
///
/// # Errors
/// There is no room for a thread.
pub fn listen(killed: impl FnMut(&str, &str) + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("oomd".into());
    let run = move || {
        if let Ok(bus) = Connection::system() {
            let _ = listen_on(&bus, killed); // the bus has ended
        }
    };
    thread.spawn(run).map(drop)
}

fn listen_on(bus: &Connection, mut killed: impl FnMut(&str, &str)) -> zbus::Result<()> {
    let builder = OomdManager::builder(bus).cache_properties(CacheProperties::No);
    for signal in builder.build()?.receive_killed()? {
        if let Ok(args) = signal.args() {
            killed(args.cgroup, args.reason);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
