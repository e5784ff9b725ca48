//! Protects the units of interactive programs where systemd is process 1: what `Memory` does there
//! beyond the rest. units.rs says which unit is a program's own, and what is needed above it.
//!
//! memory.min is written directly, by its knob, and not through systemd. Of the units of a user's
//! manager it has to be: the system's manager does not manage them, and root does not call a bus
//! that a user owns. Of the slices above it could be a property, but each change would be a file in
//! /run and a message, at each look. systemd overwrites the knobs now and then; guard.rs notices.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aplomb_domain::{DomainPath, Tree};
use aplomb_kernel::Event;
use aplomb_memory::{cgroup, Bytes, Protection};
use tracing::warn;

use super::domain::settle;
use super::follow::{Follow, Followed};
use super::guard::Guard;
use super::units::{bound, needs, Limits, Unit};
use super::{pace, Memory, Wanted, MAX_PROGRAMS};

/// The least time between two rounds, and as a multiple of what the last one took: users who start
/// programs all the time cause rounds, and these may use a twentieth of a CPU.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_FACTOR: u32 = 20;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The least time until a round that another program's writes cause.
const PAUSE_AFTER_WRITES: Duration = Duration::from_secs(1);

/// The protected units, and the programs that are followed.
pub struct Units {
    followed: Followed,
    protected: BTreeMap<DomainPath, Protected>,
    guard: Guard,
    /// The last round, its CPU time, and when the next one is wanted.
    last: Option<Instant>,
    took: Duration,
    next: Option<Instant>,
    /// It was said that not all knobs can be watched.
    warned: bool,
}

struct Protected {
    unit: Unit,
    pi: Duration,
    /// It was said that its knobs cannot be written.
    warned: bool,
}

impl Units {
    /// # Errors
    /// No inotify instance can be created.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            followed: Followed::default(),
            protected: BTreeMap::new(),
            guard: Guard::new()?,
            last: None,
            took: Duration::ZERO,
            next: None,
            warned: false,
        })
    }

    /// Readable when another program may have changed a knob.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.guard.as_fd()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let at = self
            .next
            .into_iter()
            .chain(self.followed.deadline())
            .min()?;
        let pause = (self.took * PAUSE_FACTOR).clamp(PAUSE, LONGEST_PAUSE);
        Some(self.last.map_or(at, |last| at.max(last + pause)))
    }

    pub fn follow(&mut self, event: &Event, wanted: &Wanted, now: Instant) {
        self.followed.add(event, wanted, now);
    }

    /// Program `pid` ends, or its protection does.
    pub fn forget(&mut self, pid: i32) {
        self.followed.remove(pid);
    }

    /// A withdrawn program runs again.
    pub fn returned(&mut self, pid: i32, now: Instant) {
        self.followed.returned(pid, now);
        self.round_after(PAUSE, now);
    }

    /// No program of the unit is protected any more.
    pub fn released(&mut self, domain: &DomainPath, now: Instant) {
        self.protected.remove(domain);
        self.round_after(PAUSE, now);
    }

    /// Have a round soon: at once if the last one is `pause` ago.
    pub fn round_after(&mut self, pause: Duration, now: Instant) {
        let at = self.last.map_or(now, |last| (last + pause).max(now));
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// All knobs of the units.
    fn knobs(&self, root: &Path) -> BTreeSet<PathBuf> {
        let units = self.protected.values().map(|p| &p.unit);
        let domains = units.flat_map(|u| u.above().into_iter().chain([u.domain.clone()]));
        let knob = |d: DomainPath| root.join(d.to_string()).join("memory.min");
        domains.map(knob).collect()
    }
}

