//! Random changes of domains while loads run in them, against the invariants: policies, reservations, `cpu.max`,
//! `cpu.idle`, weights, cgroups that come and go, tasks that move and whose affinity changes, CPUs that leave and come.
//!
//! All changes are drawn before the play, each kind by a chance of its own. So a play can be repeated without some of them:
//! `search` (not run by default) plays long ones, and names the few changes that break an invariant.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::chaos::{Life, MOST_TASKS};
use super::domains::{domain, had, hogs, near};
use super::probe::{Probe, Refuse};
use super::{reserve, MS, SEC};
use crate::chance::Chance;
use crate::workload::{hog, on_off, Periodic};
use crate::{
    Bandwidth, CgroupChange, CgroupId, Change, CpuMask, DomainChange, DomainPolicy, Place, Program,
    Settings, Simulation, Switch, TaskId, ROOT,
};

/// What a play of the suite lasts, ns.
const LENGTH: u64 = 3 * SEC;
/// Tasks at the beginning.
const TASKS: u64 = 10;
const SPECS: u64 = 3;
/// More tasks are not started while so many are alive.
const MOST_ALIVE: usize = 60;

/// Each task that is killed has ended by then: who waits longer is rescued, and all that is left is to exit.
const ENDS: u64 = 15 * SEC;

