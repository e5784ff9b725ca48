//! Names of states and events that the kernel side, the daemon and its clients share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of an interactive task (`enum server_state` of bpf/intf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Its reservation is in force.
    Admitted,
    /// Its reservation was refused. The task runs as best-effort.
    Rejected,
    /// Its reservation was taken back in an overload. The task runs as best-effort.
    Revoked,
    /// Its reservation was taken back because memory is short. The task runs as best-effort.
    Demoted,
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Admitted => "admitted",
            Self::Rejected => "rejected",
            Self::Revoked => "revoked",
            Self::Demoted => "demoted",
        })
    }
}

/// Load of one CPU by interactive tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    pub cpu: u32,
    /// R_load, ppm: mean over the last four seconds.
    pub r_load_ppm: u64,
    /// S_load, ppm: the load expected after launches.
    pub s_load_ppm: u64,
    /// Bandwidth promised to guaranteed reservations, ppm. It is part of neither load.
    pub guaranteed_ppm: u64,
}

/// The part of a guaranteed reservation on one CPU. In each period the task uses its parts one
/// after the other, in windows of equal length (EDF-WMR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub cpu: i32,
    /// Q': budget in the window, ns.
    pub runtime_ns: u64,
}

/// Kind of a decision (`enum event_type` of bpf/intf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    Matched,
    Inherited,
    Admitted,
    Rejected,
    Exhausted,
    Revoked,
    Reactivated,
    Missed,
    Exited,
    Moved,
    Limit,
    Lost,
    Guaranteed,
    Domain,
    /// Tasks of a domain were kept off the CPU.
    Parked,
    /// A process runs again after it slept for longer than its memory protection period.
    Returned,
    /// A program lost its reservation because the memory of interactive programs does not fit.
    Demoted,
    /// Memory has run out: the kernel killed a process, or systemd-oomd a cgroup.
    Killed,
    /// A program that goes before others waits for a disk: the disks are watched.
    Disk,
    /// All programs of a user use too much of the machine.
    Owner,
    /// A thread may not run on the CPU of its program's reservation.
    Elsewhere,
    /// An interactive program waited for pages in swap.
    Swapped,
}

impl EventKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 22] = [
        Self::Matched,
        Self::Inherited,
        Self::Admitted,
        Self::Rejected,
        Self::Exhausted,
        Self::Revoked,
        Self::Reactivated,
        Self::Missed,
        Self::Exited,
        Self::Moved,
        Self::Limit,
        Self::Lost,
        Self::Guaranteed,
        Self::Domain,
        Self::Parked,
        Self::Returned,
        Self::Demoted,
        Self::Killed,
        Self::Disk,
        Self::Owner,
        Self::Elsewhere,
        Self::Swapped,
    ];

    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::Inherited => "inherited",
            Self::Admitted => "admitted",
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::Revoked => "revoked",
            Self::Reactivated => "reactivated",
            Self::Missed => "missed",
            Self::Exited => "exited",
            Self::Moved => "moved",
            Self::Limit => "limit",
            Self::Lost => "lost",
            Self::Guaranteed => "guaranteed",
            Self::Domain => "domain",
            Self::Parked => "parked",
            Self::Returned => "returned",
            Self::Demoted => "demoted",
            Self::Killed => "killed",
            Self::Disk => "disk",
            Self::Owner => "owner",
            Self::Elsewhere => "elsewhere",
            Self::Swapped => "swapped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        for kind in EventKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
