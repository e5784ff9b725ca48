//! `aplomb net queue`, `attach`, `detach`, `move`: queues of a domain, and the sockets in them.
//!
//! As with domains, the command itself changes the attribute and the sockets, with the caller's own
//! rights. So a process that holds a lock of the kernel holds up the command, and not the daemon.

use std::path::Path;

use anyhow::Result;
use aplomb_domain::{
    attached_priority, is_attached, parse_proc_cgroup, Directory, DomainPath, QueueChange,
    QueuePath, Queues, Tree, NET_QUEUES,
};
use aplomb_net::sockets::{Process, Sockets, MAX_DESCRIPTORS};
use aplomb_net::NetError;
use tracing::warn;

use crate::cli::SocketsOf;
use crate::commands::domain::{failure, in_force};
use crate::commands::line;
use crate::daemon::lock::wait_for;
use crate::domains::{is_managed, place_of};
use crate::exit::{Exit, Failure};

/// Held while a command reads an attribute, changes it and writes it back.
const LOCK: &str = "queues.lock";

/// The attribute of one domain.
struct Attribute<'a> {
    tree: &'a Tree,
    path: DomainPath,
    dir: Directory,
    queues: Queues,
}

impl<'a> Attribute<'a> {
    fn read(tree: &'a Tree, domain: &DomainPath) -> Result<Self> {
        let path = place_of(tree, domain).map_err(failure)?;
        let dir = tree.open(&path).map_err(failure)?;
        let (marks, wrong) = tree.marks(&dir);
        if let Some(wrong) = wrong.into_iter().find(|w| w.attribute == NET_QUEUES) {
            let at = tree.root().join(path.to_string());
            return Err(failed(format!(
                "{path}: {NET_QUEUES}: {}; remove it: setfattr -x {NET_QUEUES} {}",
                wrong.message,
                at.display()
            )));
        }
        let queues = marks.net_queues;
        Ok(Self {
            tree,
            path,
            dir,
            queues,
        })
    }

    fn write(&self, queues: &Queues) -> Result<()> {
        let text = (!queues.is_empty()).then(|| queues.to_string());
        let set = self.tree.set_mark(&self.dir, NET_QUEUES, text.as_deref());
        set.map_err(failure)
    }
}

/// Create, change or remove a queue.
pub fn queue(
    socket: &Path,
    queue: &QueuePath,
    changes: &[QueueChange],
    remove: bool,
) -> Result<Exit> {
    let _turn = wait_for(socket, LOCK)?;
    let tree = Tree::system().map_err(failure)?;
    let attribute = Attribute::read(&tree, &queue.domain)?;
    let mut queues = attribute.queues.clone();
    if remove {
        queues.remove(&queue.name).ok_or_else(|| missing(queue))?;
    } else {
        let changed = queues.change(&queue.name, changes);
        changed.map_err(|e| failed(format!("{}: {e}", queue.domain)))?;
    }
    put_into_force(socket, &[(&attribute, &queues)])?;
    if !remove && is_managed(&tree) && attribute.path.name().ends_with(".slice") {
        let path = &attribute.path;
        warn!("{path} is a slice, which has no processes of its own: name their service or scope");
    }
    Ok(Exit::Ok)
}

/// Move a queue to another domain.
pub fn move_to(socket: &Path, queue: &QueuePath, domain: &DomainPath) -> Result<Exit> {
    let _turn = wait_for(socket, LOCK)?;
    let tree = Tree::system().map_err(failure)?;
    let (from, to) = (
        Attribute::read(&tree, &queue.domain)?,
        Attribute::read(&tree, domain)?,
    );
    if from.path == to.path {
        return Err(failed(format!("{queue} is in {domain} already")));
    }
    let (mut left, mut there) = (from.queues.clone(), to.queues.clone());
    let moved = left.remove(&queue.name).ok_or_else(|| missing(queue))?;
    let added = there.add(moved);
    added.map_err(|e| failed(format!("{domain}: {e}")))?;
    // It is written at its new place first: if this command is killed, it is at both.
    put_into_force(socket, &[(&to, &there), (&from, &left)])?;
    Ok(Exit::Ok)
}

