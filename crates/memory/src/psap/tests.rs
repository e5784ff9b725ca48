//! The theorems of the division, against a model of the kernel's own rule; and the three scenarios
//! of Kato section 6.4.

use super::*;
use proptest::prelude::*;

const MB: u64 = 1 << 20;

/// effective_protection() of `mm/page_counter.c`: what reclaim leaves of a cgroup that uses `usage`
/// and has the memory.min `setting`, below a cgroup that uses `parent_usage` and is left
/// `parent_effective` of it. `siblings_protected`: the sum of min(usage, memory.min) there.
fn effective(
    usage: u64,
    parent_usage: u64,
    setting: u64,
    parent_effective: u64,
    siblings_protected: u64,
    recursive: bool,
) -> u64 {
    let protected = usage.min(setting);
    let times = |a: u64, b: u64, by: u64| (u128::from(a) * u128::from(b) / u128::from(by)) as u64;
    let effective = match siblings_protected > parent_effective {
        true => times(protected, parent_effective, siblings_protected),
        false => protected,
    };
    if !recursive
        || parent_effective <= siblings_protected
        || parent_usage <= siblings_protected
        || usage <= protected
    {
        return effective;
    }
    let unclaimed = parent_effective - siblings_protected;
    effective
        + times(
            unclaimed,
            usage - protected,
            parent_usage - siblings_protected,
        )
}

fn bytes(limit: Limit) -> u64 {
    match limit {
        Limit::Bytes(Bytes(n)) => n,
        Limit::Max => u64::MAX,
    }
}

/// What the kernel leaves of each member that uses `usages` now.
fn left(division: &Division, usages: &[u64], recursive: bool) -> Vec<u64> {
    let parent_usage = usages.iter().sum();
    let parent = bytes(division.total).min(parent_usage);
    let settings = division.amounts.iter().map(|a| bytes(*a));
    let protected = settings.clone().zip(usages).map(|(s, u)| s.min(*u)).sum();
    settings
        .zip(usages)
        .map(|(s, u)| effective(*u, parent_usage, s, parent, protected, recursive))
        .collect()
}

fn member(private: u64, usage: u64, wanted: Limit) -> Member {
    Member {
        private: Bytes(private),
        usage: Bytes(usage),
        wanted,
    }
}

/// A member that used all its memory within pi.
fn young(private: u64, usage: u64) -> Member {
    member(private, usage, Limit::Max)
}

fn amount(n: u64) -> Limit {
    Limit::Bytes(Bytes(n))
}

fn wanted() -> impl Strategy<Value = Limit> {
    prop_oneof![
        Just(Limit::Max),
        Just(Limit::ZERO),
        (0u64..1000).prop_map(|mb| amount(mb * MB))
    ]
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    let one = (0u64..300, 0u64..1000, wanted());
    let one = one.prop_map(|(private, usage, wanted)| member(private * MB, usage * MB, wanted));
    proptest::collection::vec(one, 1..8)
}

/// The spare amount of a tree that is mounted with memory_recursiveprot.
fn spare() -> impl Strategy<Value = Option<Bytes>> {
    proptest::option::of((0u64..100).prop_map(|mb| Bytes(mb * MB)))
}

/// What the members use later.
fn later() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec((0u64..2000).prop_map(|mb| mb * MB), 8)
}

fn reserved(members: &[Member]) -> u64 {
    members.iter().map(|m| m.private.0).sum()
}

