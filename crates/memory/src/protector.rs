//! Protects domains: looks at each when it is due, and writes memory.min through the knob journal.
//!
//! - **A domain is one memory cgroup.** Its usage includes the cgroups below it, its ages do not.
//!   So pages of a child cgroup that has the memory controller count as young while the domain
//!   runs.
//! - **Ancestors.** The kernel protects a cgroup for as much as its ancestors are protected. The
//!   caller names the ancestors that are ours. Each gets the sum of the protections below it:
//!   "max" while one of them is whole, nothing when all are withdrawn. Where the tree is mounted
//!   with memory_recursiveprot (systemd does so), an ancestor's protection that no child claims is
//!   shared by all its children. So an ancestor that also holds best-effort programs should not be
//!   named. An ancestor that is not named and protects less is reported (`Line::limited_by`).
//! - **Reserves by amount**: reserves.rs. Where there are some, they are divided first.
//! - **An administrator's memory.min stays.** Our value is written only where it is higher.
//! - **Without ages** (the multi-generational LRU is off, or there is no debugfs), all memory of a
//!   domain that ran within pi counts as young ([`Mode::Uses`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aplomb_domain::DomainPath;

use crate::ages::{self, Ages, LRU_GEN};
use crate::cgroup::{self, page_size, Bytes, Limit, Pages};
use crate::journal::{Journal, Report};
use crate::places::{Mode, Places};
use crate::sums::Sums;
use crate::working_set::{Observation, Protection, WorkingSet};
use crate::{pressure, MemoryError};

mod reserves;
mod table;
pub use reserves::Reserves;
pub use table::Line;

const KNOB: &str = "memory.min";

/// A protected domain.
#[derive(Debug)]
struct Domain {
    set: WorkingSet,
    /// The domains above it that are ours.
    ancestors: Vec<DomainPath>,
    /// What it was added to their sums with.
    added: Limit,
    usage: Bytes,
    /// The CPU time that the last look read, µs.
    usage_us: Option<u64>,
    looked: Instant,
}

/// Protects the domains that it is told of.
#[derive(Debug)]
pub struct Protector {
    places: Places,
    journal: Journal,
    domains: BTreeMap<DomainPath, Domain>,
    sums: Sums,
    /// The most that a domain and all below it may have, bytes.
    caps: BTreeMap<DomainPath, Bytes>,
    reserves: Reserves,
}

impl Protector {
    /// A protector of no domain yet. `journal` was recovered.
    pub fn new(places: Places, journal: Journal) -> Self {
        Self {
            places,
            journal,
            domains: BTreeMap::new(),
            sums: Sums::default(),
            caps: BTreeMap::new(),
            reserves: Reserves::default(),
        }
    }

    /// From the next [`Protector::protect`] on, protect `path` and all below it for at most `most`
    /// bytes, however many domains that are: the kernel divides what an ancestor has among those
    /// below by their usage.
    pub fn cap(&mut self, path: &DomainPath, most: Bytes) {
        self.caps.insert(path.clone(), most);
    }

    /// Cap these from now on.
    ///
    /// # Errors
    /// As [`Protector::protect`]. All are tried.
    pub fn cap_again(&mut self, caps: BTreeMap<DomainPath, Bytes>) -> Result<(), MemoryError> {
        let knobs = caps.keys().cloned().collect();
        self.caps.extend(caps);
        self.apply(&knobs)
    }

    /// What the protection goes by, now.
    pub fn mode(&self) -> Mode {
        self.places.mode()
    }

    /// Protect a domain by the period `pi`, from now on as a whole until the first look. `ours` are
    /// the domains above it that are to be protected with it. Of a domain that is protected
    /// already, the period and `ours` are changed.
    ///
    /// # Errors
    /// The cgroup or its memory.min is missing; a knob cannot be written, in which case the domain
    /// is protected as far as possible and its looks go on.
    pub fn protect(
        &mut self,
        path: &DomainPath,
        ours: &[DomainPath],
        pi: Duration,
        now: Instant,
    ) -> Result<(), MemoryError> {
        let dir = self.dir(path);
        let usage = cgroup::current(&dir)?.ok_or_else(|| missing(&dir))?;
        let above = |a: &&DomainPath| !a.is_root() && a.holds(path) && *a != path;
        let ancestors: Vec<_> = ours.iter().filter(above).cloned().collect();
        if let Some(domain) = self.domains.get_mut(path) {
            domain.set.set_pi(pi, now);
            self.sums.remove(&domain.ancestors, domain.added);
            self.sums.add(&ancestors, domain.added);
            let before = std::mem::replace(&mut domain.ancestors, ancestors);
            let knobs = before.into_iter().chain(self.knobs_of(path));
            return self.apply(&knobs.collect());
        }
        let usage_us = cgroup::usage_us(&dir)?;
        let (set, _) = WorkingSet::new(pi, page_size(), now);
        self.sums.add(&ancestors, Limit::ZERO);
        let domain = Domain {
            set,
            ancestors,
            added: Limit::ZERO,
            usage,
            usage_us,
            looked: now,
        };
        self.domains.insert(path.clone(), domain);
        self.reserves.measure_soon(now);
        self.turn(path)
    }

