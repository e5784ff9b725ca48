//! The constant bandwidth server: a budget e and a deadline s for a task that reserves Q every P.
//!
//! Abeni and Buttazzo, "Integrating multimedia applications in hard real-time systems" (RTSS 1998),
//! in the form of Kato, Ishikawa and Rajkumar, section 4.1, and of SCHED_DEADLINE:
//! - A wake-up at t: if s has passed, or e >= (s - t) Q / P (the rest would exceed the bandwidth
//!   until s), then e = Q and s = t + P; else both stay.
//! - When e is 0: *soft*: e = Q and s = s + P at once. *Hard*: the task is throttled until s, then
//!   the same.
//! - As in SCHED_DEADLINE, a new deadline that would be in the past becomes s = t + P, so that a
//!   backlog of an overload does not harm other tasks.

use crate::Reservation;

/// What becomes of a task whose budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The task waits for its next period, so it gets exactly Q/P.
    Hard,
    /// The task's deadline is postponed, so it gets at least Q/P.
    Soft,
    /// Like soft, but the task uses slack first (see `fcbs.rs`).
    Flexible,
}

/// One server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cbs {
    /// Q, ns.
    runtime: u64,
    /// P, ns.
    period: u64,
    /// e, ns.
    pub budget: u64,
    /// s, ns.
    pub deadline: u64,
    /// The server's own e and s while its task runs on slack.
    own: Option<(u64, u64)>,
}

impl Cbs {
    /// A server whose first period begins at `now`.
    pub fn new(wanted: Reservation, now: u64) -> Self {
        Self {
            runtime: wanted.runtime,
            period: wanted.period,
            budget: wanted.runtime,
            deadline: now + wanted.period,
            own: None,
        }
    }

    /// Q/P in units of 1/`parts` of a CPU, rounded down, so that three thirds are at most one CPU.
    pub fn bandwidth(&self, parts: u64) -> u64 {
        (u128::from(self.runtime) * u128::from(parts) / u128::from(self.period)) as u64
    }

    /// The server's task wakes up.
    pub fn wake(&mut self, now: u64) {
        let until = u128::from(self.deadline.saturating_sub(now));
        let left = u128::from(self.budget) * u128::from(self.period);
        if left >= until * u128::from(self.runtime) {
            self.budget = self.runtime;
            self.deadline = now + self.period;
        }
    }

    /// Begin the next period, after the budget was used up.
    pub fn replenish(&mut self, now: u64) {
        self.budget = self.runtime;
        self.deadline += self.period;
        if self.deadline <= now {
            self.deadline = now + self.period;
        }
    }

    /// Does the task use the budget of a later period (the paper's s > t + P)? Not while it runs on
    /// slack.
    pub fn overruns(&self, now: u64) -> bool {
        self.own.is_none() && self.deadline > now + self.period
    }

    /// Run on `slack`, ns, with its `deadline`, ns, until the slack is used up. `uncharged`: run
    /// time on the server's own budget that is not charged yet, ns.
    pub fn borrow(&mut self, slack: u64, deadline: u64, uncharged: u64) {
        self.own = Some((self.budget - uncharged, self.deadline));
        self.budget = slack + uncharged;
        self.deadline = deadline;
    }

    /// The slack or the budget is used up. After slack the server has its own budget again; after
    /// its own budget the next period begins.
    pub fn exhausted(&mut self, now: u64) {
        if let Some(own) = self.own.take() {
            (self.budget, self.deadline) = own;
        }
        if self.budget == 0 {
            self.replenish(now);
        }
    }

    /// The task's job is completed. Returns the slack that the job leaves to others, ns, and the
    /// slack's deadline.
    ///
    /// A job that ran on slack leaves the rest of it, and keeps its own budget. Another job leaves
    /// the rest of its budget, with two exceptions. The budget of a later period stays, because the
    /// next job needs it ("we never steal the budget from the future"). An untouched budget stays,
    /// because there was no job (the program was only started).
    pub fn complete(&mut self, now: u64) -> Option<(u64, u64)> {
        let left = (self.budget, self.deadline);
        if let Some(own) = self.own.take() {
            (self.budget, self.deadline) = own;
        } else if self.overruns(now) || self.budget == self.runtime {
            return None;
        } else {
            self.budget = 0;
        }
        (left.0 > 0).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(runtime: u64, period: u64) -> Cbs {
        let wanted = Reservation {
            runtime,
            period,
            ..Reservation::default()
        };
        Cbs::new(wanted, 0)
    }

    #[test]
    fn a_wake_up_keeps_a_budget_that_fits_until_the_deadline() {
        let mut s = server(5, 10);
        s.budget = 2;
        s.wake(5); // 2 < 5 * 5/10
        assert_eq!((s.budget, s.deadline), (2, 10));
        s.wake(6); // 2 >= 4 * 5/10: the rest is at least half of the time until 10
        assert_eq!((s.budget, s.deadline), (5, 16));
        s.budget = 0;
        s.wake(40); // the deadline has long passed
        assert_eq!((s.budget, s.deadline), (5, 50));
    }

    #[test]
    fn replenishing_postpones_the_deadline_into_the_future() {
        let mut s = server(5, 10);
        s.replenish(7);
        assert_eq!((s.budget, s.deadline), (5, 20));
        s.replenish(95);
        assert_eq!((s.budget, s.deadline), (5, 105));
    }

    #[test]
    fn an_overrunning_job_borrows_slack_and_gets_its_own_budget_back() {
        let mut s = server(5, 10);
        assert!(!s.overruns(0));
        s.replenish(7);
        assert!(s.overruns(7) && !s.overruns(10), "20 > 10 + 10 no more");
        s.borrow(3, 12, 1);
        assert_eq!((s.budget, s.deadline), (3 + 1, 12));
        assert!(!s.overruns(7), "once at a time");
        s.budget = 0;
        s.exhausted(11);
        assert_eq!((s.budget, s.deadline), (5 - 1, 20));
        s.budget = 0;
        s.exhausted(15);
        assert_eq!((s.budget, s.deadline), (5, 30), "nothing is left: s + P");
    }

    #[test]
    fn a_completed_job_leaves_the_budget_of_its_own_period() {
        let mut s = server(5, 10);
        assert_eq!(s.complete(1), None, "there was no job");
        s.budget = 2;
        assert_eq!(s.complete(3), Some((2, 10)));
        assert_eq!(s.complete(3), None, "it is gone");
        s.exhausted(4);
        s.budget = 1;
        assert_eq!(s.complete(5), None, "that is for its next job");
        s.borrow(4, 9, 0);
        assert_eq!(s.complete(6), Some((4, 9)));
        assert_eq!((s.budget, s.deadline), (1, 20));
    }

    #[test]
    fn bandwidth_is_rounded_down() {
        assert_eq!(server(1, 3).bandwidth(1000), 333);
        assert_eq!(server(7, 7).bandwidth(1000), 1000);
    }
}
