//! What aplomb is told of a domain beside what its cgroup says: `aplomb domain set`.

use super::{CgroupError, CgroupId};
use crate::Simulation;

/// The policy by which a domain's members are ordered (`enum domain_policy` of bpf/intf.h).
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
    /// For threads: by virtual time.
    Fair = 4,
    /// For threads: first come, first served.
    Fifo = 5,
}

/// One change of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainChange {
    /// Its members' order.
    Policy(DomainPolicy),
    /// Reserved for it: this part of the machine, ppm; 0: nothing.
    Fraction(u32),
    /// Reserved for it: `runtime` ns of a CPU in each `interval` ns.
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
}

impl Simulation {
    /// Change a cgroup's domain, as the daemon does.
    ///
    /// # Errors
    /// No such cgroup; [`CgroupError::Refused`]: out of range, or more than there is.
    pub fn change_domain(&mut self, id: CgroupId, change: DomainChange) -> Result<(), CgroupError> {
        let cgid = self.state.cgroups.there(id)?.number();
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
        // SAFETY: it reads and writes its argument, which is laid out as struct domain_args
        unsafe { domain_set(&raw mut args) };
        let done = match args.result {
            0 => Ok(()),
            errno => Err(CgroupError::Refused(errno)),
        };
        self.cgroups_changed(done)
    }
}
