//! Ordinary tasks that sleep most of the time are served when they wake up (`policy/fair.h` 3).

use std::cell::RefCell;
use std::rc::Rc;

use super::cgroups::machine;
use super::domains::{domain, group, had, hogs, near};
use super::{reserve, MS, SEC};
use crate::workload::{hog, on_off, Periodic};
use crate::{CgroupId, Change, CpuMask, Program, Simulation, Step, ROOT};

const WORK: u64 = MS;
const FAIR_SLICE: u64 = 4 * MS;
/// A task that has just begun keeps the CPU from one that is rested for so long.
const TURN: u64 = MS;
/// Of the wake-up itself, and of a switch.
const ALLOWED: u64 = MS / 20;

/// Starts a task of 1 ms every 50 ms in `cgroup`, beside hogs that leave no CPU of `cpus` idle.
/// Returns its response times, the first second left out, ns.
fn responses(
    sim: &mut Simulation,
    cgroup: CgroupId,
    cpus: CpuMask,
    hogs_are: CgroupId,
) -> Vec<u64> {
    hogs(sim, hogs_are, 10);
    let (task, jobs) = Periodic::new(0, WORK, 50 * MS, SEC);
    sim.start_in(cgroup, 100, cpus, Box::new(task)).unwrap();
    sim.run_until(20 * SEC);
    let jobs = jobs.borrow();
    assert!(jobs.response.len() > 350, "{}", jobs.response.len());
    jobs.response.clone()
}

/// A wake-up on a CPU whose task has just begun its turn may wait for the rest of it: on several
/// CPUs that task's virtual time may be earlier than the queue's.
fn nearly_all_at_once(mut found: Vec<u64>) {
    found.sort_unstable();
    let most = found[found.len() * 99 / 100];
    assert!(most <= WORK + ALLOWED, "99 of 100: {most} ns");
    let worst = found[found.len() - 1];
    assert!(worst <= WORK + FAIR_SLICE + ALLOWED, "{worst} ns");
}

#[test]
fn a_sleeper_preempts_hogs() {
    for cpus in [1, 2, 8] {
        let mut sim = machine(cpus);
        nearly_all_at_once(responses(&mut sim, ROOT, CpuMask::first(cpus), ROOT));
    }
}

#[test]
fn a_sleeper_preempts_hogs_of_its_domain() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus);
        let a = domain(&mut sim, ROOT, "a", 100);
        nearly_all_at_once(responses(&mut sim, a, CpuMask::first(cpus), a));
    }
}

#[test]
fn a_sleeper_preempts_hogs_of_another_domain() {
    for cpus in [1, 2, 8] {
        let mut sim = machine(cpus);
        let a = domain(&mut sim, ROOT, "a", 100);
        let b = domain(&mut sim, ROOT, "b", 100);
        nearly_all_at_once(responses(&mut sim, b, CpuMask::first(cpus), a));
    }
}

/// The sleeper may run on one CPU only, as a kernel thread of that CPU, or all the hogs do.
#[test]
fn a_sleeper_preempts_hogs_of_the_other_kind() {
    for cpus in [2, 8] {
        for sleeper_is_pinned in [false, true] {
            for (own, hogs_are) in [("", ""), ("a", "a"), ("", "a"), ("b", "a")] {
                let mut sim = machine(cpus);
                let mut group = |name: &str| match name {
                    "" => ROOT,
                    name => domain(&mut sim, ROOT, name, 100),
                };
                let hogs_are_in = group(hogs_are);
                let own_group = if own == hogs_are {
                    hogs_are_in
                } else {
                    group(own)
                };
                let late = late_beside(&mut sim, cpus, sleeper_is_pinned, own_group, hogs_are_in);
                assert!(
                    late <= 0.01,
                    "{late}: {cpus} CPUs, sleeper pinned {sleeper_is_pinned}, in {own:?} beside {hogs_are:?}",
                );
            }
        }
    }
}

