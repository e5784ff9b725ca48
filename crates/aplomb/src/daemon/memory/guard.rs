//! Notices when another program changes a knob that we turned.
//!
//! Where systemd is process 1, it writes all memory settings of a unit anew when one setting of the
//! unit or of a unit beside it changes (`systemctl set-property`, a unit that needs another
//! controller), and so resets memory.min. The kernel reports such a write to a watch on the file.
//!
//! A watch reports one write and is gone (IN_ONESHOT) until [`Guard::watch`] sets it again. So a
//! user who writes to the files of the user's own cgroups all the time wakes the daemon no more
//! often than it sets the watches.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use inotify::{Inotify, WatchMask};

/// Watches on knobs.
#[derive(Debug)]
pub struct Guard {
    inotify: Inotify,
}

impl Guard {
    /// # Errors
    /// The user's limit of inotify instances is reached.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            inotify: Inotify::init()?,
        })
    }

    /// Forget what was reported until now.
    pub fn clear(&mut self) {
        let mut buffer = [0; 4096];
        while self.inotify.read_events(&mut buffer).is_ok() {}
    }

    /// Report the next write to each of `knobs`. If one has another value than it should have, it
    /// is written after this, so that no write of another program is missed.
    ///
    /// # Errors
    /// The user's limit of watches is reached.
    pub fn watch(&mut self, knobs: &BTreeSet<PathBuf>) -> io::Result<()> {
        self.clear();
        let mut watches = self.inotify.watches();
        for knob in knobs {
            // The kernel keeps one watch for a file. That of a removed cgroup is gone.
            let mask = WatchMask::MODIFY | WatchMask::ONESHOT;
            match watches.add(knob, mask) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

impl AsFd for Guard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{poll, PollFd, PollFlags, Timespec};

    fn is_readable(guard: &Guard) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(guard, PollFlags::IN)];
        poll(&mut fds, Some(&now)).unwrap() == 1
    }

    #[test]
    fn a_write_is_reported_once_until_it_is_watched_again() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, gone] = ["a", "b", "gone"].map(|n| dir.path().join(n));
        std::fs::write(&a, "0").unwrap();
        std::fs::write(&b, "0").unwrap();
        let mut guard = Guard::new().unwrap();
        let knobs = BTreeSet::from([a.clone(), gone]);
        guard.watch(&knobs).unwrap();
        std::fs::read(&a).unwrap();
        std::fs::write(&b, "1").unwrap();
        assert!(
            !is_readable(&guard),
            "b is not watched, and a was only read"
        );
        std::fs::write(&a, "1").unwrap();
        assert!(is_readable(&guard));
        guard.clear();
        assert!(!is_readable(&guard));
        std::fs::write(&a, "2").unwrap();
        assert!(!is_readable(&guard), "its watch was for one write");
        guard.watch(&knobs).unwrap();
        std::fs::write(&a, "3").unwrap();
        assert!(is_readable(&guard));
    }
}
