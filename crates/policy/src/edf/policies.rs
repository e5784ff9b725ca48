//! Examples of the server policies: what becomes of a task whose budget is used up. That other
//! tasks keep their deadlines under any mixture of policies is a theorem of [`crate::fcbs`].

use super::cpu::{Burst, Cpu, Task, When};
use super::{Change, Policy, Server};
use crate::{MS, SEC};

fn server(policy: Policy, runtime: u64, period: u64) -> Server {
    let mut s = Server::new(0, runtime, period);
    s.policy = policy as u32;
    s
}

/// One task of 5:30 that always has work runs alone on a CPU for 300 ms, with or without spare
/// time. Returns the ms that it ran by right, and whether it did all of its work without a gap.
fn alone(policy: Policy, spare: bool) -> (u64, bool) {
    let work = Burst {
        when: When::At(0),
        work: 250 * MS,
    };
    let mut cpu = Cpu::new(vec![Task::new(5 * MS, 30 * MS, [work]).policy(policy)]);
    cpu.spare = spare;
    cpu.run(300 * MS);
    let trace = &cpu.tasks[0].trace;
    let ran: u64 = trace.runs.iter().map(|r| r.1 - r.0).sum();
    (ran / MS, trace.bursts == [(0, 250 * MS)])
}

#[test]
fn redline_waits_and_has_spare_time() {
    assert_eq!(alone(Policy::Redline, false), (50, false));
    let (by_right, all) = alone(Policy::Redline, true);
    assert!(
        all && by_right == 45,
        "9 periods begun in 250 ms, not {by_right} ms"
    );
}

#[test]
fn cbs_hard_never_has_more_than_c_in_t() {
    for spare in [false, true] {
        assert_eq!(alone(Policy::CbsHard, spare), (50, false));
    }
}

#[test]
fn cbs_soft_goes_before_best_effort_work() {
    for spare in [false, true] {
        assert_eq!(alone(Policy::CbsSoft, spare), (250, true));
    }
}

#[test]
fn fcbs_without_a_lender_is_redline() {
    for spare in [false, true] {
        assert_eq!(alone(Policy::Fcbs, spare), alone(Policy::Redline, spare));
    }
}

#[test]
fn the_next_budget_of_each() {
    for policy in [
        Policy::Redline,
        Policy::CbsHard,
        Policy::Fcbs,
        Policy::CbsSoft,
    ] {
        let mut s = server(policy, 5 * MS, 30 * MS);
        s.charge(6 * MS);
        assert_eq!(s.assign(10 * MS), Change::Exhausted);
        assert_eq!(
            (s.deadline, s.budget),
            (60 * MS, 4 * MS as i64),
            "{policy:?}"
        );
        assert_eq!(s.eligible(10 * MS), policy == Policy::CbsSoft);
    }
}

/// The soft CBS of the paper: a server that ran ahead of its time has used later budgets. If
/// another server appears, the first one waits until the other has caught up; here after it was
/// alone for 1 s.
#[test]
fn cbs_soft_that_ran_ahead_waits_for_the_other() {
    let hog = |from| {
        let work = Burst {
            when: When::At(from),
            work: 1 << 50,
        };
        Task::new(10 * MS, 20 * MS, [work]).policy(Policy::CbsSoft)
    };
    let mut cpu = Cpu::new(vec![hog(0), hog(SEC)]);
    cpu.run(4 * SEC);
    let again = cpu.tasks[0].trace.runs.iter().find(|r| r.0 > SEC);
    // The server used 100 budgets in its first second, so its deadline is at 2 s.
    let again = again.map(|r| r.0 / MS).unwrap_or(0);
    assert!((1_480..=1_520).contains(&again), "{again}");
}

/// A server that was alone can have a deadline far ahead. The wake rule must not overflow then.
#[test]
fn cbs_soft_far_ahead_keeps_its_deadline_when_it_wakes() {
    let mut s = server(Policy::CbsSoft, 5 * SEC, 10 * SEC);
    for n in 1..1_000 {
        let now = n * 5 * SEC;
        s.charge(5 * SEC);
        s.assign(now);
        let before = s.deadline;
        assert_eq!(before, (n + 1) * 10 * SEC);
        s.sleep();
        s.wake(now);
        assert_eq!(s.deadline, before, "after {n} budgets");
    }
}

/// A task that executes itself again and again gains nothing: it gets no more than C/T.
#[test]
fn cbs_soft_cannot_exec_its_way_to_an_early_deadline() {
    let mut s = server(Policy::CbsSoft, 5 * MS, 30 * MS);
    for n in 1..20 {
        let now = n * 5 * MS;
        s.charge(5 * MS);
        s.assign(now);
        let mut next = Server::new(now, 5 * MS, 30 * MS);
        next.policy = s.policy;
        next.succeed(&s, now);
        s = next;
        assert_eq!(s.deadline, (n + 1) * 30 * MS, "after {n} budgets");
        assert!(s.eligible(now) && s.budget <= 5 * MS as i64);
    }
}

#[test]
fn deferred_is_best_effort_work_first() {
    let mut s = server(Policy::Deferred, 5 * MS, 50 * MS);
    s.sleep();
    s.wake(60 * MS);
    assert_eq!(s.assign(60 * MS), Change::Renewed);
    assert_eq!((s.start, s.deadline), (70 * MS, 110 * MS));
    assert!(!s.eligible(70 * MS - 1) && s.eligible(70 * MS));
    // it was served, slept, and wakes up again before it has a right: a new period
    s.sleep();
    s.wake(65 * MS);
    assert_eq!(s.assign(65 * MS), Change::Kept);
    assert_eq!((s.start, s.deadline), (75 * MS, 115 * MS));
    // it was not served, and has used up its budget by right
    s.charge(5 * MS);
    assert_eq!(s.assign(90 * MS), Change::Exhausted);
    assert_eq!((s.start, s.deadline), (125 * MS, 165 * MS));
    // it has used 3 of 5 ms, so what is left may start 2 * 40 / 5 ms before the deadline
    s.charge(3 * MS);
    s.assign(133 * MS);
    s.sleep();
    s.wake(145 * MS);
    assert_eq!(s.assign(145 * MS), Change::Kept);
    assert_eq!(s.deadline, 165 * MS);
    assert!((148 * MS..149 * MS).contains(&s.start), "{}", s.start);
    // without spare time it has C in each T all the same
    assert_eq!(alone(Policy::Deferred, false), (50, false));
}

/// What it has to get in a shorter time counts as if the period were as short.
#[test]
fn deferred_needs_more_than_its_bandwidth() {
    assert_eq!(super::bandwidth(5 * MS, 50 * MS), 100_000);
    assert_eq!(super::density(5 * MS, 50 * MS, Policy::Deferred), 125_000);
    assert_eq!(super::density(5 * MS, 50 * MS, Policy::Redline), 100_000);
}
