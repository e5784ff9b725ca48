//! Which cgroup is a program's own where systemd is process 1. Pure: paths and numbers come in as
//! arguments.
//!
//! systemd keeps each of its units in a cgroup of the unit's name, below the cgroups of its slices
//! (systemd.slice(5)). The system's manager has the slices `user.slice/user-UID.slice`, and in each
//! the service `user@UID.service`, below which that user's own manager keeps its slices and units.
//! A desktop starts each application in a unit of the user's manager: `app-*.scope`, or a service.
//! So the unit is the program's domain as it is, and nothing is moved.
//!
//! | where the program is | its domain |
//! |---|---|
//! | a unit of the manager of the program's user | that unit |
//! | a scope of the system's manager in that user's slice (`aplomb run`) | that scope |
//! | a service of the system, and the program is root's | that service |
//! | such a service, and the program is another user's (`User=`) | that service, if it is alone |
//! | `session-*.scope`, `init.scope`, a slice, another user's slice | none |
//!
//! A session's scope has all that was started from a console, and often a whole desktop. It is
//! not protected: its best-effort programs would be, too. Its programs are not moved out of it:
//! logind finds a process's session by its cgroup (sd_pid_get_session(3)), and a display server, a
//! compositor or a shell that is moved has no session any more, nor has what it starts.
//!
//! **Limits.** The cgroups above a unit have to be protected for as much as the unit, or the
//! kernel does not protect the unit. What `user-UID.slice` is protected for is all that this user
//! has, whatever the user's programs and cgroups are named: root owns that cgroup.

use std::collections::BTreeMap;

use aplomb_domain::DomainPath;
use aplomb_memory::{Bytes, Protection};

/// The part of `limit` that services of the system have, if users are to have the rest.
const SERVICES: u64 = 8;
/// The least that a unit may grow by until the next round: twice the least headroom of a look, as a
/// program grows most right after its start.
const MIN_GROWTH: u64 = 16 << 20;
/// Needs are rounded up to this, so that a knob is not written for each page.
const STEP: u64 = 4 << 20;

const USERS: &str = "user.slice";
const SERVICES_SLICE: &str = "system.slice";

/// A unit that may be a program's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its cgroup.
    pub domain: DomainPath,
    /// The user in whose slice it is. None: a service of the system.
    pub user: Option<u32>,
}

/// What must hold of the other processes of a unit, if it is to be a program's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// None of them has a terminal, except the program's descendants if they are interactive, too.
    /// What a user starts in a terminal shares the terminal's unit, and is none of the program's.
    NoTerminal,
    /// All descend from the program.
    Family,
    /// There are none.
    None,
}

/// Another process of a program's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    pub has_terminal: bool,
    /// It descends from the program.
    pub descends: bool,
}

impl Unit {
    /// The unit of a process in `cgroup`. None if it is in none that could be a program's own.
    pub fn of(cgroup: &DomainPath) -> Option<Self> {
        let mut at = DomainPath::root();
        let mut parts = cgroup.parts();
        let mut next = |at: &mut DomainPath| -> Option<String> {
            let part = parts.next()?;
            *at = at.child(part).ok()?;
            Some(part.to_owned())
        };
        let top = next(&mut at)?;
        let mut part = next(&mut at)?;
        let mut user = None;
        if top == USERS {
            let uid = part.strip_prefix("user-")?.strip_suffix(".slice")?;
            let uid: u32 = uid.parse().ok()?;
            user = Some(uid);
            part = next(&mut at)?;
            if part == format!("user@{uid}.service") {
                part = next(&mut at)?;
            } else if !part.ends_with(".scope") || part.starts_with("session-") {
                return None;
            }
        } else if top != SERVICES_SLICE {
            return None;
        }
        while part.ends_with(".slice") {
            part = next(&mut at)?;
        }
        let is_unit = part.ends_with(".scope") || part.ends_with(".service");
        let shared = part == "init.scope" || part.starts_with("user@");
        (is_unit && !shared).then_some(Self { domain: at, user })
    }

