//! CPUs that differ: what is reserved is work, and which task runs on a fast CPU.

use super::{reserve, MS, SEC};
use crate::workload::{hog, Periodic};
use crate::{
    Change, CpuMask, Place, Reservation, Settings, Simulation, SlowCpus, TaskId, SCHED_IDLE,
};

/// `fast` CPUs and then slow ones, of which each does half of the work.
fn machine(cpus: usize, fast: usize, known: bool) -> Simulation {
    Simulation::new(Settings {
        cpus,
        slow: Some(SlowCpus {
            from: fast,
            capacity: 512,
            known,
        }),
        checked: true,
        ..Settings::default()
    })
}

/// One of CPUs below `fast`?
fn on_fast(sim: &Simulation, id: TaskId, fast: usize) -> bool {
    matches!(sim.place(id), Place::Running(cpu) if cpu < fast)
}

/// A program of 5 ms of work in every 30 on the slow CPU, beside loops: how many jobs were late?
fn missed_on_a_slow_cpu(known: bool, asked: Reservation) -> u64 {
    let mut sim = machine(2, 1, known);
    sim.spec(7, asked);
    for _ in 0..8 {
        sim.start(hog(0));
    }
    let (task, jobs) = Periodic::new(7, 5 * MS, 30 * MS, 100 * MS);
    sim.start_with(100, CpuMask::only(1), Box::new(task));
    sim.run_until(20 * SEC);
    let jobs = jobs.borrow();
    assert!(
        known == (jobs.response.len() > 600),
        "{}",
        jobs.response.len()
    );
    let worst = jobs.response.iter().max().copied().unwrap_or(0);
    assert!(!known || worst < 10 * MS + 100_000, "{worst}");
    jobs.missed
}

#[test]
fn a_budget_on_a_slow_cpu_is_the_time_for_the_work() {
    for guaranteed in [false, true] {
        let asked = Reservation {
            guaranteed,
            ..reserve(6 * MS, 30 * MS)
        };
        assert_eq!(missed_on_a_slow_cpu(true, asked), 0);
        assert!(missed_on_a_slow_cpu(false, asked) > 100);
    }
}

/// On the slow CPU a loop has twice the time that its reservation says, and no more.
#[test]
fn a_loop_has_no_more_than_its_budget_in_time() {
    let mut sim = machine(2, 1, true);
    sim.spec(7, reserve(6 * MS, 30 * MS));
    let mask = CpuMask::only(1);
    for _ in 0..20 {
        sim.start_with(100, mask, Box::new(hog(0)));
    }
    let over = sim.start_with(100, mask, Box::new(hog(7)));
    sim.run_until(10 * SEC);
    let before = sim.ran(over);
    sim.run_until(40 * SEC);
    let ppm = (sim.ran(over) - before) / (30 * SEC / 1_000_000);
    assert!((400_000..405_000).contains(&ppm), "{ppm}");
}

/// An account counts work: a user's programs that have what they asked for keep it, though on slow
/// CPUs that takes more time than the account's limit, 0.6 of each CPU.
#[test]
fn an_account_counts_work() {
    let mut sim = machine(4, 1, true);
    let asked = |runtime| Reservation {
        revocable: true,
        ..reserve(runtime, 30 * MS)
    };
    sim.spec(7, asked(114 * MS / 10)); // 0.76 of a slow CPU
    sim.spec(8, asked(225 * MS / 10)); // 0.75 of the fast one
    let start = |sim: &mut Simulation, cpu| {
        let (ino, work) = if cpu == 0 { (8, 22) } else { (7, 11) };
        let (task, jobs) = Periodic::new(ino, work * MS, 30 * MS, 100 * MS);
        let id = sim.start_with(100, CpuMask::only(cpu), Box::new(task));
        sim.set_user(id, 1000);
        (id, jobs)
    };
    let all: Vec<_> = (0..4).map(|cpu| start(&mut sim, cpu)).collect();
    sim.run_until(20 * SEC);
    for (id, jobs) in all {
        assert_eq!(sim.server(id).map(|s| s.0), Some(1), "admitted");
        assert_eq!(jobs.borrow().missed, 0);
    }
}

/// A program that needs more of a slow CPU than there is of it is refused there.
#[test]
fn what_a_slow_cpu_cannot_do_is_refused() {
    for guaranteed in [false, true] {
        let mut sim = machine(2, 1, true);
        let asked = Reservation {
            guaranteed,
            ..reserve(15 * MS, 30 * MS)
        };
        sim.spec(7, asked);
        let there = sim.start_with(100, CpuMask::only(1), Box::new(hog(7)));
        let anywhere = sim.start(hog(7));
        sim.run_until(SEC);
        assert_ne!(sim.server(there).map(|s| s.0), Some(1));
        assert_eq!(sim.server(anywhere).map(|s| s.0), Some(1), "admitted");
    }
}