    /// A task of the domain runs. Cheap unless the domain was withdrawn. Nothing happens if it is
    /// not protected.
    ///
    /// # Errors
    /// As [`Protector::protect`]; failed aging.
    pub fn used(&mut self, path: &DomainPath, now: Instant) -> Result<(), MemoryError> {
        let Some(domain) = self.domains.get_mut(path) else {
            return Ok(());
        };
        let Some(back) = domain.set.used(now) else {
            return Ok(());
        };
        self.reserves.measure_soon(now);
        let applied = self.turn(path);
        let by_age = back.age && self.mode() == Mode::Ages;
        let aged = if by_age { self.age(path) } else { Ok(()) };
        self.without_vanished(path, applied.and(aged))
    }

    /// Protect a domain no longer: its knob gets its old value, and those above that were turned
    /// for this domain only.
    ///
    /// # Errors
    /// A knob cannot be written, or another program changed it. The domain is released.
    pub fn release(&mut self, path: &DomainPath) -> Result<(), MemoryError> {
        let knobs = self.knobs_of(path);
        self.drop_domain(path);
        self.apply(&knobs)
    }

    /// What the domain used within its period, in memory or in swap: all of it while no page is
    /// known to be expired, and later what is protected of it. Zero if it is withdrawn, or gone.
    /// Of a domain that is not protected, all that it uses.
    ///
    /// # Errors
    /// Failed system calls; unknown content.
    pub fn demand(&self, path: &DomainPath) -> Result<Bytes, MemoryError> {
        let dir = self.dir(path);
        let used = cgroup::current(&dir)?.unwrap_or_default();
        let domain = self.domains.get(path);
        Ok(match domain.map(|d| d.set.protection()) {
            None | Some(Protection::Whole) => {
                Bytes(used.0.saturating_add(cgroup::swapped(&dir)?.0))
            }
            Some(Protection::Bytes(most)) => used.min(most),
            Some(Protection::None) => Bytes(0),
        })
    }

    /// True if no task of the domain ran for its period, so that nothing of it is protected.
    pub fn is_withdrawn(&self, path: &DomainPath) -> bool {
        let domain = self.domains.get(path);
        domain.is_some_and(|d| d.set.protection() == Protection::None)
    }

    /// True if tasks of the domain waited for memory in the last 10 s.
    ///
    /// # Errors
    /// As [`pressure::waits`].
    pub fn waits(&self, path: &DomainPath) -> Result<bool, MemoryError> {
        pressure::waits(&self.dir(path))
    }

    /// When the next look is due. None: nothing is due until a domain is used.
    pub fn deadline(&self) -> Option<Instant> {
        let looks = self.domains.values().filter_map(|d| d.set.next_due());
        looks.chain(self.reserves.deadline()).min()
    }

    /// Do all looks that are due. A domain whose cgroup was removed is forgotten. Returns what went
    /// wrong; the other looks are done nevertheless.
    pub fn tick(&mut self, now: Instant) -> Vec<MemoryError> {
        let due = |d: &Domain| d.set.next_due().is_some_and(|at| at <= now);
        let due = self.domains.iter().filter(|(_, d)| due(d));
        let due: Vec<DomainPath> = due.map(|(path, _)| path.clone()).collect();
        let mut complaints: Vec<MemoryError> = self.measure_if_due(now).err().into_iter().collect();
        if due.is_empty() {
            return complaints;
        }
        let mut looks = Vec::new();
        for path in due {
            let begun = self.begin_look(&path, now);
            match self.without_vanished(&path, begun) {
                Ok(Some(ran)) => looks.push((path, ran)),
                Ok(None) => {}
                Err(e) => complaints.push(e),
            }
        }
        // Without ages, all that a domain uses counts as young.
        let ages = self.ages_after_use(&looks, &mut complaints);
        for (path, _) in &looks {
            let looked = self.look(path, ages.get(path), now);
            if let Err(e) = self.without_vanished(path, looked) {
                complaints.push(e);
            }
        }
        complaints
    }

