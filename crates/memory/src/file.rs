//! Small files of the kernel: one read, one write, each with the path in its error.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::MemoryError;

/// Bytes of a file that are read. memory.stat has about 2,000 of 60 lines; debugfs is read line by
/// line instead (`ages`).
const MAX_FILE: u64 = 16_384;

/// The text of a file, at most [`MAX_FILE`] bytes of it.
///
/// # Errors
/// Failed system calls; bytes that are not UTF-8.
pub fn read(path: &Path) -> Result<String, MemoryError> {
    let file = open(path, File::options().read(true))?;
    let mut text = String::new();
    let read = file.take(MAX_FILE).read_to_string(&mut text);
    read.map_err(|e| MemoryError::io(path, "reading it", e))?;
    Ok(text)
}

/// The text of a file; None if there is no such file or its cgroup was removed.
///
/// # Errors
/// As [`read`].
pub fn read_if_there(path: &Path) -> Result<Option<String>, MemoryError> {
    match read(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.is_vanished() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Write a value into a file that exists.
///
/// # Errors
/// Failed system calls.
pub fn write(path: &Path, value: &str) -> Result<(), MemoryError> {
    // Truncating does nothing in the kernel's file systems. A test's file must not keep the rest
    // of a longer value.
    write_all(path, value, File::options().write(true).truncate(true))
}

/// Write a command into a file that takes commands. In a test's file it comes after what is there.
///
/// # Errors
/// Failed system calls.
pub fn command(path: &Path, command: &str) -> Result<(), MemoryError> {
    write_all(path, command, File::options().append(true))
}

fn write_all(path: &Path, text: &str, options: &mut OpenOptions) -> Result<(), MemoryError> {
    let mut file = open(path, options)?;
    // One write, because the kernel takes each write as a whole value.
    let written = file.write_all(text.as_bytes());
    written.map_err(|e| MemoryError::io(path, "writing it", e))
}

/// O_NOFOLLOW: no file of the kernel that we use is a symbolic link.
fn open(path: &Path, options: &mut OpenOptions) -> Result<File, MemoryError> {
    let options = options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = options.open(path);
    file.map_err(|e| MemoryError::io(path, "opening it", e))
}
