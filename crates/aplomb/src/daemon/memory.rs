//! Protects the memory of interactive programs: gives each a memory domain of its own, and turns
//! the kernel's knobs.
//!
//! 1. **A domain for each**, to which its memory is charged: memory/domain.rs; where systemd is
//!    process 1: memory/units.rs and memory/systemd.rs.
//!
//! 2. **How much.** `aplomb_memory` protects what the program used within its period pi. What one
//!    user's programs have, and what all have, is capped: a user cannot protect more by starting
//!    more programs. The caps follow what the machine has: memory/usable.rs.
//!
//! 3. **Reserve.** Interactive tasks may take the free memory between two watermarks of the kernel,
//!    `min` and `low` (bpf/memory/low.bpf.h). vm.watermark_scale_factor makes that gap as large as
//!    the reserve is to be: memory/machine.rs. While a program grows it is larger:
//!    memory/growth.rs.
//!
//! 4. **Demotion.** If the programs need more than their caps, some are demoted:
//!    memory/shortage.rs.
//!
//! 5. **File pages** that are charged to other cgroups stay: memory/shared.rs.
//!
//! 6. **Reserves by amount.** Of programs: memory/private.rs. Of domains: memory/domains.rs.
//!
//! 7. **Nothing outlives us.** All knobs are in a journal. At the end they get their old values and
//!    all processes in our domains go back to the root, where they came from. After SIGKILL the
//!    next daemon puts the knobs back, and finds the programs in their domains.

mod children;
pub(super) mod domain;
pub mod domains;
mod follow;
mod growth;
mod guard;
mod huge_pages;
pub(super) mod machine;
pub(super) mod pace;
mod private;
mod programs;
mod resident;
mod restore;
mod shared;
mod shortage;
mod systemd;
mod units;
mod usable;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aplomb_domain::{is_booted, Tree};
use aplomb_kernel::{Event, Kernel};
use aplomb_memory::pressure::{Trigger, Waits};
use aplomb_memory::{psap, Bytes, Journal, Mode, Places, Protector};
use tracing::{info, warn};

use super::errands::Errands;
use crate::config::MemoryConfig;
use crate::protocol::{MemoryLine, MemoryTable};
pub use restore::restore;

use children::Children;
use domain::{empty_all, top, Home};
use domains::DomainReservations;
use growth::GrowthBuffer;
use machine::{is_recursive, scale_factor, Counters, MOUNTS, SCALE_FACTOR};
use pace::Pace;
use private::PrivateReserves;
use programs::{Kept, Programs};
use shared::Holding;
use systemd::Units;
use usable::Usable;

/// Programs that are protected at a time: as many as the kernel side has servers, so only a table
/// of processes grows with them. One more is not protected, and the daemon says so once.
const MAX_PROGRAMS: usize = 4096;
const PRESSURE: &str = "/proc/pressure/memory";

/// The protected programs.
pub struct Memory {
    config: MemoryConfig,
    protector: Option<Protector>,
    /// The protected ones.
    programs: Programs,
    /// Interactive ones that the daemon has not looked at yet.
    children: Children,
    /// Those that were demoted, by process id.
    demoted: BTreeMap<i32, Kept>,
    holding: Holding,
    /// Of the looks at programs.
    pace: Pace,
    /// None where systemd is not process 1.
    units: Option<Units>,
    /// Since the last search for a demoted program that fits again, one was protected, looked at or
    /// released.
    room_changed: bool,
    /// Fires when tasks wait for memory. None: no program is demoted.
    pressure: Option<Trigger>,
    waits: Waits,
    growth: Option<GrowthBuffer>,
    private: PrivateReserves,
    of_domains: DomainReservations,
    /// Calls of the service manager, where there is one.
    errands: Option<Errands>,
    /// What programs can have of the machine's memory.
    usable: Usable,
    /// What best-effort work keeps of it, whatever is reserved.
    floor: Bytes,
    /// It was said that [`MAX_PROGRAMS`] are protected.
    said_full: bool,
}

