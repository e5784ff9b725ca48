//! Which CPUs are threads of one core (SMT), and which share a cache: from sysfs.
//!
//! bpf/reserved/room.bpf.h and bpf/tree/cache.bpf.h say what the kernel side does with it.

use std::fs;
use std::path::Path;

/// Most threads of a core that are looked at (`MAX_THREADS`): POWER has eight, all others fewer.
/// Cores with more count as several.
const MAX_THREADS: usize = 8;

/// For each possible CPU, by its number, the next CPU of its core; after the last one comes the
/// first. So a CPU that has its core for itself is its own next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores(Vec<u16>);

impl Cores {
    /// The cores of CPUs 0 to `cpus` - 1, at most [`crate::limits::MAX_CPUS`], of the machine whose
    /// sysfs is at `sys`. A CPU whose file is missing or makes no sense is taken for a core: it is
    /// offline, or the kernel has no such file. So is one that another CPU's list does not agree
    /// with.
    pub fn read(sys: &Path, cpus: u32) -> Self {
        let mut next: Vec<u16> = (0..cpus).map(|cpu| cpu as u16).collect();
        let lists: Vec<_> = (0..cpus).map(|cpu| threads(sys, cpu, cpus)).collect();
        for (cpu, list) in lists.iter().enumerate() {
            let agreed = list.iter().all(|&other| lists[usize::from(other)] == *list);
            let first = list.first().map(|&first| usize::from(first));
            if first != Some(cpu) || !agreed {
                continue; // its first CPU does it, for all of the core
            }
            for part in list.chunks(MAX_THREADS) {
                for (i, &thread) in part.iter().enumerate() {
                    next[usize::from(thread)] = part[(i + 1) % part.len()];
                }
            }
        }
        Self(next)
    }

    /// Some core has several threads.
    pub fn are_shared(&self) -> bool {
        (0..).zip(&self.0).any(|(cpu, &next)| cpu != next)
    }

    /// By number of the CPU: the next CPU of its core.
    pub fn next_threads(&self) -> &[u16] {
        &self.0
    }
}

/// The last-level cache of each possible CPU, by its number: the first CPU that shares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caches(Vec<u16>);

/// Entries in a CPU's `cache` directory that are looked at. There are four or five.
const MAX_CACHES: u32 = 16;

impl Caches {
    /// The caches of CPUs 0 to `cpus` - 1, at most [`crate::limits::MAX_CPUS`], of the machine
    /// whose sysfs is at `sys`. A cache of level 1 or 2 does not count, since only the threads of a
    /// core or few cores share it. A CPU without a cache that counts is taken to share that of CPU
    /// 0: it is offline, or the machine does not say.
    pub fn read(sys: &Path, cpus: u32) -> Self {
        let first = |cpu| last_level(sys, cpu, cpus).and_then(|list| list.first().copied());
        let found: Vec<_> = (0..cpus).map(first).collect();
        let default = found.first().copied().flatten().unwrap_or(0);
        Self(found.iter().map(|first| first.unwrap_or(default)).collect())
    }

    /// There are several.
    pub fn differ(&self) -> bool {
        self.0.iter().any(|cache| Some(cache) != self.0.first())
    }

    /// By number of the CPU.
    pub fn as_slice(&self) -> &[u16] {
        &self.0
    }
}

/// The CPUs that share the cache of `cpu` with the highest level.
fn last_level(sys: &Path, cpu: u32, cpus: u32) -> Option<Vec<u16>> {
    const LEAST: u32 = 3;
    let dir = |i| sys.join(format!("devices/system/cpu/cpu{cpu}/cache/index{i}"));
    let level = |i: &u32| -> Option<u32> {
        let text = fs::read_to_string(dir(*i).join("level")).ok()?;
        text.trim().parse().ok()
    };
    let last = (0..MAX_CACHES).filter_map(|i| Some((level(&i)?, i))).max();
    let (_, i) = last.filter(|(level, _)| *level >= LEAST)?;
    list_with(&dir(i).join("shared_cpu_list"), cpu, cpus)
}

