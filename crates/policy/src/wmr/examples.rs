//! Examples of the windows and of admission, in numbers that can be checked by hand.

use super::machine::{place, Machine, Task};
use super::{bandwidth, least_ns, numbers, Member, Roster, Split, MEMBERS, PARTS};
use crate::edf::cpu::{Burst, When};
use crate::edf::{Change, Server};
use crate::{assert_layout, MS, PPM, SEC};

#[test]
fn layouts_and_constants_are_the_headers() {
    assert_layout!(
        policy_layout_wmr_split,
        Split,
        runtime,
        cpu,
        release,
        slept_at,
        kept,
        parts,
        window
    );
    assert_layout!(
        policy_layout_wmr_member,
        Member,
        runtime,
        window,
        period,
        slot
    );
    assert_layout!(policy_layout_wmr_roster, Roster, member, members, pad);
    extern "C" {
        static policy_wmr_parts: u64;
        static policy_wmr_members: u64;
    }
    // SAFETY: constants of shim.c.
    let (parts, members) = unsafe { (policy_wmr_parts, policy_wmr_members) };
    assert_eq!((parts as usize, members as usize), (PARTS, MEMBERS));
    assert_eq!(least_ns(), MS / 5);
}

/// 10 ms every 30 in three windows of 10: 5 ms on CPU 2, 3 on CPU 0, 2 on CPU 1. Released at 100
/// ms.
fn player() -> (Split, Server) {
    let mut split = Split {
        parts: 3,
        ..Split::default()
    };
    split.runtime[..3].copy_from_slice(&[5 * MS, 3 * MS, 2 * MS]);
    split.cpu[..3].copy_from_slice(&[2, 0, 1]);
    let mut server = Server::new(100 * MS, 10 * MS, 30 * MS);
    split.release(&mut server, 100 * MS);
    (split, server)
}

/// (window, start, deadline, budget); times in ms.
fn window(w: &Split, s: &Server) -> (u32, u64, u64, i64) {
    let budget = s.budget.div_euclid(MS as i64);
    (w.window, s.start / MS, s.deadline / MS, budget)
}

/// The player runs for `ms`, until `at` (ms).
fn runs(w: &mut Split, s: &mut Server, ms: u64, at: u64) -> Change {
    s.charge(ms * MS);
    w.assign(s, at * MS)
}

fn sleeps(w: &mut Split, s: &mut Server, from: u64, to: u64) -> Change {
    s.sleep();
    w.sleep(s, from * MS);
    w.wake(s, to * MS);
    w.assign(s, to * MS)
}

#[test]
fn a_period_begins_in_the_first_window() {
    let (w, s) = player();
    assert_eq!(window(&w, &s), (0, 100, 110, 5));
    assert!(s.eligible(100 * MS));
}

#[test]
fn a_budget_used_up_early_waits_for_the_next_window() {
    let (mut w, mut s) = player();
    assert_eq!(runs(&mut w, &mut s, 5, 105), Change::Exhausted);
    assert_eq!(window(&w, &s), (1, 110, 120, 3), "on CPU 0, at P/n");
    assert!(!s.eligible(105 * MS) && s.eligible(110 * MS));
    assert_eq!(w.assign(&mut s, 110 * MS), Change::Kept);
}

#[test]
fn the_last_window_is_followed_by_the_next_period_on_the_first_cpu() {
    let (mut w, mut s) = player();
    runs(&mut w, &mut s, 5, 105);
    runs(&mut w, &mut s, 3, 120);
    assert_eq!(window(&w, &s), (2, 120, 130, 2));
    assert_eq!(runs(&mut w, &mut s, 2, 123), Change::Exhausted);
    assert_eq!(window(&w, &s), (0, 130, 140, 5));
    assert_eq!(w.release, 130 * MS);
}

#[test]
fn budget_left_at_the_end_of_a_window_is_lost_and_at_the_periods_end_a_miss() {
    let (mut w, mut s) = player();
    assert_eq!(runs(&mut w, &mut s, 4, 110), Change::Renewed);
    assert_eq!(window(&w, &s), (1, 110, 120, 3));
    // The player is two windows late.
    assert_eq!(w.assign(&mut s, 131 * MS), Change::Missed);
    assert!(
        w.kept > 0 && w.release == 130 * MS,
        "what was left, and since when it is late"
    );
    assert_eq!(window(&w, &s), (0, 130, 140, 5));
}

