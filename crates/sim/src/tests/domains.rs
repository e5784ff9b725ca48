//! The domain tree (bpf/tree/) as users see it: the CPU time of hogs in cgroups after some seconds.

use super::cgroups::{machine, start_in};
use crate::workload::{hog, on_off};
use crate::{Bandwidth, CgroupId, CpuMask, DomainChange, DomainPolicy, Simulation, TaskId, ROOT};

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;

pub(super) fn domain(sim: &mut Simulation, parent: CgroupId, name: &str, weight: u32) -> CgroupId {
    let id = sim.create_cgroup(parent, name).unwrap();
    sim.set_cgroup_weight(id, weight).unwrap();
    id
}

/// The cgroup of a test that is run with domains and without: one of its own, or the root, which
/// alone is no tree.
pub(super) fn group(sim: &mut Simulation, grouped: bool) -> CgroupId {
    if grouped {
        domain(sim, ROOT, "a", 100)
    } else {
        ROOT
    }
}

pub(super) fn hogs(sim: &mut Simulation, cgroup: CgroupId, n: usize) -> Vec<TaskId> {
    (0..n).map(|_| start_in(sim, cgroup, hog(0))).collect()
}

/// CPU time of all `tasks`, ppm of `of` ns.
pub(super) fn had(sim: &Simulation, tasks: &[TaskId], of: u64) -> u64 {
    let ran: u64 = tasks.iter().map(|&t| sim.ran(t)).sum();
    ran * 1_000_000 / of
}

pub(super) fn near(found: u64, due: u64, off: u64) {
    assert!(found.abs_diff(due) <= off, "{found} ppm, due are {due}");
}

/// Tolerance: 0.5 % of the machine on one CPU, 2 % on two.
#[test]
fn domains_share_by_weight() {
    for (cpus, off) in [(1, 5_000), (2, 20_000), (4, 20_000)] {
        for weight in [100, 200, 400, 900] {
            let mut sim = machine(cpus);
            let a = domain(&mut sim, ROOT, "a", 100);
            let b = domain(&mut sim, ROOT, "b", weight);
            let (few, many) = (hogs(&mut sim, a, cpus), hogs(&mut sim, b, 3 * cpus));
            sim.run_until(10 * SEC);
            let all = 10 * SEC * cpus as u64;
            near(
                had(&sim, &few, all),
                100_000_000 / (100 + weight as u64),
                off,
            );
            near(had(&sim, &few, all) + had(&sim, &many, all), 1_000_000, 100);
        }
    }
}

/// Each level shares by its own weights; a deep domain loses nothing.
#[test]
fn shares_hold_at_any_depth() {
    let mut sim = machine(1);
    let mut at = ROOT;
    let shallow = domain(&mut sim, ROOT, "shallow", 100);
    for level in 0..16 {
        at = domain(&mut sim, at, &format!("level{level}"), 100);
    }
    let (deep, other) = (hogs(&mut sim, at, 2), hogs(&mut sim, shallow, 5));
    sim.run_until(10 * SEC);
    near(had(&sim, &deep, 10 * SEC), 500_000, 5_000);
    near(had(&sim, &other, 10 * SEC), 500_000, 5_000);
}

/// One thread can use one CPU only, whatever its weight. The others get the rest, and the thread's
/// domain has no debt for that.
#[test]
fn a_weight_that_cannot_be_used_harms_no_domain() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 900),
        domain(&mut sim, ROOT, "b", 100),
    );
    let (one, others) = (hogs(&mut sim, a, 1), hogs(&mut sim, b, 3));
    sim.run_until(5 * SEC);
    near(had(&sim, &one, 5 * SEC), 1_000_000, 10_000);
    near(had(&sim, &others, 5 * SEC), 1_000_000, 10_000);
    // the domain gains no credit either: a second thread does not take the other CPU for long
    let second = hogs(&mut sim, a, 1);
    sim.run_until(10 * SEC);
    near(had(&sim, &second, 5 * SEC), 900_000, 10_000);
}

#[test]
fn the_time_that_a_sleeping_domain_leaves_goes_to_the_others() {
    let mut sim = machine(1);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    let sleeper = start_in(&mut sim, a, on_off(0, MS, 9 * MS));
    let other = hogs(&mut sim, b, 2);
    sim.run_until(10 * SEC);
    let slept = had(&sim, &[sleeper], 10 * SEC);
    near(had(&sim, &other, 10 * SEC), 1_000_000 - slept, 100);
    assert!(slept > 60_000, "{slept}");
}

