//! Parks: several reasons, their ends, and the bound that holds for all of them together.

use proptest::prelude::*;

use super::{Park, REASONS};
use crate::{assert_layout, MS};

const BOUND: u64 = 100 * MS;

#[test]
fn layout_is_the_headers() {
    assert_layout!(policy_layout_park, Park, reasons, began, until);
}

#[test]
fn a_task_goes_on_with_its_last_reason() {
    let mut park = Park::default();
    assert!(park.ask(0, 0, 10 * MS, BOUND));
    assert!(park.ask(1, 5 * MS, 30 * MS, BOUND));
    assert_eq!(park.until(5 * MS), 30 * MS);
    park.end(1);
    assert_eq!(park.until(5 * MS), 10 * MS);
    park.end(0);
    assert_eq!(park.until(5 * MS), 5 * MS);
}

#[test]
fn a_later_request_of_a_reason_does_not_shorten_it() {
    let mut park = Park::default();
    park.ask(1, 0, 50 * MS, BOUND);
    park.ask(1, 10 * MS, 20 * MS, BOUND);
    assert_eq!(park.until(10 * MS), 50 * MS);
}

#[test]
fn an_unknown_reason_is_refused() {
    let mut park = Park::default();
    assert!(!park.ask(REASONS as u32, 0, MS, BOUND));
    assert_eq!(park, Park::default());
}

proptest! {
    /// Theorem: whatever is requested, a task is kept off the CPU no longer than the bound, counted
    /// from the first request until it runs. A request within the bound is not shortened.
    #[test]
    fn the_bound_holds_for_all_requests(
        asks in prop::collection::vec((0..REASONS as u32, 0..20 * MS, 0..400 * MS), 1..40),
    ) {
        let (mut park, mut now, first) = (Park::default(), 7 * MS, asks[0].1 + 7 * MS);
        for (reason, pause, length) in asks {
            now += pause;
            let running = park.until(now) == now;
            if running && now > first {
                break; // the task ran in between: a new park begins
            }
            let whole = park.ask(reason, now, now + length, BOUND);
            prop_assert!(park.until(now) <= first + BOUND);
            prop_assert_eq!(whole, now + length <= first + BOUND);
            prop_assert!(!whole || park.until(now) >= now + length);
        }
    }

    /// The time of a park is accounted once for each reason, and never exceeds the time that has
    /// passed.
    #[test]
    fn time_is_split_at_the_end_of_a_reason(
        length in 1..BOUND, since in 0..BOUND, passed in 0..3 * BOUND,
    ) {
        let mut park = Park::default();
        park.ask(1, 0, length, BOUND);
        let now = since + passed;
        let time = park.time(1, since, now);
        prop_assert_eq!(time, length.min(now).saturating_sub(since));
        prop_assert_eq!(park.time(0, since, now), 0);
        park.settle(now);
        prop_assert_eq!(park.reasons == 0, now >= length);
    }
}
