//! The memory of interactive programs.

use serde::{Deserialize, Serialize};

/// The memory of interactive programs, in `aplomb status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// None if no memory is protected (the configuration, or this machine).
    pub protected: Option<MemoryTable>,
    /// What happened to tasks while memory was short, since the load.
    pub counts: Vec<MemoryCounts>,
}

/// The protected domains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTable {
    /// True if the ages of pages are known. Otherwise whole programs are protected.
    pub by_age: bool,
    /// File pages of these programs that are charged to other cgroups, and are held, bytes.
    pub held: u64,
    pub domains: Vec<MemoryLine>,
}

/// One protected domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLine {
    pub path: String,
    /// The protection period.
    pub pi_ms: u64,
    /// Bytes in use at the last look.
    pub usage: u64,
    /// The private reserve, bytes; 0 if there is none.
    #[serde(default)]
    pub private: u64,
    /// Bytes that were used within the period, by the last look.
    pub working_set: Option<u64>,
    /// Bytes that are protected. None: all that is used.
    pub protected: Option<u64>,
    /// A domain above that is protected for less.
    pub limited_by: Option<String>,
}

/// What happened to the tasks of one class while memory was short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCounts {
    /// "interactive" or "best-effort".
    pub class: String,
    /// Allocations below the low watermark.
    pub asked: u64,
    /// Parks because of these.
    pub parked: u64,
    /// Times that a task had to reclaim memory itself.
    pub reclaimed: u64,
    /// The same, because of a limit of its cgroup.
    pub reclaimed_limit: u64,
    /// Page faults that waited for a page from swap.
    #[serde(default)]
    pub swapped_in: u64,
}
