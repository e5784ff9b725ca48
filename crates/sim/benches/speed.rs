//! `cargo bench -p aplomb-sim`: scheduling events a second, and how the cost of one grows with the number of
//! tasks. Issue 3's marks: a million a second, and no faster growth than log n from 100 to 100,000 tasks.

use std::time::Instant;

use aplomb_sim::workload::on_off;
use aplomb_sim::{Settings, Simulation};

const EVENTS: u64 = 3_000_000;

/// On-off tasks that want twice what the CPUs have, so that queues are long and all callbacks are called.
fn cost(tasks: u64, cpus: u64) -> f64 {
    let mut sim = Simulation::new(Settings {
        cpus: cpus as usize,
        ..Settings::default()
    });
    for i in 0..tasks {
        let on = 100_000 + i % 97 * 10_000;
        sim.start(on_off(0, on, on * tasks / cpus / 2));
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
        "{:>8} {:>6} {:>14} {:>16}",
        "tasks", "CPUs", "ns an event", "events a second"
    );
    for (tasks, cpus) in [
        (100, 4),
        (1_000, 4),
        (10_000, 4),
        (100_000, 4),
        (10_000, 64),
    ] {
        let ns = cost(tasks, cpus);
        println!("{tasks:>8} {cpus:>6} {ns:>14.0} {:>16.0}", 1e9 / ns);
    }
}
