//! When memory runs out, best-effort work dies first: `oom_score_adj` of interactive processes.
//!
//! There is no killer here. The kernel's own one goes by `oom_score_adj`, and aplomb_memory's `oom`
//! has the policy: how much of each interactive process does not count, within the caps of users.
//!
//! 1. **When.** Only while memory is short, from the first sign until 10 s after the last one.
//!    Signs are the kernel's pressure trigger and parks of best-effort tasks, which come long
//!    before the kernel kills. So while there is memory, no process has another `oom_score_adj`
//!    than its own.
//! 2. **Children.** A child has its parent's `oom_score_adj` from its fork on. So a value that was
//!    set for good would be had by every compile job of an editor, and by what a hostile user
//!    forks. While memory is short, each refresh finds such *strays* and sets them back: processes
//!    that have a value that only we give, started later, and are not interactive themselves.
//! 3. **Nothing outlives us.** The values are knobs of a journal of their own. A knob of a process
//!    names its start time too (aplomb_memory's `knob`), so another process that has its id by now
//!    keeps its own value. The next daemon finds strays of an earlier one by the journal.
//! 4. **The daemon** itself goes last: it has -900, as its unit says.
//!
//! A program in the root cgroup has no discount: its children could not be told from others' there.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aplomb_domain::{DomainPath, Tree};
use aplomb_kernel::{Event, EventKind};
use aplomb_memory::meminfo::{field, PATH as MEMINFO};
use aplomb_memory::oom::{self, Caps, Process};
use aplomb_memory::pressure::Trigger;
use aplomb_memory::{cgroup, knob, Bytes, Journal, MemoryError};
use tracing::{info, warn};

use super::domains::place::Proven;
use super::memory::machine::usable_memory;
use super::memory::{pace, Memory};
use crate::config::MemoryConfig;

mod oomd;
mod seen;
mod strays;

pub use oomd::Killed;
use seen::Seen;
use strays::Range;

/// The journal of these knobs.
const JOURNAL: &str = "/run/aplomb/oom";
const PRESSURE: &str = "/proc/pressure/memory";
/// The knob, below /proc/PID.
const KNOB: &str = "oom_score_adj";
/// Interactive processes that are looked at: of all users, and of one that is not root. More keep
/// their own value.
const MAX_PROCESSES: usize = 1024;
const MAX_OF_USER: usize = 256;
/// Least time between two refreshes: the window of the pressure trigger.
const REFRESH: Duration = Duration::from_millis(500);
/// A refresh that took t of CPU time is followed by this many t without one: 5 % of a CPU at most.
const PAUSE: u32 = 19;
/// Memory is there again when no sign has come for this long.
const CALM: Duration = Duration::from_secs(10);
/// The daemon's own value, as in aplomb.service.
const OWN: i32 = -900;

/// The interactive processes, and what they were given.
pub struct Oom {
    on: Option<On>,
}

struct On {
    config: MemoryConfig,
    cgroup_root: PathBuf,
    journal: Journal,
    trigger: Option<Trigger>,
    oomd: oomd::Oomd,
    /// The interactive processes, by process id.
    tracked: BTreeMap<i32, Tracked>,
    /// What each process has from us.
    given: BTreeMap<i32, Given>,
    /// The values that strays can have, and the cgroups of processes that were given one, with
    /// their bases. None and empty while memory is not short.
    range: Option<Range>,
    places: BTreeMap<DomainPath, i16>,
    /// The last sign that memory is short, and whether it came after the last refresh.
    sign: Option<(Instant, bool)>,
    /// No refresh before this.
    not_before: Option<Instant>,
    said_full: bool,
}

#[derive(Debug, Clone, Copy)]
struct Tracked {
    /// Ticks since boot.
    start: u64,
    uid: u32,
}

/// The value of a process.
#[derive(Debug, Clone)]
struct Given {
    knob: PathBuf,
    base: i16,
    set: i16,
}

