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
use super::net::NetSetting;
use super::state::{code_of, monotonic_ns};
use crate::config::WantedDomain;
use crate::domains::with_manager;
use crate::protocol::{Code, DomainLine, DomainTable, Refusal};
use inotify::WatchDescriptor;
use tracing::error;

mod created;
mod disks;
mod explore;
mod line;
pub mod place;
mod push;
mod watch;

use created::Created;
use explore::Owners;
use line::line;
use place::{place, Proven};
use push::push_settings;
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
    /// Calls of the service manager, where there is one.
    errands: Option<Errands>,
}

#[derive(Debug)]
struct Known {
    cgid: u64,
    /// The owner of this part of the tree ([`aplomb_domain::Directory::owner`]); 0 is root.
    owner: u32,
    marks: Marks,
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
            "{path} is no domain of the kernel side: it is beyond a limit, or was created just now"
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

    /// Have the calls of the service manager made by `errands` from now on.
    pub fn use_errands(&mut self, errands: Errands) {
        self.errands = Some(errands);
    }

    /// The service manager has answered a call. `given`: a domain may have got its file memory.min.
    pub fn errands_done(&mut self, given: bool) {
        if let Some(errands) = &self.errands {
            errands.clear();
        }
        self.memory_changed |= given;
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
        let Some(errands) = &self.errands else {
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
    }

    /// Look at one domain now.
    ///
    /// # Errors
    /// The domain is missing; an attribute is invalid; the kernel side refused a setting.
    pub fn look(&mut self, path: &DomainPath, kernel: &mut dyn Kernel) -> Result<(), Refusal> {
        let failed = |e: DomainError| Refusal::new(Code::Failed, e.to_string());
        // The client may just have removed another domain to have room for this one.
        self.changed(kernel);
        let Some(tree) = &self.tree else {
            return Err(failed(DomainError::NoTree));
        };
        let dir = tree.open(path).map_err(failed)?;
        if let Some(wrong) = tree.marks(&dir).1.first() {
            let message = format!("{path}: {}: {}", wrong.attribute, wrong.message);
            return Err(Refusal::new(Code::Invalid, message));
        }
        if self.known.contains_key(path) {
            self.reread(path, kernel);
        } else {
            self.explore(path, kernel);
        }
        match self.known.get(path).and_then(|k| k.refused.clone()) {
            None => Ok(()),
            Some(NotInForce::Unknown(message)) => Err(Refusal::new(Code::Failed, message)),
            Some(NotInForce::Refused { code, message }) => Err(Refusal::new(code, message)),
        }
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
    pub fn take_net_settings(&mut self) -> Option<BTreeMap<u64, NetSetting>> {
        if !std::mem::take(&mut self.net_changed) {
            return None;
        }
        let known = self.known.values();
        Some(
            known
                .filter_map(|k| Some((k.cgid, NetSetting::of(&k.marks)?)))
                .collect(),
        )
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
        let tree = self.tree.as_ref();
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
        let ephemeral = self.known.get(path).is_some_and(|k| k.marks.ephemeral);
        let Some(tree) = self.tree.as_ref().filter(|_| ephemeral) else {
            return;
        };
        let Ok(dir) = tree.open(path) else { return };
        let empty = tree.files(&dir).is_ok_and(|f| !f.populated);
        if !empty || !dir.was_used() {
            return;
        }
        drop(dir);
        let Some(errands) = &self.errands else {
            match with_manager(tree, |m| m.remove(path)) {
                Ok(()) => drop(self.forget(path, kernel)),
                // It has domains below, or just got a process. The watches report when that
                // changes.
                Err(DomainError::State { .. } | DomainError::Missing(_)) => {}
                Err(e) => warn_about(0, &e.to_string()),
            }
            return;
        };
        let path = path.clone();
        let added = errands.add(0, move |tree| {
            match with_manager(tree, |m| m.remove(&path)) {
                Ok(()) | Err(DomainError::State { .. } | DomainError::Missing(_)) => Ok(()),
                Err(e) => Err(e.to_string()),
            }
        });
        if let Err(e) = added {
            warn_about(0, &e);
        }
    }
}

#[cfg(test)]
mod tests;
