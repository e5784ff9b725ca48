//! Pinned tasks (`taskset`, cpusets): they get the share of their domain, whatever their number.

use super::cgroups::machine;
use super::domains::{domain, group, had, hogs, near};
use super::{MS, SEC};
use crate::workload::{hog, on_off};
use crate::{CgroupId, Change, CpuMask, Simulation, Step, TaskId, ROOT};

/// Start `n` hogs in `cgroup` that are pinned to CPUs 0 to `cpus` - 1 in turn.
fn pinned(sim: &mut Simulation, cgroup: CgroupId, n: usize, cpus: usize) -> Vec<TaskId> {
    (0..n)
        .map(|i| {
            sim.start_in(cgroup, 100, CpuMask::only(i % cpus), Box::new(hog(0)))
                .unwrap()
        })
        .collect()
}

/// Otherwise a user could get more than the share of a domain by `taskset`.
#[test]
fn many_pinned_tasks_have_no_more_than_their_domains_share() {
    for (weight, due) in [(100, 500_000), (1, 9_901)] {
        let mut sim = machine(2);
        let (a, b) = (
            domain(&mut sim, ROOT, "a", 100),
            domain(&mut sim, ROOT, "b", weight),
        );
        let free = hogs(&mut sim, a, 2);
        let many = pinned(&mut sim, b, 50, 2);
        sim.run_until(20 * SEC);
        near(had(&sim, &many, 40 * SEC), due, 10_000);
        near(had(&sim, &free, 40 * SEC), 1_000_000 - due, 10_000);
    }
}

/// All tasks of a domain are pinned to one CPU, and its share is a whole CPU. The other domain has
/// the other CPU.
#[test]
fn a_domain_may_use_its_share_on_one_cpu() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    let free = hogs(&mut sim, a, 3);
    let many = pinned(&mut sim, b, 10, 1);
    sim.run_until(10 * SEC);
    near(had(&sim, &many, 20 * SEC), 500_000, 20_000);
    near(had(&sim, &free, 20 * SEC), 500_000, 20_000);
}

/// The domains are side by side, and below different parents.
#[test]
fn pinned_tasks_of_several_domains_share_a_cpu_by_weight() {
    let mut sim = machine(2);
    let (p, q) = (
        domain(&mut sim, ROOT, "p", 100),
        domain(&mut sim, ROOT, "q", 200),
    );
    let (x, y) = (domain(&mut sim, p, "x", 100), domain(&mut sim, p, "y", 900));
    let z = domain(&mut sim, q, "z", 1);
    let (of_x, of_y, of_z) = (
        pinned(&mut sim, x, 20, 1),
        pinned(&mut sim, y, 1, 1),
        pinned(&mut sim, z, 5, 1),
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
fn pinned_tasks_of_an_idle_domain_have_the_time_that_others_leave() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    sim.set_cgroup_idle(b, true).unwrap();
    let free = hogs(&mut sim, a, 2);
    let many = pinned(&mut sim, b, 20, 2);
    sim.run_until(30 * SEC); // a task that has waited for 10 s is rescued
    near(had(&sim, &free, 60 * SEC), 1_000_000, 10_000);
    assert!(many.iter().all(|&t| sim.ran(t) > 0), "all run sometimes");
}

#[test]
fn a_pinned_and_a_free_task_of_one_domain_get_the_same_time() {
    let mut sim = machine(2);
    let a = domain(&mut sim, ROOT, "a", 100);
    let free = hogs(&mut sim, a, 2);
    let of_cpus = pinned(&mut sim, a, 2, 2);
    sim.run_until(10 * SEC);
    near(had(&sim, &free, 20 * SEC), 500_000, 50_000);
    near(had(&sim, &of_cpus, 20 * SEC), 500_000, 50_000);
}

#[test]
fn pinned_tasks_of_more_domains_than_a_cpu_has_lanes_run() {
    let mut sim = machine(2);
    let tasks: Vec<_> = (0..60)
        .flat_map(|i| {
            let one = domain(&mut sim, ROOT, &format!("d{i}"), 100);
            pinned(&mut sim, one, 1, 1)
        })
        .collect();
    sim.run_until(20 * SEC);
    let least = tasks.iter().map(|&t| sim.ran(t)).min().unwrap();
    assert!(least > 20 * SEC / 60 / 2, "{least}");
}

/// The domain of a sleeper keeps its tag, although no task waits when the sleeper wakes up.
#[test]
fn a_domain_gains_nothing_by_short_sleeps() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus);
        let (a, b) = (
            domain(&mut sim, ROOT, "a", 10_000),
            domain(&mut sim, ROOT, "b", 1),
        );
        let heavy = pinned(&mut sim, a, cpus, cpus);
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

