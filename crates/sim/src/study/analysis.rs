//! Analytic tests of schedulability; each is a column of the study.

use crate::study::edf_wm::edf_wm;
use crate::study::taskset::PeriodicTask;

/// Is the set schedulable on this number of CPUs?
pub type Test = fn(&[PeriodicTask], usize) -> bool;

/// All tests, with the names of their columns.
pub const TESTS: [(&str, Test); 4] = [
    ("test-ff", first_fit),
    ("test-wf", worst_fit),
    ("test-wm", edf_wm),
    ("test-global", global),
];

/// Partitioned EDF, first-fit: each task on the first CPU on which the sum of C/T stays within 1
/// (Liu and Layland).
fn first_fit(tasks: &[PeriodicTask], cpus: usize) -> bool {
    fits(tasks, cpus, |loads, share| {
        loads.iter().position(|load| load + share <= WHOLE)
    })
}

/// Partitioned EDF, worst-fit: each task on the CPU with the least load.
fn worst_fit(tasks: &[PeriodicTask], cpus: usize) -> bool {
    fits(tasks, cpus, |loads, share| {
        let emptiest = (0..loads.len()).min_by_key(|&cpu| loads[cpu])?;
        (loads[emptiest] + share <= WHOLE).then_some(emptiest)
    })
}

/// Global EDF: sum C/T <= m - (m - 1) max C/T (Goossens, Funk and Baruah, "Priority-driven
/// scheduling of periodic task systems on multiprocessors", 2003). Sufficient, not necessary: many
/// sets that it refuses miss no deadline.
fn global(tasks: &[PeriodicTask], cpus: usize) -> bool {
    let share = |t: &PeriodicTask| u128::from(t.work) * u128::from(WHOLE) / u128::from(t.period);
    let heaviest = tasks.iter().map(share).max().unwrap_or(0);
    let (sum, cpus): (u128, _) = (tasks.iter().map(share).sum(), cpus as u128);
    sum + cpus.saturating_sub(1) * heaviest <= cpus * u128::from(WHOLE)
}

const WHOLE: u64 = 1_000_000_000_000;

fn fits(tasks: &[PeriodicTask], cpus: usize, place: impl Fn(&[u64], u64) -> Option<usize>) -> bool {
    let mut loads = vec![0; cpus];
    tasks.iter().all(|task| {
        let share = u128::from(task.work) * u128::from(WHOLE) / u128::from(task.period);
        place(&loads, share as u64)
            .map(|cpu| loads[cpu] += share as u64)
            .is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tasks: &[(u64, u64)]) -> Vec<PeriodicTask> {
        let task = |&(work, period): &(u64, u64)| PeriodicTask { work, period };
        tasks.iter().map(task).collect()
    }

    #[test]
    fn first_fit_and_worst_fit_place_tasks_differently() {
        let light_first = set(&[(2, 10), (2, 10), (9, 10)]);
        assert!(first_fit(&light_first, 2));
        assert!(!worst_fit(&light_first, 2), "0.2 and 0.2, and 0.9 nowhere");
        // 0.4, 0.7, 0.6: the first CPU is full with 0.4 and 0.6
        assert!(first_fit(&set(&[(4, 10), (7, 10), (6, 10)]), 2));
        assert!(!first_fit(&set(&[(6, 10), (6, 10), (6, 10)]), 2));
        assert!(first_fit(&set(&[(1, 1), (1, 3), (1, 3), (1, 3)]), 2));
    }

    #[test]
    fn the_test_of_global_edf_accepts_light_tasks_only() {
        // 2 - 0.6 is 1.4
        assert!(global(&set(&[(6, 10), (4, 10), (4, 10)]), 2));
        assert!(!global(&set(&[(6, 10), (4, 10), (4, 10), (1, 1000)]), 2));
        assert!(global(&set(&[(1, 1)]), 1) && global(&[], 1));
        // Dhall's effect: 1.71 of 4
        let dhall = [(2, 10), (2, 10), (2, 10), (2, 10), (10, 11)];
        assert!(!global(&set(&dhall), 4));
    }
}
