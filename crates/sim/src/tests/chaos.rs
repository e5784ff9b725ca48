//! Random tasks that run, sleep, fork, exec and exit, with late timers and slow kicks, against the invariants.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::chance::Chance;
use crate::workload::Random;
use crate::{CpuMask, Reservation, ServerPolicy, Settings, Simulation};

/// Tasks that one chaos may make.
const MOST_FORKS: u32 = 110;
const SPECS: u64 = 4;

fn play(seed: u64, cpus: usize, kick_ns: u64, timer_late_ns: u64) -> (u64, Vec<crate::Switch>) {
    let mut sim = Simulation::new(Settings {
        cpus,
        kick_ns,
        timer_late_ns,
        checked: true,
        traced: true,
        ..Settings::default()
    });
    let mut chance = Chance::new(seed);
    for ino in 1..=SPECS {
        let period = 5_000_000 + chance.below(100_000_000);
        let runtime = period / 20 + chance.below(period / 3);
        let policies = [
            None,
            Some(ServerPolicy::Redline),
            Some(ServerPolicy::CbsHard),
            Some(ServerPolicy::CbsSoft),
        ];
        sim.spec(
            ino,
            Reservation {
                runtime,
                period,
                inherit: chance.below(2) == 0,
                revocable: chance.below(2) == 0,
                guaranteed: chance.below(2) == 0,
                policy: policies[chance.below(4) as usize],
            },
        );
    }
    let forks = Rc::new(Cell::new(MOST_FORKS));
    for _ in 0..10 {
        let mut allowed = CpuMask::first(cpus);
        if chance.below(3) == 0 {
            allowed = CpuMask::only(chance.below(cpus as u64) as usize);
        }
        let weight = 1 + chance.below(1000) as u32;
        // two of the programs have no spec
        let life = Random::new(chance.any(), SPECS + 2, &forks);
        sim.start_with(weight, allowed, Box::new(life));
    }
    sim.run_until(8_000_000_000);
    (sim.events(), sim.trace().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// (The same lives each time: more with another seed.) Whatever they do, the invariants hold (checked after every event), timers late or not.
    #[test]
    fn chaos_keeps_the_invariants(seed: u64, cpus in 1usize..5, kick_us in 0u64..20, late_us in prop_oneof![Just(0u64), 0u64..2000]) {
        let (events, _) = play(seed, cpus, kick_us * 1000, late_us * 1000);
        prop_assert!(events > 0);
    }
}

#[test]
fn chaos_replays_exactly() {
    assert!(play(42, 3, 1000, 0) == play(42, 3, 1000, 0));
}
