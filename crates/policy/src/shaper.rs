//! `shaper.h`: packets leave no faster than a rate.

/// Credit of a link that was idle, ns (`SHAPER_BURST_NS`).
pub const BURST_NS: u64 = 1_000_000;

/// A link (`struct shaper`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shaper {
    /// Bytes a second; 0: no bound.
    pub rate: u64,
    /// Of each frame, bytes.
    pub overhead: u32,
    /// When the next packet may leave, ns.
    pub next: u64,
}

extern "C" {
    fn policy_shaper_is_open(s: *const Shaper, now: u64) -> bool;
    fn policy_shaper_sent(s: *mut Shaper, bytes: u32, now: u64);
}

// SAFETY, for both: they access only *self, whose layout a test compares.
impl Shaper {
    /// May a packet leave at `now`, ns?
    pub fn is_open(&self, now: u64) -> bool {
        unsafe { policy_shaper_is_open(self, now) }
    }

    /// A packet of `bytes` leaves at `now`, ns.
    pub fn sent(&mut self, bytes: u32, now: u64) {
        unsafe { policy_shaper_sent(self, bytes, now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{assert_layout, SEC};
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_the_headers() {
        assert_layout!(policy_layout_shaper, Shaper, rate, overhead, next);
    }

    #[test]
    fn without_a_rate_it_is_always_open() {
        let mut s = Shaper::default();
        s.sent(65_000, SEC);
        assert!(s.is_open(SEC));
    }

    #[test]
    fn frames_have_an_overhead_each() {
        let time = |overhead, bytes| {
            let mut s = Shaper {
                rate: 1_000_000,
                overhead,
                next: SEC,
            };
            s.sent(bytes, SEC);
            s.next - SEC
        };
        assert_eq!(time(0, 1000), 1_000_000);
        assert_eq!(time(26, 1000), 1_026_000);
        assert_eq!(time(26, 1514), 1_540_000);
        assert_eq!(time(26, 1515), 1_567_000);
        assert_eq!(time(26, 0), 0);
    }

    proptest! {
        /// In any interval at most rate * (t + burst) and one packet leave; and a link that always
        /// has a packet loses no time, if timers are late by less than the burst.
        #[test]
        fn the_rate_is_kept(
            rate in 1_000..2_000_000_000u64,
            packets in prop::collection::vec((1..65_536u32, 0..BURST_NS, 0..5u8), 2..200),
        ) {
            let mut s = Shaper { rate, overhead: 0, next: SEC };
            let mut now = SEC;
            let mut sent: Vec<(u64, u64)> = Vec::new(); // when, bytes
            let mut idle = false;
            for (bytes, late, rest) in packets {
                // the timer is late; a packet behind one that was late goes at once
                if now < s.next {
                    now = s.next + late;
                }
                if rest == 0 {
                    now += SEC;
                    idle = true;
                }
                prop_assert!(s.is_open(now));
                s.sent(bytes, now);
                sent.push((now, bytes.into()));
            }
            for (i, (from, _)) in sent.iter().enumerate() {
                let mut all = 0;
                for (at, bytes) in &sent[i..] {
                    // without the last packet, which is on its way
                    let most = u128::from(rate) * u128::from(at - from + BURST_NS) / 1_000_000_000;
                    prop_assert!(u128::from(all) <= most + sent.len() as u128, "{all} of {most}");
                    all += bytes;
                }
            }
            if !idle {
                let bytes: u64 = sent.iter().map(|(_, b)| b).sum();
                let right = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
                let took = u128::from(s.next - SEC);
                prop_assert!(took <= right + u128::from(BURST_NS), "{took} of {right}");
            }
        }
    }
}
