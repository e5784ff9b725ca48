//! Watches for created and removed domains and for changed attributes (inotify on the directories
//! of the cgroup tree).
//!
//! The kernel reports changes that programs make: created and removed directories, attributes. It
//! does not report changes that it makes itself, except those of cgroup.events. That file is
//! watched for ephemeral domains.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aplomb_domain::{Directory, DomainPath};
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};

/// The most directories and files that are watched: twice the domains of the kernel side's table.
pub const MAX_WATCHED: usize = 8192;

/// Bytes of an inotify event without a name (struct inotify_event).
const SMALLEST_EVENT: usize = 16;

/// A change of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The domain of this path was created.
    Created(DomainPath),
    /// The domain of this path was removed.
    Removed(DomainPath),
    /// The attributes of this domain changed.
    Attributes(DomainPath),
    /// This domain got its first process, or lost the last one.
    Populated(DomainPath),
    /// The queue overflowed: every domain may have changed.
    All,
}

#[derive(Debug, Clone)]
enum Role {
    Directory(DomainPath),
    Events(DomainPath),
}

impl Role {
    /// The change that an event on a watch of this role means. None if it does not matter.
    fn seen(&self, event: EventMask, name: Option<&str>) -> Option<Seen> {
        let path = match self {
            Self::Events(path) => return Some(Seen::Populated(path.clone())),
            Self::Directory(path) => path,
        };
        let comes_or_goes = event.intersects(EventMask::CREATE | EventMask::DELETE);
        if comes_or_goes && event.contains(EventMask::ISDIR) {
            // On an error the name is no domain's or is too deep, so it was never known.
            let child = path.child(name?).ok()?;
            return Some(match event.contains(EventMask::CREATE) {
                true => Seen::Created(child),
                false => Seen::Removed(child),
            });
        }
        // An event with a name is about a child, whose own watch reports it too.
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

    /// Watch a domain's directory. When the domain is removed, the caller passes the descriptor to
    /// [`Watch::remove`].
    ///
    /// # Errors
    /// There are too many watches ([`MAX_WATCHED`], or the machine's limit).
    pub fn directory(&mut self, dir: &Directory) -> io::Result<WatchDescriptor> {
        let flags = WatchMask::CREATE | WatchMask::DELETE | WatchMask::ATTRIB | WatchMask::ONLYDIR;
        // By its descriptor, so that no other directory of the same name can take its place.
        let place = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
        self.add(&place, flags, Role::Directory(dir.path.clone()))
    }

    /// Watch whether a domain has processes (cgroup.events).
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

    /// Remove a watch. Does nothing if the kernel removed it with its directory.
    pub fn remove(&mut self, watch: WatchDescriptor) {
        if self.roles.remove(&watch).is_some() {
            let _ = self.inotify.watches().remove(watch);
        }
    }

    /// The next changes since the last call, at most 256: each may cost the creation or removal of
    /// a directory. While there are more, the descriptor stays readable.
    pub fn read(&mut self) -> Vec<Seen> {
        let mut all: Vec<Seen> = Vec::new();
        let mut buffer = [0; 256 * SMALLEST_EVENT];
        let Ok(events) = self.inotify.read_events(&mut buffer) else {
            return all; // none: it fails with WouldBlock
        };
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
        all
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
