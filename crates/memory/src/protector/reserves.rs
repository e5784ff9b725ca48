//! Reserves by amount, applied: the private reserves of programs ([`crate::psap`]) and the
//! reservations of domains ([`crate::reservations`]).
//!
//! Each cgroup that we protect for the programs below it is a node of a tree, whose leaves are the
//! programs' domains. The amounts are divided from the top down: what a cgroup is given is divided
//! among those below it. While no program of a tree has a private reserve, and the kernel does not
//! share what is unclaimed, there is nothing to divide, and each has what it is to have by age.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use aplomb_domain::DomainPath;

use super::Protector;
use crate::cgroup::{self, Bytes, Limit};
use crate::psap::{divide, Member};
use crate::reservations::Reservations;
use crate::MemoryError;

/// When to measure again after a program came or changed: its usage grows most then, and its amount
/// follows from what it used. Each time is twice the one before.
const FIRST_MEASURE: Duration = Duration::from_secs(1);
/// The last one. So there are ten, and none while nothing changes.
const LAST_MEASURE: Duration = Duration::from_secs(512);
/// With more domains than this, a change is divided among them with the next measurement only: a
/// division reads and may write the knobs of all. Until then a new domain has what it is to have by
/// age.
const DIVIDED_AT_ONCE: usize = 64;

/// The reserves of a protector.
#[derive(Debug, Default)]
pub struct Reserves {
    /// Of each program's domain.
    private: BTreeMap<DomainPath, Bytes>,
    /// Of domains.
    reservations: Reservations,
    /// The free part of the shared reserve.
    shared: Bytes,
    /// The cgroup tree is mounted with memory_recursiveprot.
    recursive: bool,
    /// What the domains of divided trees are protected for.
    divided: BTreeMap<DomainPath, Limit>,
    /// When to measure again, and the time after which that is.
    measure: Option<(Instant, Duration)>,
    /// A change is to be divided with the next measurement.
    stale: bool,
    /// The last measurement, or change of a program.
    last: Option<Instant>,
}

/// A node of a tree: a cgroup above programs, or a program's domain.
#[derive(Debug)]
struct Node {
    member: Member,
    below: BTreeSet<DomainPath>,
}

impl Reserves {
    /// The amount of a domain in a divided tree.
    pub(super) fn divided(&self, path: &DomainPath) -> Option<Limit> {
        self.divided.get(path).copied()
    }

    /// What a domain's reservation, or those below it, need.
    pub(super) fn needed(&self, path: &DomainPath) -> Limit {
        Limit::Bytes(self.reservations.need(path))
    }

    pub(super) fn private(&self, path: &DomainPath) -> Bytes {
        self.private.get(path).copied().unwrap_or_default()
    }

    /// A domain is protected no longer.
    pub(super) fn forget(&mut self, path: &DomainPath) {
        self.private.remove(path);
        self.divided.remove(path);
    }

    /// There is something to divide.
    fn is_divided(&self) -> bool {
        self.recursive || !self.private.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let stale = self
            .last
            .filter(|_| self.stale)
            .map(|at| at + FIRST_MEASURE);
        self.measure
            .map(|(at, _)| at)
            .into_iter()
            .chain(stale)
            .min()
    }

    /// A program came or changed: measure again soon.
    pub(super) fn measure_soon(&mut self, now: Instant) {
        self.last = Some(now);
        if !self.private.is_empty() {
            self.measure = Some((now + FIRST_MEASURE, FIRST_MEASURE));
        }
    }

    /// True if a measurement is due, which this notes as made.
    fn take_due(&mut self, now: Instant) -> bool {
        if self.deadline().is_none_or(|at| at > now) {
            return false;
        }
        (self.stale, self.last) = (false, Some(now));
        let Some((_, after)) = self.measure.take_if(|(at, _)| *at <= now) else {
            return true;
        };
        let next = after * 2;
        if next <= LAST_MEASURE && !self.private.is_empty() {
            self.measure = Some((now + next, next));
        }
        true
    }
}

