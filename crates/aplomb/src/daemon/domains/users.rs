//! Looks at what is delegated to users: errands of the user whose directories are looked at.
//!
//! An owner has one errand at a time, which takes all looks that are due. So a user's locks hold up
//! that user's looks only (read.rs), and what the errand costs is that user's part of the daemon's
//! time (budget.rs).

use std::collections::BTreeMap;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

use aplomb_domain::{DomainPath, Tree, MAX_OWNED};

use super::read::{read, Look, Part};
use super::watch::Watcher;
use crate::daemon::budget::Work;
use crate::daemon::errands::Errands;
use crate::daemon::memory::pace::ran;

/// Looks that one errand takes.
const BATCH: usize = 64;
/// Looks that wait for one owner. With one more the whole tree is looked through later.
pub const MAX_LOOKS: usize = MAX_OWNED;
/// When no errand can be added, the time until the next try.
const PAUSE: Duration = Duration::from_millis(100);

/// The looks of all owners.
#[derive(Debug)]
pub struct Users {
    by_owner: BTreeMap<u32, Waiting>,
    work: Work,
    /// When the next look is due that nothing else wakes the daemon for.
    pub next_at: Option<Instant>,
    results: Receiver<Batch>,
    sender: Sender<Batch>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// With all below, or alone.
    looks: BTreeMap<DomainPath, bool>,
    /// What the errand that runs looks at.
    running: Vec<Look>,
    /// Root waits: the budget does not count.
    urgent: bool,
}

/// What an errand found.
#[derive(Debug)]
struct Batch {
    owner: u32,
    parts: Vec<Part>,
    /// What it did not come to.
    left: Vec<Look>,
    cost: Duration,
}

/// Sends the batch when it is dropped, so that also an errand that cannot run (no tree) ends.
struct Reply(Sender<Batch>, Batch);

impl Drop for Reply {
    fn drop(&mut self) {
        let empty = Batch::empty(self.1.owner);
        let _ = self.0.send(std::mem::replace(&mut self.1, empty));
    }
}

impl Reply {
    fn send(mut self, batch: Batch) {
        self.1 = batch;
    }
}

impl Batch {
    fn empty(owner: u32) -> Self {
        Self {
            owner,
            parts: Vec::new(),
            left: Vec::new(),
            cost: Duration::ZERO,
        }
    }
}

impl Waiting {
    /// A look at `path` waits.
    fn waits(&self, path: &DomainPath) -> bool {
        let mut looks = self.looks.iter();
        looks.any(|(at, below)| at == path || (*below && at.holds(path)))
    }
}

impl Users {
    pub fn new() -> Self {
        let (sender, results) = channel();
        Self {
            by_owner: BTreeMap::new(),
            work: Work::default(),
            next_at: None,
            results,
            sender,
        }
    }

    /// Look at `look` soon, for `owner`. False if too many looks wait: then all that is delegated
    /// to this owner must be looked at later.
    pub fn ask(&mut self, owner: u32, look: Look) -> bool {
        let looks = &mut self.by_owner.entry(owner).or_default().looks;
        let Look { top, below } = look;
        if looks.iter().any(|(at, all)| *all && at.holds(&top)) {
            return true;
        }
        if below {
            looks.retain(|at, _| !top.holds(at));
        }
        if looks.len() >= MAX_LOOKS && !looks.contains_key(&top) {
            return false;
        }
        *looks.entry(top).or_insert(false) |= below;
        true
    }

    /// Root waits for the look at `path`, if there is one.
    pub fn hurry(&mut self, path: &DomainPath) {
        for waiting in self.by_owner.values_mut() {
            waiting.urgent |= waiting.waits(path);
        }
    }

    /// An errand of `owner` runs. It may or may not have seen what changes now.
    pub fn is_looking(&self, owner: u32) -> bool {
        let waiting = self.by_owner.get(&owner);
        waiting.is_some_and(|w| !w.running.is_empty())
    }

    /// A look at `path` waits or runs.
    pub fn is_pending(&self, path: &DomainPath) -> bool {
        let mut all = self.by_owner.values();
        all.any(|w| w.waits(path) || w.running.iter().any(|look| look.holds(path)))
    }

    pub fn are_looking(&self) -> bool {
        self.by_owner.values().any(|w| !w.running.is_empty())
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    /// Send the looks that are due. `known`: the domains that a look holds and that are known, with
    /// their ids.
    pub fn send(
        &mut self,
        errands: &Errands,
        watcher: Option<&Watcher>,
        now: Instant,
        known: impl Fn(&Look) -> Vec<(DomainPath, u64)>,
    ) {
        self.next_at = None;
        let idle = |w: &Waiting| w.running.is_empty() && !w.looks.is_empty();
        for (owner, waiting) in self.by_owner.iter_mut().filter(|(_, w)| idle(w)) {
            let ready = self.work.ready(*owner, now);
            if let (Err(at), false) = (ready, waiting.urgent) {
                self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
                continue;
            }
            while waiting.running.len() < BATCH {
                let Some((top, below)) = waiting.looks.pop_first() else {
                    waiting.urgent = false;
                    break;
                };
                waiting.running.push(Look { top, below });
            }
            let looks = waiting.running.iter();
            let looks = looks.map(|l| (l.clone(), known(l))).collect();
            let (owner, watcher) = (*owner, watcher.cloned());
            let reply = Reply(self.sender.clone(), Batch::empty(owner));
            let act = move |tree: &Tree| {
                reply.send(act(tree, owner, watcher.as_ref(), looks));
                Ok(())
            };
            if errands.add(owner, act).is_err() {
                let back = std::mem::take(&mut waiting.running).into_iter();
                waiting.looks.extend(back.map(|l| (l.top, l.below)));
                self.next_at = Some(now + PAUSE);
            }
        }
    }

    /// What errands have found since the last call.
    pub fn take(&mut self, now: Instant) -> Vec<Part> {
        let mut parts = Vec::new();
        while let Ok(batch) = self.results.try_recv() {
            self.work.did(batch.owner, batch.cost, now);
            parts.extend(batch.parts);
            if let Some(waiting) = self.by_owner.get_mut(&batch.owner) {
                waiting.running.clear();
            }
            for look in batch.left {
                self.ask(batch.owner, look);
            }
        }
        self.by_owner
            .retain(|_, w| !w.running.is_empty() || !w.looks.is_empty());
        parts
    }
}

/// The errand: reads until it has found as many domains as one owner may have.
fn act(
    tree: &Tree,
    owner: u32,
    watcher: Option<&Watcher>,
    looks: Vec<(Look, Vec<(DomainPath, u64)>)>,
) -> Batch {
    let begun = ran();
    let (mut parts, mut left): (Vec<Part>, Vec<Look>) = (Vec::new(), Vec::new());
    let mut found = 0;
    for (look, known) in looks {
        if found >= MAX_OWNED {
            left.push(look);
            continue;
        }
        let part = read(tree, watcher, look, &known, false);
        found += part.domains.len();
        parts.push(part);
    }
    Batch {
        owner,
        parts,
        left,
        cost: ran().saturating_sub(begun),
    }
}
