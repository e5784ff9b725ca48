//! Which programs lose their protection when the working sets of all do not fit into memory, and
//! which one comes back. Pure.
//!
//! Source: Redline section 4 (demotion) and section 6.1 (reactivation).
//!
//! 1. **Why.** The caps bound what is protected. If interactive programs need more than their cap,
//!    each keeps a part of its working set, and none runs smoothly. It is better that one program
//!    becomes best-effort and all others keep what they need.
//!
//! 2. **Model.** A program *demands* what it used within its protection period, in memory or in
//!    swap. What the programs of one user demand is to fit into that user's cap, and what all
//!    demand into the cap of the machine.
//!
//! 3. **When.** Only while interactive programs wait for memory. If none waits, a demand above the
//!    cap is no reason: the rest of memory may hold it.
//!
//! 4. **Which one.** A user above its cap pays for itself. Otherwise the user who demands the most
//!    pays, so that a user with few programs loses none to a user who starts many. Of that user's
//!    programs the largest goes, because that makes room with the fewest demotions: a memory bomb
//!    goes before the editor. A program whose spec says that it is not revocable is spared.
//!
//! 5. **Return.** One program at a time, the one that demands the least first, when its demand fits
//!    with an eighth of the cap to spare. Without that gap it could be demoted and come back in
//!    turn.

use std::collections::BTreeMap;

use aplomb_domain::DomainPath;

use crate::cgroup::Bytes;

/// Programs that are demoted at one time. If that does not suffice, more follow when interactive
/// programs still wait two seconds later.
pub const MOST_AT_ONCE: usize = 16;

/// An interactive program, or all that share a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub domain: DomainPath,
    pub uid: u32,
    pub demand: Bytes,
    /// It is never demoted.
    pub spared: bool,
}

/// The most that is protected.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Of all programs together.
    pub all: Bytes,
    /// Of the programs of one user other than root.
    pub user: Bytes,
}

/// A program that is to be demoted, and why: `total` is above `limit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demotion {
    pub domain: DomainPath,
    pub demand: Bytes,
    /// What was demanded before by all whose limit it is.
    pub total: Bytes,
    pub limit: Bytes,
}

/// What is demanded, by user and in all. It cannot overflow: 2^64 programs of 2^64 bytes.
#[derive(Debug, Default)]
struct Totals {
    all: u128,
    users: BTreeMap<u32, u128>,
}

impl Totals {
    fn of<'a>(programs: impl IntoIterator<Item = &'a Program>) -> Self {
        let mut totals = Self::default();
        for p in programs {
            totals.all += u128::from(p.demand.0);
            *totals.users.entry(p.uid).or_default() += u128::from(p.demand.0);
        }
        totals
    }

    fn take(&mut self, p: &Program) {
        self.all -= u128::from(p.demand.0);
        if let Some(of_user) = self.users.get_mut(&p.uid) {
            *of_user -= u128::from(p.demand.0);
        }
    }

    fn of_user(&self, uid: u32) -> u128 {
        self.users.get(&uid).copied().unwrap_or(0)
    }

    /// If programs of `uid` have to go: whether for its own limit, the total above it, the limit.
    fn excess(&self, uid: u32, caps: Caps) -> Option<(bool, u128, Bytes)> {
        let of_user = self.of_user(uid);
        if uid != 0 && of_user > u128::from(caps.user.0) {
            return Some((true, of_user, caps.user));
        }
        (self.all > u128::from(caps.all.0)).then_some((false, self.all, caps.all))
    }
}

/// The programs that are to be demoted, in this order, so that the demands of the others fit. At
/// most [`MOST_AT_ONCE`].
pub fn demote(programs: &[Program], caps: Caps) -> Vec<Demotion> {
    let mut totals = Totals::of(programs);
    let mut left: Vec<&Program> = programs.iter().filter(|p| !p.spared).collect();
    let mut demotions = Vec::new();
    while demotions.len() < MOST_AT_ONCE {
        let next = left.iter().enumerate().filter_map(|(at, p)| {
            let (own, total, limit) = totals.excess(p.uid, caps)?;
            // A user above its own cap comes before the one that demands the most.
            let rank = (
                own,
                totals.of_user(p.uid),
                p.demand,
                std::cmp::Reverse(&p.domain),
            );
            Some((rank, at, total, limit))
        });
        let Some((_, at, total, limit)) = next.max() else {
            break;
        };
        let victim = left.swap_remove(at);
        totals.take(victim);
        demotions.push(Demotion {
            domain: victim.domain.clone(),
            demand: victim.demand,
            total: Bytes(u64::try_from(total).unwrap_or(u64::MAX)),
            limit,
        });
    }
    demotions
}

/// The demoted program that fits again beside `programs`, which are protected.
pub fn promote<'a>(
    programs: &[Program],
    demoted: &'a [Program],
    caps: Caps,
) -> Option<&'a Program> {
    let totals = Totals::of(programs);
    let room = |cap: Bytes| u128::from(cap.0 - cap.0 / 8);
    let fits = |p: &&Program| {
        let demand = u128::from(p.demand.0);
        let user_fits = p.uid == 0 || totals.of_user(p.uid) + demand <= room(caps.user);
        user_fits && totals.all + demand <= room(caps.all)
    };
    demoted.iter().filter(fits).min_by_key(|p| p.demand)
}

#[cfg(test)]
mod tests;