impl Protector {
    /// Keep `shared` bytes of what programs may have together for the program that grows first.
    /// `recursive`: the cgroup tree is mounted with memory_recursiveprot. From the next change on.
    pub fn share(&mut self, shared: Bytes, recursive: bool) {
        self.reserves.shared = shared;
        self.reserves.recursive = recursive;
    }

    /// Set the private reserve of a protected domain. The caller has admitted it
    /// ([`crate::psap::admit`]). Nothing happens if the domain is not protected.
    ///
    /// # Errors
    /// As [`Protector::protect`].
    pub fn set_private(
        &mut self,
        path: &DomainPath,
        bytes: Bytes,
        now: Instant,
    ) -> Result<(), MemoryError> {
        if !self.domains.contains_key(path) || self.reserves.private(path) == bytes {
            return Ok(());
        }
        match bytes {
            Bytes(0) => drop(self.reserves.private.remove(path)),
            _ => drop(self.reserves.private.insert(path.clone(), bytes)),
        }
        self.reserves.measure_soon(now);
        self.apply(&self.knobs_of(path))
    }

    /// True if a domain keeps nothing: no task of it ran for its period, and it has no private
    /// reserve.
    pub fn keeps_nothing(&self, path: &DomainPath) -> bool {
        self.is_withdrawn(path) && self.reserves.private(path) == Bytes(0)
    }

    /// The reservations of domains in force.
    pub fn reservations(&self) -> &Reservations {
        &self.reserves.reservations
    }

    /// Put other reservations of domains into force.
    ///
    /// # Errors
    /// A knob cannot be written. The others are.
    pub fn reserve(&mut self, reservations: Reservations) -> Result<(), MemoryError> {
        let before = std::mem::replace(&mut self.reserves.reservations, reservations);
        let after = &self.reserves.reservations;
        let both = before.needing().chain(after.needing());
        let changed = both.filter(|(path, _)| before.need(path) != after.need(path));
        let changed: BTreeSet<DomainPath> = changed.map(|(path, _)| path.clone()).collect();
        self.apply(&changed)
    }

    /// Measure what the programs use, if that is due, and divide anew.
    pub(super) fn measure_if_due(&mut self, now: Instant) -> Result<(), MemoryError> {
        if !self.reserves.take_due(now) {
            return Ok(());
        }
        let paths: Vec<DomainPath> = self.domains.keys().cloned().collect();
        for path in &paths {
            // If the cgroup vanished, the next look forgets it.
            let usage = match cgroup::current(&self.dir(path)) {
                Err(e) if e.is_vanished() => None,
                read => read?,
            };
            if let Some((usage, domain)) = usage.zip(self.domains.get_mut(path)) {
                domain.usage = usage;
            }
        }
        let changed = self.divide();
        self.write(&changed)
    }

    /// Divide anew, or note that it is to be done. Returns the domains whose amount changed.
    pub(super) fn divide_if_few(&mut self) -> BTreeSet<DomainPath> {
        if self.domains.len() <= DIVIDED_AT_ONCE {
            return self.divide();
        }
        self.reserves.stale = self.reserves.is_divided() || !self.reserves.divided.is_empty();
        BTreeSet::new()
    }

    /// Divide anew. Returns the domains whose amount changed.
    fn divide(&mut self) -> BTreeSet<DomainPath> {
        let divided = match self.reserves.is_divided() {
            true => self.divisions(),
            false => BTreeMap::new(),
        };
        let before = std::mem::replace(&mut self.reserves.divided, divided);
        let after = &self.reserves.divided;
        let both = before.keys().chain(after.keys());
        let changed = both.filter(|path| before.get(path) != after.get(path));
        changed.cloned().collect()
    }

