//! Ages of a cgroup's pages: the text of `/sys/kernel/debug/lru_gen`.
//!
//! The multi-generational LRU sorts the pages of each cgroup and NUMA node into at most four
//! generations. A generation has a sequence number and a birth; the youngest has the highest
//! number. *Aging* walks the page tables, moves the pages that were used since the last walk into
//! the youngest generation, and then creates the next one. The kernel ages under memory pressure
//! and when a command asks for it (Documentation/admin-guide/mm/multigen_lru.rst).
//!
//! ```text
//! memcg    68 /user.slice/media
//!  node     0
//!           7      21034          0      39221     number, age in ms, anonymous pages, file pages
//!           8      11010         12       8000
//!           9       1003        120       3000
//! ```
//!
//! What the ages do not show:
//! - A page that is used by read() and write() only is put into an old generation, however recent
//!   the call was: the kernel keeps such pages for as long as nothing better needs the memory.
//! - The numbers are estimates: a page that waits in a CPU's batch counts later.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use crate::{file, MemoryError, Pages};

/// Bytes of a line: a path (PATH_MAX, 4,096) and what is before it. A longer line is an error.
const MAX_LINE: usize = 8192;
/// The file's name below debugfs.
pub(crate) const LRU_GEN: &str = "lru_gen";

/// The generations of one cgroup. Pages of cgroups below it are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ages {
    /// The kernel's number of the memory cgroup: 16 bits; in newer kernels 64 bits.
    pub memcg: u64,
    pub nodes: Vec<Node>,
}

/// The generations of one NUMA node, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub id: u32,
    pub generations: Vec<Generation>,
}

/// One generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    pub seq: u64,
    /// Time since the generation was created; the kernel's resolution is a tick, at most 10 ms.
    pub age: Duration,
    pub anon_pages: u64,
    pub file_pages: u64,
}

impl Generation {
    fn pages(&self) -> u64 {
        self.anon_pages.saturating_add(self.file_pages)
    }
}

impl Ages {
    /// Pages that may have been used within the last `pi`.
    pub fn younger_than(&self, pi: Duration) -> Pages {
        let all = self.nodes.iter().flat_map(|n| &n.generations);
        let all = all.fold(0u64, |sum, g| sum.saturating_add(g.pages()));
        Pages(all.saturating_sub(self.expired(pi).0))
    }

    /// Pages that were not used within the last `pi`, if the cgroup was aged right before the ages
    /// were read, or did not run since it was aged.
    ///
    /// A page is in generation g because its last use lies between the birth of g and the birth of
    /// the next younger generation: had it been used later, the next aging would have moved it on.
    /// (A use after the last aging does not show yet.) So the age of g itself does not say when g
    /// was used last. All pages of g are expired if the *next younger* generation is older than
    /// pi. The youngest generation has no next one, so it never expires.
    pub fn expired(&self, pi: Duration) -> Pages {
        let pairs = self.nodes.iter().flat_map(|n| n.generations.windows(2));
        let expired = pairs.filter(|pair| pair[1].age >= pi);
        Pages(expired.fold(0, |sum, pair| sum.saturating_add(pair[0].pages())))
    }

    /// The commands that create a new generation, one for each node: `+ MEMCG NODE MAX_SEQ`.
    pub fn aging_commands(&self) -> impl Iterator<Item = String> + '_ {
        self.nodes.iter().filter_map(|node| {
            let seq = node.generations.last()?.seq;
            Some(format!("+ {} {} {seq}\n", self.memcg, node.id))
        })
    }

    /// Create a new generation in each node, by the file `lru_gen` below `debugfs`. A node that the
    /// kernel aged meanwhile (EEXIST) needs no more.
    ///
    /// # Errors
    /// Failed system calls, the first of them after all nodes were tried. EINVAL: the cgroup was
    /// removed meanwhile.
    pub fn write_aging(&self, debugfs: &Path) -> Result<(), MemoryError> {
        let path = debugfs.join(LRU_GEN);
        let mut result = Ok(());
        // One write for each command: the kernel stops at the first command of a write that fails.
        for command in self.aging_commands() {
            match file::command(&path, &command) {
                Err(MemoryError::Io { source, .. })
                    if source.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {}
                written => result = result.and(written),
            }
        }
        result
    }
}

/// The ages of the cgroups `wanted` ("/user.slice/media", from the root of the tree), from the file
/// `lru_gen` below `debugfs`. A cgroup that the file does not list is left out.
///
/// # Errors
/// Failed system calls; lines of unknown form.
pub fn read(
    debugfs: &Path,
    wanted: &BTreeSet<String>,
) -> Result<BTreeMap<String, Ages>, MemoryError> {
    let path = debugfs.join(LRU_GEN);
    let file = File::open(&path).map_err(|e| MemoryError::io(&path, "opening it", e))?;
    parse(BufReader::new(file), wanted, &path)
}

