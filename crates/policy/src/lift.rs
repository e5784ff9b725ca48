//! `lift.h`: how long a kernel thread counts for more than its nice value says.

/// CPU time of a window for which a thread is lifted, ns (`LIFT_NS`).
pub const LIFT_NS: u64 = 50_000_000;
/// Length of a window, ns (`LIFT_WINDOW_NS`).
pub const WINDOW_NS: u64 = 1_000_000_000;

/// What a kernel thread used in the current window (`struct lift`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lift {
    /// When the window began, ns; 0: none has.
    pub from: u64,
    /// CPU time in it, ns.
    pub used: u64,
}

extern "C" {
    fn policy_lifted(l: *const Lift, now: u64) -> bool;
    fn policy_lift_charge(l: *mut Lift, now: u64, ran: u64);
}

// SAFETY, for both: the C functions access only `*l`, whose layout the tests compare.
impl Lift {
    /// Is the thread lifted at `now`?
    pub fn lifted(&self, now: u64) -> bool {
        unsafe { policy_lifted(self, now) }
    }

    /// The thread ran for `ran` ns until `now`.
    pub fn charge(&mut self, now: u64, ran: u64) {
        unsafe { policy_lift_charge(self, now, ran) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{MS, SEC, US};

    #[test]
    fn layout() {
        crate::assert_layout!(policy_layout_lift, Lift, from, used);
    }

    #[test]
    fn seldom_work_is_lifted_whole() {
        let mut lift = Lift::default();
        for second in 1..10 {
            let mut now = second * SEC;
            for _ in 0..12 {
                assert!(lift.lifted(now));
                now += 4 * MS;
                lift.charge(now, 4 * MS);
            }
        }
    }

    #[test]
    fn a_window_begins_with_its_use() {
        let mut lift = Lift::default();
        lift.charge(5 * SEC, LIFT_NS);
        assert!(!lift.lifted(5 * SEC));
        assert!(!lift.lifted(6 * SEC - 1));
        assert!(lift.lifted(6 * SEC));
        lift.charge(8 * SEC, LIFT_NS - 1);
        assert!(lift.lifted(8 * SEC));
    }

    proptest! {
        /// In any window a thread is lifted for at most the rest of one lift, another one, and the
        /// last turn of each, however it runs and sleeps.
        #[test]
        fn the_lift_is_bounded(turns in prop::collection::vec((1u64..4000, 0u64..20_000), 1..400)) {
            let mut lift = Lift::default();
            let mut now = SEC;
            let mut had = Vec::new(); // end of a turn, its length
            for (ran, sleeps) in turns {
                let (ran, sleeps) = (ran * US, sleeps * US);
                let is = lift.lifted(now);
                now += ran;
                lift.charge(now, ran);
                if is {
                    had.push((now, ran));
                }
                now += sleeps;
            }
            for (end, _) in &had {
                let within = had.iter().filter(|(at, _)| *at <= *end && *at + WINDOW_NS > *end);
                let sum: u64 = within.map(|(_, ran)| ran).sum();
                prop_assert!(sum <= 2 * LIFT_NS + 2 * 4 * MS, "{sum} ns before {end}");
            }
        }
    }
}