/// How a program is to be protected.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The domain that its spec names, in which it is already.
    pub named: Option<&'a str>,
    /// Its protection period.
    pub pi: Duration,
    /// The private reserve of its spec, bytes.
    pub private: Option<u64>,
    /// Its spec recognises it by its file alone: no other program can pass for it.
    pub exact: bool,
    /// It was matched by itself, so it gets a domain of its own. Otherwise it stays in the domain
    /// of the interactive program that started it.
    pub own: bool,
    /// Its spec lets it be revoked, and so demoted.
    pub revocable: bool,
    /// Its children are interactive, too.
    pub inherit: bool,
    /// It is interactive only where an interactive program starts it: a shell, or `ls`. It is not
    /// protected, since it is short-lived, or starts other work that would be protected with it.
    pub starts_others: bool,
}

impl Memory {
    /// Put back what an earlier daemon left, and take the machine's reserve. If that fails (no
    /// journal of knobs, say), nothing is protected; the daemon says so and goes on.
    pub fn start(config: MemoryConfig, tree: Option<&Tree>) -> Self {
        let mut memory = Self {
            config,
            protector: None,
            programs: Programs::default(),
            children: Children::default(),
            demoted: BTreeMap::new(),
            holding: Holding::default(),
            pace: Pace::default(),
            units: None,
            room_changed: false,
            pressure: None,
            waits: Waits::default(),
            growth: None,
            private: PrivateReserves::default(),
            of_domains: DomainReservations::default(),
            errands: None,
            usable: Usable::default(),
            floor: Bytes(0),
            said_full: false,
        };
        let Some(tree) = tree.filter(|t| t.is_system()) else {
            return memory;
        };
        if let Err(e) = memory.measure_machine() {
            warn!("{e:#}");
        }
        if !config.protect {
            restore::put_back_and_say();
            empty_all(tree);
            return memory;
        }
        let opened = memory.open(tree).and_then(|protector| {
            let units = is_booted().then(Units::new).transpose();
            Ok((protector, units.context("inotify")?))
        });
        match opened {
            Ok((protector, units)) => {
                (memory.protector, memory.units) = (Some(protector), units);
                resident::stay();
            }
            Err(e) => {
                warn!("memory is not protected: {e:#}");
                return memory;
            }
        }
        match Trigger::arm(Path::new(PRESSURE)) {
            Ok(trigger) => memory.pressure = Some(trigger),
            Err(e) => warn!("no program is demoted when memory is short: {e}"),
        }
        memory
    }

    fn open(&mut self, tree: &Tree) -> Result<Protector> {
        let mut journal = Journal::open(Path::new(aplomb_memory::journal::DEFAULT))?;
        let left = journal.recover();
        for complaint in left.complaints {
            warn!("{complaint}");
        }
        let total = self.measure_machine()?;
        if self.config.protect {
            let (now, wanted) = scale_factor(self.config.reserve, total)?;
            if let Some(factor) = wanted {
                journal.set(Path::new(SCALE_FACTOR), &factor.to_string())?;
            }
            huge_pages::scan_in_small_goes(&mut journal);
            let scale = wanted.unwrap_or(now);
            self.growth = GrowthBuffer::new(self.config.growth_buffer, total, scale, wanted);
        }
        let mut protector = Protector::new(Places::system(tree.root()), journal);
        protector.cap(&top(), self.most_of(0));
        let mounts = std::fs::read_to_string(MOUNTS).unwrap_or_default();
        protector.share(Bytes(self.config.shared_reserve), is_recursive(&mounts));
        if let Mode::Uses { why } = protector.mode() {
            info!("memory: the ages of pages are unknown, so whole programs are protected: {why}");
        }
        Ok(protector)
    }

    /// Measure the machine's memory. Returns all that it has, bytes.
    fn measure_machine(&mut self) -> Result<u64> {
        let counters = Counters::read()?;
        let all = counters.all()?;
        self.usable = Usable::first(&counters).context("/proc/meminfo: no MemAvailable")?;
        self.floor = psap::floor(Bytes(all));
        Ok(all)
    }

    /// What can be reserved of the machine's memory.
    fn room(&self) -> Bytes {
        Bytes(self.usable.bytes().0.saturating_sub(self.floor.0))
    }

    /// What the programs of user `uid` may have together; of root: what all may have.
    fn most_of(&self, uid: u32) -> Bytes {
        let ppm = match uid {
            0 => self.config.limit_ppm,
            _ => self.config.user_limit_ppm,
        };
        self.share(ppm).min(self.room())
    }

    fn share(&self, ppm: u64) -> Bytes {
        let usable = u128::from(self.usable.bytes().0);
        Bytes(u64::try_from(usable * u128::from(ppm) / 1_000_000).unwrap_or(0))
    }

