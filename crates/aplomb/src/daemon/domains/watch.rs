//! Watches for created and removed domains and for changed attributes (inotify on the directories
//! of the cgroup tree).
//!
//! The kernel reports changes that programs make: created and removed directories, attributes. It
//! does not report changes that it makes itself, except those of cgroup.events. That file is
//! watched for ephemeral domains.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aplomb_domain::{Directory, DomainPath};
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask, Watches};

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

/// Adds watches, also from other threads. The thread that reads the events takes them over later
/// ([`Watch::learn`]).
#[derive(Debug, Clone)]
pub struct Watcher(Watches);

impl Watcher {
    /// Watch a domain's directory.
    ///
    /// # Errors
    /// There are more than the machine's limit.
    pub fn directory(&self, dir: &Directory) -> io::Result<WatchDescriptor> {
        let flags = WatchMask::CREATE | WatchMask::DELETE | WatchMask::ATTRIB | WatchMask::ONLYDIR;
        // By its descriptor, so that no other directory of the same name can take its place.
        self.add(dir, "", flags)
    }

    /// Watch whether a domain has processes (cgroup.events).
    ///
    /// # Errors
    /// As [`Watcher::directory`].
    pub fn events(&self, dir: &Directory) -> io::Result<WatchDescriptor> {
        self.add(dir, "/cgroup.events", WatchMask::MODIFY)
    }

    fn add(&self, dir: &Directory, file: &str, flags: WatchMask) -> io::Result<WatchDescriptor> {
        let place = format!("/proc/self/fd/{}{file}", dir.as_fd().as_raw_fd());
        self.0.clone().add(place, flags)
    }
}

/// An inotify instance and what it watches.
#[derive(Debug)]
pub struct Watch {
    inotify: Inotify,
    roles: HashMap<WatchDescriptor, Role>,
    limit: usize,
    /// Unknown watches that had events: the thread that added them has not told of them yet, or
    /// they were removed. None while no other thread adds watches.
    early: Option<HashSet<WatchDescriptor>>,
}

impl Watch {
    /// # Errors
    /// The user's limit of inotify instances is reached.
    pub fn new(limit: usize) -> io::Result<Self> {
        Ok(Self {
            inotify: Inotify::init()?,
            roles: HashMap::new(),
            limit,
            early: None,
        })
    }

    pub fn watcher(&self) -> Watcher {
        Watcher(self.inotify.watches())
    }

    /// Whether other threads add watches.
    pub fn expect(&mut self, others: bool) {
        match others {
            true => drop(self.early.get_or_insert_default()),
            false => self.early = None,
        }
    }

    /// `watch` watches the directory of `path`. When the domain is removed, the caller passes it to
    /// [`Watch::remove`]. Returns true if the directory had changed before this call.
    ///
    /// # Errors
    /// There are too many watches ([`MAX_WATCHED`]): it is removed again.
    pub fn learn(&mut self, watch: &WatchDescriptor, path: &DomainPath) -> io::Result<bool> {
        self.learn_role(watch, Role::Directory(path.clone()))
    }

    /// As [`Watch::learn`], of a domain's cgroup.events.
    ///
    /// # Errors
    /// As [`Watch::learn`].
    pub fn learn_events(&mut self, watch: &WatchDescriptor, path: &DomainPath) -> io::Result<bool> {
        self.learn_role(watch, Role::Events(path.clone()))
    }

    fn learn_role(&mut self, watch: &WatchDescriptor, role: Role) -> io::Result<bool> {
        let room = self.roles.len() < self.limit;
        match self.roles.entry(watch.clone()) {
            Entry::Occupied(_) => {}
            Entry::Vacant(free) if room => drop(free.insert(role)),
            Entry::Vacant(_) => {
                let _ = self.inotify.watches().remove(watch.clone());
                return Err(rustix::io::Errno::NOSPC.into());
            }
        }
        Ok(self.early.as_mut().is_some_and(|early| early.remove(watch)))
    }

    /// Remove a watch. Does nothing if the kernel removed it with its directory.
    pub fn remove(&mut self, watch: WatchDescriptor) {
        if self.roles.remove(&watch).is_some() {
            let _ = self.inotify.watches().remove(watch);
        }
    }

    /// Remove a watch that was added and that nothing was learned of.
    pub fn drop_unknown(&mut self, watch: &WatchDescriptor) {
        if !self.roles.contains_key(watch) {
            let _ = self.inotify.watches().remove(watch.clone());
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
            if !self.roles.contains_key(&event.wd) {
                if let Some(early) = &mut self.early {
                    if early.len() >= self.limit {
                        return vec![Seen::All];
                    }
                    early.insert(event.wd);
                }
                continue;
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
