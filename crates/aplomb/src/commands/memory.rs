//! What a domain has of memory, and what the kernel took from it.
//!
//! The command reads the files of the cgroup itself. Anybody may, and memory.stat costs the kernel
//! a sum over all CPUs, which the daemon would pay for each domain at each request.

use std::fs;
use std::path::Path;

use aplomb_memory::cgroup::{self, page_size, Cgroup, Limit};
use aplomb_memory::meminfo;
use aplomb_memory::{Bytes, Pages};
use serde::Serialize;

/// Of a cgroup with all below it, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    pub in_memory: u64,
    /// In swap and not in memory.
    pub in_swap: u64,
    /// memory.min. None: all that it has.
    pub protected: Option<u64>,
    /// What the kernel took since the cgroup was created.
    pub reclaimed: u64,
    /// Of that, what was used again soon, and had to be read back.
    pub read_back: u64,
}

impl MemoryUse {
    /// None if the cgroup at `dir` is gone, or has no memory controller.
    pub fn of(dir: &Path) -> Option<Self> {
        Self::with(dir, || fs::read_to_string(meminfo::PATH).ok())
    }

    /// `info`: the text of /proc/meminfo, which has what the root lacks.
    fn with(dir: &Path, info: impl Fn() -> Option<String>) -> Option<Self> {
        let found = Cgroup::read(dir).ok()?;
        let pages = |n: Option<Pages>| n.unwrap_or_default().bytes(page_size()).0;
        let stat = found.stat;
        // The root has neither memory.current nor memory.swap.current.
        let of_root = || Some(Bytes(stat.anon?.0 + stat.file?.0));
        Some(Self {
            in_memory: found.current.or_else(of_root)?.0,
            in_swap: match found.current {
                Some(_) => cgroup::swapped(dir).ok()?.0,
                None => meminfo::swapped(&info()?)?.0,
            },
            protected: match found.min {
                None => Some(0),
                Some(Limit::Bytes(bytes)) => Some(bytes.0),
                Some(Limit::Max) => None,
            },
            reclaimed: pages(stat.pgsteal),
            read_back: pages(stat.workingset_refault_anon) + pages(stat.workingset_refault_file),
        })
    }
}

/// An amount as text; "-" for nothing.
pub fn or_none(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |b| Bytes(b).to_string())
}

/// A protection as text: "all", an amount, "-" for none.
pub fn protection(bytes: Option<u64>) -> String {
    bytes.map_or("all".into(), |b| or_none(Some(b).filter(|b| *b > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_files_say() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let info = || Some("SwapCached: 1 kB\nSwapTotal: 8 kB\nSwapFree: 4 kB\n".into());
        let found = || MemoryUse::with(dir.path(), info);
        assert_eq!(found(), None, "no memory controller");
        put(
            "memory.stat",
            "anon 4096\nfile 8192\npgsteal 3\nworkingset_refault_anon 1\nworkingset_refault_file 1\n",
        );
        let page = page_size().0;
        let root = MemoryUse {
            in_memory: 12288,
            in_swap: 3072,
            protected: Some(0),
            reclaimed: 3 * page,
            read_back: 2 * page,
        };
        assert_eq!(found(), Some(root), "the root");
        put("memory.current", "20480\n");
        put("memory.swap.current", "8192\n");
        put("memory.min", "max\n");
        let domain = MemoryUse {
            in_memory: 20480,
            in_swap: 8192,
            protected: None,
            ..root
        };
        assert_eq!(found(), Some(domain));
    }

    #[test]
    fn amounts_are_text() {
        assert_eq!(protection(None), "all");
        assert_eq!(protection(Some(0)), "-");
        assert_eq!(protection(Some(1 << 20)), "1.0 MiB");
        assert_eq!(or_none(None), "-");
    }
}
