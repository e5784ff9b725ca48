//! `quota.h`: so much CPU time in every period, with burst (`cpu.max`).

/// Quotas, bursts and debts are no more than this, ns (`QUOTA_MOST`).
pub const MOST: u64 = 1 << 60;
/// The longest that anybody is throttled for his debt, ns (`QUOTA_DEBT_NS`).
pub const DEBT: u64 = 10_000_000_000;

/// The limit of one domain, and what is left of it (`struct quota`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Period, ns.
    pub period: u64,
    /// What may run in each, ns; 0: no limit.
    pub quota: u64,
    /// What may stay of what was not used, ns.
    pub burst: u64,
    /// What may still be claimed in this period, ns; negative: debt.
    pub left: i64,
    /// When the next period begins, ns.
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
    /// A new limit, all in ns: begins with a full quota, if it is another one.
    pub fn set(&mut self, now: u64, quota: u64, period: u64, burst: u64) {
        unsafe { policy_quota_set(self, now, quota, period, burst) }
    }

    /// Begin the periods that are due.
    pub fn roll(&mut self, now: u64) {
        unsafe { policy_quota_roll(self, now) }
    }

    /// Take up to `want` ns in advance: what is granted.
    pub fn claim(&mut self, want: u64) -> u64 {
        unsafe { policy_quota_claim(self, want) }
    }

    /// Of `granted` ns, `used` were needed, or more.
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
