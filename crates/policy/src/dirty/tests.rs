//! Dirty limits: the length of a park, the estimate of the device, and a model of writers and a
//! device: the stock is bounded, and best-effort work loses no throughput.

use proptest::prelude::*;

use super::{limit, park, Rate, LEAST_NS, LONGEST_NS, RATE_NS};
use crate::{MS, SEC, US};

const LIMIT: u64 = 512; // 2 MB
const KERNELS_FIRST: u64 = 25_600; // 100 MB/s

#[test]
fn layout() {
    crate::assert_layout!(policy_layout_dirty_rate, Rate, at, written, rate);
}

#[test]
fn a_park_lasts_until_half_of_the_limit_is_left() {
    assert_eq!(park(LIMIT, LIMIT, 10_000), 0);
    assert_eq!(park(LIMIT + 44, LIMIT, 10_000), 30 * MS);
    assert_eq!(park(LIMIT + 1, LIMIT, 10_000_000), LEAST_NS);
    assert_eq!(park(LIMIT + 1000, LIMIT, 10_000), LONGEST_NS);
    assert_eq!(park(LIMIT + 1, LIMIT, 0), LONGEST_NS, "of unknown rate");
}

#[test]
fn a_higher_rate_is_believed_by_half_and_a_lower_one_by_an_eighth() {
    let mut rate = Rate::default();
    assert_eq!(rate.look(SEC, 7, 1000), 1000);
    assert_eq!(
        rate.look(SEC + RATE_NS - 1, 500, 1),
        1000,
        "too soon to tell"
    );
    assert_eq!(rate.look(SEC + 20 * MS, 67, 1), 2000);
    assert_eq!(rate.look(SEC + 40 * MS, 75, 1), 1800);
    assert_eq!(rate.look(3 * SEC, 76, 1), 1800, "the tasks may have paused");
    assert_eq!(rate.look(3 * SEC + 20 * MS, 112, 1), 1800);
}

#[test]
fn a_fast_device_has_a_larger_limit() {
    assert_eq!(limit(LIMIT, 0), LIMIT);
    assert_eq!(limit(LIMIT, 10_240), LIMIT, "40 MB/s");
    assert_eq!(limit(LIMIT, 256_000), 12_800, "1 GB/s: 50 MB");
    assert!(limit(LIMIT, u64::MAX) > LIMIT);
}

/// One device and the tasks that write to it as fast as they can.
struct Model {
    dirty: u64,
    /// Pages a second.
    device: u64,
    rate: Rate,
    /// When each task may write again, ns.
    until: Vec<u64>,
    /// What the device could have written, pages x ns.
    credit: u64,
    written: u64,
}

impl Model {
    const STEP: u64 = 50 * US;

    fn new(device: u64, tasks: usize) -> Self {
        Self {
            dirty: 0,
            device,
            rate: Rate::default(),
            until: vec![0; tasks],
            credit: 0,
            written: 0,
        }
    }

    /// Each task that may makes one system call, which writes up to `call` pages; then the device
    /// writes.
    fn step(&mut self, now: u64, call: u64) {
        for until in &mut self.until {
            if now < *until {
                continue;
            }
            for _ in 0..call {
                self.dirty += 1;
                if self.dirty > LIMIT && *until <= now {
                    let rate = self.rate.look(now, self.written, KERNELS_FIRST);
                    *until = now + park(self.dirty, limit(LIMIT, rate), rate);
                }
            }
        }
        self.credit += self.device * Self::STEP;
        let pages = (self.credit / SEC).min(self.dirty);
        self.credit -= pages * SEC;
        if pages == self.dirty {
            self.credit = 0; // an idle device saves nothing up
        }
        (self.dirty, self.written) = (self.dirty - pages, self.written + pages);
    }

    /// Returns what the device wrote from second 1 to 3.
    fn run(&mut self, call: u64) -> u64 {
        let mut before = 0;
        for now in (1..3 * SEC / Self::STEP).map(|step| step * Self::STEP) {
            self.step(now, call);
            if now == SEC {
                before = self.written;
            }
        }
        self.written - before
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn more_dirty_pages_never_mean_a_shorter_park(
        a in 0..1u64 << 40, b in 0..1u64 << 40, limit: u32, rate: u64,
    ) {
        let parks = [a.min(b), a.max(b)].map(|dirty| park(dirty, limit.into(), rate));
        prop_assert!(parks[0] <= parks[1]);
        for ns in parks {
            prop_assert!(ns == 0 || (LEAST_NS..=LONGEST_NS).contains(&ns), "{ns}");
        }
    }

    #[test]
    fn a_faster_device_never_means_a_longer_park(dirty: u64, limit: u32, a: u64, b: u64) {
        let parks = [a.min(b), a.max(b)].map(|rate| park(dirty, limit.into(), rate));
        prop_assert!(parks[0] >= parks[1]);
    }

    #[test]
    fn no_look_overflows(at: u64, written: u64, rate: u64, now: u64, more: u64, estimate: u64) {
        let mut r = Rate { at, written, rate };
        r.look(now, more, estimate);
    }

    /// Theorem (5): tasks that write without end keep the stock below the limit and a system call
    /// of each, whatever the device, where it writes that much in the longest park. Until the rate
    /// is known, the limit is that of the kernel's first estimate, and a slow device has not
    /// written all of one call when the next one comes. That is written a second later.
    #[test]
    fn the_stock_is_bounded(tasks in 1..20usize, call in 1..64u64, device in 2_000..500_000u64) {
        prop_assume!(tasks as u64 * call <= device / 20);
        let mut model = Model::new(device, tasks);
        for now in (1..3 * SEC / Model::STEP).map(|step| step * Model::STEP) {
            model.step(now, call);
            let (known, calls) = if now < 2 * SEC {
                (device.max(KERNELS_FIRST), 2)
            } else {
                (device * 11 / 10, 1)
            };
            let most = limit(LIMIT, known) + calls * tasks as u64 * call;
            prop_assert!(model.dirty <= most, "{} at {now}", model.dirty);
        }
    }

    /// Theorem (3, 4): best-effort work loses no throughput, though the kernel takes the device for
    /// one of 100 MB/s at first, and it writes between 8 MB and 4 GB a second.
    #[test]
    fn the_device_has_work(tasks in 1..20usize, call in 1..64u64, device in 2_000..1_000_000u64) {
        prop_assume!(tasks as u64 * call <= LIMIT / 2);
        // what the tasks write while they may is more than the device writes meanwhile
        prop_assume!(tasks as u64 * call * SEC / Model::STEP > 2 * device);
        let written = Model::new(device, tasks).run(call);
        prop_assert!(written * 100 >= 2 * device * 95, "{written} of {}", 2 * device);
    }
}
