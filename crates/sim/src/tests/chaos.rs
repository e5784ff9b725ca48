//! Random tasks that run, sleep, fork, exec and exit, with late timers and slow kicks, against the invariants.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::{CpuMask, Program, Reservation, ServerPolicy, Settings, Simulation, Step};

/// Tasks that one chaos may make; more forks end nothing and start nothing.
const MOST_TASKS: u32 = 120;
const SPECS: u64 = 4;

/// xorshift64*: the same seed, the same life.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }
}

struct Life {
    chance: Chance,
    born: Rc<Cell<u32>>,
}

impl Life {
    fn new(seed: u64, born: &Rc<Cell<u32>>) -> Self {
        born.set(born.get() + 1);
        Self {
            chance: Chance(seed | 1),
            born: Rc::clone(born),
        }
    }
}

impl Program for Life {
    fn next(&mut self, now: u64, _ran: u64) -> Step {
        match self.chance.below(20) {
            0 if self.born.get() < MOST_TASKS => Step::Fork(self.chance.below(u64::MAX)),
            1 => Step::Exec(1 + self.chance.below(SPECS + 2)), // two have no spec
            2 if self.chance.below(4) == 0 => Step::Exit,
            3..=8 => Step::SleepUntil(now + 1 + self.chance.below(30_000_000)),
            9..=11 => Step::SleepUntil(now + 1 + self.chance.below(100_000)),
            12..=14 => Step::Run(1 + self.chance.below(30_000_000)),
            _ => Step::Run(1 + self.chance.below(300_000)),
        }
    }

    fn child(&mut self, which: u64) -> Box<dyn Program> {
        Box::new(Life::new(which, &self.born))
    }
}

fn play(seed: u64, cpus: usize, kick_ns: u64, timer_late_ns: u64) -> (u64, Vec<crate::Switch>) {
    let mut sim = Simulation::new(Settings {
        cpus,
        kick_ns,
        timer_late_ns,
        checked: true,
        traced: true,
        ..Settings::default()
    });
    let mut chance = Chance(seed | 1);
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
    let born = Rc::new(Cell::new(0));
    for _ in 0..10 {
        let mut allowed = CpuMask::first(cpus);
        if chance.below(3) == 0 {
            allowed = CpuMask::only(chance.below(cpus as u64) as usize);
        }
        let weight = 1 + chance.below(1000) as u32;
        let life = Life::new(chance.below(u64::MAX), &born);
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
