//! `codel.h`: packets of a queue that stays long are dropped.

/// For how long a packet may wait, ns (`CODEL_TARGET_NS`).
pub const TARGET_NS: u64 = 5_000_000;
/// The longest round trip in use, ns (`CODEL_INTERVAL_NS`).
pub const INTERVAL_NS: u64 = 100_000_000;

/// A queue (`struct codel`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codel {
    /// Since when packets wait too long, plus an interval, ns; 0: they do not.
    pub above: u64,
    /// When the next drop is due, ns.
    pub next: u64,
    /// Of drops since it is dropping.
    pub count: u32,
    /// `count` when it last began.
    pub entry: u32,
    /// 1 / sqrt(count), in 1/2^32.
    pub inverse: u32,
    /// 1: it is dropping.
    pub is_dropping: u32,
}

extern "C" {
    fn policy_codel_drops(
        c: *mut Codel,
        waited: u64,
        now: u64,
        target: u64,
        is_short: bool,
    ) -> bool;
}

impl Codel {
    /// Is the packet that leaves at `now`, ns, after it waited for `waited` ns, to be dropped?
    /// `is_short`: no packet waits behind it.
    pub fn drops(&mut self, waited: u64, now: u64, is_short: bool) -> bool {
        // SAFETY: it accesses only *self, whose layout a test compares
        unsafe { policy_codel_drops(self, waited, now, TARGET_NS, is_short) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{assert_layout, MS, SEC, US};

    /// A packet each ms, each of which waited for `waited`: when drops come, ns.
    fn drops(codel: &mut Codel, from: u64, until: u64, waited: u64) -> Vec<u64> {
        let packets = (from..until).step_by(MS as usize);
        packets
            .filter(|now| codel.drops(waited, *now, false))
            .collect()
    }

    #[test]
    fn the_layout_is_the_headers() {
        assert_layout!(
            policy_layout_codel,
            Codel,
            above,
            next,
            count,
            entry,
            inverse,
            is_dropping
        );
    }

    #[test]
    fn a_burst_and_a_short_queue_lose_nothing() {
        let mut c = Codel::default();
        assert!(
            drops(&mut c, SEC, SEC + 99 * MS, 50 * MS).is_empty(),
            "a burst"
        );
        assert!(!c.drops(MS, SEC + 99 * MS, false), "it is over");
        assert!(drops(&mut c, SEC + 100 * MS, SEC + 199 * MS, 50 * MS).is_empty());
        let mut c = Codel::default();
        for now in (SEC..10 * SEC).step_by(MS as usize) {
            assert!(!c.drops(SEC, now, true), "one packet is no queue");
        }
    }

    /// RFC 8289, 5.3: the first drop after an interval, the next ones interval / sqrt(n) later.
    #[test]
    fn a_standing_queue_loses_ever_more() {
        let mut c = Codel::default();
        let at = drops(&mut c, SEC, 6 * SEC, 20 * MS);
        assert_eq!(at[0], SEC + INTERVAL_NS);
        for (n, pair) in at.windows(2).enumerate().take(50) {
            let right = INTERVAL_NS as f64 / ((n + 1) as f64).sqrt();
            let off = (pair[1] - pair[0]) as f64 - right;
            assert!(off.abs() < 0.06 * right + 2e6, "drop {n}: {off} ns off");
        }
    }

    #[test]
    fn it_ends_at_once_and_goes_on_where_it_was() {
        let mut c = Codel::default();
        let many = drops(&mut c, SEC, 4 * SEC, 20 * MS).len();
        assert!(!c.drops(4 * MS, 4 * SEC, false));
        assert_eq!(c.is_dropping, 0);
        // long again soon: as many drops in a second as before, not as in the first second
        let again = drops(&mut c, 4 * SEC + MS, 5 * SEC, 20 * MS).len();
        let mut new = Codel::default();
        let first = drops(&mut new, SEC, 2 * SEC, 20 * MS).len();
        assert!(again > first, "{again} beside {first}, {many} before");
        // after 16 intervals it begins anew
        assert!(!c.drops(0, 5 * SEC, false));
        let later = drops(&mut c, 8 * SEC, 9 * SEC, 20 * MS).len();
        assert_eq!(later, first);
    }

    proptest::proptest! {
        /// Whatever waits, drops are apart by the law: never two within 20 us of each other in
        /// the first million drops.
        #[test]
        fn drops_are_apart(waits in proptest::collection::vec(0..40 * MS, 1..2000)) {
            let mut c = Codel::default();
            let mut last = None;
            for (i, waited) in waits.iter().enumerate() {
                let now = SEC + i as u64 * 100 * US;
                if c.drops(*waited, now, false) {
                    if let Some(last) = last {
                        proptest::prop_assert!(now - last >= 100 * US);
                    }
                    last = Some(now);
                    proptest::prop_assert!(c.count >= 1 && c.inverse > 0);
                }
            }
        }
    }
}
