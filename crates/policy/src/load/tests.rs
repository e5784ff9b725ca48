//! The guarantees of `load.h`: R_load, S_load, admission, and the use of one server across gaps.

use super::*;
use crate::{assert_layout, PPM, SEC};
use proptest::prelude::*;

const R_HI: u64 = 800_000;

#[test]
fn layouts_and_constants_are_the_headers() {
    assert_layout!(
        policy_layout_load,
        Load,
        sample_ppm,
        r_ppm,
        s_ppm,
        fresh_ppm,
        next,
        pad
    );
    assert_layout!(policy_layout_usage, Usage, second, ns);
    extern "C" {
        static policy_load_samples: u64;
        static policy_load_sample_ns: u64;
    }
    // SAFETY: constants of shim.c.
    let (samples, sample_ns) = unsafe { (policy_load_samples, policy_load_sample_ns) };
    assert_eq!((samples, sample_ns), (SAMPLES as u64, SEC));
}

#[test]
fn r_load_is_the_mean_of_the_last_four_seconds() {
    let mut l = Load::default();
    let expect = [100_000, 250_000, 450_000, 700_000, 800_000];
    for (tenths, r) in [4, 6, 8, 10, 8].into_iter().zip(expect) {
        l.sample(tenths * SEC / 10, SEC);
        assert_eq!(l.r_ppm, r);
    }
}

#[test]
fn a_sample_counts_by_its_interval() {
    let mut l = Load::default();
    l.sample(SEC, 2 * SEC);
    assert_eq!(l.sample_ppm[0], 500_000);
    let before = l;
    l.sample(SEC, 0);
    assert_eq!(l, before, "no interval, no sample");
}

#[test]
fn a_launch_counts_at_once_and_half_of_it_goes_each_full_second() {
    let mut l = Load::default();
    l.launch(400_000);
    assert_eq!(l.expected(), 400_000);
    for s in [400_000, 200_000, 100_000, 50_000, 25_000] {
        l.sample(0, SEC);
        assert_eq!(l.s_ppm, s);
    }
}

#[test]
fn expected_is_the_larger_one_and_admission_is_strict() {
    let mut l = Load {
        r_ppm: 500_000,
        s_ppm: 300_000,
        ..Load::default()
    };
    assert_eq!(l.expected(), 500_000);
    assert!(l.fits(299_999, R_HI));
    assert!(!l.fits(300_000, R_HI));
    l.s_ppm = 600_000;
    assert!(!l.fits(200_000, R_HI));
}

#[test]
fn a_task_that_leaves_at_once_leaves_nothing() {
    let mut l = Load::default();
    l.launch(300_000);
    l.launch(100_000);
    l.leave(300_000, 0);
    assert_eq!(l.s_ppm, 100_000);
}

#[test]
fn a_task_that_leaves_later_takes_what_is_left_of_its_launch() {
    let mut l = Load::default();
    l.launch(400_000);
    for _ in 0..4 {
        l.sample(0, SEC);
    }
    l.launch(300_000); // another task, just now
    l.leave(400_000, 3); // the first sample came at once, and the age is in full seconds
    assert_eq!(l.s_ppm, 300_000, "50,000 of the 400,000 were left");
    l.leave(300_000, 0);
    assert_eq!(l.s_ppm, 0);
    l.leave(400_000, 64); // the shift by the age must not exceed 63
    assert_eq!(l.s_ppm, 0);
}

/// An interactive fork bomb: one more task asks for admission every millisecond, and each admitted
/// task uses all it reserved.
#[test]
fn a_bomb_of_tasks_that_use_all_they_reserve_never_gets_more_than_r_hi() {
    for start_ms in (0..1000).step_by(50) {
        let (mut l, mut admitted, mut used) = (Load::default(), 0, 0);
        for ms in 0..10_000u64 {
            if ms >= start_ms && l.fits(100_000, R_HI) {
                l.launch(100_000);
                admitted += 1;
            }
            used += admitted * SEC / 1000 / 10; // each task has 10 % of the CPU
            if ms % 1000 == 999 {
                l.sample(used, SEC);
                used = 0;
            }
        }
        assert_eq!(
            admitted, 7,
            "7 of 10 % fit below 80 %; the first came after {start_ms} ms"
        );
    }
}

#[test]
fn a_revoked_task_is_not_revoked_for_twice() {
    let mut l = Load::default();
    for _ in 0..4 {
        l.sample(95 * SEC / 100, SEC);
    }
    l.forget(300_000);
    assert_eq!(l.r_ppm, 650_000);
    // The first second without the revoked task.
    l.sample(65 * SEC / 100, SEC);
    assert_eq!(l.r_ppm, 650_000);
}