/// Programs with reservations are on fast CPUs as long as these have room: each of 3 ms in 30 is
/// done in 3 ms for each that shares its CPU.
#[test]
fn reservations_go_to_fast_cpus_first() {
    for guaranteed in [false, true] {
        let mut sim = machine(6, 2, true);
        let asked = Reservation {
            guaranteed,
            ..reserve(4 * MS, 30 * MS)
        };
        sim.spec(7, asked);
        for _ in 0..12 {
            sim.start(hog(0));
        }
        let start = |k: u64| Periodic::new(7, 3 * MS, 30 * MS, (1 + k) * SEC);
        let all: Vec<_> = (0..6).map(start).collect();
        let mut logs = Vec::new();
        for (task, jobs) in all {
            sim.start(task);
            logs.push(jobs);
        }
        sim.run_until(20 * SEC);
        for jobs in logs {
            let jobs = jobs.borrow();
            assert_eq!(jobs.missed, 0);
            let least = jobs.response.iter().min().copied().unwrap_or(0);
            assert!(least < 4 * MS, "{least}: on a slow CPU it is 6 ms");
        }
    }
}

/// Three guaranteed programs of 60 % on two fast and two slow CPUs: the third one is split, and its
/// parts on slow CPUs have more time.
#[test]
fn a_split_reservation_has_its_work_on_cpus_that_differ() {
    let mut sim = machine(4, 2, true);
    let asked = Reservation {
        guaranteed: true,
        ..reserve(25 * MS, 41 * MS)
    };
    sim.spec(7, asked);
    for _ in 0..8 {
        sim.start(hog(0));
    }
    let start = || Periodic::new(7, 24 * MS, 41 * MS, 100 * MS);
    let all: Vec<_> = (0..3).map(|_| start()).collect();
    let mut logs = Vec::new();
    for (task, jobs) in all {
        let id = sim.start(task);
        logs.push((id, jobs));
    }
    sim.run_until(30 * SEC);
    for (id, jobs) in logs {
        assert_eq!(sim.server(id).map(|s| s.0), Some(1), "admitted");
        assert_eq!(jobs.borrow().missed, 0);
        assert!(jobs.borrow().response.len() > 700);
    }
}

#[test]
fn a_task_wakes_up_on_a_fast_cpu() {
    for known in [false, true] {
        let mut sim = machine(4, 2, known);
        // the first idle CPU that the simulated kernel finds is a fast one: these are busy at first
        let busy: Vec<_> = (0..2).map(|_| sim.start(hog(0))).collect();
        let (task, jobs) = Periodic::new(0, 2 * MS, 20 * MS, 10 * MS);
        sim.start(task);
        sim.run_until(SEC);
        busy.iter().for_each(|&id| {
            sim.change(Change::Kill(id));
        });
        sim.run_until(2 * SEC);
        let jobs = jobs.borrow();
        assert_eq!(jobs.response[10], 4 * MS, "all fast CPUs are busy");
        let wanted = if known { 2 * MS } else { 4 * MS };
        assert_eq!(jobs.response[90], wanted);
    }
}

#[test]
fn background_work_wakes_up_on_a_slow_cpu() {
    let mut sim = machine(4, 2, true);
    let (task, jobs) = Periodic::new(0, 2 * MS, 20 * MS, 10 * MS);
    let id = sim.start(task);
    assert!(sim.change(Change::Policy(id, SCHED_IDLE)));
    sim.run_until(SEC);
    assert_eq!(jobs.borrow().response[40], 4 * MS);
}

/// A loop that had a slow CPU gets a fast one within a tick, when that becomes idle.
#[test]
fn a_loop_leaves_a_slow_cpu_for_an_idle_fast_one() {
    for grouped in [false, true] {
        let mut sim = machine(4, 2, true);
        let group = super::domains::group(&mut sim, grouped);
        let all = CpuMask::first(4);
        let start = |sim: &mut Simulation| sim.start_in(group, 100, all, Box::new(hog(0))).unwrap();
        let loops: Vec<_> = (0..4).map(|_| start(&mut sim)).collect();
        sim.run_until(100 * MS);
        let fast: Vec<_> = loops
            .iter()
            .filter(|&&id| on_fast(&sim, id, 2))
            .copied()
            .collect();
        assert_eq!(fast.len(), 2, "each has a CPU");
        let moved = |sim: &Simulation| loops.iter().map(|&id| sim.migrations(id)).sum::<u64>();
        let before = moved(&sim);
        fast.iter().for_each(|&id| {
            sim.change(Change::Kill(id));
        });
        sim.run_until(108 * MS + 100_000);
        for id in loops.iter().filter(|id| !fast.contains(id)) {
            assert!(on_fast(&sim, *id, 2), "{:?}", sim.place(*id));
        }
        assert_eq!(moved(&sim), before + 2);
        sim.run_until(SEC);
        let ran: u64 = loops.iter().map(|&id| sim.ran(id)).sum();
        assert!(ran > 2 * SEC + 190 * MS, "{ran}: no time is lost");
    }
}

/// It stays if it may not run there. Background work leaves fast CPUs for idle slow ones.
#[test]
fn background_work_leaves_a_fast_cpu() {
    let mut sim = machine(3, 1, true);
    let background = sim.start(hog(0));
    let slow = sim.start_with(100, CpuMask::only(2), Box::new(hog(0)));
    sim.run_until(2 * MS);
    assert!(on_fast(&sim, background, 1));
    assert!(sim.change(Change::Policy(background, SCHED_IDLE)));
    sim.run_until(6 * MS);
    assert!(matches!(sim.place(background), Place::Running(1)));
    sim.run_until(SEC);
    assert!(matches!(sim.place(background), Place::Running(1)));
    assert!(matches!(sim.place(slow), Place::Running(2)));
}
