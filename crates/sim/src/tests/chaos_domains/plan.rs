//! Draws the changes of a run before it begins. Each kind of change has random numbers of its own,
//! so a run can be repeated without some of the kinds.

use std::cell::Cell;
use std::rc::Rc;

use super::SPECS;
use crate::rng::Rng;
use crate::tests::chaos::{Life, MOST_TASKS};
use crate::tests::{MS, SEC};
use crate::workload::{hog, on_off, Periodic};
use crate::{Bandwidth, CpuMask, DomainChange, DomainPolicy, Program};

/// Number of tasks at the beginning.
const TASKS: u64 = 10;

/// Kinds of change, with the mean time between two of them, ms.
pub(super) const KINDS: [(&str, u64); 12] = [
    ("policy", 60),
    ("reservation", 60),
    ("max", 60),
    ("idle", 200),
    ("weight", 100),
    ("affinity", 40),
    ("nice", 200),
    ("move", 30),
    ("tree", 100),
    ("start", 100),
    ("kill", 150),
    ("hotplug", 400),
];
const START: usize = 9;
pub(super) const ALL: u32 = (1 << KINDS.len()) - 1;

/// A change. The numbers of tasks and cgroups are indices, modulo their number, into those that
/// exist when the change is made.
#[derive(Clone, Debug)]
pub(super) enum Planned {
    Domain(usize, DomainChange),
    Cgroup(usize, Setting),
    Affinity(usize, Cpus),
    Nice(usize, u32),
    Move(usize, usize, bool),
    Remove(usize),
    Create(usize),
    Start(usize, Load, Cpus, u32),
    Kill(usize, bool),
    Online(usize, bool),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Setting {
    Max(Bandwidth),
    Idle(bool),
    Weight(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    Hog(u64),
    OnOff(u64, u64),
    Periodic(u64, u64, u64),
    Life(u64),
}

/// The plan of a run: its machine, and its changes with their times, ns, and kinds.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub seed: u64,
    pub cpus: usize,
    pub length: u64,
    pub changes: Vec<(u64, usize, Planned)>,
}

/// 1 to 2^`bits`, each order of magnitude with the same probability.
fn spread(rng: &mut Rng, bits: u64) -> u64 {
    let shift = rng.below(bits);
    (1 << shift) + rng.below(1 << shift)
}

/// A set of CPUs; bit 0 is CPU 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpus(u64);

impl Cpus {
    pub fn mask(self) -> CpuMask {
        let mut mask = CpuMask::first(0);
        (0..64).for_each(|cpu| mask.set(cpu, self.0 >> cpu & 1 == 1));
        mask
    }
}

fn some_cpus(rng: &mut Rng, cpus: u64) -> Cpus {
    match rng.below(3) {
        0 => Cpus((1 << cpus) - 1),
        1 => Cpus(1 << rng.below(cpus)),
        _ => Cpus(1 + rng.below((1 << cpus) - 1)),
    }
}

fn bandwidth(rng: &mut Rng, cpus: u64) -> Bandwidth {
    let period = (500 * spread(rng, 11)).clamp(1_000, 1_000_000); // us
    let quota = (period * (1 + rng.below(100 * cpus)) / 100).max(1_000);
    let burst = [0, rng.below(quota + 1), quota][rng.below(3) as usize];
    let none = rng.below(4) == 0;
    Bandwidth {
        period,
        quota: (!none).then_some(quota),
        burst: if none { 0 } else { burst },
    }
}

fn reservation(rng: &mut Rng) -> DomainChange {
    let interval = (MS * spread(rng, 13)).min(10 * SEC);
    match rng.below(8) {
        0 => DomainChange::Fraction(0),
        1 => DomainChange::Reservation {
            runtime: 0,
            interval: 0,
        },
        2..5 => DomainChange::Fraction(rng.below(600_000) as u32),
        5 => DomainChange::Fraction(rng.below(1_100_000) as u32), // too much, or out of range
        _ => DomainChange::Reservation {
            runtime: 1 + interval * rng.below(70) / 100,
            interval,
        },
    }
}

impl Load {
    fn random(rng: &mut Rng) -> Self {
        let ino = rng.below(2 * SPECS); // half of the programs have no spec; 0: no program
        match rng.below(5) {
            0 => Self::Hog(ino),
            1 => Self::OnOff(1000 * spread(rng, 15), 1000 * spread(rng, 15)),
            2 => Self::Periodic(ino, MS + rng.below(20 * MS), 30 * MS + rng.below(70 * MS)),
            _ => Self::Life(rng.next_u64()),
        }
    }

