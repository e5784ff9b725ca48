//! Pushes the settings in the attributes of domains to the kernel side, and removes ephemeral
//! domains.
//!
//! The attributes alone are authoritative: the daemon only passes them on. The kernel side forgets
//! a domain's settings with the domain. While nothing changes, the daemon wakes up for a bounded
//! number of second looks only, and for walks if there are more directories than can be watched.

use std::collections::BTreeMap;
use std::io;
use std::iter::repeat;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use aplomb_domain::{DomainError, DomainPath, Marks, Tree};
use aplomb_kernel::{Event, Kernel, KernelError};

use super::budget::warn_about;
use super::errands::Errands;
use super::memory::domains::Asked;
use super::net::NetSettings;
use super::state::{code_of, monotonic_ns};
use crate::config::WantedDomain;
use crate::domains::{is_managed, with_manager};
use crate::protocol::{Code, DomainLine, DomainTable};
use inotify::WatchDescriptor;
use tracing::error;

mod created;
mod disks;
mod explore;
mod line;
pub mod place;
mod push;
mod read;
mod users;
mod watch;

use created::Created;
use explore::Owners;
use line::line;
use place::{place, Proven};
use push::push_settings;
use users::Users;
use watch::{Seen, Watch, MAX_WATCHED};

/// Second looks at a domain that the kernel side does not know yet, because its CPU controller may
/// be enabled later than its attributes are set. The first look is after [`FIRST_LOOK`], each later
/// one after twice the time: 31 s in all.
const LOOKS: u32 = 5;
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How often the tree is walked while not all of it can be watched.
const WALK_INTERVAL: Duration = Duration::from_secs(30);

/// All domains whose directory is known.
pub struct Domains {
    tree: Option<Tree>,
    watch: Option<Watch>,
    known: BTreeMap<DomainPath, Known>,
    /// A reservation of memory may have changed since it was last taken.
    memory_changed: bool,
    /// As above, of a setting of packets.
    net_changed: bool,
    /// When to look again at unknown domains, and how many looks were made before.
    next_look: Option<(Instant, u32)>,
    /// When to try the refused settings again, because there may be room for them.
    retry_refused_at: Option<Instant>,
    /// When to walk the tree again, because not all directories are watched.
    walk_at: Option<Instant>,
    /// It was logged that not all directories are watched.
    warned: bool,
    created: Created,
    owners: Owners,
    /// Looks at what is delegated to users. (Unused without `errands`.)
    users: Users,
    /// What may have to wait.
    errands: Option<Errands>,
}

#[derive(Debug)]
struct Known {
    cgid: u64,
    /// The owner of this part of the tree ([`aplomb_domain::Directory::owner`]); 0 is root.
    owner: u32,
    marks: Marks,
    /// The first invalid attribute, and why it is.
    wrong: Option<String>,
    /// The settings that were pushed to the kernel side.
    pushed: Marks,
    /// Why not all settings of `marks` are in force.
    refused: Option<NotInForce>,
    watched: Option<WatchDescriptor>,
    events: Option<WatchDescriptor>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NotInForce {
    /// The kernel side does not know the domain.
    Unknown(String),
    Refused {
        code: Code,
        message: String,
    },
}

/// Why the kernel side refuses a reservation of domain `path`. What is reserved below a domain is a
/// part of its own reservation, so without one there is no room. Numbers alone do not explain that.
fn refusal(path: &DomainPath, e: &KernelError) -> String {
    match (e, path.parent()) {
        (KernelError::DomainFull { limit_ppm: 0, .. }, Some(above)) => format!(
            "nothing is reserved for {above}, the domain above it, of which this would be a part: \
             reserve there first"
        ),
        _ => e.to_string(),
    }
}

/// Why the kernel side does not know `path`.
fn unknown(path: &DomainPath, tree: Option<&Tree>) -> String {
    let files = tree.map(|tree| tree.open(path).and_then(|dir| tree.files(&dir)));
    match (files, path.parent()) {
        (Some(Ok(files)), Some(above)) if files.weight.is_none() => format!(
            "{path} has no CPU controller: its parent, {above}, does not give it \
             (+cpu in cgroup.subtree_control)"
        ),
        _ => format!(
            "{path} is no domain of the kernel side: it has no CPU controller, is beyond a limit, or \
             was created just now"
        ),
    }
}

impl Domains {
    /// `tree`: None if this machine has no cgroup v2 tree.
    ///
    /// # Errors
    /// No inotify instance can be created.
    pub fn new(tree: Option<Tree>) -> io::Result<Self> {
        Self::watching(tree, MAX_WATCHED)
    }