    /// What must hold of the other processes, if a program of user `uid` is to have this unit.
    /// None: it cannot have it.
    pub fn for_user(&self, uid: u32) -> Option<Others> {
        match self.user {
            Some(owner) if uid == owner || uid == 0 => Some(Others::NoTerminal),
            Some(_) => None,
            None if uid == 0 => Some(Others::Family),
            None => Some(Others::None),
        }
    }

    /// The cgroups above it, without the root.
    pub fn above(&self) -> Vec<DomainPath> {
        let above = std::iter::successors(self.domain.parent(), DomainPath::parent);
        above.filter(|a| !a.is_root()).collect()
    }
}

impl Others {
    /// True if the unit is the program's own beside these. `inherit`: the program's children are
    /// interactive, too.
    pub fn allow(self, others: &[Other], inherit: bool) -> bool {
        others.iter().all(|o| match self {
            Self::NoTerminal => !o.has_terminal || (inherit && o.descends),
            Self::Family => o.descends,
            Self::None => false,
        })
    }
}

/// The machine's limits, bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For all programs, and for root's.
    pub all: Bytes,
    /// For the programs of one other user.
    pub user: Bytes,
}

/// The most that a cgroup above units may be protected for. None: those above it bound it.
pub fn bound(path: &DomainPath, limits: Limits) -> Option<Bytes> {
    let parts: Vec<&str> = path.parts().collect();
    let services = limits.all.0 / SERVICES;
    match parts[..] {
        [USERS] => Some(Bytes(limits.all.0 - services)),
        [USERS, "user-0.slice"] => Some(limits.all),
        [USERS, _] => Some(limits.user),
        [_] => Some(Bytes(services)),
        _ => None,
    }
}

/// What the cgroups above `units` are to be protected for: what their units need, within the
/// limits.
///
/// A unit needs what it uses, and room for what it may grow by until the next round, and not
/// more: where the tree is mounted with memory_recursiveprot, the kernel gives what a cgroup is
/// protected for and its children do not use to all of them, best-effort ones included.
pub fn needs<'a>(
    units: impl Iterator<Item = (&'a Unit, Protection, Bytes)>,
    limits: Limits,
) -> BTreeMap<DomainPath, Bytes> {
    let mut sums: BTreeMap<DomainPath, Bytes> = BTreeMap::new();
    let mut add = |path: &DomainPath, need: Bytes| {
        let sum = sums.entry(path.clone()).or_default();
        sum.0 = sum.0.saturating_add(need.0);
    };
    for (unit, protection, usage) in units {
        let need = need(protection, usage);
        for above in unit.above() {
            add(&above, need);
        }
    }
    let within = |path: &DomainPath, sum: Bytes| bound(path, limits).map_or(sum, |b| sum.min(b));
    // A user who needs more than the limit takes nothing from what others have above.
    let is_users = |path: &DomainPath| path.depth() == 2 && path.parts().next() == Some(USERS);
    let users = sums.iter().filter(|(path, _)| is_users(path));
    let users = users.fold(0u64, |all, (path, sum)| {
        all.saturating_add(within(path, *sum).0)
    });
    let most = sums.into_iter().map(|(path, sum)| {
        let sum = if path.parts().eq([USERS]) {
            Bytes(users)
        } else {
            sum
        };
        let most = within(&path, sum);
        (path, most)
    });
    most.collect()
}

fn need(protection: Protection, usage: Bytes) -> Bytes {
    let padded = usage.0.saturating_add(MIN_GROWTH.max(usage.0 / 4));
    let needed = match protection {
        Protection::None => 0,
        Protection::Bytes(b) => b.0.min(padded),
        Protection::Whole => padded,
    };
    Bytes(needed.checked_next_multiple_of(STEP).unwrap_or(needed))
}

#[cfg(test)]
mod tests;
