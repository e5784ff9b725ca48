//! Domains as the daemon tells them.

use aplomb_domain::{DomainPolicy, Max, Reservation};
use serde::{Deserialize, Serialize};

/// All domains at one moment. Two of them, some time apart, tell what each received in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainTable {
    /// CLOCK_MONOTONIC, ns; 0: this is not from the kernel side, and `ran_ns` and `share_ppm` say
    /// nothing.
    pub time_ns: u64,
    /// CPUs on line.
    pub cpus: u32,
    /// Each after its parent.
    pub domains: Vec<DomainLine>,
}

/// One domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainLine {
    /// Below the cgroup root, "/" itself for the root; empty: its cgroup has gone, or came just
    /// now.
    pub path: String,
    /// The cgroup's id.
    pub cgid: u64,
    /// Levels below the root.
    pub depth: u32,
    /// cpu.weight; 0: it has none (the root; no CPU controller).
    pub weight: u32,
    /// cpu.idle.
    pub idle: bool,
    pub policy: DomainPolicy,
    /// What it has by right, in force.
    pub reservation: Option<Reservation>,
    /// What its attributes ask for and it does not have, and why.
    pub refused: Option<String>,
    /// cpu.max.
    pub max: Option<Max>,
    /// Of the machine, that it is due while everybody else wants his too, ppm.
    pub share_ppm: u32,
    /// CPU time so far, ns.
    pub ran_ns: u64,
    /// Times that it used up cpu.max, and for how long it waited, ns.
    pub throttled: u64,
    pub throttled_ns: u64,
    /// How often its own tasks were parked, and for how long in all, ns, by reason.
    #[serde(default)]
    pub parked: Vec<ParkLine>,
    /// Its own tasks that wait for a CPU.
    pub waiting: u32,
    /// Removed with its last process.
    pub ephemeral: bool,
    /// Its cgroup has gone, tasks of it have not.
    pub gone: bool,
}

/// The parks of a domain's own tasks for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkLine {
    /// "cpu.max" or "request".
    pub reason: String,
    pub times: u64,
    pub ns: u64,
}
