//! The order of disks' requests: which disks there are, when they are watched, and the priority of
//! interactive programs.
//!
//! The kernel side sees each request and decides (bpf/policy/cello.h), but only while it is asked
//! to watch, since that costs some percent of a fast disk's requests:
//!
//! ```text
//! calm --- a task of a class or a domain with a share waits for a disk ---> watched
//!   ^                                                                          |
//!   +----------------------- none has waited for 3 s --------------------------+
//! ```
//!
//! With `account = true` all requests are counted, also while disks are not watched
//! (bpf/disk/account.bpf.h). The daemon then looks for new disks every 10 s.
//!
//! An interactive program is known to the kernel side, and to the kernel's own schedulers of disks,
//! by the priority of its threads ([`aplomb_disk::priority`]). It gets it when it is admitted. A
//! child that is not interactive has it from its parent at first, so when the watch begins, and
//! during it each time that it is prolonged, all threads are looked through.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aplomb_disk::{priority, Disk, Priority};
use aplomb_kernel::{
    limits, DiskShares, Event, EventKind, Kernel, OrderedDisk, Server, ServerState,
};
use tracing::warn;

use crate::config::{check_disk_weight, check_round, DiskConfig};
use crate::protocol::{Code, DiskChange, Refusal};

/// The disks are watched until no task of the first groups has waited for one for this long.
const CALM: Duration = Duration::from_secs(3);
/// How often to look for new disks, while all requests are counted. Until the look after it was
/// plugged in, a disk's are not.
const NEW_DISKS: Duration = Duration::from_secs(10);
const PROC: &str = "/proc";
/// This file is there while threads may have priorities of ours.
const GIVEN: &str = "/run/aplomb/disk-priorities";
const SYS: &str = "/sys";

/// Whether the disks are watched.
#[derive(Debug)]
pub struct Order {
    shares: DiskShares,
    /// All requests are counted.
    account: bool,
    /// Disks that an administrator has left out, by name.
    stopped: BTreeSet<String>,
    /// Where procfs is mounted, and [`GIVEN`].
    proc: PathBuf,
    given: PathBuf,
    /// The disks cannot be watched, and a warning has said so.
    failed: bool,
    /// When to see whether they still have to be. None: they are not watched.
    look_at: Option<Instant>,
    /// When to look for new disks, if all requests are counted.
    new_disks_at: Option<Instant>,
}

impl Order {
    pub fn new(config: DiskConfig) -> Self {
        Self {
            account: config.account,
            ..Self::at(config.shares, PROC.into(), GIVEN.into())
        }
    }

    fn at(shares: DiskShares, proc: PathBuf, given: PathBuf) -> Self {
        Self {
            shares,
            account: false,
            stopped: BTreeSet::new(),
            proc,
            given,
            failed: false,
            look_at: None,
            new_disks_at: None,
        }
    }

    /// The scheduler is attached: the interactive programs get their priority.
    pub fn attached(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        self.look_at = None;
        self.tell(kernel);
        self.review(kernel);
        if !self.account {
            return;
        }
        match kernel.count_disks() {
            Ok(()) => self.new_disks_at = Some(now + NEW_DISKS),
            Err(e) => warn!("requests are counted only while disks are watched: {e}"),
        }
    }

    /// Tell the kernel side which disks there are: one may have been plugged in.
    fn tell(&self, kernel: &mut dyn Kernel) {
        let disks = aplomb_disk::disks(Path::new(SYS));
        let disks = disks.inspect_err(|e| warn!("disks are not ordered: {e}"));
        let disks = disks.unwrap_or_default();
        if let Err(e) = kernel.order_disks(&ordered(&disks, &self.stopped), self.shares) {
            warn!("disks are not ordered: {e}");
        }
    }