    fn watching(tree: Option<Tree>, limit: usize) -> io::Result<Self> {
        Ok(Self {
            watch: match tree {
                Some(_) => Some(Watch::new(limit)?),
                None => None,
            },
            tree,
            known: BTreeMap::new(),
            memory_changed: false,
            net_changed: false,
            next_look: None,
            retry_refused_at: None,
            walk_at: None,
            warned: false,
            created: Created::default(),
            owners: Owners::new(),
            users: Users::new(),
            errands: None,
        })
    }

    /// The tree of domains. None if this machine has none.
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// Create the domains of the settings. `file`: the settings file, for messages.
    pub fn create(&mut self, tables: &[WantedDomain], file: &str) {
        match &self.tree {
            Some(tree) => self.created = Created::create(tree, tables, file),
            None if tables.is_empty() => {}
            None => error!("{file}: no domains can be made: {}", DomainError::NoTree),
        }
    }

    /// The daemon ends: remove the domains that it created and that are empty.
    pub fn end(&mut self) {
        if let Some(tree) = &self.tree {
            std::mem::take(&mut self.created).remove(tree);
        }
    }

    /// Have what may have to wait done by `errands` from now on: calls of the service manager, and
    /// looks at users' directories.
    pub fn use_errands(&mut self, errands: Errands) {
        self.errands = Some(errands);
    }

    /// Errands were done. `given`: a domain may have got its file memory.min.
    pub fn errands_done(&mut self, given: bool, kernel: &mut dyn Kernel) {
        if let Some(errands) = &self.errands {
            errands.clear();
        }
        self.memory_changed |= given;
        let now = Instant::now();
        for part in self.users.take(now) {
            self.apply(part, kernel);
        }
        self.send_looks(now);
    }

    /// The kernel side recognised a program whose spec names a domain: move its process there.
    pub fn recognised(&self, event: &Event, domain: &str) {
        let Some(tree) = &self.tree else { return };
        let Some(process) = Proven::of(event) else {
            return;
        };
        let (pid, owner, name) = (event.pid, process.uid, domain.to_owned());
        let not_there = move |e: String| format!("process {pid} is not in its domain {name}: {e}");
        let path: DomainPath = match domain.parse() {
            Ok(path) => path,
            Err(e) => return warn_about(owner, &not_there(e)),
        };
        let errands = self.errands.as_ref().filter(|_| is_managed(tree));
        let Some(errands) = errands else {
            if let Err(e) = place(tree, process, &path) {
                warn_about(owner, &not_there(e.to_string()));
            }
            return;
        };
        let late = not_there.clone();
        let added = errands.add(owner, move |tree| {
            let placed = place(tree, process, &path);
            placed.map(drop).map_err(|e| late(e.to_string()))
        });
        if let Err(e) = added {
            warn_about(owner, &not_there(e));
        }
    }

