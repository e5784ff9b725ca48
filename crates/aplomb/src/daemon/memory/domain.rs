//! The domain to which a program's memory is charged.
//!
//! Memory is charged by cgroup. So a program that becomes interactive is moved into the domain
//! `aplomb/UID/NAME-PID`, before it has touched much, unless its spec names a domain. The kernel
//! side leaves these out of the tree of shares, so the program keeps its place there. Its children
//! stay with it. An empty domain is removed. A program in another cgroup than the root is not
//! moved, since it would escape that one's limits. If it is alone there, and is recognised by its
//! file, the cgroup is protected as it is.
//!
//! Where systemd is process 1, it owns the tree, and only domains that a spec names are protected.

use anyhow::Result;
use aplomb_domain::{is_booted, DomainError, DomainPath, Tree, EPHEMERAL};
use aplomb_kernel::Event;

use super::Wanted;
use crate::daemon::domains::place::{Placed, Proven};
use crate::domains::with_manager;

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
    let (domain, ours) = match wanted.named {
        Some(name) => {
            let path: DomainPath = name.parse().map_err(anyhow::Error::msg)?;
            let domain = with_manager(tree, |m| m.place(&path))?;
            if !is_booted() {
                tree.give_memory(&domain)?;
            }
            (domain, Vec::new())
        }
        None if is_booted() => return Ok(None),
        None if !may_move(process.cgroup.as_ref()) => {
            let Some(domain) = process.cgroup.filter(|_| wanted.exact) else {
                return Ok(None);
            };
            if tree.pids(&tree.open(&domain)?)? != [event.pid] {
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
    Ok(Some(Home { domain, ours, uid }))
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
pub fn empty(tree: &Tree, domain: &DomainPath) -> Result<(), DomainError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::event;

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
