//! Examples of each branch of Listing 1 and of the wake rule, in numbers that can be checked by
//! hand.
//!
//! The server is the one of a movie player, 5 ms every 30 ms, admitted at 100 ms.

use super::{bandwidth, Change, Server};
use crate::{assert_layout, MS, SEC};
use proptest::prelude::*;

fn player() -> Server {
    Server::new(100 * MS, 5 * MS, 30 * MS)
}

/// (start, deadline, budget) in ms.
fn period(s: &Server) -> (u64, u64, i64) {
    (
        s.start / MS,
        s.deadline / MS,
        s.budget.div_euclid(MS as i64),
    )
}

#[test]
fn layout_is_the_headers() {
    assert_layout!(
        policy_layout_edf_server,
        Server,
        runtime,
        period,
        start,
        deadline,
        budget,
        slept,
        late,
        policy,
        pad
    );
}

#[test]
fn bandwidth_is_c_over_t() {
    assert_eq!(bandwidth(5 * MS, 30 * MS), 166_666);
    assert_eq!(bandwidth(10 * SEC, 10 * SEC), 1_000_000);
    assert_eq!(bandwidth(5, 0), 0);
}

#[test]
fn an_admitted_task_may_run_at_once() {
    let s = player();
    assert_eq!(period(&s), (100, 130, 5));
    assert!(s.eligible(100 * MS));
    assert!(!s.eligible(100 * MS - 1));
}

#[test]
fn budget_left_before_the_deadline_changes_nothing() {
    let mut s = player();
    s.charge(2 * MS);
    assert_eq!(s.assign(129 * MS), Change::Kept);
    assert_eq!(period(&s), (100, 130, 3));
}

#[test]
fn a_used_up_budget_waits_for_the_next_period() {
    let mut s = player();
    s.charge(5 * MS);
    assert_eq!(s.assign(105 * MS), Change::Exhausted);
    assert_eq!(period(&s), (130, 160, 5));
    assert!(!s.eligible(105 * MS));
    assert!(s.eligible(130 * MS));
}

#[test]
fn used_up_after_the_deadline_the_next_period_starts_now() {
    let mut s = player();
    s.charge(5 * MS);
    assert_eq!(s.assign(140 * MS), Change::Exhausted);
    assert_eq!(period(&s), (140, 170, 5));
}

#[test]
fn late_work_keeps_its_deadline_and_is_reported_once() {
    let mut s = player();
    s.charge(2 * MS);
    assert_eq!(s.assign(130 * MS), Change::Missed);
    assert_eq!(s.assign(131 * MS), Change::Kept);
    assert_eq!(period(&s), (100, 130, 3));
    // The same happens in a later period.
    s.charge(3 * MS);
    assert_eq!(s.assign(135 * MS), Change::Exhausted);
    assert_eq!(s.assign(170 * MS), Change::Missed);
}

#[test]
fn a_task_that_slept_gets_a_new_period_at_the_deadline() {
    let mut s = player();
    s.charge(2 * MS);
    s.sleep();
    assert_eq!(s.assign(150 * MS), Change::Renewed);
    assert_eq!(
        period(&s),
        (150, 180, 5),
        "not 8 ms: nothing is carried over"
    );
    assert_eq!(s.slept, 0);
}

#[test]
fn an_overrun_is_paid_back() {
    let mut s = player();
    s.charge(7 * MS);
    assert_eq!(s.assign(107 * MS), Change::Exhausted);
    assert_eq!(period(&s), (130, 160, 3));
}

#[test]
fn an_overrun_of_periods_waits_for_one() {
    let mut s = player();
    s.charge(SEC);
    assert_eq!(s.assign(1100 * MS), Change::Exhausted);
    assert_eq!((s.start, s.budget), (1100 * MS, 1));
}

#[test]
fn waking_with_more_than_its_bandwidth_begins_a_period() {
    // 3 ms in the last 6 would be half a CPU; 5 ms in 30 is a sixth.
    let mut s = player();
    s.charge(2 * MS);
    s.sleep();
    s.wake(124 * MS);
    assert_eq!(period(&s), (124, 154, 5));
    assert_eq!(s.assign(124 * MS), Change::Kept);
}

