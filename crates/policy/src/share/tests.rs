//! Shares: their sum, the reservations, the order by weight; and that the policies give members
//! their shares.

use proptest::prelude::*;

use super::{fits, Due, LIMIT, UNIT};
use crate::mtr::tests::Mtr;
use crate::node::{Machine, Member, Order};
use crate::sfq::tests::Sfq;
use crate::wrr::tests::Wrr;
use crate::{PPM, SEC};

/// Members given as (reservation in ppm of the machine, weight), of a parent with `parent` ppm.
fn siblings(parent: u32, members: &[(u32, u32)]) -> Vec<Due> {
    let due = |&(reserved, weight): &(u32, u32)| Due {
        reserved,
        reserved_sum: members.iter().map(|m| m.0).sum(),
        parent,
        weight,
        weight_sum: members.iter().map(|m| u64::from(m.1)).sum(),
    };
    members.iter().map(due).collect()
}

/// a_i, as the paper defines it.
fn exact(due: &Due) -> f64 {
    let whole = f64::from(if due.parent == 0 {
        PPM as u32
    } else {
        due.parent
    });
    let free = 1.0 - f64::from(due.reserved_sum) / whole;
    f64::from(due.reserved) / whole + free * f64::from(due.weight) / due.weight_sum as f64
}

/// Each member's part of the sum of all weights.
fn by_weight(dues: &[Due]) -> Vec<f64> {
    let sum: f64 = dues.iter().map(|d| f64::from(d.weight())).sum();
    dues.iter().map(|d| f64::from(d.weight()) / sum).collect()
}

#[test]
fn constants_are_the_headers() {
    extern "C" {
        static policy_share_limit_ppm: u64;
        static policy_share_unit: u64;
    }
    // SAFETY: constants of shim_tree.c.
    assert_eq!(
        unsafe { (policy_share_limit_ppm, policy_share_unit) },
        (LIMIT, UNIT.into())
    );
}

/// Eclipse, section 6: one member with a reservation of 30 % and two without; then the same in a
/// parent with half of the machine.
#[test]
fn the_unreserved_part_is_split() {
    let ppm = |dues: Vec<Due>| dues.iter().map(Due::ppm).collect::<Vec<_>>();
    assert_eq!(
        ppm(siblings(0, &[(300_000, 100), (0, 100), (0, 100)])),
        [533_333, 233_333, 233_333]
    );
    assert_eq!(
        ppm(siblings(500_000, &[(300_000, 100), (0, 300)])),
        [700_000, 300_000]
    );
    assert_eq!(ppm(siblings(0, &[(0, 100)])), [1_000_000]);
    // If more is reserved than the parent has, the shares are in proportion to the reservations.
    assert_eq!(
        ppm(siblings(
            200_000,
            &[(300_000, 100), (100_000, 100), (0, 100)]
        )),
        [750_000, 250_000, 1]
    );
}

/// cpu.weight is kept exactly, also with hundreds of members, and while members come and go.
#[test]
fn without_reservations_weights_are_themselves() {
    for (n, weight) in [(2, 1), (300, 1), (300, 100), (800, 10_000)] {
        let due = Due {
            reserved: 0,
            reserved_sum: 0,
            parent: 0,
            weight,
            weight_sum: n * 10_000,
        };
        assert_eq!(due.weight(), UNIT * weight);
        assert_eq!(
            Due {
                reserved_sum: 500_000,
                ..due
            }
            .weight(),
            UNIT * weight,
            "nor for others' reservations"
        );
    }
    assert_eq!(
        siblings(0, &[(0, 0)])[0].weight(),
        UNIT,
        "a weight of 0 is 1"
    );
}

/// If all of the parent's time is reserved, a thousandth is left to members without a reservation.
#[test]
fn all_is_reserved() {
    let dues = siblings(400_000, &[(300_000, 100), (100_000, 10_000), (0, 100)]);
    let parts = by_weight(&dues);
    assert!(
        parts[0] >= 0.75 * 0.998 && parts[1] >= 0.25 * 0.998,
        "{parts:?}"
    );
    assert!(parts[2] > 0.0 && parts[2] <= 0.001, "{parts:?}");
}

#[test]
fn admission() {
    assert!(fits(0, LIMIT, LIMIT) && fits(LIMIT - 5, 5, LIMIT) && fits(LIMIT, 0, LIMIT));
    assert!(!fits(0, LIMIT + 1, LIMIT) && !fits(LIMIT - 5, 6, LIMIT) && !fits(LIMIT + 1, 0, LIMIT));
    assert!(!fits(u64::MAX, u64::MAX, LIMIT) && !fits(1, u64::MAX, LIMIT));
}

