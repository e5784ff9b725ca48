//! Reserves by amount, after Kato's Private-Shared-Anonymous Paging: how the protection of several
//! programs is divided when it is capped. Pure: what is measured comes in as arguments.
//!
//! Theory:
//!
//! 1. **Blocks** (Kato section 6). A program has a *private reserve*: pages that stay, whatever
//!    their age. What it uses beyond that it *draws* on the *shared reserve*, which grows by what
//!    the programs draw and shrinks by what they free. The rest of memory is *anonymous*:
//!    best-effort work's, and that of expired pages. Of it, 1/2500 of all memory can be taken by no
//!    reserve.
//! 2. **Means.** A stock kernel has no such blocks. It has `memory.min`, an amount for each cgroup
//!    of a tree, and takes pages only from what is above. So the private reserve of a program is a
//!    lower bound of its cgroup's memory.min, and the shared reserve is the difference between the
//!    memory.min of the cgroup above and the sum of the private reserves. A page that is not used
//!    is not kept from others: memory.min protects use.
//! 3. **With the protection by age** ([`crate::working_set`]). A draw that is older than the
//!    protection period pi is expired, as Kato's pages are after 10 periods (section 6.2). So a
//!    program is protected for max(private, working set within pi), and without a private reserve
//!    nothing changes. A program that is idle for longer than pi keeps its private reserve alone.
//! 4. **Why divide.** The kernel treats all protection alike: if the programs below a cgroup want
//!    more than it has, each gets a part in proportion to what it uses of its own memory.min. So a
//!    program that draws much would take from the private reserves of the others. [`divide`] gives
//!    each program an amount, such that the sum is at most what there is. Then the kernel scales
//!    nothing, and each keeps its private reserve (theorem 1 in the tests).
//! 5. **Order.** First the private reserves. Their sum is at most the cap, because one that does
//!    not fit is refused ([`admit`]). Then the draws: all of them if they fit, else each in the
//!    same proportion. Of what is left, the *spare* amount stays with the cgroup above, and the
//!    rest is room to grow: an equal part for each that wants more.
//! 6. **Spare.** Amounts follow from measurements, so a program may grow beyond its amount before
//!    the next one. Where the cgroup tree is mounted with memory_recursiveprot, the kernel divides
//!    what a cgroup has, and its children do not use of their own, among the children that use more
//!    than their own, in proportion to that. So the spare amount is the free part of the shared
//!    reserve: a program that grows has it at once. Without that option it would protect nothing.
//!    The kernel does not know which use is expired, and protects that too. So while a program
//!    there has expired pages, the room to grow is no more than the headroom of
//!    [`crate::working_set`].
//! 7. **Reclaim** (Kato section 6.4) is never an interactive task's while best-effort work has
//!    pages: the shared reserve grows by a number in a file, and the pages come from parked
//!    best-effort tasks and kswapd (`bpf/policy/bump.h`, `reserve.h`). A program whose draws do not
//!    fit into the cap loses its own oldest pages beyond its amount, no other program's.
//! 8. **Many of one kind.** A user's private reserves together have a cap too, so that no user
//!    takes all of it by starting programs. The same division is made among users, and then among
//!    the programs of each.
//! 9. **Few writes.** If each amount followed each change exactly, one program that comes would
//!    change the knobs of all others. So what draws are reduced to is a multiple of 1 MB, and the
//!    room to grow a power of two.

use crate::cgroup::{Bytes, Limit};
use crate::working_set::MIN_HEADROOM;

/// Of all memory, best-effort work keeps 1/2500 from all reserves (Kato section 6.3).
const FLOOR_PART: u64 = 2500;
/// What draws are reduced to is a multiple of this, bytes.
const UNIT: u64 = 1 << 20;

/// What best-effort work keeps of `total` memory, whatever is reserved.
pub fn floor(total: Bytes) -> Bytes {
    Bytes(total.0.div_ceil(FLOOR_PART))
}

/// A program, or all programs of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its private reserve.
    pub private: Bytes,
    /// What it used at the last measurement.
    pub usage: Bytes,
    /// What it is to be protected for by age. `Max`: all that it uses.
    pub wanted: Limit,
}

impl Member {
    /// What it is to be protected for by age and by amount.
    fn target(&self) -> Limit {
        self.wanted.max(Limit::Bytes(self.private))
    }

    /// Does it use more than it is to be protected for?
    fn has_expired(&self) -> bool {
        Limit::Bytes(self.usage) > self.target()
    }

