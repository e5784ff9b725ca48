//! EDF and CBS: optimal on one CPU, Dhall's effect on several, isolation, exact and soft budgets.

use super::*;

/// Play a set of (C, T), ms, in which each task reserves all that it uses, for 20 s. Returns
/// (admitted, missed).
fn play(m: &mut impl Machine, tasks: &[(u64, u64)]) -> (usize, u64) {
    let started: Vec<_> = (1..)
        .zip(tasks)
        .map(|(ino, &(c, t))| periodic(m, ino, c * MS, c * MS, t * MS))
        .collect();
    m.run_until(20 * SEC);
    let missed = started.iter().map(|(_, j)| j.borrow().missed_at(20 * SEC));
    let admitted = started.iter().filter(|(id, _)| m.admitted(*id)).count();
    (admitted, missed.sum())
}

#[test]
fn one_cpu_is_used_to_the_last_nanosecond() {
    for server in [Server::Hard, Server::Soft] {
        let full = [(2, 5), (3, 10), (6, 20)]; // a load of 1
        assert_eq!(play(&mut edf(1, Fit::Global, server), &full), (3, 0));
        let (_, missed) = play(
            &mut edf(1, Fit::Global, server),
            &[(2, 5), (3, 10), (7, 20)],
        );
        assert!(missed > 0, "1.05 is too much");
    }
}

/// Dhall and Liu 1978: short jobs of little load take all CPUs when a heavy task needs one.
#[test]
fn global_edf_misses_by_dhalls_effect_and_first_fit_does_not() {
    let tasks = [(2, 10), (2, 10), (2, 10), (2, 10), (10, 11)]; // 0.8 + 0.91 of 4
    let (_, missed) = play(&mut edf(4, Fit::Global, Server::Soft), &tasks);
    assert!(missed > 0);
    let first = play(&mut edf(4, Fit::First, Server::Soft), &tasks);
    assert_eq!(first, (5, 0), "the light ones share a CPU");
    let (admitted, _) = play(&mut edf(4, Fit::Worst, Server::Soft), &tasks);
    assert_eq!(
        admitted, 4,
        "spread out, they leave no CPU to the heavy one"
    );
}

/// The example of Kato and others, section 5: m + 1 tasks of a little more than half a CPU.
#[test]
fn five_tasks_of_a_little_more_than_half_defeat_four_cpus() {
    let tasks = [(51, 100); 5];
    let (_, missed) = play(&mut edf(4, Fit::Global, Server::Soft), &tasks);
    assert!(missed > 0);
    for fit in [Fit::First, Fit::Worst] {
        assert_eq!(play(&mut edf(4, fit, Server::Soft), &tasks).0, 4);
    }
}

#[test]
fn partitions_take_reservations_up_to_their_capacity() {
    let mut m = machine(1, Edf::new(1, Fit::First, Server::Hard, 500_000));
    assert_eq!(play(&mut m, &[(3, 10), (2, 10), (1, 10)]).0, 2);
    let mut m = edf(2, Fit::First, Server::Hard);
    let thirds = play(&mut m, &[(1, 3), (1, 3), (1, 3), (7, 7)]);
    assert_eq!(thirds, (4, 0), "rounding refuses none of them");
}

/// Holds for hard and for soft servers.
#[test]
fn a_task_that_overruns_its_budget_does_not_harm_others() {
    for server in [Server::Hard, Server::Soft] {
        for fit in [Fit::Global, Fit::First] {
            let mut m = edf(1, fit, server);
            let (_, fine) = periodic(&mut m, 1, 4 * MS, 4 * MS, 10 * MS);
            greedy(&mut m, 2, 6 * MS, 10 * MS);
            start(&mut m, hog(0));
            m.run_until(20 * SEC);
            assert_eq!(fine.borrow().missed, 0, "{server:?} {fit:?}");
            assert_eq!(fine.borrow().response.len(), 1990);
        }
    }
}

#[test]
fn a_hard_server_gets_exactly_its_bandwidth_and_a_soft_one_at_least() {
    for (server, want) in [(Server::Hard, 3 * SEC), (Server::Soft, 10 * SEC)] {
        let mut m = edf(1, Fit::Global, server);
        let id = greedy(&mut m, 1, 3 * MS, 10 * MS);
        m.run_until(BEGIN + 10 * SEC);
        assert_eq!(m.ran(id), want, "{server:?}, alone");
    }
    // two soft servers share the CPU by their bandwidths
    let mut m = edf(1, Fit::Global, Server::Soft);
    let (a, b) = (
        greedy(&mut m, 1, 2 * MS, 10 * MS),
        greedy(&mut m, 2, MS, 10 * MS),
    );
    m.run_until(BEGIN + 30 * SEC);
    assert!(m.ran(a).abs_diff(20 * SEC) < 20 * MS, "{}", m.ran(a));
    assert!(m.ran(b).abs_diff(10 * SEC) < 20 * MS, "{}", m.ran(b));
}

/// 4 ms of work with 3 ms every 10 ms. Hard: completed in the second period. Soft: as soon as the
/// CPU is free.
#[test]
fn an_overrun_waits_for_the_next_period_under_a_hard_server_only() {
    for (server, response) in [(Server::Hard, 11 * MS), (Server::Soft, 4 * MS)] {
        let mut m = edf(1, Fit::Global, server);
        m.reserve(1, reservation(3 * MS, 10 * MS));
        let (task, jobs) = Periodic::new(1, 4 * MS, 100 * MS, BEGIN);
        start(&mut m, task);
        m.run_until(SEC);
        assert_eq!(jobs.borrow().response[0], response, "{server:?}");
    }
}

#[test]
fn global_edf_migrates_and_partitioned_does_not() {
    let tasks = [(5, 10), (7, 14), (11, 22), (9, 30)];
    for (fit, moves) in [(Fit::Global, true), (Fit::First, false)] {
        let mut m = edf(2, fit, Server::Soft);
        let started: Vec<_> = (1..)
            .zip(tasks)
            .map(|(ino, (c, t))| periodic(&mut m, ino, c * MS, c * MS, t * MS).0)
            .collect();
        m.run_until(2 * BEGIN);
        let before: u64 = started.iter().map(|&id| m.migrations(id)).sum();
        m.run_until(20 * SEC);
        let after: u64 = started.iter().map(|&id| m.migrations(id)).sum();
        assert_eq!(after > before, moves, "{fit:?}: {before} {after}");
    }
}

#[test]
fn best_effort_tasks_get_the_time_that_reserved_tasks_leave() {
    let mut m = edf(2, Fit::Global, Server::Soft);
    let (id, jobs) = periodic(&mut m, 1, 4 * MS, 4 * MS, 10 * MS);
    let hogs: Vec<_> = (0..3).map(|_| start(&mut m, hog(0))).collect();
    m.run_until(10 * SEC);
    assert_eq!(jobs.borrow().response.iter().max(), Some(&(4 * MS)));
    let rest: u64 = hogs.iter().map(|&h| m.ran(h)).sum();
    assert_eq!(rest, 20 * SEC - m.ran(id), "all of it");
}

#[test]
fn a_reservation_ends_with_its_task() {
    let mut m = edf(1, Fit::First, Server::Hard);
    m.reserve(1, reservation(9 * MS, 10 * MS));
    let mut steps = vec![Step::Exit, Step::Exec(1)];
    start(&mut m, move |_: u64, _: u64| steps.pop().unwrap());
    m.run_until(MS);
    let next = greedy(&mut m, 1, 9 * MS, 10 * MS);
    m.run_until(2 * MS);
    assert!(m.admitted(next));
}
