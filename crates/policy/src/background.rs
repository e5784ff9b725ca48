//! `background.h`: the share of the CPU that best-effort work keeps, however much is reserved.
//!
//! The tests run the header on a virtual CPU, which calls it where `bpf/reserved/queue.bpf.h` does.

/// The window over which the share is kept, ns (`BACKGROUND_WINDOW_NS`).
pub const WINDOW: u64 = 100_000_000;

/// The time that is owed to best-effort work on one CPU (`struct background`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// End of the current window, ns.
    pub window_end: u64,
    /// What best-effort work is still owed in the current window, ns. Negative if it ran longer
    /// than that.
    pub owed: i64,
}

extern "C" {
    fn policy_background_roll(b: *mut Background, now: u64, share_ppm: u64);
    fn policy_background_charge(b: *mut Background, ran_ns: u64);
    fn policy_background_laxity(b: *const Background, now: u64) -> u64;
}

// SAFETY, for all of these: the C functions access only `*b`, whose layout the tests compare.
impl Background {
    /// Begins a new window at `now` if the last one is over. `share_ppm` of the new window are owed
    /// to best-effort work.
    pub fn roll(&mut self, now: u64, share_ppm: u64) {
        unsafe { policy_background_roll(self, now, share_ppm) }
    }

    /// Charges `ran_ns` of CPU time to best-effort work.
    pub fn charge(&mut self, ran_ns: u64) {
        unsafe { policy_background_charge(self, ran_ns) }
    }

    /// The time, ns, for which reserved tasks may still run before best-effort work must run. 0: it
    /// must run now.
    pub fn laxity(&self, now: u64) -> u64 {
        unsafe { policy_background_laxity(self, now) }
    }
}

#[cfg(test)]
mod tests;
