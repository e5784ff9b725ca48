//! `background.h`: the part of the CPU that best-effort work keeps, however much is reserved.
//!
//! The tests run it on a virtual CPU that asks it where `bpf/reserved/queue.bpf.h` does.

/// Window over which the share is kept, ns (`BACKGROUND_WINDOW_NS`).
pub const WINDOW: u64 = 100_000_000;

/// The time owed to best-effort work on one CPU (`struct background`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// End of the current window, ns.
    pub window_end: u64,
    /// The rest of its part of the current window, ns; below 0: it ran for longer than its part.
    pub owed: i64,
}

extern "C" {
    fn policy_background_roll(b: *mut Background, now: u64, share_ppm: u64);
    fn policy_background_charge(b: *mut Background, ran_ns: u64);
    fn policy_background_laxity(b: *const Background, now: u64) -> u64;
}

// SAFETY, for all of these: the C functions touch nothing but `*b`, whose layout the tests compare.
impl Background {
    /// Begin a new window if the last one is over. Best-effort work is owed `share_ppm` of it.
    pub fn roll(&mut self, now: u64, share_ppm: u64) {
        unsafe { policy_background_roll(self, now, share_ppm) }
    }

    /// Best-effort work ran for `ran_ns`.
    pub fn charge(&mut self, ran_ns: u64) {
        unsafe { policy_background_charge(self, ran_ns) }
    }

    /// ns until best-effort work must run; 0: now.
    pub fn laxity(&self, now: u64) -> u64 {
        unsafe { policy_background_laxity(self, now) }
    }
}

#[cfg(test)]
mod tests;