/// Without domains: the nice value of a sleeper counts, too.
#[test]
fn a_task_gains_nothing_by_short_sleeps() {
    let mut sim = machine(1);
    let all = CpuMask::first(1);
    let heavy = sim.start_in(ROOT, 8_876, all, Box::new(hog(0))).unwrap();
    let often = Box::new(on_off(0, 4 * MS, MS / 100));
    let light = sim.start_in(ROOT, 100, all, often).unwrap();
    sim.run_until(10 * SEC);
    near(had(&sim, &[light], 10 * SEC), 11_141, 10_000);
    near(had(&sim, &[heavy], 10 * SEC), 988_859, 10_000);
}

/// Two tasks on one CPU that wake up each other: each finds the CPU's queue empty, and goes
/// straight to the CPU. Tasks that come to the machine's queue elsewhere still have their turn.
#[test]
fn a_pinned_pair_that_wakes_up_each_other_leaves_the_others_their_time() {
    let mut sim = machine(2);
    let pair: Vec<TaskId> = (0..2)
        .map(|i| {
            let mut step = 0;
            let passes = move |_now: u64, _ran: u64| {
                step += 1;
                match (step + i) % 3 {
                    0 => Step::Run(MS / 50),
                    1 => Step::Wake(1 - i),
                    _ => Step::Wait,
                }
            };
            sim.start_in(ROOT, 100, CpuMask::only(0), Box::new(passes))
                .unwrap()
        })
        .collect();
    assert_eq!(pair, [0, 1]);
    sim.run_until(SEC);
    let alone = had(&sim, &pair, SEC);
    assert!(alone > 900_000, "they keep the CPU busy: {alone}");
    let free: Vec<TaskId> = (0..4)
        .map(|_| {
            sim.start_in(ROOT, 100, CpuMask::only(1), Box::new(hog(0)))
                .unwrap()
        })
        .collect();
    sim.run_until(2 * SEC);
    for &task in &free {
        assert!(sim.change(Change::Affinity(task, CpuMask::first(2))));
    }
    sim.run_until(12 * SEC);
    let (pair, free) = (sim.ran(0) + sim.ran(1), had(&sim, &free, 10 * SEC));
    assert!(free > 1_300_000, "free tasks: {free}, the pair: {pair} ns");
}

/// The longest time within `ns` in which each of `tasks` does not run.
fn longest_waits(sim: &mut Simulation, tasks: &[TaskId], ns: u64) -> Vec<u64> {
    let end = sim.now() + ns;
    let mut seen: Vec<_> = tasks.iter().map(|&t| (sim.ran(t), sim.now(), 0)).collect();
    while sim.now() < end {
        sim.run_until(sim.now() + MS);
        for (&task, (ran, since, longest)) in tasks.iter().zip(&mut seen) {
            *longest = (sim.now() - *since).max(*longest);
            if sim.ran(task) != *ran {
                (*ran, *since) = (sim.ran(task), sim.now());
            }
        }
    }
    seen.iter().map(|&(_, _, longest)| longest).collect()
}

/// A lane's virtual time may be far ahead of the machine's, or behind it. A task whose affinity is
/// set and taken back waits no longer than those that may run everywhere all the time, and those
/// wait no longer than before.
#[test]
fn affinity_that_is_set_and_taken_back_leaves_nothing_behind() {
    for grouped in [false, true] {
        let mut sim = machine(2);
        let group = group(&mut sim, grouped);
        let alone = pinned(&mut sim, group, 2, 2);
        sim.run_until(5 * SEC); // the lanes' virtual time is 5 s
        for id in alone {
            sim.change(Change::Kill(id));
        }
        let tasks = hogs(&mut sim, group, 20);
        sim.run_until(7 * SEC);
        let before = longest_waits(&mut sim, &tasks, 2 * SEC);
        let usual = *before.iter().max().unwrap();
        for round in 0..4 {
            let only = CpuMask::only(round % 2);
            assert!(sim.change(Change::Affinity(tasks[0], only)));
            longest_waits(&mut sim, &tasks, SEC);
            assert!(sim.change(Change::Affinity(tasks[0], CpuMask::first(2))));
            let waits = longest_waits(&mut sim, &tasks, 2 * SEC);
            let most = *waits.iter().max().unwrap();
            println!(
                "grouped {grouped}: {usual} before, {} of it, {most}",
                waits[0]
            );
            assert!(most <= usual + 20 * MS, "{most} ns, {usual} before");
        }
    }
}

/// A pinned loop on each CPU, and a task that sleeps most of the time and may run on both: it waits
/// for the end of one slice, not of two.
#[test]
fn a_task_that_wakes_up_goes_before_a_pinned_loop() {
    for grouped in [false, true] {
        let mut sim = machine(2);
        let group = group(&mut sim, grouped);
        pinned(&mut sim, group, 2, 2);
        let often = Box::new(on_off(0, MS / 2, 9 * MS / 2));
        let id = sim.start_in(group, 100, CpuMask::first(2), often).unwrap();
        sim.run_until(10 * SEC);
        let cycles = sim.ran(id) * 2 / MS;
        println!("grouped {grouped}: {cycles} of 2000");
        assert!(cycles > 1_000, "{cycles} in 10 s");
    }
}
