//! The theorems of demotion as properties.

use super::*;
use proptest::prelude::*;

const CAPS: Caps = Caps {
    all: Bytes(800),
    user: Bytes(500),
};

fn program(name: &str, uid: u32, demand: u64) -> Program {
    Program {
        domain: format!("aplomb/{uid}/{name}").parse().unwrap(),
        uid,
        demand: Bytes(demand),
        spared: false,
    }
}

fn names(demotions: &[Demotion]) -> Vec<&str> {
    demotions.iter().map(|d| d.domain.name()).collect()
}

#[test]
fn the_bomb_goes_before_the_editor() {
    let all = [program("editor", 0, 80), program("bomb", 0, 750)];
    let demotions = demote(&all, CAPS);
    assert_eq!(names(&demotions), ["bomb"]);
    let why = &demotions[0];
    assert_eq!(
        (why.demand, why.total, why.limit),
        (Bytes(750), Bytes(830), CAPS.all)
    );
    assert_eq!(demote(&all[..1], CAPS), []);
}

#[test]
fn a_user_above_its_cap_pays_for_itself() {
    let all = [
        program("film", 1, 300),
        program("x", 2, 260),
        program("y", 2, 250),
        program("of-root", 0, 700),
    ];
    // The user's own excess first; then root demands the most.
    let demotions = demote(&all, CAPS);
    assert_eq!(names(&demotions), ["x", "of-root"]);
    assert_eq!(
        (demotions[0].total, demotions[0].limit),
        (Bytes(510), CAPS.user)
    );
}

#[test]
fn who_comes_back_is_not_demoted_again() {
    let film = [program("film", 1, 300)];
    let gone = [program("large", 1, 400), program("small", 1, 130)];
    let back = promote(&film, &gone, CAPS).unwrap();
    assert_eq!(back.domain.name(), "small");
    assert_eq!(promote(&film, &gone[..1], CAPS), None);
}

fn programs() -> impl Strategy<Value = Vec<Program>> {
    let one = (0u32..4, 0u64..400, prop::bool::weighted(0.2));
    prop::collection::vec(one, 0..12).prop_map(|all| {
        let numbered = all.into_iter().enumerate();
        let program = |(n, (uid, demand, spared)): (usize, _)| Program {
            spared,
            ..program(&n.to_string(), uid, demand)
        };
        numbered.map(program).collect()
    })
}

proptest! {
    /// What is left fits, or only spared programs are left where it does not.
    #[test]
    fn what_is_left_fits(all in programs()) {
        let gone = demote(&all, CAPS);
        let left: Vec<Program> = all.iter().filter(|p| gone.iter().all(|d| d.domain != p.domain)).cloned().collect();
        prop_assert_eq!(demote(&left, CAPS), []);
        let totals = Totals::of(&left);
        for p in left.iter().filter(|p| !p.spared) {
            prop_assert!(totals.all <= 800 && (p.uid == 0 || totals.of_user(p.uid) <= 500));
        }
        // No demotion without need: the last one was still above its limit.
        if let Some(last) = gone.last() {
            prop_assert!(last.total > last.limit);
        }
    }

    /// No user loses a program to one that demands more.
    #[test]
    fn a_user_within_an_even_share_loses_nothing(mut all in programs()) {
        all.iter_mut().for_each(|p| p.spared = false);
        let totals = Totals::of(&all);
        let share = 500.min(800 / totals.users.len().max(1) as u128);
        for d in demote(&all, CAPS) {
            let victim = all.iter().find(|p| p.domain == d.domain).unwrap();
            prop_assert!(totals.of_user(victim.uid) > share);
        }
    }

    /// Of a user's programs the largest go.
    #[test]
    fn the_largest_go(all in programs()) {
        let gone = demote(&all, CAPS);
        let is_gone = |p: &Program| gone.iter().any(|d| d.domain == p.domain);
        for victim in all.iter().filter(|p| is_gone(p)) {
            prop_assert!(!victim.spared);
            let kept = all.iter().filter(|p| p.uid == victim.uid && !p.spared && !is_gone(p));
            prop_assert!(kept.clone().all(|p| p.demand <= victim.demand));
        }
    }

    /// A program that comes back does not make another one go.
    #[test]
    fn a_return_demotes_nobody(all in programs(), back in programs()) {
        if let Some(p) = promote(&all, &back, CAPS) {
            let mut now = all.clone();
            now.push(p.clone());
            prop_assert_eq!(demote(&now, CAPS), demote(&all, CAPS));
        }
    }
}
