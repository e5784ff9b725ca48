//! The order of a domain's own tasks, by its policy (bpf/tree/leaf.bpf.h).

use std::cell::RefCell;
use std::rc::Rc;

use super::cgroups::{machine, start_in};
use super::domains::{domain, had, hogs, near};
use super::{MS, SEC};
use crate::task::Step;
use crate::workload::{hog, on_off};
use crate::{CgroupId, CpuMask, DomainChange, DomainPolicy, Simulation, TaskId, ROOT};

const ORDERS: [DomainPolicy; 3] = [DomainPolicy::Sfq, DomainPolicy::Mtr, DomainPolicy::Wrr];

fn under(sim: &mut Simulation, policy: DomainPolicy) -> CgroupId {
    let a = domain(sim, ROOT, "a", 100);
    sim.change_domain(a, DomainChange::Policy(policy)).unwrap();
    a
}

/// Start a hog of this weight (nice 0: 100).
fn heavy(sim: &mut Simulation, cgroup: CgroupId, weight: u32) -> TaskId {
    let all = CpuMask::first(sim.state.settings.cpus);
    sim.start_in(cgroup, weight, all, Box::new(hog(0))).unwrap()
}

#[test]
fn tasks_of_a_domain_share_by_weight() {
    for cpus in [1, 2] {
        for policy in ORDERS {
            if cpus > 1 && policy == DomainPolicy::Wrr {
                // WRR's list is for one CPU: on two CPUs the first two tasks of the list run
                continue;
            }
            let mut sim = machine(cpus);
            let a = under(&mut sim, policy);
            let light: Vec<_> = (0..2 * cpus).map(|_| heavy(&mut sim, a, 100)).collect();
            let large: Vec<_> = (0..cpus).map(|_| heavy(&mut sim, a, 200)).collect();
            sim.run_until(20 * SEC);
            let all = 20 * SEC * cpus as u64;
            println!("{policy:?} on {cpus}");
            near(had(&sim, &light, all), 500_000, 30_000);
            near(had(&sim, &large, all), 500_000, 30_000);
        }
    }
}

/// Example 1 of Eclipse: a task that sleeps often has its share under MTR-LS, and far less under
/// round-robin.
#[test]
fn a_task_that_sleeps_often_keeps_its_share_under_mtr_and_not_under_wrr() {
    let part = |policy| {
        let mut sim = machine(1);
        let a = under(&mut sim, policy);
        let sleeper = start_in(&mut sim, a, on_off(0, MS, 3 * MS));
        hogs(&mut sim, a, 4);
        sim.run_until(20 * SEC);
        had(&sim, &[sleeper], 20 * SEC)
    };
    let (mtr, wrr) = (part(DomainPolicy::Mtr), part(DomainPolicy::Wrr));
    // as on a CPU of its own with a fifth of the speed: 5 ms for 1 ms of work, then 3 ms of sleep:
    // 125,000 ppm. It gets more, because other tasks leave time in between.
    assert!(mtr > 125_000 * 4 / 3, "it wants 250,000: {mtr}");
    assert!(wrr < mtr / 3, "{wrr}, by MTR-LS {mtr}");
}

/// A task that waits under one policy runs under the next. (The task that runs at the change may
/// have a sleeper's credit: 1 s.)
#[test]
fn all_tasks_run_after_a_change_of_policy() {
    use DomainPolicy::{Default, Fair, Fifo, Mtr, Sfq, Wrr};
    for cpus in [1, 2] {
        let mut sim = machine(cpus);
        let a = under(&mut sim, Fair);
        let tasks = hogs(&mut sim, a, 4 * cpus);
        let orders = [Mtr, Fair, Sfq, Wrr, Sfq, Fair, Wrr, Mtr, Sfq, Default];
        for policy in orders {
            sim.change_domain(a, DomainChange::Policy(policy)).unwrap();
            sim.run_until(sim.now() + SEC);
            let before: Vec<u64> = tasks.iter().map(|&t| sim.ran(t)).collect();
            sim.run_until(sim.now() + 2 * SEC);
            let ran = tasks
                .iter()
                .zip(before)
                .map(|(&t, b)| (sim.ran(t) - b) / MS);
            let ran: Vec<u64> = ran.collect();
            let fair = ran.iter().all(|ran| (300..700).contains(ran));
            assert!(fair, "{policy:?} on {cpus}: {ran:?} of 500 ms");
        }
        sim.change_domain(a, DomainChange::Policy(Fifo)).unwrap();
        sim.run_until(sim.now() + 40 * SEC);
    }
}

/// Figure 11 of Eclipse: a task with 11 ms of CPU and 100 ms of sleep, beside 20 that run for 11 ms
/// and sleep for 5 ms. It wants a tenth of the CPU, and its share is a twenty-first. Still it
/// begins at once: an early task before it runs for a token only, not until the next tick.
#[test]
fn a_task_that_sleeps_long_begins_at_once_beside_many_tasks() {
    const ON: u64 = 11 * MS;
    let mut sim = machine(1);
    let a = under(&mut sim, DomainPolicy::Mtr);
    for i in 0..20 {
        let onoff = domain(&mut sim, a, &format!("onoff {i}"), 100);
        start_in(&mut sim, onoff, on_off(0, ON, 5 * MS));
    }
    let sleeper = domain(&mut sim, a, "sleeper", 100);
    let late = Rc::new(RefCell::new(vec![]));
    let (log, mut steps, mut due) = (late.clone(), 0, 0);
    start_in(&mut sim, sleeper, move |now: u64, _ran: u64| {
        steps += 1;
        match steps % 3 {
            1 => {
                if due > 2 * SEC {
                    log.borrow_mut().push(now - due);
                }
                Step::Run(ON)
            }
            2 => {
                due = now + 100 * MS;
                Step::SleepUntil(due)
            }
            _ => Step::Run(1), // it runs now
        }
    });
    sim.run_until(40 * SEC);
    let late = late.borrow();
    let mean = late.iter().sum::<u64>() / late.len() as u64;
    assert!(
        late.len() > 100 && mean < MS / 20,
        "{mean} ns late: {late:?}"
    );
}
