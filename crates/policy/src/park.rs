//! `park.h`: how long a task is kept off the CPU if several resources request it.

/// Number of reasons for a park (`NR_PARK_REASONS`).
pub const REASONS: usize = 7;

/// What keeps one task off the CPU (`struct park`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Park {
    /// One bit for each timed reason that was requested.
    pub reasons: u32,
    /// Time of the first request, ns; valid while there is a reason.
    pub began: u64,
    /// End of each reason's request, ns.
    pub until: [u64; REASONS],
}

extern "C" {
    fn policy_park_ask(p: *mut Park, reason: u32, now: u64, until: u64, bound: u64) -> bool;
    fn policy_park_end(p: *mut Park, reason: u32);
    fn policy_park_until(p: *const Park, now: u64) -> u64;
    fn policy_park_time(p: *const Park, reason: u32, since: u64, now: u64) -> u64;
    fn policy_park_settle(p: *mut Park, now: u64);
}

// SAFETY, for all: the C functions access only `*p`, whose layout the tests compare.
impl Park {
    /// `reason` requests a park until `until`, ns. The park ends at most `bound` ns after the first
    /// request. Returns false if the request was shortened for this.
    pub fn ask(&mut self, reason: u32, now: u64, until: u64, bound: u64) -> bool {
        unsafe { policy_park_ask(self, reason, now, until, bound) }
    }

    /// `reason` ends before its requested time.
    pub fn end(&mut self, reason: u32) {
        unsafe { policy_park_end(self, reason) }
    }

    /// The time until which the task is kept off the CPU, ns. If it is not parked, the result is
    /// `now`.
    pub fn until(&self, now: u64) -> u64 {
        unsafe { policy_park_until(self, now) }
    }

    /// How much of the time from `since` to `now` was for `reason`, ns.
    pub fn time(&self, reason: u32, since: u64, now: u64) -> u64 {
        unsafe { policy_park_time(self, reason, since, now) }
    }

    /// The task runs at `now`: removes the reasons that are over.
    pub fn settle(&mut self, now: u64) {
        unsafe { policy_park_settle(self, now) }
    }
}

#[cfg(test)]
mod tests;
