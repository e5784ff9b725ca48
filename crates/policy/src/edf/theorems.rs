//! Theorems about `edf.h` over random task sets.
//!
//! 1. Feasibility (Liu and Layland 1973): if sum C/T <= 1 and no job needs more than C, no deadline is
//!    missed.
//! 2. Isolation (Abeni and Buttazzo 1998, theorem 1): the same for a task that keeps within its C:T,
//!    whatever all others do.
//! 3. Bandwidth, with U = C/T: any window of L ns gives a server that always has work
//!    between U L - 2 C (1 - U) and U L + 2 C (1 - U), one that sleeps at most U L + 2 C; alone, at
//!    least U L - C (1 - U). (The upper bound is tight: C at the end of one period, C at the
//!    beginning of the next. The lower: the other way round.)
//! 4. A task of 20 % that wants all of a loaded CPU gets 20 % of it.

use super::cpu::{Burst, Cpu, Task, Trace, When};
use crate::{MS, PPM, SEC, US};
use proptest::prelude::*;

const END: u64 = 400 * MS;

/// A task's share of the total (relative), its period, and what it does over and over.
#[derive(Clone, Debug)]
struct Plan {
    weight: u64,
    period: u64,
    offset: u64,
    /// Two numbers a step, ppm: see [`Plan::jobs`] and [`Plan::pranks`].
    steps: Vec<(u64, u64)>,
}

impl Plan {
    /// Sporadic jobs: at least a period apart (the first number: by how much more), none above C.
    fn jobs(&self, runtime: u64) -> Vec<Burst> {
        let mut at = self.offset;
        let mut jobs = Vec::new();
        for &(gap, work) in self.steps.iter().cycle() {
            if at >= END {
                return jobs;
            }
            let work = (runtime * work.min(PPM) / PPM).max(1);
            jobs.push(Burst {
                when: When::At(at),
                work,
            });
            at += self.period + self.period * gap / PPM;
        }
        jobs
    }

    /// Hostile: any work (in parts of C) and any sleep (in parts of T), down to nanoseconds.
    fn pranks(&self, runtime: u64) -> Vec<Burst> {
        let steps = self.steps.iter().cycle().take(5_000);
        let pranks = steps.map(|&(sleep, work)| Burst {
            when: When::After((self.period * sleep / PPM).max(1)),
            work: (runtime * work / PPM).max(1),
        });
        let first = Burst {
            when: When::At(self.offset),
            work: 1,
        };
        std::iter::once(first).chain(pranks).collect()
    }
}

fn periods() -> impl Strategy<Value = u64> {
    prop_oneof![1_000u64..100_000, (1u64..20).prop_map(|n| n * 5_000)].prop_map(|us| us * US)
}

fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..(50 * MS)]
}

prop_compose! {
    fn good()(weight in 1u64..100, period in periods(), offset in offsets(),
              steps in prop::collection::vec((prop_oneof![2 => Just(0), 1 => 0..2 * PPM],
                                              prop_oneof![2 => Just(PPM), 1 => 1..PPM]), 1..6)) -> Plan {
        Plan { weight, period, offset, steps }
    }
}

prop_compose! {
    fn hostile()(weight in 1u64..100, period in periods(), offset in offsets(),
                 steps in prop::collection::vec((prop_oneof![Just(0), 0..1_000u64, 0..2 * PPM, Just(PPM)],
                                                 prop_oneof![Just(PPM), 0..2 * PPM, Just(20 * PPM)]), 1..8)) -> Plan {
        Plan { weight, period, offset, steps }
    }
}

fn total() -> impl Strategy<Value = u64> {
    prop_oneof![Just(PPM), (PPM / 4)..PPM]
}

/// C of each plan: `total` ppm of the CPU in proportion to the weights.
fn runtimes(plans: &[Plan], total: u64) -> Vec<u64> {
    let sum: u64 = plans.iter().map(|p| p.weight).sum();
    plans
        .iter()
        .map(|p| (p.period * p.weight / sum * total / PPM).max(1))
        .collect()
}

/// No job of `plan`, as far as its deadline is before `end`, is late.
fn on_time(trace: &Trace, plan: &Plan, jobs: &[Burst], end: u64) -> Result<(), TestCaseError> {
    for (k, job) in jobs.iter().enumerate() {
        let When::At(release) = job.when else {
            unreachable!("jobs have release times")
        };
        let deadline = release + plan.period;
        if deadline > end {
            break;
        }
        let done = trace.bursts.get(k).map(|b| b.1);
        prop_assert!(
            done.is_some_and(|t| t <= deadline),
            "job {k}, released {release}, deadline {deadline}, done {done:?}"
        );
    }
    prop_assert_eq!(trace.missed, 0);
    Ok(())
}

/// What `runs` exceeds U L by in the best window, and falls below U L in the worst one before `end`;
/// both times T, to stay exact.
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

/// 2 C (1 - U) times T.
fn twice(runtime: u64, period: u64) -> i128 {
    2 * i128::from(runtime) * i128::from(period - runtime)
}

const FOREVER: Burst = Burst {
    when: When::At(0),
    work: 1 << 60,
};

proptest! {
    /// Theorem 1.
    #[test]
    fn feasible_sets_meet_every_deadline(plans in prop::collection::vec(good(), 1..7), total in total(), spare: bool) {
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

    /// Theorem 2, and the upper bound of theorem 3 for servers that sleep.
    #[test]
    fn hostile_tasks_harm_nobody_else(one in good(), others in prop::collection::vec(hostile(), 1..6),
                                      total in total(), spare: bool) {
        let mut plans = vec![one];
        plans.extend(others);
        let c = runtimes(&plans, total);
        let jobs = plans[0].jobs(c[0]);
        let mut tasks = vec![Task::new(c[0], plans[0].period, jobs.iter().copied())];
        tasks.extend(plans.iter().zip(&c).skip(1).map(|(p, &c)| Task::new(c, p.period, p.pranks(c))));
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

    /// Theorem 3 for a server that always has work, among hostile ones.
    #[test]
    fn constant_work_gets_its_bandwidth(one in hostile(), others in prop::collection::vec(hostile(), 0..5),
                                        total in total()) {
        let mut plans = vec![one];
        plans.extend(others);
        let c = runtimes(&plans, total);
        let alone = plans.len() == 1;
        let mut tasks = vec![Task::new(c[0], plans[0].period, [FOREVER])];
        tasks.extend(plans.iter().zip(&c).skip(1).map(|(p, &c)| Task::new(c, p.period, p.pranks(c))));
        let mut cpu = Cpu::new(tasks);
        cpu.run(END);
        let s = cpu.tasks[0].server;
        let (excess, lack) = extremes(&cpu.tasks[0].trace.runs, s.runtime, s.period, cpu.now);
        let bound = twice(s.runtime, s.period);
        prop_assert!(excess <= bound, "excess {excess} above {bound}");
        prop_assert!(lack <= if alone { bound / 2 } else { bound }, "lack {lack} above {bound}");
    }

    /// Timers that end a budget late (by up to a tick) shift the books but not the bandwidth: an
    /// overrun is paid back.
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

/// Theorem 4, and what it gets in the first second to the millisecond.
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
