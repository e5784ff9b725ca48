//! Faults that random changes of domains, affinity and CPUs have found, each reduced to few
//! changes.

use super::cgroups::{machine, start_in};
use super::domains::{domain, hogs};
use super::{reserve, MS, SEC};
use crate::workload::{hog, on_off};
use crate::{Bandwidth, Change, CpuMask, Program, Reservation, ServerPolicy, Step, ROOT};

fn limit(quota: u64) -> Bandwidth {
    Bandwidth {
        period: 1_000_000,
        quota: Some(quota),
        burst: 0,
    }
}

/// The only CPU is idle, because the domain of its only task is throttled. When the task is moved
/// to a domain without a limit, it must run at once. A move is not a wake-up, so the task waited
/// for the next period of the old domain.
#[test]
fn a_task_that_is_moved_out_of_a_throttled_domain_runs_at_once() {
    let mut sim = machine(1);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    sim.set_cgroup_bandwidth(a, limit(10_000)).unwrap();
    let id = start_in(&mut sim, a, hog(0));
    sim.run_until(500 * MS);
    sim.move_process(id, b).unwrap();
    sim.run_until(510 * MS);
    assert!(sim.ran(id) > 19 * MS, "{}", sim.ran(id));
    sim.run_until(2 * SEC);
}

/// CPU 0 is the only CPU, so a task that is pinned to it waits in its domain's queue. Then CPU 1
/// goes online and CPU 0 offline. A CPU that picks the task there sends it to CPU 0's local queue,
/// from which the kernel migrates it. But the task was rescued: in DSQ_RESCUE no CPU could take it,
/// for ever.
#[test]
fn a_task_pinned_to_an_offline_cpu_runs_although_it_was_rescued() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    sim.set_cgroup_bandwidth(a, limit(1_000)).unwrap();
    hogs(&mut sim, b, 2);
    hogs(&mut sim, a, 30);
    assert!(sim.change(Change::Offline(1)));
    sim.run_until(SEC);
    let pinned = sim
        .start_in(a, 100, CpuMask::only(0), Box::new(hog(0)))
        .unwrap();
    sim.run_until(2 * SEC);
    assert!(sim.change(Change::Online(1)));
    assert!(sim.change(Change::Offline(0)));
    sim.run_until(40 * SEC);
    assert!(sim.ran(pinned) > 0, "{:?}", sim.place(pinned));
}

/// As above, but then all other tasks exit and CPU 0 goes online. The CPUs were idle, and none was
/// kicked for the task that was to be rescued.
#[test]
fn an_idle_cpu_is_kicked_for_a_task_that_is_rescued() {
    let mut sim = machine(2);
    let a = domain(&mut sim, ROOT, "a", 100);
    sim.set_cgroup_bandwidth(a, limit(1_000)).unwrap();
    let mut others = hogs(&mut sim, a, 30);
    others.extend(hogs(&mut sim, ROOT, 2));
    assert!(sim.change(Change::Offline(1)));
    sim.run_until(SEC);
    let pinned = sim
        .start_in(a, 100, CpuMask::only(0), Box::new(hog(0)))
        .unwrap();
    sim.run_until(2 * SEC);
    assert!(sim.change(Change::Online(1)));
    assert!(sim.change(Change::Offline(0)));
    sim.run_until(25 * SEC);
    sim.set_cgroup_bandwidth(a, Bandwidth::default()).unwrap();
    for id in others {
        sim.change(Change::Kill(id));
    }
    sim.run_until(26 * SEC);
    assert!(sim.change(Change::Online(0)));
    sim.run_until(40 * SEC);
    assert!(sim.ran(pinned) > 0, "{:?}", sim.place(pinned));
}

/// A CPU looks at the first task of a queue and takes it, while another CPU takes that task out and
/// puts it back. The kernel refuses the move. The task waited in the queue from then on without
/// being counted, so no CPU ever took it.
#[test]
fn a_task_that_another_cpu_puts_back_is_not_lost() {
    for cpus in [2, 4] {
        let mut sim = machine(cpus);
        let (a, b) = (
            domain(&mut sim, ROOT, "a", 100),
            domain(&mut sim, ROOT, "b", 100),
        );
        let tasks = [hogs(&mut sim, a, 10), hogs(&mut sim, b, 10)].concat();
        sim.state.rivals.meet(3);
        sim.run_until(SEC);
        sim.state.rivals.meet(0);
        let before: Vec<_> = tasks.iter().map(|&id| sim.ran(id)).collect();
        sim.run_until(6 * SEC);
        for (&id, before) in tasks.iter().zip(before) {
            let ran = sim.ran(id) - before;
            assert!(ran > 100 * MS, "task {id} of {cpus} CPUs ran for {ran} ns");
        }
    }
}

/// A process with three threads, two of which sleep now and then.
struct Crew(Vec<Step>);

impl Program for Crew {
    fn next(&mut self, _now: u64, _ran: u64) -> Step {
        self.0.pop().unwrap_or(Step::Run(SEC))
    }

    fn child(&mut self, nr: u64) -> Box<dyn Program> {
        Box::new(on_off(0, (3 + nr) * MS, 2 * MS))
    }
}

/// A thread of a process with three, which uses up the budget, takes the right from the others
/// while they wait. A CPU that moves them to the fair layer meets another CPU that takes them out
/// and puts them back, so the kernel refuses the move. The thread then ran without its right, and
/// with its deadline as its virtual time.
#[test]
fn a_reserved_task_that_another_cpu_puts_back_keeps_its_right() {
    for (domains, policy) in [
        (false, ServerPolicy::Redline),
        (true, ServerPolicy::Redline),
        (false, ServerPolicy::Fcbs),
        (true, ServerPolicy::Fcbs),
        (false, ServerPolicy::CbsHard),
    ] {
        let mut sim = machine(3);
        let group = match domains {
            true => domain(&mut sim, ROOT, "a", 100),
            false => ROOT,
        };
        for ino in 1..=3 {
            let policy = Some(policy);
            sim.spec(
                ino,
                Reservation {
                    policy,
                    ..reserve(5 * MS, 30 * MS)
                },
            );
            let steps = vec![Step::Thread(0), Step::Thread(1), Step::Exec(ino)];
            start_in(&mut sim, group, Crew(steps));
        }
        hogs(&mut sim, group, 3);
        sim.state.rivals.meet(2);
        sim.run_until(5 * SEC);
        sim.state.rivals.meet(0);
        let before: Vec<_> = (0..sim.tasks()).map(|id| sim.ran(id)).collect();
        sim.run_until(8 * SEC);
        for (id, before) in before.into_iter().enumerate() {
            let ran = sim.ran(id) - before;
            assert!(ran > 100 * MS, "task {id} ran for {ran} ns");
        }
    }
}