#[test]
fn an_overrun_is_paid_back_in_the_next_window() {
    let (mut w, mut s) = player();
    runs(&mut w, &mut s, 7, 107);
    assert_eq!(window(&w, &s), (1, 110, 120, 1));
    runs(&mut w, &mut s, 10, 120);
    assert_eq!((w.window, s.budget), (2, 1), "for one window at most");
}

#[test]
fn sleeping_in_a_window_counts_as_running_there() {
    let (mut w, mut s) = player();
    runs(&mut w, &mut s, 1, 101);
    assert_eq!(sleeps(&mut w, &mut s, 101, 103), Change::Kept);
    assert_eq!(window(&w, &s), (0, 100, 110, 2));
    // It sleeps for all of the budget: that is no debt, and the next window has a whole budget.
    assert_eq!(sleeps(&mut w, &mut s, 103, 109), Change::Exhausted);
    assert_eq!(window(&w, &s), (1, 110, 120, 3));
}

#[test]
fn a_task_that_sleeps_into_another_window_has_what_is_left_of_it() {
    let (mut w, mut s) = player();
    assert_eq!(sleeps(&mut w, &mut s, 101, 112), Change::Kept);
    assert_eq!(window(&w, &s), (1, 110, 120, 1));
    // It sleeps 9 ms into a window of 3 ms: nothing is left there, and the next window has no debt.
    let (mut w, mut s) = player();
    assert_eq!(sleeps(&mut w, &mut s, 101, 119), Change::Exhausted);
    assert_eq!(window(&w, &s), (2, 120, 130, 2));
}

#[test]
fn sleep_while_it_waits_for_a_window_costs_nothing() {
    let (mut w, mut s) = player();
    runs(&mut w, &mut s, 5, 105);
    assert_eq!(sleeps(&mut w, &mut s, 105, 109), Change::Kept);
    assert_eq!(window(&w, &s), (1, 110, 120, 3));
    // It sleeps until after the window began: only the sleep within the window counts.
    assert_eq!(sleeps(&mut w, &mut s, 109, 111), Change::Kept);
    assert_eq!(window(&w, &s), (1, 110, 120, 2));
}

#[test]
fn the_next_period_begins_with_a_wake_up_but_not_before_p_after_the_last() {
    let (mut w, mut s) = player();
    assert_eq!(sleeps(&mut w, &mut s, 104, 129), Change::Exhausted);
    assert_eq!(window(&w, &s), (0, 130, 140, 5), "not at 129");
    let (mut w, mut s) = player();
    assert_eq!(sleeps(&mut w, &mut s, 104, 135), Change::Kept);
    assert_eq!(window(&w, &s), (0, 135, 145, 5));
}

#[test]
fn after_a_job_of_all_its_budget_a_period_begins_with_the_next_job() {
    let (mut w, mut s) = player();
    runs(&mut w, &mut s, 5, 105);
    runs(&mut w, &mut s, 3, 120);
    runs(&mut w, &mut s, 2, 123);
    assert_eq!(window(&w, &s), (0, 130, 140, 5));
    assert_eq!(sleeps(&mut w, &mut s, 123, 137), Change::Kept);
    assert_eq!(
        window(&w, &s),
        (0, 137, 147, 5),
        "not what it has slept of 130 to 140"
    );
}

#[test]
fn a_second_thread_that_wakes_up_changes_nothing() {
    let (mut w, mut s) = player();
    sleeps(&mut w, &mut s, 100, 101);
    let before = (w, s);
    w.wake(&mut s, 108 * MS);
    assert_eq!((w, s), before);
}

#[test]
fn the_last_window_ends_with_the_period() {
    let mut split = Split {
        parts: 3,
        ..Split::default()
    };
    split.runtime[..3].fill(MS);
    let mut s = Server::new(0, 3 * MS, 10 * MS + 1);
    split.release(&mut s, 0);
    split.assign(&mut s, 3_333_333);
    split.assign(&mut s, 6_666_666);
    assert_eq!(
        (split.window, s.start, s.deadline),
        (2, 6_666_666, 10 * MS + 1)
    );
}

