//! Finds the domains: walks the tree, watches what it finds, and forgets what was removed.
//!
//! What one owner can have here is bounded ([`MAX_OWNED`] domains, and in each second so many looks
//! at changed attributes), so that no user makes the daemon grow or work without end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use aplomb_domain::{DomainError, DomainPath, Found, MAX_OWNED};
use aplomb_kernel::Kernel;
use tracing::warn;

use super::push::{removal_of, NO_DISK_SHARE};
use super::{Domains, Known, WALK_INTERVAL};
use crate::daemon::budget::{warn_about, Budget};
use crate::daemon::net::NetSetting;

/// The most walks of a part of the tree that changes meanwhile. The watches report later changes.
const ROUNDS: usize = 3;
/// Looks at changed attributes for one owner: this many at once, then one in each pause. A look may
/// change the tree of the kernel side, under a lock that all CPUs take.
const LOOKS_AT_ONCE: u32 = 20;
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// The least time between two walks of the whole tree because changes were lost. A user can make
/// more changes than the kernel keeps.
const LOST_PAUSE: Duration = Duration::from_secs(5);

/// What bounds the work for owners.
#[derive(Debug)]
pub struct Owners {
    /// Domains that are known, by owner; root is left out.
    known: BTreeMap<u32, usize>,
    looks: Budget,
    /// Domains whose attributes changed and whose owner's budget was used up.
    later: BTreeSet<DomainPath>,
    pub look_at: Option<Instant>,
    walked: Option<Instant>,
}

impl Owners {
    pub fn new() -> Self {
        Self {
            known: BTreeMap::new(),
            looks: Budget::new(LOOKS_AT_ONCE, LOOK_PAUSE),
            later: BTreeSet::new(),
            look_at: None,
            walked: None,
        }
    }

    /// Count one more domain. False if the owner has too many.
    fn add(&mut self, owner: u32) -> bool {
        let known = self.known.entry(owner).or_insert(0);
        let room = owner == 0 || *known < MAX_OWNED;
        *known += usize::from(room);
        room
    }

    #[cfg(test)]
    pub fn is_empty_but_for(&self, owners: &[u32]) -> bool {
        self.known.keys().all(|owner| owners.contains(owner)) && self.later.is_empty()
    }

    fn remove(&mut self, owner: u32) {
        if let Some(known) = self.known.get_mut(&owner) {
            *known -= 1;
            if *known == 0 {
                self.known.remove(&owner);
            }
        }
    }
}

impl Domains {
    /// Changes of the tree were lost: walk all of it, but not all the time.
    pub(super) fn changes_lost(&mut self, kernel: &mut dyn Kernel) {
        let now = Instant::now();
        match self.owners.walked {
            Some(last) if now < last + LOST_PAUSE => {
                let at = last + LOST_PAUSE;
                self.walk_at = Some(self.walk_at.map_or(at, |other| other.min(at)));
            }
            _ => self.scan(kernel),
        }
    }

    /// Walk the tree from `top` on. Watch new domains, and forget removed ones.
    pub(super) fn explore(&mut self, top: &DomainPath, kernel: &mut dyn Kernel) {
        if top.is_root() {
            self.owners.walked = Some(Instant::now());
        }
        for _ in 0..ROUNDS {
            let Some(tree) = &self.tree else { return };
            let walk = match tree.walk(top) {
                Ok(walk) => walk,
                Err(DomainError::Missing(_)) => {
                    self.forget(top, kernel);
                    return;
                }
                Err(e) => return warn!("{e}"),
            };
            let found: BTreeMap<_, _> = walk.domains.iter().map(|f| (&f.path, f.cgid)).collect();
            let is_gone = |path: &DomainPath, known: &Known| match found.get(path) {
                Some(cgid) => *cgid != known.cgid,
                // The walk may have left it out.
                None if walk.truncated => {
                    let now = tree.open(path).and_then(|dir| dir.cgid());
                    !now.is_ok_and(|cgid| cgid == known.cgid)
                }
                None => true,
            };
            let gone: Vec<DomainPath> = self
                .below(top)
                .filter(|(path, known)| is_gone(path, known))
                .map(|(p, _)| p.clone())
                .collect();
            for path in gone {
                self.forget(&path, kernel);
            }
            walk.cut.iter().for_each(|owner| warn_of_too_many(*owner));
            let mut fresh = false;
            for f in walk.domains {
                let new = !self.known.contains_key(&f.path);
                for wrong in f.wrong.iter().filter(|_| new) {
                    let (at, what) = (wrong.attribute, &wrong.message);
                    warn_about(f.owner, &format!("domain {}: {at}: {what}", f.path));
                }
                let path = f.path.clone();
                if self.note(f) {
                    fresh |= new;
                    self.push_settings(&path, kernel);
                    self.end_if_empty(&path, kernel);
                }
            }
            if !fresh {
                return; // every directory was watched before it was listed
            }
        }
    }