#[test]
fn an_idle_domain_gets_the_time_that_others_leave() {
    let mut sim = machine(1);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    sim.set_cgroup_idle(b, true).unwrap();
    let (normal, idle) = (hogs(&mut sim, a, 2), hogs(&mut sim, b, 8));
    sim.run_until(10 * SEC);
    assert!(had(&sim, &idle, 10 * SEC) < 10_000);
    assert!(had(&sim, &idle, 10 * SEC) > 500, "but it does not starve");
    assert!(had(&sim, &normal, 10 * SEC) > 985_000);
}

/// `cpu.max`, within 1 % in each second, at depths 1, 4 and 15, on one CPU and on several.
#[test]
fn a_quota_is_kept_each_second_at_any_depth() {
    for (cpus, depth, quota) in [
        (1, 1, 20_000),
        (1, 4, 35_000),
        (2, 1, 50_000),
        (2, 15, 120_000),
        (4, 2, 250_000),
    ] {
        let mut sim = machine(cpus);
        let top = domain(&mut sim, ROOT, "top", 100);
        let limit = Bandwidth {
            period: 100_000,
            quota: Some(quota),
            burst: 0,
        };
        sim.set_cgroup_bandwidth(top, limit).unwrap();
        let mut at = top;
        for level in 1..depth {
            at = domain(&mut sim, at, &format!("level{level}"), 100);
        }
        let other = domain(&mut sim, ROOT, "other", 100);
        let (limited, free) = (
            hogs(&mut sim, at, 2 * cpus + 1),
            hogs(&mut sim, other, cpus),
        );
        let mut before = 0;
        for second in 1..=5 {
            sim.run_until(second * SEC);
            let now = had(&sim, &limited, SEC);
            let due = (quota * 10).min(500_000 * cpus as u64);
            near(now - before, due, due / 100);
            before = now;
        }
        near(
            had(&sim, &limited, SEC) + had(&sim, &free, SEC),
            5_000_000 * cpus as u64,
            1_000,
        );
    }
}

/// A throttled domain keeps its tag, for a slice. Otherwise the last part of its quota might come
/// so late that some of it falls into the next period.
#[test]
fn a_throttled_domain_runs_early_in_its_next_period() {
    let mut sim = machine(1);
    let limited = domain(&mut sim, ROOT, "limited", 100);
    let limit = Bandwidth {
        period: 100_000,
        quota: Some(8_000), // two slices; it is due 9.1
        burst: 0,
    };
    sim.set_cgroup_bandwidth(limited, limit).unwrap(); // periods begin at 0, 100 ms and so on
    for i in 0..10 {
        let other = domain(&mut sim, ROOT, &format!("d{i}"), 100);
        hogs(&mut sim, other, 2);
    }
    let tasks = hogs(&mut sim, limited, 2);
    sim.run_until(SEC);
    for period in 10..30 {
        let before = had(&sim, &tasks, SEC);
        // the first slice when the running task has used up its slice, the second after slices of
        // some other domains; it would take 50 to 60 ms if the domain had lost its tag
        sim.run_until(period * 100 * MS + 30 * MS);
        near(had(&sim, &tasks, SEC), before + 8_000, 100);
        sim.run_until((period + 1) * 100 * MS);
        near(had(&sim, &tasks, SEC), before + 8_000, 100);
    }
}

/// The limit of a parent holds for both children together.
#[test]
fn quotas_are_hierarchical() {
    let mut sim = machine(2);
    let limit = |quota| Bandwidth {
        period: 100_000,
        quota: Some(quota),
        burst: 0,
    };
    let top = domain(&mut sim, ROOT, "top", 100);
    sim.set_cgroup_bandwidth(top, limit(50_000)).unwrap();
    let (a, b) = (
        domain(&mut sim, top, "a", 100),
        domain(&mut sim, top, "b", 100),
    );
    sim.set_cgroup_bandwidth(a, limit(10_000)).unwrap();
    let (few, rest) = (hogs(&mut sim, a, 2), hogs(&mut sim, b, 2));
    sim.run_until(5 * SEC);
    near(had(&sim, &few, 5 * SEC), 100_000, 2_000);
    near(had(&sim, &rest, 5 * SEC), 400_000, 5_000);
}

/// A moved task, a new weight, a removed domain: shares change with each.
#[test]
fn changes_of_the_tree_count_from_then_on() {
    let mut sim = machine(1);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 300),
    );
    let (x, y) = (hogs(&mut sim, a, 1), hogs(&mut sim, b, 1));
    sim.run_until(4 * SEC);
    near(had(&sim, &x, 4 * SEC), 250_000, 10_000);
    sim.set_cgroup_weight(a, 300).unwrap();
    sim.run_until(8 * SEC);
    near(had(&sim, &x, 4 * SEC) - 250_000, 500_000, 15_000);
    let before = sim.ran(y[0]);
    sim.move_process(y[0], a).unwrap();
    sim.remove_cgroup(b).unwrap();
    sim.run_until(12 * SEC);
    near(
        (sim.ran(y[0]) - before) * 1_000_000 / (4 * SEC),
        500_000,
        30_000,
    );
}

