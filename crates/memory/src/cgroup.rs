//! What is read of a memory cgroup, and the units: bytes and pages.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::{file, MemoryError};

/// A number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Bytes(pub u64);

/// For people: "31.2 MiB".
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} MiB", self.0 as f64 / f64::from(1 << 20)))
    }
}

/// A number of pages of [`page_size`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Pages(pub u64);

impl Pages {
    /// The bytes of these pages.
    pub fn bytes(self, page_size: Bytes) -> Bytes {
        Bytes(self.0.saturating_mul(page_size.0))
    }
}

/// The size of a page on this machine.
pub fn page_size() -> Bytes {
    Bytes(rustix::param::page_size() as u64)
}

/// A value of memory.min or memory.max.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Limit {
    Bytes(Bytes),
    /// "max": memory.min protects all that is used; memory.max limits nothing.
    Max,
}

impl Limit {
    pub const ZERO: Self = Self::Bytes(Bytes(0));

    /// Parse "max" or a number of bytes.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "max" => Some(Self::Max),
            number => number.parse().ok().map(|n| Self::Bytes(Bytes(n))),
        }
    }

    /// The sum of two limits; "max" if one of them is.
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bytes(a), Self::Bytes(b)) => Self::Bytes(Bytes(a.0.saturating_add(b.0))),
            _ => Self::Max,
        }
    }
}

/// As the kernel's files have it.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.0.fmt(f),
            Self::Max => f.pad("max"),
        }
    }
}

/// Counters of memory.stat. None where this kernel has no such line. They cover the cgroup and all
/// below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stat {
    pub anon: Option<Bytes>,
    pub file: Option<Bytes>,
    pub shmem: Option<Bytes>,
    /// Anonymous pages that are in swap, too.
    pub swapcached: Option<Bytes>,
    /// Pages that reclaim looked at, and pages that it took, since the cgroup was created.
    pub pgscan: Option<Pages>,
    pub pgsteal: Option<Pages>,
    /// Page faults that waited for a device.
    pub pgmajfault: Option<u64>,
    /// Pages that were used again soon after reclaim had taken them.
    pub workingset_refault_anon: Option<Pages>,
    pub workingset_refault_file: Option<Pages>,
}

impl Stat {
    /// Parse the text of memory.stat. Lines that are unknown, or whose value is no number, are
    /// left out.
    pub fn parse(text: &str) -> Self {
        let mut stat = Self::default();
        for (name, value) in text.lines().filter_map(|l| l.split_once(' ')) {
            let Ok(value) = value.trim().parse::<u64>() else {
                continue;
            };
            match name {
                "anon" => stat.anon = Some(Bytes(value)),
                "file" => stat.file = Some(Bytes(value)),
                "shmem" => stat.shmem = Some(Bytes(value)),
                "swapcached" => stat.swapcached = Some(Bytes(value)),
                "pgscan" => stat.pgscan = Some(Pages(value)),
                "pgsteal" => stat.pgsteal = Some(Pages(value)),
                "pgmajfault" => stat.pgmajfault = Some(value),
                "workingset_refault_anon" => stat.workingset_refault_anon = Some(Pages(value)),
                "workingset_refault_file" => stat.workingset_refault_file = Some(Pages(value)),
                _ => {}
            }
        }
        stat
    }
}

/// The CPU time in a text of cpu.stat, µs.
pub fn parse_usage_us(text: &str) -> Option<u64> {
    let usage = text.lines().find_map(|l| l.strip_prefix("usage_usec "));
    usage.and_then(|n| n.trim().parse().ok())
}

/// What a memory cgroup says of itself. None where it has no such file: the root has none of them
/// but the stat files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    /// Memory in use by the cgroup and all below it.
    pub current: Option<Bytes>,
    pub min: Option<Limit>,
    pub max: Option<Limit>,
    pub stat: Stat,
    /// CPU time used since the cgroup was created, µs.
    pub usage_us: Option<u64>,
}

impl Cgroup {
    /// Read the files of the cgroup whose directory is `dir`.
    ///
    /// # Errors
    /// Failed system calls; a file with unknown content.
    pub fn read(dir: &Path) -> Result<Self, MemoryError> {
        let stat = file::read_if_there(&dir.join("memory.stat"))?;
        Ok(Self {
            current: current(dir)?,
            min: limit(dir, "memory.min")?,
            max: limit(dir, "memory.max")?,
            stat: Stat::parse(&stat.unwrap_or_default()),
            usage_us: usage_us(dir)?,
        })
    }
}

