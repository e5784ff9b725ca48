//! The line on standard error that shows how far a long command is.
//!
//! On a terminal one line is written over and over, and erased in the end. In a file there is a
//! line each 30 s. A command that takes less than 2 s writes nothing.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shorter commands print no progress.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the line changes on a terminal, and how often one is added to a file.
const EVERY_TERMINAL: Duration = Duration::from_millis(200);
const EVERY_FILE: Duration = Duration::from_secs(30);

pub struct Progress {
    began: Instant,
    terminal: bool,
    next: Instant,
    /// Width of the line on the terminal, to erase it.
    width: usize,
}

impl Progress {
    pub fn new() -> Self {
        let (began, terminal) = (Instant::now(), std::io::stderr().is_terminal());
        let first = if terminal { PATIENCE } else { EVERY_FILE };
        Self {
            began,
            terminal,
            next: began + first,
            width: 0,
        }
    }

    /// The time since the command began.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Show `text`, if the last text is old enough.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let text = text();
        let mut err = std::io::stderr().lock();
        // a closed standard error must not end the command
        if self.terminal {
            let _ = write!(err, "\r{text:<width$}", width = self.width);
            self.width = text.chars().count();
            self.next = now + EVERY_TERMINAL;
        } else {
            let _ = writeln!(err, "{text}");
            self.next = now + EVERY_FILE;
        }
        let _ = err.flush();
    }

    /// Show `done` of `jobs`, and how much time the rest takes if it goes on like this.
    pub fn show_jobs(&mut self, done: usize, jobs: usize) {
        let passed = self.elapsed().as_secs_f64();
        self.show(|| {
            let left = passed / done.max(1) as f64 * (jobs - done) as f64;
            format!("{done} of {jobs} jobs, {passed:.0} s, about {left:.0} s left")
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.width > 0 {
            eprint!("\r{:width$}\r", "", width = self.width);
        }
    }
}
