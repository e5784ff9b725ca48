//! The rate-controlled reserve: Redline's inequality.

use proptest::prelude::*;

use super::{top, Budget, PAGES, PAGE_NS};
use crate::{assert_layout, MS};

/// The least time between two budgets, ns: b c.
const TURN: u64 = PAGES as u64 * PAGE_NS;

#[test]
fn layout_is_the_headers() {
    assert_layout!(policy_layout_reserve_budget, Budget, first, left, begun);
}

#[test]
fn a_budget_at_once_then_a_wait_then_the_next() {
    let (mut budget, start) = (Budget::default(), 7 * MS);
    for _ in 0..PAGES {
        assert_eq!(budget.draw(1, start), None);
    }
    assert_eq!(budget.draw(1, start + MS), Some(start + TURN));
    assert_eq!(budget.draw(1, start + TURN), Some(start + TURN));
    assert_eq!(budget.draw(1, start + TURN + 1), None);
    assert_eq!(budget.left, PAGES - 1);
}

#[test]
fn who_takes_its_pages_slowly_never_waits() {
    let mut budget = Budget::default();
    for page in 0..10 * u64::from(PAGES) {
        assert_eq!(budget.draw(1, 1 + page * (PAGE_NS + PAGE_NS / 200)), None);
    }
}

proptest! {
    /// Theorem: in any time L a program takes at most b (L / (b c) + 2) pages, and each wait has an
    /// end: it is the end of the current budget.
    #[test]
    fn the_rate_is_bounded(pauses in prop::collection::vec(0..20 * MS, 1..4000)) {
        let (mut budget, mut now) = (Budget::default(), 1);
        let mut taken: Vec<u64> = Vec::new();
        for pause in pauses {
            now += pause;
            match budget.draw(1, now) {
                None => taken.push(now),
                Some(until) => {
                    prop_assert!(until >= now && until <= budget.first + TURN);
                    prop_assert!(budget.left == 0);
                }
            }
        }
        for (i, from) in taken.iter().enumerate().step_by(97) {
            for (j, to) in taken.iter().enumerate().skip(i).step_by(89) {
                let most = u64::from(PAGES) * ((to - from) / TURN + 2);
                prop_assert!((j - i) as u64 <= most);
            }
        }
    }
}

/// The reserve and the growth buffer are the distance of the watermarks, whatever that is.
#[test]
fn the_growth_buffer_is_above_the_reserve() {
    assert_eq!(top(100, 300, 0), 300, "no growth buffer");
    assert_eq!(top(100, 300, 750_000), 150);
    assert_eq!(top(100, 300, 1_000_000), 100, "no reserve");
    assert_eq!(top(100, 100, 500_000), 100);
    let terabyte = 1u64 << 28; // in pages
    assert_eq!(top(0, terabyte, 500_000), terabyte / 2, "no overflow");
}
