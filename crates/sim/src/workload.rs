//! Behaviours of tasks: periodic, endless, on-off, and one that forks.

use std::cell::RefCell;
use std::rc::Rc;

use crate::task::{Program, Step};

/// What a periodic task has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// Response times of finished jobs, ns, in order.
    pub response: Vec<u64>,
    /// Jobs that ended after the next one was due.
    pub missed: u64,
}

/// Uses `work` ns in every `period` ns, from `first` on; executes the program `ino` before that (0: none).
/// A job that is late is followed by the next at once.
pub struct Periodic {
    ino: u64,
    work: u64,
    period: u64,
    release: u64,
    begun: bool,
    busy: bool,
    jobs: Rc<RefCell<Jobs>>,
}

impl Periodic {
    /// The task, and where it will note its jobs.
    pub fn new(ino: u64, work: u64, period: u64, first: u64) -> (Self, Rc<RefCell<Jobs>>) {
        let jobs = Rc::new(RefCell::new(Jobs::default()));
        let noted = Rc::clone(&jobs);
        let task = Self {
            ino,
            work,
            period,
            release: first,
            begun: ino == 0,
            busy: false,
            jobs,
        };
        (task, noted)
    }
}

impl Program for Periodic {
    fn next(&mut self, now: u64, _ran: u64) -> Step {
        if !self.begun {
            self.begun = true;
            return Step::Exec(self.ino);
        }
        if self.busy {
            let mut jobs = self.jobs.borrow_mut();
            jobs.response.push(now - self.release);
            jobs.missed += u64::from(now > self.release + self.period);
            self.release += self.period;
            self.busy = false;
        }
        if now < self.release {
            return Step::SleepUntil(self.release);
        }
        self.busy = true;
        Step::Run(self.work)
    }
}

/// Never stops. Executes the program `ino` first (0: none).
pub fn hog(ino: u64) -> impl Program {
    let mut begun = ino == 0;
    move |_now: u64, _ran: u64| {
        if std::mem::replace(&mut begun, true) {
            Step::Run(1_000_000_000)
        } else {
            Step::Exec(ino)
        }
    }
}

/// Runs for `on` ns, sleeps for `off` ns; executes the program `ino` first (0: none).
pub fn on_off(ino: u64, on: u64, off: u64) -> impl Program {
    let mut begun = ino == 0;
    let mut sleeps = true;
    move |now: u64, _ran: u64| {
        if !std::mem::replace(&mut begun, true) {
            return Step::Exec(ino);
        }
        sleeps = !sleeps;
        if sleeps {
            Step::SleepUntil(now + off)
        } else {
            Step::Run(on)
        }
    }
}
