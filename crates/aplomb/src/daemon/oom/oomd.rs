//! systemd-oomd, where it runs: it kills whole cgroups before the kernel has to.
//!
//! - **Preference.** It prefers other cgroups to one with the attribute `user.oomd_avoid`. The
//!   cgroup of an interactive process gets the attribute while memory is short, but only if the
//!   discounts of its processes are at least what the whole cgroup uses. So best-effort children in
//!   it, or a user beyond the cap, are not hidden behind an interactive program. oomd honours the
//!   attribute of a cgroup that belongs to root or to the owner of the cgroup that it watches.
//!   `user.oomd_omit` is the administrator's: it would leave oomd nothing to kill.
//! - **Event.** Its D-Bus signal `Killed` becomes an event. A thread waits for the signals, since
//!   zbus has no other blocking way; it only passes them on.
//! - **Prekill hook** (systemd 260): not used. It delays each kill until the hook has answered, is
//!   off unless `PrekillHookTimeoutSec=` is set, and tells no more than the signal.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver};
use std::sync::Arc;

use aplomb_domain::{is_booted, oomd, DomainPath};
use aplomb_kernel::{Event, EventKind};
use aplomb_memory::{cgroup, knob, Bytes, Journal, MemoryError};
use rustix::event::{eventfd, EventfdFlags};
use tracing::info;

use crate::explain::killed::oomd_number;

/// The socket on which oomd listens while it runs.
const RUNNING: &str = "/run/systemd/oom/io.systemd.ManagedOOM";
const AVOID: &str = "user.oomd_avoid";
/// Signals that wait for the daemon. More are lost; oomd kills at most a few in a second.
const WAITING: usize = 64;
/// Bytes of a cgroup's path, and of a reason, that are passed on.
const MAX_TEXT: usize = 256;

/// What systemd-oomd has killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Killed {
    pub cgroup: String,
    /// "memory-used" or "memory-pressure".
    pub reason: String,
}

impl Killed {
    /// The event. Its name is the end of the cgroup's.
    pub fn event(&self, time_ns: u64) -> Event {
        let mut comm = [0; 16];
        let name = self.cgroup.as_bytes();
        let end = &name[name.len().saturating_sub(comm.len() - 1)..];
        comm[..end.len()].copy_from_slice(end);
        Event {
            time_ns,
            kind: EventKind::Killed,
            cpu: -1,
            pid: 0,
            spec_id: 0,
            user: 0,
            a: oomd_number(&self.reason),
            b: 0,
            c: 0,
            comm,
        }
    }
}

/// systemd-oomd.
#[derive(Debug, Default)]
pub struct Oomd {
    /// The attributes that we have set.
    set: BTreeSet<PathBuf>,
    listener: Option<(Arc<OwnedFd>, Receiver<Killed>)>,
}

impl Oomd {
    /// Listen to its signals, where systemd is process 1. It may be started later.
    pub fn start() -> Self {
        let listener = is_booted().then(listen).and_then(|listener| {
            listener
                .inspect_err(|e| info!("what systemd-oomd kills is not reported: {e}"))
                .ok()
        });
        Self {
            set: BTreeSet::new(),
            listener,
        }
    }

    /// Readable when a signal has come.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|(bell, _)| bell.as_fd())
    }

    /// The signals since the last call.
    pub fn take(&mut self) -> Vec<Killed> {
        let Some((bell, signals)) = &self.listener else {
            return Vec::new();
        };
        let _ = rustix::io::read(bell, &mut [0; 8]); // it does not block
        signals.try_iter().collect()
    }

    /// Set the attribute of the cgroups whose processes have at least the discounts that the cgroup
    /// needs, and of no others. Returns what went wrong.
    pub fn prefer(
        &mut self,
        journal: &mut Journal,
        root: &Path,
        discounts: impl Iterator<Item = (DomainPath, Bytes)>,
    ) -> Vec<MemoryError> {
        if !Path::new(RUNNING).exists() {
            return Vec::new();
        }
        self.set_for(journal, root, discounts)
    }

    fn set_for(
        &mut self,
        journal: &mut Journal,
        root: &Path,
        discounts: impl Iterator<Item = (DomainPath, Bytes)>,
    ) -> Vec<MemoryError> {
        let mut sums: BTreeMap<DomainPath, u64> = BTreeMap::new();
        for (at, bytes) in discounts {
            let sum = sums.entry(at).or_default();
            *sum = sum.saturating_add(bytes.0);
        }
        let mut wanted = BTreeSet::new();
        for (at, sum) in sums {
            let mut dir = root.to_path_buf();
            dir.extend(at.parts());
            if usage(&dir).is_some_and(|usage| usage <= sum) {
                wanted.insert(knob::of_attribute(&dir, AVOID));
            }
        }
        let mut complaints = Vec::new();
        for old in self.set.difference(&wanted) {
            complaints.extend(journal.restore(old).err());
        }
        self.set.clear();
        for new in wanted {
            match journal.set(&new, "1") {
                Ok(()) => {
                    self.set.insert(new);
                }
                Err(e) => complaints.push(e),
            }
        }
        complaints.retain(|e| !e.is_vanished());
        complaints
    }

    /// The journal has put all attributes back.
    pub fn forget(&mut self) {
        self.set.clear();
    }
}