    /// The amounts of all domains in trees.
    fn divisions(&self) -> BTreeMap<DomainPath, Limit> {
        let (nodes, tops) = self.nodes();
        let mut amounts = BTreeMap::new();
        let mut todo: Vec<(DomainPath, Limit)> = Vec::new();
        for top in tops {
            let Some(node) = nodes.get(&top) else {
                continue;
            };
            let wanted = node.member.wanted.max(Limit::Bytes(node.member.private));
            let given = wanted.min(self.cap_of(&top));
            todo.push((top, given));
        }
        while let Some((path, given)) = todo.pop() {
            let Some(node) = nodes.get(&path).filter(|n| !n.below.is_empty()) else {
                amounts.insert(path, given);
                continue;
            };
            let members: Vec<Member> = node
                .below
                .iter()
                .filter_map(|p| nodes.get(p).map(|n| n.member))
                .collect();
            // Right above the programs: what a user's programs do not claim is that user's.
            let leaves = node.below.iter().all(|p| self.domains.contains_key(p));
            let spare = match (self.reserves.recursive, leaves) {
                (false, _) => None,
                (true, true) => Some(self.reserves.shared),
                (true, false) => Some(Bytes(0)),
            };
            let division = divide(given, spare, &members);
            let own = self.domains.get(&path).map(|d| d.set.protection().limit());
            let own = own.unwrap_or(Limit::ZERO).min(given);
            amounts.insert(path, division.total.max(own));
            todo.extend(node.below.iter().cloned().zip(division.amounts));
        }
        amounts
    }

    /// The nodes of all trees, and which of them are at the top.
    fn nodes(&self) -> (BTreeMap<DomainPath, Node>, BTreeSet<DomainPath>) {
        let mut nodes: BTreeMap<DomainPath, Node> = BTreeMap::new();
        let mut tops = BTreeSet::new();
        for (path, domain) in &self.domains {
            let own = Member {
                private: self.reserves.private(path),
                usage: domain.usage,
                wanted: domain.set.protection().limit(),
            };
            let leaf = Node {
                member: own,
                below: BTreeSet::new(),
            };
            nodes.insert(path.clone(), leaf);
            let mut chain = domain.ancestors.clone();
            chain.sort();
            chain.push(path.clone());
            tops.extend(chain.first().cloned());
            for pair in chain.windows(2) {
                let nothing = Member {
                    private: Bytes(0),
                    usage: Bytes(0),
                    wanted: Limit::ZERO,
                };
                let above = nodes.entry(pair[0].clone()).or_insert_with(|| Node {
                    member: nothing,
                    below: BTreeSet::new(),
                });
                above.below.insert(pair[1].clone());
            }
        }
        // What a cgroup wants is what those below it want; the lowest come first.
        let paths: Vec<DomainPath> = nodes.keys().rev().cloned().collect();
        for path in paths {
            let Some(node) = nodes.get(&path).filter(|n| !n.below.is_empty()) else {
                continue;
            };
            let below = node.below.iter().filter_map(|p| nodes.get(p));
            let all: Vec<Member> = below.map(|n| n.member).collect();
            let spare = self.reserves.recursive.then_some(self.reserves.shared);
            let division = divide(self.cap_of(&path), spare, &all);
            let sum = |of: fn(&Member) -> u64| Bytes(all.iter().map(of).sum());
            let (private, usage) = (sum(|m| m.private.0), sum(|m| m.usage.0));
            if let Some(node) = nodes.get_mut(&path) {
                node.member = Member {
                    private: private.max(node.member.private),
                    usage: usage.max(node.member.usage),
                    wanted: division.total.max(node.member.wanted),
                };
            }
        }
        (nodes, tops)
    }

    fn cap_of(&self, path: &DomainPath) -> Limit {
        let cap = self.caps.get(path);
        cap.map_or(Limit::Max, |most| Limit::Bytes(*most))
    }
}

#[cfg(test)]
mod tests;
