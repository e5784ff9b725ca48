//! A task that runs and sleeps at random, for short and long times, and that forks, executes and
//! exits.

use std::cell::Cell;
use std::rc::Rc;

use crate::rng::Rng;
use crate::task::{Program, Step};

/// See the file's header.
pub struct Random {
    rng: Rng,
    /// The task executes the programs 1 to `programs`.
    programs: u64,
    /// The program that the task executes first (0: none).
    ino: u64,
    /// Number of forks that are left to the task and all its children together.
    forks: Rc<Cell<u32>>,
    /// It has begun to exit.
    exiting: bool,
}

impl Random {
    /// A task that executes the programs 1 to `programs` (0: none). Its children share `forks`.
    pub fn new(seed: u64, programs: u64, forks: &Rc<Cell<u32>>) -> Self {
        Self {
            rng: Rng::new(seed),
            programs,
            ino: 0,
            forks: Rc::clone(forks),
            exiting: false,
        }
    }

    /// A task that only runs and sleeps. It executes the program `ino` first (0: none).
    pub fn alone(ino: u64, seed: u64) -> Self {
        Self {
            ino,
            ..Self::new(seed, 0, &Rc::default())
        }
    }
}

impl Program for Random {
    fn next(&mut self, now: u64, _ran: u64) -> Step {
        if self.ino != 0 {
            return Step::Exec(std::mem::take(&mut self.ino));
        }
        let rng = &mut self.rng;
        if self.exiting {
            return match rng.below(2) {
                0 => Step::Run(rng.between(1, 30_000_000)), // it frees its memory
                _ => Step::Exit,
            };
        }
        match rng.below(20) {
            0 if self.forks.get() > 0 => {
                self.forks.set(self.forks.get() - 1);
                Step::Fork(rng.next_u64())
            }
            1 if self.programs > 0 => Step::Exec(rng.between(1, self.programs)),
            2 if self.programs > 0 && rng.below(4) == 0 => {
                self.exiting = true;
                Step::BeginExit
            }
            3..=8 => Step::SleepUntil(now + rng.between(1, 30_000_000)),
            9..=11 => Step::SleepUntil(now + rng.between(1, 100_000)),
            12..=14 => Step::Run(rng.between(1, 30_000_000)),
            _ => Step::Run(rng.between(1, 300_000)),
        }
    }

    fn child(&mut self, which: u64) -> Box<dyn Program> {
        Box::new(Self::new(which, self.programs, &self.forks))
    }
}