impl Memory {
    /// What becomes readable when another program may have changed a knob. None where systemd is
    /// not process 1.
    pub fn knobs_fd(&self) -> Option<BorrowedFd<'_>> {
        self.units.as_ref().map(Units::fd)
    }

    /// Another program may have changed a knob.
    pub fn knobs_changed(&mut self) {
        let Some(units) = &mut self.units else { return };
        units.guard.clear();
        units.round_after(PAUSE_AFTER_WRITES, Instant::now());
    }

    /// Is the domain a unit that is protected?
    pub(super) fn is_unit(&self, domain: &DomainPath) -> bool {
        let units = self.units.as_ref();
        units.is_some_and(|units| units.protected.contains_key(domain))
    }

    fn limits(&self) -> Limits {
        Limits {
            all: self.most_of(0),
            user: self.share(self.config.user_limit_ppm).min(self.room()),
        }
    }

    /// Protect a unit from now on.
    pub(super) fn put_unit(&mut self, unit: Unit, pi: Duration) -> anyhow::Result<()> {
        let now = Instant::now();
        let limits = self.limits();
        let (Some(protector), Some(units)) = (&mut self.protector, &mut self.units) else {
            return Ok(());
        };
        // Until the next round, what is above has what it had, or else all that it may have.
        let (domain, above) = (unit.domain.clone(), unit.above());
        for above in &above {
            let mut domains = units.protected.keys();
            if !domains.any(|domain| above.holds(domain)) {
                protector.cap(above, bound(above, limits).unwrap_or(limits.all));
            }
        }
        let protected = Protected {
            unit,
            pi,
            warned: false,
        };
        units.protected.insert(domain.clone(), protected);
        units.round_after(PAUSE, now);
        protector.protect(&domain, &above, pi, now)?;
        Ok(protector.used(&domain, now)?) // it may be withdrawn
    }

    /// Visit the programs that are due, and have a round if one is due. `looked`: working sets were
    /// looked at just now, so the units may need less.
    pub(super) fn tick_units(&mut self, tree: &Tree, looked: bool, now: Instant) {
        let Some(units) = &mut self.units else { return };
        if looked {
            units.round_after(PAUSE, now);
        }
        if units.deadline().is_none_or(|at| at > now) {
            return;
        }
        let due = units.followed.due(now);
        for follow in &due {
            if !self.demoted.contains_key(&follow.event.pid) {
                self.visit(tree, follow);
            }
        }
        let begun = pace::ran();
        let active = self.round(tree, now);
        let Some(units) = &mut self.units else { return };
        units.took = pace::ran().saturating_sub(begun);
        for follow in due {
            let pid = follow.event.pid;
            let kept = self.programs.get(pid);
            let protected = kept.map(|kept| active.contains(&kept.domain));
            units.followed.visited(pid, protected, now);
        }
    }

    /// See where a program is now. If it was moved, its protection goes with it.
    fn visit(&mut self, tree: &Tree, follow: &Follow) {
        let (pid, wanted) = (follow.event.pid, follow.wanted());
        let not_protected = |e| warn!("the memory of process {pid} is not protected: {e:#}");
        let home = settle(tree, &follow.event, &wanted).unwrap_or_else(|e| {
            not_protected(e);
            None
        });
        let kept = self.programs.get(pid).map(|kept| &kept.domain);
        if kept == home.as_ref().map(|home| &home.domain) {
            return;
        }
        self.withdraw(pid);
        let room = self.programs.len() < MAX_PROGRAMS;
        if let Some(home) = home.filter(|_| room) {
            if let Err(e) = self.put(pid, home, &wanted) {
                not_protected(e);
            }
        }
    }

    /// Cap what is above the units by what they need now, and write each knob that has not the
    /// value it should have. Returns the units whose protection is not withdrawn.
    fn round(&mut self, tree: &Tree, now: Instant) -> BTreeSet<DomainPath> {
        let limits = self.limits();
        let (Some(protector), Some(units)) = (&mut self.protector, &mut self.units) else {
            return BTreeSet::new();
        };
        (units.last, units.next) = (Some(now), None);
        let knobs = units.knobs(tree.root());
        if let Err(e) = units.guard.watch(&knobs) {
            if !std::mem::replace(&mut units.warned, true) {
                warn!("memory: what systemd changes is not seen at once: {e}");
            }
        }
        let lines = protector.table(now);
        let mut needing = Vec::new();
        for line in &lines {
            let Some(protected) = units.protected.get(&line.path) else {
                continue;
            };
            let usage = cgroup::current(&tree.root().join(line.path.to_string()));
            let usage = usage.ok().flatten().unwrap_or(Bytes(0));
            needing.push((&protected.unit, line.protection, usage));
        }
        let active = needing.iter().filter(|c| c.1 != Protection::None);
        let active = active.map(|c| c.0.domain.clone()).collect();
        for (above, most) in needs(needing.into_iter(), limits) {
            protector.cap(&above, most);
        }
        units.protected.retain(|domain, protected| {
            let above = protected.unit.above();
            match protector.protect(domain, &above, protected.pi, now) {
                Ok(()) => true,
                Err(_) if tree.open(domain).is_err() => false, // it has ended
                Err(e) => {
                    if !std::mem::replace(&mut protected.warned, true) {
                        warn!("{e}");
                    }
                    true
                }
            }
        });
        active
    }
}

#[cfg(test)]
mod tests;
