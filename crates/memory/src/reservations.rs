//! Reservations of memory for domains (Eclipse section 6.4): which are in force, and what a domain
//! needs for them. Pure.
//!
//! 1. A domain's working set does not fall below its reservation: its memory.min is at least that,
//!    so reclaim takes only what is above, and by age, as usual.
//! 2. The kernel protects a cgroup for as much as the cgroups above it are protected. So a domain
//!    needs its own reservation, or the sum of what the domains below it need, whichever is more.
//! 3. A reservation below a domain with a reservation of its own is a part of that one. It is
//!    refused if the domain has not so much left. At the top level the limit is what the caller
//!    names ([`Reservations::set`]).
//! 4. What is refused changes nothing.

use std::collections::BTreeMap;

use aplomb_domain::DomainPath;

use crate::cgroup::Bytes;

/// Reservations at a time: [`Reservations::set`] looks at all of them.
pub const MAX_RESERVATIONS: usize = 1024;

/// Why a reservation is not in force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{asked} of memory is more than the {} left: of {most}, others beside it have reserved {taken}", left(.most, .taken))]
    Full {
        asked: Bytes,
        taken: Bytes,
        most: Bytes,
    },
    #[error("{asked} of memory is more than the {} left in {above}: of its {most}, others there have reserved {taken}", left(.most, .taken))]
    FullAbove {
        asked: Bytes,
        taken: Bytes,
        most: Bytes,
        above: DomainPath,
    },
    #[error("{asked} of memory is less than what is reserved below it: {below}")]
    Below { asked: Bytes, below: Bytes },
    #[error("{MAX_RESERVATIONS} domains have reservations of memory, which is the limit")]
    TooMany,
    #[error("the root has all memory; a reservation is for a domain below it")]
    Root,
}

fn left(most: &Bytes, taken: &Bytes) -> Bytes {
    Bytes(most.0.saturating_sub(taken.0))
}

/// What concerns one domain, as Eclipse's control files say it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Its own reservation (rdmem).
    pub reserved: Option<Bytes>,
    /// What it and the domains beside it need together (rdmemsum).
    pub sum: Bytes,
    /// What these may have together (rdmemlim).
    pub limit: Bytes,
}

/// The reservations in force.
#[derive(Debug, Clone, Default)]
pub struct Reservations {
    own: BTreeMap<DomainPath, Bytes>,
    /// What each domain needs, for itself and for those below it. Without the root.
    needs: BTreeMap<DomainPath, Bytes>,
}

impl Reservations {
    /// Set a domain's reservation, or remove it. `most`: what the domains of the top level may have
    /// together.
    ///
    /// # Errors
    /// It does not fit. Nothing is changed.
    pub fn set(
        &mut self,
        path: &DomainPath,
        bytes: Option<Bytes>,
        most: Bytes,
    ) -> Result<(), Refused> {
        if path.is_root() {
            return Err(Refused::Root);
        }
        let mut own = self.own.clone();
        match bytes {
            Some(bytes) => drop(own.insert(path.clone(), bytes)),
            None => drop(own.remove(path)),
        }
        if own.len() > MAX_RESERVATIONS {
            return Err(Refused::TooMany);
        }
        let (needs, below) = needs(&own);
        let asked = needs.get(path).copied().unwrap_or_default();
        if let Some(asked) = bytes {
            let below = Bytes(below.get(path).copied().unwrap_or(0));
            if below > asked {
                return Err(Refused::Below { asked, below });
            }
        }
        // What needs no more than before cannot exceed anything that was not exceeded before.
        for above in std::iter::successors(path.parent(), DomainPath::parent) {
            let limit = match own.get(&above) {
                _ if above.is_root() => &most,
                Some(limit) => limit,
                None => continue,
            };
            let sum = below.get(&above).copied().unwrap_or(0);
            if asked > self.need(path) && sum > limit.0 {
                let (taken, most) = (Bytes(sum.saturating_sub(asked.0)), *limit);
                return Err(if above.is_root() {
                    Refused::Full { asked, taken, most }
                } else {
                    Refused::FullAbove {
                        asked,
                        taken,
                        most,
                        above,
                    }
                });
            }
        }
        (self.own, self.needs) = (own, needs);
        Ok(())
    }

    /// A domain's own reservation.
    pub fn own(&self, path: &DomainPath) -> Option<Bytes> {
        self.own.get(path).copied()
    }

    /// The domains that have reservations.
    pub fn paths(&self) -> impl Iterator<Item = &DomainPath> {
        self.own.keys()
    }

    /// What a domain needs for itself and for those below it.
    pub fn need(&self, path: &DomainPath) -> Bytes {
        self.needs.get(path).copied().unwrap_or_default()
    }

    /// The domains that need something, each after its parent.
    pub fn needing(&self) -> impl Iterator<Item = (&DomainPath, Bytes)> {
        self.needs.iter().map(|(path, need)| (path, *need))
    }

    /// A domain's account. `most`: as in [`Reservations::set`].
    pub fn account(&self, path: &DomainPath, most: Bytes) -> Account {
        let Some(parent) = path.parent() else {
            let sum = self.sum(path);
            return Account {
                reserved: None,
                sum,
                limit: most,
            };
        };
        let limit = std::iter::successors(Some(parent.clone()), DomainPath::parent)
            .find_map(|above| self.own(&above));
        Account {
            reserved: self.own(path),
            sum: self.sum(&parent),
            limit: limit.unwrap_or(most),
        }
    }

