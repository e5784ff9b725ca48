//! `fcbs.h`: flexible CBS. The slack of a job goes to a job that needs more than its own budget
//! (Kato, Ishikawa and Rajkumar, section 4.2).
//!
//! `bpf/reserved/reclaim.bpf.h`, and in the tests the virtual CPU of `edf/cpu.rs`, call:
//!
//! | event | calls |
//! |---|---|
//! | a task begins to run on its own budget | [`Bank::freeze`] with its server's deadline |
//! | a task has no budget, and the bank's deadline is first by EDF | [`Bank::draw`] |
//! | such a task stops, or continues in another period | [`Bank::thaw`] |
//! | the last thread sleeps in a begun period with budget left | [`Bank::give`]; budget = 0 |
//! | the first thread wakes up before the deadline | [`Bank::take_back`], wake, assign |
//! | the first thread wakes up later | the loan is forgotten (`lent` = 0), wake, assign |

/// The slack of a CPU (`struct fcbs_bank`). Times and amounts in ns, on the caller's clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bank {
    /// Amount at the time `stamp`.
    pub slack: u64,
    /// Deadline of the slack; after it the slack is void.
    pub deadline: u64,
    /// The time up to which idle time was subtracted.
    pub stamp: u64,
    /// Total that overrunning servers have used.
    pub used: u64,
    /// 1: a task runs on its own budget, so the slack does not shrink.
    pub frozen: u32,
    /// 1: an overrunning server runs on it.
    pub drawn: u32,
}

/// The budget that a server has lent until its deadline (`struct fcbs_loan`), ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loan {
    /// Amount; 0: nothing.
    pub lent: u64,
    /// [`Bank::used`] at the time of the loan.
    pub used: u64,
}

extern "C" {
    static policy_fcbs_least_ns: u64;

    fn policy_fcbs_freeze(b: *mut Bank, now: u64, deadline: u64);
    fn policy_fcbs_draw(b: *mut Bank, now: u64);
    fn policy_fcbs_thaw(b: *mut Bank, now: u64);
    fn policy_fcbs_slack(b: *const Bank, now: u64) -> u64;
    fn policy_fcbs_give(b: *mut Bank, l: *mut Loan, now: u64, budget: u64, deadline: u64);
    fn policy_fcbs_take_back(b: *mut Bank, l: *mut Loan, now: u64) -> u64;
}

/// Slack below this is not handed out, ns (`FCBS_LEAST_NS`).
pub fn least_ns() -> u64 {
    // SAFETY: a constant of shim.c
    unsafe { policy_fcbs_least_ns }
}

// SAFETY, for all of these: the C functions touch nothing but `*b` and `*l`, whose layouts the
// tests compare.
impl Bank {
    /// A task begins to run on its own budget, whose deadline is `deadline` (rule 2).
    pub fn freeze(&mut self, now: u64, deadline: u64) {
        unsafe { policy_fcbs_freeze(self, now, deadline) }
    }

    /// A server whose own budget is used up begins to run on the bank (rule 1).
    pub fn draw(&mut self, now: u64) {
        unsafe { policy_fcbs_draw(self, now) }
    }

    /// The task that ran on a budget or on the bank stops.
    pub fn thaw(&mut self, now: u64) {
        unsafe { policy_fcbs_thaw(self, now) }
    }

    /// The slack that an overrunning server may use at `now`, at [`Bank::deadline`]; 0: none.
    pub fn slack(&self, now: u64) -> u64 {
        unsafe { policy_fcbs_slack(self, now) }
    }

    /// A job completes and lends the rest of its `budget`, whose deadline is `deadline`.
    pub fn give(&mut self, loan: &mut Loan, now: u64, budget: u64, deadline: u64) {
        unsafe { policy_fcbs_give(self, loan, now, budget, deadline) }
    }

    /// Its task wakes up before the deadline. Returns the part of the budget that it gets back.
    pub fn take_back(&mut self, loan: &mut Loan, now: u64) -> u64 {
        unsafe { policy_fcbs_take_back(self, loan, now) }
    }
}

#[cfg(test)]
mod counterexamples;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod theorems;