#[test]
fn old_seconds_fall_out_of_the_window() {
    let mut u = Usage::default();
    u.add(10, SEC);
    u.add(11, SEC / 2);
    assert_eq!(u.ppm(11), 375_000);
    assert_eq!(u.ppm(13), 375_000);
    assert_eq!(u.ppm(14), 125_000, "second 10 is out");
    assert_eq!(u.ppm(1_000_000), 0);
}

/// A busy loop that was admitted a second ago is compared with a player that is older and uses 80 %
/// of its reservation.
#[test]
fn a_new_task_is_judged_by_the_time_since_it_came() {
    let busy_for_one_second = usage_part_ppm(100_000 / 4, 100_000, SEC);
    let player = usage_part_ppm(360_000, 450_000, 60 * SEC);
    assert_eq!((busy_for_one_second, player), (PPM, 800_000));
    assert_eq!(usage_part_ppm(50_000, 100_000, 4 * SEC), 500_000);
    assert_eq!(usage_part_ppm(0, 0, 0), 0);
}

/// The governor reads its current second before it looks at the servers; a server may have run into
/// the next second meanwhile.
#[test]
fn asking_for_the_second_before_forgets_nothing() {
    let mut u = Usage::default();
    for second in 10..14 {
        u.add(second, SEC);
    }
    assert_eq!(u.ppm(12), PPM);
    assert_eq!(u.ppm(13), PPM);
}

/// What may happen to a CPU's load: a request, a sample, an exit, a revocation.
#[derive(Clone, Debug)]
enum Event {
    Ask(u64),
    Sample(u64),
    Leave(u64, u64),
    Forget(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1..PPM).prop_map(Event::Ask),
        4 => (0..=SEC).prop_map(Event::Sample),
        1 => (1..PPM, 0u64..100).prop_map(|(bw, age)| Event::Leave(bw, age)),
        1 => (0..PPM).prop_map(Event::Forget),
    ]
}

proptest! {
    /// If R_load is steady, S_load halves its distance to a lower R_load each second and finally
    /// reaches it. S_load rises to a higher R_load at once.
    #[test]
    fn s_load_converges(s_ppm in 0..2 * PPM, used in 0..=SEC) {
        let mut l = Load::default();
        for _ in 0..SAMPLES {
            l.sample(used, SEC);
        }
        let r = l.r_ppm;
        prop_assert_eq!(r, used * PPM / SEC);
        l.s_ppm = s_ppm;
        let distance = s_ppm.saturating_sub(r);
        for n in 1..24 {
            l.sample(used, SEC);
            prop_assert_eq!(l.s_ppm, r + (distance >> n));
        }
        prop_assert_eq!(l.s_ppm, r);
    }

    /// In any history: an admitted task leaves the expected load below R_hi; R_load is the mean of
    /// the samples; an exit never raises S_load and never lowers it below min(S_load, R_load); a
    /// revocation lowers R_load by no more than the task used.
    #[test]
    fn books_hold_through_any_history(events in prop::collection::vec(event(), 0..200)) {
        let mut l = Load::default();
        for e in events {
            let before = l;
            match e {
                Event::Ask(bw) => if l.fits(bw, R_HI) {
                    l.launch(bw);
                    prop_assert!(l.expected() < R_HI);
                }
                Event::Sample(used) => {
                    l.sample(used, SEC);
                    let floor = l.r_ppm.max(used * PPM / SEC);
                    prop_assert!(l.s_ppm >= floor, "what was measured is expected again");
                    prop_assert!(l.s_ppm <= floor.max(before.s_ppm), "nothing but a launch or a measurement raises it");
                }
                Event::Leave(bw, age) => {
                    l.leave(bw, age);
                    prop_assert!(l.s_ppm <= before.s_ppm);
                    prop_assert!(l.s_ppm >= before.s_ppm.min(before.r_ppm));
                }
                Event::Forget(part) => {
                    l.forget(part);
                    prop_assert!(l.r_ppm <= before.r_ppm && before.r_ppm - l.r_ppm <= part + 1);
                }
            }
            prop_assert_eq!(l.r_ppm, l.sample_ppm.iter().sum::<u64>() / SAMPLES as u64);
        }
    }

    /// Compares the ring of seconds with a list of everything that was added. Questions may be
    /// about the second before.
    #[test]
    fn usage_is_the_naive_sum(
        steps in prop::collection::vec((0u64..7, 0..=SEC, any::<bool>()), 1..60),
    ) {
        let mut u = Usage::default();
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut second = 1_000;
        for (gap, ns, stale) in steps {
            second += gap;
            u.add(second, ns);
            all.push((second, ns));
            if stale {
                u.ppm(second - 1);
            }
            let sum: u64 = all.iter().filter(|a| a.0 + SAMPLES as u64 > second).map(|a| a.1).sum();
            prop_assert_eq!(u.ppm(second), sum * PPM / (SAMPLES as u64 * SEC));
        }
    }
}
