//! Sees domains come, go and get other attributes (inotify on the directories of the cgroup tree).
//!
//! The kernel reports what people do to the tree: directories made and removed, attributes set.
//! Changes that the kernel makes by itself it does not report, except to a cgroup.events, which is
//! watched for ephemeral domains.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aplomb_domain::{Directory, DomainPath};
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};

/// Directories and files that are watched at most: twice the domains that the kernel side holds.
pub const MAX_WATCHED: usize = 8192;

/// What happened to a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The domain of this path was created.
    Created(DomainPath),
    /// The domain of this path was removed.
    Removed(DomainPath),
    /// Its attributes changed.
    Attributes(DomainPath),
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

impl Role {
    /// What an event on the watch of this role says. None: nothing that matters.
    fn seen(&self, event: EventMask, name: Option<&str>) -> Option<Seen> {
        let path = match self {
            Self::Events(path) => return Some(Seen::Populated(path.clone())),
            Self::Directory(path) => path,
        };
        let comes_or_goes = event.intersects(EventMask::CREATE | EventMask::DELETE);
        if comes_or_goes && event.contains(EventMask::ISDIR) {
            // an error: too deep, or no name of a domain, so it was never known
            let child = path.child(name?).ok()?;
            return Some(match event.contains(EventMask::CREATE) {
                true => Seen::Created(child),
                false => Seen::Removed(child),
            });
        }
        // with a name: a child's attributes, which the child's own watch reports too
        (event.contains(EventMask::ATTRIB) && name.is_none())
            .then(|| Seen::Attributes(path.clone()))
    }
}

/// An inotify instance and what it watches.
#[derive(Debug)]
pub struct Watch {
    inotify: Inotify,
    roles: HashMap<WatchDescriptor, Role>,
    limit: usize,
}

impl Watch {
    /// # Errors
    /// The user's limit of inotify instances is reached.
    pub fn new(limit: usize) -> io::Result<Self> {
        Ok(Self {
            inotify: Inotify::init()?,
            roles: HashMap::new(),
            limit,
        })
    }

    /// Watch a domain's directory; its number is to be given back when it goes.
    ///
    /// # Errors
    /// Too many are watched ([`MAX_WATCHED`], or the machine's limit).
    pub fn directory(&mut self, dir: &Directory) -> io::Result<WatchDescriptor> {
        let flags = WatchMask::CREATE | WatchMask::DELETE | WatchMask::ATTRIB | WatchMask::ONLYDIR;
        // by its descriptor: no other directory of the same name can take its place
        let place = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
        self.add(&place, flags, Role::Directory(dir.path.clone()))
    }

    /// Watch whether a domain has processes.
    ///
    /// # Errors
    /// As [`Watch::directory`].
    pub fn events(&mut self, dir: &Directory) -> io::Result<WatchDescriptor> {
        let place = format!("/proc/self/fd/{}/cgroup.events", dir.as_fd().as_raw_fd());
        self.add(&place, WatchMask::MODIFY, Role::Events(dir.path.clone()))
    }

    fn add(&mut self, place: &str, flags: WatchMask, role: Role) -> io::Result<WatchDescriptor> {
        if self.roles.len() >= self.limit {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        let watch = self.inotify.watches().add(place, flags)?;
        self.roles.insert(watch.clone(), role);
        Ok(watch)
    }

    /// Give a watch back. Nothing if the kernel took it with its directory.
    pub fn remove(&mut self, watch: WatchDescriptor) {
        if self.roles.remove(&watch).is_some() {
            let _ = self.inotify.watches().remove(watch);
        }
    }

    /// What happened since the last call, each once.
    pub fn read(&mut self) -> Vec<Seen> {
        let mut all: Vec<Seen> = Vec::new();
        let mut buffer = [0; 4096];
        // no events are the error WouldBlock
        while let Ok(events) = self.inotify.read_events(&mut buffer) {
            for event in events {
                if event.mask.contains(EventMask::Q_OVERFLOW) {
                    return vec![Seen::All];
                }
                let name = event.name.and_then(|n| n.to_str());
                let seen = self
                    .roles
                    .get(&event.wd)
                    .and_then(|role| role.seen(event.mask, name));
                all.extend(seen.filter(|s| all.last() != Some(s)));
            }
        }
        all
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
