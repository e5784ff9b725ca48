//! `capacity.h`: how much work a CPU does in a time, where CPUs differ.

/// The fastest CPU's capacity (`CAPACITY_FULL`).
pub const FULL: u32 = 1024;

extern "C" {
    fn policy_capacity_work(time: u64, capacity: u32) -> u64;
    fn policy_capacity_time(work: u64, capacity: u32) -> u64;
}

/// The work, ns, that a CPU with `capacity`, 1 to [`FULL`], does in `time` ns, below 2^54.
pub fn work(time: u64, capacity: u32) -> u64 {
    // SAFETY: pure
    unsafe { policy_capacity_work(time, capacity) }
}

/// The time, ns, that a CPU with `capacity`, 1 to [`FULL`], takes for `work` ns, below 2^53.
pub fn time(work: u64, capacity: u32) -> u64 {
    // SAFETY: pure
    unsafe { policy_capacity_time(work, capacity) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::MS;

    #[test]
    fn half_as_fast_takes_twice_as_long() {
        assert_eq!(time(5 * MS, FULL / 2), 10 * MS);
        assert_eq!(work(10 * MS, FULL / 2), 5 * MS);
        assert_eq!(time(7, FULL), 7);
        assert_eq!(time(1, 1_000), 2, "rounded up");
        assert_eq!(work(1, 1_000), 0, "rounded down");
    }

    proptest! {
        /// The time for some work is enough for it, and with 1 ns less it is not.
        #[test]
        fn time_is_enough_and_no_more(ns in 1u64..1 << 53, capacity in 1..=FULL) {
            let needed = time(ns, capacity);
            prop_assert!(work(needed, capacity) >= ns);
            prop_assert!(work(needed - 1, capacity) < ns);
        }

        /// What a CPU has room for, turned into work and back, still fits.
        #[test]
        fn what_fits_as_work_fits_as_time(room in 0u64..1 << 53, capacity in 1..=FULL) {
            prop_assert!(time(work(room, capacity), capacity) <= room);
        }
    }
}
