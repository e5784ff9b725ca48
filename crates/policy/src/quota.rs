//! `quota.h`: a limit of CPU time in each period, with burst (`cpu.max`).

/// Quotas, bursts and debts are no more than this, ns (`QUOTA_MOST`).
pub const MOST: u64 = 1 << 60;
/// The longest time that a domain is throttled for its debt, ns (`QUOTA_DEBT_NS`).
pub const DEBT: u64 = 10_000_000_000;

/// The limit of one domain, and the rest of its quota (`struct quota`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Period, ns.
    pub period: u64,
    /// Quota of each period, ns; 0: no limit.
    pub quota: u64,
    /// Unused quota that may be kept, ns.
    pub burst: u64,
    /// Quota that may still be claimed in this period, ns; negative: debt.
    pub left: i64,
    /// Beginning of the next period, ns.
    pub refill: u64,
}

extern "C" {
    fn policy_quota_set(q: *mut Quota, now: u64, quota: u64, period: u64, burst: u64);
    fn policy_quota_roll(q: *mut Quota, now: u64);
    fn policy_quota_claim(q: *mut Quota, want: u64) -> u64;
    fn policy_quota_return(q: *mut Quota, granted: u64, used: u64);
    fn policy_quota_throttled(q: *const Quota) -> bool;
}

// SAFETY, for all: the C functions touch nothing but `*q`, whose layout the tests compare.
impl Quota {
    /// Set the limit, ns. If it changes, the domain begins with a full quota.
    pub fn set(&mut self, now: u64, quota: u64, period: u64, burst: u64) {
        unsafe { policy_quota_set(self, now, quota, period, burst) }
    }

    /// Begin the periods that are due.
    pub fn roll(&mut self, now: u64) {
        unsafe { policy_quota_roll(self, now) }
    }

    /// Claim up to `want` ns. Returns the granted time.
    pub fn claim(&mut self, want: u64) -> u64 {
        unsafe { policy_quota_claim(self, want) }
    }

    /// Settle a claim of `granted` ns: `used` ns were used, which may be more.
    pub fn give_back(&mut self, granted: u64, used: u64) {
        unsafe { policy_quota_return(self, granted, used) }
    }

    /// Is there nothing left to claim?
    pub fn throttled(&self) -> bool {
        unsafe { policy_quota_throttled(self) }
    }
}

#[cfg(test)]
mod tests;