/// 5 + 5 ms in 20, in windows of 10, with a job of 8 ms. At 6 ms the task has used up its 5 ms on
/// CPU 0, where another task has left 3 of its 4 ms. What the task cannot run on that slack, it
/// runs on CPU 1 from 10 ms on.
#[test]
fn while_it_waits_for_its_window_it_may_use_what_others_leave() {
    let run = |reclaim| {
        let job = |work| Burst {
            when: When::At(0),
            work: work * MS,
        };
        let mut whole = Split {
            parts: 1,
            ..Split::default()
        };
        whole.runtime[0] = 4 * MS;
        let mut halves = Split {
            parts: 2,
            ..Split::default()
        };
        halves.runtime[..2].fill(5 * MS);
        halves.cpu[1] = 1;
        let tasks = vec![
            Task::new(whole, 20 * MS, [job(1)]),
            Task::new(halves, 20 * MS, [job(8)]),
        ];
        let mut machine = Machine::new(2, tasks);
        machine.reclaim = reclaim;
        machine.run(20 * MS);
        let split = &machine.tasks[1];
        (split.trace.draws.clone(), split.trace.bursts[0].1 / MS)
    };
    assert_eq!(run(false), (vec![], 13));
    assert_eq!(run(true), (vec![(6 * MS, 9 * MS)], 9));
}

/// The first number of windows gives windows of 10 ms, if there are as many CPUs. Then smaller
/// numbers are tried, then larger ones, each once. If much is promised, the smallest is first.
#[test]
fn numbers_of_windows() {
    let tried = |period, cpus| numbers(period, cpus, 0).collect::<Vec<_>>();
    let crowded = |promised| numbers(41 * MS, 4, promised).collect::<Vec<_>>();
    assert_eq!(crowded(4 * 800_000), [4, 3, 2]);
    assert_eq!(crowded(4 * 800_000 + 1), [2, 3, 4]);
    assert_eq!(tried(41 * MS, 2), [2]);
    assert_eq!(tried(41 * MS, 4), [4, 3, 2]);
    assert_eq!(tried(41 * MS, 16), [4, 3, 2, 5, 6, 7, 8]);
    assert_eq!(tried(33 * MS, 4), [3, 2, 4]);
    assert_eq!(tried(MS, 4), [2, 3, 4]);
    assert_eq!(tried(1000 * MS, 16), [8, 7, 6, 5, 4, 3, 2]);
    assert_eq!(tried(41 * MS, 1), []);
}

/// Worst-fit: each of the first two movies gets a CPU of its own, and the third is split over both.
#[test]
fn three_movies_of_61_percent_on_two_cpus() {
    let mut rosters = [Roster::default(); 2];
    let mut movie = |slot| place(&mut rosters, PPM, slot, 25 * MS, 41 * MS);
    let cpus = |w: Split| w.cpu[..w.parts as usize].to_vec();
    assert_eq!(movie(1).map(cpus), Some(vec![0]));
    assert_eq!(movie(2).map(cpus), Some(vec![1]));
    let third = movie(3).expect("is split");
    assert_eq!(cpus(third), [0, 1]);
    assert_eq!(third.runtime[0] + third.runtime[1], 25 * MS);
    assert_eq!(movie(4), None, "2.4 of 2 CPUs");
    for roster in &rosters {
        let part = roster.member[1];
        assert_eq!(
            (part.window, part.period, part.slot),
            (41 * MS / 2, 41 * MS, 3)
        );
    }
    // A task that exits is removed from both CPUs.
    for roster in &mut rosters {
        roster.leave(3);
        assert_eq!(roster.members, 1);
        assert_eq!(roster.promised(), bandwidth(25 * MS, 41 * MS));
    }
}

/// What docs/reservations-on-several-cpus.md says about an R_max of 95 %: a third movie fits only
/// if little else is used.
#[test]
fn a_third_movie_needs_nearly_all_that_is_left() {
    let third_beside = |used_ppm: u64| {
        let mut rosters = [Roster::default(); 2];
        let mut movie = |slot| place(&mut rosters, 950_000 - used_ppm, slot, 25 * MS, 41 * MS);
        movie(1).and(movie(2)).and(movie(3)).is_some()
    };
    assert!(third_beside(10_000));
    assert!(!third_beside(20_000));
}