/// Write the queues of domains. If one is refused, all are as before.
fn put_into_force(socket: &Path, all: &[(&Attribute<'_>, &Queues)]) -> Result<()> {
    let try_to = || {
        for (attribute, queues) in all {
            attribute.write(queues)?;
        }
        // The one that has lost a queue first: it may make room for the other.
        for (attribute, _) in all.iter().rev() {
            in_force(socket, &attribute.path)?;
        }
        Ok(())
    };
    let done = try_to();
    if done.is_err() {
        for (attribute, _) in all {
            if let Err(e) = attribute.write(&attribute.queues) {
                warn!("{}: its queues are not as before: {e}", attribute.path);
            }
        }
    }
    done
}

/// Attach sockets of a process to a queue of its domain.
pub fn attach(queue: &QueuePath, sockets: SocketsOf) -> Result<Exit> {
    for_root("attaches sockets")?;
    let tree = Tree::system().map_err(failure)?;
    let attribute = Attribute::read(&tree, &queue.domain)?;
    let found = attribute.queues.find(&queue.name);
    let number = found.ok_or_else(|| missing(queue))?.number;
    // Opened before its cgroup is read: if the id is another process's by then, no socket is found.
    let process = Process::open(sockets.pid).map_err(net_failure)?;
    let cgroup = std::fs::read_to_string(format!("/proc/{}/cgroup", sockets.pid));
    let cgroup = cgroup.map_err(|e| failed(format!("process {}: {e}", sockets.pid)))?;
    let there = parse_proc_cgroup(&cgroup);
    if there.as_ref() != Ok(&attribute.path) {
        let there = there.map_or_else(|e| e, |path| path.to_string());
        return Err(failed(format!(
            "process {} is in domain {there}; a queue of {} takes that domain's packets only",
            sockets.pid, attribute.path
        )));
    }
    let changed = change(&process, sockets, |_| Some(attached_priority(number)))?;
    if changed == 0 {
        let pid = sockets.pid;
        return Err(failed(format!("process {pid} has no socket of a network")));
    }
    line(format!("{} attached to {queue}", in_words(changed)))?;
    Ok(Exit::Ok)
}

/// Detach sockets of a process from whatever queue.
pub fn detach(sockets: SocketsOf) -> Result<Exit> {
    for_root("detaches sockets")?;
    let process = Process::open(sockets.pid).map_err(net_failure)?;
    let changed = change(&process, sockets, |now| is_attached(now).then_some(0))?;
    if changed == 0 {
        let pid = sockets.pid;
        return Err(failed(format!(
            "process {pid} has no socket that is attached"
        )));
    }
    line(format!("{} detached", in_words(changed)))?;
    Ok(Exit::Ok)
}

/// Change priorities of sockets. Returns of how many.
fn change(process: &Process, of: SocketsOf, to: impl Fn(u32) -> Option<u32>) -> Result<usize> {
    if let Some(descriptor) = of.descriptor {
        let changed = process.set_priority(descriptor, to).map_err(net_failure)?;
        return Ok(usize::from(changed));
    }
    let Sockets {
        descriptors,
        is_cut,
    } = process.sockets().map_err(net_failure)?;
    if is_cut {
        let pid = of.pid;
        warn!("process {pid} has more than {MAX_DESCRIPTORS} file descriptors: the others are left as they are");
    }
    let mut changed = 0;
    for descriptor in descriptors {
        match process.set_priority(descriptor, &to) {
            Ok(yes) => changed += usize::from(yes),
            Err(NetError::Socket { source, .. }) if is_closed(&source) => {}
            Err(e) => return Err(net_failure(e)),
        }
    }
    Ok(changed)
}

/// The process has closed its descriptor, or it is another file by now.
fn is_closed(e: &std::io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK))
}

fn in_words(sockets: usize) -> String {
    match sockets {
        1 => "1 socket is".into(),
        n => format!("{n} sockets are"),
    }
}

fn for_root(what: &str) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::new(Exit::Permission, format!("only root {what}")).into())
}

fn missing(queue: &QueuePath) -> anyhow::Error {
    failed(format!("{} has no queue {}", queue.domain, queue.name))
}

fn failed(message: String) -> anyhow::Error {
    Failure::new(Exit::Failure, message).into()
}

fn net_failure(e: NetError) -> anyhow::Error {
    let source = match &e {
        NetError::Process { source, .. } | NetError::Socket { source, .. } => Some(source.kind()),
        _ => None,
    };
    let exit = match source {
        Some(std::io::ErrorKind::PermissionDenied) => Exit::Permission,
        _ => Exit::Failure,
    };
    Failure::new(exit, e.to_string()).into()
}