#[test]
fn waking_with_less_keeps_the_period() {
    // 3 ms in 20 is less than a sixth.
    let mut s = player();
    s.charge(2 * MS);
    s.sleep();
    s.wake(110 * MS);
    assert_eq!(period(&s), (100, 130, 3));
    // Exactly C/T keeps the period, too.
    let mut s = player();
    s.charge(4 * MS);
    s.sleep();
    s.wake(124 * MS);
    assert_eq!(period(&s), (100, 130, 1));
}

#[test]
fn waking_while_it_waits_for_its_period_does_not_bring_it_forward() {
    let mut s = player();
    s.charge(5 * MS);
    s.assign(105 * MS);
    s.sleep();
    s.wake(110 * MS);
    assert_eq!(s.assign(110 * MS), Change::Kept);
    assert_eq!(period(&s), (130, 160, 5));
}

/// `reserved_stopping` calls sleep, charge, assign. So a job of exactly C ends with a new period,
/// and the fact that the task slept must be carried over into it.
#[test]
fn a_job_of_exactly_its_budget_is_not_late_when_the_next_one_comes_late() {
    let mut s = player();
    s.sleep();
    s.charge(5 * MS);
    assert_eq!(s.assign(105 * MS), Change::Exhausted);
    s.wake(SEC);
    assert_eq!(s.assign(SEC), Change::Renewed);
    assert_eq!(period(&s), (1000, 1030, 5));
}

#[test]
fn a_task_admitted_asleep_begins_a_period_when_it_wakes() {
    let mut s = player();
    s.wake(129 * MS);
    assert_eq!(s.assign(129 * MS), Change::Kept);
    assert_eq!(
        period(&s),
        (129, 159, 5),
        "not 5 ms of work with 1 ms to do it in"
    );
    let mut s = player();
    s.wake(SEC);
    assert_eq!(s.assign(SEC), Change::Renewed);
}

#[test]
fn ten_seconds_every_ten_seconds_does_not_overflow() {
    let mut s = Server::new(0, 10 * SEC, 10 * SEC);
    s.charge(1);
    s.sleep();
    s.wake(SEC);
    assert_eq!(s.deadline, 11 * SEC);
    // The server waits for its period, with a deadline two periods ahead.
    let mut s = Server::new(0, 10 * SEC, 10 * SEC);
    s.charge(10 * SEC);
    s.assign(0);
    s.wake(1);
    assert_eq!((s.start, s.deadline), (10 * SEC, 20 * SEC));
}

proptest! {
    /// Compares the wake rule with exact arithmetic, over all reservations that a spec may ask for
    /// (C from 100 us, T from 1 ms to 10 s). The header never begins a period that the exact rule
    /// forbids: such a period would be free CPU time, as often as the task wakes up. If it denies a
    /// period that the exact rule allows, the task loses at most 16 ns.
    #[test]
    fn wake_rule_errs_to_the_safe_side(
        (period, runtime) in (1_000_000..=10 * SEC).prop_flat_map(|t| (Just(t), 100_000..=t)),
        part in 0u64..1000, odd in 0u64..5_000, near in 0u64..6_000)
    {
        let used = (runtime / 1000 * part + odd).min(runtime - 1);
        // the time for which the bandwidth allows `used`, +- 3 us
        let even = u128::from(used) * u128::from(period) / u128::from(runtime);
        let now = (even as u64 + near).saturating_sub(3_000).clamp(1, period - 1);
        let mut s = Server::new(0, runtime, period);
        s.charge(used);
        s.sleep();
        s.wake(now);
        let left = i128::from(runtime - used) * i128::from(period);
        let due = i128::from(period - now) * i128::from(runtime);
        let ns = (left - due) / i128::from(period);
        if s.start == now {
            prop_assert!(left > due, "renewed, {} ns too early", -ns);
        } else {
            prop_assert!(ns <= 16, "kept, with {ns} ns too much");
        }
    }
}
