//! Which process the kernel kills when memory has run out: how much of an interactive process does
//! not count. Pure: sizes and limits come in as arguments.
//!
//! Theory:
//!
//! 1. **The kernel's rule** (oom_badness() in `mm/oom_kill.c`). The process with the largest
//!    *badness* dies. In pages,
//!
//!    ```text
//!    badness = size + oom_score_adj * (total / 1000)      size: resident + swapped + page tables
//!    ```
//!
//!    where `total` is all memory and swap. So one step of `oom_score_adj` is one *unit*, a
//!    thousandth of `total`. Best-effort processes keep their `oom_score_adj`: the largest dies
//!    first.
//! 2. **Discount.** An interactive process gets an `oom_score_adj` that is lower than its own (its
//!    *base*) by as many units as it has memory, and [`HEADROOM`]. Its badness is then at most
//!    `base - HEADROOM`: less than that of any best-effort process of the same base. Memory below
//!    the discount does not count, memory above it counts as everyone's.
//! 3. **Bound.** Without a bound, a user who starts a program of a spec and takes all memory would
//!    have all other users' programs killed first. So the discounts of one user's processes add up
//!    to no more than that user's cap, and those of all users to no more than the cap of all: the
//!    caps that bound `memory.min` too. If one process has x bytes more than its user's cap, its
//!    badness is above `base + x`, so it dies before a best-effort process of x bytes. If n
//!    processes of the user have y bytes more than the cap together, the worst of them is above
//!    `base + y / n`.
//! 4. **Division.** What is less than wanted is divided max-min fairly ([`share`]): a process that
//!    wants less than an equal part gets all it wants, and the largest bear what is missing. So if
//!    one program of a user is beyond the cap, it dies first, and a small one beside it keeps its
//!    discount. Users share the cap of all in the same way.
//! 5. **Not the group.** A program that has several processes is not killed as a whole
//!    (`memory.oom.group` stays as it is): a browser goes on without the page whose process was
//!    killed, and a session without the program.
//! 6. **A limit of a cgroup.** When a cgroup has reached its `memory.max`, `total` is that limit. A
//!    discount then counts for as much less as the limit is smaller than the machine. It never
//!    counts for more.

use crate::cgroup::Bytes;

/// The kernel's OOM_SCORE_ADJ_MIN: such a process is never killed. We never set it, or a machine
/// whose memory is used up by such processes would stand still.
const NEVER: i16 = -1000;
/// The lowest value that we set.
pub const LOWEST: i16 = -999;
/// Memory that a process may take before its discount is computed again: as much as the reserve of
/// free memory that Redline keeps for interactive programs.
pub const HEADROOM: Bytes = Bytes(8 << 20);

/// An interactive process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its user.
    pub uid: u32,
    /// Resident, swapped, and page tables.
    pub size: Bytes,
    /// Its own `oom_score_adj`.
    pub base: i16,
}

/// What the discounts may add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Those of all users together, and those of root.
    pub all: Bytes,
    /// Those of one other user.
    pub user: Bytes,
}

/// One step of `oom_score_adj` on a machine with `total` bytes of memory and swap, as the kernel
/// rounds it.
pub fn unit(total: Bytes, page_size: Bytes) -> Bytes {
    let pages = total.0 / page_size.0.max(1);
    Bytes(pages / 1000 * page_size.0)
}

/// The `oom_score_adj` of each process. `unit`: see [`unit`].
pub fn adjust(processes: &[Process], caps: Caps, unit: Bytes) -> Vec<i16> {
    if unit.0 == 0 {
        return processes.iter().map(|p| p.base).collect(); // less than 4 MB of memory
    }
    let wanted = |p: &Process| match p.base {
        NEVER..=LOWEST => 0,
        _ => p.size.0.saturating_add(HEADROOM.0).div_ceil(unit.0),
    };
    let mut users: Vec<u32> = processes.iter().map(|p| p.uid).collect();
    users.sort_unstable();
    users.dedup();
    let of = |uid: u32| move |p: &&Process| p.uid == uid;
    let by_user = users.iter().map(|&uid| {
        let sum = processes.iter().filter(of(uid)).map(wanted);
        let most = if uid == 0 { caps.all } else { caps.user };
        sum.fold(0, u64::saturating_add).min(most.0 / unit.0)
    });
    let granted = share(caps.all.0 / unit.0, &by_user.collect::<Vec<_>>());
    let mut adjusted: Vec<i16> = processes.iter().map(|p| p.base).collect();
    for (&uid, budget) in users.iter().zip(granted) {
        let members = (0..).zip(processes).filter(|(_, p)| p.uid == uid);
        let (places, wants): (Vec<usize>, Vec<u64>) = members.map(|(i, p)| (i, wanted(p))).unzip();
        for (place, units) in places.into_iter().zip(share(budget, &wants)) {
            let lower = i64::from(adjusted[place]) - i64::try_from(units).unwrap_or(i64::MAX / 2);
            let lower = lower.max(i64::from(LOWEST)) as i16; // it is in -999..=1000
            adjusted[place] = lower.min(adjusted[place]);
        }
    }
    adjusted
}

/// Divide `budget` among members that want `wants`, max-min fairly: no member gets more than it
/// wants, and those that get less have equal parts of what the others left.
pub fn share(budget: u64, wants: &[u64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|&i| wants[i]);
    let mut grants = vec![0; wants.len()];
    let mut left = budget;
    for (done, i) in order.into_iter().enumerate() {
        let equal = left / (wants.len() - done) as u64;
        grants[i] = wants[i].min(equal);
        left -= grants[i];
    }
    grants
}

/// The badness that the kernel finds, bytes.
#[cfg(test)]
fn badness(size: Bytes, adj: i16, unit: Bytes) -> i64 {
    size.0 as i64 + i64::from(adj) * unit.0 as i64
}

#[cfg(test)]
mod tests;
