//! Random task sets for the theorems: what well-behaved and hostile tasks do.

use super::cpu::{Burst, Trace, When};
use crate::{MS, PPM, US};
use proptest::prelude::*;

pub const END: u64 = 400 * MS;

/// A task's weight (its part of the total bandwidth), its period, and what it does repeatedly.
#[derive(Clone, Debug)]
pub struct Plan {
    pub weight: u64,
    pub period: u64,
    pub offset: u64,
    /// Two numbers for each step, ppm: see [`Plan::jobs`] and [`Plan::hostile_bursts`].
    pub steps: Vec<(u64, u64)>,
}

impl Plan {
    /// Sporadic jobs. A step's first number is the gap beyond one period, in ppm of the period. Its
    /// second number is the work, in ppm of C, at most C.
    pub fn jobs(&self, runtime: u64) -> Vec<Burst> {
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

    /// Hostile bursts. A step's first number is the sleep, in ppm of T. Its second number is the
    /// work, in ppm of C, which may exceed C. Both go down to 1 ns.
    pub fn hostile_bursts(&self, runtime: u64) -> Vec<Burst> {
        let steps = self.steps.iter().cycle().take(5_000);
        let hostile_bursts = steps.map(|&(sleep, work)| Burst {
            when: When::After((self.period * sleep / PPM).max(1)),
            work: (runtime * work / PPM).max(1),
        });
        let first = Burst {
            when: When::At(self.offset),
            work: 1,
        };
        std::iter::once(first).chain(hostile_bursts).collect()
    }
}

pub fn periods() -> impl Strategy<Value = u64> {
    prop_oneof![1_000u64..100_000, (1u64..20).prop_map(|n| n * 5_000)].prop_map(|us| us * US)
}

fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..(50 * MS)]
}

prop_compose! {
    pub fn good()(weight in 1u64..100, period in periods(), offset in offsets(),
              steps in prop::collection::vec((prop_oneof![2 => Just(0), 1 => 0..2 * PPM],
                                              prop_oneof![2 => Just(PPM), 1 => 1..PPM]), 1..6)) -> Plan {
        Plan { weight, period, offset, steps }
    }
}

prop_compose! {
    pub fn hostile()(weight in 1u64..100, period in periods(), offset in offsets(),
                 steps in prop::collection::vec((prop_oneof![Just(0), 0..1_000u64, 0..2 * PPM, Just(PPM)],
                                                 prop_oneof![Just(PPM), 0..2 * PPM, Just(20 * PPM)]), 1..8)) -> Plan {
        Plan { weight, period, offset, steps }
    }
}

pub fn total() -> impl Strategy<Value = u64> {
    prop_oneof![Just(PPM), (PPM / 4)..PPM]
}

/// C of each plan, ns: `total` ppm of the CPU, divided in proportion to the weights.
pub fn runtimes(plans: &[Plan], total: u64) -> Vec<u64> {
    let sum: u64 = plans.iter().map(|p| p.weight).sum();
    plans
        .iter()
        .map(|p| (p.period * p.weight / sum * total / PPM).max(1))
        .collect()
}

/// Checks that no job of `plan` with a deadline up to `end` was late.
pub fn on_time(trace: &Trace, plan: &Plan, jobs: &[Burst], end: u64) -> Result<(), TestCaseError> {
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

/// A burst that never ends.
pub const FOREVER: Burst = Burst {
    when: When::At(0),
    work: 1 << 60,
};

/// The length of the parts of `intervals` within `from..to`. `intervals` must be sorted and
/// disjoint.
pub fn within(intervals: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let first = intervals.partition_point(|i| i.1 <= from);
    let overlap = |i: &(u64, u64)| i.1.min(to) - i.0.max(from);
    let inside = intervals[first..].iter().take_while(|i| i.0 < to);
    inside.map(overlap).sum()
}
