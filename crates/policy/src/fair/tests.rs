//! The guarantees of `fair.h` for the tasks of one queue. W is the CPU time of a task, w its weight
//! divided by that of nice 0, and c the virtual time that a slice costs it, 4 ms / w.
//!
//! 1. Shares (Goyal, Guo and Vin 1996, theorem 1): in any interval, for tasks i and j that always
//!    have work, |W_i / w_i - W_j / w_j| <= c_i + c_j. This holds whatever other tasks do and
//!    however slices are cut short.
//! 2. Sleepers: a task that sleeps gets no more than a task that always works, except for
//!    FAIR_CREDIT_NS and slices.
//! 3. Fork bombs: if K children exist at a time, a task gets a slice for each K turns of theirs.
//!    theirs.
//! 4. Debt: before a task with any debt runs, each other task runs for at most FAIR_DEBT_NS, or
//!    for as long as its own last turn cost it, and for less if the queue is long.

use super::machine::{Life, Machine, SLICE};
use super::*;
use crate::{assert_layout, MS, SEC, US};
use proptest::prelude::*;

#[test]
fn layout_and_constants_are_the_headers() {
    assert_layout!(policy_layout_fair_queue, Queue, now, last, floor);
    assert_layout!(policy_layout_fair_pair, Pair, even);
    extern "C" {
        static policy_fair_weight: u64;
        static policy_fair_unit: u64;
        static policy_fair_slice_ns: u64;
        static policy_fair_credit_ns: u64;
        static policy_fair_debt_ns: u64;
        static policy_fair_guard_ns: u64;
    }
    // SAFETY: constants of shim.c.
    let (weight, slice, credit, debt) = unsafe {
        (
            policy_fair_weight,
            policy_fair_slice_ns,
            policy_fair_credit_ns,
            policy_fair_debt_ns,
        )
    };
    assert_eq!((weight, slice, credit, debt), (WEIGHT, SLICE, CREDIT, DEBT));
    // SAFETY: as above.
    let (unit, guard) = unsafe { (policy_fair_unit, policy_fair_guard_ns) };
    assert_eq!((unit, guard), (u64::from(UNIT), GUARD));
}

/// The virtual time with which a task of `weight` and virtual time `v` joins a queue at `now` in
/// which tasks have waited all along.
fn place(v: u64, now: u64, weight: u32) -> u64 {
    let busy = Queue {
        now,
        last: now,
        floor: now.wrapping_sub(SEC),
    };
    busy.place(v, weight)
}

#[test]
fn cost_is_time_over_weight() {
    assert_eq!(cost(4 * MS, 100), 4 * MS);
    assert_eq!(cost(4 * MS, 200), 2 * MS);
    assert_eq!(cost(4 * MS, 1), 400 * MS);
    assert_eq!(cost(4 * MS, 0), 25_600 * MS, "no division by zero");
}

#[test]
fn place_is_within_the_window() {
    let now = 10 * SEC;
    assert_eq!(place(now, now, 100), now);
    assert_eq!(place(0, now, 100), now - CREDIT);
    assert_eq!(place(now - CREDIT, now, 100), now - CREDIT);
    assert_eq!(place(now + MS, now, 100), now + MS);
    assert_eq!(place(now + SEC, now, 100), now + DEBT);
    assert_eq!(place(now + SEC, now, 1), now + 800 * MS, "its last turn");
    assert_eq!(debt(0, 1), 800 * MS);
    assert_eq!(debt(0, 100), DEBT);
    assert_eq!(debt(99, 1), 50 * MS, "the others need 5 s for it");
}

/// When none waits, all that have run are even: none has credit, and none owes anything.
#[test]
fn credit_is_void_when_none_waits() {
    let mut queue = Queue::default();
    queue.begins(10 * SEC);
    queue.ran(10 * SEC + 3 * MS);
    assert_eq!(queue.place(0, 100), 10 * SEC - CREDIT);
    queue.none_waits();
    let even = 10 * SEC + 3 * MS;
    for v in [0, 10 * SEC - MS, 10 * SEC + 2 * MS, even] {
        assert_eq!(queue.place(v, 100), even);
    }
    queue.begins(even + 2 * MS);
    assert_eq!(
        queue.place(0, 100),
        even,
        "a task that came late is as before"
    );
    queue.begins(even + 9 * MS);
    assert_eq!(queue.place(0, 100), even + 9 * MS - CREDIT);
}

/// Else a kernel thread, of ten times nice 0's weight, would run for ten slices after its sleep.
#[test]
fn the_credit_is_worth_a_slice_at_most() {
    let now = 10 * SEC;
    for weight in [100, 200, 1000, 8876] {
        assert_eq!(place(0, now, weight), now - cost(SLICE, weight));
    }
    for weight in [1, 50, 99] {
        assert_eq!(place(0, now, weight), now - CREDIT);
    }
}

