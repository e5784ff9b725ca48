//! The kernel's autogroups: the tasks of one session weigh no more than one of them
//! (bpf/tree/session.bpf.h).

use super::cgroups::machine;
use super::domains::{domain, had, near};
use super::{MS, SEC};
use crate::workload::{hog, on_off};
use crate::{Change, CpuMask, Program, Simulation, TaskId, ROOT};

/// Starts a task of this weight (nice 0: 100) in a session.
fn start(
    sim: &mut Simulation,
    session: u16,
    weight: u32,
    program: impl Program + 'static,
) -> TaskId {
    let all = CpuMask::first(sim.state.settings.cpus);
    let task = sim.start_with(weight, all, Box::new(program));
    sim.change(Change::Session(task, session));
    task
}

fn loops(sim: &mut Simulation, session: u16, weight: u32, n: usize) -> Vec<TaskId> {
    (0..n)
        .map(|_| start(sim, session, weight, hog(0)))
        .collect()
}

/// A machine without domains, or with one that has nothing to run.
fn either(cpus: usize, tree: bool) -> Simulation {
    let mut sim = machine(cpus);
    if tree {
        domain(&mut sim, ROOT, "empty", 100);
    }
    sim
}

#[test]
fn a_session_of_many_loops_has_what_a_session_of_one_has() {
    for (cpus, tree) in [(1, false), (1, true), (2, false), (2, true), (8, false)] {
        for n in [16, 100, 1000] {
            if n == 1000 && (cpus > 1 || tree) {
                continue; // it takes long
            }
            let mut sim = either(cpus, tree);
            let many = loops(&mut sim, 1, 100, n);
            // what one session can use on several CPUs
            let few = loops(&mut sim, 2, 100, cpus);
            sim.run_until(2 * SEC);
            let before: u64 = few.iter().map(|&t| sim.ran(t)).sum();
            sim.run_until(22 * SEC);
            let ran = few.iter().map(|&t| sim.ran(t)).sum::<u64>() - before;
            let share = ran * 1000 / (20 * SEC * cpus as u64);
            println!("{cpus} CPUs, tree {tree}, {n}: {share}");
            assert!((450..550).contains(&share), "{share} on {cpus}, {n} loops");
            if n < 1000 {
                assert!(many.iter().all(|&t| sim.ran(t) > 0));
            }
        }
    }
}

/// The tasks of the crowd get the same, and each waits for its turn, not for longer.
#[test]
fn the_tasks_of_a_session_share_its_part() {
    for tree in [false, true] {
        let mut sim = either(1, tree);
        let many = loops(&mut sim, 1, 100, 16);
        loops(&mut sim, 2, 100, 1);
        sim.run_until(20 * SEC);
        for &task in &many {
            near(had(&sim, &[task], 20 * SEC), 500_000 / 16, 3_000);
        }
    }
}

#[test]
fn without_autogroups_each_task_counts() {
    let mut sim = machine(1);
    loops(&mut sim, 1, 100, 16);
    let one = loops(&mut sim, 2, 100, 1);
    for task in 0..17 {
        sim.change(Change::Session(task, 0));
    }
    sim.run_until(20 * SEC);
    near(had(&sim, &one, 20 * SEC), 1_000_000 / 17, 5_000);
}

/// Nice counts between sessions too, unlike in the kernel.
#[test]
fn a_session_of_low_priority_has_what_its_tasks_weigh() {
    let mut sim = machine(1);
    let low = loops(&mut sim, 1, 10, 4);
    let one = loops(&mut sim, 2, 100, 1);
    sim.run_until(20 * SEC);
    near(had(&sim, &low, 20 * SEC), 40_000_000 / 140, 15_000);
    near(had(&sim, &one, 20 * SEC), 100_000_000 / 140, 15_000);
}

#[test]
fn a_task_of_high_priority_keeps_its_weight_in_its_session() {
    let mut sim = machine(1);
    loops(&mut sim, 1, 100, 8);
    let high = start(&mut sim, 1, 800, hog(0));
    loops(&mut sim, 2, 100, 1);
    sim.run_until(20 * SEC);
    // 800 of a crowd of 1,600 has half of its weight: 400, beside 8 of 6 and one of 100
    let due = 400_000_000 / (400 + 50 + 100);
    near(had(&sim, &[high], 20 * SEC), due, 40_000);
}

/// Sleepers that compete are a crowd as loops are, and none is left counted when all have gone.
#[test]
fn a_crowd_of_sleepers_counts_and_ends() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus);
        let many: Vec<_> = (0..50 * cpus)
            .map(|i| start(&mut sim, 1, 100, on_off(i as u64 * MS, 5 * MS, 20 * MS)))
            .collect();
        let few = loops(&mut sim, 2, 100, cpus);
        sim.run_until(20 * SEC);
        let share = had(&sim, &few, 20 * SEC * cpus as u64);
        assert!(share > 430_000, "{share}");
        for task in many {
            sim.change(Change::Kill(task));
        }
        sim.run_until(21 * SEC);
        let last = loops(&mut sim, 1, 100, cpus);
        let before: u64 = last.iter().map(|&t| sim.ran(t)).sum();
        assert_eq!(before, 0);
        sim.run_until(31 * SEC);
        near(had(&sim, &last, 10 * SEC * cpus as u64), 500_000, 30_000);
    }
}

/// More sessions than the table has places near each other: they share crowds, and all run.
#[test]
fn sessions_that_find_no_place_run() {
    let mut sim = machine(1);
    let ids = (0..8u16).map(|i| 1 + i * 4096);
    let tasks: Vec<_> = ids.map(|id| loops(&mut sim, id, 100, 1)[0]).collect();
    sim.run_until(16 * SEC);
    for &task in &tasks {
        let share = had(&sim, &[task], 16 * SEC);
        assert!((20_000..300_000).contains(&share), "{share}");
    }
}