#[test]
fn a_thousand_tasks_have_no_more_than_their_domains_share() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    let (movie, bomb) = (hogs(&mut sim, a, 2), hogs(&mut sim, b, 1000));
    sim.run_until(10 * SEC);
    near(had(&sim, &movie, 20 * SEC), 500_000, 20_000);
    near(had(&sim, &bomb, 20 * SEC), 500_000, 20_000);
}

/// Pinned tasks wait in the queue of their CPU, and use their domain's share like others.
#[test]
fn pinned_tasks_run_within_their_domains_share() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    let pinned: Vec<_> = (0..2)
        .map(|cpu| {
            sim.start_in(a, 100, CpuMask::only(cpu), Box::new(hog(0)))
                .unwrap()
        })
        .collect();
    let free = hogs(&mut sim, b, 2);
    sim.run_until(10 * SEC);
    near(had(&sim, &pinned, 20 * SEC), 500_000, 50_000);
    near(had(&sim, &free, 20 * SEC), 500_000, 50_000);
}

/// A limit holds for pinned tasks, too: time beyond the quota is a debt of the next periods.
#[test]
fn a_quota_holds_for_pinned_tasks() {
    let mut sim = machine(2);
    let a = domain(&mut sim, ROOT, "a", 100);
    let limit = Bandwidth {
        period: 100_000,
        quota: Some(40_000),
        burst: 0,
    };
    sim.set_cgroup_bandwidth(a, limit).unwrap();
    let pinned: Vec<_> = (0..4)
        .map(|i| sim.start_in(a, 100, CpuMask::only(i % 2), Box::new(hog(0))))
        .collect::<Result<_, _>>()
        .unwrap();
    sim.run_until(10 * SEC);
    near(had(&sim, &pinned, 10 * SEC), 400_000, 8_000);
}

/// Two pinned threads share a quota that one of them could use up alone. The CPU that dispatches
/// first after the refill must leave a part to the other CPU, in each period.
#[test]
fn two_cpus_share_a_small_quota() {
    let mut sim = machine(2);
    let a = domain(&mut sim, ROOT, "a", 100);
    let limit = Bandwidth {
        period: 100_000,
        quota: Some(1_000),
        burst: 0,
    };
    sim.set_cgroup_bandwidth(a, limit).unwrap();
    let pinned: Vec<_> = (0..2)
        .map(|cpu| sim.start_in(a, 100, CpuMask::only(cpu), Box::new(hog(0))))
        .collect::<Result<_, _>>()
        .unwrap();
    sim.run_until(5 * SEC);
    let quota = 50 * MS;
    near(had(&sim, &pinned, quota), 1_000_000, 60_000);
    for &task in &pinned {
        let part = sim.ran(task) * 1_000_000 / quota;
        assert!(part > 250_000, "one thread got {part} ppm of the quota");
    }
}

/// Cgroups beyond the limits of the tree belong to the domain of an ancestor.
#[test]
fn a_cgroup_that_is_too_deep_belongs_to_its_ancestors_domain() {
    let mut sim = machine(1);
    let mut at = ROOT;
    for level in 0..20 {
        at = domain(&mut sim, at, &format!("level{level}"), 100);
    }
    let other = domain(&mut sim, ROOT, "other", 100);
    let (deep, free) = (hogs(&mut sim, at, 1), hogs(&mut sim, other, 1));
    sim.run_until(4 * SEC);
    near(had(&sim, &deep, 4 * SEC), 500_000, 10_000);
    near(had(&sim, &free, 4 * SEC), 500_000, 10_000);
    const LIMIT: usize = 11; // EV_LIMIT
    assert_eq!(sim.reported(LIMIT), 4);
}

