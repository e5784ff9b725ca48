//! Changes to how the time of disks is shared.

use serde::{Deserialize, Serialize};

/// What is None stays as it is. The change lasts until the daemon ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskChange {
    /// Length of a round, ns.
    #[serde(default)]
    pub round_ns: Option<u64>,
    /// Weights of the classes and the rest in what domains leave.
    #[serde(default)]
    pub soft_real_time: Option<u32>,
    #[serde(default)]
    pub interactive: Option<u32>,
    #[serde(default)]
    pub rest: Option<u32>,
    /// This disk, and what is on it, is ordered again.
    #[serde(default)]
    pub start: Option<String>,
    /// This disk is ordered no longer.
    #[serde(default)]
    pub stop: Option<String>,
}

impl DiskChange {
    /// True if it asks how things are, and changes nothing.
    #[must_use]
    pub fn is_question(&self) -> bool {
        *self == Self::default()
    }
}
