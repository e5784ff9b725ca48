//! Sockets of other processes: their priority (SO_PRIORITY), which may select a queue.
//!
//! The process is found by its id, and all that follows goes by a descriptor of it. So the id may
//! be given to another process meanwhile, and that one's sockets are left alone.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::NetError;

/// File descriptors of one process that [`Process::sockets`] looks at.
pub const MAX_DESCRIPTORS: usize = 1024;

/// A process that had the id `pid` when it was opened.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    fd: OwnedFd,
}

/// The descriptors of a process.
#[derive(Debug, Default)]
pub struct Sockets {
    pub descriptors: Vec<i32>,
    /// There are more than [`MAX_DESCRIPTORS`] descriptors: the others were not looked at.
    pub is_cut: bool,
}

impl Process {
    /// # Errors
    /// There is no such process.
    pub fn open(pid: i32) -> Result<Self, NetError> {
        // SAFETY: the arguments are numbers
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = owned(fd).map_err(|source| NetError::Process { pid, source })?;
        Ok(Self { pid, fd })
    }

    /// Its descriptors of sockets, the lowest first.
    ///
    /// # Errors
    /// It has ended, or this process may not look at it.
    pub fn sockets(&self) -> Result<Sockets, NetError> {
        let pid = self.pid;
        let failed = |source| NetError::Process { pid, source };
        let mut all = Vec::new();
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(failed)? {
            if all.len() > MAX_DESCRIPTORS {
                break; // the kernel lists them in the order of their numbers
            }
            let name = entry.map_err(failed)?.file_name();
            all.extend(name.to_str().and_then(|n| n.parse::<i32>().ok()));
        }
        let is_cut = all.len() > MAX_DESCRIPTORS;
        all.truncate(MAX_DESCRIPTORS);
        all.retain(|fd| {
            let target = std::fs::read_link(format!("/proc/{pid}/fd/{fd}"));
            target.is_ok_and(|t| t.to_string_lossy().starts_with("socket:"))
        });
        let descriptors = all;
        Ok(Sockets {
            descriptors,
            is_cut,
        })
    }

    /// Change the priority of its socket `descriptor` into what `change` makes of it. False: it
    /// sends no packets to an interface (a Unix socket), or `change` wants none.
    ///
    /// # Errors
    /// The process has ended, or has no such socket; this process may not take it or set that
    /// priority.
    pub fn set_priority(
        &self,
        descriptor: i32,
        change: impl Fn(u32) -> Option<u32>,
    ) -> Result<bool, NetError> {
        let failed = |source| NetError::Socket {
            pid: self.pid,
            descriptor,
            source,
        };
        let process = self.fd.as_raw_fd();
        // SAFETY: the arguments are numbers
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, descriptor, 0) };
        let socket = owned(fd).map_err(failed)?;
        let family = option(&socket, libc::SO_DOMAIN).map_err(failed)?;
        if ![libc::AF_INET, libc::AF_INET6, libc::AF_PACKET].contains(&family) {
            return Ok(false);
        }
        let now = option(&socket, libc::SO_PRIORITY).map_err(failed)?;
        let Some(priority) = change(now as u32) else {
            return Ok(false);
        };
        set_option(&socket, libc::SO_PRIORITY, priority as i32).map_err(failed)?;
        Ok(true)
    }
}

/// The descriptor that a system call has returned.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the call has just opened it, for us alone
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

const SIZE: libc::socklen_t = std::mem::size_of::<libc::c_int>() as libc::socklen_t;

fn option(socket: &OwnedFd, name: libc::c_int) -> io::Result<i32> {
    let (mut value, mut size): (libc::c_int, _) = (0, SIZE);
    // SAFETY: the kernel writes at most `size` bytes, which `value` has
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    match done {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_option(socket: &OwnedFd, name: libc::c_int, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads SIZE bytes, which `value` has
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            SIZE,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn sockets_of_a_process_are_found_and_changed() {
        let (udp, unix) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UnixStream::pair());
        let unix = unix.unwrap().0;
        let file = std::fs::File::open("/dev/null").unwrap();
        let own = Process::open(std::process::id() as i32).unwrap();
        let found = own.sockets().unwrap();
        let has = |fd: i32| found.descriptors.contains(&fd);
        assert!(has(udp.as_raw_fd()) && has(unix.as_raw_fd()));
        assert!(!has(file.as_raw_fd()) && !found.is_cut);
        // a priority up to 6 takes no privilege
        let set = |fd, to| own.set_priority(fd, move |_| to);
        assert!(set(udp.as_raw_fd(), Some(5)).unwrap());
        assert!(!set(udp.as_raw_fd(), None).unwrap());
        let copy = OwnedFd::from(udp.try_clone().unwrap());
        assert_eq!(option(&copy, libc::SO_PRIORITY).unwrap(), 5);
        assert!(!set(unix.as_raw_fd(), Some(1)).unwrap());
        let e = set(file.as_raw_fd(), Some(1)).unwrap_err().to_string();
        assert!(e.contains("descriptor"), "{e}");
        assert!(set(9999, Some(1)).is_err());
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let e = Process::open(i32::MAX).unwrap_err().to_string();
        assert!(e.contains("process 2147483647"), "{e}");
    }
}
