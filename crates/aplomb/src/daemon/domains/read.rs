//! Reads a part of the tree: its directories, and the watches of them.
//!
//! A user's mkdir, and each other change of a directory, holds that directory's lock in the kernel,
//! and may lose its CPU meanwhile. Opening a directory below, and listing it, wait for that lock:
//! as long as the user's task waits for its turn. So what is delegated to a user is read by that
//! user's errands (users.rs), and the daemon's loop only applies the result. In the directories of
//! root only root changes anything; these are read in the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use aplomb_domain::{Directory, DomainError, DomainPath, Enter, Found, Tree};
use inotify::WatchDescriptor;

use super::watch::Watcher;

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub top: DomainPath,
    /// With all below.
    pub below: bool,
}

impl Look {
    /// It looks at `path`.
    pub fn holds(&self, path: &DomainPath) -> bool {
        *path == self.top || (self.below && self.top.holds(path))
    }
}

/// A part of the tree, as it was read. Each directory was watched before it was read, so later
/// changes are reported.
#[derive(Debug)]
pub struct Part {
    pub look: Look,
    /// Why nothing could be read. [`DomainError::Missing`]: `look.top` is gone.
    pub failed: Option<DomainError>,
    pub domains: Vec<Found>,
    /// Known ones that are gone, with the ids that they had.
    pub gone: Vec<(DomainPath, u64)>,
    /// See [`aplomb_domain::Walk::cut`].
    pub cut: BTreeSet<u32>,
    /// The watches of the directories.
    pub watched: BTreeMap<DomainPath, WatchDescriptor>,
    /// Those of cgroup.events.
    pub events: BTreeMap<DomainPath, WatchDescriptor>,
    /// A directory that could not be watched.
    pub unwatched: Option<(DomainPath, io::Error)>,
    /// Directories that are delegated to users, and left out.
    pub delegated: Vec<(u32, DomainPath)>,
}

/// Read what `look` asks for. `known`: the domains known there, with their ids. `leave_users`:
/// leave out what is delegated to users.
pub fn read(
    tree: &Tree,
    watcher: Option<&Watcher>,
    look: Look,
    known: &[(DomainPath, u64)],
    leave_users: bool,
) -> Part {
    let (mut watched, mut events) = (BTreeMap::new(), BTreeMap::new());
    let (mut unwatched, mut delegated) = (None, Vec::new());
    let mut keep =
        |path: &DomainPath, added: io::Result<WatchDescriptor>, to: &mut BTreeMap<_, _>| {
            match added {
                Ok(watch) => drop(to.insert(path.clone(), watch)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {} // removed meanwhile
                Err(e) => drop(unwatched.get_or_insert((path.clone(), e))),
            }
        };
    let walk = tree.walk_as(&look.top, |dir: &Directory| {
        if leave_users && dir.owner() != 0 {
            delegated.push((dir.owner(), dir.path.clone()));
            return Enter::No;
        }
        if let Some(watcher) = watcher {
            keep(&dir.path, watcher.directory(dir), &mut watched);
        }
        match look.below {
            true => Enter::Below,
            false => Enter::Alone,
        }
    });
    let (walk, failed) = match walk {
        Ok(walk) => (walk, None),
        Err(e) => (Default::default(), Some(e)),
    };
    if let Some(watcher) = watcher {
        for found in walk.domains.iter().filter(|f| f.marks.ephemeral) {
            if let Ok(dir) = tree.open(&found.path) {
                keep(&found.path, watcher.events(&dir), &mut events);
            }
        }
    }
    let found: BTreeMap<_, _> = walk.domains.iter().map(|f| (&f.path, f.cgid)).collect();
    let left_out = |path: &DomainPath| delegated.iter().any(|(_, top)| top.holds(path));
    let is_gone = |path: &DomainPath, cgid: u64| match found.get(path) {
        Some(now) => *now != cgid,
        None if left_out(path) => false,
        // The walk may have left it out.
        None if walk.truncated => {
            let now = tree.open(path).and_then(|dir| dir.cgid());
            !now.is_ok_and(|now| now == cgid)
        }
        None => true,
    };
    let known = known.iter().filter(|_| failed.is_none());
    let gone = known.filter(|(path, cgid)| is_gone(path, *cgid));
    Part {
        gone: gone.cloned().collect(),
        look,
        failed,
        domains: walk.domains,
        cut: walk.cut,
        watched,
        events,
        unwatched,
        delegated,
    }
}