    /// Change the shares, or which disks are ordered. Returns how things are then, in words.
    ///
    /// # Errors
    /// A value is out of range, or there is no such disk. Nothing is changed.
    pub fn change(
        &mut self,
        change: &DiskChange,
        kernel: &mut dyn Kernel,
    ) -> Result<String, Refusal> {
        let invalid = |what: &str, m: String| Refusal::new(Code::Invalid, format!("{what}{m}"));
        let mut shares = self.shares;
        if let Some(ns) = change.round_ns {
            let checked = check_round(ns);
            shares.round_ns = checked.map_err(|m| invalid("a round ", m))?;
        }
        for (name, weight, share) in [
            (
                "soft-real-time: ",
                change.soft_real_time,
                &mut shares.soft_real_time,
            ),
            ("interactive: ", change.interactive, &mut shares.interactive),
            ("rest: ", change.rest, &mut shares.rest),
        ] {
            if let Some(weight) = weight {
                *share = check_disk_weight(weight.into()).map_err(|m| invalid(name, m))?;
            }
        }
        let disks = aplomb_disk::disks(Path::new(SYS)).unwrap_or_default();
        for name in [&change.start, &change.stop].into_iter().flatten() {
            if !disks.iter().any(|d| d.name == *name) {
                return Err(invalid("there is no disk ", aplomb_spec::shorten(name)));
            }
        }
        self.shares = shares;
        self.stopped.extend(change.stop.clone());
        if let Some(name) = &change.start {
            self.stopped.remove(name);
        }
        if !change.is_question() {
            self.tell(kernel);
        }
        Ok(self.in_words())
    }

    fn in_words(&self) -> String {
        let s = &self.shares;
        let mut text = format!(
            "round {}; of what domains leave: soft-real-time {}, interactive {}, rest {}",
            aplomb_spec::format_duration(s.round_ns),
            s.soft_real_time,
            s.interactive,
            s.rest
        );
        if !self.stopped.is_empty() {
            let names: Vec<&str> = self.stopped.iter().map(String::as_str).collect();
            text += &format!("; not ordered: {}", names.join(", "));
        }
        text
    }

    /// Do what `event` asks for.
    pub fn follow(&mut self, event: &Event, now: Instant, kernel: &mut dyn Kernel) {
        match event.kind {
            EventKind::Disk if self.look_at.is_none() => {
                self.tell(kernel);
                // Also if it fails: the next attempt is not before that.
                self.look_at = Some(now + CALM);
                let failed = kernel.watch_disks(true).err();
                if let Some(e) = failed.as_ref().filter(|_| !self.failed) {
                    warn!("disks are not ordered: {e}");
                }
                self.failed = failed.is_some();
                self.review(kernel);
            }
            EventKind::Admitted | EventKind::Guaranteed | EventKind::Reactivated => {
                let server = kernel.servers().unwrap_or_default();
                let found = server.iter().find(|s| s.pid == event.pid);
                if let Some(server) = found.filter(|s| is_served(s)) {
                    self.give(server);
                }
            }
            _ => {}
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.look_at.into_iter().chain(self.new_disks_at).min()
    }

    /// Stop watching if no task of the first groups has waited for [`CALM`]. Look for new disks if
    /// that is due.
    pub fn tick(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        if self.new_disks_at.is_some_and(|at| at <= now) {
            self.new_disks_at = Some(now + NEW_DISKS);
            self.tell(kernel);
        }
        if self.look_at.is_none_or(|at| now < at) {
            return;
        }
        let since = clock_ns().saturating_sub(kernel.disk_wanted_ns());
        let left = CALM.saturating_sub(Duration::from_nanos(since));
        if left > Duration::ZERO {
            self.tell(kernel);
            self.review(kernel);
            self.look_at = Some(now + left);
            return;
        }
        self.look_at = None;
        if let Err(e) = kernel.watch_disks(false) {
            warn!("{e}");
        }
    }

    /// The daemon ends: no thread keeps a priority of ours.
    pub fn end(&mut self) {
        put_back_at(&self.proc, &self.given);
    }

    fn give(&self, server: &Server) {
        let chosen = Some(server.spec.io_priority).filter(|p| *p <= 7);
        let priority = Priority::interactive(server.spec.period_ns, chosen);
        if !self.given.exists() {
            if let Err(e) = std::fs::write(&self.given, "") {
                warn!("{}: {e}", self.given.display());
                return; // it could not be put back
            }
        }
        priority::give(&self.proc, server.pid, priority);
    }

    /// Each thread has the priority that it should have.
    fn review(&self, kernel: &dyn Kernel) {
        let servers = match kernel.servers() {
            Ok(servers) => servers,
            Err(e) => {
                warn!("interactive programs do not go first at disks: {e}");
                return;
            }
        };
        let mut pids: Vec<i32> = Vec::new();
        for server in servers.iter().filter(|s| is_served(s)) {
            self.give(server);
            pids.push(server.pid);
        }
        pids.sort_unstable();
        if self.given.exists() {
            // Only where the main thread has one, as a child has: a machine may have a hundred
            // thousand threads.
            priority::take_back(&self.proc, |pid| {
                pids.binary_search(&pid).is_err() && Priority::of(pid).is_ok_and(Priority::is_ours)
            });
        }
    }
}

/// Take our priorities back from all threads, if a daemon that was killed has left some.
pub fn put_back() {
    put_back_at(Path::new(PROC), Path::new(GIVEN));
}

fn put_back_at(proc: &Path, given: &Path) {
    if given.exists() {
        priority::take_back(proc, |_| true);
        let _ = std::fs::remove_file(given); // the next one takes nothing back
    }
}

fn is_served(server: &Server) -> bool {
    server.state == ServerState::Admitted
}

/// CLOCK_MONOTONIC, ns.
fn clock_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap_or(0)
}