    /// What it uses of the shared reserve: its use beyond the private one, as far as it is not
    /// expired.
    fn draw(&self) -> u64 {
        let young = match self.wanted {
            Limit::Bytes(most) => self.usage.min(most),
            Limit::Max => self.usage,
        };
        young.0.saturating_sub(self.private.0)
    }
}

/// The result of [`divide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// memory.min of each member, in their order.
    pub amounts: Vec<Limit>,
    /// memory.min of the cgroup above them.
    pub total: Limit,
}

/// Divide at most `most` among `members`. `spare`: the free part of the shared reserve, where the
/// kernel shares what is not claimed (theory 6); None where it does not.
pub fn divide(most: Limit, spare: Option<Bytes>, members: &[Member]) -> Division {
    let targets: Vec<Limit> = members.iter().map(Member::target).collect();
    let sum = sum(&targets);
    let expired = spare.is_some() && members.iter().any(Member::has_expired);
    let any_private = members.iter().any(|m| m.private.0 > 0);
    let Some(most) = bytes_of(most).filter(|most| {
        let fits = sum <= Limit::Bytes(Bytes(*most));
        !fits && (any_private || expired)
    }) else {
        let spare = spare.filter(|_| sum > Limit::ZERO).unwrap_or_default();
        return Division {
            total: sum.plus(Limit::Bytes(spare)).min(most),
            amounts: targets,
        };
    };
    let private: Vec<u64> = members.iter().map(|m| m.private.0).collect();
    let private = scaled(&private, most);
    let left = most - private.iter().sum::<u64>();
    let all: Vec<u64> = members.iter().map(Member::draw).collect();
    let mut draws = scaled(&all, left);
    if draws != all {
        draws.iter_mut().for_each(|d| *d -= *d % UNIT);
    }
    let left = left - draws.iter().sum::<u64>();
    let spare = spare.unwrap_or_default().0.min(left);
    let claimed: Vec<u64> = private.iter().zip(&draws).map(|(p, d)| p + d).collect();
    let grows = |(target, claimed): (&Limit, &u64)| *target > Limit::Bytes(Bytes(*claimed));
    let growing = targets.iter().zip(&claimed).filter(|m| grows(*m)).count() as u64;
    let room = steady((left - spare).checked_div(growing).unwrap_or(0));
    let amount = |((member, target), claimed): ((&Member, &Limit), &u64)| {
        let room = match expired {
            true => room.min(headroom(member.usage).0),
            false => room,
        };
        (*target).min(Limit::Bytes(Bytes(claimed + room)))
    };
    let with_targets = members.iter().zip(&targets);
    let amounts: Vec<Limit> = with_targets.zip(&claimed).map(amount).collect();
    let total = self::sum(&amounts).plus(Limit::Bytes(Bytes(spare)));
    Division {
        total: total.min(Limit::Bytes(Bytes(most))),
        amounts,
    }
}

fn sum(limits: &[Limit]) -> Limit {
    limits.iter().copied().fold(Limit::ZERO, Limit::plus)
}

fn bytes_of(limit: Limit) -> Option<u64> {
    match limit {
        Limit::Bytes(Bytes(n)) => Some(n),
        Limit::Max => None,
    }
}

/// The greatest power of two up to `room`: it changes seldom.
fn steady(room: u64) -> u64 {
    room.checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// Room to grow until the next measurement, for a program that uses `usage`.
fn headroom(usage: Bytes) -> Bytes {
    MIN_HEADROOM.max(Bytes(usage.0 / 8))
}

/// `parts`, each reduced in the same proportion if their sum exceeds `most`.
fn scaled(parts: &[u64], most: u64) -> Vec<u64> {
    let sum: u128 = parts.iter().map(|p| u128::from(*p)).sum();
    if sum <= u128::from(most) {
        return parts.to_vec();
    }
    let scale = |part: &u64| u128::from(*part) * u128::from(most) / sum;
    // Each is at most the part itself, so it fits.
    parts.iter().map(|part| scale(part) as u64).collect()
}

/// A private reserve does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// What the other reserves have of it.
    pub taken: Bytes,
    /// What all may have together.
    pub most: Bytes,
}

/// May a private reserve of `asked` be added to others of `taken` in all?
///
/// # Errors
/// Together they exceed `most`.
pub fn admit(asked: Bytes, taken: Bytes, most: Bytes) -> Result<(), Full> {
    match asked.0.checked_add(taken.0) {
        Some(all) if all <= most.0 => Ok(()),
        _ => Err(Full { taken, most }),
    }
}

#[cfg(test)]
mod tests;