/// Four domains that always run, two with a reservation: each policy gives them their shares.
#[test]
fn policies_give_what_is_due() {
    fn play<O: Order>(order: O, dues: &[Due]) -> Vec<f64> {
        let loops = dues
            .iter()
            .map(|d| Member::new((d.ppm().into(), PPM), vec![(SEC, 0)]));
        let mut machine = Machine::new(order, loops.collect());
        machine.run(100 * SEC);
        machine
            .members
            .iter()
            .map(|m| m.ran as f64 / (100 * SEC) as f64)
            .collect()
    }
    let dues = siblings(0, &[(600_000, 100), (0, 200), (0, 50), (100_000, 50)]);
    let weights: Vec<_> = dues.iter().map(Due::weight).collect();
    let shares: Vec<_> = dues.iter().map(|d| d.ppm().into()).collect();
    for got in [
        play(Sfq::new(&weights), &dues),
        play(Wrr::new(&shares), &dues),
        play(Mtr::new(&shares), &dues),
    ] {
        for (got, due) in got.iter().zip(&dues) {
            assert!((got - exact(due)).abs() < 0.005, "{got} of {}", exact(due));
        }
    }
}

/// A parent, and members that reserve at most `most` ppm of it together.
fn family(most: u32) -> impl Strategy<Value = Vec<Due>> {
    let parent = prop_oneof![Just(0u32), 1_000u32..=1_000_000];
    let weight = prop_oneof![1u32..=10_000, Just(100u32)];
    let member = (prop_oneof![Just(0u32), 1u32..1_000], weight);
    (parent, prop::collection::vec(member, 1..300), 0..=most).prop_map(
        |(parent, mut members, used)| {
            // Scale the reservations so that they add up to `used` ppm of the parent.
            let whole = if parent == 0 { PPM } else { u64::from(parent) };
            let sum: u64 = members.iter().map(|m| u64::from(m.0)).sum::<u64>().max(1);
            for m in &mut members {
                m.0 = (u64::from(m.0) * whole * u64::from(used) / PPM / sum) as u32;
            }
            siblings(parent, &members)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The shares add up to all of the parent's time, except for rounding. No share is less than
    /// its reservation.
    #[test]
    fn shares_add_up(dues in family(1_000_000)) {
        let shares: Vec<_> = dues.iter().map(Due::ppm).collect();
        let sum: u64 = shares.iter().copied().map(u64::from).sum();
        let raised = shares.iter().filter(|&&s| s == 1).count() as u64; // was below 1 ppm
        prop_assert!((999_000..=PPM + raised).contains(&sum), "{sum}");
        for (due, &share) in dues.iter().zip(&shares) {
            let whole = if due.parent == 0 { PPM } else { due.parent.into() };
            prop_assert!(u64::from(share) >= u64::from(due.reserved) * PPM / whole);
            prop_assert!(f64::from(share) <= exact(due) * PPM as f64 + 1.0);
        }
    }

    /// A greater weight never makes a share smaller, and neither does a greater reservation.
    #[test]
    fn monotone(dues in family(950_000), more in 1u32..10_000) {
        let due = dues[0];
        let heavier = Due { weight: due.weight + more, weight_sum: due.weight_sum + u64::from(more), ..due };
        prop_assert!(heavier.ppm() >= due.ppm());
        prop_assert!(heavier.weight() >= due.weight());
        let whole = if due.parent == 0 { PPM as u32 } else { due.parent };
        let more = more.min(whole.saturating_sub(due.reserved_sum));
        let reserves = Due { reserved: due.reserved + more, reserved_sum: due.reserved_sum + more, ..due };
        prop_assert!(reserves.ppm() + 2 >= due.ppm(), "{} {}", reserves.ppm(), due.ppm());
        prop_assert!(reserves.weight() >= due.weight());
    }

    /// Weights give the paper's shares to within 0.1 % and 1/64 of a weight of 1, if 5 % are left
    /// to members without a reservation.
    #[test]
    fn weights_are_exact(dues in family(950_000)) {
        let sum: f64 = dues.iter().map(|d| f64::from(d.weight())).sum();
        for due in &dues {
            let (got, exact) = (f64::from(due.weight()), exact(due) * sum);
            prop_assert!((got - exact).abs() <= exact * 0.001 + 1.0, "{got} {exact} {due:?}");
        }
    }

    /// Any numbers give a valid share and weight.
    #[test]
    fn no_number_is_too_large(
        reserved: u32,
        reserved_sum: u32,
        parent: u32,
        weight: u32,
        weight_sum: u64,
    ) {
        let due = Due { reserved, reserved_sum, parent, weight, weight_sum };
        prop_assert!((1..=PPM as u32).contains(&due.ppm()));
        prop_assert!(due.weight() >= 1);
    }
}
