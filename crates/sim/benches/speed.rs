//! `cargo bench -p aplomb-sim`: scheduling events a second, and how the cost of one grows with the number of
//! tasks. Issue 3's marks: a million a second, and no faster growth than log n from 100 to 100,000 tasks.

use std::time::Instant;

use aplomb_sim::machine::Scheduler;
use aplomb_sim::workload::on_off;
use aplomb_sim::{CpuMask, Settings};

const EVENTS: u64 = 3_000_000;

/// On-off tasks that want twice what the CPUs have, so that queues are long and all callbacks are called.
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
    let (before, began) = (sim.events(), Instant::now());
    while sim.events() - before < EVENTS {
        end += 100_000_000;
        sim.run_until(end);
    }
    began.elapsed().as_nanos() as f64 / (sim.events() - before) as f64
}

fn main() {
    println!(
        "{:>15} {:>8} {:>6} {:>14} {:>16}",
        "scheduler", "tasks", "CPUs", "ns an event", "events a second"
    );
    for (name, tasks, cpus) in [
        ("aplomb", 100, 4),
        ("aplomb", 1_000, 4),
        ("aplomb", 10_000, 4),
        ("aplomb", 100_000, 4),
        ("aplomb", 10_000, 64),
        ("wrr", 100, 4),
        ("eevdf", 100, 4),
        ("eevdf", 10_000, 64),
    ] {
        let scheduler: Scheduler = name.parse().expect("a name");
        let ns = cost(scheduler, tasks, cpus);
        println!(
            "{name:>15} {tasks:>8} {cpus:>6} {ns:>14.0} {:>16.0}",
            1e9 / ns
        );
    }
}
