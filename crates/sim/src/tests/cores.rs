//! Cores of several threads: reservations are placed on cores that have none yet.

use std::collections::BTreeSet;

use super::{reserve, MS, SEC};
use crate::workload::{hog, Periodic};
use crate::{Place, Reservation, Settings, Simulation};

const THREADS: usize = 2;
const CPUS: usize = 8;
const PERIOD: u64 = 30 * MS;
/// More than half of a CPU.
const HEAVY: u64 = 16 * MS;

/// On which CPUs `count` programs with `runtime` every 30 ms have their reservations: where each
/// runs by right, beside loops, in a period of its own.
fn placed(threads: usize, count: usize, runtime: u64, guaranteed: bool) -> Vec<usize> {
    let mut sim = Simulation::new(Settings {
        cpus: CPUS,
        threads,
        checked: true,
        ..Settings::default()
    });
    let asked = Reservation {
        guaranteed,
        ..reserve(runtime, PERIOD)
    };
    sim.spec(7, asked);
    for _ in 0..2 * CPUS {
        sim.start(hog(0));
    }
    // one after the other, each of them 2 ms of its period
    let release = |i: usize| SEC + PERIOD / count as u64 * i as u64;
    let start = |i: usize| Periodic::new(7, 2 * MS, PERIOD, release(i)).0;
    let ids: Vec<_> = (0..count).map(|i| sim.start(start(i))).collect();
    let at = |(i, id)| {
        sim.run_until(release(i) + 10 * PERIOD + MS);
        match sim.place(id) {
            Place::Running(cpu) => cpu,
            place => panic!("{place:?}"),
        }
    };
    ids.into_iter().enumerate().map(at).collect()
}

#[test]
fn reservations_are_on_cores_of_their_own() {
    for guaranteed in [false, true] {
        let cores = |cpus: &[usize]| {
            cpus.iter()
                .map(|cpu| cpu / THREADS)
                .collect::<BTreeSet<_>>()
        };
        let four = placed(THREADS, 4, HEAVY, guaranteed);
        assert_eq!(cores(&four).len(), 4, "{four:?}");
        let alike = placed(1, 4, HEAVY, guaranteed);
        assert_eq!(cores(&alike).len(), 2, "by their number: {alike:?}");
    }
}

/// When each core has one, the next ones are on the cores' other threads.
#[test]
fn then_they_are_on_idle_threads() {
    for guaranteed in [false, true] {
        let all: BTreeSet<_> = placed(THREADS, CPUS, HEAVY, guaranteed)
            .into_iter()
            .collect();
        assert_eq!(all.len(), CPUS);
    }
}

/// Light guaranteed ones fill a CPU before they take another one, on another core.
#[test]
fn light_ones_fill_a_cpu_and_go_to_another_core() {
    let found = placed(THREADS, 6, 9 * MS, true);
    let cpus: BTreeSet<_> = found.iter().copied().collect();
    let cores: BTreeSet<_> = found.iter().map(|cpu| cpu / THREADS).collect();
    assert_eq!((cpus.len(), cores.len()), (2, 2), "{found:?}");
}
