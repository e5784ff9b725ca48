//! Speed bumps: less free memory, fewer pages; and where free memory settles.

use proptest::prelude::*;

use super::{allowance, take, FOR_OTHERS, PAGES};

const MIN: u64 = 1000;
const LOW: u64 = 3048;

#[test]
fn the_allowance_falls_from_low_to_min() {
    assert_eq!(allowance(LOW, MIN, LOW), PAGES);
    assert_eq!(allowance(LOW - 1, MIN, LOW), PAGES - 1);
    assert_eq!(allowance(MIN, MIN, LOW), 1);
    assert_eq!(allowance(0, MIN, LOW), 1);
    // a zone without watermarks
    assert_eq!(allowance(0, 0, 0), PAGES);
}

#[test]
fn a_task_is_parked_after_its_allowance_and_begins_anew() {
    let mut taken = 0;
    let parks: Vec<u64> = (1..=3 * PAGES)
        .filter(|_| take(&mut taken, 1, allowance(LOW, MIN, LOW)))
        .collect();
    assert_eq!(parks, [PAGES, 2 * PAGES, 3 * PAGES]);
}

proptest! {
    #[test]
    fn more_free_memory_never_means_fewer_pages(a: u32, b: u32, min: u32, gap in 0..1u32 << 24) {
        let (min, low) = (u64::from(min), u64::from(min) + u64::from(gap));
        let (less, more) = (u64::from(a.min(b)), u64::from(a.max(b)));
        let allowed = [less, more].map(|free| allowance(free, min, low));
        prop_assert!(1 <= allowed[0] && allowed[0] <= allowed[1] && allowed[1] <= PAGES);
    }

    /// Theorem: at `min`, however many pages a task takes at once, it is parked each time.
    #[test]
    fn at_min_each_page_costs_a_park(mut taken in 0..64u32, pages in 1..10_000u32) {
        prop_assert!(take(&mut taken, pages, allowance(MIN, MIN, LOW)));
        prop_assert_eq!(taken, 0);
    }

    /// Theorem: tasks that want memory without end do not use up the reserve, as long as the
    /// reclaimer frees a page for each task and park. Free memory settles where they take as much
    /// as it frees.
    #[test]
    fn free_memory_settles_above_min(tasks in 1..200u64, frees in 0..8u64, extra in 0..2000u64) {
        let freed = tasks * (1 + frees); // pages in each park of 100 ms
        let mut free = LOW + extra;
        for _ in 0..2000 {
            for _ in 0..tasks {
                free = free.saturating_sub(allowance(free, MIN, LOW));
            }
            free = (free + freed).min(2 * LOW);
        }
        prop_assert!(free >= MIN.saturating_sub(tasks), "{free}");
    }

    /// Theorem: while an interactive program waits, tasks that want memory without end take no more
    /// than a page each in a park. So free memory rises to `low` by what the reclaimer frees beyond
    /// that, and the program goes on, however little was free.
    #[test]
    fn an_interactive_program_that_waits_gets_its_turn(
        tasks in 1..200u64,
        frees in 1..1000u64,
        begin in 0..LOW,
    ) {
        let (mut taken, mut free) = (vec![0; tasks as usize], begin);
        let turns = (LOW - begin).div_ceil(frees);
        for _ in 0..turns {
            for taken in &mut taken {
                let pages = (1..).find(|_| take(taken, 1, FOR_OTHERS)).unwrap_or(0);
                free = free.saturating_sub(pages);
            }
            free += frees + tasks;
        }
        prop_assert!(free >= LOW, "{free}");
    }
}