/// The CPUs of `cpu`'s core, in ascending order. Empty: not known.
fn threads(sys: &Path, cpu: u32, cpus: u32) -> Vec<u16> {
    let file = format!("devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
    list_with(&sys.join(file), cpu, cpus).unwrap_or_default()
}

/// The list in `file`, if `cpu` is in it.
fn list_with(file: &Path, cpu: u32, cpus: u32) -> Option<Vec<u16>> {
    let text = fs::read_to_string(file).ok()?;
    parse(text.trim(), cpus).filter(|list| list.iter().any(|&c| u32::from(c) == cpu))
}

/// A list such as "0-1,8-9", of CPUs below `cpus`, in ascending order.
fn parse(text: &str, cpus: u32) -> Option<Vec<u16>> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        let ascends = list.last().is_none_or(|&before| before < first);
        if first > last || u32::from(last) >= cpus || !ascends {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A machine whose CPUs have these lists; an empty one: no file.
    fn cores(lists: &[&str]) -> Cores {
        let root = tempfile::tempdir().unwrap();
        for (cpu, list) in lists.iter().enumerate() {
            let dir = root
                .path()
                .join(format!("devices/system/cpu/cpu{cpu}/topology"));
            fs::create_dir_all(&dir).unwrap();
            if !list.is_empty() {
                fs::write(dir.join("core_cpus_list"), format!("{list}\n")).unwrap();
            }
        }
        Cores::read(root.path(), lists.len() as u32)
    }

    #[test]
    fn threads_of_a_core_are_a_ring() {
        let found = cores(&["0-1", "0-1", "2-3", "2-3"]);
        assert_eq!(found.next_threads(), [1, 0, 3, 2]);
        assert!(found.are_shared());
        let found = cores(&["0,2", "1,3", "0,2", "1,3"]);
        assert_eq!(found.next_threads(), [2, 3, 0, 1]);
    }

    #[test]
    fn cpus_with_a_core_each_are_not_shared() {
        for lists in [["0", "1", "2"], ["", "", ""], ["0", "", "2"]] {
            let found = cores(&lists);
            assert_eq!(found.next_threads(), [0, 1, 2]);
            assert!(!found.are_shared());
        }
    }

    /// Performance cores with two threads, and efficiency cores.
    #[test]
    fn some_cores_have_one_thread() {
        let found = cores(&["0-1", "0-1", "2", "3"]);
        assert_eq!(found.next_threads(), [1, 0, 2, 3]);
        assert!(found.are_shared());
    }

    #[test]
    fn lists_that_make_no_sense_are_left_out() {
        for lists in [
            ["0-1", "1", "2"],       // they disagree
            ["0-9", "0-9", "2"],     // no such CPUs
            ["1-0", "x", "-1"],      // no lists
            ["1", "0", "2"],         // without itself
            ["0,0", "1,0", "2-2,2"], // not in order
        ] {
            assert_eq!(cores(&lists).next_threads(), [0, 1, 2], "{lists:?}");
        }
    }

    #[test]
    fn a_core_of_many_threads_counts_as_several() {
        let found = cores(&["0-9"; 10]);
        assert_eq!(found.next_threads(), [1, 2, 3, 4, 5, 6, 7, 0, 9, 8]);
    }

    /// A machine whose CPUs have caches of these levels, each shared by these CPUs.
    fn caches(of: &[&[(u32, &str)]]) -> Caches {
        let root = tempfile::tempdir().unwrap();
        for (cpu, levels) in of.iter().enumerate() {
            for (i, (level, list)) in levels.iter().enumerate() {
                let dir = format!("devices/system/cpu/cpu{cpu}/cache/index{i}");
                let dir = root.path().join(dir);
                fs::create_dir_all(&dir).unwrap();
                fs::write(dir.join("level"), format!("{level}\n")).unwrap();
                fs::write(dir.join("shared_cpu_list"), format!("{list}\n")).unwrap();
            }
        }
        Caches::read(root.path(), of.len() as u32)
    }

    #[test]
    fn the_last_level_counts() {
        let [a, b] = ["0-1", "2-3"].map(|all| [(1, "9"), (2, all), (3, all)]);
        let found = caches(&[&a, &a, &b, &b]);
        assert_eq!(found.as_slice(), [0, 0, 2, 2]);
        assert!(found.differ());
        let one = [(3, "0-3"), (1, "0")];
        let found = caches(&[&one, &one, &one, &one]);
        assert!(!found.differ(), "{found:?}");
    }

    #[test]
    fn a_machine_that_does_not_say_has_one_cache() {
        let (first, second) = ([(1, "0"), (2, "0")], [(1, "1"), (2, "1")]);
        assert!(!caches(&[&first, &second]).differ(), "of level 1 and 2");
        assert!(!caches(&[&[], &[]]).differ());
        let shared = [(3, "0-1")];
        assert!(
            !caches(&[&shared, &shared, &[]]).differ(),
            "CPU 2 is offline"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_none(text in "[0-9,-]{0,20}", cpus in 1u32..1024) {
            if let Some(list) = parse(&text, cpus) {
                prop_assert!(list.is_sorted() && list.iter().all(|&c| u32::from(c) < cpus));
            }
        }
    }
}
