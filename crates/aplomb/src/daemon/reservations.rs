//! Reservations by `aplomb run` and `aplomb set`: the limits of each user, and the end of each
//! reservation.
//!
//! When a process has exited, the kernel may give its id to another one. So the daemon first opens
//! a pidfd, then reads the process's owner, and then checks that the process of the pidfd still
//! runs. If it does, the owner was that process's. The pidfd becomes readable when the process
//! exits.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aplomb_kernel::SpecRow;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use crate::config::{percent, UserLimit};
use crate::protocol::{Code, Refusal};

/// The most reservations at a time, including root's.
pub const MAX_RESERVATIONS: usize = 1024;

/// One process that has a reservation by request.
#[derive(Debug)]
pub struct Reservation {
    /// The user that asked for it ([`super::state::Peer::account`]).
    pub account: u32,
    pub row: SpecRow,
    /// Becomes readable when the process ends.
    pub process: OwnedFd,
}

impl Reservation {
    fn bandwidth_ppm(&self) -> u64 {
        bandwidth_ppm(&self.row)
    }
}

/// C/T in ppm. It is rounded up, so that rounding never exceeds a limit.
fn bandwidth_ppm(row: &SpecRow) -> u64 {
    (u128::from(row.runtime_ns) * 1_000_000).div_ceil(u128::from(row.period_ns.max(1))) as u64
}

/// All reservations by request, by process id.
#[derive(Debug, Default)]
pub struct Reservations {
    by_pid: HashMap<i32, Reservation>,
}

impl Reservations {
    /// Check that user `account` may have `row` for process `pid`. A reservation that the process
    /// already has would be replaced, so it does not count.
    ///
    /// # Errors
    /// A refusal that names the exceeded limit.
    pub fn allow(
        &self,
        account: u32,
        pid: i32,
        row: &SpecRow,
        limit: &UserLimit,
    ) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::new(Code::Limit, message));
        if self.by_pid.len() >= MAX_RESERVATIONS && !self.by_pid.contains_key(&pid) {
            return refuse(format!(
                "all {MAX_RESERVATIONS} reservations by request are taken"
            ));
        }
        if account == 0 {
            return Ok(());
        }
        if row.period_ns < limit.min_period_ns {
            return refuse(format!(
                "a period of {} is shorter than the {} that users may ask for (user-min-period)",
                aplomb_spec::format_duration(row.period_ns),
                aplomb_spec::format_duration(limit.min_period_ns)
            ));
        }
        let others = || {
            self.by_pid
                .iter()
                .filter(|(p, r)| r.account == account && **p != pid)
                .map(|(_, r)| r)
        };
        if others().count() >= limit.reservations {
            return refuse(format!(
                "you have {} reservations, the limit for users (user-reservations)",
                limit.reservations
            ));
        }
        let (used, wanted) = (
            others().map(Reservation::bandwidth_ppm).sum::<u64>(),
            bandwidth_ppm(row),
        );
        if used + wanted > limit.bandwidth_ppm {
            return refuse(format!(
                "{} of a CPU is more than the {} left of your {} (user-limit); an administrator can write a spec for the program",
                percent(wanted),
                percent(limit.bandwidth_ppm.saturating_sub(used)),
                percent(limit.bandwidth_ppm)
            ));
        }
        Ok(())
    }

    /// Record a reservation that was made.
    pub fn insert(&mut self, pid: i32, reservation: Reservation) {
        self.by_pid.insert(pid, reservation);
    }

    /// Forget a reservation: its process exited, or the reservation was removed.
    pub fn remove(&mut self, pid: i32) -> Option<Reservation> {
        self.by_pid.remove(&pid)
    }

    /// Forget the reservations of processes that have exited.
    pub fn remove_ended(&mut self) {
        self.by_pid.retain(|_, r| is_alive(&r.process));
    }

    pub fn iter(&self) -> impl Iterator<Item = (i32, &Reservation)> {
        self.by_pid.iter().map(|(pid, r)| (*pid, r))
    }

    pub fn get(&self, pid: i32) -> Option<&Reservation> {
        self.by_pid.get(&pid)
    }
}

/// A process and its owner.
#[derive(Debug)]
pub struct Process {
    pub fd: OwnedFd,
    /// The user whose id is the process's real, effective, saved and file-system id. None if these
    /// differ, as in a set-user-ID program: then only root may control the process.
    pub owner: Option<u32>,
}