/// The disks by index, without those that are `stopped`, and for each volume the index of the first
/// disk that its requests go to.
/// Beyond [`limits::MAX_DISKS`] a disk is left out, and what is on it.
fn ordered(disks: &[Disk], stopped: &BTreeSet<String>) -> Vec<OrderedDisk> {
    let is_disk = |d: &&Disk| d.below.is_empty() && d.file.is_none() && !stopped.contains(&d.name);
    let real = disks.iter().filter(is_disk);
    let indices: Vec<&str> = real
        .map(|d| d.name.as_str())
        .take(limits::MAX_DISKS as usize)
        .collect();
    let found = disks.iter().filter_map(|d| {
        let index = indices.iter().position(|name| *name == bottom(d, disks))?;
        Some(OrderedDisk {
            major: d.number.major,
            minor: d.number.minor,
            disk: u32::try_from(index).ok()?,
        })
    });
    found.take(limits::MAX_VOLUMES as usize).collect()
}

/// The name of the disk at the bottom of `disk`. A volume may be on volumes; the kernel allows no
/// circle, and sysfs could show one while it changes.
fn bottom<'a>(disk: &'a Disk, disks: &'a [Disk]) -> &'a str {
    let mut at = disk;
    for _ in 0..8 {
        // what is below may be a partition: sda1 is on sda
        let below = at.below.first().and_then(|name| {
            let on = |d: &&Disk| name.starts_with(d.name.as_str());
            disks.iter().filter(on).max_by_key(|d| d.name.len())
        });
        match below {
            Some(next) => at = next,
            None => break,
        }
    }
    &at.name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::{event, Fake};

    fn disk(name: &str, minor: u32, below: &[&str]) -> Disk {
        Disk {
            name: name.into(),
            number: aplomb_disk::Number { major: 8, minor },
            size_bytes: 1 << 30,
            scheduler: None,
            queues: 1,
            rotational: false,
            removable: false,
            below: below.iter().map(|b| (*b).into()).collect(),
            file: None,
            done: aplomb_disk::Done::default(),
        }
    }

    #[test]
    fn a_volume_is_its_disk() {
        let disks = [
            disk("dm-0", 1, &["sdb2"]),
            disk("dm-1", 2, &["dm-0"]),
            disk("sda", 3, &[]),
            disk("sdb", 4, &[]),
        ];
        let all = BTreeSet::new();
        let found = |stopped: &BTreeSet<String>| -> Vec<(u32, u32)> {
            let found = ordered(&disks, stopped);
            found.iter().map(|d| (d.minor, d.disk)).collect()
        };
        assert_eq!(found(&all), [(1, 1), (2, 1), (3, 0), (4, 1)]);
        assert_eq!(found(&BTreeSet::from(["sdb".to_owned()])), [(3, 0)]);
        let many: Vec<_> = (0..40).map(|i| disk(&format!("x{i}y"), i, &[])).collect();
        assert_eq!(ordered(&many, &all).len(), limits::MAX_DISKS as usize);
        let circle = [disk("a", 1, &["b"]), disk("b", 2, &["a"])];
        assert!(ordered(&circle, &all).is_empty());
    }

    #[test]
    fn shares_change_as_a_whole() {
        let mut kernel: Box<dyn Kernel> = Box::new(Fake::new());
        let shares = DiskConfig::default().shares;
        let mut order = Order::at(shares, "/none".into(), "/none".into());
        let none = DiskChange::default();
        let before = order.change(&none, &mut *kernel).unwrap();
        assert!(before.starts_with("round 1s; "), "{before}");
        let wrong = DiskChange {
            interactive: Some(60),
            rest: Some(0),
            ..none.clone()
        };
        let e = order.change(&wrong, &mut *kernel).unwrap_err();
        assert_eq!(e.message, "rest: 0 is not between 1 and 10000");
        let missing = DiskChange {
            rest: Some(7),
            stop: Some("no-such-disk".into()),
            ..none.clone()
        };
        assert!(order.change(&missing, &mut *kernel).is_err());
        assert_eq!(order.change(&none, &mut *kernel).unwrap(), before);
        let right = DiskChange {
            rest: Some(7),
            round_ns: Some(500_000_000),
            ..none
        };
        let after = order.change(&right, &mut *kernel).unwrap();
        assert!(
            after.starts_with("round 500ms; ") && after.ends_with("rest 7"),
            "{after}"
        );
    }

    #[test]
    fn new_disks_are_counted_too() {
        let fake = Fake::new();
        let mut kernel: Box<dyn Kernel> = Box::new(fake.clone());
        let none = DiskConfig::default();
        let start = Instant::now();
        let mut order = Order::at(none.shares, "/none".into(), "/none".into());
        order.attached(start, &mut *kernel);
        assert!(!fake.seen.borrow().counted);
        assert_eq!(order.deadline(), None, "nothing wakes the daemon");
        order.account = true;
        order.attached(start, &mut *kernel);
        assert!(fake.seen.borrow().counted && !fake.seen.borrow().watched);
        assert_eq!(order.deadline(), Some(start + NEW_DISKS));
        let told = fake.seen.borrow().disks_told;
        order.tick(start + NEW_DISKS, &mut *kernel);
        assert_eq!(fake.seen.borrow().disks_told, told + 1);
        assert_eq!(order.deadline(), Some(start + NEW_DISKS + NEW_DISKS));
        let mut waits = event(1, 7);
        waits.kind = EventKind::Disk;
        order.follow(&waits, start, &mut *kernel);
        assert_eq!(order.deadline(), Some(start + CALM), "whichever is first");
    }

    #[test]
    fn disks_are_watched_while_somebody_waits() {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::new();
        let mut kernel: Box<dyn Kernel> = Box::new(fake.clone());
        let at = |name: &str| dir.path().join(name);
        let shares = DiskConfig::default().shares;
        let mut order = Order::at(shares, at("proc"), at("given"));
        let start = Instant::now();
        let mut waits = event(1, 7);
        order.follow(&waits, start, &mut *kernel);
        assert_eq!(order.deadline(), None, "another event");
        waits.kind = EventKind::Disk;
        order.follow(&waits, start, &mut *kernel);
        assert!(fake.seen.borrow().watched);
        assert_eq!(order.deadline(), Some(start + CALM));
        fake.seen.borrow_mut().disk_wanted_ns = clock_ns();
        order.tick(start + CALM, &mut *kernel);
        assert!(fake.seen.borrow().watched, "one waited meanwhile");
        assert!(order.deadline().is_some_and(|at| at > start + CALM));
        fake.seen.borrow_mut().disk_wanted_ns = 0;
        order.tick(start + CALM + CALM, &mut *kernel);
        assert!(!fake.seen.borrow().watched);
        assert_eq!(order.deadline(), None);
        assert!(!at("given").exists(), "no program is interactive");
        let film = crate::daemon::testing::server(7, Vec::new());
        fake.seen.borrow_mut().servers = vec![film];
        let mut admitted = event(2, 7);
        admitted.kind = EventKind::Admitted;
        order.follow(&admitted, start, &mut *kernel);
        assert!(at("given").exists());
        order.end();
        assert!(!at("given").exists());
    }
}
