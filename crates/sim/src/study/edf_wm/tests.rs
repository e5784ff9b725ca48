//! Room compared with counting by hand, with brute force, and with the scheduler's admission
//! (`bpf/policy/wmr.h`).

use aplomb_policy::wmr::{Roster, Split, PARTS};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::study::taskset::Recipe;

const MS: u64 = 1_000_000;

fn cpu(shares: &[(u64, u64, u64)]) -> Cpu {
    let share = |&(work, window, period): &(u64, u64, u64)| Share {
        work,
        window,
        period,
    };
    Cpu {
        shares: shares.iter().map(share).collect(),
    }
}

fn set(tasks: &[(u64, u64)]) -> Vec<PeriodicTask> {
    let task = |&(work, period): &(u64, u64)| PeriodicTask {
        work: work * MS,
        period: period * MS,
    };
    tasks.iter().map(task).collect()
}

#[test]
fn the_room_beside_whole_tasks_is_what_their_loads_leave() {
    assert_eq!(cpu(&[]).room(10, 10), 10);
    assert_eq!(cpu(&[(1, 3, 3), (1, 3, 3)]).room(3, 3), 1);
    assert_eq!(cpu(&[(1, 2, 2), (1, 3, 3)]).room(12, 12), 2);
    assert_eq!(cpu(&[(1, 1, 1)]).room(10, 10), 0);
}

#[test]
fn the_room_in_a_window_is_what_is_left_at_each_deadline() {
    assert_eq!(cpu(&[]).room(10, 5), 5);
    assert_eq!(cpu(&[(25, 41, 41)]).room(41, 20), 16, "at 41");
    assert_eq!(cpu(&[(4, 5, 10)]).room(10, 5), 1, "at 5");
    // at 10 of 10 two jobs of 3 are due; at 5 only one
    assert_eq!(cpu(&[(3, 5, 5)]).room(20, 10), 4);
    // a whole task beside a window: one job of the task is due at 12 and at 15, two are due at
    // 25, where three jobs of the window are due
    assert_eq!(cpu(&[(4, 5, 10)]).room(12, 12), 6);
}

/// Section 7.1: six tasks of 25 ms in 41 ms on four CPUs, a load of 3.66, "are theoretically
/// schedulable by the EDF-WM algorithm".
#[test]
fn the_movies_of_the_paper_are_schedulable() {
    assert!(edf_wm(&set(&[(25, 41); 6]), 4));
    assert!(!edf_wm(&set(&[(25, 41); 7]), 4), "4.27");
    assert!(edf_wm(&set(&[(25, 41); 3]), 2));
    // m + 1 tasks of a little more than half a CPU (section 5)
    assert!(edf_wm(&set(&[(51, 100); 5]), 4));
}

#[test]
fn what_fits_whole_is_not_split() {
    let mut cpus = vec![Cpu::default(); 2];
    for task in set(&[(6, 10), (6, 10), (4, 10), (4, 10)]) {
        assert!(place(&mut cpus, &task));
    }
    assert!(cpus.iter().all(|cpu| cpu.shares.len() == 2));
    assert!(!edf_wm(
        &set(&[(6, 10), (6, 10), (4, 10), (4, 10), (1, 10)]),
        2
    ));
    assert!(!edf_wm(&set(&[(1, 1)]), 0));
}

/// Brute force: the most work for which the demand is never above L, up to twice the least common
/// multiple of all periods.
fn force(cpu: &Cpu, period: u64, window: u64) -> u64 {
    let meet = 2 * 120;
    let fits = |work: u64| {
        let new = Share {
            work,
            window,
            period,
        };
        let all = || cpu.shares.iter().chain([&new]);
        let demand = |at: u64| -> u64 {
            let jobs =
                |s: &Share| (at + s.period - s.window) / s.period * u64::from(at >= s.window);
            all().map(|s| jobs(s) * s.work).sum()
        };
        let load: u64 = all().map(|s| s.work * (meet / s.period)).sum();
        load <= meet && (1..=2 * meet).all(|at| demand(at) <= at)
    };
    (0..=period).rev().find(|&work| fits(work)).unwrap_or(0)
}

/// Periods whose least common multiple is 120.
fn share() -> impl Strategy<Value = (u64, u64, u64)> {
    let period = prop::sample::select(vec![4u64, 6, 8, 10, 12, 15, 20, 24, 30, 40]);
    (period, 1u64..4, 1u64..100).prop_map(|(period, n, percent)| {
        let window = period / n;
        ((window * percent / 100).max(1), window, period)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn room_is_the_most_that_the_demand_bound_allows(
        shares in prop::collection::vec(share(), 1..6),
    ) {
        let mut there = cpu(&[]);
        for (_, window, period) in shares {
            let room = there.room(period, window);
            prop_assert_eq!(room, force(&there, period, window));
            if let Some(work) = (room / 2 > 0).then_some(room / 2) {
                there.shares.push(Share { work, window, period });
            }
        }
    }

    /// The scheduler's admission never finds more room than there is, so what it admits is within
    /// the demand bound on each CPU. (It may admit other sets than EDF-WM, because after the first
    /// difference the two place tasks differently.)
    #[test]
    fn the_schedulers_admission_is_within_the_demand_bound(
        seed: u64,
        cpus in 2usize..5,
        percent in 50u64..110,
    ) {
        let total_ppm = cpus as u64 * percent * 10_000;
        let recipe = Recipe { range_ppm: (50_000, 1_000_000), total_ppm };
        let mut rosters = vec![Roster::default(); cpus];
        let mut exact = vec![Cpu::default(); cpus];
        for (slot, task) in recipe.draw(seed).iter().enumerate() {
            for n in 1..=cpus as u64 {
                for (roster, cpu) in rosters.iter().zip(&exact) {
                    let (window, period) = (task.period / n, task.period);
                    let admitted = roster.room(period, window, WHOLE_PPM);
                    prop_assert!(admitted <= cpu.room(period, window));
                }
            }
            let Some(split) = admit(&rosters, task) else { continue };
            let window = task.period / u64::from(split.parts);
            for (&at, &work) in split.cpu.iter().zip(&split.runtime).take(split.parts as usize) {
                rosters[at as usize].join(slot as u64, work, window, task.period);
                exact[at as usize].shares.push(Share { work, window, period: task.period });
            }
        }
    }
}

const WHOLE_PPM: u64 = 1_000_000;

/// The room of bpf/policy/wmr.h, filled as in the paper: worst-fit, else split over the fewest
/// CPUs.
fn admit(rosters: &[Roster], task: &PeriodicTask) -> Option<Split> {
    let &PeriodicTask { work, period } = task;
    let room = |cpu: usize, window| rosters[cpu].room(period, window, WHOLE_PPM);
    let fitting = (0..rosters.len()).filter(|&cpu| room(cpu, period) >= work);
    if let Some(cpu) = fitting.min_by_key(|&cpu| rosters[cpu].promised()) {
        let mut whole = Split::default();
        whole.offer(1, cpu as i32, work);
        return whole.complete(1, work).then_some(whole);
    }
    (2..=rosters.len().min(PARTS) as u32).find_map(|n| {
        let mut split = Split::default();
        for cpu in 0..rosters.len() {
            split.offer(n, cpu as i32, room(cpu, period / u64::from(n)));
        }
        split.complete(n, work).then_some(split)
    })
}
