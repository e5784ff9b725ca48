//! Tasks without jobs: endless, on-off, and a fork bomb.

use crate::task::{Program, Step};

/// A task that never stops. It executes the program `ino` first (0: none).
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

/// A task that runs for `on` ns, sleeps for `off` ns, and so on. It executes the program `ino`
/// first (0: none).
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

/// A fork bomb: the number of its tasks doubles again and again. Each task uses `pause` ns of CPU
/// between forks. When the final number is reached, all tasks run without end.
pub struct Bomb {
    ino: u64,
    pause: u64,
    /// Number of tasks that this one and its children still have to fork.
    more: u64,
    /// The last step was a pause, so the next one is a fork.
    forks: bool,
}

impl Bomb {
    /// A bomb that grows to `tasks` tasks, the first one included. Each uses `pause` ns of CPU
    /// between forks. The first task executes the program `ino` at its start (0: none).
    pub fn new(ino: u64, tasks: u64, pause: u64) -> Self {
        Self {
            ino,
            pause,
            more: tasks.saturating_sub(1),
            forks: false,
        }
    }
}

impl Program for Bomb {
    fn next(&mut self, _: u64, _: u64) -> Step {
        if self.ino != 0 {
            return Step::Exec(std::mem::take(&mut self.ino));
        }
        if self.more == 0 {
            return Step::Run(1_000_000_000);
        }
        self.forks = !self.forks;
        if self.forks {
            return Step::Run(self.pause.max(1));
        }
        // the child takes half of the tasks to come, itself included
        let child = self.more.div_ceil(2);
        self.more -= child;
        Step::Fork(child)
    }

    fn child(&mut self, which: u64) -> Box<dyn Program> {
        Box::new(Bomb::new(0, which, self.pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_grows_to_its_size() {
        for tasks in [1, 2, 7, 100] {
            let mut bombs: Vec<Box<dyn Program>> = vec![Box::new(Bomb::new(0, tasks, 5))];
            for at in 0.. {
                let Some(mut bomb) = bombs
                    .get_mut(at)
                    .map(|b| std::mem::replace(b, Box::new(crate::task::Ends)))
                else {
                    break;
                };
                loop {
                    match bomb.next(0, 0) {
                        Step::Fork(which) => bombs.push(bomb.child(which)),
                        Step::Run(5) => {}
                        step => break assert_eq!(step, Step::Run(1_000_000_000)),
                    }
                }
            }
            assert_eq!(bombs.len() as u64, tasks);
        }
    }
}
