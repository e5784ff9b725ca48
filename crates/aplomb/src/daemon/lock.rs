//! Ensures that one daemon runs at a time: a lock in the run directory, and the socket beside it.
//!
//! The lock belongs to an open file, so the kernel releases it when the process ends in any way.
//! The daemon that holds the lock may remove the socket that a killed daemon left.
//!
//! Commands that read a setting and write it back take a lock beside it ([`wait_for`]). Only root
//! can open the files: a user with such a file open could hold the lock, and the daemon would not
//! start.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

use crate::exit::{Exit, Failure};

/// The daemon's socket, unless `--socket` names another.
pub const SOCKET: &str = "/run/aplomb/socket";

/// How long a command waits for another one that has its lock: such a command takes some
/// milliseconds, and the daemon may take seconds to answer it on a loaded machine.
const WAIT: Duration = Duration::from_secs(10);

/// A lock that this process holds, as the one running daemon does. Dropping releases it.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Take the lock in the directory of `socket`. The directory is created if it is missing.
///
/// # Errors
/// Another daemon holds the lock (the message has its process id); the directory cannot be written.
pub fn take(socket: &Path) -> Result<Lock> {
    let dir = dir_of(socket);
    if !dir.is_dir() {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(dir);
        made.map_err(|e| permission(e, &format!("cannot make {}", dir.display())))?;
    }
    let path = dir.join("lock");
    let mut file = open(&path)?;
    if !try_lock(&file, &path)? {
        let mut pid = String::new();
        file.read_to_string(&mut pid).ok();
        bail!(
            "aplomb's daemon is already running (process {}, lock {})",
            pid.trim(),
            path.display()
        );
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .context(path.display().to_string())?;
    Ok(Lock { _file: file })
}

/// Take the lock `name` in the directory of `socket`, as soon as no other process has it. Without
/// that directory there is no daemon to ask, and no lock.
///
/// # Errors
/// Another process holds it for 10 s; the caller is not root.
pub fn wait_for(socket: &Path, name: &str) -> Result<Option<Lock>> {
    wait_at_most(WAIT, socket, name)
}

fn wait_at_most(wait: Duration, socket: &Path, name: &str) -> Result<Option<Lock>> {
    let dir = dir_of(socket);
    if !dir.is_dir() {
        return Ok(None);
    }
    let path = dir.join(name);
    let file = open(&path)?;
    let end = Instant::now() + wait;
    while !try_lock(&file, &path)? {
        if Instant::now() >= end {
            bail!(
                "another command has held {} for {} s: try again",
                path.display(),
                wait.as_secs()
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(Lock { _file: file }))
}

/// Lock the file at `path`. False: another process holds it.
fn try_lock(file: &File, path: &Path) -> Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(e) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
    }
}

fn dir_of(socket: &Path) -> &Path {
    let dir = socket.parent().filter(|d| !d.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}

/// Open a lock's file, or create it: for root alone.
fn open(path: &Path) -> Result<File> {
    let cannot = |e| permission(e, &format!("cannot open {}", path.display()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(path)
        .map_err(cannot)?;
    // One of an earlier version was readable.
    let set = file.set_permissions(Permissions::from_mode(0o600));
    set.map_err(cannot)?;
    Ok(file)
}

fn permission(error: std::io::Error, what: &str) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::new(
            Exit::Permission,
            format!("{what}: permission denied; run this as root"),
        )
        .into(),
        _ => anyhow::Error::from(error).context(what.to_owned()),
    }
}

/// The listening socket. Dropping removes its file.
#[derive(Debug)]
pub struct Socket {
    pub listener: UnixListener,
    path: PathBuf,
}

/// Listen on `path`. All users may connect; the credentials of each peer decide what it may do.
///
/// # Errors
/// `path` exists and is no socket; the directory cannot be written.
pub fn listen(path: &Path, _lock: &Lock) -> Result<Socket> {
    match fs::symlink_metadata(path) {
        Ok(m) if m.file_type().is_socket() => {
            fs::remove_file(path).with_context(|| path.display().to_string())?
        }
        Ok(_) => bail!("{} is in the way: it is no socket", path.display()),
        Err(_) => {}
    }
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o666))
        .with_context(|| path.display().to_string())?;
    listener.set_nonblocking(true)?;
    Ok(Socket {
        listener,
        path: path.into(),
    })
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    #[test]
    fn the_second_daemon_is_refused_with_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("run/socket");
        let lock = take(&socket).unwrap();
        let error = take(&socket).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(lock);
        // A process that another test starts has this test's files until it executes a program.
        let end = Instant::now() + Duration::from_secs(10);
        while take(&socket).is_err() {
            assert!(Instant::now() < end, "the lock is not released");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_command_waits_until_another_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let first = wait_for(&socket, "queues").unwrap();
        let second = std::thread::spawn({
            let socket = socket.clone();
            move || wait_for(&socket, "queues").unwrap().is_some()
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!second.is_finished());
        drop(first);
        assert!(second.join().unwrap());
        let held = wait_for(&socket, "queues").unwrap();
        let wait = Duration::from_millis(20);
        let error = wait_at_most(wait, &socket, "queues").unwrap_err();
        assert!(error.to_string().contains("queues for 0 s"), "{error}");
        drop(held);
        let nowhere = dir.path().join("none/socket");
        assert!(wait_for(&nowhere, "queues").unwrap().is_none());
    }

    /// A file of an earlier version, which all could open, too.
    #[test]
    fn only_root_can_open_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, "1").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let _lock = take(&dir.path().join("socket")).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn a_stale_socket_is_replaced_and_the_own_one_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let lock = take(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap()); // the file stays, as after a killed daemon
        assert!(UnixStream::connect(&path).is_err());
        let socket = listen(&path, &lock).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o666
        );
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_in_the_way_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        fs::write(&path, "precious").unwrap();
        let lock = take(&path).unwrap();
        assert!(listen(&path, &lock).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