    /// Set a knob of the machine, which goes back with all others; None: put it back now.
    ///
    /// # Errors
    /// As [`Journal::set`] and [`Journal::restore`].
    pub fn set_knob(&mut self, knob: &Path, value: Option<&str>) -> Result<(), MemoryError> {
        match value {
            Some(value) => self.journal.set(knob, value),
            None => self.journal.restore(knob).map(|_| ()),
        }
    }

    /// Protect nothing any more: all knobs get their old values.
    pub fn end(&mut self) -> Report {
        self.domains.clear();
        self.sums = Sums::default();
        self.reserves = Reserves::default();
        self.journal.restore_all()
    }

    /// Check whether a task of the domain ran. Returns whether one ran since the last look; None:
    /// no look is due.
    fn begin_look(&mut self, path: &DomainPath, now: Instant) -> Result<Option<bool>, MemoryError> {
        let dir = self.dir(path);
        let Some(domain) = self.domains.get_mut(path) else {
            return Ok(None);
        };
        let is_look = domain.set.begin(now);
        // The CPU time first: what is used after it counts for the next look.
        let usage_us = cgroup::usage_us(&dir)?;
        domain.set.check(now, usage_us != domain.usage_us);
        domain.usage_us = usage_us;
        Ok(is_look.then(|| domain.set.was_used()))
    }

    /// The ages of domains, after those that ran were aged. Left out are those whose ages are
    /// unknown, which is a complaint. All domains share the two passes over the kernel's list.
    fn ages_after_use(
        &self,
        looks: &[(DomainPath, bool)],
        complaints: &mut Vec<MemoryError>,
    ) -> BTreeMap<DomainPath, Ages> {
        if looks.is_empty() || self.mode() != Mode::Ages {
            return BTreeMap::new();
        }
        let ran: BTreeSet<_> = looks.iter().filter(|(_, ran)| *ran).map(|l| &l.0).collect();
        let mut aged = BTreeSet::new();
        for (path, ages) in self.ages(ran.iter().copied(), complaints) {
            match ages.write_aging(&self.places.debugfs) {
                Ok(()) => drop(aged.insert(path)),
                Err(_) if !self.dir(&path).exists() => {} // it has just been removed
                Err(e) => complaints.push(e),
            }
        }
        let known = |path: &&DomainPath| !ran.contains(path) || aged.contains(*path);
        self.ages(looks.iter().map(|l| &l.0).filter(known), complaints)
    }

    fn look(
        &mut self,
        path: &DomainPath,
        ages: Option<&Ages>,
        now: Instant,
    ) -> Result<(), MemoryError> {
        let dir = self.dir(path);
        let usage = cgroup::current(&dir)?.ok_or_else(|| missing(&dir))?;
        let Some(domain) = self.domains.get_mut(path) else {
            return Ok(());
        };
        let expired = ages.map_or(Pages(0), |a| a.expired(domain.set.pi()));
        let observation = Observation {
            usage,
            expired: expired.bytes(page_size()),
        };
        domain.set.look(now, observation);
        (domain.usage, domain.looked) = (usage, now);
        self.turn(path)
    }

    /// Create a generation in the domain.
    fn age(&self, path: &DomainPath) -> Result<(), MemoryError> {
        let mut complaints = Vec::new();
        let ages = self.ages(std::iter::once(path), &mut complaints);
        let aged = ages.values().map(|a| a.write_aging(&self.places.debugfs));
        aged.chain(complaints.into_iter().map(Err)).collect()
    }