/// Find process `pid` (a thread group's id) and its owner.
///
/// # Errors
/// A refusal if there is no such process.
pub fn find_process(pid: i32) -> Result<Process, Refusal> {
    let gone = || Refusal::new(Code::Failed, format!("there is no process {pid}"));
    let id = (pid > 0)
        .then(|| Pid::from_raw(pid))
        .flatten()
        .ok_or_else(gone)?;
    // Without PIDFD_THREAD this fails for the id of a thread that is not a group leader.
    let fd = pidfd_open(id, PidfdFlags::empty()).map_err(|_| gone())?;
    let status = procfs::process::Process::new(pid).and_then(|p| p.status());
    let status = status.map_err(|_| gone())?;
    if !is_alive(&fd) {
        return Err(gone());
    }
    Ok(Process {
        fd,
        owner: owner_of([status.ruid, status.euid, status.suid, status.fuid]),
    })
}

/// The user of all four ids of a process. None if they differ.
fn owner_of(ids: [u32; 4]) -> Option<u32> {
    ids.iter().all(|id| *id == ids[0]).then_some(ids[0])
}

/// True if the process of a pidfd has not exited.
pub fn is_alive(process: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    match poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    ) {
        Ok(ready) => ready == 0,
        Err(e) => io::Error::from(e).kind() == io::ErrorKind::Interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: UserLimit = UserLimit {
        bandwidth_ppm: 100_000,
        reservations: 3,
        min_period_ns: 10_000_000,
    };

    fn row(runtime_ms: u64, period_ms: u64) -> SpecRow {
        SpecRow {
            runtime_ns: runtime_ms * 1_000_000,
            period_ns: period_ms * 1_000_000,
            id: 1,
            flags: 0,
            protect_s: aplomb_memory::working_set::DEFAULT_PI.as_secs() as u32,
            io_priority: u32::MAX,
            policy: None,
        }
    }

    fn held(account: u32, row: SpecRow) -> Reservation {
        let process = pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
        Reservation {
            account,
            row,
            process,
        }
    }

    #[test]
    fn a_user_gets_no_more_than_their_limit() {
        let mut all = Reservations::default();
        assert!(
            all.allow(1000, 10, &row(10, 100), &LIMIT).is_ok(),
            "the whole of it at once"
        );
        assert!(all.allow(1000, 10, &row(11, 100), &LIMIT).is_err());
        all.insert(10, held(1000, row(6, 100)));
        assert!(all.allow(1000, 11, &row(4, 100), &LIMIT).is_ok());
        let refusal = all.allow(1000, 11, &row(5, 100), &LIMIT).unwrap_err();
        assert_eq!(refusal.code, Code::Limit);
        assert!(refusal.message.contains("4 % left"), "{refusal}");
        assert!(
            all.allow(1000, 10, &row(10, 100), &LIMIT).is_ok(),
            "the user's own one is replaced"
        );
        assert!(
            all.allow(1001, 11, &row(10, 100), &LIMIT).is_ok(),
            "another user's counts for that user"
        );
        assert!(
            all.allow(0, 11, &row(90, 100), &LIMIT).is_ok(),
            "root has no limit"
        );
    }

    #[test]
    fn rounding_passes_no_limit() {
        let limit = UserLimit {
            bandwidth_ppm: 33_333,
            ..LIMIT
        };
        assert!(
            Reservations::default()
                .allow(1, 1, &row(1, 30), &limit)
                .is_err(),
            "1/30 is 33333.3 ppm"
        );
        let huge = SpecRow {
            runtime_ns: u64::MAX,
            period_ns: u64::MAX,
            ..row(1, 1)
        };
        assert_eq!(bandwidth_ppm(&huge), 1_000_000);
    }

    #[test]
    fn number_and_period_are_limited() {
        let mut all = Reservations::default();
        assert!(all
            .allow(1000, 1, &row(0, 9), &LIMIT)
            .unwrap_err()
            .message
            .contains("user-min-period"));
        for pid in 0..3 {
            all.insert(pid, held(1000, row(1, 100)));
        }
        assert!(all
            .allow(1000, 3, &row(1, 100), &LIMIT)
            .unwrap_err()
            .message
            .contains("user-reservations"));
        for pid in 3..MAX_RESERVATIONS as i32 {
            all.insert(pid, held(0, row(1, 100)));
            if pid > 100 {
                break;
            }
        }
    }

    #[test]
    fn a_process_with_several_users_belongs_to_none() {
        assert_eq!(owner_of([1000; 4]), Some(1000));
        assert_eq!(owner_of([1000, 0, 0, 0]), None, "a set-user-ID program");
        assert_eq!(owner_of([1000, 1000, 1000, 0]), None);
    }

    #[test]
    fn processes_are_found_and_their_end_is_seen() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let process = find_process(pid).unwrap();
        assert_eq!(process.owner, Some(rustix::process::getuid().as_raw()));
        assert!(is_alive(&process.fd));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(&process.fd));
        assert!(find_process(pid).is_err());
        assert!(find_process(0).is_err());
        assert!(find_process(-1).is_err());
    }
}
