//! The queues of disks while their requests are ordered: what the kernel's own scheduler of a disk
//! needs, to let a request of an interactive program go first.
//!
//!  - It orders only the requests that it has. The kernel lets it have few for a disk that serves
//!    few at a time (2 for one that serves one), and others wait in front of it, first come, first
//!    served. So it may have more (`nr_requests`).
//!  - A request that the disk has begun is done first, and so are some that are on the way to it.
//!    One of 1,280 kB takes a disk of 40 MB/s 32 ms. So requests are smaller (`max_sectors_kb`).
//!    The trade: more requests for the same bytes. At 256 kB that costs no disk much: the request
//!    takes far longer than the time between two.
//!
//! The kernel takes no fewer than 4 requests by that knob: a disk for which it chose 2 has 4
//! afterwards.
//!
//! A change of the number stops the disk until all requests that it has are done. So it is made
//! when the daemon starts, and not when programs wait.
//!
//! A disk without a scheduler is left alone: it is a fast one.

use std::collections::BTreeSet;
use std::path::Path;

use aplomb_disk::Disk;
use aplomb_memory::{Journal, MemoryError};
use tracing::warn;

const JOURNAL: &str = "/run/aplomb/disk-queues";
/// Requests that a scheduler may have, at least: those of ten programs that read 20 MB at a time
/// from a disk that takes 100 kB at a time. It is the most that the kernel allows (`MAX_SCHED_RQ`), and
/// takes about a megabyte for each queue of the disk.
const QUEUED: u32 = 2048;
/// The largest request, kB, at most.
const LARGEST_KB: u32 = 256;

/// The queues that are not as they were.
#[derive(Debug)]
pub struct Queues {
    journal: Journal,
}

impl Queues {
    /// Put back what an earlier daemon left.
    ///
    /// # Errors
    /// Another process has the journal open; it cannot be read or made.
    pub fn open() -> Result<Self, MemoryError> {
        Self::at(Path::new(JOURNAL))
    }

    fn at(path: &Path) -> Result<Self, MemoryError> {
        let mut journal = Journal::open(path)?;
        for complaint in journal.recover().complaints {
            warn!("{complaint}");
        }
        Ok(Self { journal })
    }

    /// Turn the queues of those disks that have a scheduler and are not `stopped`. `sys`: where
    /// sysfs is mounted.
    pub fn turn(&mut self, sys: &Path, disks: &[Disk], stopped: &BTreeSet<String>) {
        let wanted = |d: &&Disk| {
            !stopped.contains(&d.name) && d.scheduler.as_deref().is_some_and(|s| s != "none")
        };
        for disk in disks.iter().filter(wanted) {
            let queue = sys.join("block").join(&disk.name).join("queue");
            self.set(&queue.join("nr_requests"), |now| now.max(QUEUED));
            self.set(&queue.join("max_sectors_kb"), |now| now.min(LARGEST_KB));
        }
    }

    /// Set a knob to what `wanted` makes of its value.
    fn set(&mut self, knob: &Path, wanted: impl Fn(u32) -> u32) {
        let now = std::fs::read_to_string(knob).ok();
        let Some(now) = now.and_then(|text| text.trim().parse::<u32>().ok()) else {
            return; // the disk went, or has no such knob
        };
        if wanted(now) == now {
            return;
        }
        if let Err(e) = self.journal.set(knob, &wanted(now).to_string()) {
            warn!("requests of interactive programs wait for longer: {e}");
        }
    }

    /// All queues are as they were.
    pub fn put_back(&mut self) {
        for complaint in self.journal.restore_all().complaints {
            warn!("{complaint}");
        }
    }
}

/// Put back what a daemon that was killed has left.
///
/// # Errors
/// A daemon runs and has the journal open; it cannot be read.
pub fn restore() -> Result<(), MemoryError> {
    if Path::new(JOURNAL).exists() {
        Queues::open()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_turned_and_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let knob = |disk: &str, name: &str| at("sys/block").join(disk).join("queue").join(name);
        let mut disks = Vec::new();
        for (name, scheduler, requests, kb) in [
            ("sda", Some("mq-deadline"), 2, 1280),
            ("sdb", Some("bfq"), 512, 64),
            ("sdc", Some("none"), 64, 1280),
            ("sdd", Some("mq-deadline"), 64, 512),
            ("dm-0", None, 128, 1280),
        ] {
            disks.push(Disk {
                name: name.into(),
                scheduler: scheduler.map(Into::into),
                ..super::super::order::tests::disk(name, 1, &[])
            });
            std::fs::create_dir_all(knob(name, "x").parent().unwrap()).unwrap();
            std::fs::write(knob(name, "nr_requests"), requests.to_string()).unwrap();
            std::fs::write(knob(name, "max_sectors_kb"), kb.to_string()).unwrap();
        }
        let all = || {
            disks.iter().map(|d| {
                let read = |name| std::fs::read_to_string(knob(&d.name, name)).unwrap();
                format!("{} {}", read("nr_requests"), read("max_sectors_kb"))
            })
        };
        let before: Vec<String> = all().collect();
        let mut queues = Queues::at(&at("journal")).unwrap();
        let stopped = BTreeSet::from(["sdd".to_owned()]);
        queues.turn(&at("sys"), &disks, &stopped);
        let now: Vec<String> = all().collect();
        assert_eq!(
            now,
            ["2048 256", "2048 64", "64 1280", "64 512", "128 1280"]
        );
        queues.turn(&at("sys"), &disks, &stopped);
        drop(queues); // as if it was killed
        let mut queues = Queues::at(&at("journal")).unwrap();
        assert_eq!(all().collect::<Vec<_>>(), before);
        queues.turn(&at("sys"), &disks, &stopped);
        queues.put_back();
        assert_eq!(all().collect::<Vec<_>>(), before);
    }
}