impl Oom {
    /// Put back what an earlier daemon left. If this fails, the kernel kills as usual; the daemon
    /// says so and goes on.
    pub fn start(config: MemoryConfig, tree: Option<&Tree>) -> Self {
        let Some(tree) = tree.filter(|t| t.is_system()) else {
            return Self { on: None };
        };
        let wanted = config.protect && config.oom;
        if !wanted && !Path::new(JOURNAL).exists() {
            return Self { on: None };
        }
        let on = On::start(config, tree);
        let on = on.inspect_err(|e| warn!("when memory runs out, sizes alone count: {e:#}"));
        Self {
            on: on.ok().filter(|_| wanted),
        }
    }

    /// The kernel's trigger, which is ready when memory is short.
    pub fn trigger(&self) -> Option<BorrowedFd<'_>> {
        self.on.as_ref()?.trigger.as_ref().map(Trigger::as_fd)
    }

    /// Readable when systemd-oomd has killed.
    pub fn oomd(&self) -> Option<BorrowedFd<'_>> {
        self.on.as_ref()?.oomd.fd()
    }

    /// What systemd-oomd has killed since the last call.
    pub fn take_killed(&mut self) -> Vec<Killed> {
        self.on
            .as_mut()
            .map(|on| on.oomd.take())
            .unwrap_or_default()
    }

    /// The kernel's trigger is ready, or tasks were parked: memory is short.
    pub fn memory_is_short(&mut self) {
        if let Some(on) = &mut self.on {
            on.sign = Some((Instant::now(), true));
        }
    }

    /// A process becomes interactive, ceases to be, or was parked.
    pub fn follow(&mut self, event: &Event) {
        let Some(on) = &mut self.on else { return };
        match event.kind {
            EventKind::Admitted | EventKind::Guaranteed | EventKind::Reactivated => on.track(event),
            EventKind::Rejected
            | EventKind::Revoked
            | EventKind::Owner
            | EventKind::Demoted
            | EventKind::Exited => {
                on.forget(event.pid);
            }
            EventKind::Parked if event.parked_for_memory() => self.memory_is_short(),
            _ => {}
        }
    }

    /// The next time at which [`Oom::tick`] has work. None while memory is there.
    pub fn deadline(&self) -> Option<Instant> {
        let on = self.on.as_ref()?;
        let (at, new) = on.sign?;
        Some(if new {
            on.not_before.unwrap_or(at)
        } else {
            at + CALM
        })
    }

    /// Refresh the values, or put them back.
    pub fn tick(&mut self, now: Instant, memory: &Memory) {
        let due = self.deadline().is_some_and(|at| at <= now);
        let Some(on) = self.on.as_mut().filter(|_| due) else {
            return;
        };
        let Some((at, true)) = on.sign else {
            on.calm();
            return;
        };
        on.sign = Some((at, false));
        let begun = pace::ran();
        if let Err(e) = on.refresh(memory) {
            warn!("{e:#}");
        }
        let took = pace::ran().saturating_sub(begun);
        on.not_before = Some(Instant::now() + REFRESH.max(took * PAUSE));
    }

    /// The daemon ends: all processes get their own values back.
    pub fn end(&mut self) {
        if let Some(mut on) = self.on.take() {
            on.calm();
        }
    }
}

/// Put back what a daemon that was killed has left. Returns the values that could not be put back.
///
/// # Errors
/// A daemon runs and has the journal open; it cannot be read.
pub fn restore(cgroup_root: &Path) -> Result<Vec<MemoryError>> {
    if !Path::new(JOURNAL).exists() {
        return Ok(Vec::new());
    }
    let config = MemoryConfig::default();
    Ok(On::new(config, cgroup_root, Path::new(JOURNAL))?.recover())
}

impl On {
    fn start(config: MemoryConfig, tree: &Tree) -> Result<Self> {
        let mut on = Self::new(config, tree.root(), Path::new(JOURNAL))?;
        for complaint in on.recover() {
            warn!("{complaint}");
        }
        if !(config.protect && config.oom) {
            return Ok(on);
        }
        keep_daemon();
        on.trigger = Trigger::arm_early(Path::new(PRESSURE))
            .inspect_err(|e| info!("that memory is short is only seen by parks: {e}"))
            .ok();
        on.oomd = oomd::Oomd::start();
        Ok(on)
    }

