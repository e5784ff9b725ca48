//! Strays: processes that inherited an `oom_score_adj` of ours at their fork and are not
//! interactive themselves. They are set back.
//!
//! A process is a stray if all of this holds:
//!
//! 1. Its value is one that only we give: at least the lowest that we gave, and below the base of
//!    the processes that have one. A user may raise a value, but not lower it below what a
//!    privileged process set.
//! 2. It started after we gave the first one.
//! 3. It is in a cgroup where such children are: that of a process that has one, a domain of ours,
//!    or a cgroup that belongs to a user, who may move processes between those. System services,
//!    which may have any value, are in cgroups of root.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aplomb_domain::DomainPath;
use aplomb_memory::knob;
use rustix::time::{clock_gettime, ClockId};

use super::seen::Seen;
use super::KNOB;
use crate::daemon::memory::domain::top;

/// Sweeps until one finds no stray: children that strays forked meanwhile are found by the next.
const ROUNDS: usize = 3;

/// The values that strays can have, and the earliest start of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Ticks since boot.
    pub since: u64,
    lowest: i16,
    /// The own value of the processes that were given one; the highest, if they differ.
    pub base: i16,
}

impl Range {
    /// No value yet.
    pub fn since(since: u64) -> Self {
        Self {
            since,
            lowest: i16::MAX,
            base: i16::MIN,
        }
    }

    /// A process with the own value `base` has `set`, and had it from `since` on at the earliest.
    pub fn include(&mut self, since: u64, base: i16, set: i16) {
        self.since = self.since.min(since);
        self.lowest = self.lowest.min(set);
        self.base = self.base.max(base);
    }

    /// True if a process may have inherited its value from one that was given one.
    pub fn holds(self, seen: &Seen) -> bool {
        self.has(seen.adj) && seen.start >= self.since
    }

    fn has(self, value: i16) -> bool {
        self.lowest <= value && value < self.base
    }
}

/// Set back all strays. `known` processes keep theirs. `base` says what strays in a cgroup get;
/// None: there can be none. Returns how many were found.
pub fn sweep(
    range: Range,
    known: impl Fn(i32) -> bool,
    base: impl Fn(&DomainPath) -> Option<i16>,
) -> usize {
    let mut all = 0;
    for _ in 0..ROUNDS {
        let found = sweep_once(range, &known, &base);
        all += found;
        if found == 0 {
            break;
        }
    }
    all
}

fn sweep_once(
    range: Range,
    known: impl Fn(i32) -> bool,
    base: impl Fn(&DomainPath) -> Option<i16>,
) -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    // One small file of each process; more is read of the few that have such a value.
    let strays = pids.filter(|pid| !known(*pid)).filter_map(|pid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/{KNOB}")).ok()?;
        let value = text.trim().parse().ok()?;
        range.has(value).then_some((pid, value))
    });
    let set_back = strays.filter_map(|(pid, value)| set_back(range, pid, value, &base));
    set_back.count()
}

/// None: it is no stray, or has exited.
fn set_back(
    range: Range,
    pid: i32,
    value: i16,
    base: impl Fn(&DomainPath) -> Option<i16>,
) -> Option<()> {
    let process = procfs::process::Process::new(pid).ok()?;
    let start = process.stat().ok()?.starttime;
    let mut cgroups = process.cgroups().ok()?.into_iter();
    let at: DomainPath = cgroups.find(|c| c.hierarchy == 0)?.pathname.parse().ok()?;
    let base = base(&at).filter(|base| start >= range.since && value < *base)?;
    let knob = knob::of_process(pid, start, KNOB);
    knob::write(&knob, &base.to_string()).ok()
}

/// The value of a stray in the cgroup `at`: that of the processes that were `given` one there, or
/// the highest of all in a cgroup where a user's processes can come from elsewhere. None: there are
/// no strays.
pub fn base_in(
    cgroup_root: &Path,
    at: &DomainPath,
    given: &BTreeMap<DomainPath, i16>,
    range: Range,
) -> Option<i16> {
    let mut above = std::iter::successors(Some(at.clone()), DomainPath::parent);
    if let Some(&base) = above.find_map(|a| given.get(&a)) {
        return Some(base);
    }
    let is_users = || {
        let mut dir = cgroup_root.to_path_buf();
        dir.extend(at.parts());
        std::fs::metadata(dir).is_ok_and(|dir| dir.uid() != 0)
    };
    (top().holds(at) || is_users()).then_some(range.base)
}

/// Now, in ticks since boot, as processes' start times are.
pub fn now_ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let hz = procfs::ticks_per_second().max(1);
    now.tv_sec as u64 * hz + now.tv_nsec as u64 * hz / 1_000_000_000
}