/// Of tasks that wake up each other, one is always a little later: that is no reason to preempt.
#[test]
fn a_lead_of_a_millisecond_preempts() {
    let now = 10 * SEC;
    for (weight, lead) in [(100, MS), (1, MS), (1000, MS / 10)] {
        assert!(!preempts(now - lead, weight, now), "{weight}");
        assert!(preempts(now - lead - 1, weight, now), "{weight}");
        assert!(!preempts(now + MS, weight, now), "{weight}: ahead");
    }
    assert!(
        preempts(0u64.wrapping_sub(2 * MS), 100, 0),
        "the clock wraps"
    );
}

#[test]
fn a_rested_task_needs_no_lead() {
    let now = 10 * SEC;
    for (weight, lead) in [(100, MS), (1, MS), (1000, MS / 10)] {
        assert!(rested_preempts(now + lead - 1, weight, now), "{weight}");
        assert!(!rested_preempts(now + lead, weight, now), "{weight}: ahead");
    }
}

/// Not a light task from a heavier one: SCHED_IDLE would keep the CPU from all others.
#[test]
fn a_task_that_has_just_begun_is_guarded_by_its_weight() {
    for (weight, wakes, guard) in [
        (100, 100, GUARD),
        (1000, 100, GUARD),
        (10, 100, GUARD / 10),
        (1, 100, GUARD / 100),
        (1, 1, GUARD),
    ] {
        assert!(guarded(guard - 1, weight, wakes), "{weight}, {wakes}");
        assert!(!guarded(guard, weight, wakes), "{weight}, {wakes}");
        let turn = guard * MS / GUARD;
        assert_eq!(turn_left(0, weight, wakes), turn, "{weight}, {wakes}");
        assert_eq!(turn_left(turn - 1, weight, wakes), 1, "{weight}, {wakes}");
        assert_eq!(turn_left(turn, weight, wakes), 0, "{weight}, {wakes}");
    }
    let long_ago = u64::MAX / 10_000;
    assert!(!guarded(long_ago, 1, 10_000));
    assert_eq!(turn_left(long_ago, 1, 10_000), 0);
}

/// Virtual time starts at 0 and may wrap.
#[test]
fn place_at_both_ends_of_the_clock() {
    assert_eq!(place(0, 0, 100), 0);
    assert_eq!(place(MS, 0, 100), MS);
    assert_eq!(place(2 * MS, 0u64.wrapping_sub(MS), 100), 2 * MS);
    assert_eq!(
        place(0u64.wrapping_sub(SEC), MS, 100),
        MS.wrapping_sub(CREDIT),
        "behind, not far ahead"
    );
}

#[test]
fn two_hogs_share_by_weight() {
    let mut m = Machine::new(1);
    m.add(300, Life::Hog);
    m.add(100, Life::Hog);
    m.run(40 * SEC);
    for (t, seconds) in m.tasks.iter().zip([30, 10]) {
        assert!(t.served.abs_diff(seconds * SEC) <= 2 * SLICE, "{t:?}");
    }
}

/// A light task has no more than its weight, beside one other: its debt is as long as its turns.
#[test]
fn light_tasks_have_their_share() {
    for weight in [1, 2, 5, 10] {
        let mut m = Machine::new(1);
        let hog = m.add(100, Life::Hog);
        let light = m.add(weight, Life::Hog);
        m.run(60 * SEC);
        let part =
            m.tasks[light].served as f64 / (m.tasks[hog].served + m.tasks[light].served) as f64;
        let due = f64::from(weight) / f64::from(100 + weight);
        assert!((0.9..1.1).contains(&(part / due)), "{part} of {due}");
    }
}

/// If children started at the queue's virtual time, they would be served before all tasks that have
/// run, and virtual time would stand still.
#[test]
fn without_the_slice_ahead_a_fork_bomb_starves_a_task() {
    let served = |child: fn(&Queue) -> u64| {
        let mut m = Machine::new(1);
        m.child = child;
        let old = m.add(100, Life::Hog);
        for _ in 0..10 {
            m.add(100, Life::Forker { work: 500 * US });
        }
        m.run(10 * SEC);
        m.tasks[old].served
    };
    assert_eq!(
        served(|queue| queue.now),
        SLICE,
        "its first slice, and no more"
    );
    let ours = served(Queue::start);
    assert!(
        ours >= 4 * SEC,
        "4 ms of each 4 + 10 * 0.5 would be 4.4 s: {ours}"
    );
}

#[test]
fn a_long_queue_is_no_death_sentence_for_a_debtor() {
    // The kernel's watchdog ends a scheduler that lets a task wait for 30 s.
    for (others, limit) in [(1, 200 * MS), (20, 3 * SEC), (2_000, 20 * SEC)] {
        let mut m = Machine::new(1);
        for _ in 0..others {
            m.add(100, Life::Hog);
        }
        let debtor = m.add_at(100, Life::Hog, m.queue_now() + 1000 * SEC);
        while m.tasks[debtor].served == 0 {
            m.step();
        }
        assert!(m.now <= limit, "{others} others: {} ms", m.now / MS);
    }
}

fn hogs() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![Just(100u32), 1u32..9000], 2..6)
}

fn company() -> impl Strategy<Value = Vec<(u32, Life)>> {
    let sleeper = (1..20 * MS, 1..50 * MS).prop_map(|(work, sleep)| Life::Sleeper { work, sleep });
    let forker = (100 * US..20 * MS).prop_map(|work| Life::Forker { work });
    prop::collection::vec((1u32..9000, prop_oneof![2 => sleeper, 1 => forker]), 0..5)
}

