//! Theorems about `fcbs.h` over random task sets with sum Q/P <= 1, on the virtual CPU of
//! `edf/cpu.rs`. (Of deferred servers Q/P is the density of `edf.h` 6.)
//!
//! 1. In each period each server gets Q, less the time that its task slept in the period, by the
//!    deadline, if the task wants that much. This holds whatever other servers do, lend, take back
//!    or draw. (A period that the wake rule of edf.h cuts short is an exception, but a whole one
//!    follows it at once.)
//! 2. Schedulability is preserved: no job within its Q is late.
//! 3. Slack is never created: what overrunners draw and what lenders get back is in sum no more
//!    than what was lent.
//! 4. Overrunning jobs are done no later, in sum, than without reclaiming. This is no theorem for
//!    any task set (EDF has anomalies), but it holds for a player with heavy frames.

use crate::edf::cpu::{Burst, Cpu, Task, When};
use crate::edf::plans::{good, hostile, on_time, runtimes, total, within, Plan, END};
use crate::edf::{bandwidth, density, Policy};
use crate::{MS, SEC};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 192,
        rng_seed: RngSeed::Fixed(42),
        ..ProptestConfig::default()
    }
}

/// How much each server may get too much because the wake rule rounds, ns.
const ROUNDING: u64 = 16;

fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        4 => Just(Policy::Fcbs),
        1 => Just(Policy::Redline),
        1 => Just(Policy::CbsHard),
        1 => Just(Policy::CbsSoft),
        1 => Just(Policy::Deferred),
    ]
}

fn run(tasks: Vec<Task>, spare: bool) -> Cpu {
    let mut cpu = Cpu::new(tasks);
    cpu.spare = spare;
    cpu.run(END);
    cpu
}

fn hostile_tasks<'a>(plans: &'a [Plan], runtimes: &'a [u64]) -> impl Iterator<Item = Task> + 'a {
    let pairs = plans.iter().zip(runtimes);
    pairs.map(|(p, &q)| Task::new(q, p.period, p.hostile_bursts(q)))
}

/// The budget with which a server of `policy` needs what one of redline with budget `q` does.
fn at_density(q: u64, policy: Policy) -> u64 {
    let (own, plain) = (density(MS, 10 * MS, policy), bandwidth(MS, 10 * MS));
    q * plain / own
}

fn length(runs: &[(u64, u64)]) -> u64 {
    runs.iter().map(|r| r.1 - r.0).sum()
}

/// Checks theorem 1 for one task.
fn got_its_own(task: &Task, servers: u64) -> Result<(), TestCaseError> {
    let (s, trace) = (task.server, &task.trace);
    let rounding = ROUNDING * servers;
    prop_assert!(
        trace.left_over <= rounding,
        "{} ns of budget left at a deadline",
        trace.left_over
    );
    if s.policy == Policy::CbsSoft as u32 {
        return Ok(()); // its deadlines are not the ends of its periods
    }
    for &(start, deadline) in &trace.wanting {
        let (ran, slept) = (
            within(&trace.runs, start, deadline),
            within(&trace.sleeps, start, deadline),
        );
        prop_assert!(
            ran + slept + rounding >= s.runtime,
            "{ran} of {} from {start} to {deadline}, slept {slept}",
            s.runtime
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// Theorem 1: each task wants more than its budget, sleeps in the middle, or both.
    #[test]
    fn each_task_gets_its_budget_less_its_sleep(plans in prop::collection::vec(hostile(), 1..7), total in total(),
                                             policies in prop::collection::vec(any_policy(), 7), spare: bool) {
        let q = runtimes(&plans, total);
        let q: Vec<u64> = q.iter().zip(&policies).map(|(&q, &p)| at_density(q, p)).collect();
        let tasks = hostile_tasks(&plans, &q).zip(policies).map(|(t, p)| t.policy(p));
        let cpu = run(tasks.collect(), spare);
        for task in &cpu.tasks {
            got_its_own(task, cpu.tasks.len() as u64)?;
        }
    }

    /// Theorem 2, and also theorem 3.
    #[test]
    fn no_job_within_its_q_is_late(jobs in prop::collection::vec(good(), 1..4), total in total(), spare: bool,
                                   hostile_bursts in prop::collection::vec(hostile(), 1..4)) {
        let (n, mut plans) = (jobs.len(), jobs);
        plans.extend(hostile_bursts);
        let q = runtimes(&plans, total);
        let jobs: Vec<_> = plans.iter().zip(&q).take(n).map(|(p, &q)| p.jobs(q)).collect();
        let good = plans.iter().zip(&q).zip(&jobs).map(|((p, &q), j)| Task::new(q, p.period, j.iter().copied()));
        let tasks = good.chain(hostile_tasks(&plans[n..], &q[n..])).map(|t| t.policy(Policy::Fcbs));
        let cpu = run(tasks.collect(), spare);
        for ((plan, jobs), task) in plans.iter().zip(&jobs).zip(&cpu.tasks) {
            on_time(&task.trace, plan, jobs, cpu.now)?;
        }
        let drawn: u64 = cpu.tasks.iter().map(|t| length(&t.trace.draws)).sum();
        prop_assert!(drawn <= cpu.bank.used, "{drawn} drawn, {} in the books", cpu.bank.used);
        prop_assert!(cpu.bank.used + cpu.returned <= cpu.lent,
                     "{} used and {} given back of {}", cpu.bank.used, cpu.returned, cpu.lent);
    }
}

/// Jobs of these lengths (ms), one every `period` ms.
fn frames(period: u64, lengths: &[u64]) -> Vec<Burst> {
    let job = |(k, &ms): (usize, &u64)| Burst {
        when: When::At(k as u64 * period * MS),
        work: ms * MS,
    };
    lengths.iter().enumerate().map(job).collect()
}

/// Theorem 4. A player of 12:41 with frames of 6 to 24 ms, an editor of 10:50 that uses 2 ms, and a
/// compiler that reserved 20:41 and takes all it can get.
#[test]
fn heavy_frames_are_done_sooner() {
    let lengths = [6, 8, 24, 6, 10, 6, 20, 8, 6, 24, 6, 6];
    let lengths: Vec<u64> = lengths.iter().cycle().take(240).copied().collect();
    let run = |policy| {
        let player = Task::new(12 * MS, 41 * MS, frames(41, &lengths));
        let editor = Task::new(10 * MS, 50 * MS, frames(50, &[2; 200]));
        let compiler = Task::new(20 * MS, 41 * MS, frames(41, &[SEC / MS * 100]));
        let tasks = [
            player.policy(policy),
            editor.policy(policy),
            compiler.policy(Policy::Redline),
        ];
        let mut cpu = Cpu::new(tasks.into());
        cpu.run(20 * SEC);
        cpu
    };
    let heavy_done = |cpu: &Cpu| -> u64 {
        let done = cpu.tasks[0].trace.bursts.iter().zip(&lengths);
        done.filter(|(_, &ms)| ms > 12).map(|(b, _)| b.1 / MS).sum()
    };
    let (without, with) = (run(Policy::Redline), run(Policy::Fcbs));
    assert_eq!(with.tasks[0].trace.bursts.len(), 240, "all frames are done");
    assert!(!with.tasks[0].trace.draws.is_empty() && with.bank.used > 100 * MS);
    let (sooner, later) = (heavy_done(&with), heavy_done(&without));
    assert!(sooner < later, "{sooner} and {later} ms, summed up");
    let compiled = |cpu: &Cpu| length(&cpu.tasks[2].trace.runs);
    assert!(compiled(&with).abs_diff(compiled(&without)) <= 20 * MS);
}
