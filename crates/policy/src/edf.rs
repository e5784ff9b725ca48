//! `edf.h`: the server of a reservation, C every T, by earliest deadline first (Redline section
//! 6.2).
//!
//! The tests: examples of each branch of Listing 1 and of the wake rule; theorems over random task
//! sets on the virtual CPU of `edf/cpu.rs`; and counter-examples that show why the header differs
//! from the paper.

/// Outcome of [`Server::assign`] (`enum edf_change`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The period stays the same.
    Kept,
    /// A new period begins; the old one had budget left.
    Renewed,
    /// A new period begins because the budget was used up.
    Exhausted,
    /// The period stays the same, but its deadline has passed. Reported once for each period.
    Missed,
}

/// What becomes of a task whose budget is used up (`enum server_policy`). Everything else is the
/// same for all policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Policy {
    /// The task waits for its next period. Until then it may run on spare time.
    Redline = 1,
    /// The task does not run until its next period.
    CbsHard = 2,
    /// The server gets its next budget at once, with a deadline one period later.
    CbsSoft = 3,
    /// Like redline, but the task may also use other servers' slack ([`crate::fcbs`]).
    Fcbs = 4,
    /// Like redline, and the first part of each period gives no right either.
    Deferred = 5,
}

/// The server of a reservation (`struct edf_server`). All times in ns on the caller's clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// C, ns.
    pub runtime: u64,
    /// T, ns; at least `runtime`.
    pub period: u64,
    /// From when the current period gives a right: its begin, or later with deferred.
    pub start: u64,
    /// Deadline of the current period: its begin plus `period`, or later with cbs-soft.
    pub deadline: u64,
    /// What is left of C in this period, ns. Negative after an overrun.
    pub budget: i64,
    /// 1: the task has slept in this period.
    pub slept: u32,
    /// 1: the deadline passed while the task had work left, and this has been reported.
    pub late: u32,
    /// A [`Policy`].
    pub policy: u32,
    /// Unused.
    pub pad: u32,
}

extern "C" {
    fn policy_edf_bandwidth(runtime: u64, period: u64) -> u64;
    fn policy_edf_density(runtime: u64, period: u64, policy: u32) -> u64;
    fn policy_edf_init(s: *mut Server, now: u64, runtime: u64, period: u64);
    fn policy_edf_eligible(s: *const Server, now: u64) -> bool;
    fn policy_edf_charge(s: *mut Server, ns: u64);
    fn policy_edf_sleep(s: *mut Server);
    fn policy_edf_succeed(s: *mut Server, old: *const Server, now: u64);
    fn policy_edf_wake(s: *mut Server, now: u64);
    fn policy_edf_assign(s: *mut Server, now: u64) -> u32;
}

/// C/T, ppm of a CPU; 0 if `period` is 0.
pub fn bandwidth(runtime: u64, period: u64) -> u64 {
    // SAFETY: pure arithmetic on its arguments
    unsafe { policy_edf_bandwidth(runtime, period) }
}

/// The bandwidth that C every T needs in the worst case under `policy`, ppm of a CPU; 0 if `period`
/// is 0.
pub fn density(runtime: u64, period: u64, policy: Policy) -> u64 {
    // SAFETY: pure arithmetic on its arguments
    unsafe { policy_edf_density(runtime, period, policy as u32) }
}

// SAFETY, for all of these: the C functions access only `*s` (and read `*old`), whose layout the
// tests compare.
impl Server {
    /// A server whose first period begins at `now` with a full budget. The caller sets its policy.
    pub fn new(now: u64, runtime: u64, period: u64) -> Self {
        let mut s = Self::default();
        unsafe { policy_edf_init(&mut s, now, runtime, period) };
        s
    }

    /// May the server's task run on the budget at `now`?
    pub fn eligible(&self, now: u64) -> bool {
        unsafe { policy_edf_eligible(self, now) }
    }

    /// Charges `ns` of CPU time to the budget. The caller then calls [`Server::assign`].
    pub fn charge(&mut self, ns: u64) {
        unsafe { policy_edf_charge(self, ns) }
    }

    /// The server's task goes to sleep.
    pub fn sleep(&mut self) {
        unsafe { policy_edf_sleep(self) }
    }

    /// The server's task wakes up: applies the wake rule of the constant bandwidth server (Abeni
    /// and Buttazzo 1998). The caller then calls [`Server::assign`].
    pub fn wake(&mut self, now: u64) {
        unsafe { policy_edf_wake(self, now) }
    }

    /// Listing 1: begins a new period if the current one is over.
    pub fn assign(&mut self, now: u64) -> Change {
        change(unsafe { policy_edf_assign(self, now) })
    }

    /// This server replaces `old`, because the process has executed another program. What the
    /// process used of the old budget counts.
    pub fn succeed(&mut self, old: &Self, now: u64) {
        unsafe { policy_edf_succeed(self, old, now) }
    }
}

/// Decodes `enum edf_change`.
pub(crate) fn change(c: u32) -> Change {
    match c {
        0 => Change::Kept,
        1 => Change::Renewed,
        2 => Change::Exhausted,
        3 => Change::Missed,
        other => unreachable!("enum edf_change has no {other}"),
    }
}

#[cfg(test)]
mod counterexamples;
#[cfg(test)]
pub(crate) mod cpu;
#[cfg(test)]
mod examples;
#[cfg(test)]
pub(crate) mod plans;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod theorems;
