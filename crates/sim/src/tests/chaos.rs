//! Random tasks that run, sleep, fork, exec and exit, with late timers and slow kicks, changes from outside,
//! and CPUs that leave and come, against the invariants.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::kernel::leave_to_the_kernel;
use super::probe::{Probe, Refuse};
use crate::calls::noted::STAND_IN;
use crate::chance::Chance;
use crate::{
    Bandwidth, CgroupChange, Change, CpuMask, Program, Reservation, ServerPolicy, Settings,
    Simulation, Step,
};

/// What is played, ns.
const LENGTH: u64 = 8_000_000_000;
/// Changes from outside in it.
const CHANGES: u32 = 40;
/// Tasks that one chaos may make; more forks end nothing and start nothing.
pub(super) const MOST_TASKS: u32 = 120;
const SPECS: u64 = 4;

pub(super) struct Life {
    chance: Chance,
    born: Rc<Cell<u32>>,
}

impl Life {
    pub(super) fn new(seed: u64, born: &Rc<Cell<u32>>) -> Self {
        born.set(born.get() + 1);
        Self {
            chance: Chance::new(seed),
            born: Rc::clone(born),
        }
    }
}

impl Program for Life {
    fn next(&mut self, now: u64, _ran: u64) -> Step {
        match self.chance.below(20) {
            0 if self.born.get() < MOST_TASKS => match self.chance.below(4) {
                0 => Step::Thread(self.chance.below(u64::MAX)),
                _ => Step::Fork(self.chance.below(u64::MAX)),
            },
            1 => Step::Exec(1 + self.chance.below(SPECS + 2)), // two have no spec
            2 => match self.chance.below(16) {
                0..4 => Step::Exit,
                4 => Step::ExitGroup,
                5..9 => Step::Yield,
                9..11 => Step::Wait,
                _ => Step::Wake(self.chance.below(u64::from(self.born.get())) as usize),
            },
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

/// One change from outside, at some time.
fn disturb(sim: &mut Simulation, chance: &mut Chance, cpus: u64, hotplug: bool) {
    let at = chance.below(LENGTH);
    let id = chance.below(u64::from(MOST_TASKS)) as usize;
    let cpu = chance.below(cpus) as usize;
    let change = match chance.below(10) {
        0..3 if hotplug => {
            sim.plan(at + chance.below(LENGTH / 4), Change::Online(cpu));
            Change::Offline(cpu)
        }
        0..5 => {
            let mut mask = CpuMask::only(cpu);
            (0..chance.below(cpus)).for_each(|_| mask.set(chance.below(cpus) as usize, true));
            Change::Affinity(id, mask)
        }
        5..8 => Change::Weight(id, 1 + chance.below(1000) as u32),
        8 => Change::Kill(id),
        _ => Change::KillGroup(id),
    };
    sim.plan(at, change);
}

/// A few cgroups, and much that happens to them, by chance: each is tried whether it is possible or not.
fn disturb_cgroups(sim: &mut Simulation, chance: &mut Chance) {
    for parent in [0, 0, 1, 3] {
        sim.plan(0, Change::Cgroup(CgroupChange::Create(parent)));
    }
    for _ in 0..10 * CHANGES {
        let at = 1 + chance.below(LENGTH);
        let id = chance.below(u64::from(MOST_TASKS)) as usize;
        let cgroup = chance.below(12) as usize;
        let change = match chance.below(16) {
            0 => CgroupChange::Create(cgroup),
            1 => CgroupChange::Remove(cgroup),
            2 => CgroupChange::Weight(cgroup, chance.below(11_000) as u32),
            3 => CgroupChange::Idle(cgroup, chance.below(2) == 0),
            4 => {
                let bandwidth = Bandwidth {
                    quota: Some(chance.below(200_000)),
                    burst: chance.below(50_000),
                    ..Bandwidth::default()
                };
                CgroupChange::Bandwidth(cgroup, bandwidth)
            }
            5..8 => CgroupChange::MoveThread(id, cgroup),
            _ => CgroupChange::MoveProcess(id, cgroup),
        };
        sim.plan(at, Change::Cgroup(change));
    }
}

fn play(
    seed: u64,
    cpus: usize,
    kick_ns: u64,
    timer_late_ns: u64,
    reserved: bool,
    cgroups: bool,
) -> (u64, Vec<crate::Switch>) {
    let probe = Probe::on_if(cgroups);
    let mut sim = Simulation::new(Settings {
        cpus,
        kick_ns,
        timer_late_ns,
        checked: true,
        traced: true,
        ..Settings::default()
    });
    let mut chance = Chance::new(seed);
    // what becomes of reservations is the scheduler's own business, which no stand-in can do
    let hotplug = sim.knows_hotplug() || !reserved;
    STAND_IN.with(|s| *s.borrow_mut() = Some(leave_to_the_kernel));
    for ino in 1..=if reserved { SPECS } else { 0 } {
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
    (0..CHANGES).for_each(|_| disturb(&mut sim, &mut chance, cpus as u64, hotplug));
    if let Some(probe) = &probe {
        probe.refuse(Refuse::Some(Chance::new(seed ^ 1), 20));
        disturb_cgroups(&mut sim, &mut chance);
    }
    sim.run_until(LENGTH);
    if let Some(probe) = probe {
        // what the scheduler was told, one by one, is what there is
        let told = (0..sim.tasks()).map(|id| probe.cgroup_of(id));
        assert!(told.eq((0..sim.tasks()).map(|id| Some(sim.cgroup_of(id)))));
        for c in sim.state.cgroups.iter() {
            assert_eq!(probe.weight_of(c.id()).is_some(), c.is_there());
        }
    }
    (sim.events(), sim.trace().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Whatever they do, the invariants hold (checked after every event), timers late or not. The same lives
    /// each time: more with another seed.
    #[test]
    fn chaos_keeps_the_invariants(seed: u64, cpus in 1usize..5, kick_us in 0u64..20, late_us in prop_oneof![Just(0u64), 0u64..2000]) {
        let (events, _) = play(seed, cpus, kick_us * 1000, late_us * 1000, true, false);
        prop_assert!(events > 0);
    }

    /// CPUs leave and come; best-effort tasks only, unless the scheduler has its own callbacks for that.
    #[test]
    fn chaos_with_hotplug_keeps_the_invariants(seed: u64, cpus in 2usize..6, kick_us in 0u64..20) {
        let (events, _) = play(seed, cpus, kick_us * 1000, 0, false, false);
        prop_assert!(events > 0);
    }

    /// Tasks are moved between cgroups that come and go, and the scheduler refuses some of it; CPUs leave and
    /// come meanwhile.
    #[test]
    fn chaos_with_cgroups_keeps_the_invariants(seed: u64, cpus in 1usize..5, kick_us in 0u64..20, reserved: bool) {
        let (events, _) = play(seed, cpus, kick_us * 1000, 0, reserved, true);
        prop_assert!(events > 0);
    }
}

#[test]
fn chaos_replays_exactly() {
    let played = || play(42, 3, 1000, 0, true, true);
    assert!(played() == played());
    assert!(
        played() != play(42, 3, 1000, 0, true, false),
        "moves make a difference"
    );
}
