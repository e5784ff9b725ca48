//! What the path of a knob names: a file of the kernel, a setting of one process, or an attribute
//! of a directory.
//!
//! A process id is used again after its process has exited. A journal outlives processes, so a path
//! below `/proc/812` would name another process one day. A knob of a process is therefore named by
//! its id and its start time, in ticks since boot as `/proc/812/stat` has it:
//!
//! ```text
//! /proc/812:55123/oom_score_adj
//! /sys/fs/cgroup/media.slice/xattr:user.oomd_avoid
//! ```
//!
//! All files of the process are opened below one open directory. The kernel never lets such a
//! directory lead to another process. So if the start time is right, the setting is that process's.
//!
//! `vm.dirty_background_bytes` and `vm.dirty_background_ratio` are one setting in two files.
//! Writing one sets the other to 0, but the kernel refuses a 0 that is written to the file of
//! bytes. So that file reads as `10%` while the other one is in force, and that value is written to
//! the other one.
//!
//! An attribute that is not set reads as the empty value, and the empty value removes it. A file
//! that shows all its choices (`always [madvise] never`) reads as the one in force.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{getxattr, open, openat, removexattr, setxattr, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use crate::{file, MemoryError};

/// Of the last part of the path of an attribute.
const ATTRIBUTE: &str = "xattr:";
/// Bytes of an attribute's value. A longer one is an error.
const MAX_VALUE: usize = 64;
/// Bytes that are read of a process's file.
const MAX_FILE: u64 = 4096;
/// The field of /proc/PID/stat after the program's name with the start time, from 0.
const START: usize = 19;

/// The path of a setting of the process `pid` that started at `start`.
pub fn of_process(pid: i32, start: u64, name: &str) -> PathBuf {
    format!("/proc/{pid}:{start}/{name}").into()
}

/// The path of an attribute of a directory.
pub fn of_attribute(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{ATTRIBUTE}{name}"))
}

/// The process of a knob, and its start time. None if the knob is no process's.
pub fn process(knob: &Path) -> Option<(i32, u64)> {
    let rest = knob.strip_prefix("/proc").ok()?;
    let (pid, start) = rest.iter().next()?.to_str()?.split_once(':')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// The value of a knob, without the newline at its end.
///
/// # Errors
/// Failed system calls. The process has exited ([`MemoryError::is_vanished`]).
pub fn read(knob: &Path) -> Result<String, MemoryError> {
    let text = if let Some((dir, name)) = attribute(knob) {
        let mut value = [0; MAX_VALUE];
        match getxattr(dir, name, &mut value[..]) {
            Ok(n) => String::from_utf8_lossy(&value[..n]).into_owned(),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => String::new(),
            Err(e) => return Err(MemoryError::io(knob, "reading it", e)),
        }
    } else if let Some((pid, start)) = process(knob) {
        read_below(&proc_dir(knob, pid, start)?, name_of(knob), knob)?
    } else {
        file::read(knob)?
    };
    let text = text.trim_end();
    match ratio_file(knob) {
        Some(ratio) if text == "0" => Ok(format!("{}%", file::read(&ratio)?.trim_end())),
        _ => Ok(choice(text).unwrap_or(text).to_owned()),
    }
}

/// The choice in force in a text that shows all of them. None: it is no such text.
fn choice(text: &str) -> Option<&str> {
    fn inside(word: &str) -> Option<&str> {
        word.strip_prefix('[')?.strip_suffix(']')
    }
    let mut found = text.split(' ').filter_map(inside);
    let chosen = found.next()?;
    (text.contains(' ') && found.next().is_none()).then_some(chosen)
}

/// Set a knob.
///
/// # Errors
/// As [`read`].
pub fn write(knob: &Path, value: &str) -> Result<(), MemoryError> {
    let fail = |e: Errno| MemoryError::io(knob, "writing it", e);
    if let Some((dir, name)) = attribute(knob) {
        let done = match value {
            "" => removexattr(dir, name),
            _ => setxattr(dir, name, value.as_bytes(), XattrFlags::empty()),
        };
        return match done {
            Err(Errno::NODATA) => Ok(()),
            done => done.map_err(fail),
        };
    }
    if let (Some(ratio), Some(percent)) = (ratio_file(knob), value.strip_suffix('%')) {
        return file::write(&ratio, percent);
    }
    let Some((pid, start)) = process(knob) else {
        return file::write(knob, value);
    };
    let dir = proc_dir(knob, pid, start)?;
    let file = openat(
        &dir,
        name_of(knob),
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let written = File::from(file.map_err(fail)?).write_all(value.as_bytes());
    written.map_err(|e| MemoryError::io(knob, "writing it", e))
}

/// The file with the same setting as a part of memory, percent. None: `knob` is not of that kind.
fn ratio_file(knob: &Path) -> Option<PathBuf> {
    let name = name_of(knob);
    let of_ratio = name.starts_with("dirty_").then_some(name)?;
    Some(knob.with_file_name(format!("{}_ratio", of_ratio.strip_suffix("_bytes")?)))
}

fn attribute(knob: &Path) -> Option<(&Path, &str)> {
    Some((knob.parent()?, name_of(knob).strip_prefix(ATTRIBUTE)?))
}

fn name_of(knob: &Path) -> &str {
    knob.file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default()
}

/// The open directory of a process, if it is the one that started at `start`.
fn proc_dir(knob: &Path, pid: i32, start: u64) -> Result<OwnedFd, MemoryError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = open(format!("/proc/{pid}"), flags, Mode::empty());
    let dir = dir.map_err(|e| MemoryError::io(knob, "opening it", e))?;
    let stat = read_below(&dir, "stat", knob)?;
    if start_time(&stat) != Some(start) {
        return Err(MemoryError::io(
            knob,
            "another process has its id",
            Errno::SRCH,
        ));
    }
    Ok(dir)
}

/// The start time in a text of /proc/PID/stat. The program's name, in brackets, may contain
/// anything.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(") ")?;
    after.split(' ').nth(START)?.parse().ok()
}

