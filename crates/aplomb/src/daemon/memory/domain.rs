//! The domain to which a program's memory is charged.
//!
//! Memory is charged by cgroup. So a program that becomes interactive is moved into the domain
//! `aplomb/UID/NAME-PID`, before it has touched much, unless its spec names a domain. The kernel
//! side leaves these out of the tree of shares, so the program keeps its place there. Its children
//! stay with it. An empty domain is removed. A program in another cgroup than the root is not
//! moved, since it would escape that one's limits. If nothing else is there but its children, and
//! it is recognised by its file, the cgroup is protected as it is.
//!
//! Where systemd is process 1, it owns the tree, and nothing is moved: the program's unit is
//! protected as it is (units.rs).

use std::collections::BTreeMap;

use anyhow::Result;
use aplomb_domain::{is_booted, DomainError, DomainPath, Tree, EPHEMERAL};
use aplomb_kernel::Event;

use super::units::{Other, Others, Unit};
use super::Wanted;
use crate::daemon::domains::place::{Placed, Proven};
use crate::domains::place_of;
use tracing::warn;

/// The domain of all interactive programs: MEMORY_CGROUP in bpf/intf.h.
const TOP: &str = "aplomb";
/// Bytes of a program's name in the name of its domain.
const MAX_NAME: usize = 15;
/// How often the processes of a domain are listed until none is left: several hundred each time,
/// and some may fork meanwhile.
const ROUNDS: usize = 64;

/// Where a program's memory is charged.
pub struct Home {
    pub domain: DomainPath,
    /// The domains above it that we made, to be protected with it.
    pub ours: Vec<DomainPath>,
    /// The user whose cap counts.
    pub uid: u32,
    /// The domain is this unit of systemd's.
    pub unit: Option<Unit>,
}

/// Give the program of `event` a domain, or find the one it has. None: it has exited, is a kernel
/// thread, or has none that may be protected.
///
/// # Errors
/// The domain cannot be made or entered.
pub fn settle(tree: &Tree, event: &Event, wanted: &Wanted) -> Result<Option<Home>> {
    let Some(process) = Proven::of(event) else {
        return Ok(None);
    };
    if process.is_kernel_thread {
        return Ok(None);
    }
    let uid = process.uid;
    if wanted.named.is_none() && wanted.starts_others {
        return Ok(None);
    }
    if wanted.named.is_none() && is_booted() {
        let at = process.cgroup.as_ref();
        let unit = at.and_then(|at| own_unit(tree, at, event.pid, uid, wanted));
        return Ok(unit.map(|unit| Home {
            domain: unit.domain.clone(),
            ours: unit.above(),
            uid: unit.user.unwrap_or(uid),
            unit: Some(unit),
        }));
    }
    let (domain, ours) = match wanted.named {
        Some(name) => {
            let path: DomainPath = name.parse().map_err(anyhow::Error::msg)?;
            let domain = place_of(tree, &path)?;
            if !is_booted() {
                tree.give_memory(&domain)?;
            }
            (domain, Vec::new())
        }
        None if !may_move(process.cgroup.as_ref()) => {
            let Some(domain) = process.cgroup.filter(|_| wanted.exact) else {
                return Ok(None);
            };
            let pids = tree.pids(&tree.open(&domain)?)?;
            let its_own = others(&pids, event.pid).iter().all(|other| other.descends);
            if !pids.contains(&event.pid) || !its_own {
                return Ok(None);
            }
            (domain, Vec::new())
        }
        None => {
            let of_user = child(&top(), &uid.to_string())?;
            let domain = child(&of_user, &domain_name(event))?;
            let place = if wanted.own { domain.clone() } else { top() };
            let there = process.cgroup.clone();
            match process.enter(tree, &domain, &place, || make(tree, &domain))? {
                Placed::Exited => return Ok(None),
                // Its parent's domain, or an earlier daemon has moved it.
                Placed::AlreadyThere => {
                    let domain = there.unwrap_or(domain);
                    let above = std::iter::successors(domain.parent(), DomainPath::parent);
                    let ours = above.collect();
                    (domain, ours)
                }
                Placed::Moved => (domain, vec![top(), of_user]),
            }
        }
    };
    Ok(Some(Home {
        domain,
        ours,
        uid,
        unit: None,
    }))
}

/// The unit of process `pid` in the cgroup `at`, if it is the program's own. None also if the unit
/// vanishes meanwhile.
fn own_unit(tree: &Tree, at: &DomainPath, pid: i32, uid: u32, wanted: &Wanted) -> Option<Unit> {
    let unit = Unit::of(at)?;
    let rule = unit.for_user(uid)?;
    if rule == Others::None && !wanted.exact {
        return None;
    }
    let mut pids = tree.pids(&tree.open(&unit.domain).ok()?).ok()?;
    if *at != unit.domain {
        pids.extend(tree.pids(&tree.open(at).ok()?).ok()?);
    }
    rule.allow(&others(&pids, pid), wanted.inherit)
        .then_some(unit)
}

