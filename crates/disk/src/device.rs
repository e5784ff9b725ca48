//! The disks of the machine: /sys/block.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{read, DiskError};

/// The unit of the kernel's sizes and counters, bytes, whatever the disk's own is.
const SECTOR: u64 = 512;

/// Major and minor number of a device: "8:0".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    pub major: u32,
    pub minor: u32,
}

impl FromStr for Number {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.split_once(':').ok_or(())?;
        Ok(Self {
            major: major.parse().map_err(drop)?,
            minor: minor.parse().map_err(drop)?,
        })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = |()| serde::de::Error::custom("this is not MAJOR:MINOR");
        text.parse().map_err(wrong)
    }
}

/// What a disk has done since it is there (Documentation/block/stat.rst). Requests of all kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Done {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// Of all requests together, from their creation to their end, ms.
    pub waited_ms: u64,
    /// Time in which there was a request, ms.
    pub busy_ms: u64,
    /// Requests now. This is no sum.
    pub in_flight: u64,
}

impl Done {
    /// From the text of a disk's `stat`. None if fields are missing.
    fn parse(text: &str) -> Option<Self> {
        let fields: Option<Vec<u64>> = text.split_whitespace().map(|f| f.parse().ok()).collect();
        let fields = fields?;
        let [reads, _, read, read_ms, writes, _, written, write_ms, in_flight, busy_ms] =
            *fields.first_chunk()?;
        Some(Self {
            reads,
            read_bytes: read.saturating_mul(SECTOR),
            writes,
            written_bytes: written.saturating_mul(SECTOR),
            waited_ms: read_ms.saturating_add(write_ms),
            busy_ms,
            in_flight,
        })
    }

    /// What was done since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            waited_ms: self.waited_ms.saturating_sub(before.waited_ms),
            busy_ms: self.busy_ms.saturating_sub(before.busy_ms),
            in_flight: self.in_flight,
        }
    }
}

/// A disk, or what looks like one: a volume, an array, a file as a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    pub name: String,
    pub number: Number,
    pub size_bytes: u64,
    /// The I/O scheduler; None where there is none, because the requests go to other disks.
    pub scheduler: Option<String>,
    /// Queues that the driver has in hardware; 0 where the requests go to other disks.
    pub queues: usize,
    /// It has a seek time.
    pub rotational: bool,
    pub removable: bool,
    /// The disks that its requests go to (LVM, dm-crypt, RAID), by name.
    pub below: Vec<String>,
    /// The file that it is (loop devices).
    pub file: Option<String>,
    pub done: Done,
}

impl Disk {
    /// None if it went meanwhile, or has no size: an empty drive, an unused loop device.
    fn read(dir: &Path, name: String) -> Option<Self> {
        let text = |file: &str| read(&dir.join(file)).ok();
        let flag = |file: &str| text(file).as_deref() == Some("1");
        let size_bytes = text("size")?.parse::<u64>().ok()?.saturating_mul(SECTOR);
        if size_bytes == 0 {
            return None;
        }
        let mut below: Vec<String> = std::fs::read_dir(dir.join("slaves"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        below.sort();
        Some(Self {
            number: text("dev")?.parse().ok()?,
            size_bytes,
            scheduler: text("queue/scheduler").and_then(|all| chosen(&all)),
            queues: std::fs::read_dir(dir.join("mq")).map_or(0, Iterator::count),
            rotational: flag("queue/rotational"),
            removable: flag("removable"),
            below,
            file: text("loop/backing_file"),
            done: Done::parse(&text("stat")?)?,
            name,
        })
    }
}

/// The scheduler in force, from a text such as `none [mq-deadline] bfq`; a text without brackets is
/// that of a disk that has no choice.
fn chosen(text: &str) -> Option<String> {
    let inside = |word: &str| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    text.split_whitespace().find_map(inside)
}

/// All disks, by name. `sys`: where sysfs is mounted.
///
/// # Errors
/// The folder `block` in it cannot be read.
pub fn disks(sys: &Path) -> Result<Vec<Disk>, DiskError> {
    let path = sys.join("block");
    let entries = std::fs::read_dir(&path).map_err(|source| DiskError {
        path: path.clone(),
        source,
    })?;
    let mut found: Vec<Disk> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Disk::read(&entry.path(), entry.file_name().into_string().ok()?)
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn disks_are_what_sysfs_says() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str, text: &str| put(dir.path(), &format!("block/{path}"), text);
        at("sda/dev", "8:0\n");
        at("sda/size", "2048\n");
        at("sda/stat", "  4 0 8 30 2 1 16 12 1 25 42 0 0 0 0 0 0\n");
        at("sda/removable", "0\n");
        at("sda/queue/scheduler", "none [mq-deadline] bfq\n");
        at("sda/queue/rotational", "1\n");
        at("sda/mq/0/nr_tags", "32\n");
        at("dm-0/dev", "254:0");
        at("dm-0/size", "1024");
        at("dm-0/stat", "0 0 0 0 0 0 0 0 0 0 0");
        at("dm-0/queue/scheduler", "none");
        at("dm-0/slaves/sda/x", "");
        at("loop0/dev", "7:0");
        at("loop0/size", "0");
        at("loop1/size", "8");
        let found = disks(dir.path()).unwrap();
        let names: Vec<&str> = found.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(
            names,
            ["dm-0", "sda"],
            "not an empty one, nor one without numbers"
        );
        let (dm, sda) = (&found[0], &found[1]);
        assert_eq!(
            (&dm.scheduler, dm.below.as_slice()),
            (&None, &["sda".to_owned()][..])
        );
        assert_eq!(sda.scheduler.as_deref(), Some("mq-deadline"));
        assert!(sda.rotational && !sda.removable);
        assert_eq!((dm.queues, sda.queues), (0, 1));
        assert_eq!(
            (sda.number.to_string(), sda.size_bytes),
            ("8:0".into(), 1 << 20)
        );
        let done = Done {
            reads: 4,
            read_bytes: 4096,
            writes: 2,
            written_bytes: 8192,
            waited_ms: 42,
            busy_ms: 25,
            in_flight: 1,
        };
        assert_eq!(sda.done, done);
        let e = disks(&dir.path().join("none")).unwrap_err();
        assert!(e.to_string().contains("none/block"), "{e}");
    }

    #[test]
    fn what_was_done_in_between() {
        let at = |n: u64| Done {
            reads: n,
            busy_ms: 2 * n,
            in_flight: n,
            ..Done::default()
        };
        let between = at(7).since(&at(5));
        assert_eq!(
            (between.reads, between.busy_ms, between.in_flight),
            (2, 4, 7)
        );
        assert_eq!(at(1).since(&at(5)).reads, 0, "the disk is another one");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["8", "8:", ":0", "a:b", "8:-1", ""] {
            assert!(text.parse::<Number>().is_err(), "{text}");
        }
        assert_eq!(Done::parse("1 2 3"), None);
        assert_eq!(Done::parse("1 2 3 4 5 6 7 8 9 x"), None);
    }
}
