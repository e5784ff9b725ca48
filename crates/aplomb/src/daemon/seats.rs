//! Which users have the active session of a seat: those in front of a screen. Their programs may
//! use more of the machine than other users' (bpf/reserved/owner.bpf.h).
//!
//! systemd-logind keeps a file for each seat, and replaces it when another session becomes the
//! active one. libsystemd reads the same files (`sd_seat_get_active`).

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use aplomb_kernel::{limits, Kernel};
use inotify::{Inotify, WatchMask};
use tracing::warn;

const SEATS: &str = "/run/systemd/seats";
/// The bytes that are read of a seat's file; logind's have some hundred.
const MAX_BYTES: usize = 16 << 10;
/// The field of a seat's file that has the user id.
const FIELD: &str = "ACTIVE_UID=";

/// The seats of this machine, and the watch on them.
#[derive(Debug)]
pub struct Seats {
    dir: PathBuf,
    /// None: there is no systemd-logind, or its files cannot be watched.
    inotify: Option<Inotify>,
}

impl Seats {
    pub fn system() -> Self {
        Self::at(Path::new(SEATS))
    }

    fn at(dir: &Path) -> Self {
        let watched = || -> std::io::Result<Inotify> {
            let inotify = Inotify::init()?;
            let what = WatchMask::MOVED_TO | WatchMask::CLOSE_WRITE | WatchMask::DELETE;
            inotify.watches().add(dir, what)?;
            Ok(inotify)
        };
        let inotify = dir.is_dir().then(watched).and_then(|watched| {
            let report = |e: &std::io::Error| {
                warn!("{}: changes will not be seen: {e}", dir.display());
            };
            watched.inspect_err(report).ok()
        });
        Self {
            dir: dir.into(),
            inotify,
        }
    }

    /// Becomes readable when a seat has changed.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// A seat has changed.
    pub fn changed(&mut self, kernel: &mut dyn Kernel) {
        let mut buffer = [0; 4096];
        if let Some(inotify) = &mut self.inotify {
            while inotify
                .read_events(&mut buffer)
                .is_ok_and(|mut events| events.next().is_some())
            {}
        }
        self.tell(kernel);
    }

    /// Tell the kernel side which users have a seat.
    pub fn tell(&self, kernel: &mut dyn Kernel) {
        kernel.set_seat_users(users(&self.dir).as_deref());
    }
}

/// The users of the active sessions of all seats, without root. None: there is no systemd-logind.
fn users(dir: &Path) -> Option<Vec<u32>> {
    let files = std::fs::read_dir(dir).ok()?;
    let seats = files.flatten().take(limits::MAX_SEATS as usize);
    let mut users: Vec<u32> = seats.filter_map(|seat| user(&seat.path())).collect();
    users.sort_unstable();
    users.dedup();
    Some(users)
}

fn user(seat: &Path) -> Option<u32> {
    let bytes = std::fs::read(seat).ok()?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_BYTES)]).into_owned();
    let uid = text.lines().find_map(|line| line.strip_prefix(FIELD))?;
    uid.trim().parse().ok().filter(|uid| *uid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::Fake;

    #[test]
    fn the_active_users_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::new();
        let mut kernel: Box<dyn Kernel> = Box::new(fake.clone());
        let none = Seats::at(&dir.path().join("none"));
        none.tell(&mut *kernel);
        assert!(none.fd().is_none());
        assert_eq!(fake.seen.borrow().seat_users, None, "all users have one");
        let mut seats = Seats::at(dir.path());
        seats.tell(&mut *kernel);
        assert_eq!(fake.seen.borrow().seat_users, Some(vec![]));
        let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        file(
            "seat0",
            "# private\nACTIVE=c2\nACTIVE_UID=1001\nIS_SEAT0=1\n",
        );
        file("seat1", "ACTIVE_UID=1000\n");
        file("seat2", "ACTIVE_UID=0\n");
        file("seat3", "IS_SEAT0=0\n");
        file("seat4", "ACTIVE_UID=x\nACTIVE_UID=9");
        file("seat5", "\u{fffd}ACTIVE_UID=7");
        seats.changed(&mut *kernel);
        assert_eq!(fake.seen.borrow().seat_users, Some(vec![1000, 1001]));
    }
}
