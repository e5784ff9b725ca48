//! The knob journal: no knob that we turn outlives us.
//!
//! A *knob* is a file of the kernel that holds one setting: a cgroup's `memory.min`,
//! `/proc/sys/vm/watermark_scale_factor`. A setting of one process, and an attribute of a cgroup,
//! are knobs too ([`crate::knob`]). The daemon can be killed at any time (SIGKILL), and the
//! kernel keeps what was written. So before a knob is changed, its old value and the new one are
//! written to the journal. The next life of the daemon reads them and puts the knobs back.
//!
//! A line has three words: the path, the old value, the value that we set. Spaces, control
//! characters, backslashes and bytes above 0x7e are written as in /proc/self/mounts: `\040`.
//!
//! ```text
//! /sys/fs/cgroup/media/memory.min 0 max
//! /sys/fs/cgroup/media/memory.min 0 268435456
//! /sys/fs/cgroup/media/memory.min 0 0
//! ```
//!
//! 1. Lines are appended, and the last line of a knob counts. If it has the same value twice, the
//!    knob is as it was.
//! 2. Each line is one write() and nothing is synced. The journal must survive the death of the
//!    daemon, not that of the machine: after a crash of the machine the knobs have their defaults
//!    again, and `/run` is empty. A write() that has returned survives SIGKILL.
//! 3. The line is written before the knob. If SIGKILL tears the line, it has no newline and is
//!    left out; then its knob was not changed yet, and the lines before it are whole.
//! 4. So after a kill the knob has the value of the last line or of the one before. Both are ours.
//! 5. The kernel may show another value than was written (memory.min is rounded down to pages).
//!    What the file reads after the write is appended too, and is ours.
//! 6. When most lines are outdated, the file is written anew under a temporary name and renamed.
//!    Until the rename the old file counts.

use std::path::Path;

use crate::{knob as knobs, MemoryError};

mod text;
pub(crate) use text::parse_any;
use text::{Entries, Entry, Text};

/// Where the daemon keeps its journal.
pub const DEFAULT: &str = "/run/aplomb/knobs";
/// Knobs that are remembered at most; changing one more is an error. As many as a walk of the
/// domains visits directories.
pub const MAX_KNOBS: usize = 16_384;

/// What became of knobs that were put back.
#[derive(Debug, Default)]
pub struct Report {
    /// Knobs that have their old value again.
    pub restored: usize,
    /// Knobs that another program changed, knobs that could not be written, and lines that could
    /// not be parsed.
    pub complaints: Vec<MemoryError>,
}

/// What became of one knob.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Restored,
    /// It was never changed, has its old value, or vanished.
    NothingToDo,
    /// Another program set it to this value.
    Changed(String),
}

/// The knobs that are not as they were.
#[derive(Debug)]
pub struct Journal {
    text: Text,
    knobs: Entries,
    /// Lines of the file that could not be parsed, until [`Journal::recover`] reports them.
    unparsed: Vec<MemoryError>,
}

impl Journal {
    /// Open the journal at `path`, and create it and its directory (0755) if they are missing. The
    /// entries of an earlier life stay until [`Journal::recover`].
    ///
    /// # Errors
    /// Failed system calls. The file is a symbolic link, is not a regular file of this user, has
    /// more than 8 MB, or is in use by another process. It has more than [`MAX_KNOBS`] knobs.
    pub fn open(path: &Path) -> Result<Self, MemoryError> {
        let (text, entries, unparsed) = Text::open(path)?;
        let mut journal = Self {
            text,
            knobs: Entries::new(),
            unparsed,
        };
        for (knob, entry) in entries {
            journal.has_room_for(&knob)?;
            journal.knobs.insert(knob, entry);
        }
        Ok(journal)
    }

    /// Knobs that are not as they were.
    pub fn len(&self) -> usize {
        self.knobs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.knobs.is_empty()
    }

    /// The knobs that are not as they were, each with its old value and ours.
    pub fn changed(&self) -> impl Iterator<Item = (&Path, &str, &str)> {
        let all = self.knobs.iter();
        all.map(|(knob, e)| (knob.as_path(), e.old.as_str(), e.set.as_str()))
    }

    /// The value that `knob` had before us. None if we did not change it.
    pub fn old_value(&self, knob: &Path) -> Option<&str> {
        self.knobs.get(knob).map(|e| e.old.as_str())
    }

    /// Put back the knobs that an earlier life left, and empty the file. A knob stays as it is if
    /// it has another value than we set, because another program changed it since. A knob whose
    /// file vanished is left out. A knob that could not be written stays in the journal.
    pub fn recover(&mut self) -> Report {
        let mut report = self.restore_all();
        report.complaints.splice(0..0, self.unparsed.drain(..));
        report
    }