    pub fn program(self, now: u64) -> Box<dyn Program> {
        match self {
            Self::Hog(ino) => Box::new(hog(ino)),
            Self::OnOff(on, off) => Box::new(on_off(0, on, off)),
            Self::Periodic(ino, work, period) => {
                Box::new(Periodic::new(ino, work, period, now + period).0)
            }
            Self::Life(seed) => {
                let born = Rc::new(Cell::new(MOST_TASKS - 4)); // so that it has few children
                Box::new(Life::new(seed, &born))
            }
        }
    }
}

impl Plan {
    pub fn new(seed: u64, cpus: usize, length: u64, kinds: u32) -> Self {
        let mut changes = Vec::new();
        let mut rng = Rng::stream(seed, KINDS.len() as u64);
        for _ in 0..TASKS {
            Self::draw(&mut changes, &mut rng, 0, START, cpus as u64);
        }
        for (kind, &(_, every)) in KINDS.iter().enumerate() {
            let mut rng = Rng::stream(seed, kind as u64);
            let mut at = 0;
            loop {
                at += 1 + rng.below(2 * every * MS);
                if at >= length || kinds >> kind & 1 == 0 {
                    break;
                }
                Self::draw(&mut changes, &mut rng, at, kind, cpus as u64);
            }
        }
        changes.sort_by_key(|&(at, kind, _)| (at, kind));
        Self {
            seed,
            cpus,
            length,
            changes,
        }
    }

    fn draw(
        changes: &mut Vec<(u64, usize, Planned)>,
        rng: &mut Rng,
        at: u64,
        kind: usize,
        cpus: u64,
    ) {
        use DomainPolicy::{Default, Fair, Fifo, Mtr, Sfq, Wrr};
        let (one, other) = (rng.next_u64() as usize >> 8, rng.next_u64() as usize >> 8);
        let change = match KINDS[kind].0 {
            "policy" => {
                let policy = [Default, Sfq, Mtr, Wrr, Fair, Fifo][rng.below(6) as usize];
                Planned::Domain(one, DomainChange::Policy(policy))
            }
            "reservation" => Planned::Domain(one, reservation(rng)),
            "max" => Planned::Cgroup(one, Setting::Max(bandwidth(rng, cpus))),
            "idle" => Planned::Cgroup(one, Setting::Idle(rng.below(2) == 0)),
            "weight" => Planned::Cgroup(one, Setting::Weight(spread(rng, 14) as u32)),
            "affinity" => Planned::Affinity(one, some_cpus(rng, cpus)),
            "nice" => Planned::Nice(one, spread(rng, 13) as u32),
            "move" => Planned::Move(one, other, rng.below(2) == 0),
            "tree" if rng.below(2) == 0 => Planned::Remove(one),
            "tree" => Planned::Create(one),
            "start" => {
                let load = Load::random(rng);
                Planned::Start(one, load, some_cpus(rng, cpus), spread(rng, 10) as u32)
            }
            "kill" => Planned::Kill(one, rng.below(3) == 0),
            _ => {
                let cpu = rng.below(cpus) as usize;
                let back = at + rng.below(2 * SEC);
                changes.push((back, kind, Planned::Online(cpu, true)));
                Planned::Online(cpu, false)
            }
        };
        changes.push((at, kind, change));
    }
}
