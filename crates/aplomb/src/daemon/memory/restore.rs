//! Puts back what a daemon that was killed has left: `aplomb restore`, which systemd runs whenever
//! the daemon has ended (ExecStopPost). So no setting outlives a daemon that is not started again.

use std::path::Path;

use anyhow::Result;
use aplomb_domain::Tree;
use aplomb_memory::{journal, Journal, MemoryError};
use tracing::warn;

use super::domain::empty_all;
use crate::daemon::{disk, oom};

/// Put back all knobs in the journal, and the processes in the daemon's domains. Returns the knobs
/// that could not be put back, or that another program has changed since.
///
/// # Errors
/// A daemon runs and has the journal open; it cannot be read.
pub fn restore() -> Result<Vec<MemoryError>> {
    let mut complaints = put_back(Path::new(journal::DEFAULT))?;
    complaints.extend(disk::restore()?);
    if let Ok(tree) = Tree::system() {
        // Before the processes leave their domains, by which those are known that inherited a
        // value.
        complaints.extend(oom::restore(tree.root())?);
        empty_all(&tree);
    }
    Ok(complaints)
}

/// Put back the knobs that an earlier daemon left, if it left any. The log says what went wrong.
pub(super) fn put_back_and_say() {
    match put_back(Path::new(journal::DEFAULT)) {
        Ok(complaints) => complaints.iter().for_each(|complaint| warn!("{complaint}")),
        Err(e) => warn!("{e:#}"),
    }
}

fn put_back(journal: &Path) -> Result<Vec<MemoryError>> {
    if !journal.exists() {
        return Ok(Vec::new());
    }
    Ok(Journal::open(journal)?.recover().complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_of_a_killed_daemon_go_back_and_those_of_a_running_one_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let (knob, other) = (dir.path().join("memory.min"), dir.path().join("other"));
        let journal = dir.path().join("run/knobs");
        assert!(put_back(&journal).unwrap().is_empty());
        assert!(!journal.exists(), "none was made");
        std::fs::write(&knob, "0").unwrap();
        std::fs::write(&other, "1").unwrap();
        let mut running = Journal::open(&journal).unwrap();
        running.set(&knob, "max").unwrap();
        running.set(&other, "2").unwrap();
        assert!(put_back(&journal).is_err());
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), "max");
        drop(running); // killed
        std::fs::write(&other, "3").unwrap();
        // A child that another test forks has the lock, too, until it execs.
        let complaints = (0..200)
            .find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                put_back(&journal).ok()
            })
            .unwrap();
        assert_eq!(complaints.len(), 1, "another program has changed it");
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), "0");
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "3");
        assert!(put_back(&journal).unwrap().is_empty());
    }
}