    /// Set a knob. Nothing is written if it has this value. If another program changed the knob
    /// since we did, the value of that program becomes the old value.
    ///
    /// # Errors
    /// The knob's file is missing ([`MemoryError::is_vanished`]) or refuses the value; the path is
    /// not absolute; there are [`MAX_KNOBS`] knobs; the journal cannot be written, in which case
    /// the knob is not changed.
    pub fn set(&mut self, knob: &Path, value: &str) -> Result<(), MemoryError> {
        if !knob.is_absolute() {
            return Err(MemoryError::state(knob, "a knob's path begins with \"/\""));
        }
        let now = knobs::read(knob)?;
        let known = self.knobs.get(knob);
        let done = known.map_or(now == value, |e| e.asked == value && now == e.set);
        if done {
            return Ok(());
        }
        self.has_room_for(knob)?;
        let old = match known {
            Some(entry) if entry.is_ours(&now) => entry.old.clone(),
            _ => now.clone(),
        };
        if old == value {
            // The line says that the knob is as it was, so here the knob comes first.
            if now != value {
                knobs::write(knob, value)?;
            }
            return self.drop_entry(knob);
        }
        self.append(knob, Entry::new(&old, &now, value))?;
        knobs::write(knob, value)?;
        let shown = knobs::read(knob)?;
        if shown != value {
            let mut entry = Entry::new(&old, value, &shown);
            entry.asked = value.into();
            self.append(knob, entry)?;
        }
        Ok(())
    }

    /// Put a knob back, unless another program changed it since we did. Returns true if it has the
    /// value again that it had before us.
    ///
    /// # Errors
    /// [`MemoryError::Changed`]; the knob or the journal cannot be written. A knob that cannot be
    /// written stays in the journal.
    pub fn restore(&mut self, knob: &Path) -> Result<bool, MemoryError> {
        let Some(entry) = self.knobs.get(knob).cloned() else {
            return Ok(false);
        };
        let outcome = put_back(knob, &entry)?;
        self.drop_entry(knob)?;
        match outcome {
            Outcome::Restored => Ok(true),
            Outcome::NothingToDo => Ok(false),
            Outcome::Changed(now) => Err(changed(knob, now, entry)),
        }
    }

    /// Put all knobs back, the last path first, so that a cgroup comes before the ones above it.
    /// The file is empty afterwards, but for the knobs that could not be written.
    pub fn restore_all(&mut self) -> Report {
        let mut report = Report::default();
        let mut failed = Entries::new();
        for (knob, entry) in std::mem::take(&mut self.knobs).into_iter().rev() {
            match put_back(&knob, &entry) {
                Ok(Outcome::Restored) => report.restored += 1,
                Ok(Outcome::NothingToDo) => {}
                Ok(Outcome::Changed(now)) => report.complaints.push(changed(&knob, now, entry)),
                Err(e) => {
                    report.complaints.push(e);
                    failed.insert(knob, entry);
                }
            }
        }
        self.knobs = failed;
        if let Err(e) = self.text.rewrite(&self.knobs) {
            report.complaints.push(e);
        }
        report
    }

    /// Forget the knobs of a cgroup that was removed: all whose path is `below` or is below it. A
    /// new cgroup of the same name has values of its own.
    ///
    /// # Errors
    /// The journal cannot be written. The knobs are forgotten by this life nevertheless.
    pub fn forget(&mut self, below: &Path) -> Result<(), MemoryError> {
        let after = self
            .knobs
            .range(below.to_path_buf()..)
            .map(|(knob, _)| knob);
        let gone: Vec<_> = after
            .take_while(|k| k.starts_with(below))
            .cloned()
            .collect();
        let dropped: Vec<_> = gone.iter().map(|knob| self.drop_entry(knob)).collect();
        dropped.into_iter().collect()
    }

    fn has_room_for(&self, knob: &Path) -> Result<(), MemoryError> {
        if self.knobs.len() < MAX_KNOBS || self.knobs.contains_key(knob) {
            return Ok(());
        }
        let why = format!("{MAX_KNOBS} knobs are changed, which is the limit");
        Err(MemoryError::state(knob, why))
    }

    /// Write an entry to the journal, and remember it once it is there.
    fn append(&mut self, knob: &Path, entry: Entry) -> Result<(), MemoryError> {
        self.text.append(knob, &entry, &self.knobs)?;
        self.knobs.insert(knob.into(), entry);
        Ok(())
    }

    /// Note that a knob is as it was, or vanished.
    fn drop_entry(&mut self, knob: &Path) -> Result<(), MemoryError> {
        let Some(entry) = self.knobs.remove(knob) else {
            return Ok(());
        };
        let done = Entry::new(&entry.old, &entry.set, &entry.old);
        self.text.append(knob, &done, &self.knobs)
    }
}

fn put_back(knob: &Path, entry: &Entry) -> Result<Outcome, MemoryError> {
    let now = match knobs::read(knob) {
        Err(e) if e.is_vanished() => return Ok(Outcome::NothingToDo),
        now => now?,
    };
    if now == entry.old {
        return Ok(Outcome::NothingToDo);
    }
    if !entry.is_ours(&now) {
        return Ok(Outcome::Changed(now));
    }
    match knobs::write(knob, &entry.old) {
        Ok(()) => Ok(Outcome::Restored),
        Err(e) if e.is_vanished() => Ok(Outcome::NothingToDo),
        Err(e) => Err(e),
    }
}

fn changed(knob: &Path, now: String, entry: Entry) -> MemoryError {
    MemoryError::Changed {
        path: knob.into(),
        now,
        ours: entry.set,
    }
}

#[cfg(test)]
mod tests;