fn slices() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        Just(vec![SLICE]),
        prop::collection::vec(100 * US..=SLICE, 1..8)
    ]
}

/// The most by which a value x grew over any interval. see() is given x after each step.
#[derive(Default)]
struct Growth {
    least: i128,
    most: i128,
}

impl Growth {
    fn see(&mut self, x: i128) {
        self.most = self.most.max(x - self.least);
        self.least = self.least.min(x);
    }
}

/// The virtual time that the CPU time of task `i` was worth, ns.
fn worth(m: &Machine, i: usize) -> i128 {
    let t = &m.tasks[i];
    i128::from(t.served) * i128::from(WEIGHT) / i128::from(t.weight)
}

/// Bound on the sum of what each slice's cost loses by rounding to whole ns.
const ROUNDING: i128 = 2_000;

proptest! {
    /// Theorem 1 on one CPU.
    #[test]
    fn shares_are_by_weight(hogs in hogs(), company in company(), slices in slices()) {
        let mut m = Machine::new(1);
        m.slices = slices;
        for &w in &hogs { m.add(w, Life::Hog); }
        for &(w, life) in &company { m.add(w, life); }
        let mut growth: Vec<Growth> = hogs.iter().flat_map(|_| &hogs).map(|_| Growth::default()).collect();
        for _ in 0..600 {
            m.step();
            for i in 0..hogs.len() {
                for j in 0..hogs.len() {
                    growth[i * hogs.len() + j].see(worth(&m, i) - worth(&m, j));
                }
            }
        }
        for i in 0..hogs.len() {
            for j in 0..hogs.len() {
                let most = growth[i * hogs.len() + j].most;
                let bound = i128::from(cost(SLICE, hogs[i]) + cost(SLICE, hogs[j])) + ROUNDING;
                prop_assert!(most <= bound, "{} and {}: {most} above {bound}", hogs[i], hogs[j]);
            }
        }
    }

    /// Theorem 1 on several CPUs, for equal weights. (For different weights it cannot hold, because
    /// a task does not run on two CPUs at once.) The bound is larger by two slices, because each
    /// CPU chooses at a time of its own.
    #[test]
    fn equals_get_the_same_on_many_cpus(cpus in 2usize..6, more in 1usize..8, slices in slices()) {
        let mut m = Machine::new(cpus);
        m.slices = slices;
        for _ in 0..cpus + more { m.add(100, Life::Hog); }
        let mut growth = Growth::default();
        for _ in 0..1500 {
            m.step();
            growth.see(worth(&m, 0) - worth(&m, cpus));
        }
        let bound = i128::from(4 * SLICE);
        prop_assert!(growth.most <= bound, "{} above {bound}", growth.most);
    }

    /// Theorem 2.
    #[test]
    fn sleeping_gains_the_credit_at_most(weight in 1u32..9000, work in 1..20 * MS, sleep in 1..50 * MS,
                                         hog in 1u32..9000, company in company(), slices in slices()) {
        let mut m = Machine::new(1);
        m.slices = slices;
        let hog_i = m.add(hog, Life::Hog);
        let sleeper = m.add(weight, Life::Sleeper { work, sleep });
        for &(w, life) in &company { m.add(w, life); }
        let mut growth = Growth::default();
        for _ in 0..600 {
            m.step();
            growth.see(worth(&m, sleeper) - worth(&m, hog_i));
        }
        let bound = i128::from(CREDIT + cost(SLICE, weight) + cost(SLICE, hog)) + ROUNDING;
        prop_assert!(growth.most <= bound, "{} above {bound}", growth.most);
    }

    /// Theorem 3.
    #[test]
    fn fork_bombs_starve_no_task(
        children in 1usize..40,
        work in 50 * US..=SLICE,
        cpus in 1usize..4,
    ) {
        let mut m = Machine::new(cpus);
        let old = m.add(100, Life::Hog);
        for _ in 0..children { m.add(100, Life::Forker { work }); }
        m.run(2 * SEC);
        let round = SLICE + children as u64 * work;
        let fair = (2 * SEC).min(2 * SEC * SLICE / round);
        prop_assert!(m.tasks[old].served + 2 * round + 2 * SLICE >= fair,
                     "{} of {fair}", m.tasks[old].served);
    }

    /// Theorem 4: a task joins with any virtual time, on one CPU.
    #[test]
    fn debt_is_bounded(v: u64, others in 1usize..30, weight in 1u32..200) {
        let mut m = Machine::new(1);
        for _ in 0..others { m.add(100, Life::Hog); }
        m.run(SEC);
        let debtor = m.add_at(weight, Life::Hog, v);
        let begin = m.now;
        while m.tasks[debtor].served == 0 { m.step(); }
        let most = DEBT.max(cost(2 * SLICE, weight));
        let bound = others as u64 * (most + 2 * SLICE) + 2 * SLICE;
        prop_assert!(m.now - begin <= bound, "{} above {bound}", m.now - begin);
    }
}
