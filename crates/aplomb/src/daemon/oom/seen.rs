//! An interactive process, as /proc shows it now.

use std::path::PathBuf;

use aplomb_domain::DomainPath;
use aplomb_memory::{knob, Bytes};

use super::KNOB;

/// What the kernel's killer goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub pid: i32,
    /// Its start time, ticks since boot.
    pub start: u64,
    /// Its real user.
    pub uid: u32,
    /// Resident, swapped, and page tables.
    pub size: Bytes,
    /// Its `oom_score_adj`.
    pub adj: i16,
    pub cgroup: DomainPath,
}

impl Seen {
    /// None if the process that started at `start` has exited.
    pub fn read(pid: i32, start: u64) -> Option<Self> {
        // All files are read below one open directory, which never leads to another process.
        let process = procfs::process::Process::new(pid).ok()?;
        if process.stat().ok()?.starttime != start {
            return None;
        }
        let status = process.status().ok()?;
        let kib = [status.vmrss, status.vmswap, status.vmpte];
        let kib: u64 = kib.into_iter().flatten().fold(0, u64::saturating_add);
        let cgroups = process.cgroups().ok()?;
        let cgroup = cgroups.into_iter().find(|c| c.hierarchy == 0)?;
        let adj = knob::read(&knob::of_process(pid, start, KNOB)).ok()?;
        Some(Self {
            pid,
            start,
            uid: status.ruid,
            size: Bytes(kib.saturating_mul(1024)),
            adj: adj.parse().ok()?,
            cgroup: cgroup.pathname.parse().ok()?,
        })
    }

    pub fn knob(&self) -> PathBuf {
        knob::of_process(self.pid, self.start, KNOB)
    }
}