/// The kernel ends a scheduler that lets a task wait for 30 s (`no_task_starves` checks this after
/// every event). Neither a weight of 1 beside 10,000 causes that, nor a limit of 1 ms in a second
/// with many tasks.
#[test]
fn no_task_waits_for_ever_however_small_its_domains_share_is() {
    let mut sim = machine(1);
    let (a, b, c) = (
        domain(&mut sim, ROOT, "a", 10_000),
        domain(&mut sim, ROOT, "b", 1),
        domain(&mut sim, ROOT, "c", 100),
    );
    let limit = Bandwidth {
        period: 1_000_000,
        quota: Some(1_000),
        burst: 0,
    };
    sim.set_cgroup_bandwidth(c, limit).unwrap();
    let movie = hogs(&mut sim, a, 1);
    let (light, limited) = (hogs(&mut sim, b, 100), hogs(&mut sim, c, 100));
    let mut before = vec![0; 200];
    sim.run_until(20 * SEC);
    for round in 1..=3 {
        sim.run_until((20 + 25 * round) * SEC);
        for (id, before) in light.iter().chain(&limited).zip(&mut before) {
            assert!(sim.ran(*id) > *before, "task {id} has not run for 25 s");
            *before = sim.ran(*id);
        }
    }
    assert!(had(&sim, &movie, 95 * SEC) > 970_000);
}

/// If the first task of a FIFO never stopped, the kernel would end the scheduler after 30 s,
/// because the second waits. If the second was preempted in the kernel, RCU would stall after 21 s.
#[test]
fn no_task_waits_for_ever_behind_the_first_of_a_fifo() {
    let mut sim = machine(1);
    let a = domain(&mut sim, ROOT, "a", 100);
    sim.change_domain(a, DomainChange::Policy(DomainPolicy::Fifo))
        .unwrap();
    let tasks = hogs(&mut sim, a, 3);
    let mut before = vec![0; tasks.len()];
    for second in (15..=60).step_by(15) {
        sim.run_until(second * SEC);
        let now: Vec<u64> = tasks.iter().map(|&t| sim.ran(t)).collect();
        assert!(before.iter().zip(&now).all(|(b, n)| b < n), "{now:?}");
        before = now;
    }
    let first = had(&sim, &tasks[..1], 60 * SEC);
    assert!(first > 990_000, "the first task stays first: {first}");
}

/// The time that is not reserved is split among the runnable domains. Forty sleeping services have
/// no part.
#[test]
fn a_sleeping_domain_has_no_part_of_the_unreserved_time() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus);
        let (a, b) = (
            domain(&mut sim, ROOT, "a", 100),
            domain(&mut sim, ROOT, "b", 100),
        );
        for service in 0..40 {
            domain(&mut sim, ROOT, &format!("service{service}"), 100);
        }
        sim.change_domain(a, DomainChange::Fraction(200_000))
            .unwrap();
        let (reserved, other) = (hogs(&mut sim, a, 3), hogs(&mut sim, b, 3));
        sim.run_until(10 * SEC);
        let all = 10 * SEC * cpus as u64;
        near(had(&sim, &reserved, all), 600_000, 20_000);
        near(had(&sim, &other, all), 400_000, 20_000);
    }
}

/// `cpu.max.burst`: the rest of earlier quotas may be used at once, and no more than that.
#[test]
fn a_burst_is_the_rest_of_earlier_quotas() {
    let longest = |burst| {
        let mut sim = machine(1);
        let a = domain(&mut sim, ROOT, "a", 100);
        let limit = Bandwidth {
            period: 100_000,
            quota: Some(20_000),
            burst,
        };
        sim.set_cgroup_bandwidth(a, limit).unwrap();
        // 38 ms in each 300 ms: less than the quota of three periods, nearly that of two
        let (task, jobs) = crate::workload::Periodic::new(0, 38 * MS, 300 * MS, 1010 * MS);
        start_in(&mut sim, a, task);
        sim.run_until(10 * SEC);
        let longest = jobs.borrow().response.iter().copied().max();
        longest.unwrap()
    };
    assert!(
        longest(0) > 80 * MS,
        "without a burst it waits for the next period"
    );
    assert!(longest(20_000) < 40 * MS, "with a burst it does not wait");
}

/// Programs are in /aplomb for their memory alone (MEMORY_CGROUP).
#[test]
fn the_cgroup_of_memory_domains_has_no_share_of_its_own() {
    let mut sim = machine(1);
    let memory = domain(&mut sim, ROOT, "aplomb", 10_000);
    let other = domain(&mut sim, ROOT, "other", 100);
    let below = domain(&mut sim, other, "aplomb", 10_000);
    let (moved, stayed) = (hogs(&mut sim, memory, 1), hogs(&mut sim, ROOT, 1));
    let beside = hogs(&mut sim, other, 1);
    let deeper = hogs(&mut sim, below, 1);
    sim.run_until(10 * SEC);
    // two tasks of the root beside one domain, all of the same weight
    near(had(&sim, &moved, 10 * SEC), 333_333, 10_000);
    near(had(&sim, &stayed, 10 * SEC), 333_333, 10_000);
    // only right below the root is the name special
    assert!(had(&sim, &deeper, 10 * SEC) > 50 * had(&sim, &beside, 10 * SEC));
}