/// memory.current of the cgroup at `dir`; None if there is no such file.
///
/// # Errors
/// Failed system calls; unknown content.
pub fn current(dir: &Path) -> Result<Option<Bytes>, MemoryError> {
    parsed(dir, "memory.current", |t| t.trim().parse().ok().map(Bytes))
}

/// What the cgroup at `dir` has in swap and not in memory; zero where the kernel has no swap. (A
/// page that was read back keeps its place in swap for a while: it counts as in memory.)
///
/// # Errors
/// Failed system calls; unknown content.
pub fn swapped(dir: &Path) -> Result<Bytes, MemoryError> {
    let parse = |t: &str| t.trim().parse().ok().map(Bytes);
    let swap = parsed(dir, "memory.swap.current", parse)?.unwrap_or_default();
    if swap == Bytes(0) {
        return Ok(swap); // memory.stat costs the kernel a sum over all CPUs
    }
    let stat = file::read_if_there(&dir.join("memory.stat"))?;
    let both = Stat::parse(&stat.unwrap_or_default()).swapcached;
    Ok(Bytes(swap.0.saturating_sub(both.unwrap_or_default().0)))
}

/// memory.min or memory.max of the cgroup at `dir`; None if there is no such file.
///
/// # Errors
/// Failed system calls; unknown content.
pub fn limit(dir: &Path, name: &str) -> Result<Option<Limit>, MemoryError> {
    parsed(dir, name, Limit::parse)
}

/// CPU time that the cgroup at `dir` has used, µs; None if its cpu.stat does not say.
///
/// # Errors
/// Failed system calls.
pub fn usage_us(dir: &Path) -> Result<Option<u64>, MemoryError> {
    let text = file::read_if_there(&dir.join("cpu.stat"))?;
    Ok(text.as_deref().and_then(parse_usage_us))
}

fn parsed<T>(
    dir: &Path,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, MemoryError> {
    let path = dir.join(name);
    let Some(text) = file::read_if_there(&path)? else {
        return Ok(None);
    };
    let value = parse(&text).ok_or_else(|| {
        let shown: String = text.trim().chars().take(40).collect();
        MemoryError::state(&path, format!("{shown:?} is no number of bytes"))
    });
    value.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_there_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(Cgroup::read(dir.path()).unwrap(), Cgroup::default());
        put("memory.current", "1048576\n");
        put("memory.min", "max\n");
        put("memory.max", "4096\n");
        put("cpu.stat", "usage_usec 77\nuser_usec 70\n");
        put(
            "memory.stat",
            "anon 4096\nfile 8192\npgscan 5\npgscan_kswapd 4\npgmajfault 3\nshmem x\n",
        );
        let stat = Stat {
            anon: Some(Bytes(4096)),
            file: Some(Bytes(8192)),
            pgscan: Some(Pages(5)),
            pgmajfault: Some(3),
            ..Stat::default()
        };
        let wanted = Cgroup {
            current: Some(Bytes(1_048_576)),
            min: Some(Limit::Max),
            max: Some(Limit::Bytes(Bytes(4096))),
            stat,
            usage_us: Some(77),
        };
        assert_eq!(Cgroup::read(dir.path()).unwrap(), wanted);
        put("memory.min", "much\n");
        let e = Cgroup::read(dir.path()).unwrap_err().to_string();
        assert!(
            e.ends_with("memory.min: \"much\" is no number of bytes"),
            "{e}"
        );
    }

    #[test]
    fn what_is_in_memory_and_in_swap_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(swapped(dir.path()).unwrap(), Bytes(0));
        put("memory.swap.current", "9000\n");
        assert_eq!(swapped(dir.path()).unwrap(), Bytes(9000));
        put("memory.stat", "anon 1\nswapcached 4000\n");
        assert_eq!(swapped(dir.path()).unwrap(), Bytes(5000));
    }

    #[test]
    fn limits_are_ordered_added_and_parsed() {
        let bytes = |n| Limit::Bytes(Bytes(n));
        assert!(Limit::Max > bytes(u64::MAX) && bytes(2) > Limit::ZERO);
        assert_eq!(bytes(1).plus(bytes(2)), bytes(3));
        assert_eq!(bytes(u64::MAX).plus(bytes(2)), bytes(u64::MAX));
        assert_eq!(bytes(1).plus(Limit::Max), Limit::Max);
        for text in ["max", "4096", "0"] {
            assert_eq!(Limit::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Limit::parse("-1"), None);
        assert_eq!(Pages(3).bytes(Bytes(4096)), Bytes(12288));
    }
}
