//! Settings of a domain that its cgroup does not have: `aplomb domain set`.

use super::{CgroupError, CgroupId};
use crate::Simulation;

/// The policy of a domain (`enum domain_policy` of bpf/intf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainPolicy {
    /// SFQ among domains, fair among threads.
    Default = 0,
    /// Start-time fair queueing.
    Sfq = 1,
    /// Move-to-rear list scheduling.
    Mtr = 2,
    /// Weighted round robin.
    Wrr = 3,
    /// Virtual time, for threads.
    Fair = 4,
    /// First in, first out, for threads.
    Fifo = 5,
}

/// One change of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainChange {
    /// The order of its members.
    Policy(DomainPolicy),
    /// Reserve this part of the machine, ppm; 0: nothing.
    Fraction(u32),
    /// Reserve `runtime` ns of a CPU in each `interval` ns.
    Reservation {
        /// C, ns, not more than `interval`.
        runtime: u64,
        /// T, ns, 1 ms to 10 s.
        interval: u64,
    },
}

/// `struct domain_args`
#[repr(C)]
#[derive(Default)]
struct Args {
    cgid: u64,
    runtime_ns: u64,
    interval_ns: u64,
    change: u32,
    policy: u32,
    reserved_ppm: u32,
    result: i32,
    taken_ppm: u32,
    limit_ppm: u32,
}

extern "C" {
    fn domain_set(args: *mut Args) -> i32;
    fn host_domain_throttled(cgid: u64, ns: *mut u64) -> u64;
    fn host_domain_ran(cgid: u64) -> u64;
}

impl Simulation {
    /// How often the domain of a cgroup was throttled, and for how long in all, ns. The root's, if
    /// the cgroup has none of its own.
    ///
    /// # Errors
    /// No such cgroup.
    pub fn throttled(&self, id: CgroupId) -> Result<(u64, u64), CgroupError> {
        let cgid = self.state.cgroups.online(id)?.number();
        let mut ns = 0;
        // SAFETY: host_domain_throttled() reads the scheduler's state and writes `ns`
        let times = unsafe { host_domain_throttled(cgid, &raw mut ns) };
        Ok((times, ns))
    }

    /// CPU time of all tasks in the domain of a cgroup and below, ns, as the daemon shows it. The
    /// root's, if the cgroup has none of its own.
    ///
    /// # Errors
    /// No such cgroup.
    pub fn domain_ran(&self, id: CgroupId) -> Result<u64, CgroupError> {
        let cgid = self.state.cgroups.online(id)?.number();
        // SAFETY: host_domain_ran() reads the scheduler's state
        Ok(unsafe { host_domain_ran(cgid) })
    }

    /// Change the domain of a cgroup, as the daemon does.
    ///
    /// # Errors
    /// No such cgroup. [`CgroupError::Refused`]: a value is out of range, or the domain would
    /// reserve more than is available.
    pub fn change_domain(&mut self, id: CgroupId, change: DomainChange) -> Result<(), CgroupError> {
        let cgid = self.state.cgroups.online(id)?.number();
        let mut args = match change {
            DomainChange::Policy(policy) => Args {
                change: 1,
                policy: policy as u32,
                ..Args::default()
            },
            DomainChange::Fraction(reserved_ppm) => Args {
                change: 2,
                reserved_ppm,
                ..Args::default()
            },
            DomainChange::Reservation { runtime, interval } => Args {
                change: 4,
                runtime_ns: runtime,
                interval_ns: interval,
                ..Args::default()
            },
        };
        args.cgid = cgid;
        // SAFETY: domain_set() accesses only its argument, which has the layout of struct
        // domain_args
        unsafe { domain_set(&raw mut args) };
        let done = match args.result {
            0 => Ok(()),
            errno => Err(CgroupError::Refused(errno)),
        };
        self.check_after(done)
    }
}