    fn new(config: MemoryConfig, cgroup_root: &Path, journal: &Path) -> Result<Self> {
        Ok(Self {
            config,
            cgroup_root: cgroup_root.into(),
            journal: Journal::open(journal)?,
            trigger: None,
            oomd: oomd::Oomd::default(),
            tracked: BTreeMap::new(),
            given: BTreeMap::new(),
            range: None,
            places: BTreeMap::new(),
            sign: None,
            not_before: None,
            said_full: false,
        })
    }

    /// Put back what an earlier daemon left, also what children of its processes inherited.
    fn recover(&mut self) -> Vec<MemoryError> {
        for (path, old, set) in self.journal.changed() {
            let (Some((pid, start)), Ok(base), Ok(set)) =
                (knob::process(path), old.parse(), set.parse())
            else {
                continue;
            };
            let cgroup = Seen::read(pid, start).map(|s| s.cgroup);
            let cgroup = cgroup.filter(|at| !at.is_root());
            self.places.extend(cgroup.map(|at| (at, base)));
            let range = self.range.get_or_insert(Range::since(start));
            range.include(start, base, set);
        }
        let complaints = self.journal.recover().complaints;
        self.sweep();
        self.range = None;
        self.places.clear();
        complaints
    }

    fn track(&mut self, event: &Event) {
        let Some(process) = Proven::of(event) else {
            return;
        };
        let (start, uid) = (process.started, process.uid);
        if self.is_full(event.pid, uid) {
            if !std::mem::replace(&mut self.said_full, true) {
                info!("there are too many interactive processes: some may be killed like others");
            }
            return;
        }
        self.tracked.insert(event.pid, Tracked { start, uid });
        if let Some((_, new)) = &mut self.sign {
            *new = true; // memory is short already
        }
    }

    /// True if there is no room for one more process, of this user.
    fn is_full(&self, pid: i32, uid: u32) -> bool {
        if self.tracked.contains_key(&pid) {
            return false;
        }
        let of_user = self.tracked.values().filter(|t| t.uid == uid).count();
        self.tracked.len() >= MAX_PROCESSES || (uid != 0 && of_user >= MAX_OF_USER)
    }

    fn forget(&mut self, pid: i32) {
        self.tracked.remove(&pid);
        if let Some(given) = self.given.remove(&pid) {
            self.put_back(&given);
        }
    }

    /// Compute all values anew, from what each process has now.
    fn refresh(&mut self, memory: &Memory) -> Result<()> {
        let info = std::fs::read_to_string(MEMINFO).with_context(|| MEMINFO.to_owned())?;
        let mut seen = Vec::new();
        self.tracked.retain(|&pid, tracked| {
            let found = Seen::read(pid, tracked.start);
            seen.extend(found.clone());
            found.is_some() // or it has exited
        });
        seen.retain(|s| !s.cgroup.is_root() && !memory.is_withdrawn(s.pid));
        self.apply(&seen, &info)?;
        self.sweep();
        Ok(())
    }

    fn apply(&mut self, seen: &[Seen], meminfo: &str) -> Result<()> {
        let value = |name| field(meminfo, name).with_context(|| format!("{MEMINFO}: no {name}"));
        let total = Bytes(value("MemTotal:")?.saturating_add(value("SwapTotal:")?));
        let usable =
            usable_memory(meminfo).with_context(|| format!("{MEMINFO}: no MemAvailable"))?;
        let part = |ppm: u64| {
            Bytes(
                (u128::from(usable.0) * u128::from(ppm) / 1_000_000).min(u128::from(u64::MAX))
                    as u64,
            )
        };
        let caps = Caps {
            all: part(self.config.limit_ppm),
            user: part(self.config.user_limit_ppm),
        };
        let unit = oom::unit(total, cgroup::page_size());
        let processes: Vec<Process> = seen.iter().map(|s| self.process(s)).collect();
        let adjusted = oom::adjust(&processes, caps, unit);
        let stays = |pid: &i32| seen.iter().any(|s| s.pid == *pid);
        let gone: Vec<i32> = self
            .given
            .keys()
            .filter(|pid| !stays(pid))
            .copied()
            .collect();
        for pid in gone {
            if let Some(given) = self.given.remove(&pid) {
                self.put_back(&given);
            }
        }
        for ((s, p), &set) in seen.iter().zip(&processes).zip(&adjusted) {
            self.give(s, p.base, set);
        }
        let discounts = seen.iter().zip(&adjusted).zip(&processes);
        let discounts = discounts.map(|((s, &adj), p)| {
            let units = u64::from(p.base.abs_diff(adj));
            (s.cgroup.clone(), Bytes(units.saturating_mul(unit.0)))
        });
        let complaints = self
            .oomd
            .prefer(&mut self.journal, &self.cgroup_root, discounts);
        for complaint in complaints {
            warn!("{complaint}");
        }
        Ok(())
    }