    /// Record a domain's settings, and watch it. False if its owner has too many domains: then the
    /// kernel side's settings stay as they are.
    fn note(&mut self, found: Found) -> bool {
        let Found {
            path,
            cgid,
            owner,
            marks,
            ..
        } = found;
        let before = self.known.get(&path).and_then(|k| k.marks.memory);
        if !self.known.contains_key(&path) {
            if !self.owners.add(owner) {
                warn_of_too_many(owner);
                return false;
            }
            let known = Known {
                cgid,
                owner,
                marks,
                pushed: Default::default(),
                refused: None,
                watched: None,
                events: None,
            };
            self.known.insert(path.clone(), known);
        }
        let Some(known) = self.known.get_mut(&path) else {
            return false;
        };
        self.memory_changed |= before != marks.memory;
        self.net_changed |= NetSetting::of(&known.marks) != NetSetting::of(&marks);
        known.marks = marks;
        let (Some(tree), Some(watch)) = (&self.tree, &mut self.watch) else {
            return true;
        };
        let Ok(dir) = tree.open(&path) else {
            return true; // removed: the parent's watch reports it
        };
        let mut added = Ok(());
        if known.watched.is_none() {
            added = watch.directory(&dir).map(|n| known.watched = Some(n));
        }
        if marks.ephemeral && known.events.is_none() && added.is_ok() {
            added = watch.events(&dir).map(|n| known.events = Some(n));
        }
        if let Err(e) = added.as_ref() {
            if e.kind() != io::ErrorKind::NotFound && !self.warned {
                self.warned = true;
                warn!("not all cgroups can be watched ({path}: {e}): the tree is looked through every {} s",
                    WALK_INTERVAL.as_secs());
            }
            self.walk_at
                .get_or_insert_with(|| Instant::now() + WALK_INTERVAL);
        }
        true
    }

    /// The attributes of a domain changed: look at them now, or when its owner's budget allows it.
    pub(super) fn attributes_changed(&mut self, path: DomainPath, kernel: &mut dyn Kernel) {
        let Some(known) = self.known.get(&path) else {
            return;
        };
        if self.owners.later.contains(&path) {
            return;
        }
        match self.owners.looks.take(known.owner, Instant::now()) {
            Ok(()) => self.reread(&path, kernel),
            Err(at) => {
                self.owners.later.insert(path);
                let next = self.owners.look_at.map_or(at, |other| other.min(at));
                self.owners.look_at = Some(next);
            }
        }
    }

    /// Look at the domains whose owner's budget was used up.
    pub(super) fn look_at_later(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        if self.owners.look_at.take_if(|at| *at <= now).is_some() {
            for path in std::mem::take(&mut self.owners.later) {
                self.attributes_changed(path, kernel);
            }
        }
    }

    pub(super) fn reread(&mut self, path: &DomainPath, kernel: &mut dyn Kernel) {
        let Some(tree) = &self.tree else { return };
        let read = tree
            .open(path)
            .and_then(|dir| Ok((dir.cgid()?, dir.owner(), tree.marks(&dir))));
        let Ok((cgid, owner, (marks, wrong))) = read else {
            self.forget(path, kernel);
            return;
        };
        for w in &wrong {
            warn_about(
                owner,
                &format!("domain {path}: {}: {}", w.attribute, w.message),
            );
        }
        if self.known.get(path).is_some_and(|k| k.cgid != cgid) {
            self.forget(path, kernel);
        }
        let pushed = |known: Option<&Known>| known.map(|k| k.pushed.reservation);
        let before = pushed(self.known.get(path));
        let found = Found {
            path: path.clone(),
            cgid,
            owner,
            marks,
            wrong,
        };
        if !self.note(found) {
            return;
        }
        self.push_settings(path, kernel);
        self.end_if_empty(path, kernel);
        if before != pushed(self.known.get(path)) {
            self.push_all(kernel); // there may be room for refused domains now
        }
    }

    /// The known domains at `top` and below.
    fn below<'a>(
        &'a self,
        top: &'a DomainPath,
    ) -> impl Iterator<Item = (&'a DomainPath, &'a Known)> {
        let from_top = self.known.range(top..);
        from_top.take_while(|(path, _)| top.holds(path))
    }

    /// `top` and all domains below were removed. Give their reservations back now: the kernel side
    /// learns of the removal later than the daemon, and would refuse other reservations until then.
    /// Returns true if there was one.
    pub(super) fn forget(&mut self, top: &DomainPath, kernel: &mut dyn Kernel) -> bool {
        let gone: Vec<_> = self.below(top).map(|(p, _)| p.clone()).collect();
        let mut room = false;
        // The lowest first: a domain cannot have less than is reserved below it.
        for path in gone.iter().rev() {
            let Some(known) = self.known.remove(path) else {
                continue;
            };
            self.owners.remove(known.owner);
            self.owners.later.remove(path);
            self.memory_changed |= known.marks.memory.is_some();
            self.net_changed |= NetSetting::of(&known.marks).is_some();
            // These fail if the kernel side knows of the removal already.
            if let Some(reserved) = known.pushed.reservation {
                let _ = kernel.set_domain(known.cgid, removal_of(reserved));
                room = true;
            }
            if known.pushed.disk_ppm.is_some() {
                let _ = kernel.set_domain(known.cgid, NO_DISK_SHARE);
                room = true;
            }
            if let Some(watch) = &mut self.watch {
                let numbers = [known.watched, known.events];
                numbers.into_iter().flatten().for_each(|n| watch.remove(n));
            }
        }
        room
    }
}

fn warn_of_too_many(owner: u32) {
    let message = format!(
        "user {owner} has more than {MAX_OWNED} cgroups: attributes of the others have no effect"
    );
    warn_about(owner, &message);
}