/// True if the text of `/sys/kernel/mm/lru_gen/enabled` (a bit mask such as 0x0007) says that the
/// multi-generational LRU is on, which is bit 0.
pub fn is_enabled(text: &str) -> bool {
    let digits = text.trim();
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    u32::from_str_radix(digits, 16).is_ok_and(|mask| mask & 1 != 0)
}

/// The ages of the cgroups `wanted` from a text like that of `lru_gen`, which is at `path`. The
/// kernel makes the text while it is read, at a cost for each of what may be thousands of cgroups.
/// So one pass serves all that are wanted, and ends as early as it can.
///
/// The first match of a path may be a cgroup that was removed: the kernel lists it, by the same
/// path, until its last page is gone. It lists siblings in the order of their creation, so the last
/// match is the one that lives. Once all are found, no match can follow the first cgroup outside
/// the parents of those that are wanted.
///
/// # Errors
/// Failed reads; lines of unknown form below the line of one that is wanted; a line of more than
/// 8,192 bytes.
pub fn parse(
    mut text: impl BufRead,
    wanted: &BTreeSet<String>,
    path: &Path,
) -> Result<BTreeMap<String, Ages>, MemoryError> {
    let below: BTreeSet<_> = wanted.iter().map(|w| parent_of(w.as_bytes())).collect();
    let mut found = BTreeMap::new();
    let mut inside: Option<&str> = None;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = text.by_ref().take(limit).read_until(b'\n', &mut line);
        read.map_err(|e| MemoryError::io(path, "reading it", e))?;
        let wrong = |why: &str| MemoryError::Line {
            path: path.into(),
            line: number,
            why: why.into(),
        };
        if line.len() > MAX_LINE {
            return Err(wrong("more than 8,192 bytes"));
        }
        if line.is_empty() {
            break;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some(head) = line.strip_prefix(b"memcg ") {
            let (memcg, name) = header(head).ok_or_else(|| wrong("not \"memcg ID PATH\""))?;
            let known = std::str::from_utf8(name).ok();
            inside = known.and_then(|n| wanted.get(n)).map(String::as_str);
            if let Some(name) = inside {
                let nodes = Vec::new();
                found.insert(name.to_owned(), Ages { memcg, nodes });
            } else if found.len() == wanted.len() && !below.iter().any(|b| name.starts_with(b)) {
                break;
            }
        } else if let Some(ages) = inside.and_then(|name| found.get_mut(name)) {
            below_header(ages, line).map_err(wrong)?;
        }
    }
    Ok(found)
}

/// The path of a cgroup's parent, with the "/" at its end.
fn parent_of(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|b| *b == b'/');
    &name[..end.map_or(0, |slash| slash + 1)]
}

/// The number and the path of a line "memcg  ID PATH". The path is the rest of the line, because
/// names of cgroups may contain spaces.
fn header(after_memcg: &[u8]) -> Option<(u64, &[u8])> {
    let head = after_memcg.trim_ascii_start();
    let end = head.iter().position(|b| *b == b' ')?;
    let id = std::str::from_utf8(&head[..end]).ok()?.parse().ok()?;
    Some((id, &head[end + 1..]))
}

/// Add a line "node ID" or "SEQ AGE ANON FILE". Some kernels have more columns, and a letter after
/// a count of pages.
fn below_header(ages: &mut Ages, line: &[u8]) -> Result<(), &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
    let mut words = line.split_ascii_whitespace();
    let first = words.next().ok_or("an empty line")?;
    if first == "node" {
        let id = words.next().and_then(|id| id.parse().ok());
        ages.nodes.push(Node {
            id: id.ok_or("not \"node ID\"")?,
            generations: Vec::new(),
        });
        return Ok(());
    }
    let mut next = || {
        let digits = words.next()?.trim_end_matches(|c: char| c.is_alphabetic());
        digits.parse::<u64>().ok()
    };
    let numbers = (first.parse().ok(), next(), next(), next());
    let (Some(seq), Some(age_ms), Some(anon_pages), Some(file_pages)) = numbers else {
        return Err("not a generation: number, age in ms, anonymous pages, file pages");
    };
    let node = ages
        .nodes
        .last_mut()
        .ok_or("a generation before its node")?;
    if node.generations.last().is_some_and(|g| g.seq >= seq) {
        return Err("a generation that does not follow the one before it");
    }
    node.generations.push(Generation {
        seq,
        age: Duration::from_millis(age_ms),
        anon_pages,
        file_pages,
    });
    Ok(())
}

#[cfg(test)]
mod tests;