    /// The process of `event` became interactive, but not by itself: it is a child, or comes back.
    /// Returns whether it waits until the daemon looks at it (memory/children.rs).
    pub fn look_later(&mut self, event: &Event, now: Instant) -> bool {
        let wanted = self.config.protect && self.protector.is_some();
        let new = self.programs.get(event.pid).is_none();
        wanted && new && self.children.add(event, now)
    }

    /// A process that has waited so until `now`.
    pub fn child_to_look_at(&mut self, now: Instant) -> Option<Event> {
        self.children.take_due(now)
    }

    /// The program of `event` becomes interactive: protect its memory.
    pub fn protect(&mut self, tree: &Tree, event: &Event, wanted: &Wanted) {
        let known = self.programs.get(event.pid).is_some();
        if !self.config.protect || self.protector.is_none() || (known && !wanted.own) {
            return;
        }
        if self.programs.len() >= MAX_PROGRAMS && !known {
            if !std::mem::replace(&mut self.said_full, true) {
                warn!("the memory of {MAX_PROGRAMS} programs is protected: that of more is not");
            }
            return;
        }
        if let Some(units) = &mut self.units {
            if wanted.named.is_none() && !wanted.starts_others {
                units.follow(event, wanted, Instant::now());
            }
        }
        if let Err(e) = self.try_protect(tree, event, wanted) {
            warn!(
                "the memory of process {} is not protected: {e:#}",
                event.pid
            );
        }
    }

    fn try_protect(&mut self, tree: &Tree, event: &Event, wanted: &Wanted) -> Result<()> {
        let Some(home) = domain::settle(tree, event, wanted)? else {
            return Ok(());
        };
        let left = self.programs.get(event.pid);
        if left.is_some_and(|left| left.domain != home.domain) {
            self.withdraw(event.pid);
        }
        if wanted.own {
            self.private_of_spec(event.pid, home.uid, wanted.private);
        }
        self.put(event.pid, home, wanted)
    }

    fn put(&mut self, pid: i32, home: Home, wanted: &Wanted) -> Result<()> {
        let Home {
            domain,
            ours,
            uid,
            unit,
        } = home;
        self.measure_again(Instant::now());
        let most = self.most_of(uid);
        let kept = Kept {
            domain: domain.clone(),
            uid,
            spared: !wanted.revocable,
        };
        self.programs.insert(pid, kept);
        self.demoted.remove(&pid);
        self.room_changed = true;
        self.holding.begin(pid, Instant::now());
        if let Some(unit) = unit {
            self.put_unit(unit, wanted.pi)?;
            self.reserve_privately(&domain);
            return Ok(());
        }
        let Some(protector) = &mut self.protector else {
            return Ok(());
        };
        // Of a domain that is not below ours, the cap is its own.
        let of_user = ours.iter().find(|o| o.parent() == Some(top()));
        protector.cap(of_user.unwrap_or(&domain), most);
        protector.protect(&domain, &ours, wanted.pi, Instant::now())?;
        self.reserve_privately(&domain);
        Ok(())
    }

    /// Process `pid` runs again after more than its period.
    pub fn returned(&mut self, pid: i32) {
        if let Some(units) = &mut self.units {
            units.returned(pid, Instant::now());
        }
        let (Some(kept), Some(protector)) = (self.programs.get(pid), &mut self.protector) else {
            return;
        };
        self.holding.begin(pid, Instant::now());
        if let Err(e) = protector.used(&kept.domain, Instant::now()) {
            warn!("the memory of process {pid} is not protected again: {e}");
        }
    }

    /// True if no task of process `pid`'s domain ran for the protection period.
    pub fn is_withdrawn(&self, pid: i32) -> bool {
        let of = self.programs.get(pid).zip(self.protector.as_ref());
        of.is_some_and(|(kept, p)| p.is_withdrawn(&kept.domain))
    }

    /// Process `pid` is interactive no longer, or has exited.
    pub fn release(&mut self, pid: i32) {
        self.demoted.remove(&pid);
        self.children.forget(pid);
        if let Some(units) = &mut self.units {
            units.forget(pid);
        }
        self.withdraw(pid);
    }