/// The processes of `pids` beside `program`.
fn others(pids: &[i32], program: i32) -> Vec<Other> {
    let stat = |pid: i32| procfs::process::Process::new(pid).and_then(|p| p.stat());
    let stats: BTreeMap<i32, _> = pids
        .iter()
        .filter_map(|pid| Some((*pid, stat(*pid).ok()?))) // others have exited
        .collect();
    let parent = |pid: &i32| stats.get(pid).map(|s| s.ppid);
    let others = stats.iter().filter(|(pid, _)| **pid != program);
    others
        .map(|(pid, stat)| Other {
            has_terminal: stat.tty_nr != 0,
            // Ids may be reused while they are read, so the parents could form a circle.
            descends: std::iter::successors(parent(pid), parent)
                .take(stats.len())
                .any(|above| above == program),
        })
        .collect()
}

pub fn top() -> DomainPath {
    child(&DomainPath::root(), TOP).unwrap_or_else(|_| DomainPath::root())
}

pub fn child(path: &DomainPath, name: &str) -> Result<DomainPath> {
    path.child(name).map_err(anyhow::Error::msg)
}

/// True for a process in the root or below our domain. From elsewhere no process is moved: it would
/// escape the limits and the shares of its cgroup.
fn may_move(cgroup: Option<&DomainPath>) -> bool {
    cgroup.is_some_and(|at| at.is_root() || top().holds(at))
}

/// The name of a program's domain: what is harmless of the program's name, and its process id.
fn domain_name(event: &Event) -> String {
    let name = aplomb_kernel::comm_text(&event.comm);
    let harmless = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().filter(harmless).take(MAX_NAME).collect();
    let name = name.trim_start_matches('-');
    if name.is_empty() {
        return format!("program-{}", event.pid);
    }
    format!("{name}-{}", event.pid)
}

/// Create a program's domain, which is removed when the program has exited.
fn make(tree: &Tree, domain: &DomainPath) -> Result<(), DomainError> {
    match tree.create_for_memory(domain)? {
        None => Err(DomainError::State {
            path: tree.root().into(),
            why: "it has no memory controller",
        }),
        Some(made) if made.last() == Some(domain) => {
            tree.set_mark(&tree.open(domain)?, EPHEMERAL, Some("1"))
        }
        Some(_) => Ok(()),
    }
}

/// Move all processes of `domain` to the root: all that we moved came from there (may_move()).
fn empty(tree: &Tree, domain: &DomainPath) -> Result<(), DomainError> {
    let dir = match tree.open(domain) {
        Err(DomainError::Missing(_)) => return Ok(()), // all have exited
        opened => opened?,
    };
    let root = tree.open(&DomainPath::root())?;
    for _ in 0..ROUNDS {
        let pids = tree.pids(&dir)?;
        if pids.is_empty() {
            break;
        }
        for pid in pids {
            match tree.move_pid(&root, pid) {
                Ok(()) | Err(DomainError::State { .. }) => {} // it has exited
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// Move the processes of all our domains back, and remove the domains.
pub fn empty_all(tree: &Tree) {
    let Ok(walk) = tree.walk(&top()) else { return };
    for found in walk.domains.iter().rev() {
        if let Err(e) = empty(tree, &found.path) {
            warn!("processes stay in {}: {e}", found.path);
        }
        let _ = tree.remove(&found.path); // it has processes, or was removed meanwhile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::event;

    #[test]
    fn a_child_descends_from_its_program_and_a_stranger_does_not() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let (me, pid) = (std::process::id() as i32, child.id() as i32);
        let seen = others(&[me, pid], me);
        let stranger = others(&[me, pid], pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen.len(), 1);
        assert!(seen[0].descends);
        assert!(!stranger[0].descends);
        assert_eq!(others(&[me], me), []);
    }

    #[test]
    fn a_domain_is_named_after_what_is_harmless_of_a_program() {
        let mut e = event(1, 812);
        for (comm, name) in [
            ("mplayer", "mplayer-812"),
            ("../../x y", "xy-812"),
            ("--help", "help-812"),
            ("/", "program-812"),
        ] {
            e.comm = [0; 16];
            e.comm[..comm.len()].copy_from_slice(comm.as_bytes());
            assert_eq!(domain_name(&e), name);
            assert!(top().child(&domain_name(&e)).is_ok());
        }
    }
}
