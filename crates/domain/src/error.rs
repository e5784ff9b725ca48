//! What can go wrong with a domain, naming its file.

use std::io;
use std::path::PathBuf;

/// A domain could not be found, read, made or changed.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// No cgroup v2 tree is mounted from its root on.
    #[error("no cgroup v2 tree is mounted (/proc/self/mountinfo); domains are its directories")]
    NoTree,
    /// The CPU controller belongs to cgroup v1, or is not in this kernel.
    #[error("{} does not name the CPU controller: this machine keeps it in cgroup v1, or its kernel has none", .0.display())]
    NoController(PathBuf),
    /// There is no such domain.
    #[error("there is no domain {0}")]
    Missing(String),
    /// A name, a file or an attribute holds what makes no sense.
    #[error("{place}: {message}")]
    Wrong { place: String, message: String },
    /// Not in the state that it takes.
    #[error("{}: {why}", .path.display())]
    State { path: PathBuf, why: &'static str },
    /// A system call failed.
    #[error("{}: {doing}: {source}", .path.display())]
    Io {
        path: PathBuf,
        doing: &'static str,
        source: io::Error,
    },
    /// The service manager refused, or cannot be reached.
    #[error("systemd: {0}")]
    Manager(String),
}

impl DomainError {
    /// True if another user could do it.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}
