//! The guarantees of `background.h`, on a virtual CPU with best-effort work and reserved demand.
//!
//! The virtual CPU calls the header where the scheduler does. `background_due` calls it before a
//! reserved task is chosen. `reserved_running` calls it for the time until which the task may run.
//! Kicks take no time here. u is the owed share (1 - R_max) and W the window.
//!
//! 1. Share. If best-effort work is always runnable, it gets what a reservation of its share every
//!    100 ms would give: in any interval of L ns at least u L - 2 u W (1 - u).
//! 2. Precedence. Reserved work waits only if best-effort work had less than its share in the 100
//!    ms before. It never waits longer than that share.

use super::*;
use crate::{assert_layout, MS, PPM, SEC};
use proptest::prelude::*;

const SHARE: u64 = 100_000; // 1 - R_max
const OWED: u64 = WINDOW * SHARE / PPM;
const SLICE: u64 = 4 * MS;

/// A CPU with best-effort work at all times and bursts of reserved work.
#[derive(Default)]
struct Cpu {
    background: Background,
    now: u64,
    /// Each run of best-effort work: (from, to).
    runs: Vec<(u64, u64)>,
    /// Each run of best-effort work while reserved work waited: (from, to).
    turns: Vec<(u64, u64)>,
}

impl Cpu {
    fn best_effort(&mut self, ns: u64) {
        self.runs.push((self.now, self.now + ns));
        self.now += ns;
        self.background.charge(ns);
    }

    /// Only best-effort work runs, for `ns`.
    fn idle(&mut self, mut ns: u64) {
        while ns > 0 {
            let slice = ns.min(SLICE);
            self.best_effort(slice);
            ns -= slice;
        }
    }

    /// A reserved task arrives with a budget of `left` ns and uses all of it.
    fn reserved(&mut self, mut left: u64) {
        while left > 0 {
            self.background.roll(self.now, SHARE);
            let laxity = self.background.laxity(self.now);
            if laxity == 0 {
                let turn = (self.background.owed as u64).min(SLICE);
                self.turns.push((self.now, self.now + turn));
                self.best_effort(turn);
            } else {
                let run = left.min(laxity);
                self.now += run;
                left -= run;
            }
        }
    }

    /// CPU time of best-effort work in [from, to), ns.
    fn served(&self, from: u64, to: u64) -> u64 {
        let part = |r: &(u64, u64)| r.1.min(to).saturating_sub(r.0.max(from));
        self.runs.iter().map(part).sum()
    }
}

#[test]
fn layout_and_window_are_the_headers() {
    assert_layout!(policy_layout_background, Background, window_end, owed);
    extern "C" {
        static policy_background_window_ns: u64;
    }
    // SAFETY: a constant of shim.c
    assert_eq!(unsafe { policy_background_window_ns }, WINDOW);
}

#[test]
fn its_turn_comes_when_the_rest_of_the_window_is_what_it_is_owed() {
    let mut b = Background::default();
    b.roll(SEC, SHARE);
    assert_eq!((b.window_end, b.owed), (SEC + 100 * MS, 10 * MS as i64));
    assert_eq!(b.laxity(SEC), 90 * MS);
    assert_eq!(b.laxity(SEC + 89 * MS), MS);
    assert_eq!(b.laxity(SEC + 90 * MS), 0);
    assert_eq!(b.laxity(SEC + 95 * MS), 0);
}

#[test]
fn what_it_got_anyway_counts() {
    let mut b = Background::default();
    b.roll(0, SHARE);
    b.charge(4 * MS);
    assert_eq!(b.laxity(0), 94 * MS);
}

#[test]
fn with_its_part_it_has_to_wait_for_the_next_window() {
    let mut b = Background::default();
    b.roll(SEC, SHARE);
    b.charge(12 * MS);
    assert_eq!(b.laxity(SEC + 30 * MS), 70 * MS, "to be asked again then");
    b.roll(SEC + 99 * MS, SHARE);
    assert_eq!(b.owed, -2 * MS as i64, "still the same window");
    b.roll(SEC + 100 * MS, SHARE);
    assert_eq!(b.laxity(SEC + 100 * MS), 90 * MS);
}

#[test]
fn a_window_is_never_a_rest_of_one() {
    for pause in [0, 1, 50 * MS, 95 * MS, 150 * MS, SEC] {
        let mut b = Background::default();
        b.roll(0, SHARE);
        let now = WINDOW + pause;
        b.roll(now, SHARE);
        assert_eq!(b.laxity(now), 90 * MS, "after {pause}");
    }
}

#[test]
fn a_share_of_nothing_and_of_all() {
    let mut b = Background::default();
    b.roll(0, 0);
    assert_ne!(b.laxity(99 * MS), 0);
    b.roll(WINDOW, PPM);
    assert_eq!(b.laxity(WINDOW), 0);
}

#[test]
fn full_reservation_leaves_exactly_the_share() {
    let mut cpu = Cpu::default();
    cpu.reserved(9 * SEC);
    assert_eq!(cpu.now, 10 * SEC - 10 * MS, "the last turn has not come");
    assert_eq!(cpu.served(0, cpu.now), SEC - 10 * MS);
}

/// Best-effort work gets its part of the window early. Then a reserved task arrives with a budget
/// of seconds.
#[test]
fn a_long_budget_does_not_outlast_the_next_window() {
    let mut cpu = Cpu::default();
    cpu.reserved(MS);
    cpu.idle(20 * MS);
    cpu.reserved(2 * SEC);
    assert_eq!(cpu.turns[0].0, 190 * MS, "zero laxity of the second window");
}

/// Best-effort work had the CPU for nearly all of the time before, so the next reserved task does
/// not wait.
#[test]
fn a_reserved_task_that_comes_seldom_never_waits() {
    let mut cpu = Cpu::default();
    for _ in 0..100 {
        cpu.reserved(20 * MS);
        cpu.idle(175 * MS);
    }
    assert_eq!(cpu.turns, []);
}

fn demand() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![2 => Just(0), 2 => 0..5 * MS, 1 => 0..300 * MS];
    let run = prop_oneof![2 => 1..10 * MS, 1 => 1..100 * MS, 1 => 1..2 * SEC];
    prop::collection::vec((gap, run), 1..60)
}

proptest! {
    /// Theorems 1 and 2.
    #[test]
    fn share_and_precedence_hold_under_any_demand(demand in demand()) {
        let mut cpu = Cpu::default();
        for (gap, run) in demand {
            cpu.idle(gap);
            cpu.reserved(run);
        }
        // Theorem 1: the potential, served - u t, never falls by more than the bound.
        let (mut most, mut served) = (0i128, 0i128);
        let potential =
            |served: i128, t: u64| served * i128::from(PPM) - i128::from(t) * i128::from(SHARE);
        let bound = 2 * i128::from(OWED) * i128::from(PPM - SHARE);
        for &(from, to) in &cpu.runs {
            prop_assert!(most - potential(served, from) <= bound, "starved until {from}");
            served += i128::from(to - from);
            most = most.max(potential(served, to));
        }
        prop_assert!(most - potential(served, cpu.now) <= bound);
        // Theorem 2
        for &(from, to) in &cpu.turns {
            let before = from.saturating_sub(WINDOW - OWED);
            prop_assert!(cpu.served(before, from) < OWED, "a turn at {from} although it had its part");
            prop_assert!(to - from <= OWED);
        }
    }
}
