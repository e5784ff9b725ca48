//! Finds the domains: walks the tree, watches what it finds, and forgets what was removed.
//!
//! What one owner can have here is bounded ([`MAX_OWNED`] domains, and in each second so many looks
//! at changed attributes), so that no user makes the daemon grow or work without end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use aplomb_domain::{
    DomainError, DomainPath, Found, WrongMark, MAX_ALL_QUEUES, MAX_OWNED, NET_QUEUES,
};
use aplomb_kernel::Kernel;
use inotify::WatchDescriptor;
use tracing::warn;

use super::push::{removal_of, NO_DISK_SHARE};
use super::read::{read, Look, Part};
use super::watch::Watch;
use super::{Domains, Known, NotInForce, WALK_INTERVAL};
use crate::daemon::budget::{warn_about, Budget};
use crate::daemon::net::{set_the_same, sets_packets};
use crate::protocol::{Code, Refusal};

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

    /// Look at `top` and all below. Watch new domains, and forget removed ones.
    pub(super) fn explore(&mut self, top: &DomainPath, kernel: &mut dyn Kernel) {
        if top.is_root() {
            self.owners.walked = Some(Instant::now());
        }
        let top = top.clone();
        self.look_at(Look { top, below: true }, kernel);
    }

    /// Look at one domain again.
    pub(super) fn reread(&mut self, path: &DomainPath, kernel: &mut dyn Kernel) {
        let (top, below) = (path.clone(), false);
        self.look_at(Look { top, below }, kernel);
    }

    /// The user that the part of the tree at `path` is delegated to, as far as is known; 0: root.
    pub(super) fn owner_of(&self, path: &DomainPath) -> u32 {
        let mut above = std::iter::successors(Some(path.clone()), DomainPath::parent);
        let known = above.find_map(|path| self.known.get(&path));
        known.map_or(0, |known| known.owner)
    }

    /// Look at what is root's now, and have what is users' looked at.
    fn look_at(&mut self, look: Look, kernel: &mut dyn Kernel) {
        let apart = self.errands.is_some();
        let owner = self.owner_of(&look.top);
        if apart && owner != 0 {
            return self.ask(owner, look);
        }
        let known = self.below(&look.top);
        let known = known.filter(|(path, k)| (!apart || k.owner == 0) && look.holds(path));
        let known: Vec<_> = known.map(|(path, k)| (path.clone(), k.cgid)).collect();
        let Some(tree) = &self.tree else { return };
        let watcher = self.watch.as_ref().map(Watch::watcher);
        let part = read(tree, watcher.as_ref(), look, &known, apart);
        self.apply(part, kernel);
    }

    fn ask(&mut self, owner: u32, look: Look) {
        if !self.users.ask(owner, look) {
            let at = Instant::now() + LOST_PAUSE;
            self.walk_at = Some(self.walk_at.map_or(at, |other| other.min(at)));
        }
    }

    /// Look at one domain now. Some(Err): it is missing; an attribute is invalid; the kernel side
    /// refused a setting. None: its user's errand looks, and [`Domains::verdict`] has the result as
    /// soon as it has one.
    pub fn look(
        &mut self,
        path: &DomainPath,
        kernel: &mut dyn Kernel,
    ) -> Option<Result<(), Refusal>> {
        // The client may just have removed another domain to have room for this one.
        self.changed(kernel);
        match self.known.contains_key(path) {
            true => self.reread(path, kernel),
            false => self.explore(path, kernel),
        }
        self.users.hurry(path);
        self.send_looks(Instant::now());
        self.verdict(path)
    }

    /// What the last look at a domain found. None while a look at it is under way.
    pub fn verdict(&self, path: &DomainPath) -> Option<Result<(), Refusal>> {
        (!self.users.is_pending(path)).then(|| self.found(path))
    }

    fn found(&self, path: &DomainPath) -> Result<(), Refusal> {
        let failed = |e: DomainError| Refusal::new(Code::Failed, e.to_string());
        if self.tree.is_none() {
            return Err(failed(DomainError::NoTree));
        }
        let Some(known) = self.known.get(path) else {
            return Err(failed(DomainError::Missing(path.to_string())));
        };
        if let Some(wrong) = &known.wrong {
            return Err(Refusal::new(Code::Invalid, format!("{path}: {wrong}")));
        }
        match known.refused.clone() {
            None => Ok(()),
            Some(NotInForce::Unknown(message)) => Err(Refusal::new(Code::Failed, message)),
            Some(NotInForce::Refused { code, message }) => Err(Refusal::new(code, message)),
        }
    }

    /// Send the looks at what is users' that are due.
    pub(super) fn send_looks(&mut self, now: Instant) {
        let Some(errands) = &self.errands else { return };
        let watcher = self.watch.as_ref().map(Watch::watcher);
        let known = |look: &Look| {
            let known = below(&self.known, &look.top).filter(|(path, _)| look.holds(path));
            known.map(|(path, k)| (path.clone(), k.cgid)).collect()
        };
        self.users.send(errands, watcher.as_ref(), now, known);
        if let Some(watch) = &mut self.watch {
            watch.expect(self.users.are_looking());
        }
    }

    /// Take what was read into account.
    pub(super) fn apply(&mut self, part: Part, kernel: &mut dyn Kernel) {
        match &part.failed {
            Some(DomainError::Missing(_)) => drop(self.forget(&part.look.top, kernel)),
            Some(e) => warn_about(self.owner_of(&part.look.top), &e.to_string()),
            None => {}
        }
        for (path, cgid) in &part.gone {
            if self.known.get(path).is_some_and(|k| k.cgid == *cgid) {
                self.forget(path, kernel);
            }
        }
        part.cut.iter().for_each(|owner| warn_of_too_many(*owner));
        for mut f in part.domains {
            self.limit_queues(&mut f);
            let is_other = |known: &Known| known.cgid != f.cgid;
            if self.known.get(&f.path).is_some_and(is_other) {
                self.forget(&f.path, kernel);
            }
            let new = !self.known.contains_key(&f.path);
            for wrong in f.wrong.iter().filter(|_| new || !part.look.below) {
                let (at, what) = (wrong.attribute, &wrong.message);
                warn_about(f.owner, &format!("domain {}: {at}: {what}", f.path));
            }
            let pushed = |known: Option<&Known>| known.map(|k| k.pushed.reservation);
            let before = pushed(self.known.get(&f.path));
            let path = f.path.clone();
            let watches = (part.watched.get(&path), part.events.get(&path));
            if !self.note(f, watches) {
                continue;
            }
            self.push_settings(&path, kernel);
            self.end_if_empty(&path, kernel);
            if !part.look.below && before != pushed(self.known.get(&path)) {
                self.push_all(kernel); // there may be room for refused domains now
            }
        }
        if let Some((path, e)) = &part.unwatched {
            self.is_not_watched(path, e);
        }
        for (owner, top) in part.delegated {
            let below = part.look.below;
            self.ask(owner, Look { top, below });
        }
    }

    /// Record a domain's settings, and the watches of its directory and of its cgroup.events. False
    /// if its owner has too many domains: then the kernel side's settings stay as they are.
    fn note(
        &mut self,
        found: Found,
        watches: (Option<&WatchDescriptor>, Option<&WatchDescriptor>),
    ) -> bool {
        let Found {
            path,
            cgid,
            owner,
            marks,
            wrong,
        } = found;
        let before = self.known.get(&path).and_then(|k| k.marks.memory);
        if !self.known.contains_key(&path) {
            if !self.owners.add(owner) {
                warn_of_too_many(owner);
                if let (Some(watch), Some(added)) = (&mut self.watch, watches.0) {
                    watch.drop_unknown(added);
                }
                return false;
            }
            let known = Known {
                cgid,
                owner,
                marks: Default::default(), // so that all of its settings are changes
                wrong: None,
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
        self.net_changed |= !set_the_same(&known.marks, &marks);
        known.marks = marks;
        known.wrong = wrong
            .first()
            .map(|w| format!("{}: {}", w.attribute, w.message));
        let Some(watch) = &mut self.watch else {
            return true;
        };
        let mut learned = Ok(false);
        if let Some(added) = watches.0 {
            learned = watch.learn(added, &path);
            known.watched = learned.is_ok().then(|| added.clone());
        }
        if let (Some(added), Ok(changed)) = (watches.1, &learned) {
            learned = watch.learn_events(added, &path).map(|c| c | changed);
            known.events = learned.is_ok().then(|| added.clone());
        }
        match learned {
            Ok(false) => {}
            Ok(true) => {
                let (top, below) = (path, true);
                self.ask(owner, Look { top, below });
            }
            Err(e) => self.is_not_watched(&path, &e),
        }
        true
    }

    fn is_not_watched(&mut self, path: &DomainPath, e: &io::Error) {
        if !std::mem::replace(&mut self.warned, true) {
            warn!("not all cgroups can be watched ({path}: {e}): the tree is looked through every {} s",
                WALK_INTERVAL.as_secs());
        }
        self.walk_at
            .get_or_insert_with(|| Instant::now() + WALK_INTERVAL);
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

    /// The known domains at `top` and below.
    fn below<'a>(
        &'a self,
        top: &'a DomainPath,
    ) -> impl Iterator<Item = (&'a DomainPath, &'a Known)> {
        below(&self.known, top)
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
            self.net_changed |= sets_packets(&known.marks);
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

fn below<'a>(
    known: &'a BTreeMap<DomainPath, Known>,
    top: &'a DomainPath,
) -> impl Iterator<Item = (&'a DomainPath, &'a Known)> {
    known.range(top..).take_while(|(path, _)| top.holds(path))
}

impl Domains {
    /// Queues that may not be are as an invalid attribute.
    fn limit_queues(&self, found: &mut Found) {
        if found.marks.net_queues.is_empty() {
            return;
        }
        let others = self.known.iter().filter(|(path, _)| **path != found.path);
        let others: usize = others.map(|(_, k)| k.marks.net_queues.len()).sum();
        let message = if found.path.is_root() {
            "the root of the tree has no queues".into()
        } else if others + found.marks.net_queues.len() > MAX_ALL_QUEUES {
            format!("there are {others} queues already, and at most {MAX_ALL_QUEUES} may be")
        } else {
            return;
        };
        found.marks.net_queues = Default::default();
        let attribute = NET_QUEUES;
        found.wrong.push(WrongMark { attribute, message });
    }
}

fn warn_of_too_many(owner: u32) {
    let message = format!(
        "user {owner} has more than {MAX_OWNED} cgroups: attributes of the others have no effect"
    );
    warn_about(owner, &message);
}
