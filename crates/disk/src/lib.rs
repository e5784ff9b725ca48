//! Disks as the kernel shows them: what each has done, which I/O scheduler it has, what it is made
//! of, and what each domain had it do.
//!
//! - [`device`]: the disks of the machine, from /sys/block;
//! - [`domain`]: what a cgroup and all below it read and wrote, and how much of it still waits for
//!   a disk;
//! - [`priority`]: the I/O priority of threads.
//!
//! Everything is read when it is asked for. Nothing is counted here, so nothing costs anything in
//! between. The folders are named by the caller, so the tests use folders of their own.

pub mod device;
pub mod domain;
pub mod priority;

pub use device::{disks, Disk, Done, Number};
pub use domain::{DiskUse, DomainUse};
pub use priority::Priority;

use std::path::{Path, PathBuf};

/// A file of the kernel that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct DiskError {
    pub path: PathBuf,
    pub source: std::io::Error,
}

/// The text of a file, without the blanks around it.
fn read(path: &Path) -> Result<String, DiskError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| DiskError {
        path: path.into(),
        source,
    })?;
    Ok(text.trim().to_owned())
}
