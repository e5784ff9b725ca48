//! Words that the kernel side, the daemon and its clients share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of an interactive task (`enum server_state` of bpf/intf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Has its reservation.
    Admitted,
    /// Was refused one; runs as best-effort.
    Rejected,
    /// Had one and lost it to overload; runs as best-effort.
    Revoked,
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Admitted => "admitted",
            Self::Rejected => "rejected",
            Self::Revoked => "revoked",
        })
    }
}

/// Load of one CPU by interactive tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    pub cpu: u32,
    /// R_load, ppm: mean over the last four seconds.
    pub r_load_ppm: u64,
    /// S_load, ppm: what is expected after launches.
    pub s_load_ppm: u64,
    /// Bandwidth promised to guaranteed reservations, ppm; in neither load.
    pub guaranteed_ppm: u64,
}

/// A guaranteed reservation's part on one CPU: this much in each of its periods. It has them one
/// after the other, in windows of the period divided by their number (EDF-WMR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub cpu: i32,
    /// Q', ns.
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
}

impl EventKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 15] = [
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
    ];

    /// The word for it, as in JSON.
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
