//! Flexible CBS as printed: what a completed job leaves of its budget, e by s, goes to others.
//!
//! Kato, Ishikawa and Rajkumar, section 4.2 and Fig. 3, over the servers of `cbs.rs`:
//! 1. to the overrunning job with the earliest deadline, which runs on (e, s) and then has its own again; what it
//!    leaves of that is passed on likewise;
//! 2. else to the waiting job with the earliest deadline, at that deadline;
//! 3. else it is the bonus B: idle time eats it, and the next job that is released has the rest.
//!
//! A budget that is used up when nothing is left is as with soft CBS: e = Q, s = s + P.
//!
//! Where print and text leave a gap, or both would miss deadlines:
//! - Slack never gets an earlier deadline: rule 1 and 2 pass over jobs that are more urgent than the giver was, and
//!   so does B, which keeps its deadline (as printed a third task can miss: `crates/policy/src/fcbs`). Who runs at a
//!   later deadline while B waits was let go first, and B takes over that deadline.
//! - The giver has nothing left: a job that is released before s gets the next budget, by s + P. (In print e stays
//!   with the giver too.) A saved budget is given back once. (In print again at each end, for ever.)
//! - A job that runs on a later period's budget leaves nothing: see [`super::cbs::Cbs::complete`].
//!
//! Why deadlines are kept: slack is the rest of a job that could have gone on. Whoever uses it stands in for that
//! job, at its deadline or later; while nobody does, B shrinks as if it ran. So by any time no more has to be done
//! than if each job used its whole budget, and on one CPU that is all EDF asks.
//!
//! On several CPUs under global EDF all of it is for the whole machine. An overrunner may run elsewhere, or wait;
//! rule 2 looks at those that wait, since the CPU is now theirs. B shrinks by the idle time of all CPUs together
//! (best-effort work is idle time): at least as fast as the jobs that left it could have run, side by side.
//! So what has to be done by any time is still no more than without reclaiming. More cannot be said: to global EDF
//! that is no promise of single deadlines (Dhall and Liu), and who gets slack runs it before or after his own
//! budget, where the giver could have run beside him.

/// B, of the CPUs of one queue.
#[derive(Clone, Debug)]
pub(super) struct Bonus {
    /// ns, at `stamp`.
    amount: u64,
    /// Of all of it, ns.
    deadline: u64,
    stamp: u64,
    /// By CPU: does it run a reserved task?
    busy: Vec<bool>,
}

impl Bonus {
    /// Nothing yet, and all CPUs idle.
    pub fn new(cpus: usize) -> Self {
        Self {
            amount: 0,
            deadline: 0,
            stamp: 0,
            busy: vec![false; cpus],
        }
    }

    /// Idle time since the last look has eaten of it; after its deadline it is void.
    fn settle(&mut self, now: u64) {
        let idle = self.busy.iter().filter(|busy| !**busy).count() as u64;
        let eaten = (now - self.stamp).saturating_mul(idle);
        self.stamp = now;
        self.amount = self.amount.saturating_sub(eaten);
        if now >= self.deadline {
            self.amount = 0;
        }
    }

    /// From now on `cpu` runs a reserved task with this deadline; None: it does not.
    pub fn runs(&mut self, now: u64, cpu: usize, deadline: Option<u64>) {
        self.settle(now);
        self.busy[cpu] = deadline.is_some();
        self.deadline = self.deadline.max(deadline.unwrap_or(0));
    }

    /// Nobody wants `slack` ns, which are there until `deadline` (rule 3). What is there already becomes as late.
    pub fn keep(&mut self, now: u64, slack: u64, deadline: u64) {
        self.settle(now);
        self.deadline = if self.amount == 0 {
            deadline
        } else {
            self.deadline.max(deadline)
        };
        self.amount += slack;
    }

    /// A job is released: what it has of the bonus, ns; nothing if it is more urgent.
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
    fn idle_time_eats_the_bonus() {
        let mut b = Bonus::new(1);
        b.runs(0, 0, Some(10));
        b.keep(4, 6, 10);
        b.runs(4, 0, None);
        assert_eq!(b.take(7, 20), 3);
        assert_eq!(b.take(7, 20), 0, "it is gone");
    }

    #[test]
    fn all_idle_cpus_eat_at_once() {
        let mut b = Bonus::new(3);
        b.runs(0, 0, Some(100));
        b.keep(0, 50, 100);
        assert_eq!(b.take(10, 100), 50 - 2 * 10);
    }

    #[test]
    fn it_waits_while_no_cpu_is_idle() {
        let mut b = Bonus::new(1);
        b.runs(0, 0, Some(10));
        b.keep(0, 6, 20);
        assert_eq!(b.take(9, 20), 6);
    }

    #[test]
    fn it_is_nothing_for_the_more_urgent_and_void_after_its_deadline() {
        let mut b = Bonus::new(1);
        b.runs(0, 0, Some(10));
        b.keep(0, 6, 20);
        assert_eq!(b.take(1, 19), 0);
        b.runs(2, 0, Some(30));
        assert_eq!(
            b.take(2, 29),
            0,
            "who went first has passed on his deadline"
        );
        b.keep(3, 1, 25);
        assert_eq!(b.clone().take(3, 30), 7);
        assert_eq!(b.take(30, 99), 0);
    }
}
