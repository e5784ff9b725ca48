//! Dirty limits by class: what the kernel side and the kernel's flusher are told of them.
//!
//! The kernel side parks the tasks (bpf/disk/dirty.bpf.h). Here the limits become pages, and the
//! flusher is made to follow while tasks are parked, which is called a *flood*:
//!
//!  - `vm.dirty_background_bytes`: it writes back what the machine has above an eighth of the limit
//!    of best-effort tasks. With the kernel's own tenth of memory it would not begin.
//!  - `vm.dirty_writeback_centisecs`: it comes every 10 ms. Otherwise it is woken up by a task that
//!    has dirtied up to some MB since it woke it up last; but a task that is parked at 2 MB dirties
//!    nothing.
//!
//! ```text
//! calm --- a task is parked ---> flood --- no task was parked for 3 s ---> calm
//! ```
//!
//! In between both are as they were, and nothing wakes the daemon. They are in a journal of their
//! own, so they outlive neither the daemon nor its death.
//!
//! Trade: a file that is deleted soon after it was written, such as a compiler's temporary file,
//! may be written to the disk during a flood.

mod order;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aplomb_kernel::{DirtyLimits, Event, Kernel};
use aplomb_memory::meminfo::{field, PATH as MEMINFO};
use aplomb_memory::{cgroup, Journal, MemoryError};
use tracing::warn;

use crate::config::DiskConfig;
use crate::protocol::{Code, DiskChange, Refusal};
use order::Order;

const JOURNAL: &str = "/run/aplomb/disk";
/// The folder of the knobs.
const VM: &str = "/proc/sys/vm";
/// How many dirty pages the machine has when the flusher begins, bytes.
const BACKGROUND: &str = "dirty_background_bytes";
/// How often it comes, hundredths of a second.
const INTERVAL: &str = "dirty_writeback_centisecs";
/// During a flood the flusher begins at this part of the limit of best-effort tasks. Later: the
/// device has less of it to write. Earlier: smaller requests.
const BACKGROUND_PART: u64 = 8;
/// During a flood it comes this often.
const OFTEN: &str = "1";
/// A flood is over when no task was parked for this long. The kernel side reports parks once a
/// second.
const CALM: Duration = Duration::from_secs(3);

/// The flood, if there is one, and the knobs that the daemon has turned for it; the order of
/// requests.
#[derive(Debug, Default)]
pub struct Disk {
    on: Option<On>,
    order: Option<Order>,
}

#[derive(Debug)]
struct On {
    journal: Journal,
    knobs: PathBuf,
    background: u64,
    /// When the flood is over, unless another task is parked.
    until: Option<Instant>,
}

/// The limits in pages; None if there are to be none.
///
/// # Errors
/// The machine's memory is not known.
pub fn limits(config: DiskConfig) -> Result<Option<DirtyLimits>> {
    if !config.limit_dirty {
        return Ok(None);
    }
    let info = std::fs::read_to_string(MEMINFO).with_context(|| format!("reading {MEMINFO}"))?;
    let total = field(&info, "MemTotal:").with_context(|| format!("{MEMINFO}: no MemTotal"))?;
    Ok(Some(in_pages(config, total, cgroup::page_size().0)))
}

fn in_pages(config: DiskConfig, total: u64, page: u64) -> DirtyLimits {
    let part = u128::from(total) * u128::from(config.interactive_dirty_ppm) / 1_000_000;
    let interactive = u64::try_from(part).unwrap_or(u64::MAX);
    DirtyLimits {
        // a small machine: an interactive program may have what others may
        interactive: interactive.max(config.best_effort_dirty).div_ceil(page),
        best_effort: config.best_effort_dirty.div_ceil(page),
    }
}

impl Disk {
    /// Put back what an earlier daemon left. If the journal cannot be used, the flusher is left
    /// alone; the daemon says so and goes on.
    pub fn start(config: DiskConfig) -> Self {
        order::put_back();
        let order = config.order.then(|| Order::new(config));
        if !config.limit_dirty && !Path::new(JOURNAL).exists() {
            return Self { on: None, order };
        }
        let on = On::open(Path::new(JOURNAL), VM.into(), config);
        let on = on.inspect_err(|e| warn!("writers are parked for long: {e}"));
        Self {
            on: on.ok().filter(|_| config.limit_dirty),
            order,
        }
    }

    /// The scheduler is attached.
    pub fn attached(&mut self, kernel: &mut dyn Kernel) {
        if !kernel.orders_disks() {
            if self.order.take().is_some() {
                warn!("disks are not ordered, nor requests counted: that takes Linux 7.0 or newer");
            }
            return;
        }
        if let Some(order) = &mut self.order {
            order.attached(Instant::now(), kernel);
        }
    }

    /// A task was parked because its domain has too many dirty pages, or one waits for a disk, if
    /// `event` says so.
    pub fn follow(&mut self, event: &Event, now: Instant, kernel: &mut dyn Kernel) {
        if let Some(order) = &mut self.order {
            order.follow(event, now, kernel);
        }
        if let Some(on) = self.on.as_mut().filter(|_| event.parked_for_dirty()) {
            on.flood(now);
        }
    }

