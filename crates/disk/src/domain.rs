//! What a domain had the disks do: the cgroup's `io.stat`, and of `memory.stat` the pages that wait
//! for a disk.

use std::path::Path;

use serde::Serialize;

use crate::device::Number;
use crate::read;

/// What a cgroup and all below it had one disk do since the cgroup was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DiskUse {
    pub number: Number,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// What a domain had all disks do. Of the disks, those that it used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DomainUse {
    /// None: the cgroup has no `io` controller. Then it is counted in the one above.
    pub disks: Option<Vec<DiskUse>>,
    /// Bytes in its pages that a disk has yet to write, or is writing. None: it has no `memory`
    /// controller.
    pub dirty_bytes: Option<u64>,
}

impl DomainUse {
    /// Of the cgroup at `dir`.
    pub fn of(dir: &Path) -> Self {
        let io = read(&dir.join("io.stat")).ok();
        let memory = read(&dir.join("memory.stat")).ok();
        Self {
            disks: io.map(|text| text.lines().filter_map(parse_line).collect()),
            dirty_bytes: memory.map(|text| dirty(&text)),
        }
    }

    /// Of all disks together; `number` has no meaning. None as in `disks`.
    pub fn total(&self) -> Option<DiskUse> {
        let add = |sum: DiskUse, one: &DiskUse| DiskUse {
            number: Number::default(),
            read_bytes: sum.read_bytes.saturating_add(one.read_bytes),
            written_bytes: sum.written_bytes.saturating_add(one.written_bytes),
            reads: sum.reads.saturating_add(one.reads),
            writes: sum.writes.saturating_add(one.writes),
        };
        Some(self.disks.as_ref()?.iter().fold(DiskUse::default(), add))
    }
}

/// A line of io.stat: `8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`. None: a disk that
/// the cgroup did not use, or one that has gone.
fn parse_line(line: &str) -> Option<DiskUse> {
    let (number, rest) = line.split_once(' ')?;
    let mut found = DiskUse {
        number: number.parse().ok()?,
        ..DiskUse::default()
    };
    for (key, value) in rest.split(' ').filter_map(|word| word.split_once('=')) {
        let place = match key {
            "rbytes" => &mut found.read_bytes,
            "wbytes" => &mut found.written_bytes,
            "rios" => &mut found.reads,
            "wios" => &mut found.writes,
            _ => continue, // discards; what iocost adds
        };
        *place = value.parse().ok()?;
    }
    (found.reads > 0 || found.writes > 0).then_some(found)
}

/// The pages of memory.stat that wait for a disk, or are being written, bytes.
fn dirty(text: &str) -> u64 {
    let of = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        let counts = name == "file_dirty" || name == "file_writeback";
        value.trim().parse::<u64>().ok().filter(|_| counts)
    };
    text.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn it_is_what_the_files_say() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(
            DomainUse::of(dir.path()),
            DomainUse::default(),
            "no controller"
        );
        put(
            "io.stat",
            "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n\
             8:16 rbytes=0 wbytes=512 rios=0 wios=1 dbytes=0 dios=0 cost.usage=7\n\
             7:0 rbytes=0 wbytes=0 rios=0 wios=0 dbytes=0 dios=0\n\
             254:0 \n",
        );
        put(
            "memory.stat",
            "anon 5\nfile_mapped 9\nfile_dirty 4096\nfile_writeback 8192\n",
        );
        let found = DomainUse::of(dir.path());
        let disks = found.disks.as_ref().unwrap();
        assert_eq!(disks.len(), 2, "the ones that it used");
        assert_eq!(disks[1].number.to_string(), "8:16");
        let total = found.total().unwrap();
        assert_eq!((total.read_bytes, total.written_bytes), (4096, 8704));
        assert_eq!((total.reads, total.writes), (1, 3));
        assert_eq!(found.dirty_bytes, Some(12288));
    }

    proptest! {
        #[test]
        fn any_text_is_taken(line in ".{0,80}") {
            parse_line(&line);
            dirty(&line);
        }
    }
}