/// Returns which part of a sleeper's wake-ups in `own` were late, beside two hogs for each CPU in
/// `hogs_are`.
fn late_beside(
    sim: &mut Simulation,
    cpus: usize,
    sleeper_is_pinned: bool,
    own: CgroupId,
    hogs_are: CgroupId,
) -> f64 {
    let mask = |pinned: bool, cpu: usize| {
        if pinned {
            CpuMask::only(cpu)
        } else {
            CpuMask::first(cpus)
        }
    };
    let (task, delays) = sleeper();
    sim.start_in(own, 100, mask(sleeper_is_pinned, 0), Box::new(task))
        .unwrap();
    for i in 0..2 * cpus {
        sim.start_in(
            hogs_are,
            100,
            mask(!sleeper_is_pinned, i % cpus),
            Box::new(hog(0)),
        )
        .unwrap();
    }
    sim.run_until(20 * SEC);
    let delays = delays.borrow();
    assert!(delays.len() > 350, "{}", delays.len());
    delays.iter().filter(|d| **d > ALLOWED).count() as f64 / delays.len() as f64
}

/// A heavy task that works now and then (the kernel's reclaimer, say) leaves the CPU idle most of
/// the time, so that virtual time hardly advances while the other task sleeps.
#[test]
fn a_sleeper_preempts_on_a_cpu_that_is_mostly_idle() {
    for (heavy, every) in [(MS, 9 * MS), (2 * MS, 19 * MS), (9 * MS, 37 * MS)] {
        let mut sim = machine(1);
        // Not at the same instant: the heavier task would go first.
        let (task, _) = Periodic::new(0, heavy, every, SEC + MS / 3);
        sim.start_in(ROOT, 1000, CpuMask::first(1), Box::new(task))
            .unwrap();
        let (task, delays) = sleeper();
        sim.start_in(ROOT, 100, CpuMask::first(1), Box::new(task))
            .unwrap();
        sim.run_until(20 * SEC);
        let mut delays = delays.borrow().clone();
        delays.sort_unstable();
        assert!(delays.len() > 350, "{}", delays.len());
        let most = delays[delays.len() * 99 / 100];
        assert!(most <= ALLOWED, "99 of 100: {most} ns ({heavy} of {every})");
    }
}

/// Heavy tasks (kernel threads, say) now and then run for more than a slice. The sleeper uses more
/// than they do by virtual time, so the one that runs and the one that waits are before it, but by
/// little.
#[test]
fn a_sleeper_overtakes_those_that_wait() {
    goes_before(2, 1000, 9 * MS, 171 * MS, false);
}

/// Tasks that use less of the CPU than the sleeper, and wake up together while it is idle: what
/// they have not used gives them no credit.
#[test]
fn a_sleeper_goes_before_those_that_used_less() {
    goes_before(4, 100, 5 * MS, 307 * MS, false);
}

/// The same, and they are of another domain, which has used less than the sleeper's.
#[test]
fn a_sleeper_goes_before_another_domain_that_used_less() {
    goes_before(4, 100, 5 * MS, 307 * MS, true);
}

/// The sleeper runs at once beside `others` of `weight` that work for `work` every `every` ns.
/// `apart`: in a domain of its own, on one CPU.
fn goes_before(others: usize, weight: u32, work: u64, every: u64, apart: bool) {
    for (cpus, tree) in [(1, false), (1, true), (2, false), (2, true)] {
        if apart && (cpus > 1 || !tree) {
            continue;
        }
        let mut sim = machine(cpus);
        let (mut group, mut own) = (ROOT, ROOT);
        if tree {
            group = domain(&mut sim, ROOT, "a", 100);
            own = group;
        }
        if apart {
            own = domain(&mut sim, ROOT, "b", 100);
        }
        for _ in 0..others {
            let (task, _) = Periodic::new(0, work, every, SEC + MS / 3);
            sim.start_in(group, weight, CpuMask::first(1), Box::new(task))
                .unwrap();
        }
        let (task, delays) = sleeper();
        sim.start_in(own, 100, CpuMask::first(1), Box::new(task))
            .unwrap();
        sim.run_until(20 * SEC);
        let delays = delays.borrow();
        let late = delays.iter().filter(|d| **d > ALLOWED).count();
        assert!(delays.len() > 350, "{}", delays.len());
        assert_eq!(late, 0, "of {} ({cpus} CPUs, {tree})", delays.len());
    }
}

