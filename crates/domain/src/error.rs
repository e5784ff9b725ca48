//! Errors of domains. Each names the file or the domain that it is about.

use std::io;
use std::path::PathBuf;

/// A domain could not be found, read, created or changed.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// No mount shows the cgroup v2 tree from its root on.
    #[error("no cgroup v2 tree is mounted (/proc/self/mountinfo); domains are its directories")]
    NoTree,
    /// The CPU controller belongs to cgroup v1, or is not in this kernel.
    #[error("{} does not name the CPU controller: this machine keeps it in cgroup v1, or its kernel has none", .0.display())]
    NoController(PathBuf),
    /// There is no such domain.
    #[error("there is no domain {0}")]
    Missing(String),
    /// A name, a file or an attribute is invalid.
    #[error("{place}: {message}")]
    Wrong { place: String, message: String },
    /// The domain is in a state in which the operation is not possible.
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
    /// True if this user lacks the permission.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}