proptest! {
    /// Theorem 1: whatever the members use later, each keeps its private reserve, as far as it uses
    /// it, if the private reserves were admitted.
    #[test]
    fn a_private_reserve_is_never_taken(
        members in members(), above in 0u64..2000, spare in spare(), later in later(),
    ) {
        let most = reserved(&members) + above * MB;
        let division = divide(amount(most), spare, &members);
        let later = &later[..members.len()];
        let kept = left(&division, later, spare.is_some());
        for ((member, usage), kept) in members.iter().zip(later).zip(kept) {
            let due = member.private.0.min(*usage);
            // The kernel rounds down in each step.
            let any = reserved(&members) > 0;
            prop_assert!(!any || kept + 8 >= due, "{kept} of {due}: {division:?}");
        }
    }

    /// Theorem 2: best-effort work keeps what is above the cap, also when members grow.
    #[test]
    fn no_more_than_the_cap_is_protected(
        members in members(), most in 0u64..3000, spare in spare(), later in later(),
    ) {
        let division = divide(amount(most * MB), spare, &members);
        prop_assert!(bytes(division.total) <= most * MB);
        let kept = left(&division, &later[..members.len()], spare.is_some());
        prop_assert!(kept.iter().sum::<u64>() <= most * MB);
    }

    /// Theorem 3: if all fits, each member has all that it is to be protected for. Where the kernel
    /// shares what is unclaimed, expired pages have a bounded part of it: the spare amount, and
    /// what the members do not use of their private reserves and of their headroom.
    #[test]
    fn what_fits_is_given(members in members(), spare in spare()) {
        let division = divide(amount(1 << 40), spare, &members);
        let usages: Vec<u64> = members.iter().map(|m| m.usage.0).collect();
        let kept = left(&division, &usages, spare.is_some());
        let (mut expired, mut unused) = (0, spare.unwrap_or_default().0);
        for (member, kept) in members.iter().zip(kept) {
            let due = bytes(member.target()).min(member.usage.0);
            prop_assert!(kept + 8 >= due, "{kept} of {due}: {division:?}");
            expired += kept.saturating_sub(due);
            let claim = match member.wanted {
                Limit::Max => member.private.0.max(member.usage.0) + headroom(member.usage).0,
                Limit::Bytes(_) => bytes(member.target()),
            };
            unused += claim.saturating_sub(member.usage.0);
        }
        prop_assert!(expired <= if spare.is_some() { unused } else { 0 }, "{division:?}");
    }

    /// Theorem 4: the shared reserve grows by what a member draws, up to the cap, and shrinks by
    /// what it frees.
    #[test]
    fn the_shared_reserve_follows_the_draws(
        members in members(), grows in 1u64..500, most in 0u64..5000, spare in spare(),
    ) {
        let drawn = |more: u64| {
            let mut members = members.clone();
            for member in &mut members {
                let young = bytes(member.wanted).min(member.usage.0);
                member.wanted = amount(young);
            }
            members[0].usage = Bytes(members[0].private.0 + more * MB);
            members[0].wanted = amount(members[0].usage.0);
            let all: u64 = members.iter().map(Member::draw).sum();
            let division = divide(amount(most * MB), spare, &members);
            (all, bytes(division.total))
        };
        let ((drawn_before, before), (drawn_after, after)) = (drawn(1), drawn(1 + grows));
        prop_assert_eq!(drawn_after - drawn_before, grows * MB);
        // At the cap, rounding may leave a unit for each member.
        prop_assert!(before <= after + 8 * UNIT && after <= most * MB);
        if after + 9 * UNIT < most * MB {
            prop_assert_eq!(after - before, grows * MB);
        }
    }
}

#[test]
fn without_private_reserves_and_contention_nothing_changes() {
    let members = [young(0, 40), member(0, 100, amount(72))];
    let division = divide(Limit::Max, None, &members);
    assert_eq!(division.amounts, [Limit::Max, amount(72)]);
    assert_eq!(division.total, Limit::Max);
    let capped = divide(amount(50), None, &members);
    assert_eq!(capped.amounts, division.amounts, "the kernel divides");
    assert_eq!(capped.total, amount(50));
    let idle = [member(0, 7, Limit::ZERO)];
    for members in [&idle[..], &[]] {
        let division = divide(amount(9), Some(Bytes(5)), members);
        assert_eq!(division.total, Limit::ZERO, "no spare for what is idle");
    }
}

