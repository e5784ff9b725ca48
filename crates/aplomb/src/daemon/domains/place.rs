//! Moves a process into the domain that its spec names.
//!
//! When a program is executed, the kernel side recognises it and sends an event. The daemon reads
//! the event and moves the process. Until then the program runs in the cgroup in which it was
//! started: usually for well under a millisecond, longer if the machine is loaded. Children that it
//! forks in this time stay there. `aplomb domain run` moves the process before the exec.

use std::os::fd::OwnedFd;

use aplomb_domain::{DomainError, DomainPath, Tree};
use aplomb_kernel::Event;
use procfs::process::StatFlags;
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use rustix::time::{clock_gettime, ClockId};

use super::super::reservations::is_alive;
use crate::domains::{place_of, with_manager};

/// The outcome of a move.
#[derive(Debug, PartialEq, Eq)]
pub enum Placed {
    Moved,
    /// The process is in the domain, or below it, already.
    AlreadyThere,
    /// The process has exited. Another process may have its id now.
    Exited,
}

/// The process of an event, and not another one that has its id now.
pub struct Proven {
    process: OwnedFd,
    pid: i32,
    /// When it started, ticks since boot.
    pub started: u64,
    /// Its cgroup, as it was read.
    pub cgroup: Option<DomainPath>,
    /// The process's real user id: of a set-user-ID program, that of the user who started it.
    pub uid: u32,
    /// It is a kernel thread, which has no memory of its own.
    pub is_kernel_thread: bool,
}

impl Proven {
    /// None if the process has exited.
    pub fn of(event: &Event) -> Option<Self> {
        let id = (event.pid > 0)
            .then(|| Pid::from_raw(event.pid))
            .flatten()?;
        // Open the descriptor first. If its process is alive afterwards, what was read from /proc
        // was about this process.
        let process = pidfd_open(id, PidfdFlags::empty()).ok()?;
        let proc = procfs::process::Process::new(event.pid).ok()?;
        let (stat, cgroups) = (proc.stat().ok()?, proc.cgroups().ok()?);
        let (uid, flags) = (proc.status().ok()?.ruid, stat.flags().ok()?);
        let exec_ns = event.time_ns.saturating_add(suspended_ns());
        let same = start_ns(&stat) <= exec_ns + tick_ns();
        let now = cgroups.into_iter().find(|c| c.hierarchy == 0);
        (same && is_alive(&process)).then(|| Self {
            process,
            pid: event.pid,
            started: stat.starttime,
            cgroup: now.and_then(|c| c.pathname.parse().ok()),
            uid,
            is_kernel_thread: flags.contains(StatFlags::PF_KTHREAD),
        })
    }

    /// Move it into `target`, which `make` creates if it is missing.
    ///
    /// # Errors
    /// The domain cannot be created or entered.
    pub fn enter(
        self,
        tree: &Tree,
        target: &DomainPath,
        place: &DomainPath,
        make: impl FnOnce() -> Result<(), DomainError>,
    ) -> Result<Placed, DomainError> {
        if self.cgroup.as_ref().is_some_and(|now| place.holds(now)) {
            return Ok(Placed::AlreadyThere);
        }
        make()?;
        // If the process exits after this check, its id could be reused before the move, because no
        // system call moves the process of a descriptor. That is unlikely: the id becomes free only
        // when its parent has waited for it.
        if !is_alive(&self.process) {
            return Ok(Placed::Exited);
        }
        match with_manager(tree, |m| m.move_pid(target, self.pid)) {
            Ok(()) => Ok(Placed::Moved),
            Err(_) if !is_alive(&self.process) => Ok(Placed::Exited),
            Err(e) => Err(e),
        }
    }
}

/// Move a process into `domain`, which is created if it is missing.
///
/// # Errors
/// The domain cannot be created or entered.
pub fn place(tree: &Tree, process: Proven, domain: &DomainPath) -> Result<Placed, DomainError> {
    if !is_alive(&process.process) {
        return Ok(Placed::Exited);
    }
    let target = place_of(tree, domain)?;
    process.enter(tree, domain, &target, || {
        with_manager(tree, |m| m.create(domain, false)).map(drop)
    })
}

/// When a process started, ns since boot, rounded down to [`tick_ns`].
fn start_ns(stat: &procfs::process::Stat) -> u64 {
    stat.starttime.saturating_mul(tick_ns())
}

/// The unit of start times in /proc: 10 ms (USER_HZ) on every architecture that sched_ext runs on.
fn tick_ns() -> u64 {
    1_000_000_000 / procfs::ticks_per_second().max(1)
}

/// Time since boot minus CLOCK_MONOTONIC, ns: how long the machine was suspended.
fn suspended_ns() -> u64 {
    let ns = |clock| {
        let t = clock_gettime(clock);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    };
    let monotonic = ns(ClockId::Monotonic);
    ns(ClockId::Boottime).saturating_sub(monotonic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::state::monotonic_ns;
    use crate::daemon::testing::event;
    use aplomb_domain::testing::{tree, InFiles};

    #[test]
    fn this_process_started_before_now() {
        let me = procfs::process::Process::myself().unwrap().stat().unwrap();
        let now = monotonic_ns() + suspended_ns();
        assert!(start_ns(&me) > 0 && start_ns(&me) <= now);
    }

    #[test]
    fn a_program_is_moved_and_another_with_its_number_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), &["media"], InFiles::default());
        let media: DomainPath = "media".parse().unwrap();
        let me = std::process::id() as i32;
        // This test started long before now, but after the machine.
        let process = Proven::of(&event(monotonic_ns(), me)).unwrap();
        let placed = place(&tree, process, &media).unwrap();
        assert_eq!(placed, Placed::Moved);
        let procs = std::fs::read_to_string(dir.path().join("media/cgroup.procs")).unwrap();
        assert_eq!(procs, me.to_string());
        std::fs::write(dir.path().join("media/cgroup.procs"), "").unwrap();
        let long_ago = Proven::of(&event(1, me));
        assert!(long_ago.is_none(), "it started after that exec");
        assert!(Proven::of(&event(1, -1)).is_none());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let exited = Proven::of(&event(monotonic_ns(), child.id() as i32));
        child.wait().unwrap();
        if let Some(exited) = exited {
            assert_eq!(place(&tree, exited, &media).unwrap(), Placed::Exited);
        }
        let procs = std::fs::read_to_string(dir.path().join("media/cgroup.procs")).unwrap();
        assert_eq!(procs, "");
    }
}