fn read_below(dir: &OwnedFd, name: &str, knob: &Path) -> Result<String, MemoryError> {
    let fail = |e: std::io::Error| MemoryError::io(knob, "reading it", e);
    let file = openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut bytes = Vec::new();
    let file = File::from(file.map_err(|e| fail(e.into()))?);
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(fail)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned()) // of a program's name, any bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    const NAME: &str = "oom_score_adj";

    fn sleeper() -> (Child, i32, u64) {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id() as i32;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        (child, pid, start_time(&stat).unwrap())
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let (mut child, pid, start) = sleeper();
        let knob = of_process(pid, start, NAME);
        let other = of_process(pid, start + 1, NAME);
        assert_eq!(process(&knob), Some((pid, start)));
        assert_eq!(process(Path::new("/proc/sys/vm/swappiness")), None);
        assert_eq!(process(Path::new("/sys/812:5/x")), None);
        // Raising it needs no privilege.
        write(&knob, "700").unwrap();
        assert_eq!(read(&knob).unwrap(), "700");
        let e = write(&other, "800").unwrap_err();
        assert!(
            e.is_vanished() && e.to_string().contains("another process"),
            "{e}"
        );
        assert!(read(&other).unwrap_err().is_vanished());
        assert_eq!(read(&knob).unwrap(), "700");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(read(&knob).unwrap_err().is_vanished());
        assert!(write(&knob, "800").unwrap_err().is_vanished());
    }

    #[test]
    fn a_name_with_brackets_hides_nothing() {
        let mut stat = "812 (a) R 1) S 1 2 3".to_owned();
        stat += &" 4".repeat(15);
        stat += " 55123 0";
        assert_eq!(start_time(&stat), Some(55123));
        assert_eq!(start_time("812 (a"), None);
    }

    #[test]
    fn of_choices_the_one_in_force_is_read() {
        assert_eq!(choice("always [madvise] never"), Some("madvise"));
        for text in ["[always]", "7", "", "a [b] [c]", "[a b]"] {
            assert_eq!(choice(text), None, "{text}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[always] madvise never\n").unwrap();
        assert_eq!(read(file.path()).unwrap(), "always");
    }

    #[test]
    fn one_setting_in_two_files_is_read_and_put_back_where_it_is_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = dir.path().join("dirty_background_bytes");
        let ratio = dir.path().join("dirty_background_ratio");
        std::fs::write(&bytes, "0\n").unwrap();
        std::fs::write(&ratio, "10\n").unwrap();
        assert_eq!(read(&bytes).unwrap(), "10%");
        write(&bytes, "15%").unwrap();
        assert_eq!(std::fs::read_to_string(&ratio).unwrap(), "15");
        assert_eq!(std::fs::read_to_string(&bytes).unwrap(), "0\n", "untouched");
        write(&bytes, "1048576").unwrap();
        assert_eq!(read(&bytes).unwrap(), "1048576");
        assert_eq!(ratio_file(Path::new("/proc/sys/vm/min_free_kbytes")), None);
        assert_eq!(ratio_file(&ratio), None);
    }

    #[test]
    fn an_attribute_that_is_empty_is_not_there() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let knob = of_attribute(dir.path(), "user.oomd_avoid");
        assert_eq!(read(&knob).unwrap(), "");
        write(&knob, "").unwrap();
        if write(&knob, "1").is_ok() {
            assert_eq!(read(&knob).unwrap(), "1");
            write(&knob, "").unwrap();
        }
        assert_eq!(read(&knob).unwrap(), "");
        let gone = of_attribute(&dir.path().join("gone"), "user.oomd_avoid");
        assert!(write(&gone, "1").unwrap_err().is_vanished());
    }
}