/// Tasks that do little at each wake-up, and use most of the CPU together: one that has just begun
/// is not preempted by the next, so each job takes one switch to it.
#[test]
fn short_jobs_do_not_preempt_each_other() {
    const TASKS: usize = 40;
    for grouped in [false, true] {
        let mut sim = machine(1);
        let group = group(&mut sim, grouped);
        for i in 0..TASKS as u64 {
            let (task, _) = Periodic::new(0, MS / 10, 5 * MS, SEC + i * 7919);
            sim.start_in(group, 100, CpuMask::first(1), Box::new(task))
                .unwrap();
        }
        sim.run_until(2 * SEC);
        let from = sim.trace().len();
        sim.run_until(3 * SEC);
        let begun = sim.trace()[from..].iter().filter(|s| s.task.is_some());
        let (begun, jobs) = (begun.count(), TASKS * 200);
        assert!(
            begun < jobs * 101 / 100,
            "{begun} switches for {jobs} jobs, grouped {grouped}"
        );
    }
}

/// A task wakes up when a hog has just begun a turn, and is guarded. It does not wait for the end
/// of the slice, nor for the tick, but until the hog has had a turn of 1 ms; whether it is rested,
/// or used less than its share.
#[test]
fn a_guard_ends() {
    for (grouped, every) in [
        (false, 48 * MS),
        (true, 48 * MS),
        (false, 19 * MS / 10),
        (true, 19 * MS / 10),
    ] {
        let mut sim = machine(1);
        let group = group(&mut sim, grouped);
        hogs(&mut sim, group, 1);
        // just after a tick; the second one when the hog goes on after the first
        let (first, _) = Periodic::new(0, MS / 20, every, SEC + MS / 3);
        let (second, jobs) = Periodic::new(0, MS / 20, every, SEC + MS / 2);
        for task in [first, second] {
            sim.start_in(group, 100, CpuMask::first(1), Box::new(task))
                .unwrap();
        }
        sim.run_until(3 * SEC);
        let mut found = jobs.borrow().response.clone();
        found.sort_unstable();
        let (middle, worst) = (found[found.len() / 2], found[found.len() - 1]);
        println!("grouped {grouped}: {middle}, at most {worst} ns");
        assert!(middle > MS / 2, "it was not guarded: {middle}");
        assert!(worst <= TURN + ALLOWED, "{worst} ns");
    }
}

/// A task that sleeps for less than the guard wakes up while the loop beside it is guarded, each
/// time. (With a wait for the tick it had an eighth of the CPU, and would use two thirds.)
#[test]
fn a_task_that_sleeps_shortly_has_a_third() {
    for (cpus, grouped) in [(1, false), (1, true), (4, false), (4, true)] {
        for (on, off) in [(MS / 2, MS / 4), (MS / 2, MS / 20)] {
            let mut sim = machine(cpus);
            let group = group(&mut sim, grouped);
            hogs(&mut sim, group, cpus);
            let task = Box::new(on_off(0, on, off));
            let id = sim
                .start_in(group, 100, CpuMask::first(cpus), task)
                .unwrap();
            sim.run_until(4 * SEC);
            let ppm = sim.ran(id) / 4_000;
            println!("{cpus} CPUs, {grouped}, {on} and {off} ns: {ppm} ppm");
            assert!(ppm > 330_000, "{ppm}");
        }
    }
}

/// The turn of a light domain costs it 100 times as much virtual time as the loops'. They then run
/// alone for far longer than that, so the light domain owes nothing when it wakes up again.
#[test]
fn a_light_domain_owes_nothing_after_another_ran_alone() {
    for cpus in [1, 4, 64] {
        let mut sim = machine(cpus);
        let (heavy, light) = (
            domain(&mut sim, ROOT, "heavy", 100),
            domain(&mut sim, ROOT, "light", 1),
        );
        hogs(&mut sim, heavy, cpus);
        let (task, jobs) = Periodic::new(0, WORK, 500 * MS, SEC + MS / 3);
        sim.start_in(light, 100, CpuMask::first(cpus), Box::new(task))
            .unwrap();
        sim.run_until(10 * SEC);
        let worst = *jobs.borrow().response.iter().max().unwrap();
        println!("{cpus} CPUs: {worst} ns");
        assert!(worst <= WORK + 2 * FAIR_SLICE, "{cpus} CPUs: {worst} ns");
    }
}

