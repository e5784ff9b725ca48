//! Timers that the kernel has no memory to start for a while: what waits for them goes on when it
//! has (bpf/state/unstarted.bpf.h). Timers that it has no memory to make: the scheduler does not
//! begin without them (bpf/layers/load.bpf.h).

use super::cgroups::start_in;
use super::domains::{domain, hogs, near};
use super::{reserve, SEC};
use crate::workload::hog;
use crate::{Bandwidth, ServerPolicy, Settings, Simulation, TaskId, ROOT};

/// A machine on which no timer can be started in the first two seconds.
fn machine(cpus: usize, server: ServerPolicy) -> Simulation {
    Simulation::new(Settings {
        cpus,
        server,
        timers_fail_until: 2 * SEC,
        ..Settings::default()
    })
}

/// What `tasks` have of the time from `from` to `to`, ppm of a CPU.
fn part(sim: &mut Simulation, tasks: &[TaskId], from: u64, to: u64) -> u64 {
    let ran = |sim: &Simulation| tasks.iter().map(|&t| sim.ran(t)).sum::<u64>();
    sim.run_until(from);
    let before = ran(sim);
    sim.run_until(to);
    (ran(sim) - before) * 1_000_000 / (to - from)
}

#[test]
fn a_throttled_domain_has_its_quota_again() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus, ServerPolicy::default());
        let limited = domain(&mut sim, ROOT, "limited", 100);
        let limit = Bandwidth {
            quota: Some(30_000),
            ..Bandwidth::default()
        };
        sim.set_cgroup_bandwidth(limited, limit).unwrap();
        let other = domain(&mut sim, ROOT, "other", 100);
        hogs(&mut sim, other, cpus);
        let tasks = hogs(&mut sim, limited, 2);
        near(part(&mut sim, &tasks, 3 * SEC, 9 * SEC), 300_000, 3_000);
    }
}

#[test]
fn a_hard_server_has_its_budget_again() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus, ServerPolicy::CbsHard);
        sim.spec(7, reserve(6_000_000, 30_000_000));
        let tasks = [start_in(&mut sim, ROOT, hog(7))];
        hogs(&mut sim, ROOT, cpus);
        near(part(&mut sim, &tasks, 3 * SEC, 9 * SEC), 200_000, 2_000);
    }
}

#[test]
fn timers_are_made_at_a_later_try() {
    let mut sim = Simulation::new(Settings {
        timers_unmade: 9,
        ..Settings::default()
    });
    let limited = domain(&mut sim, ROOT, "limited", 100);
    let limit = Bandwidth {
        quota: Some(30_000),
        ..Bandwidth::default()
    };
    sim.set_cgroup_bandwidth(limited, limit).unwrap();
    let tasks = hogs(&mut sim, limited, 2);
    near(part(&mut sim, &tasks, SEC, 3 * SEC), 300_000, 3_000);
}

#[test]
#[should_panic(expected = "the scheduler's init failed")]
fn without_its_timers_the_scheduler_does_not_begin() {
    Simulation::new(Settings {
        timers_unmade: u32::MAX,
        ..Settings::default()
    });
}