    /// How the time of disks is shared, in words, after a change. A change that is refused changes
    /// nothing.
    ///
    /// # Errors
    /// Disks are not ordered; a value is out of range; there is no such disk.
    pub fn change(
        &mut self,
        change: &DiskChange,
        kernel: &mut dyn Kernel,
    ) -> Result<String, Refusal> {
        let order = self.order.as_mut().ok_or_else(|| {
            let message = "the requests of disks are not ordered: set `order = true` in [disk]";
            Refusal::new(Code::Invalid, message)
        })?;
        order.change(change, kernel)
    }

    /// When something is due: the flood may be over, or the watch.
    pub fn deadline(&self) -> Option<Instant> {
        let flood = self.on.as_ref().and_then(|on| on.until);
        let watch = self.order.as_ref().and_then(Order::deadline);
        flood.into_iter().chain(watch).min()
    }

    /// The flood is over if no task was parked until `now` for [`CALM`].
    pub fn tick(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        if let Some(order) = &mut self.order {
            order.tick(now, kernel);
        }
        let over = |on: &&mut On| on.until.is_some_and(|until| until <= now);
        if let Some(on) = self.on.as_mut().filter(over) {
            on.calm();
        }
    }

    /// The daemon ends: the knobs and priorities go back.
    pub fn end(&mut self) {
        if let Some(mut order) = self.order.take() {
            order.end();
        }
        if let Some(mut on) = self.on.take() {
            on.calm();
        }
    }
}

impl On {
    fn open(journal: &Path, knobs: PathBuf, config: DiskConfig) -> Result<Self, MemoryError> {
        let mut journal = Journal::open(journal)?;
        for complaint in journal.recover().complaints {
            warn!("{complaint}");
        }
        Ok(Self {
            journal,
            knobs,
            background: config.best_effort_dirty / BACKGROUND_PART,
            until: None,
        })
    }

    fn flood(&mut self, now: Instant) {
        if self.until.replace(now + CALM).is_some() {
            return;
        }
        let background = self.background.to_string();
        // The second one also wakes the flusher up, which then goes by the first.
        for (knob, value) in [(BACKGROUND, background.as_str()), (INTERVAL, OFTEN)] {
            if let Err(e) = self.journal.set(&self.knobs.join(knob), value) {
                warn!("pages are written back late, and tasks wait for that: {e}");
            }
        }
    }

    fn calm(&mut self) {
        self.until = None;
        for complaint in self.journal.restore_all().complaints {
            warn!("{complaint}");
        }
    }
}

/// Put back what a daemon that was killed has left. Returns the knobs that could not be put back.
///
/// # Errors
/// A daemon runs and has the journal open; it cannot be read.
pub fn restore() -> Result<Vec<MemoryError>> {
    order::put_back();
    if !Path::new(JOURNAL).exists() {
        return Ok(Vec::new());
    }
    Ok(Journal::open(Path::new(JOURNAL))?.recover().complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on() -> DiskConfig {
        DiskConfig {
            limit_dirty: true,
            ..DiskConfig::default()
        }
    }

    #[test]
    fn limits_are_whole_pages_of_the_machine() {
        let of = |total, page| {
            let limits = in_pages(on(), total, page);
            (limits.interactive, limits.best_effort)
        };
        assert_eq!(of(2 << 30, 4096), (26_215, 512));
        assert_eq!(of(16 << 20, 4096), (512, 512), "no less than best-effort");
        assert_eq!(of(u64::MAX, 65_536), (14_073_748_835_533, 32));
        assert_eq!(limits(DiskConfig::default()).unwrap(), None);
        assert!(limits(on()).unwrap().is_some());
    }

    #[test]
    fn the_flusher_follows_during_a_flood_and_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
        for (name, value) in [
            (BACKGROUND, "0"),
            ("dirty_background_ratio", "10"),
            (INTERVAL, "500"),
        ] {
            std::fs::write(at(name), value).unwrap();
        }
        let on = On::open(&at("run/disk"), dir.path().into(), on()).unwrap();
        let fake = crate::daemon::testing::Fake::new();
        let mut kernel: Box<dyn Kernel> = Box::new(fake);
        let mut disk = Disk {
            on: Some(on),
            order: None,
        };
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        assert_eq!(disk.deadline(), None, "nothing wakes the daemon");
        disk.on.as_mut().unwrap().flood(start);
        assert_eq!(
            (read(BACKGROUND), read(INTERVAL)),
            ("262144".into(), "1".into())
        );
        // The kernel sets the other file to 0.
        std::fs::write(at("dirty_background_ratio"), "0").unwrap();
        disk.on.as_mut().unwrap().flood(after(2));
        disk.tick(after(4), &mut *kernel);
        assert_eq!(
            disk.deadline(),
            Some(after(5)),
            "a task was parked meanwhile"
        );
        assert_eq!(read(INTERVAL), "1");
        disk.tick(after(5), &mut *kernel);
        assert_eq!(disk.deadline(), None);
        assert_eq!(
            (read("dirty_background_ratio"), read(INTERVAL)),
            ("10".into(), "500".into())
        );
        // A flood at the end of the daemon
        std::fs::write(at(BACKGROUND), "0").unwrap();
        disk.on.as_mut().unwrap().flood(after(9));
        disk.end();
        assert_eq!(read(INTERVAL), "500");
    }
}