    /// The ages of the domains that the kernel lists. A complaint names each other one, unless it
    /// has just been removed.
    fn ages<'a>(
        &self,
        paths: impl Iterator<Item = &'a DomainPath>,
        complaints: &mut Vec<MemoryError>,
    ) -> BTreeMap<DomainPath, Ages> {
        let names: BTreeMap<String, &DomainPath> = paths.map(|p| (format!("/{p}"), p)).collect();
        if names.is_empty() {
            return BTreeMap::new();
        }
        let mut found = match ages::read(&self.places.debugfs, &names.keys().cloned().collect()) {
            Ok(found) => found,
            Err(e) => {
                complaints.push(e);
                return BTreeMap::new();
            }
        };
        let mut result = BTreeMap::new();
        for (name, path) in names {
            match found.remove(&name) {
                Some(ages) => drop(result.insert(path.clone(), ages)),
                None if !self.dir(path).exists() => {}
                None => {
                    let file = self.places.debugfs.join(LRU_GEN);
                    let why = format!("it does not list the cgroup {name}");
                    complaints.push(MemoryError::state(&file, why));
                }
            }
        }
        result
    }

    /// The domains whose knobs depend on the domain `path`.
    fn knobs_of(&self, path: &DomainPath) -> BTreeSet<DomainPath> {
        let above = self.domains.get(path).map(|d| d.ancestors.as_slice());
        let above = above.unwrap_or_default().iter().cloned();
        above.chain([path.clone()]).collect()
    }

    /// The protection of a domain has changed: turn its knob and those above it.
    fn turn(&mut self, path: &DomainPath) -> Result<(), MemoryError> {
        if let Some(domain) = self.domains.get_mut(path) {
            let limit = domain.set.protection().limit();
            self.sums.remove(&domain.ancestors, domain.added);
            self.sums.add(&domain.ancestors, limit);
            domain.added = limit;
        }
        self.apply(&self.knobs_of(path))
    }

    fn drop_domain(&mut self, path: &DomainPath) {
        if let Some(domain) = self.domains.remove(path) {
            self.sums.remove(&domain.ancestors, domain.added);
        }
        self.reserves.forget(path);
    }

    /// Write the memory.min that the domains in `knobs` should have, and those whose amount follows
    /// from theirs. All are tried.
    fn apply(&mut self, knobs: &BTreeSet<DomainPath>) -> Result<(), MemoryError> {
        let knobs = &self.divide_if_few() | knobs;
        self.write(&knobs)
    }

    fn write(&mut self, knobs: &BTreeSet<DomainPath>) -> Result<(), MemoryError> {
        let applied: Vec<_> = knobs.iter().map(|path| self.apply_one(path)).collect();
        applied.into_iter().collect()
    }

    fn apply_one(&mut self, path: &DomainPath) -> Result<(), MemoryError> {
        let dir = self.dir(path);
        let knob = dir.join(KNOB);
        let target = self.target(path);
        if target == Limit::ZERO {
            return self.journal.restore(&knob).map(|_| ()); // also of a cgroup that vanished
        }
        let old = match self.journal.old_value(&knob).and_then(Limit::parse) {
            Some(old) => old,
            None => cgroup::limit(&dir, KNOB)?.ok_or_else(|| missing(&dir))?,
        };
        if target > old {
            self.journal.set(&knob, &target.to_string())
        } else {
            self.journal.restore(&knob).map(|_| ())
        }
    }

    /// The protection that a domain needs for itself and for the domains that name it as theirs.
    fn target(&self, path: &DomainPath) -> Limit {
        let by_age = || self.target_by_age(path);
        let wanted = self.reserves.divided(path).unwrap_or_else(by_age);
        wanted.max(self.reserves.needed(path))
    }

    fn target_by_age(&self, path: &DomainPath) -> Limit {
        let own = self.domains.get(path).map(|d| d.set.protection().limit());
        let wanted = self.sums.of(path).max(own.unwrap_or(Limit::ZERO));
        match self.caps.get(path) {
            Some(&most) => wanted.min(Limit::Bytes(most)),
            None => wanted,
        }
    }

    /// Forget a domain whose look found no cgroup. That is no error, unless the cgroup is there and
    /// has no memory.min.
    fn without_vanished<T: Default>(
        &mut self,
        path: &DomainPath,
        result: Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        let dir = self.dir(path);
        if result.is_ok() || dir.join(KNOB).exists() {
            return result;
        }
        let there = dir.exists();
        let above = self.knobs_of(path).into_iter().filter(|a| a != path);
        let above = above.collect();
        self.drop_domain(path);
        let forgotten = self.journal.forget(&dir);
        let applied = self.apply(&above);
        match forgotten.and(applied) {
            Err(e) if !e.is_vanished() => Err(e),
            _ if there => result,
            _ => Ok(T::default()),
        }
    }

    fn dir(&self, path: &DomainPath) -> PathBuf {
        let mut dir = self.places.cgroup.clone();
        dir.extend(path.parts());
        dir
    }
}

/// The error for a domain without the memory controller's files.
fn missing(dir: &Path) -> MemoryError {
    let why = if dir.exists() {
        "there is no such file: the domain above does not give it the memory controller (cgroup.subtree_control)"
    } else {
        "there is no such cgroup"
    };
    MemoryError::state(&dir.join(KNOB), why)
}

#[cfg(test)]
mod tests;
