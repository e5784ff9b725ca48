//! The order in which processes die, by the kernel's rule.

use proptest::prelude::*;

use super::*;

const MB: u64 = 1 << 20;
const PAGE: Bytes = Bytes(4096);

fn mb(n: u64) -> Bytes {
    Bytes(n * MB)
}

fn process(uid: u32, size: Bytes, base: i16) -> Process {
    Process { uid, size, base }
}

/// 80 % and 50 %, as by default.
fn caps(total: Bytes) -> Caps {
    Caps {
        all: Bytes(total.0 / 10 * 8),
        user: Bytes(total.0 / 2),
    }
}

/// Badness of each process, after `adjust`.
fn scores(processes: &[Process], caps: Caps, unit: Bytes) -> Vec<i64> {
    let adjusted = adjust(processes, caps, unit);
    let each = processes.iter().zip(adjusted);
    each.map(|(p, adj)| badness(p.size, adj, unit)).collect()
}

#[test]
fn an_interactive_process_dies_after_smaller_best_effort_ones() {
    let total = mb(768);
    let unit = unit(total, PAGE);
    assert_eq!(unit, Bytes(196 * 4096));
    let player = process(1000, mb(200), 0);
    assert_eq!(adjust(&[player], caps(total), unit), [-272]);
    assert!(scores(&[player], caps(total), unit)[0] < badness(mb(0), 0, unit));
}

#[test]
fn a_hog_dies_by_what_it_has_beyond_its_users_cap() {
    let total = mb(1000);
    let unit = unit(total, PAGE);
    let hog = process(1000, mb(550), 0);
    let modest = badness(mb(40), 0, unit);
    assert!(scores(&[hog], caps(total), unit)[0] > modest);
    // The same in four processes: the worst has a quarter of what is too much.
    let quarter = process(1000, mb(150), 0);
    let worst = scores(&[quarter; 4], caps(total), unit).into_iter().max();
    assert!(worst >= Some(25 * MB as i64));
    // A small program of the same user stays, and other users' are not concerned.
    let all = [hog, process(1000, mb(30), 0), process(1001, mb(200), 0)];
    let scores = scores(&all, caps(total), unit);
    assert!(
        scores[0] > modest && scores[1] < 0 && scores[2] < 0,
        "{scores:?}"
    );
}

#[test]
fn what_was_set_by_others_stays() {
    let unit = unit(mb(1000), PAGE);
    let own = [-1000, -999, -990, 200, 1000].map(|base| process(0, mb(100), base));
    let adjusted = adjust(&own, caps(mb(1000)), unit);
    assert_eq!(adjusted[..3], [-1000, -999, -999]);
    assert!(adjusted[3] < 100 && adjusted[4] < 900, "{adjusted:?}");
    assert_eq!(adjust(&own[3..4], caps(mb(1000)), Bytes(0)), [200]);
    assert!(adjust(&[], caps(mb(1000)), unit).is_empty());
}

#[test]
fn the_largest_bear_what_is_missing() {
    assert_eq!(share(100, &[10, 90, 50]), [10, 45, 45]);
    assert_eq!(share(100, &[10, 20, 30]), [10, 20, 30]);
    assert_eq!(share(2, &[1, 1, 1]), [0, 1, 1]);
    assert_eq!(share(0, &[5]), [0]);
    assert!(share(5, &[]).is_empty());
}

prop_compose! {
    fn any_process()(uid in 0..4u32, size in 0..40_000u64, base in -1000..=1000i16) -> Process {
        process(uid, mb(size), base)
    }
}

prop_compose! {
    fn machine()(total in 64..100_000u64, all in 0..=100u64, user in 0..=100u64) -> (Bytes, Caps) {
        let part = |percent| Bytes(total * MB / 100 * percent);
        (unit(mb(total), PAGE), Caps { all: part(all), user: part(user) })
    }
}

