//! `aplomb domain`: the domain tree from the command line.
//!
//! The command changes the cgroup tree with the caller's own rights, never through the daemon. So
//! the caller gets nothing here that they could not do themselves. The daemon sees the changes; the
//! command only asks it whether a reservation is in force.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use aplomb_domain::{set_mark, Change, DomainError, DomainPath, Tree};

use super::{line, print_json, unexpected};
use crate::cli::{DomainCommand, DomainRun};
use crate::client::Client;
use crate::domains::with_manager;
use crate::exit::{code_of, Exit, Failure};
use crate::protocol::{Answer, Ask, DomainLine, DomainTable, MemoryAccount, MemoryLine};
use tracing::warn;

mod disks;
mod show;

pub use disks::{account_in_words, mean_wait};
use disks::{add_disks, list_of_disks};
use show::{add_memory, list, list_of_memory, one, received, Row};

pub fn domain(socket: &Path, command: &DomainCommand) -> Result<Exit> {
    let tree = Tree::system().map_err(failure)?;
    match command {
        DomainCommand::Ls {
            over,
            memory,
            disk,
            json,
        } => {
            let mut rows = rows(socket, &tree, *over)?;
            if *memory {
                add_memory(&mut rows, &tree, &protected(socket)?);
            }
            if *disk {
                add_disks(&mut rows, &tree);
            }
            if *json {
                print_json(&rows)?;
            } else if *disk {
                line(list_of_disks(&rows).trim_end())?;
            } else if *memory {
                line(list_of_memory(&rows).trim_end())?;
            } else {
                line(list(&rows).trim_end())?;
            }
        }
        DomainCommand::Show { domain, over, json } => {
            let path = with_manager(&tree, |m| m.place(domain)).map_err(failure)?;
            tree.open(&path).map_err(failure)?;
            let mut rows = rows(socket, &tree, *over)?;
            rows.retain(|r| r.line.path == path.to_string());
            add_memory(&mut rows, &tree, &protected(socket)?);
            add_disks(&mut rows, &tree);
            let missing = || {
                DomainError::State {
                path: tree.root().join(path.to_string()),
                why: "it is no domain of the kernel side: it has no CPU controller, or is beyond a limit",
            }
            };
            let row = rows.first().ok_or_else(missing).map_err(failure)?;
            if *json {
                print_json(row)?;
            } else {
                line(one(row, &super::disk::known()).trim_end())?;
            }
        }
        DomainCommand::Create {
            domain,
            changes,
            ephemeral,
        } => create(socket, &tree, domain, changes, *ephemeral)?,
        DomainCommand::Remove { domain } => {
            with_manager(&tree, |m| m.remove(domain)).map_err(failure)?;
        }
        DomainCommand::Set { domain, changes } => set(socket, &tree, domain, changes)?,
        DomainCommand::Move { domain, pids } => {
            for pid in pids {
                with_manager(&tree, |m| m.move_pid(domain, *pid)).map_err(failure)?;
            }
        }
        DomainCommand::Run(args) => run(socket, &tree, args)?,
    }
    Ok(Exit::Ok)
}

fn create(
    socket: &Path,
    tree: &Tree,
    domain: &DomainPath,
    changes: &[Change],
    ephemeral: bool,
) -> Result<()> {
    let made = with_manager(tree, |m| m.create(domain, ephemeral)).map_err(failure)?;
    if !made {
        let message = format!("{domain} is there already; change it with: aplomb domain set");
        return Err(Failure::new(Exit::Failure, message).into());
    }
    let done = set(socket, tree, domain, changes);
    if done.is_err() {
        // If a setting fails, remove the new domain: all or nothing.
        let _ = with_manager(tree, |m| m.remove(domain));
    }
    done
}

/// Make changes. If the kernel side refuses a reservation or a policy, it is undone.
fn set(socket: &Path, tree: &Tree, domain: &DomainPath, changes: &[Change]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let path = with_manager(tree, |m| m.place(domain)).map_err(failure)?;
    let before = tree.marks(&tree.open(&path).map_err(failure)?).0;
    with_manager(tree, |m| m.set(domain, changes)).map_err(failure)?;
    let marked = |c: &&Change| {
        matches!(
            c,
            Change::Cpu(_)
                | Change::Memory(_)
                | Change::Io(_)
                | Change::NetWeight(_)
                | Change::NetMax(_)
                | Change::Policy(_)
        )
    };
    if !changes.iter().any(|c| marked(&c)) {
        return Ok(());
    }
    let Err(refused) = in_force(socket, &path) else {
        return Ok(());
    };
    let dir = tree.open(&path).map_err(failure)?;
    for change in changes.iter().filter(marked) {
        let old = match change {
            Change::Cpu(_) => Change::Cpu(before.reservation),
            Change::Memory(_) => Change::Memory(before.memory),
            Change::Io(_) => Change::Io(before.disk_ppm),
            Change::NetWeight(_) => Change::NetWeight(before.net_weight),
            Change::NetMax(_) => Change::NetMax(before.net_max),
            _ => Change::Policy(before.policy),
        };
        set_mark(tree, &dir, &old).map_err(failure)?;
    }
    Err(refused)
}