/// Kinds of change, with the mean time between two of them, ms.
const KINDS: [(&str, u64); 12] = [
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
const ALL: u32 = (1 << KINDS.len()) - 1;

/// One change. Tasks and cgroups are so-manieth of those that are there when it is made.
#[derive(Clone, Debug)]
enum Act {
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
enum Setting {
    Max(Bandwidth),
    Idle(bool),
    Weight(u32),
}

#[derive(Clone, Copy, Debug)]
enum Load {
    Hog(u64),
    OnOff(u64, u64),
    Periodic(u64, u64, u64),
    Life(u64),
}

/// What happens in one play, and on which machine.
#[derive(Clone, Debug)]
struct Plot {
    seed: u64,
    cpus: usize,
    length: u64,
    acts: Vec<(u64, usize, Act)>,
}

/// Of 2^0 to 2^`bits`, small ones as often as large ones.
fn spread(chance: &mut Chance, bits: u64) -> u64 {
    let shift = chance.below(bits);
    (1 << shift) + chance.below(1 << shift)
}

/// The CPUs of a mask, the least bit is CPU 0.
#[derive(Clone, Copy, Debug)]
struct Cpus(u64);

impl Cpus {
    fn mask(self) -> CpuMask {
        let mut mask = CpuMask::first(0);
        (0..64).for_each(|cpu| mask.set(cpu, self.0 >> cpu & 1 == 1));
        mask
    }
}

fn some_cpus(chance: &mut Chance, cpus: u64) -> Cpus {
    match chance.below(3) {
        0 => Cpus((1 << cpus) - 1),
        1 => Cpus(1 << chance.below(cpus)),
        _ => Cpus(1 + chance.below((1 << cpus) - 1)),
    }
}

fn bandwidth(chance: &mut Chance, cpus: u64) -> Bandwidth {
    let period = (500 * spread(chance, 11)).clamp(1_000, 1_000_000); // us
    let quota = (period * (1 + chance.below(100 * cpus)) / 100).max(1_000);
    let burst = [0, chance.below(quota + 1), quota][chance.below(3) as usize];
    let none = chance.below(4) == 0;
    Bandwidth {
        period,
        quota: (!none).then_some(quota),
        burst: if none { 0 } else { burst },
    }
}

fn reservation(chance: &mut Chance) -> DomainChange {
    let interval = (MS * spread(chance, 13)).min(10 * SEC);
    match chance.below(8) {
        0 => DomainChange::Fraction(0),
        1 => DomainChange::Reservation {
            runtime: 0,
            interval: 0,
        },
        2..5 => DomainChange::Fraction(chance.below(600_000) as u32),
        5 => DomainChange::Fraction(chance.below(1_100_000) as u32), // too much, or out of range
        _ => DomainChange::Reservation {
            runtime: 1 + interval * chance.below(70) / 100,
            interval,
        },
    }
}

impl Load {
    fn any(chance: &mut Chance) -> Self {
        let ino = chance.below(2 * SPECS); // half of them have no spec, 0 is none at all
        match chance.below(5) {
            0 => Self::Hog(ino),
            1 => Self::OnOff(1000 * spread(chance, 15), 1000 * spread(chance, 15)),
            2 => Self::Periodic(
                ino,
                MS + chance.below(20 * MS),
                30 * MS + chance.below(70 * MS),
            ),
            _ => Self::Life(chance.any()),
        }
    }

    fn program(self, now: u64) -> Box<dyn Program> {
        match self {
            Self::Hog(ino) => Box::new(hog(ino)),
            Self::OnOff(on, off) => Box::new(on_off(0, on, off)),
            Self::Periodic(ino, work, period) => {
                Box::new(Periodic::new(ino, work, period, now + period).0)
            }
            Self::Life(seed) => {
                let born = Rc::new(Cell::new(MOST_TASKS - 4)); // a small family
                Box::new(Life::new(seed, &born))
            }
        }
    }
}

impl Plot {
    fn new(seed: u64, cpus: usize, length: u64, kinds: u32) -> Self {
        let mut acts = Vec::new();
        let mut chance = Chance::part(seed, KINDS.len() as u64);
        for _ in 0..TASKS {
            Self::draw(&mut acts, &mut chance, 0, START, cpus as u64);
        }
        for (kind, &(_, every)) in KINDS.iter().enumerate() {
            let mut chance = Chance::part(seed, kind as u64);
            let mut at = 0;
            loop {
                at += 1 + chance.below(2 * every * MS);
                if at >= length || kinds >> kind & 1 == 0 {
                    break;
                }
                Self::draw(&mut acts, &mut chance, at, kind, cpus as u64);
            }
        }
        acts.sort_by_key(|&(at, kind, _)| (at, kind));
        Self {
            seed,
            cpus,
            length,
            acts,
        }
    }

    fn draw(
        acts: &mut Vec<(u64, usize, Act)>,
        chance: &mut Chance,
        at: u64,
        kind: usize,
        cpus: u64,
    ) {
        use DomainPolicy::{Default, Fair, Fifo, Mtr, Sfq, Wrr};
        let (one, other) = (chance.any() as usize >> 8, chance.any() as usize >> 8);
        let act = match KINDS[kind].0 {
            "policy" => {
                let policy = [Default, Sfq, Mtr, Wrr, Fair, Fifo][chance.below(6) as usize];
                Act::Domain(one, DomainChange::Policy(policy))
            }
            "reservation" => Act::Domain(one, reservation(chance)),
            "max" => Act::Cgroup(one, Setting::Max(bandwidth(chance, cpus))),
            "idle" => Act::Cgroup(one, Setting::Idle(chance.below(2) == 0)),
            "weight" => Act::Cgroup(one, Setting::Weight(spread(chance, 14) as u32)),
            "affinity" => Act::Affinity(one, some_cpus(chance, cpus)),
            "nice" => Act::Nice(one, spread(chance, 13) as u32),
            "move" => Act::Move(one, other, chance.below(2) == 0),
            "tree" if chance.below(2) == 0 => Act::Remove(one),
            "tree" => Act::Create(one),
            "start" => {
                let load = Load::any(chance);
                Act::Start(
                    one,
                    load,
                    some_cpus(chance, cpus),
                    spread(chance, 10) as u32,
                )
            }
            "kill" => Act::Kill(one, chance.below(3) == 0),
            _ => {
                let cpu = chance.below(cpus) as usize;
                let back = at + chance.below(2 * SEC);
                acts.push((back, kind, Act::Online(cpu, true)));
                Act::Online(cpu, false)
            }
        };
        acts.push((at, kind, act));
    }

    fn machine(&self) -> Simulation {
        let mut chance = Chance::new(self.seed);
        let mut sim = Simulation::new(Settings {
            cpus: self.cpus,
            kick_ns: chance.below(20_000),
            timer_late_ns: chance.below(2) * chance.below(2_000_000),
            checked: true,
            traced: true,
            ..Settings::default()
        });
        for ino in 1..=SPECS {
            let period = 5 * MS + chance.below(100 * MS);
            sim.spec(ino, reserve(period / 20 + chance.below(period / 4), period));
        }
        for parent in [0, 0, 1, 3, 2] {
            let _ = sim.state.change_cgroup(&CgroupChange::Create(parent));
        }
        sim
    }

    /// Play it all, and then what there is left of it is looked at. What ran.
    fn play(&self) -> (u64, Vec<Switch>) {
        let probe = Probe::on();
        let mut sim = self.machine();
        probe.refuse(Refuse::Some(Chance::new(self.seed ^ 1), 20));
        for (at, _, act) in &self.acts {
            sim.run_until((*at).max(sim.now()));
            make(&mut sim, act);
            probe.said(); // else it is kept for ever
        }
        sim.run_until(self.length.max(sim.now()));
        let played = (sim.events(), sim.trace().to_vec());
        probe.refuse(Refuse::Nobody);
        is_as_new(&mut sim, self.cpus);
        played
    }
}

fn cgroups(sim: &Simulation) -> Vec<CgroupId> {
    let there = sim.state.cgroups.iter().filter(|c| c.is_there());
    there.map(|c| c.id()).collect()
}

fn alive(sim: &Simulation) -> Vec<TaskId> {
    let all = 0..sim.tasks();
    all.filter(|&id| sim.place(id) != Place::Gone).collect()
}

/// Make a change. Whether it was possible is the scheduler's, or the kernel's, to say.
fn make(sim: &mut Simulation, act: &Act) {
    let (groups, tasks) = (cgroups(sim), alive(sim));
    let group = |n: &usize| groups[n % groups.len()];
    let task = |n: &usize| tasks.get(n % tasks.len().max(1)).copied().unwrap_or(0);
    let change = match act {
        Act::Domain(n, change) => {
            let _ = sim.change_domain(group(n), *change);
            return;
        }
        Act::Start(n, load, allowed, weight) => {
            if tasks.len() < MOST_ALIVE {
                let program = load.program(sim.now());
                let started = sim.start_in(group(n), *weight, allowed.mask(), program);
                assert!(started.is_ok());
            }
            return;
        }
        Act::Cgroup(n, Setting::Max(max)) => {
            Change::Cgroup(CgroupChange::Bandwidth(group(n), *max))
        }
        Act::Cgroup(n, Setting::Idle(idle)) => Change::Cgroup(CgroupChange::Idle(group(n), *idle)),
        Act::Cgroup(n, Setting::Weight(weight)) => {
            Change::Cgroup(CgroupChange::Weight(group(n), *weight))
        }
        Act::Affinity(n, cpus) => Change::Affinity(task(n), cpus.mask()),
        Act::Nice(n, weight) => Change::Weight(task(n), *weight),
        Act::Move(n, to, true) => Change::Cgroup(CgroupChange::MoveProcess(task(n), group(to))),
        Act::Move(n, to, false) => Change::Cgroup(CgroupChange::MoveThread(task(n), group(to))),
        Act::Remove(n) => Change::Cgroup(CgroupChange::Remove(group(n))),
        Act::Create(n) => Change::Cgroup(CgroupChange::Create(group(n))),
        Act::Kill(n, false) => Change::Kill(task(n)),
        Act::Kill(n, true) => Change::KillGroup(task(n)),
        Act::Online(cpu, true) => Change::Online(*cpu),
        Act::Online(cpu, false) => Change::Offline(*cpu),
    };
    sim.change(change);
}

/// All that was reserved, limited and counted is given back: once everything has ended, shares are the weights.
fn is_as_new(sim: &mut Simulation, cpus: usize) {
    for cpu in 0..cpus {
        sim.change(Change::Online(cpu));
    }
    let mut groups = cgroups(sim);
    for &id in groups.iter().filter(|&&id| id != ROOT) {
        sim.set_cgroup_bandwidth(id, Bandwidth::default()).unwrap();
        sim.set_cgroup_idle(id, false).unwrap();
    }
    for id in alive(sim) {
        sim.change(Change::Kill(id));
    }
    let begun = sim.now();
    while let [id, ..] = alive(sim)[..] {
        sim.run_until(sim.now() + 100 * MS);
        let waits = sim.now() - begun;
        assert!(waits < ENDS, "task {id} does not end: {:?}", sim.place(id));
    }
    sim.change_domain(ROOT, DomainChange::Policy(DomainPolicy::Default))
        .unwrap();
    groups.reverse(); // those below first
    for id in groups.into_iter().filter(|&id| id != ROOT) {
        sim.remove_cgroup(id).unwrap();
    }
    let (x, y) = (domain(sim, ROOT, "x", 100), domain(sim, ROOT, "y", 300));
    for change in [950_000, 0].map(DomainChange::Fraction) {
        sim.change_domain(y, change).unwrap();
    }
    let (some, most) = (hogs(sim, x, 2 * cpus), hogs(sim, y, 2 * cpus));
    sim.run_until(sim.now() + SEC);
    let before = [&some, &most].map(|tasks| had(sim, tasks, 1_000_000));
    sim.run_until(sim.now() + 4 * SEC);
    let after = [&some, &most].map(|tasks| had(sim, tasks, 1_000_000));
    let all = 4 * SEC * cpus as u64 / 1_000_000;
    let ran = [0, 1].map(|i| (after[i] - before[i]) / all);
    near(ran[0], 250_000, 20_000);
    near(ran[1], 750_000, 20_000);
}

/// The panic's text without its numbers but with whether it is of one who was rescued (`DSQ_RESCUE`), and whole.
fn broken(plot: &Plot) -> Option<(String, String)> {
    let payload = catch_unwind(AssertUnwindSafe(|| plot.play())).err()?;
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.unwrap_or_else(|| format!("{:?}", payload.downcast_ref::<&str>()));
    let kind = text.split(|c: char| c.is_ascii_digit()).collect();
    let kind = if text.contains("Queue(2)") {
        format!("{kind} rescued")
    } else {
        kind
    };
    Some((kind, text))
}

/// The same with fewer changes: as many are left out at once as can be, half of them first.
fn shrink(mut plot: Plot, how: &str) -> Plot {
    let same = |plot: &Plot| broken(plot).is_some_and(|(kind, _)| kind == how);
    for kind in 0..KINDS.len() {
        let mut less = plot.clone();
        less.acts.retain(|act| act.1 != kind || act.0 == 0);
        if less.acts.len() < plot.acts.len() && same(&less) {
            plot = less;
        }
    }
    let mut size = plot.acts.len().div_ceil(2);
    loop {
        let mut at = 0;
        let before = plot.acts.len();
        while at < plot.acts.len() {
            let mut less = plot.clone();
            less.acts.drain(at..(at + size).min(plot.acts.len()));
            if same(&less) {
                plot = less;
            } else {
                at += size;
            }
        }
        println!("    {} changes are left", plot.acts.len());
        if size == 1 && plot.acts.len() == before {
            return plot;
        }
        size = (size / 2).max(1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Whatever is changed, the invariants hold after every event, and in the end nothing is left of it.
    #[test]
    fn changes_of_domains_keep_the_invariants(seed: u64, cpus in 1usize..5) {
        let (events, _) = Plot::new(seed, cpus, LENGTH, ALL).play();
        prop_assert!(events > 0);
    }
}

#[test]
fn changes_of_domains_replay_exactly() {
    let played = |kinds| Plot::new(42, 3, SEC, kinds).play();
    assert!(played(ALL) == played(ALL));
    for (kind, (name, _)) in KINDS.iter().enumerate() {
        let without = played(ALL & !(1 << kind));
        assert!(played(ALL) != without, "{name} makes a difference");
    }
}

/// Long plays: `SEED=1 SEEDS=20 SECONDS=60 cargo test -p aplomb-sim --lib -- --ignored --nocapture search`. CPUS, if not by the
/// seed; ACTS: seconds of changes, if nothing is to change after them; SHRINK=0: do not look for the few changes that it takes.
#[test]
#[ignore = "minutes"]
fn search() {
    let given = |name: &str, or: u64| {
        let text = std::env::var(name).ok();
        text.map_or(or, |text| text.parse().expect(name))
    };
    let (first, length) = (given("SEED", 1), given("SECONDS", 60) * SEC);
    let mut found = 0;
    for seed in first..first + given("SEEDS", 1) {
        let cpus = given("CPUS", 1 + seed % 4) as usize;
        let mut plot = Plot::new(seed, cpus, given("ACTS", length / SEC) * SEC, ALL);
        plot.length = length;
        let begun = std::time::Instant::now();
        let Some((how, text)) = broken(&plot) else {
            println!("seed {seed}, {cpus} CPUs: kept, {:?}", begun.elapsed());
            continue;
        };
        println!("seed {seed}, {cpus} CPUs: {text}");
        found += 1;
        if given("SHRINK", 1) == 1 {
            let least = shrink(plot, &how);
            println!("{:#?}", broken(&least).map(|(_, text)| text));
            for (at, kind, act) in &least.acts {
                println!("    {at} ns, {}: {act:?}", KINDS[*kind].0);
            }
        }
    }
    assert_eq!(found, 0, "of the seeds");
}
