//! Which qdisc an interface had before ours: one file for each, so that it comes back even if the
//! daemon is killed.
//!
//! The file is written, under another name and then renamed, before the qdisc is replaced, and
//! removed after it is back. A qdisc is put back only while ours is there: another program that has
//! replaced ours meanwhile is right.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{kind_of, NetError, Qdiscs};

/// Where the daemon keeps it.
pub const DEFAULT: &str = "/run/aplomb/net";

/// What an interface had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// For messages.
    pub name: String,
    pub index: u32,
    /// None: the kernel's default, which comes back by itself.
    pub kind: Option<String>,
    pub options: Vec<u8>,
    /// The process that replaced it.
    pub daemon: u32,
    /// The most segments of a packet ([`crate::segments`]), which the daemon only lowers. None: it
    /// is not changed.
    #[serde(default)]
    pub segments: Option<u32>,
}

fn file(dir: &Path, index: u32) -> PathBuf {
    dir.join(index.to_string())
}

fn failed(path: &Path) -> impl Fn(io::Error) -> NetError + '_ {
    move |source| NetError::File {
        path: path.into(),
        source,
    }
}

/// Write the entry of an interface whose qdisc is about to be replaced.
///
/// # Errors
/// The file cannot be written.
pub fn write(dir: &Path, entry: &Entry) -> Result<(), NetError> {
    let path = file(dir, entry.index);
    let new = path.with_extension("new");
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let text = serde_json::to_string(entry).map_err(|e| NetError::Journal {
        path: path.clone(),
        why: e.to_string(),
    })?;
    fs::write(&new, text).map_err(failed(&new))?;
    fs::rename(&new, &path).map_err(failed(&path))
}

/// Remove the entry of an interface, if it has one.
pub fn remove(dir: &Path, index: u32) {
    let _ = fs::remove_file(file(dir, index));
}

/// All entries, and what is wrong with the others.
pub fn read(dir: &Path) -> (Vec<Entry>, Vec<NetError>) {
    let (mut entries, mut wrong) = (Vec::new(), Vec::new());
    for found in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = found.path();
        if path.extension().is_some() {
            continue; // torn by the end of its writer: its interface was not changed yet
        }
        let entry = fs::read_to_string(&path)
            .map_err(failed(&path))
            .and_then(|text| {
                serde_json::from_str::<Entry>(&text).map_err(|e| NetError::Journal {
                    path: path.clone(),
                    why: e.to_string(),
                })
            });
        match entry {
            Ok(entry) if file(dir, entry.index) == path => entries.push(entry),
            Ok(_) => wrong.push(NetError::Journal {
                path,
                why: "it is another interface's".into(),
            }),
            Err(e) => wrong.push(e),
        }
    }
    entries.sort_by_key(|e| e.index);
    (entries, wrong)
}

/// Give the interface of `entry` back what it had: its qdisc, if it still has ours, and the size of
/// its packets.
///
/// # Errors
/// The kernel refuses.
pub fn put_back(qdiscs: &Qdiscs, entry: &Entry) -> Result<(), NetError> {
    let Some(now) = qdiscs.root(entry.index)? else {
        return Ok(()); // the interface is gone
    };
    if now.kind == kind_of(entry.index) {
        match &entry.kind {
            Some(kind) => qdiscs.set_root(entry.index, kind, &entry.options)?,
            None => qdiscs.remove_root(entry.index)?,
        }
    }
    put_segments_back(qdiscs, entry)
}

/// Give the interface of `entry` back the size that its packets had.
///
/// # Errors
/// The kernel refuses.
pub fn put_segments_back(qdiscs: &Qdiscs, entry: &Entry) -> Result<(), NetError> {
    let before = entry.segments.unwrap_or(0);
    if before > 0 && qdiscs.segments(entry.index)? < before {
        qdiscs.set_segments(entry.index, before)?;
    }
    Ok(())
}

/// Put back all that an earlier daemon left. `of`: only what this process replaced, since the next
/// daemon may have begun. Returns what went wrong.
pub fn restore(dir: &Path, of: Option<u32>) -> Vec<NetError> {
    let (mut entries, mut wrong) = read(dir);
    entries.retain(|entry| of.is_none_or(|daemon| entry.daemon == daemon));
    if entries.is_empty() {
        return wrong;
    }
    let qdiscs = match Qdiscs::new() {
        Ok(qdiscs) => qdiscs,
        Err(e) => return [wrong, vec![e]].into_iter().flatten().collect(),
    };
    for entry in entries {
        match put_back(&qdiscs, &entry) {
            Ok(()) => remove(dir, entry.index),
            Err(e) => wrong.push(e),
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_written_and_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("net");
        assert_eq!(read(&dir).0, []);
        let entry = |index: u32| Entry {
            name: format!("eth{index}"),
            index,
            kind: (index > 1).then(|| "fq".into()),
            options: vec![0, 255, 3],
            daemon: 812,
            segments: (index > 1).then_some(65_535),
        };
        write(&dir, &entry(2)).unwrap();
        write(&dir, &entry(1)).unwrap();
        write(&dir, &entry(2)).unwrap();
        fs::write(dir.join("3"), "torn").unwrap();
        fs::write(dir.join("4"), serde_json::to_string(&entry(5)).unwrap()).unwrap();
        fs::write(dir.join("6.new"), "torn").unwrap();
        let (entries, wrong) = read(&dir);
        assert_eq!(entries, [entry(1), entry(2)]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        remove(&dir, 1);
        remove(&dir, 1);
        assert_eq!(read(&dir).0, [entry(2)]);
    }
}
