//! The table of domains that the daemon sends.

use aplomb_domain::{DomainPolicy, Max, Reservation};
use serde::{Deserialize, Serialize};

use crate::disk::{DiskAccount, DiskTimes};

/// All domains at one moment. From two tables follows what each domain received in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainTable {
    /// CLOCK_MONOTONIC, ns. If 0, the table does not come from the kernel side, and `ran_ns` and
    /// `share_ppm` are not known.
    pub time_ns: u64,
    /// CPUs online.
    pub cpus: u32,
    /// Each after its parent.
    pub domains: Vec<DomainLine>,
    /// The daemon sends a table in parts. True: another part follows, with further domains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// How device time is counted. None: it is not.
    #[serde(default)]
    pub disk_account: Option<DiskAccount>,
}

/// One domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainLine {
    /// The path below the cgroup root; "/" for the root. Empty if the cgroup was removed, or was
    /// created just now.
    pub path: String,
    /// The cgroup's id.
    pub cgid: u64,
    /// Levels below the root.
    pub depth: u32,
    /// cpu.weight. 0 if the domain has none (the root, or no CPU controller).
    pub weight: u32,
    /// cpu.idle.
    pub idle: bool,
    pub policy: DomainPolicy,
    /// The reservation in force.
    pub reservation: Option<Reservation>,
    /// The reservation of each disk's time in force, ppm.
    #[serde(default)]
    pub disk_ppm: Option<u32>,
    /// Its reservation of memory, and what there is beside it. None without a daemon.
    #[serde(default)]
    pub memory: Option<MemoryAccount>,
    /// The settings in its attributes that are not in force, and why.
    pub refused: Option<String>,
    /// cpu.max.
    pub max: Option<Max>,
    /// The part of the machine that the domain gets while all others use theirs, ppm.
    pub share_ppm: u32,
    /// CPU time so far, ns.
    pub ran_ns: u64,
    /// How often the domain was throttled by cpu.max, and for how long in all, ns.
    pub throttled: u64,
    pub throttled_ns: u64,
    /// How often its own tasks were parked, and for how long in all, ns, by reason.
    #[serde(default)]
    pub parked: Vec<ParkLine>,
    /// The requests that it and the domains below had each disk do, as far as they were counted.
    #[serde(default)]
    pub disk_times: Vec<DiskTimes>,
    /// Number of the domain's own tasks that wait for a CPU.
    pub waiting: u32,
    /// The daemon removes the domain when its last process has exited.
    pub ephemeral: bool,
    /// The cgroup was removed while tasks of it still exist.
    pub gone: bool,
}

/// A domain's reservation of memory, as Eclipse's control files have it (section 6, table 1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAccount {
    /// The reservation in force, bytes (rdmem).
    pub reserved: Option<u64>,
    /// What the domain and those beside it have reserved together, also for domains below them
    /// (rdmemsum).
    pub sum: u64,
    /// What they may reserve together (rdmemlim).
    pub limit: u64,
}

/// The parks of a domain's own tasks for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkLine {
    /// "cpu.max", "request", "memory", "reserve" or "start".
    pub reason: String,
    pub times: u64,
    pub ns: u64,
}
