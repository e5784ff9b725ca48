//! `dirty.h`: dirty limits, for how long a task that has dirtied pages is parked.

use crate::{MS, SEC, US};

/// The shortest park, ns (`DIRTY_LEAST_NS`).
pub const LEAST_NS: u64 = 200 * US;
/// The longest park, ns (`DIRTY_LONGEST_NS`).
pub const LONGEST_NS: u64 = 100 * MS;
/// Least and longest time between two looks that say something of the rate, ns (`DIRTY_RATE_NS`,
/// `DIRTY_RATE_LONGEST_NS`).
pub const RATE_NS: u64 = 20 * MS;
/// See [`RATE_NS`].
pub const RATE_LONGEST_NS: u64 = SEC;

/// How fast a device writes the dirty pages of one domain (`struct dirty_rate`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Time of the last look, ns.
    pub at: u64,
    /// Pages written by then, in all.
    pub written: u64,
    /// Pages a second.
    pub rate: u64,
}

extern "C" {
    fn policy_dirty_rate_look(r: *mut Rate, now: u64, written: u64, estimate: u64) -> u64;
    fn policy_dirty_limit(limit: u64, rate: u64) -> u64;
    fn policy_dirty_park(dirty: u64, limit: u64, rate: u64) -> u64;
}

impl Rate {
    /// A look at `now`, ns, above 0. `written`: pages that the device has written in all;
    /// `estimate`: the kernel's, pages a second, for the first look. Returns the rate, pages a
    /// second.
    pub fn look(&mut self, now: u64, written: u64, estimate: u64) -> u64 {
        // SAFETY: the C function changes `*self` only
        unsafe { policy_dirty_rate_look(self, now, written, estimate) }
    }
}

/// The limit of a stock, pages. `limit`: of its class, pages; `rate`: pages a second that the
/// device writes, 0 if unknown.
pub fn limit(limit: u64, rate: u64) -> u64 {
    // SAFETY: only numbers
    unsafe { policy_dirty_limit(limit, rate) }
}

/// For how long a task is to be parked, ns; 0: not at all. `dirty`: the pages of its domain on the
/// device that wait for it or are being written; `limit`: [`limit()`], pages; `rate`: pages a
/// second that the device writes, 0 if unknown.
pub fn park(dirty: u64, limit: u64, rate: u64) -> u64 {
    // SAFETY: only numbers
    unsafe { policy_dirty_park(dirty, limit, rate) }
}

#[cfg(test)]
mod tests;
