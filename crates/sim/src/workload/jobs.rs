//! Tasks with jobs, which are released periodically, at least a period apart (sporadic), or several
//! at a time (bursts).

use std::cell::RefCell;
use std::rc::Rc;

use crate::rng::Rng;
use crate::task::{Program, Step};

/// The results of a task's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// Response times of completed jobs, ns, in order.
    pub response: Vec<u64>,
    /// Jobs that were completed later than a period after their release.
    pub missed: u64,
    /// Deadline of the current job, or of the next one, ns.
    pub due: u64,
}

impl Jobs {
    /// Has a job missed its deadline by `now`, ns, whether it is completed or not?
    pub fn late(&self, now: u64) -> bool {
        self.missed > 0 || now > self.due
    }

    /// Missed deadlines, that of a job that is overdue at `now`, ns, included.
    pub fn missed_at(&self, now: u64) -> u64 {
        self.missed + u64::from(now > self.due)
    }
}

/// The results of a task's jobs, which the task and the test share.
pub type JobLog = Rc<RefCell<Jobs>>;

/// The release times of jobs.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Least time between releases, and relative deadline of each job, ns.
    pub period: u64,
    /// Greatest additional time between releases, ns, uniformly distributed; 0: periodic.
    pub extra: u64,
    /// Number of jobs that are released together.
    pub burst: u32,
    /// Random numbers for `extra`.
    pub rng: Rng,
}

impl Arrivals {
    /// One job in each period.
    pub fn periodic(period: u64) -> Self {
        Self {
            period,
            extra: 0,
            burst: 1,
            rng: Rng::new(0),
        }
    }

    fn gap(&mut self) -> u64 {
        let extra = if self.extra == 0 {
            0
        } else {
            self.rng.between(0, self.extra)
        };
        self.period + extra
    }
}

/// A task that uses `work` ns in each of its jobs. A late job delays the next one, which then
/// begins at once. The task executes the program `ino` before the first job (0: none).
pub struct Periodic {
    ino: u64,
    work: u64,
    arrivals: Arrivals,
    /// Release of the current job, or of the next one, ns.
    release: u64,
    /// Jobs of this release that are not completed.
    left: u32,
    begun: bool,
    busy: bool,
    jobs: JobLog,
}

impl Periodic {
    /// A task with one job in every `period` ns, from `first` ns on, and its log of jobs.
    pub fn new(ino: u64, work: u64, period: u64, first: u64) -> (Self, JobLog) {
        Self::arriving(ino, work, first, Arrivals::periodic(period))
    }

    /// Like [`Periodic::new`], with other arrivals.
    pub fn arriving(ino: u64, work: u64, first: u64, arrivals: Arrivals) -> (Self, JobLog) {
        let jobs = Rc::new(RefCell::new(Jobs {
            due: first + arrivals.period,
            ..Jobs::default()
        }));
        let log = Rc::clone(&jobs);
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
        (task, log)
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

    /// Run a task alone on a CPU until `end`. Returns (start, length) of each job.
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
        let (task, log) = Periodic::new(0, 2, 10, 5);
        assert_eq!(alone(task, 35), [(5, 2), (15, 2), (25, 2)]);
        assert_eq!(log.borrow().response, [2, 2, 2]);
        assert_eq!((log.borrow().missed, log.borrow().due), (0, 45));
    }

    #[test]
    fn sporadic_jobs_are_at_least_a_period_apart() {
        let arrivals = |seed| Arrivals {
            extra: 5,
            rng: Rng::new(seed),
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
    fn all_jobs_of_a_burst_are_released_together_with_the_same_deadline() {
        let arrivals = Arrivals {
            burst: 3,
            ..Arrivals::periodic(10)
        };
        let (task, log) = Periodic::arriving(0, 4, 0, arrivals);
        assert_eq!(
            alone(task, 20),
            [(0, 4), (4, 4), (8, 4), (12, 4), (16, 4)],
            "the third is late, and the next burst follows at once"
        );
        assert_eq!(log.borrow().response[..3], [4, 8, 12]);
        assert_eq!(log.borrow().missed, 1);
    }

    #[test]
    fn a_job_that_is_not_completed_is_late_after_its_deadline() {
        let (_, log) = Periodic::new(0, 2, 10, 5);
        assert!(!log.borrow().late(15));
        assert!(log.borrow().late(16));
    }
}
