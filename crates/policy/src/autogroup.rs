//! `autogroup.h`: the weight that a task has in the crowd of its session.

extern "C" {
    fn policy_autogroup_weight(weight: u32, group: u32, crowd: u32, unit: u32) -> u32;
}

/// The weight, in 1/`unit` of sched_ext's (nice 0: 100), of a task of `weight`, in the same unit,
/// whose session has the weight `group`, and tasks that compete with the weights `crowd` in sum,
/// its own included, both in sched_ext's.
pub fn weight(weight: u32, group: u32, crowd: u32, unit: u32) -> u32 {
    // SAFETY: pure arithmetic on the arguments.
    unsafe { policy_autogroup_weight(weight, group, crowd, unit) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::fair::UNIT;

    /// A task's weight is in sched_ext's unit here.
    fn weight(weight: u32, group: u32, crowd: u32, unit: u32) -> u32 {
        super::weight(weight * unit, group, crowd, unit)
    }

    #[test]
    fn a_session_with_little_to_run_loses_nothing() {
        for (own, crowd) in [(100, 0), (100, 100), (15, 15), (15, 90), (8876, 8876)] {
            assert_eq!(
                weight(own, 100, crowd, UNIT),
                own * UNIT,
                "{own} of {crowd}"
            );
        }
    }

    #[test]
    fn sixteen_loops_weigh_what_one_does() {
        assert_eq!(16 * weight(100, 100, 1600, UNIT), 100 * UNIT);
    }

    #[test]
    fn the_autogroups_own_nice_value_counts() {
        assert_eq!(weight(100, 15, 100, UNIT), 15 * UNIT);
        assert_eq!(4 * weight(100, 15, 400, UNIT), 15 * UNIT);
        assert_eq!(4 * weight(100, 300, 400, UNIT), 300 * UNIT);
    }

    proptest! {
        /// A session weighs as much as nice 0 or its heaviest task, times its autogroup's weight.
        /// It weighs no less than one task of nice 0, if its tasks together weigh that.
        #[test]
        fn a_session_weighs_one_task(weights in prop::collection::vec(1u32..8877, 1..200), group in 1u32..8877) {
            let scaled = |w: u32| u64::from(w) * u64::from(UNIT) * u64::from(group) / 100;
            let crowd: u32 = weights.iter().sum();
            let each = weights.iter().map(|&w| u64::from(weight(w, group, crowd, UNIT)));
            let (together, rounding) = (each.sum::<u64>(), weights.len() as u64);
            let heaviest = *weights.iter().max().unwrap();
            prop_assert!(together <= scaled(heaviest.max(100)) + rounding);
            prop_assert!(together + rounding >= scaled(crowd.min(100)), "{together}");
        }

        /// A heavier task has no less, and a larger crowd leaves no more.
        #[test]
        fn order_is_kept(a in 1u32..8877, more in 0u32..1000, group in 1u32..8877, crowd in 0u32..1_000_000) {
            let crowd = crowd.max(a + more);
            prop_assert!(weight(a + more, group, crowd, UNIT) >= weight(a, group, crowd, UNIT));
            prop_assert!(weight(a, group, crowd + more, UNIT) <= weight(a, group, crowd, UNIT));
        }
    }
}
