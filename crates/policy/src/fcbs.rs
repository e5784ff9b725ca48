//! `fcbs.h`: flexible CBS, what a job leaves of its budget goes to a job that needs more than its own
//! (Kato, Ishikawa and Rajkumar, section 4.2).
//!
//! Who calls what, when (`bpf/reserved/reclaim.bpf.h`; in the tests the virtual CPU of `edf/cpu.rs`):
//!
//! | event | calls |
//! |---|---|
//! | a task begins to run on its own budget | [`Bank::freeze`] with its server's deadline |
//! | it has none, and [`Bank::slack`] at the bank's deadline is first by EDF | [`Bank::draw`] |
//! | either of them stops, or goes on in another period | [`Bank::thaw`] |
//! | the last thread sleeps, in a period that has begun and with budget left | [`Bank::give`]; the budget is 0, and no assignment until it wakes up |
//! | the first thread wakes up before the deadline | budget = [`Bank::take_back`], then the server's wake and assign |
//! | it wakes up later | the loan is forgotten (`lent` = 0), then wake and assign |

/// The slack of a CPU (`struct fcbs_bank`). Times and amounts in ns, on the caller's clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bank {
    /// What there was at `stamp`.
    pub slack: u64,
    /// By when all of it is due; it is worth nothing after that.
    pub deadline: u64,
    /// Up to when it has melted.
    pub stamp: u64,
    /// What overrunning servers took, ever.
    pub used: u64,
    /// 1: somebody runs on a budget of his own, and nothing melts.
    pub frozen: u32,
    /// 1: an overrunning server runs on it.
    pub drawn: u32,
}

/// What a server has lent, until its deadline (`struct fcbs_loan`), ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loan {
    /// How much; 0: nothing.
    pub lent: u64,
    /// [`Bank::used`] at that time.
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

// SAFETY, for all of these: the C functions touch nothing but `*b` and `*l`, whose layouts the tests compare.
impl Bank {
    /// A task begins to run on its own budget, which is for until `deadline` (rule 2).
    pub fn freeze(&mut self, now: u64, deadline: u64) {
        unsafe { policy_fcbs_freeze(self, now, deadline) }
    }

    /// A server without a budget of its own begins to run on the bank (rule 1).
    pub fn draw(&mut self, now: u64) {
        unsafe { policy_fcbs_draw(self, now) }
    }

    /// Whoever ran by right stops.
    pub fn thaw(&mut self, now: u64) {
        unsafe { policy_fcbs_thaw(self, now) }
    }

    /// What an overrunning server may use at `now`, at [`Bank::deadline`]; 0: nothing.
    pub fn slack(&self, now: u64) -> u64 {
        unsafe { policy_fcbs_slack(self, now) }
    }

    /// A job completes and lends the `budget` that was for until `deadline`.
    pub fn give(&mut self, loan: &mut Loan, now: u64, budget: u64, deadline: u64) {
        unsafe { policy_fcbs_give(self, loan, now, budget, deadline) }
    }

    /// Its server wakes up before its deadline: what it gets back of its budget.
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