proptest! {
    /// Theorem: no user's discounts exceed the user's cap, and all of them not the cap of all.
    #[test]
    fn discounts_are_capped(
        processes in prop::collection::vec(any_process(), 0..30),
        (unit, caps) in machine(),
    ) {
        let adjusted = adjust(&processes, caps, unit);
        let discount = |uid: Option<u32>| -> u64 {
            let each = processes.iter().zip(&adjusted).filter(|(p, _)| uid.is_none_or(|u| p.uid == u));
            each.map(|(p, &adj)| u64::from(p.base.abs_diff(adj)) * unit.0).sum()
        };
        for uid in 1..4 {
            prop_assert!(discount(Some(uid)) <= caps.user.0);
        }
        prop_assert!(discount(None) <= caps.all.0);
        for (p, adj) in processes.iter().zip(adjusted) {
            prop_assert!(adj <= p.base && (adj > NEVER || p.base == NEVER));
        }
    }

    /// Theorem: if all interactive processes fit into the caps, every best-effort process of the
    /// same base dies before each of them, whatever their sizes.
    #[test]
    fn best_effort_dies_first(
        sizes in prop::collection::vec((1..4u32, 0..400u64), 1..10),
        other in 0..u64::from(u32::MAX),
        base in -100..=800i16,
    ) {
        let total = mb(30_000);
        let unit = unit(total, PAGE);
        let processes: Vec<_> = sizes.iter().map(|&(uid, n)| process(uid, mb(n), base)).collect();
        for score in scores(&processes, caps(total), unit) {
            prop_assert!(score < badness(Bytes(other), base, unit));
        }
    }

    /// Theorem: if a user's n processes have y bytes more than the cap together, the worst of them
    /// dies before a best-effort process of y / n bytes.
    #[test]
    fn a_user_gains_no_more_than_the_cap(
        sizes in prop::collection::vec(0..4000u64, 1..20),
        others in prop::collection::vec((2..5u32, 0..4000u64), 0..8),
        (unit, caps) in machine(),
    ) {
        let hostile = sizes.iter().map(|&n| process(1, mb(n), 0));
        let others = others.iter().map(|&(uid, n)| process(uid, mb(n), 0));
        let all: Vec<_> = hostile.chain(others).collect();
        let scores = scores(&all, caps, unit);
        let worst = scores[..sizes.len()].iter().max().copied().unwrap_or(i64::MIN);
        let sum: u64 = sizes.iter().map(|n| n * MB).sum();
        if sum > caps.user.0 {
            let beyond = (sum - caps.user.0) / sizes.len() as u64;
            prop_assert!(worst >= beyond as i64, "{worst} {beyond}");
        }
    }

    /// Theorem: of two processes of one user and base, the smaller one never dies first because of
    /// the cap: it lacks no more than the larger one.
    #[test]
    fn the_largest_of_a_user_goes_first(
        sizes in prop::collection::vec(0..4000u64, 2..20),
        (unit, caps) in machine(),
    ) {
        let processes: Vec<_> = sizes.iter().map(|&n| process(1, mb(n), 0)).collect();
        let adjusted = adjust(&processes, caps, unit);
        let lacks: Vec<u64> = processes.iter().zip(&adjusted).map(|(p, adj)| {
            let wanted = (p.size.0 + HEADROOM.0).div_ceil(unit.0).min(999);
            wanted - u64::from(adj.unsigned_abs())
        }).collect();
        for (a, b) in (0..sizes.len()).flat_map(|a| (0..sizes.len()).map(move |b| (a, b))) {
            if sizes[a] >= sizes[b] {
                prop_assert!(lacks[a] + 1 >= lacks[b], "{adjusted:?}"); // one unit by rounding
            }
        }
    }

    #[test]
    fn shares_are_fair(budget in 0..10_000u64, wants in prop::collection::vec(0..5000u64, 0..20)) {
        let grants = share(budget, &wants);
        let sum: u64 = grants.iter().sum();
        prop_assert!(sum <= budget);
        prop_assert!(grants.iter().zip(&wants).all(|(g, w)| g <= w));
        // What is left over is less than one for each that got less than it wanted.
        let short = grants.iter().zip(&wants).filter(|(g, w)| g < w).count() as u64;
        prop_assert!(short == 0 || budget - sum < wants.len() as u64);
        let least = grants.iter().zip(&wants).filter(|(g, w)| g < w).map(|(g, _)| *g).min();
        for g in grants.iter() {
            prop_assert!(least.is_none_or(|least| *g <= least + 1));
        }
    }
}
