//! `cargo bench -p aplomb-sim`: scheduling events a second, and the growth of their cost with the
//! number of tasks. Marks: a million events a second, and from 100 to 100,000 tasks no faster
//! growth than log n.
//!
//! Shared machines are noisy, so the result is CPU time, not elapsed time, and that of the best of
//! several parts of one run.

use aplomb_sim::machine::Scheduler;
use aplomb_sim::workload::on_off;
use aplomb_sim::{CpuMask, Settings};

const PARTS: usize = 12;
const EVENTS: u64 = 400_000;
const FEW: u64 = 100;
const MANY: u64 = 100_000;

/// CPU time of this thread, ns.
fn cpu_time() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime() fills in `now`
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The cost of an event, ns, with on-off tasks that want twice the CPU time that there is. So
/// queues are long, and all callbacks are called.
fn cost(scheduler: Scheduler, tasks: u64, cpus: u64) -> f64 {
    let mut sim = scheduler.machine(Settings {
        cpus: cpus as usize,
        ..Settings::default()
    });
    let all = CpuMask::first(cpus as usize);
    for i in 0..tasks {
        let on = 100_000 + i % 97 * 10_000;
        sim.start_with(100, all, Box::new(on_off(0, on, on * tasks / cpus / 2)));
    }
    let mut end = 100_000_000;
    sim.run_until(end);
    let mut best = f64::INFINITY;
    for _ in 0..PARTS {
        let (before, began) = (sim.events(), cpu_time());
        while sim.events() - before < EVENTS {
            end += 20_000_000;
            sim.run_until(end);
        }
        best = best.min((cpu_time() - began) as f64 / (sim.events() - before) as f64);
    }
    best
}

fn main() {
    println!(
        "{:>15} {:>8} {:>6} {:>14} {:>16}",
        "scheduler", "tasks", "CPUs", "ns an event", "events a second"
    );
    let (mut few, mut many) = (0.0, 0.0);
    for (name, tasks, cpus) in [
        ("aplomb", FEW, 4),
        ("aplomb", 1_000, 4),
        ("aplomb", 10_000, 4),
        ("aplomb", MANY, 4),
        ("aplomb", 10_000, 64),
        ("wrr", FEW, 4),
        ("eevdf", FEW, 4),
        ("eevdf", 10_000, 64),
    ] {
        let scheduler: Scheduler = name.parse().expect("a name");
        let ns = cost(scheduler, tasks, cpus);
        println!(
            "{name:>15} {tasks:>8} {cpus:>6} {ns:>14.0} {:>16.0}",
            1e9 / ns
        );
        match (name, tasks) {
            ("aplomb", FEW) => few = ns,
            ("aplomb", MANY) => many = ns,
            _ => {}
        }
    }
    let allowed = (MANY as f64).ln() / (FEW as f64).ln();
    println!(
        "{MANY} tasks cost {:.2} times as much as {FEW}; log n: {allowed:.2}",
        many / few
    );
}
