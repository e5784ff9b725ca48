//! Flexible CBS as printed: the slack of a completed job, e by s, goes to other jobs.
//!
//! Kato, Ishikawa and Rajkumar, section 4.2 and figure 3, over the servers of `cbs.rs`:
//! 1. Slack goes to the overrunning job with the earliest deadline. This job runs on (e, s), and
//!    then has its own budget again. If it leaves a rest of (e, s), these rules apply to the rest.
//! 2. Else slack goes to the waiting job with the earliest deadline, at that deadline.
//! 3. Else slack becomes the bonus B. Idle time consumes it; the next job that is released gets the
//!    rest.
//!
//! When a budget is used up and there is no slack, soft CBS applies: e = Q, s = s + P.
//!
//! Differences from the paper, where pseudocode and text leave a gap or miss deadlines:
//! - Slack never gets an earlier deadline. Rules 1 and 2 skip jobs with an earlier deadline than
//!   the giver, and B keeps its deadline. (As printed, a third task can miss:
//!   `crates/policy/src/fcbs`.) If a job with a later deadline runs while B waits, B takes over
//!   that deadline.
//! - The giver keeps nothing: a job that is released before s gets the next budget, by s + P. (In
//!   the paper the giver keeps e too.) A saved budget is given back once. (In the paper again at
//!   each end.)
//! - A job that runs on the budget of a later period leaves nothing: see
//!   [`super::cbs::Cbs::complete`].
//!
//! Why deadlines are met: slack is the rest of a job that could have gone on. The job that uses it
//! takes the place of that job, at its deadline or later. While no job uses it, B shrinks as if
//! that job ran. So the work due by any time is no more than if each job used its whole budget. On
//! one CPU EDF needs no more.
//!
//! Under global EDF slack belongs to the whole machine. An overrunning job may run on another CPU,
//! or wait. Rule 2 applies to waiting jobs, because the CPU is free for them now. B shrinks by the
//! idle time of all CPUs together (best-effort work counts as idle time): at least as fast as the
//! jobs that left it could have run side by side. So the work due by any time is no more than
//! without slack. That is no promise for single deadlines under global EDF (Dhall and Liu), because
//! a job runs slack before or after its own budget, where the giver could have run beside it.

/// B of the CPUs of one queue.
#[derive(Clone, Debug)]
pub(super) struct Bonus {
    /// Amount at the time `stamp`, ns.
    amount: u64,
    /// Its deadline, ns.
    deadline: u64,
    stamp: u64,
    /// For each CPU: does it run a reserved task?
    busy: Vec<bool>,
}

impl Bonus {
    /// An empty bonus, with all CPUs idle.
    pub fn new(cpus: usize) -> Self {
        Self {
            amount: 0,
            deadline: 0,
            stamp: 0,
            busy: vec![false; cpus],
        }
    }

    /// Subtract the idle time since `stamp`. After its deadline the bonus is void.
    fn settle(&mut self, now: u64) {
        let idle = self.busy.iter().filter(|busy| !**busy).count() as u64;
        let eaten = (now - self.stamp).saturating_mul(idle);
        self.stamp = now;
        self.amount = self.amount.saturating_sub(eaten);
        if now >= self.deadline {
            self.amount = 0;
        }
    }

    /// From now on `cpu` runs a reserved task with this deadline, ns. None: it runs no reserved
    /// task.
    pub fn runs(&mut self, now: u64, cpu: usize, deadline: Option<u64>) {
        self.settle(now);
        self.busy[cpu] = deadline.is_some();
        self.deadline = self.deadline.max(deadline.unwrap_or(0));
    }

    /// Add `slack` ns by `deadline` (rule 3). The whole bonus has the later one of both deadlines.
    pub fn keep(&mut self, now: u64, slack: u64, deadline: u64) {
        self.settle(now);
        self.deadline = if self.amount == 0 {
            deadline
        } else {
            self.deadline.max(deadline)
        };
        self.amount += slack;
    }

    /// A job with this deadline, ns, is released. Returns the bonus that the job takes, ns: all of
    /// it, or nothing if the job's deadline is earlier than the bonus's.
    pub fn take(&mut self, now: u64, deadline: u64) -> u64 {
        self.settle(now);
        if deadline < self.deadline {
            return 0;
        }
        std::mem::take(&mut self.amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_consumes_the_bonus() {
        let mut b = Bonus::new(1);
        b.runs(0, 0, Some(10));
        b.keep(4, 6, 10);
        b.runs(4, 0, None);
        assert_eq!(b.take(7, 20), 3);
        assert_eq!(b.take(7, 20), 0, "it is gone");
    }

    #[test]
    fn idle_cpus_consume_the_bonus_together() {
        let mut b = Bonus::new(3);
        b.runs(0, 0, Some(100));
        b.keep(0, 50, 100);
        assert_eq!(b.take(10, 100), 50 - 2 * 10);
    }

    #[test]
    fn the_bonus_stays_while_no_cpu_is_idle() {
        let mut b = Bonus::new(1);
        b.runs(0, 0, Some(10));
        b.keep(0, 6, 20);
        assert_eq!(b.take(9, 20), 6);
    }

    #[test]
    fn an_earlier_deadline_gets_no_bonus_and_the_bonus_is_void_after_its_own() {
        let mut b = Bonus::new(1);
        b.runs(0, 0, Some(10));
        b.keep(0, 6, 20);
        assert_eq!(b.take(1, 19), 0);
        b.runs(2, 0, Some(30));
        assert_eq!(
            b.take(2, 29),
            0,
            "the task that ran before has passed on its deadline"
        );
        b.keep(3, 1, 25);
        assert_eq!(b.clone().take(3, 30), 7);
        assert_eq!(b.take(30, 99), 0);
    }
}
