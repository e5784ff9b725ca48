//! Sees domains come, go and get other attributes (inotify on the directories of the cgroup tree).
//!
//! The kernel reports what people do to the tree: directories made and removed, attributes set. Changes that the
//! kernel makes by itself it does not report, except to a cgroup.events, which is watched for ephemeral domains.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aplomb_domain::{Directory, DomainPath};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Directories and files that are watched at most: twice the domains that the kernel side holds.
pub const MAX_WATCHED: usize = 8192;

/// What happened to a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The domain of this path came.
    Came(DomainPath),
    /// The domain of this path went.
    Gone(DomainPath),
    /// Its attributes changed.
    Marks(DomainPath),
    /// It got processes, or lost the last one.
    Populated(DomainPath),
    /// More than the queue holds: everything may have changed.
    All,
}

#[derive(Debug, Clone)]
enum Role {
    Directory(DomainPath),
    Events(DomainPath),
}

/// An inotify instance and what it watches.
#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
    roles: HashMap<i32, Role>,
    limit: usize,
}

impl Watch {
    /// # Errors
    /// The user's limit of inotify instances is reached.
    pub fn new(limit: usize) -> io::Result<Self> {
        Ok(Self {
            fd: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            roles: HashMap::new(),
            limit,
        })
    }

    /// Watch a domain's directory; its number is to be given back when it goes.
    ///
    /// # Errors
    /// Too many are watched ([`MAX_WATCHED`], or the machine's limit).
    pub fn directory(&mut self, dir: &Directory) -> io::Result<i32> {
        let flags =
            WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ATTRIB | WatchFlags::ONLYDIR;
        // by its descriptor: no other directory of the same name can take its place
        let place = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
        self.add(&place, flags, Role::Directory(dir.path.clone()))
    }

    /// Watch whether a domain has processes.
    ///
    /// # Errors
    /// As [`Watch::directory`].
    pub fn events(&mut self, dir: &Directory) -> io::Result<i32> {
        let place = format!("/proc/self/fd/{}/cgroup.events", dir.as_fd().as_raw_fd());
        self.add(&place, WatchFlags::MODIFY, Role::Events(dir.path.clone()))
    }

    fn add(&mut self, place: &str, flags: WatchFlags, role: Role) -> io::Result<i32> {
        if self.roles.len() >= self.limit {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        let number = inotify::add_watch(&self.fd, place, flags)?;
        self.roles.insert(number, role);
        Ok(number)
    }

    /// Give a watch back. Nothing if the kernel took it with its directory.
    pub fn remove(&mut self, number: i32) {
        if self.roles.remove(&number).is_some() {
            let _ = inotify::remove_watch(&self.fd, number);
        }
    }

    /// What happened since the last call, each once.
    pub fn read(&mut self) -> Vec<Seen> {
        let mut all: Vec<Seen> = Vec::new();
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.fd, &mut space);
        while let Ok(event) = reader.next() {
            let what = event.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                return vec![Seen::All];
            }
            let name = event.file_name().and_then(|n| n.to_str().ok());
            let seen = match self.roles.get(&event.wd()) {
                Some(Role::Events(path)) => Seen::Populated(path.clone()),
                Some(Role::Directory(path))
                    if what.intersects(ReadFlags::CREATE | ReadFlags::DELETE)
                        && what.contains(ReadFlags::ISDIR) =>
                {
                    match name.map(|n| path.child(n)) {
                        Some(Ok(child)) if what.contains(ReadFlags::CREATE) => Seen::Came(child),
                        Some(Ok(child)) => Seen::Gone(child),
                        _ => continue, // too deep or no domain's name: never known
                    }
                }
                // a name: a child's attributes, which its own watch tells too
                Some(Role::Directory(path))
                    if what.contains(ReadFlags::ATTRIB) && name.is_none() =>
                {
                    Seen::Marks(path.clone())
                }
                _ => continue,
            };
            if all.last() != Some(&seen) {
                all.push(seen);
            }
        }
        all
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