/// A task of 1 ms every 50 ms, and how long after each wake-up it began to run, ns.
fn sleeper() -> (impl Program, Rc<RefCell<Vec<u64>>>) {
    const FIRST: u64 = 1000; // then it has begun
    let delays = Rc::new(RefCell::new(Vec::new()));
    let found = Rc::clone(&delays);
    let (mut due, mut step) = (SEC, 0);
    let task = move |now: u64, _| {
        step += 1;
        match step % 3 {
            1 => Step::SleepUntil(due),
            2 => Step::Run(FIRST),
            _ => {
                found.borrow_mut().push(now - due - FIRST);
                due += 50 * MS;
                Step::Run(WORK)
            }
        }
    };
    (task, delays)
}

/// Preemption gives no more than the share.
#[test]
fn who_preempts_gets_no_more_than_its_share() {
    for sleep in [MS / 10, MS, 5 * MS] {
        let mut sim = machine(1);
        let hog = hogs(&mut sim, ROOT, 1);
        let often: Vec<_> = (0..3)
            .map(|_| {
                let task = on_off(0, 4 * MS, sleep);
                sim.start_in(ROOT, 100, CpuMask::first(1), Box::new(task))
                    .unwrap()
            })
            .collect();
        sim.run_until(20 * SEC);
        near(had(&sim, &hog, 20 * SEC), 250_000, 20_000);
        near(had(&sim, &often, 20 * SEC), 750_000, 20_000);
    }
}

/// A task that wakes up and preempts a hog is interrupted by a reserved one. It goes on after that
/// one, and does not wait for a round of all hogs.
#[test]
fn a_task_that_a_reserved_one_interrupts_keeps_its_turn() {
    for grouped in [false, true] {
        let mut sim = machine(1);
        sim.spec(1, reserve(MS, 5 * MS));
        let group = group(&mut sim, grouped);
        hogs(&mut sim, group, 50);
        let (reserved, _) = Periodic::new(1, MS / 2, 5 * MS, SEC);
        sim.start_in(group, 100, CpuMask::first(1), Box::new(reserved))
            .unwrap();
        // It wakes up 20 us before the reserved task. It uses its share, so it has no credit.
        let (task, jobs) = Periodic::new(0, 85_000, 5 * MS, SEC - MS / 50);
        sim.start_in(group, 100, CpuMask::first(1), Box::new(task))
            .unwrap();
        sim.run_until(3 * SEC);
        let worst = *jobs.borrow().response.iter().skip(20).max().unwrap();
        println!("grouped {grouped}: {worst} ns");
        assert!(worst < MS, "{worst} ns");
    }
}

/// Real-time tasks take the CPU before a task that woke up has run, and leave their class while
/// they run, one after another. None of them was in the local queue, so none keeps its turn there:
/// what wakes up next waits for the running task's slice at most, not for one of each.
#[test]
fn tasks_that_were_real_time_keep_no_turn() {
    for grouped in [false, true] {
        let mut sim = machine(1);
        let group = group(&mut sim, grouped);
        let storm = hogs(&mut sim, group, 30);
        let (first, _) = Periodic::new(0, MS / 10, 50 * MS, SEC);
        let (next, jobs) = Periodic::new(0, MS / 10, 50 * MS, SEC + 5 * MS);
        for task in [first, next] {
            sim.start_in(group, 100, CpuMask::first(1), Box::new(task))
                .unwrap();
        }
        sim.run_until(2 * SEC - MS);
        for &id in &storm {
            sim.plan(2 * SEC, Change::FromRealTime(id));
        }
        sim.run_until(3 * SEC);
        let worst = *jobs.borrow().response.iter().skip(10).max().unwrap();
        println!("grouped {grouped}: {worst} ns");
        assert!(worst <= 2 * FAIR_SLICE, "{worst} ns");
    }
}

