//! Errors of the memory layer. Each names its file, and the line where a text was parsed.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A file of the kernel, or the knob journal, could not be read, understood or written.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// A system call failed.
    #[error("{}: {doing}: {source}", .path.display())]
    Io {
        path: PathBuf,
        doing: &'static str,
        source: io::Error,
    },
    /// A line has an unknown form.
    #[error("{}:{line}: {why}", .path.display())]
    Line {
        path: PathBuf,
        line: u64,
        why: String,
    },
    /// A file is not what it should be.
    #[error("{}: {why}", .path.display())]
    State { path: PathBuf, why: String },
    /// Another program changed a knob after us, so its value stays.
    #[error("{}: it reads \"{now}\" and we had set \"{ours}\": another program changed it, so it stays", .path.display())]
    Changed {
        path: PathBuf,
        now: String,
        ours: String,
    },
}

impl MemoryError {
    pub(crate) fn io(path: &Path, doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io {
            path: path.into(),
            doing,
            source: source.into(),
        }
    }

    pub(crate) fn state(path: &Path, why: impl Into<String>) -> Self {
        Self::State {
            path: path.into(),
            why: why.into(),
        }
    }

    /// True if the file does not exist, or belongs to a cgroup that was removed while it was open
    /// (ENODEV), or to a process that has exited (ESRCH).
    pub fn is_vanished(&self) -> bool {
        let errno = |e: &io::Error| e.raw_os_error().map(Errno::from_raw_os_error);
        matches!(self, Self::Io { source, .. }
            if matches!(errno(source), Some(Errno::NOENT | Errno::NODEV | Errno::SRCH)))
    }
}
