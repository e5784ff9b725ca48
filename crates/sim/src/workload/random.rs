//! A task that does anything, for tests and as noise: runs and sleeps, long and short, forks, executes, ends.

use std::cell::Cell;
use std::rc::Rc;

use crate::chance::Chance;
use crate::task::{Program, Step};

/// See the file's header.
pub struct Random {
    chance: Chance,
    /// Programs that it executes: numbers 1 to that.
    programs: u64,
    /// Executed before anything else (0: none).
    ino: u64,
    /// Forks that it and its children may still do, all together.
    forks: Rc<Cell<u32>>,
}

impl Random {
    /// Executes the programs 1 to `programs` (0: none); `forks` is shared by a family.
    pub fn new(seed: u64, programs: u64, forks: &Rc<Cell<u32>>) -> Self {
        Self {
            chance: Chance::new(seed),
            programs,
            ino: 0,
            forks: Rc::clone(forks),
        }
    }

    /// One that runs and sleeps only, after it has executed the program `ino` (0: none).
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
        let chance = &mut self.chance;
        match chance.below(20) {
            0 if self.forks.get() > 0 => {
                self.forks.set(self.forks.get() - 1);
                Step::Fork(chance.any())
            }
            1 if self.programs > 0 => Step::Exec(chance.between(1, self.programs)),
            2 if self.programs > 0 && chance.below(4) == 0 => Step::Exit,
            3..=8 => Step::SleepUntil(now + chance.between(1, 30_000_000)),
            9..=11 => Step::SleepUntil(now + chance.between(1, 100_000)),
            12..=14 => Step::Run(chance.between(1, 30_000_000)),
            _ => Step::Run(chance.between(1, 300_000)),
        }
    }

    fn child(&mut self, which: u64) -> Box<dyn Program> {
        Box::new(Self::new(which, self.programs, &self.forks))
    }
}