    /// A process as the policy has it. Its base is its own value, before ours.
    fn process(&self, seen: &Seen) -> Process {
        let base = match self.given_to(seen) {
            Some(given) if seen.adj == given.set => given.base,
            // It may raise its value at any time: that is its own choice then. If it is still below
            // its own, the raised value was made from ours.
            Some(given) => given.base.max(seen.adj),
            // It inherited ours.
            None => match self.range {
                Some(range) if range.holds(seen) => range.base,
                _ => seen.adj,
            },
        };
        Process {
            uid: seen.uid,
            size: seen.size,
            base,
        }
    }

    fn given_to(&self, seen: &Seen) -> Option<&Given> {
        let given = self.given.get(&seen.pid);
        given.filter(|g| knob::process(&g.knob) == Some((seen.pid, seen.start)))
    }

    fn give(&mut self, seen: &Seen, base: i16, set: i16) {
        let knob = seen.knob();
        let done = self.try_give(seen, &knob, base, set);
        match done {
            Ok(()) if set == base => {
                self.given.remove(&seen.pid);
            }
            Ok(()) => {
                self.given.insert(seen.pid, Given { knob, base, set });
                if self.places.len() < MAX_PROCESSES {
                    self.places.insert(seen.cgroup.clone(), base);
                }
                let range = self.range.get_or_insert(Range::since(strays::now_ticks()));
                range.include(range.since, base, set);
            }
            Err(e) if e.is_vanished() => {}
            Err(e) => warn!("{e}"),
        }
    }

    fn try_give(
        &mut self,
        seen: &Seen,
        knob: &Path,
        base: i16,
        set: i16,
    ) -> Result<(), MemoryError> {
        // The journal takes a value that it does not know for a new base. One that was made from
        // ours is none.
        let expected = self.given_to(seen).map_or(base, |g| g.set);
        if seen.adj != expected && seen.adj < base {
            knob::write(knob, &expected.to_string())?;
        }
        if set == base {
            return self.journal.restore(knob).map(drop);
        }
        self.journal.set(knob, &set.to_string())
    }

    fn put_back(&mut self, given: &Given) {
        let raised = match self.journal.restore(&given.knob) {
            Err(MemoryError::Changed { now, .. }) => now.parse::<i16>().ok(),
            Err(e) if !e.is_vanished() => return warn!("{e}"),
            _ => None,
        };
        // Between ours and its own, so it was made from ours.
        if raised.is_some_and(|now| now < given.base) {
            let _ = knob::write(&given.knob, &given.base.to_string()); // it may have exited
        }
    }

    fn sweep(&mut self) {
        let Some(range) = self.range else { return };
        let known = |pid: i32| self.given.contains_key(&pid);
        let base = |at: &DomainPath| strays::base_in(&self.cgroup_root, at, &self.places, range);
        strays::sweep(range, known, base);
    }

    /// Memory is there again.
    fn calm(&mut self) {
        for given in std::mem::take(&mut self.given).into_values() {
            self.put_back(&given);
        }
        self.sweep();
        let report = self.journal.restore_all();
        for complaint in report.complaints {
            warn!("{complaint}");
        }
        self.oomd.forget();
        self.places.clear();
        (self.range, self.sign, self.not_before) = (None, None, None);
    }
}

/// The daemon is what protects memory, and its end ends the scheduler.
fn keep_daemon() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let now = std::fs::read_to_string(FILE).ok();
    let now = now.and_then(|text| text.trim().parse::<i32>().ok());
    if now.is_some_and(|now| now > OWN) {
        if let Err(e) = std::fs::write(FILE, OWN.to_string()) {
            info!("the daemon may be killed when memory runs out: {FILE}: {e}");
        }
    }
}

#[cfg(test)]
mod tests;
