//! The invariants hold with random changes of domains while loads run in them: policies,
//! reservations, `cpu.max`, `cpu.idle`, weights, cgroups that are created and removed, tasks that
//! are moved and whose affinity changes, CPU hotplug.
//!
//! `plan.rs` draws the changes, `search.rs` finds the few changes that break an invariant.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::domains::{domain, had, hogs, near};
use super::probe::{Probe, Refuse};
use super::{reserve, MS, SEC};
use crate::rng::Rng;
use crate::{
    Bandwidth, CgroupChange, CgroupId, Change, DomainChange, DomainPolicy, Place, Settings,
    Simulation, Switch, TaskId, ROOT,
};
use plan::{Plan, Planned, Setting, ALL, KINDS};

mod plan;
mod search;

/// Length of a run, ns.
const LENGTH: u64 = 3 * SEC;
const SPECS: u64 = 3;
/// No tasks are started while this many are alive.
const MOST_ALIVE: usize = 60;

/// A killed task has exited after this time, ns: it is rescued after 10 s, and then only exits.
const ENDS: u64 = 15 * SEC;

impl Plan {
    fn machine(&self) -> Simulation {
        let mut rng = Rng::new(self.seed);
        let mut sim = Simulation::new(Settings {
            cpus: self.cpus,
            kick_ns: rng.below(20_000),
            timer_late_ns: rng.below(2) * rng.below(2_000_000),
            checked: true,
            traced: true,
            ..Settings::default()
        });
        for ino in 1..=SPECS {
            let period = 5 * MS + rng.below(100 * MS);
            sim.spec(ino, reserve(period / 20 + rng.below(period / 4), period));
        }
        for parent in [0, 0, 1, 3, 2] {
            let _ = sim.state.change_cgroup(&CgroupChange::Create(parent));
        }
        sim
    }

    /// Make all changes, then check that they have left nothing behind. Returns the number of
    /// events and the trace.
    fn play(&self) -> (u64, Vec<Switch>) {
        let probe = Probe::on();
        let mut sim = self.machine();
        probe.refuse(Refuse::Some(Rng::new(self.seed ^ 1), 20));
        let meet = [0, 3, 30][Rng::stream(self.seed, 1).below(3) as usize];
        sim.state.rivals.meet(meet);
        for (at, _, change) in &self.changes {
            sim.run_until((*at).max(sim.now()));
            make(&mut sim, change);
            probe.calls(); // free the memory
        }
        sim.run_until(self.length.max(sim.now()));
        let played = (sim.events(), sim.trace().to_vec());
        probe.refuse(Refuse::None);
        sim.state.rivals.meet(0);
        check_as_new(&mut sim, self.cpus);
        played
    }
}

fn cgroups(sim: &Simulation) -> Vec<CgroupId> {
    let there = sim.state.cgroups.iter().filter(|c| c.is_online());
    there.map(|c| c.id()).collect()
}

fn alive(sim: &Simulation) -> Vec<TaskId> {
    let all = 0..sim.tasks();
    all.filter(|&id| sim.place(id) != Place::Exited).collect()
}

/// Make a change, which the scheduler or the kernel may refuse.
fn make(sim: &mut Simulation, change: &Planned) {
    let (groups, tasks) = (cgroups(sim), alive(sim));
    let group = |n: &usize| groups[n % groups.len()];
    let task = |n: &usize| tasks.get(n % tasks.len().max(1)).copied().unwrap_or(0);
    let change = match change {
        Planned::Domain(n, change) => {
            let _ = sim.change_domain(group(n), *change);
            return;
        }
        Planned::Start(n, load, allowed, weight) => {
            if tasks.len() < MOST_ALIVE {
                let program = load.program(sim.now());
                let started = sim.start_in(group(n), *weight, allowed.mask(), program);
                assert!(started.is_ok());
            }
            return;
        }
        Planned::Cgroup(n, Setting::Max(max)) => {
            Change::Cgroup(CgroupChange::Bandwidth(group(n), *max))
        }
        Planned::Cgroup(n, Setting::Idle(idle)) => {
            Change::Cgroup(CgroupChange::Idle(group(n), *idle))
        }
        Planned::Cgroup(n, Setting::Weight(weight)) => {
            Change::Cgroup(CgroupChange::Weight(group(n), *weight))
        }
        Planned::Affinity(n, cpus) => Change::Affinity(task(n), cpus.mask()),
        Planned::Nice(n, weight) => Change::Weight(task(n), *weight),
        Planned::Move(n, to, true) => Change::Cgroup(CgroupChange::MoveProcess(task(n), group(to))),
        Planned::Move(n, to, false) => Change::Cgroup(CgroupChange::MoveThread(task(n), group(to))),
        Planned::Remove(n) => Change::Cgroup(CgroupChange::Remove(group(n))),
        Planned::Create(n) => Change::Cgroup(CgroupChange::Create(group(n))),
        Planned::Kill(n, false) => Change::Kill(task(n)),
        Planned::Kill(n, true) => Change::KillGroup(task(n)),
        Planned::Online(cpu, true) => Change::Online(*cpu),
        Planned::Online(cpu, false) => Change::Offline(*cpu),
    };
    sim.change(change);
}

/// Check that the scheduler is in its initial state: after all tasks have exited and all cgroups
/// are removed, nothing is reserved, limited or counted any more, and new domains share by weight.
fn check_as_new(sim: &mut Simulation, cpus: usize) {
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
    groups.reverse(); // children first
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

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// The invariants hold after every event, and in the end nothing is left of the changes.
    #[test]
    fn changes_of_domains_keep_the_invariants(seed: u64, cpus in 1usize..5) {
        let (events, _) = Plan::new(seed, cpus, LENGTH, ALL).play();
        prop_assert!(events > 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let played = |kinds| Plan::new(42, 3, SEC, kinds).play();
    assert!(played(ALL) == played(ALL));
    for (kind, (name, _)) in KINDS.iter().enumerate() {
        let without = played(ALL & !(1 << kind));
        assert!(played(ALL) != without, "{name} makes a difference");
    }
}

/// A task of a limited domain stops before it has run, and the CPU has chosen to be idle, since the
/// task held the last of the quota. That comes back, and the CPU chooses again. (If plans are drawn
/// in another way, this one needs another seed: without the kick in tree_end_grant() it fails.)
#[test]
fn a_cpu_that_gives_a_quota_back_chooses_again() {
    let (events, _) = Plan::new(125, 1, LENGTH, ALL).play();
    assert!(events > 0);
}

/// A task was moved out of a domain with a server while it slept. It wakes up on that server's CPU,
/// for which ops.select_cpu did not look for an idle one. Then ops.enqueue asks one to help. (The
/// seed: as above. It fails if enqueue looks at the task's server after domain_draw().)
#[test]
fn a_task_that_has_left_a_server_asks_an_idle_cpu() {
    let mut plan = Plan::new(15_434_095_159_936_108_582, 4, LENGTH, ALL);
    plan.length = 200 * MS;
    plan.changes.retain(|(at, ..)| *at < 200 * MS);
    assert!(plan.play().0 > 0);
}

/// An idle CPU is asked to help with a reserved task. On its way to a choice it gets a task of its
/// own, so another idle CPU is asked. (The seed: as above. Without help_ends() it fails.)
#[test]
fn a_cpu_that_cannot_help_any_more_asks_another() {
    let (events, _) = Plan::new(16_546_882_168_009_479_509, 4, LENGTH, ALL).play();
    assert!(events > 0);
}