/// Memory and swap of a cgroup, bytes.
fn usage(dir: &Path) -> Option<u64> {
    let memory = cgroup::current(dir).ok()??;
    let swap = std::fs::read_to_string(dir.join("memory.swap.current")).ok();
    let swap = swap.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Some(memory.0.saturating_add(swap))
}

fn listen() -> std::io::Result<(Arc<OwnedFd>, Receiver<Killed>)> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let bell = Arc::new(bell);
    let (sender, receiver) = sync_channel(WAITING);
    let ring = Arc::clone(&bell);
    oomd::listen(move |cgroup, reason| {
        let killed = Killed {
            cgroup: harmless(cgroup),
            reason: harmless(reason),
        };
        let _ = sender.try_send(killed); // full: the daemon has enough to report
        let _ = rustix::io::write(&ring, &1u64.to_ne_bytes());
    })?;
    Ok((bell, receiver))
}

/// A text of another program for a message: no control characters, not too long.
fn harmless(text: &str) -> String {
    let chars = text.chars().map(|c| if c.is_control() { '?' } else { c });
    chars.take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Attributes of user files work in /var/tmp, unlike in some /tmp.
    #[test]
    fn only_cgroups_within_their_discounts_are_preferred() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = dir.path();
        for (name, usage, swap) in [("player", "1000", "0"), ("hog", "900", "200")] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join("memory.current"), usage).unwrap();
            fs::write(root.join(name).join("memory.swap.current"), swap).unwrap();
        }
        let mut journal = Journal::open(&root.join("journal")).unwrap();
        let mut oomd = Oomd::default();
        let at = |name: &str| name.parse::<DomainPath>().unwrap();
        let value = |name: &str| knob::read(&knob::of_attribute(&root.join(name), AVOID)).unwrap();
        let both = [("player", 600), ("player", 400), ("hog", 1000), ("gone", 1)];
        let both = both.map(|(name, bytes)| (at(name), Bytes(bytes)));
        let complaints = oomd.set_for(&mut journal, root, both.into_iter());
        if !complaints.is_empty() {
            return; // this file system has no such attributes
        }
        assert_eq!((value("player").as_str(), value("hog").as_str()), ("1", ""));
        // The player has grown.
        let complaints = oomd.set_for(&mut journal, root, [(at("player"), Bytes(999))].into_iter());
        assert!(complaints.is_empty() && value("player").is_empty());
        assert!(journal.is_empty());
    }

    #[test]
    fn a_kill_is_an_event_with_the_end_of_the_name() {
        let mut killed = Killed {
            cgroup: "/user.slice/app-gnome-firefox-812.scope".into(),
            reason: "memory-pressure".into(),
        };
        let event = killed.event(7);
        assert_eq!((event.time_ns, event.a, event.pid), (7, 1, 0));
        assert_eq!(&event.comm, b"refox-812.scope\0");
        killed.cgroup = "/x".into();
        assert_eq!(&killed.event(7).comm[..3], b"/x\0");
    }

    #[test]
    fn texts_of_others_are_cut() {
        assert_eq!(harmless("a\nb\x1b[0m"), "a?b?[0m");
        assert_eq!(harmless(&"x".repeat(1000)).len(), MAX_TEXT);
    }
}