#[test]
fn what_is_free_beside_a_movie() {
    let mut r = Roster::default();
    assert_eq!(r.room(41 * MS, 41 * MS, PPM), 41 * MS);
    r.join(1, 25 * MS, 41 * MS, 41 * MS);
    let whole = r.room(41 * MS, 41 * MS, PPM);
    assert!((16 * MS - 100..=16 * MS).contains(&whole), "{whole}");
    // In a window of half a period, exactly 16 ms would fit as well. With 8 steps counted one by
    // one the result is 16 * 8 / 8.5.
    let half = r.room(41 * MS, 41 * MS / 2, PPM);
    assert!((15_058_000..15_059_000).contains(&half), "{half}");
    // In a window of 10 ms, all 10 ms are free.
    assert_eq!(r.room(80 * MS, 10 * MS, PPM), 10 * MS);
    // A tenth of the CPU is kept for others.
    let kept = r.room(41 * MS, 41 * MS, PPM * 9 / 10);
    assert!((11_899_000..=11_900_000).contains(&kept), "{kept}");
}

#[test]
fn a_window_cannot_be_squeezed_by_a_later_comer() {
    let mut r = Roster::default();
    r.join(1, 8 * MS, 10 * MS, 40 * MS); // 8 in windows of 10: 20 %
    assert_eq!(r.room(10 * MS, 10 * MS, PPM), 2 * MS, "not 80 %");
    assert_eq!(r.room(9 * MS, 9 * MS, PPM), 2 * MS, "due before it");
    assert_eq!(r.room(40 * MS, 10 * MS, PPM), 2 * MS);
    assert_eq!(r.room(40 * MS, 20 * MS, PPM), 12 * MS);
}

#[test]
fn a_full_roster_has_no_room() {
    let mut r = Roster::default();
    for slot in 0..MEMBERS as u64 {
        assert!(r.room(SEC, SEC, PPM) > 0);
        r.join(slot, MS, SEC, SEC);
    }
    assert_eq!(r.room(SEC, SEC, PPM), 0);
    let full = r;
    r.join(99, MS, SEC, SEC);
    assert_eq!(r, full);
    r.leave(0);
    assert_eq!(r.members, 31);
    assert!(r.member[..31].iter().all(|m| m.slot != 0));
    let before = r;
    r.leave(0);
    assert_eq!(r, before, "no such member");
    let mut alone = Roster::default();
    alone.leave(0);
    assert_eq!(alone.members, 0);
}

#[test]
fn offers_keep_the_largest_rooms() {
    let mut w = Split::default();
    for (cpu, ms) in [(0, 3), (1, 5), (2, 4), (3, 5), (4, 1)] {
        w.offer(3, cpu, ms * MS);
    }
    assert_eq!((w.parts, &w.cpu[..3]), (3, &[1, 3, 2][..]));
    assert_eq!(w.runtime[..3], [5 * MS, 5 * MS, 4 * MS]);
    let mut enough = w;
    assert!(enough.complete(3, 12 * MS));
    assert_eq!(enough.runtime[..3], [5 * MS, 5 * MS, 2 * MS]);
    assert!(!w.complete(3, 14 * MS + 1));
    // Too few CPUs have enough room for a part.
    let mut w = Split::default();
    w.offer(2, 0, 20 * MS);
    w.offer(2, 1, MS / 5 - 1);
    assert!(!w.complete(2, MS));
}

/// The longest periods (10 s) and as many members as possible. The sanitizer traps any overflow.
#[test]
fn the_largest_that_may_be_promised() {
    let mut r = Roster::default();
    for slot in 0..31 {
        r.join(slot, 10 * SEC / 32, 10 * SEC, 10 * SEC);
    }
    let whole = r.room(10 * SEC, 10 * SEC, PPM);
    assert!(
        (10 * SEC / 32 - SEC / 1000..=10 * SEC / 32).contains(&whole),
        "{whole}"
    );
    assert!(r.room(10 * SEC, 10 * SEC / 8, PPM) > 0);
    assert!(r.room(MS, MS, PPM) > 0);
    assert!(r.room(MS, MS / 8, PPM) > 0);
    let mut mixed = Roster::default();
    mixed.join(0, 5 * SEC, 10 * SEC, 10 * SEC);
    for slot in 1..31 {
        mixed.join(slot, 10_000, MS / 8, MS);
    }
    assert!(mixed.room(10 * SEC, 10 * SEC / 8, PPM) > 0);
    let one = Member {
        runtime: 10 * SEC,
        window: 10 * SEC / 8,
        period: 10 * SEC,
        slot: 0,
    };
    assert_eq!(one.demand(8 * 10 * SEC + 10 * SEC / 8), 90 * SEC);
    assert_eq!(bandwidth(10 * SEC, 10 * SEC), PPM);
}
