//! `quota.h`: a limit of CPU time in each period, with burst (`cpu.max`).

/// The largest quota, burst or debt, ns (`QUOTA_MOST`).
pub const MOST: u64 = 1 << 60;
/// The longest time for which a domain is throttled for its debt, ns (`QUOTA_DEBT_NS`).
pub const DEBT: u64 = 10_000_000_000;

/// The limit of one domain, and what is left of its quota (`struct quota`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Period, ns.
    pub period: u64,
    /// Quota of each period, ns; 0: no limit.
    pub quota: u64,
    /// Unused quota that may be kept for later periods, ns.
    pub burst: u64,
    /// Quota that can still be claimed in this period, ns; negative: debt.
    pub left: i64,
    /// Start of the next period, ns.
    pub refill: u64,
}

extern "C" {
    fn policy_quota_set(q: *mut Quota, now: u64, quota: u64, period: u64, burst: u64);
    fn policy_quota_roll(q: *mut Quota, now: u64);
    fn policy_quota_claim(q: *mut Quota, want: u64) -> u64;
    fn policy_quota_return(q: *mut Quota, granted: u64, used: u64);
    fn policy_quota_throttled(q: *const Quota) -> bool;
}

// SAFETY, for all: the C functions access only `*q`, whose layout the tests compare.
impl Quota {
    /// Sets the limit, all in ns. If it changes, the domain begins with a full quota.
    pub fn set(&mut self, now: u64, quota: u64, period: u64, burst: u64) {
        unsafe { policy_quota_set(self, now, quota, period, burst) }
    }

    /// Begins the periods that are due at `now`.
    pub fn roll(&mut self, now: u64) {
        unsafe { policy_quota_roll(self, now) }
    }

    /// Claims up to `want` ns. Returns the time that was granted, ns.
    pub fn claim(&mut self, want: u64) -> u64 {
        unsafe { policy_quota_claim(self, want) }
    }

    /// Settles a claim of `granted` ns, of which `used` ns were used; `used` may be larger.
    pub fn give_back(&mut self, granted: u64, used: u64) {
        unsafe { policy_quota_return(self, granted, used) }
    }

    /// Is no quota left to claim?
    pub fn throttled(&self) -> bool {
        unsafe { policy_quota_throttled(self) }
    }
}

#[cfg(test)]
mod tests;
