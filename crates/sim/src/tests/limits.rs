//! What is counted as throttling by cpu.max.

use super::cgroups::{machine, start_in};
use super::domains::{domain, had, hogs, near};
use crate::workload::{hog, on_off};
use crate::{Bandwidth, CgroupId, Simulation, ROOT};

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;

fn limited(sim: &mut Simulation, quota_ms: u64) -> CgroupId {
    let id = domain(sim, ROOT, "limited", 100);
    let limit = Bandwidth {
        quota: Some(quota_ms * 1000),
        ..Bandwidth::default()
    };
    sim.set_cgroup_bandwidth(id, limit).unwrap();
    id
}

/// A domain that wants more is throttled once in each period, for the rest of the period.
#[test]
fn a_limit_that_is_reached_is_counted() {
    let mut sim = machine(1);
    let limited = limited(&mut sim, 30);
    let tasks = hogs(&mut sim, limited, 2);
    sim.run_until(10 * SEC);
    near(had(&sim, &tasks, 10 * SEC), 300_000, 1_000);
    let (times, ns) = sim.throttled(limited).unwrap();
    assert!((99..=101).contains(&times), "{times} times");
    near(ns / (10 * SEC / 1_000_000), 700_000, 10_000);
}

/// A limit that the domain cannot reach throttles nothing, and nothing is counted: one task and
/// more than one CPU's time; many tasks and the time of all CPUs, or more; tasks that sleep mostly.
#[test]
fn a_limit_that_cannot_be_reached_is_not_counted() {
    for (cpus, quota_ms, tasks) in [
        (2, 150, 1),
        (1, 100, 3),
        (2, 200, 6),
        (4, 400, 9),
        (2, 300, 4),
    ] {
        let mut sim = machine(cpus);
        let limited = limited(&mut sim, quota_ms);
        let tasks = hogs(&mut sim, limited, tasks);
        sim.run_until(10 * SEC);
        let had = had(&sim, &tasks, 10 * SEC);
        let most = [1_000_000 * tasks.len(), 1_000_000 * cpus]
            .into_iter()
            .min();
        near(had, most.unwrap() as u64, 1_000);
        assert_eq!(sim.throttled(limited).unwrap(), (0, 0), "{cpus} CPUs");
    }
    let mut sim = machine(2);
    let limited = limited(&mut sim, 50);
    for _ in 0..4 {
        start_in(&mut sim, limited, on_off(0, MS, 9 * MS));
    }
    let others = domain(&mut sim, ROOT, "others", 100);
    hogs(&mut sim, others, 4);
    start_in(&mut sim, others, hog(0));
    sim.run_until(10 * SEC);
    assert_eq!(sim.throttled(limited).unwrap(), (0, 0));
}