    /// What the domains right below `above` need together.
    fn sum(&self, above: &DomainPath) -> Bytes {
        let from = self.needs.range(above..);
        let below = from
            .take_while(|(path, _)| above.holds(path))
            .filter(|(path, _)| path.parent().as_ref() == Some(above));
        Bytes(below.map(|(_, need)| need.0).sum())
    }
}

/// What each domain needs, and the sum of what those right below each domain need.
fn needs(
    own: &BTreeMap<DomainPath, Bytes>,
) -> (BTreeMap<DomainPath, Bytes>, BTreeMap<DomainPath, u64>) {
    let with_ancestors = own
        .keys()
        .flat_map(|path| std::iter::successors(Some(path.clone()), DomainPath::parent));
    let all: std::collections::BTreeSet<DomainPath> = with_ancestors.collect();
    let (mut needs, mut below) = (BTreeMap::new(), BTreeMap::<DomainPath, u64>::new());
    // A domain comes after its parent, so from the end on all that are below it come first.
    for path in all.into_iter().rev() {
        let inside = below.get(&path).copied().unwrap_or(0);
        let need = own.get(&path).map_or(0, |b| b.0).max(inside);
        if let Some(parent) = path.parent() {
            let sum = below.entry(parent).or_default();
            *sum = sum.saturating_add(need);
            needs.insert(path, Bytes(need));
        }
    }
    (needs, below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MB: u64 = 1 << 20;

    fn path(text: &str) -> DomainPath {
        text.parse().unwrap()
    }

    fn set(r: &mut Reservations, domain: &str, bytes: impl Into<Option<u64>>) -> Option<Refused> {
        let bytes = bytes.into().map(|mb: u64| Bytes(mb * MB));
        r.set(&path(domain), bytes, Bytes(100 * MB)).err()
    }

    #[test]
    fn what_is_above_needs_as_much() {
        let mut r = Reservations::default();
        assert_eq!(set(&mut r, "a/b/c", 30), None);
        assert_eq!(set(&mut r, "a/d", 20), None);
        let need = |r: &Reservations, p: &str| r.need(&path(p)).0 / MB;
        assert_eq!((need(&r, "a"), need(&r, "a/b"), need(&r, "x")), (50, 30, 0));
        assert_eq!(set(&mut r, "a", 70), None);
        assert_eq!(need(&r, "a"), 70);
        let account = r.account(&path("a/d"), Bytes(100 * MB));
        let wanted = Account {
            reserved: Some(Bytes(20 * MB)),
            sum: Bytes(50 * MB),
            limit: Bytes(70 * MB),
        };
        assert_eq!(account, wanted);
        let beside = r.account(&path("x"), Bytes(9));
        let beside = (beside.reserved, beside.sum.0 / MB, beside.limit.0);
        assert_eq!(beside, (None, 70, 9));
        let root = r.account(&DomainPath::root(), Bytes(9));
        assert_eq!((root.sum.0 / MB, root.limit.0), (70, 9));
        assert_eq!(set(&mut r, "a", None), None);
        assert_eq!(need(&r, "a"), 50);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut r = Reservations::default();
        assert_eq!(set(&mut r, "a", 60), None);
        assert_eq!(set(&mut r, "a/b", 40), None);
        let before = r.own.clone();
        for (domain, bytes, words) in [
            ("b", 41, "41.0 MiB of memory is more than the 40.0 MiB left: of 100.0 MiB, others beside it have reserved 60.0 MiB"),
            ("a/c/d", 21, "more than the 20.0 MiB left in a: of its 60.0 MiB, others there have reserved 40.0 MiB"),
            ("a", 39, "less than what is reserved below it: 40.0 MiB"),
            ("a", 101, "more than the 100.0 MiB left"),
            ("/", 1, "the root has all memory"),
        ] {
            let refused = set(&mut r, domain, bytes).unwrap().to_string();
            assert!(refused.contains(words), "{refused}");
            assert_eq!(r.own, before);
        }
        // There is less now than was given out: what takes less is still accepted.
        assert_eq!(r.set(&path("a"), Some(Bytes(50 * MB)), Bytes(10)), Ok(()));
        assert!(r.set(&path("a"), Some(Bytes(51 * MB)), Bytes(10)).is_err());
    }

    #[test]
    fn their_number_is_bounded() {
        let mut r = Reservations::default();
        for i in 0..MAX_RESERVATIONS {
            r.own.insert(path(&format!("d{i}")), Bytes(0));
        }
        assert_eq!(set(&mut r, "one/more", 0), Some(Refused::TooMany));
        assert_eq!(set(&mut r, "d7", 9), None);
    }

    proptest! {
        /// After any changes, no domain gives more than it has, and the top level no more than
        /// there is.
        #[test]
        fn sums_hold(changes in proptest::collection::vec(("[ab](/[ab]){0,3}", proptest::option::of(0u64..60)), 0..40)) {
            let mut r = Reservations::default();
            for (domain, bytes) in changes {
                let before = r.own.clone();
                if set(&mut r, &domain, bytes).is_some() {
                    prop_assert_eq!(&r.own, &before);
                }
                prop_assert!(r.sum(&DomainPath::root()).0 <= 100 * MB);
                for (path, own) in &r.own {
                    prop_assert!(r.sum(path) <= *own);
                    prop_assert_eq!(r.need(path), *own);
                }
                for (path, need) in r.needing() {
                    prop_assert_eq!(need, r.own(path).unwrap_or_default().max(r.sum(path)));
                }
            }
        }
    }
}