    /// Becomes readable when a domain changed. None if there is no tree.
    pub fn watch_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// The next time at which [`Domains::tick`] has work.
    pub fn deadline(&self) -> Option<Instant> {
        [
            self.next_look.map(|(at, _)| at),
            self.retry_refused_at,
            self.walk_at,
            self.owners.look_at,
            self.users.next_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// A process's reservation ended, so there may be room for a refused domain. It is tried again
    /// within [`FIRST_LOOK`], once for all reservations that end until then.
    pub fn retry_refused_soon(&mut self, now: Instant) {
        let waits = |k: &Known| matches!(k.refused, Some(NotInForce::Refused { .. }));
        if self.retry_refused_at.is_none() && self.known.values().any(waits) {
            self.retry_refused_at = Some(now + FIRST_LOOK);
        }
    }

    /// Do the work that is due at `now`.
    pub fn tick(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        if self.walk_at.is_some_and(|at| at <= now) {
            self.scan(kernel);
        }
        self.look_at_later(now, kernel);
        self.send_looks(now);
        if self.retry_refused_at.take_if(|at| *at <= now).is_some() {
            self.push_all(kernel);
        }
        if let Some((_, looks)) = self.next_look.take_if(|(at, _)| *at <= now) {
            self.push_all(kernel);
            if looks < LOOKS && self.any_unknown() {
                self.next_look = Some((now + FIRST_LOOK * (1 << looks), looks + 1));
            }
        }
    }

    /// The kernel side was loaded again and has no settings: push all.
    pub fn kernel_reloaded(&mut self, kernel: &mut dyn Kernel) {
        for known in self.known.values_mut() {
            known.pushed = Marks::default();
        }
        self.scan(kernel);
    }

    /// Walk the whole tree.
    pub fn scan(&mut self, kernel: &mut dyn Kernel) {
        self.walk_at = None;
        self.explore(&DomainPath::root(), kernel);
    }

    /// Read the changes from the watches and handle them.
    pub fn changed(&mut self, kernel: &mut dyn Kernel) {
        let seen = self.watch.as_mut().map(Watch::read).unwrap_or_default();
        let mut room = false;
        for seen in seen {
            match seen {
                Seen::All => self.changes_lost(kernel),
                // Only the new domain: with thousands of siblings, walking these too would take
                // too long.
                Seen::Created(path) => self.explore(&path, kernel),
                Seen::Attributes(path) => self.attributes_changed(path, kernel),
                Seen::Populated(path) => self.end_if_empty(&path, kernel),
                Seen::Removed(path) => {
                    room |= self.forget(&path, kernel);
                    let owner = self.owner_of(&path);
                    if self.users.is_looking(owner) {
                        self.reread(&path, kernel); // the errand may have seen it
                    }
                    // The parent may be empty now.
                    if let Some(above) = path.parent() {
                        self.end_if_empty(&above, kernel);
                    }
                }
            }
        }
        if room {
            self.push_all(kernel); // the reservations of removed domains are free now
        }
        self.send_looks(Instant::now());
    }

    /// The reservations of memory in the attributes, if any may have changed since the last call.
    pub fn take_memory(&mut self) -> Option<BTreeMap<DomainPath, Asked>> {
        if !std::mem::take(&mut self.memory_changed) {
            return None;
        }
        let asked = |known: &Known| {
            let cgid = known.cgid;
            known.marks.memory.map(|bytes| Asked { cgid, bytes })
        };
        let all = self.known.iter();
        Some(
            all.filter_map(|(p, k)| Some((p.clone(), asked(k)?)))
                .collect(),
        )
    }

    /// What is set for packets in the attributes, by cgroup, if any may have changed since the last
    /// call.
    pub fn take_net_settings(&mut self) -> Option<NetSettings> {
        if !std::mem::take(&mut self.net_changed) {
            return None;
        }
        let known = self.known.values();
        Some(NetSettings::of(known.map(|k| (k.cgid, &k.marks))))
    }

    /// All domains of the kernel side, each after its parent.
    ///
    /// # Errors
    /// Failed system calls.
    pub fn table(&self, kernel: &dyn Kernel) -> Result<DomainTable, KernelError> {
        let paths: BTreeMap<u64, (&DomainPath, &Known)> =
            self.known.iter().map(|(p, k)| (k.cgid, (p, k))).collect();
        let all = kernel.domains()?;
        let counts = kernel.disk_counts()?;
        let times = counts.as_ref().map(|c| disks::with_those_below(&all, c));
        let lines = all
            .iter()
            .zip(times.into_iter().flatten().chain(repeat(Vec::new())));
        let mut domains: Vec<(Option<&DomainPath>, DomainLine)> = lines
            .map(|(d, disk_times)| {
                let found = paths.get(&d.cgid).filter(|_| !d.gone);
                let line = line(d, found.copied());
                (found.map(|f| f.0), DomainLine { disk_times, ..line })
            })
            .collect();
        // Domains without a path come last.
        domains.sort_by_key(|(path, d)| (path.is_none(), *path, d.cgid));
        Ok(DomainTable {
            more: false,
            time_ns: monotonic_ns(),
            cpus: kernel.cpus().len() as u32,
            domains: domains.into_iter().map(|(_, line)| line).collect(),
            disk_account: counts.map(|c| c.account),
        })
    }

    /// Push all settings that are not in force yet.
    fn push_all(&mut self, kernel: &mut dyn Kernel) {
        let behind: Vec<_> = self
            .known
            .iter()
            .filter(|(_, k)| k.refused.is_some())
            .map(|(p, _)| p.clone())
            .collect();
        behind
            .iter()
            .for_each(|path| self.push_settings(path, kernel));
    }

    fn any_unknown(&self) -> bool {
        self.known
            .values()
            .any(|k| matches!(k.refused, Some(NotInForce::Unknown(_))))
    }

    /// Push the settings of a domain that changed.
    fn push_settings(&mut self, path: &DomainPath, kernel: &mut dyn Kernel) {
        let Some(known) = self.known.get_mut(path) else {
            return;
        };
        let result = push_settings(known, kernel);
        // A user's directory is not opened here (read.rs).
        let tree = self.tree.as_ref().filter(|_| known.owner == 0);
        let why = result.err().map(|e| match e {
            KernelError::NoDomain(_) => NotInForce::Unknown(unknown(path, tree)),
            e => NotInForce::Refused {
                code: code_of(&e),
                message: format!("{path}: {}", refusal(path, &e)),
            },
        });
        if why != known.refused {
            if let Some(NotInForce::Refused { message, .. }) = &why {
                warn_about(known.owner, &format!("not in force: {message}"));
            }
            if matches!(why, Some(NotInForce::Unknown(_))) && self.next_look.is_none() {
                self.next_look = Some((Instant::now() + FIRST_LOOK, 1));
            }
            known.refused = why;
        }
    }

    /// Remove an ephemeral domain whose last process has exited.
    fn end_if_empty(&mut self, path: &DomainPath, kernel: &mut dyn Kernel) {
        let known = self.known.get(path).filter(|k| k.marks.ephemeral);
        let (Some(owner), Some(tree)) = (known.map(|k| k.owner), &self.tree) else {
            return;
        };
        // The calls of a manager take long, and a user's directories may be locked.
        let errands = self.errands.as_ref();
        let Some(errands) = errands.filter(|_| owner != 0 || is_managed(tree)) else {
            match remove_if_over(tree, path) {
                Ok(true) => drop(self.forget(path, kernel)),
                Ok(false) => {}
                Err(e) => warn_about(0, &e.to_string()),
            }
            return;
        };
        if owner == 0 && !is_over(tree, path) {
            return;
        }
        let path = path.clone();
        let added = errands.add(owner, move |tree| {
            let removed = remove_if_over(tree, &path);
            removed.map(drop).map_err(|e| e.to_string())
        });
        if let Err(e) = added {
            warn_about(owner, &e);
        }
    }
}

/// The domain is empty, and had processes.
fn is_over(tree: &Tree, path: &DomainPath) -> bool {
    let dir = tree.open(path);
    dir.is_ok_and(|dir| tree.files(&dir).is_ok_and(|f| !f.populated) && dir.was_used())
}

/// Remove a domain that is over. False if it is not: the watches report when that changes.
fn remove_if_over(tree: &Tree, path: &DomainPath) -> Result<bool, DomainError> {
    if !is_over(tree, path) {
        return Ok(false);
    }
    match with_manager(tree, |m| m.remove(path)) {
        Ok(()) => Ok(true),
        // It has domains below, or just got a process.
        Err(DomainError::State { .. } | DomainError::Missing(_)) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests;