/// A task of another domain goes before the one that runs. It also goes before one that went
/// straight to the CPU's local queue: while a task is there, the CPU makes no choice in the tree.
#[test]
fn a_sleeper_precedes_what_went_straight_to_the_cpu() {
    let mut sim = machine(1);
    let load = domain(&mut sim, ROOT, "load", 100);
    let other = domain(&mut sim, ROOT, "other", 100);
    let all = CpuMask::first(1);
    // the second one wakes up while the first is guarded, the third when it is not, and before the
    // first has had its turn
    let (running, _) = Periodic::new(0, 3 * MS, 50 * MS, SEC);
    let (straight, _) = Periodic::new(0, 3 * MS, 50 * MS, SEC + MS / 5);
    let (task, jobs) = Periodic::new(0, MS / 20, 50 * MS, SEC + 9 * MS / 10);
    for task in [running, straight] {
        sim.start_in(load, 100, all, Box::new(task)).unwrap();
    }
    sim.start_in(other, 100, all, Box::new(task)).unwrap();
    sim.run_until(11 * SEC);
    let jobs = jobs.borrow();
    assert!(jobs.response.len() > 190);
    let most = jobs.response.iter().max().unwrap();
    assert!(*most <= MS / 20 + ALLOWED, "{most} ns");
}

/// What precedes others at its wake-up is charged like any other turn: sleepers of other domains,
/// which want more than their share, take nothing from the share of a loop.
#[test]
fn sleepers_that_precede_others_keep_to_their_share() {
    for (on, off, sleepers) in [(MS, 2 * MS, 6), (MS / 5, MS, 12), (3 * MS, 7 * MS, 4)] {
        let mut sim = machine(1);
        let [looping, some, more] =
            ["looping", "some", "more"].map(|name| domain(&mut sim, ROOT, name, 100));
        let id = hogs(&mut sim, looping, 1)[0];
        for i in 0..sleepers {
            let group = [some, more][i % 2];
            let start = SEC + i as u64 * MS / 3;
            let (sleeper, _) = Periodic::new(0, on, on + off, start);
            sim.start_in(group, 100, CpuMask::first(1), Box::new(sleeper))
                .unwrap();
        }
        let (mut at, mut since, mut longest) = (2 * SEC, 2 * SEC, 0);
        sim.run_until(at);
        let before = sim.ran(id);
        let mut last = before;
        while at < 12 * SEC {
            at += MS;
            sim.run_until(at);
            if sim.ran(id) > last {
                longest = longest.max(at - since);
                (last, since) = (sim.ran(id), at);
            }
        }
        let share = (last - before) as f64 / (10 * SEC) as f64;
        println!("{on} ns on, {off} off, {sleepers} sleepers: {share}, at most {longest} ns");
        assert!(share >= 0.33, "{share}");
        assert!(longest <= 4 * FAIR_SLICE, "{longest} ns");
    }
}

/// The task that runs has just begun, and is guarded: one that is rested waits until it has had a
/// turn, and not for most of a slice, until the tick.
#[test]
fn a_rested_task_waits_for_a_turn_at_most() {
    for (cpus, grouped) in [(1, false), (1, true), (4, false), (4, true)] {
        let mut sim = machine(cpus);
        let group = group(&mut sim, grouped);
        hogs(&mut sim, group, 2 * cpus);
        let (task, jobs) = Periodic::new(0, MS / 20, 50 * MS + 70_000, SEC);
        sim.start_in(group, 100, CpuMask::first(cpus), Box::new(task))
            .unwrap();
        sim.run_until(31 * SEC);
        let worst = *jobs.borrow().response.iter().skip(10).max().unwrap();
        println!("{cpus} CPUs, grouped {grouped}: {worst} ns");
        assert!(worst <= MS / 20 + TURN + ALLOWED, "{worst} ns");
    }
}