#[test]
fn the_kernels_rule_alone_would_take_from_private_reserves() {
    // The reason for all this: a program of 40 with 32 of its own, beside one that uses 400.
    let plain = Division {
        amounts: vec![Limit::Max, Limit::Max],
        total: amount(300),
    };
    assert!(left(&plain, &[40, 400], true)[0] < 32);
    let division = divide(amount(300), Some(Bytes(0)), &[young(32, 40), young(0, 400)]);
    assert!(left(&division, &[40, 400], true)[0] >= 32);
}

#[test]
fn the_floor_is_a_part_of_memory() {
    assert_eq!(floor(Bytes(2 << 30)), Bytes(858_994));
    assert_eq!(floor(Bytes(1)), Bytes(1));
}

/// Kato 6.4, first scenario: the shared reserve expands when the anonymous block has no free page.
/// Then only best-effort pages can be taken.
#[test]
fn scenario_1_the_shared_reserve_expands_at_best_effort_works_cost() {
    let memory = 768 * MB;
    let most = memory - floor(Bytes(memory)).0;
    let before = [young(32 * MB, 20 * MB), young(32 * MB, 30 * MB)];
    let after = [young(32 * MB, 120 * MB), young(32 * MB, 30 * MB)];
    let mut best_effort = Vec::new();
    for members in [before, after] {
        let division = divide(amount(most), None, &members);
        let usages = members.map(|m| m.usage.0);
        assert_eq!(left(&division, &usages, false), usages, "nothing of theirs");
        best_effort.push(memory - usages.iter().sum::<u64>());
    }
    assert_eq!(
        best_effort[0] - best_effort[1],
        100 * MB,
        "it grows by as much"
    );
}

/// Second scenario: private and shared reserve are filled. The program that wants more loses its
/// own oldest pages, first the expired ones, and no other program loses any of its private reserve.
#[test]
fn scenario_2_who_exceeds_all_reserves_reclaims_its_own() {
    let most = 100 * MB;
    // It uses 200 MB, of which 60 are expired; the other one is within its private reserve.
    let greedy = member(32 * MB, 200 * MB, amount(140 * MB));
    let modest = young(32 * MB, 30 * MB);
    for spare in [None, Some(Bytes(8 * MB))] {
        let division = divide(amount(most), spare, &[greedy, modest]);
        let kept = left(&division, &[200 * MB, 30 * MB], spare.is_some());
        assert_eq!(kept[1], 30 * MB);
        assert!(kept[0] >= 60 * MB && kept[0] <= 70 * MB, "{kept:?}");
    }
}

/// Third scenario: a program creates its private reserve when there is no free page and the shared
/// reserve is too small. What others have drawn makes way, down to their private reserves. A
/// reserve for which that is not enough is refused.
#[test]
fn scenario_3_a_new_private_reserve_goes_before_others_draws() {
    let most = 100 * MB;
    let old = young(20 * MB, 110 * MB);
    let alone = divide(amount(most), None, &[old]);
    assert_eq!(left(&alone, &[110 * MB], false), [100 * MB], "all is drawn");
    assert_eq!(admit(Bytes(60 * MB), old.private, Bytes(most)), Ok(()));
    let new = young(60 * MB, 0);
    let division = divide(amount(most), None, &[old, new]);
    for used in [10 * MB, 60 * MB] {
        let kept = left(&division, &[110 * MB, used], false);
        assert_eq!(kept[1], used, "while it is filled");
        assert!(kept[0] >= 20 * MB);
    }
    let refused = admit(Bytes(81 * MB), old.private, Bytes(most)).unwrap_err();
    assert_eq!((refused.taken.0, refused.most.0), (20 * MB, most));
    assert!(admit(Bytes(u64::MAX), Bytes(1), Bytes(u64::MAX)).is_err());
}
