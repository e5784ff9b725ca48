//! Tasks that release jobs: at a period, at least a period apart (sporadic), or several at a time (bursts).

use std::cell::RefCell;
use std::rc::Rc;

use crate::chance::Chance;
use crate::task::{Program, Step};

/// What a task has seen of its jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// Response times of finished jobs, ns, in order.
    pub response: Vec<u64>,
    /// Jobs that ended later than a period after their release.
    pub missed: u64,
    /// When the job that is under way, or the next one, has to be done, ns.
    pub due: u64,
}

impl Jobs {
    /// Has a job missed its deadline by `now`, ns, be it done or not?
    pub fn late(&self, now: u64) -> bool {
        self.missed > 0 || now > self.due
    }

    /// Missed ones, that which is overdue at `now`, ns, included.
    pub fn missed_at(&self, now: u64) -> u64 {
        self.missed + u64::from(now > self.due)
    }
}

/// Where a task notes its jobs.
pub type Noted = Rc<RefCell<Jobs>>;

/// When jobs are released.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Least time between releases, and relative deadline of each job, ns.
    pub period: u64,
    /// Up to so much more, evenly, ns; 0: periodic.
    pub extra: u64,
    /// Jobs that are released together.
    pub burst: u32,
    /// For `extra`.
    pub chance: Chance,
}

impl Arrivals {
    /// One job in each period.
    pub fn periodic(period: u64) -> Self {
        Self {
            period,
            extra: 0,
            burst: 1,
            chance: Chance::new(0),
        }
    }

    fn gap(&mut self) -> u64 {
        let extra = if self.extra == 0 {
            0
        } else {
            self.chance.between(0, self.extra)
        };
        self.period + extra
    }
}

/// A task that uses `work` ns in each of its jobs. Its jobs queue up: one that is late is followed by the next at
/// once. Executes the program `ino` before the first (0: none).
pub struct Periodic {
    ino: u64,
    work: u64,
    arrivals: Arrivals,
    /// Release of the job under way, or of the next one, ns.
    release: u64,
    /// Jobs of this release that are not done.
    left: u32,
    begun: bool,
    busy: bool,
    jobs: Noted,
}

impl Periodic {
    /// One job in every `period` ns, from `first` ns on; and where it will note them.
    pub fn new(ino: u64, work: u64, period: u64, first: u64) -> (Self, Noted) {
        Self::arriving(ino, work, first, Arrivals::periodic(period))
    }

    /// The same with other arrivals.
    pub fn arriving(ino: u64, work: u64, first: u64, arrivals: Arrivals) -> (Self, Noted) {
        let jobs = Rc::new(RefCell::new(Jobs {
            due: first + arrivals.period,
            ..Jobs::default()
        }));
        let noted = Rc::clone(&jobs);
        let task = Self {
            ino,
            work,
            release: first,
            left: arrivals.burst,
            arrivals,
            begun: ino == 0,
            busy: false,
            jobs,
        };
        (task, noted)
    }

    fn done(&mut self, now: u64) {
        let mut jobs = self.jobs.borrow_mut();
        jobs.response.push(now - self.release);
        jobs.missed += u64::from(now > jobs.due);
        self.left -= 1;
        if self.left == 0 {
            self.left = self.arrivals.burst;
            self.release += self.arrivals.gap();
            jobs.due = self.release + self.arrivals.period;
        }
    }
}

impl Program for Periodic {
    fn next(&mut self, now: u64, _ran: u64) -> Step {
        if !std::mem::replace(&mut self.begun, true) {
            return Step::Exec(self.ino);
        }
        if std::mem::replace(&mut self.busy, false) {
            self.done(now);
        }
        if now < self.release {
            return Step::SleepUntil(self.release);
        }
        self.busy = true;
        Step::Run(self.work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Play a task alone on a CPU of its own until `end`: (start, length) of each job.
    fn alone(mut task: impl Program, end: u64) -> Vec<(u64, u64)> {
        let (mut now, mut pieces) = (0, Vec::new());
        while now < end {
            match task.next(now, 0) {
                Step::SleepUntil(at) => now = at,
                Step::Run(ns) => {
                    pieces.push((now, ns));
                    now += ns;
                }
                step => panic!("{step:?}"),
            }
        }
        pieces
    }

    #[test]
    fn periodic_jobs_are_a_period_apart() {
        let (task, noted) = Periodic::new(0, 2, 10, 5);
        assert_eq!(alone(task, 35), [(5, 2), (15, 2), (25, 2)]);
        assert_eq!(noted.borrow().response, [2, 2, 2]);
        assert_eq!((noted.borrow().missed, noted.borrow().due), (0, 45));
    }

    #[test]
    fn sporadic_jobs_are_at_least_a_period_apart() {
        let arrivals = |seed| Arrivals {
            extra: 5,
            chance: Chance::new(seed),
            ..Arrivals::periodic(10)
        };
        let (task, _) = Periodic::arriving(0, 1, 0, arrivals(3));
        let starts: Vec<u64> = alone(task, 10_000).iter().map(|p| p.0).collect();
        let gaps: Vec<u64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.iter().all(|gap| (10..=15).contains(gap)));
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((12.2..12.8).contains(&mean), "{mean}");
        let (again, _) = Periodic::arriving(0, 1, 0, arrivals(3));
        assert!(alone(again, 10_000).iter().map(|p| p.0).eq(starts));
    }

    #[test]
    fn a_burst_is_several_jobs_at_once_and_each_has_the_deadline() {
        let arrivals = Arrivals {
            burst: 3,
            ..Arrivals::periodic(10)
        };
        let (task, noted) = Periodic::arriving(0, 4, 0, arrivals);
        assert_eq!(
            alone(task, 20),
            [(0, 4), (4, 4), (8, 4), (12, 4), (16, 4)],
            "the third is late, and the next burst follows at once"
        );
        assert_eq!(noted.borrow().response[..3], [4, 8, 12]);
        assert_eq!(noted.borrow().missed, 1);
    }

    #[test]
    fn a_job_that_never_ends_is_late() {
        let (_, noted) = Periodic::new(0, 2, 10, 5);
        assert!(!noted.borrow().late(15));
        assert!(noted.borrow().late(16));
    }
}
