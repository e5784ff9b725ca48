//! Moves a program that its spec names a domain for into that domain's cgroup.
//!
//! The kernel side tells that it recognised a program at its exec; the daemon reads that and moves the process. So
//! for a moment, usually well under a millisecond and longer when the machine is loaded, the program runs where it was
//! started; children that it forks in that moment stay there. `aplomb domain run` has no such moment.

use aplomb_domain::{parse_proc_cgroup, DomainError, DomainPath, Tree};
use aplomb_kernel::Event;
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use rustix::time::{clock_gettime, ClockId};

use super::super::reservations::is_alive;
use crate::domains::with_manager;

/// Start times in /proc are in 1/100 s (USER_HZ, the same on every architecture that sched_ext runs on), and cut.
const TICK_NS: u64 = 10_000_000;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Placed {
    Moved,
    /// It is there already, or below.
    There,
    /// It has ended; what has its number now is another process.
    Gone,
}

/// Move the process of an event into `domain`, which is made if it is missing.
///
/// # Errors
/// The domain cannot be made or entered.
pub fn place(tree: &Tree, event: &Event, domain: &DomainPath) -> Result<Placed, DomainError> {
    let Some(id) = (event.pid > 0).then(|| Pid::from_raw(event.pid)).flatten() else {
        return Ok(Placed::Gone);
    };
    // the descriptor first: then what /proc says is about its process, if that still lives afterwards
    let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else {
        return Ok(Placed::Gone);
    };
    let proc = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", event.pid));
    let (Ok(stat), Ok(cgroup)) = (proc("stat"), proc("cgroup")) else {
        return Ok(Placed::Gone);
    };
    let exec_ns = event.time_ns.saturating_add(suspended_ns());
    let same = start_ns(&stat).is_some_and(|start| start <= exec_ns + TICK_NS);
    if !same || !is_alive(&process) {
        return Ok(Placed::Gone);
    }
    let target = with_manager(tree, |m| m.place(domain))?;
    if parse_proc_cgroup(&cgroup).is_ok_and(|now| target.holds(&now)) {
        return Ok(Placed::There);
    }
    with_manager(tree, |m| m.create(domain, false))?;
    // A process that ends just here gives its number back only when its parent has waited for it; the way to that is
    // long, but there is no call that moves the process of a descriptor.
    if !is_alive(&process) {
        return Ok(Placed::Gone);
    }
    match with_manager(tree, |m| m.move_pid(domain, event.pid)) {
        Ok(()) => Ok(Placed::Moved),
        Err(_) if !is_alive(&process) => Ok(Placed::Gone),
        Err(e) => Err(e),
    }
}

/// When a process started, ns since boot, from its /proc/PID/stat.
fn start_ns(stat: &str) -> Option<u64> {
    // the second field is a name in parentheses, which may hold anything
    let (_, rest) = stat.rsplit_once(") ")?;
    let ticks: u64 = rest.split(' ').nth(22 - 3)?.parse().ok()?;
    ticks.checked_mul(TICK_NS)
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
    fn start_times_are_found_behind_any_name() {
        let stat = "812 (a) b (c) S 1 812 812 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(start_ns(stat), Some(4711 * TICK_NS));
        assert_eq!(start_ns("812 (a) S 1 2"), None);
        assert_eq!(start_ns(""), None);
        let me = std::fs::read_to_string("/proc/self/stat").unwrap();
        let now = monotonic_ns() + suspended_ns();
        assert!(start_ns(&me).unwrap() <= now + TICK_NS);
    }

    #[test]
    fn a_program_is_moved_and_another_with_its_number_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), &["media"], InFiles::default());
        let media: DomainPath = "media".parse().unwrap();
        let me = std::process::id() as i32;
        // this test started long before now, but not before the machine did
        let placed = place(&tree, &event(monotonic_ns(), me), &media).unwrap();
        assert_eq!(placed, Placed::Moved);
        let procs = std::fs::read_to_string(dir.path().join("media/cgroup.procs")).unwrap();
        assert_eq!(procs, me.to_string());
        std::fs::write(dir.path().join("media/cgroup.procs"), "").unwrap();
        let long_ago = place(&tree, &event(1, me), &media).unwrap();
        assert_eq!(long_ago, Placed::Gone, "it started after that exec");
        assert_eq!(place(&tree, &event(1, -1), &media).unwrap(), Placed::Gone);
        let procs = std::fs::read_to_string(dir.path().join("media/cgroup.procs")).unwrap();
        assert_eq!(procs, "");
    }
}
