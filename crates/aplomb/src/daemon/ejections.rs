//! How often in a row the kernel has ended the scheduler, and when the daemon gives up.
//!
//! The kernel ends a scheduler that leaves a task waiting for 30 s, or that makes an error. Then
//! systemd starts the daemon again. If the scheduler is always ended again, each start disturbs the
//! machine for nothing. So the reasons are kept in a file in the run directory, which outlives the
//! daemon and ends with the boot:
//!
//! ```text
//!   attached for 10 min, or stopped on request:  the row ends, the file goes
//!   ended earlier:   1st, 2nd in a row: exit code 1, systemd starts the daemon again
//!                    3rd: exit code 6, which systemd takes as final
//!   started by hand after that: a new row
//! ```

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use tracing::warn;

use crate::exit::{Exit, Failure};

/// The end that follows this number of ends in a row is final.
pub const MOST_IN_A_ROW: usize = 3;
/// A scheduler that was attached for this long works: its end begins a new row.
pub const LONG: Duration = Duration::from_secs(600);
/// Bytes of a reason that are kept, and of the file that are read.
const MAX_REASON: usize = 500;
const MAX_FILE: u64 = 4096;

/// The row so far.
#[derive(Debug)]
pub struct Ejections {
    path: PathBuf,
    /// The latest last.
    reasons: Vec<String>,
}

impl Ejections {
    /// Read what earlier daemons wrote beside `socket`. After the final end of a row, this is a
    /// start by hand, which begins a new one.
    pub fn read(socket: &Path) -> Self {
        let path = file(socket);
        let mut reasons = reasons(&path);
        if reasons.len() >= MOST_IN_A_ROW {
            reasons.clear();
        }
        Self { path, reasons }
    }

    /// The kernel has ended a scheduler that was attached for `ran`. Returns the error with which
    /// the daemon ends.
    pub fn another(&mut self, ran: Duration, message: &str) -> anyhow::Error {
        if ran >= LONG {
            self.reasons.clear();
        }
        let mut reason: String = message.replace(char::is_control, " ");
        let end = (0..=MAX_REASON).rev().find(|n| reason.is_char_boundary(*n));
        reason.truncate(end.unwrap_or(0));
        self.reasons.push(reason);
        if let Err(e) = fs::write(&self.path, self.reasons.join("\n")) {
            warn!("{}: {e}", self.path.display());
        }
        if self.reasons.len() < MOST_IN_A_ROW {
            return anyhow!("{message}");
        }
        Failure::new(
            Exit::GivenUp,
            format!("{message}. This is the end {MOST_IN_A_ROW} times in a row, so aplomb gives up until it is started by hand"),
        )
        .into()
    }

    /// The daemon was asked to stop: the row ends.
    pub fn forget(&mut self) {
        self.reasons.clear();
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => warn!("{}: {e}", self.path.display()),
            _ => {}
        }
    }
}

/// What a client says that finds no daemon: that it gave up, and why. None if it did not.
pub fn given_up(socket: &Path) -> Option<String> {
    let reasons = reasons(&file(socket));
    let last = reasons.last().filter(|_| reasons.len() >= MOST_IN_A_ROW)?;
    Some(format!(
        "aplomb has given up: the kernel ended its scheduler {} times in a row. The last time: {last}",
        reasons.len()
    ))
}

fn file(socket: &Path) -> PathBuf {
    socket.with_file_name("ejections")
}

/// The reasons in the file; none if it cannot be read.
fn reasons(path: &Path) -> Vec<String> {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|f| f.take(MAX_FILE).read_to_string(&mut text));
    match read {
        Ok(_) => text.lines().map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::code_of;

    const SHORT: Duration = Duration::from_secs(40);

    /// A daemon starts, and the kernel ends its scheduler after `ran`.
    fn end(socket: &Path, ran: Duration) -> Exit {
        code_of(&Ejections::read(socket).another(ran, "runnable task stall\n(x[1])"))
    }

    #[test]
    fn the_third_end_in_a_row_is_final() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        assert_eq!(end(&socket, SHORT), Exit::Failure);
        assert_eq!(given_up(&socket), None);
        assert_eq!(end(&socket, SHORT), Exit::Failure);
        assert_eq!(end(&socket, SHORT), Exit::GivenUp);
        let told = given_up(&socket).unwrap();
        assert!(told.contains("stall (x[1])"), "one line: {told}");
        assert_eq!(end(&socket, SHORT), Exit::Failure, "started by hand");
        assert_eq!(given_up(&socket), None);
    }

    #[test]
    fn a_long_run_and_a_stop_end_the_row() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        for _ in 0..5 {
            assert_eq!(end(&socket, SHORT), Exit::Failure);
            assert_eq!(end(&socket, LONG), Exit::Failure);
        }
        for _ in 0..5 {
            assert_eq!(end(&socket, SHORT), Exit::Failure);
            Ejections::read(&socket).forget();
        }
        assert!(!file(&socket).exists());
    }

    #[test]
    fn the_file_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        for _ in 0..3 {
            Ejections::read(&socket).another(SHORT, &"é".repeat(10_000));
        }
        assert!(fs::metadata(file(&socket)).unwrap().len() < MAX_FILE);
        fs::write(file(&socket), [0xff; 10]).unwrap();
        assert_eq!(given_up(&socket), None);
    }
}
