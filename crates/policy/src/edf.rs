//! `edf.h`: the server of a reservation, C every T by earliest deadline first (Redline section
//! 6.2).
//!
//! The tests: [`examples`](self) of each branch of Listing 1 and of the wake rule, theorems over
//! random task sets on the virtual CPU of `edf/cpu.rs`, and counter-examples that show why it
//! differs from the paper.

/// Outcome of [`Server::assign`] (`enum edf_change`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Same period.
    Kept,
    /// New period; had budget left.
    Renewed,
    /// New period; the budget was used up.
    Exhausted,
    /// Same period, its deadline has passed: the first time it is seen.
    Missed,
}

/// What becomes of a task whose budget is used up (`enum server_policy`; the rest is common to
/// all).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Policy {
    /// It waits for its next period; until then it runs on spare time.
    Redline = 1,
    /// It waits for its next period, and does not run at all until then.
    CbsHard = 2,
    /// It gets its next budget at once, for a deadline one period later.
    CbsSoft = 3,
    /// Like redline, but it may also use the slack of others ([`crate::fcbs`]).
    Fcbs = 4,
}

/// A reservation's server (`struct edf_server`). All times in ns on the caller's clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// C.
    pub runtime: u64,
    /// T, at least `runtime`.
    pub period: u64,
    /// Start of the current period.
    pub start: u64,
    /// Deadline of the current period: `start + period`; with cbs-soft it may be later.
    pub deadline: u64,
    /// The rest of C; below 0 after an overrun.
    pub budget: i64,
    /// 1: the task slept in this period.
    pub slept: u32,
    /// 1: the deadline passed with work left, and that was reported.
    pub late: u32,
    /// A [`Policy`].
    pub policy: u32,
    /// Unused.
    pub pad: u32,
}

extern "C" {
    fn policy_edf_bandwidth(runtime: u64, period: u64) -> u64;
    fn policy_edf_init(s: *mut Server, now: u64, runtime: u64, period: u64);
    fn policy_edf_eligible(s: *const Server, now: u64) -> bool;
    fn policy_edf_charge(s: *mut Server, ns: u64);
    fn policy_edf_sleep(s: *mut Server);
    fn policy_edf_succeed(s: *mut Server, old: *const Server, now: u64);
    fn policy_edf_wake(s: *mut Server, now: u64);
    fn policy_edf_assign(s: *mut Server, now: u64) -> u32;
}

/// C/T in ppm of a CPU; 0 if `period` is 0.
pub fn bandwidth(runtime: u64, period: u64) -> u64 {
    // SAFETY: pure arithmetic on its arguments
    unsafe { policy_edf_bandwidth(runtime, period) }
}

// SAFETY, for all of these: the C functions touch nothing but `*s`, whose layout the tests compare.
impl Server {
    /// A server that begins at `now` with a full budget. The caller sets its policy.
    pub fn new(now: u64, runtime: u64, period: u64) -> Self {
        let mut s = Self::default();
        unsafe { policy_edf_init(&mut s, now, runtime, period) };
        s
    }

    /// May its task run on the budget now?
    pub fn eligible(&self, now: u64) -> bool {
        unsafe { policy_edf_eligible(self, now) }
    }

    /// Charge `ns` of CPU time to the budget; [`Server::assign`] follows.
    pub fn charge(&mut self, ns: u64) {
        unsafe { policy_edf_charge(self, ns) }
    }

    /// The task went to sleep.
    pub fn sleep(&mut self) {
        unsafe { policy_edf_sleep(self) }
    }

    /// The task wakes up: the rule of the constant bandwidth server; [`Server::assign`] follows.
    pub fn wake(&mut self, now: u64) {
        unsafe { policy_edf_wake(self, now) }
    }

    /// Listing 1: a new period if the current one is over.
    pub fn assign(&mut self, now: u64) -> Change {
        change(unsafe { policy_edf_assign(self, now) })
    }

    /// The same process exchanges `old` for this server (exec): the budget used in `old` counts.
    pub fn succeed(&mut self, old: &Self, now: u64) {
        unsafe { policy_edf_succeed(self, old, now) }
    }
}

/// `enum edf_change`.
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