    /// Protect the program no longer.
    fn withdraw(&mut self, pid: i32) -> Option<Kept> {
        let (gone, last) = self.programs.remove(pid)?;
        self.room_changed = true;
        self.holding.release(pid);
        if !last {
            self.reserve_privately(&gone.domain);
            return Some(gone); // another program of the same domain
        }
        if let Some(units) = &mut self.units {
            units.released(&gone.domain, Instant::now());
        }
        let released = self.protector.as_mut().map(|p| p.release(&gone.domain));
        if let Some(Err(e)) = released {
            warn!("{e}");
        }
        Some(gone)
    }

    /// The file that becomes ready when tasks wait for memory.
    pub fn pressure(&self) -> Option<&Trigger> {
        self.pressure.as_ref()
    }

    /// When looks at programs are due.
    fn deadline_of_looks(&self) -> Option<Instant> {
        let looks = self.protector.as_ref().and_then(Protector::deadline);
        let units = self.units.as_ref().and_then(Units::deadline);
        let all = [looks, self.holding.deadline(), units];
        let due = all.into_iter().flatten().min();
        due.map(|due| self.pace.begin_at(due))
    }

    /// The next time at which [`Memory::tick`] or [`Memory::child_to_look_at`] has work. None while
    /// nothing interactive runs.
    pub fn deadline(&self) -> Option<Instant> {
        let looks = self.deadline_of_looks();
        let growth = self.growth.as_ref().and_then(GrowthBuffer::deadline);
        let child = self.children.deadline();
        let usable = self.usable.due();
        let all = [looks, growth, child, usable];
        all.into_iter().flatten().min()
    }

    /// Look at the working sets that are due, at the units, and whether a demoted program fits
    /// again.
    pub fn tick(&mut self, tree: Option<&Tree>, now: Instant, kernel: &mut dyn Kernel) {
        self.look_at_growth(now, kernel);
        if self.usable.due().is_some_and(|at| at <= now) {
            self.measure_again(now);
        }
        if self.deadline_of_looks().is_some_and(|at| at <= now) {
            let begun = pace::ran();
            self.look(tree, now);
            self.pace
                .ended(Instant::now(), pace::ran().saturating_sub(begun));
        }
        self.promote_if_room(kernel);
    }

    fn look(&mut self, tree: Option<&Tree>, now: Instant) {
        let look = self.protector.as_ref().and_then(Protector::deadline);
        let looked = look.is_some_and(|at| at <= now);
        self.room_changed |= looked;
        if looked {
            self.measure_again(now);
        }
        let complaints = self.protector.as_mut().map(|p| p.tick(now));
        for complaint in complaints.into_iter().flatten() {
            warn!("{complaint}");
        }
        if let Some(tree) = tree {
            self.tick_units(tree, looked, now);
        }
        self.hold_shared(now, looked);
    }

    /// The daemon ends: all knobs and processes go back.
    pub fn end(&mut self, tree: Option<&Tree>) {
        let reserved = self.domains_that_need();
        self.units = None;
        self.growth = None;
        let ended = self.protector.take().map(|mut p| p.end());
        for complaint in ended.into_iter().flat_map(|report| report.complaints) {
            warn!("{complaint}");
        }
        self.of_domains = DomainReservations::default();
        if let Some(tree) = tree {
            if let Err(e) = domains::note(tree, &reserved) {
                warn!("{e}");
            }
        }
        self.programs = Programs::default();
        self.demoted.clear();
        self.holding = Holding::default();
        if let Some(tree) = tree {
            empty_all(tree);
        }
    }

    /// The protected domains, for people.
    pub fn table(&self) -> Option<MemoryTable> {
        let protector = self.protector.as_ref().filter(|_| self.config.protect)?;
        let lines = protector.table(Instant::now()).into_iter();
        Some(MemoryTable {
            by_age: protector.mode() == Mode::Ages,
            held: self.holding.bytes().0,
            domains: lines
                .map(|l| MemoryLine {
                    path: l.path.to_string(),
                    pi_ms: l.pi_ms,
                    usage: l.usage.0,
                    private: l.private.0,
                    working_set: l.working_set.map(|b| b.0),
                    protected: match l.protection {
                        aplomb_memory::Protection::None => Some(0),
                        aplomb_memory::Protection::Bytes(b) => Some(b.0),
                        aplomb_memory::Protection::Whole => None,
                    },
                    limited_by: l.limited_by.map(|p| p.to_string()),
                })
                .collect(),
        })
    }
}
