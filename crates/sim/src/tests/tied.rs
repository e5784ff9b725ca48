//! Tasks that may run on some CPUs only (`taskset`, cpusets): their domain's share is theirs, whatever their number.

use super::cgroups::machine;
use super::domains::{domain, had, hogs, near};
use super::{MS, SEC};
use crate::workload::{hog, on_off};
use crate::{CgroupId, CpuMask, Simulation, TaskId, ROOT};

/// `n` hogs in `cgroup`, one after another on each of `cpus`.
fn tied(sim: &mut Simulation, cgroup: CgroupId, n: usize, cpus: usize) -> Vec<TaskId> {
    (0..n)
        .map(|i| {
            sim.start_in(cgroup, 100, CpuMask::only(i % cpus), Box::new(hog(0)))
                .unwrap()
        })
        .collect()
}

/// Or anybody could have more than the share of his domain by `taskset`.
#[test]
fn many_tied_tasks_have_no_more_than_their_domains_share() {
    for (weight, due) in [(100, 500_000), (1, 9_901)] {
        let mut sim = machine(2);
        let (a, b) = (
            domain(&mut sim, ROOT, "a", 100),
            domain(&mut sim, ROOT, "b", weight),
        );
        let free = hogs(&mut sim, a, 2);
        let many = tied(&mut sim, b, 50, 2);
        sim.run_until(20 * SEC);
        near(had(&sim, &many, 40 * SEC), due, 10_000);
        near(had(&sim, &free, 40 * SEC), 1_000_000 - due, 10_000);
    }
}

/// All on one CPU, which their domain is due wholly: the free one has the other.
#[test]
fn a_share_may_be_used_on_one_cpu() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    let free = hogs(&mut sim, a, 3);
    let many = tied(&mut sim, b, 10, 1);
    sim.run_until(10 * SEC);
    near(had(&sim, &many, 20 * SEC), 500_000, 20_000);
    near(had(&sim, &free, 20 * SEC), 500_000, 20_000);
}

/// Beside each other on one CPU, and below different parents.
#[test]
fn tied_tasks_of_several_domains_share_a_cpu_by_weight() {
    let mut sim = machine(2);
    let (p, q) = (
        domain(&mut sim, ROOT, "p", 100),
        domain(&mut sim, ROOT, "q", 200),
    );
    let (x, y) = (domain(&mut sim, p, "x", 100), domain(&mut sim, p, "y", 900));
    let z = domain(&mut sim, q, "z", 1);
    let (of_x, of_y, of_z) = (
        tied(&mut sim, x, 20, 1),
        tied(&mut sim, y, 1, 1),
        tied(&mut sim, z, 5, 1),
    );
    sim.run_until(20 * SEC);
    let cpu: u64 = [&of_x, &of_y, &of_z]
        .iter()
        .flat_map(|tasks| tasks.iter())
        .map(|&t| sim.ran(t))
        .sum();
    near(had(&sim, &of_z, cpu), 666_667, 20_000);
    near(had(&sim, &of_y, cpu), 300_000, 20_000);
    near(had(&sim, &of_x, cpu), 33_333, 10_000);
}

#[test]
fn tied_tasks_of_an_idle_domain_have_what_others_leave() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    sim.set_cgroup_idle(b, true).unwrap();
    let free = hogs(&mut sim, a, 2);
    let many = tied(&mut sim, b, 20, 2);
    sim.run_until(30 * SEC); // who waited for 10 s is rescued
    near(had(&sim, &free, 60 * SEC), 1_000_000, 10_000);
    assert!(many.iter().all(|&t| sim.ran(t) > 0), "all run now and then");
}

/// In one domain, a tied task and a free one get the same.
#[test]
fn tied_or_not_in_one_domain() {
    let mut sim = machine(2);
    let a = domain(&mut sim, ROOT, "a", 100);
    let free = hogs(&mut sim, a, 2);
    let of_cpus = tied(&mut sim, a, 2, 2);
    sim.run_until(10 * SEC);
    near(had(&sim, &free, 20 * SEC), 500_000, 50_000);
    near(had(&sim, &of_cpus, 20 * SEC), 500_000, 50_000);
}

/// More domains on one CPU than it has lanes: all run.
#[test]
fn tied_tasks_of_many_domains() {
    let mut sim = machine(2);
    let tasks: Vec<_> = (0..60)
        .flat_map(|i| {
            let one = domain(&mut sim, ROOT, &format!("d{i}"), 100);
            tied(&mut sim, one, 1, 1)
        })
        .collect();
    sim.run_until(20 * SEC);
    let least = tasks.iter().map(|&t| sim.ran(t)).min().unwrap();
    assert!(least > 20 * SEC / 60 / 2, "{least}");
}

/// A sleeper's next turn is where its domain's tag says, though nobody waits when it wakes up.
#[test]
fn short_sleeps_gain_nothing() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus);
        let (a, b) = (
            domain(&mut sim, ROOT, "a", 10_000),
            domain(&mut sim, ROOT, "b", 1),
        );
        let heavy = tied(&mut sim, a, cpus, cpus);
        let light: Vec<_> = (0..cpus)
            .map(|cpu| {
                let often = Box::new(on_off(0, 4 * MS, MS / 100));
                sim.start_in(b, 100, CpuMask::only(cpu), often).unwrap()
            })
            .collect();
        sim.run_until(10 * SEC);
        near(had(&sim, &light, 10 * SEC * cpus as u64), 0, 20_000);
        near(had(&sim, &heavy, 10 * SEC * cpus as u64), 1_000_000, 20_000);
    }
}

/// The same without domains: a nice value counts for who sleeps, too.
#[test]
fn short_sleeps_gain_nothing_by_nice() {
    let mut sim = machine(1);
    let all = CpuMask::first(1);
    let heavy = sim.start_in(ROOT, 8_876, all, Box::new(hog(0))).unwrap();
    let often = Box::new(on_off(0, 4 * MS, MS / 100));
    let light = sim.start_in(ROOT, 100, all, often).unwrap();
    sim.run_until(10 * SEC);
    near(had(&sim, &[light], 10 * SEC), 11_141, 10_000);
    near(had(&sim, &[heavy], 10 * SEC), 988_859, 10_000);
}
