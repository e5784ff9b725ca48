//! `fcbs.h`: flexible CBS. The slack of a job goes to a job that needs more than its own budget
//! (Kato, Ishikawa and Rajkumar, section 4.2).
//!
//! `bpf/reserved/reclaim.bpf.h` makes these calls; in the tests the virtual CPU of `edf/cpu.rs`
//! does:
//!
//! | event | calls |
//! |---|---|
//! | a task begins to run on its own budget | [`Bank::freeze`] with its server's deadline |
//! | a task has no budget, and the bank's deadline is the earliest | [`Bank::draw`] |
//! | the task that runs on a budget or the bank stops | [`Bank::thaw`] |
//! | the last thread sleeps in a begun period with budget left | [`Bank::give`]; budget = 0 |
//! | the first thread wakes up before the deadline | [`Bank::take_back`], wake, assign |
//! | the first thread wakes up later | the loan is dropped (`lent` = 0), wake, assign |

/// The slack of a CPU (`struct fcbs_bank`). Times and amounts in ns, on the caller's clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bank {
    /// Amount at the time `stamp`, ns.
    pub slack: u64,
    /// Deadline of the slack. The slack is void after it.
    pub deadline: u64,
    /// Time up to which the slack has been reduced by elapsed time.
    pub stamp: u64,
    /// Total time for which overrunning servers have used the bank, ns.
    pub used: u64,
    /// 1: a task runs on its own budget, so the slack does not shrink.
    pub frozen: u32,
    /// 1: an overrunning server runs on the bank.
    pub drawn: u32,
}

/// The budget that one server has lent until its deadline (`struct fcbs_loan`), ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loan {
    /// Amount that was lent; 0: nothing.
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

/// Slack below this is not used, ns (`FCBS_LEAST_NS`).
pub fn least_ns() -> u64 {
    // SAFETY: a constant of shim.c.
    unsafe { policy_fcbs_least_ns }
}

// SAFETY, for all of these: the C functions access only `*b` and `*l`, whose layouts the tests
// compare.
impl Bank {
    /// A task begins to run on its own budget, whose deadline is `deadline` (rule 2).
    pub fn freeze(&mut self, now: u64, deadline: u64) {
        unsafe { policy_fcbs_freeze(self, now, deadline) }
    }

    /// A server whose own budget is used up begins to run on the bank (rule 1).
    pub fn draw(&mut self, now: u64) {
        unsafe { policy_fcbs_draw(self, now) }
    }

    /// The task that ran on its own budget or on the bank stops.
    pub fn thaw(&mut self, now: u64) {
        unsafe { policy_fcbs_thaw(self, now) }
    }

    /// The slack that an overrunning server may use at `now`, with [`Bank::deadline`], ns; 0: none.
    pub fn slack(&self, now: u64) -> u64 {
        unsafe { policy_fcbs_slack(self, now) }
    }

    /// A job completes: its server lends the rest of its `budget` (ns), whose deadline is
    /// `deadline`.
    pub fn give(&mut self, loan: &mut Loan, now: u64, budget: u64, deadline: u64) {
        unsafe { policy_fcbs_give(self, loan, now, budget, deadline) }
    }

    /// The lender's task wakes up before its deadline. Returns the part of the budget that the
    /// lender gets back, ns.
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
