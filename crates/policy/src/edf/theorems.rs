//! Theorems about `edf.h` over random task sets. U is C/T.
//!
//! 1. Feasibility (Liu and Layland 1973): if sum C/T <= 1 and no job needs more than C, no deadline
//!    is missed.
//! 2. Isolation (Abeni and Buttazzo 1998, theorem 1): the same holds for a task that keeps within
//!    its C:T, whatever all other tasks do.
//! 3. Bandwidth. In any interval of L ns a server that always has work gets between U L - 2 C (1 -
//!    U) and U L + 2 C (1 - U). If it is the only server, it gets at least U L - C (1 - U). A
//!    server whose task sleeps gets at most U L + 2 C. (The upper bound is tight: C at the end of
//!    one period and C at the beginning of the next. The lower bound: the other way round.)
//! 4. A task with a reservation of 20 % that wants all of a loaded CPU gets 20 % of it.

use super::cpu::{Cpu, Task};
use super::plans::{good, hostile, on_time, periods, runtimes, total, END, FOREVER};
use crate::{MS, PPM, SEC};
use proptest::prelude::*;

/// How far `runs` exceed U L in the best interval, and how far they fall below U L in the worst one
/// before `end`. Both are multiplied by T, so that they are exact.
fn extremes(runs: &[(u64, u64)], runtime: u64, period: u64, end: u64) -> (i128, i128) {
    let (c, t) = (i128::from(runtime), i128::from(period));
    let (mut least, mut most, mut excess, mut lack) = (0i128, 0i128, 0i128, 0i128);
    let mut served = 0i128;
    let mut corner = |at: u64, served: i128| {
        let p = served * t - i128::from(at) * c;
        excess = excess.max(p - least);
        lack = lack.max(most - p);
        least = least.min(p);
        most = most.max(p);
    };
    for &(from, to) in runs {
        corner(from, served);
        served += i128::from(to - from);
        corner(to, served);
    }
    corner(end, served);
    (excess, lack)
}

/// 2 C (1 - U), multiplied by T.
fn twice(runtime: u64, period: u64) -> i128 {
    2 * i128::from(runtime) * i128::from(period - runtime)
}

proptest! {
    /// Theorem 1.
    #[test]
    fn feasible_sets_meet_every_deadline(
        plans in prop::collection::vec(good(), 1..7),
        total in total(),
        spare: bool,
    ) {
        let c = runtimes(&plans, total);
        let jobs: Vec<_> = plans.iter().zip(&c).map(|(p, &c)| p.jobs(c)).collect();
        let mut cpu = Cpu::new(plans.iter().zip(&c).zip(&jobs)
            .map(|((p, &c), j)| Task::new(c, p.period, j.iter().copied())).collect());
        cpu.spare = spare;
        cpu.run(END);
        for ((plan, jobs), task) in plans.iter().zip(&jobs).zip(&cpu.tasks) {
            on_time(&task.trace, plan, jobs, cpu.now)?;
        }
    }

    /// Theorem 2, and theorem 3's upper bound for servers that sleep.
    #[test]
    fn hostile_tasks_harm_no_other_task(one in good(), others in prop::collection::vec(hostile(), 1..6),
                                      total in total(), spare: bool) {
        let mut plans = vec![one];
        plans.extend(others);
        let c = runtimes(&plans, total);
        let jobs = plans[0].jobs(c[0]);
        let mut tasks = vec![Task::new(c[0], plans[0].period, jobs.iter().copied())];
        tasks.extend(plans.iter().zip(&c).skip(1).map(|(p, &c)| Task::new(c, p.period, p.hostile_bursts(c))));
        let mut cpu = Cpu::new(tasks);
        cpu.spare = spare;
        cpu.run(END);
        on_time(&cpu.tasks[0].trace, &plans[0], &jobs, cpu.now)?;
        for task in &cpu.tasks {
            let s = task.server;
            let (excess, _) = extremes(&task.trace.runs, s.runtime, s.period, cpu.now);
            prop_assert!(excess <= 2 * i128::from(s.runtime) * i128::from(s.period), "{s:?}: {excess}");
        }
    }

    /// Theorem 3 for a server that always has work beside hostile ones.
    #[test]
    fn constant_work_gets_its_bandwidth(one in hostile(), others in prop::collection::vec(hostile(), 0..5),
                                        total in total()) {
        let mut plans = vec![one];
        plans.extend(others);
        let c = runtimes(&plans, total);
        let alone = plans.len() == 1;
        let mut tasks = vec![Task::new(c[0], plans[0].period, [FOREVER])];
        tasks.extend(plans.iter().zip(&c).skip(1).map(|(p, &c)| Task::new(c, p.period, p.hostile_bursts(c))));
        let mut cpu = Cpu::new(tasks);
        cpu.run(END);
        let s = cpu.tasks[0].server;
        let (excess, lack) = extremes(&cpu.tasks[0].trace.runs, s.runtime, s.period, cpu.now);
        let bound = twice(s.runtime, s.period);
        prop_assert!(excess <= bound, "excess {excess} above {bound}");
        prop_assert!(lack <= if alone { bound / 2 } else { bound }, "lack {lack} above {bound}");
    }

    /// Timers that end a budget too late (by up to a tick) do not change the bandwidth: an overrun
    /// is paid back.
    #[test]
    fn late_timers_are_paid_back(period in periods(), share in 10_000u64..PPM, late in 0..4 * MS) {
        let runtime = (period * share / PPM).max(1);
        let late = late.min(runtime / 2);
        let mut cpu = Cpu::new(vec![Task::new(runtime, period, [FOREVER])]);
        cpu.timer_late = late;
        cpu.run(END);
        let (excess, _) = extremes(&cpu.tasks[0].trace.runs, runtime, period, cpu.now);
        let bound = twice(runtime, period) + 2 * i128::from(late) * i128::from(period);
        prop_assert!(excess <= bound, "excess {excess} above {bound}");
    }
}

/// Theorem 4; after the first period the run time is exact.
#[test]
fn an_overrunning_task_of_20_percent_gets_20_percent() {
    for (runtime, period) in [(2 * MS, 10 * MS), (6 * MS, 30 * MS), (100 * MS, 500 * MS)] {
        let load = Task::new(4 * period / 10, period / 2, [FOREVER]); // the other 80 %
        let mut cpu = Cpu::new(vec![Task::new(runtime, period, [FOREVER]), load]);
        cpu.run(period + 10 * SEC / period * period);
        let after_first = cpu.tasks[0].trace.runs.iter();
        let ran: u64 = after_first
            .filter(|r| r.1 > period)
            .map(|r| r.1 - r.0.max(period))
            .sum();
        assert_eq!(ran, 10 * SEC / period * runtime, "{runtime}:{period}");
        let idle_left: u64 = cpu.tasks[1].trace.runs.iter().map(|r| r.1 - r.0).sum();
        assert_eq!(
            idle_left + ran + runtime,
            cpu.now,
            "the CPU was never without work"
        );
    }
}