/// Ask the daemon whether the settings in the attributes are in force. If no daemon runs, the
/// attributes stay for the next one.
pub(super) fn in_force(socket: &Path, path: &DomainPath) -> Result<()> {
    let mut client = match Client::connect(socket) {
        Ok(client) => client,
        Err(e) if code_of(&e) == Exit::NoDaemon => {
            warn!(
                "no daemon answers: it is written down, and will be in force when the daemon runs"
            );
            return Ok(());
        }
        Err(e) => return Err(e),
    };
    let domain = path.clone();
    match client.call(Ask::Look { domain }) {
        Ok(_) => Ok(()),
        // The caller is not root. The daemon sees the owner's attribute by itself.
        Err(e) if code_of(&e) == Exit::Permission => Ok(()),
        Err(e) => Err(e),
    }
}

fn run(socket: &Path, tree: &Tree, args: &DomainRun) -> Result<()> {
    let (program, rest) = args.command.split_first().ok_or_else(unexpected)?;
    if args.ephemeral && Client::connect(socket).is_err() {
        warn!(
            "no daemon answers: {} stays after its last process has exited",
            args.domain
        );
    }
    with_manager(tree, |m| m.enter(&args.domain, args.ephemeral)).map_err(failure)?;
    let error = Command::new(program).args(rest).exec(); // returns only on failure
    let exit = match error.kind() {
        std::io::ErrorKind::NotFound => Exit::NotFound,
        _ => Exit::CannotExecute,
    };
    Err(Failure::new(exit, format!("{}: {error}", program.to_string_lossy())).into())
}

/// All domains, with the CPU time that each received within `over`. Without a daemon, only the
/// values of the cgroup tree.
fn rows(socket: &Path, tree: &Tree, over: Duration) -> Result<Vec<Row>> {
    let mut client = match Client::connect(socket) {
        Ok(client) => client,
        Err(e) if code_of(&e) == Exit::NoDaemon => {
            warn!("no daemon answers: shares and what is in force are not known");
            return Ok(received(None, from_tree(tree)?));
        }
        Err(e) => return Err(e),
    };
    let before = client.domains()?;
    std::thread::sleep(over);
    Ok(received(Some(before), client.domains()?))
}

/// The domains whose memory is protected by age. Without a daemon there are none.
fn protected(socket: &Path) -> Result<Vec<MemoryLine>> {
    let mut client = match Client::connect(socket) {
        Ok(client) => client,
        Err(e) if code_of(&e) == Exit::NoDaemon => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    match client.call(Ask::Status {})? {
        Answer::Status(status) => Ok(status.memory.protected.map_or(Vec::new(), |t| t.domains)),
        _ => Err(unexpected()),
    }
}

/// The table from the cgroup tree alone.
fn from_tree(tree: &Tree) -> Result<DomainTable> {
    let walk = tree.walk(&DomainPath::root()).map_err(failure)?;
    if walk.truncated {
        warn!("some cgroups are left out: too many, or too deep");
    }
    let mut domains = Vec::new();
    for found in walk.domains {
        let Ok(dir) = tree.open(&found.path) else {
            continue; // removed meanwhile
        };
        let files = tree.files(&dir).map_err(failure)?;
        domains.push(DomainLine {
            depth: found.path.depth() as u32,
            path: found.path.to_string(),
            cgid: found.cgid,
            weight: files.weight.unwrap_or(0),
            idle: files.idle.unwrap_or(false),
            policy: found.marks.policy,
            reservation: found.marks.reservation,
            disk_ppm: found.marks.disk_ppm,
            memory: Some(MemoryAccount {
                reserved: found.marks.memory,
                ..MemoryAccount::default()
            }),
            max: files.max.flatten(),
            ephemeral: found.marks.ephemeral,
            ..DomainLine::default()
        });
    }
    Ok(DomainTable {
        more: false,
        time_ns: 0,
        cpus: crate::domains::cpus(),
        domains,
        disk_account: None,
    })
}

/// The error with its exit code.
pub(super) fn failure(error: DomainError) -> anyhow::Error {
    let exit = match &error {
        DomainError::Wrong { .. } => Exit::Usage,
        DomainError::NoTree | DomainError::NoController(_) => Exit::Unsupported,
        e if e.is_permission() => Exit::Permission,
        _ => Exit::Failure,
    };
    Failure::new(exit, error.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_exit_codes() {
        let io = |kind: std::io::ErrorKind| DomainError::Io {
            path: "/sys/fs/cgroup/a".into(),
            doing: "writing it",
            source: kind.into(),
        };
        for (error, exit) in [
            (io(std::io::ErrorKind::PermissionDenied), Exit::Permission),
            (io(std::io::ErrorKind::Other), Exit::Failure),
            (DomainError::NoTree, Exit::Unsupported),
            (DomainError::Missing("a".into()), Exit::Failure),
        ] {
            assert_eq!(code_of(&failure(error)), exit);
        }
    }
}
