//! Protects the memory of interactive programs: gives each a memory domain of its own, and turns
//! the kernel's knobs.
//!
//! 1. **A domain for each.** Memory is charged by cgroup. So a program that becomes interactive is
//!    moved into the domain `aplomb/UID/NAME-PID`, before it has touched much, unless its spec
//!    names a domain. The kernel side leaves these out of the tree of shares, so the program keeps
//!    its place there. Its children stay with it. An empty domain is removed. A program in another
//!    cgroup than the root is not moved, since it would escape that one's limits. If it is alone
//!    there, and is recognised by its file, the cgroup is protected as it is.
//!
//! 2. **How much.** `aplomb_memory` protects what the program used within its period pi. What one
//!    user's programs have, and what all have, is capped: a user cannot protect more by starting
//!    more programs.
//!
//! 3. **Reserve.** Interactive tasks may take the free memory between two watermarks of the kernel,
//!    `min` and `low` (bpf/memory/low.bpf.h). vm.watermark_scale_factor makes that gap as large as
//!    the reserve is to be.
//!
//! 4. **Nothing outlives us.** All knobs are in a journal. At the end they get their old values and
//!    all processes in our domains go back to the root, where they came from. After SIGKILL the
//!    next daemon puts the knobs back, and finds the programs in their domains.
//!
//! Where systemd is process 1, it owns the tree, and only domains that a spec names are protected.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aplomb_domain::{is_booted, DomainError, DomainPath, Tree, EPHEMERAL};
use aplomb_kernel::Event;
use aplomb_memory::{Bytes, Journal, Mode, Places, Protector};
use tracing::{info, warn};

use super::domains::place::{Placed, Proven};
use crate::config::MemoryConfig;
use crate::domains::with_manager;
use crate::protocol::{MemoryLine, MemoryTable};

/// The domain of all interactive programs: MEMORY_CGROUP in bpf/intf.h.
const TOP: &str = "aplomb";
/// Bytes of a program's name in the name of its domain.
const MAX_NAME: usize = 15;
/// What all of the machine's memory is for vm.watermark_scale_factor.
const SCALE: u64 = 10_000;
/// Its largest value.
const MAX_SCALE: u64 = 3000;
/// Programs that are protected at a time. A look, and each new program, costs time that grows with
/// their number. One more is not protected, and the daemon says so once.
const MAX_PROGRAMS: usize = 256;
/// How often the processes of a domain are listed until none is left: several hundred each time,
/// and some may fork meanwhile.
const ROUNDS: usize = 64;
const MEMINFO: &str = "/proc/meminfo";
const SCALE_FACTOR: &str = "/proc/sys/vm/watermark_scale_factor";

/// The protected programs.
pub struct Memory {
    config: MemoryConfig,
    protector: Option<Protector>,
    /// The domain of each, by process id.
    programs: BTreeMap<i32, DomainPath>,
    total: Bytes,
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
    /// Its spec recognises it by its file alone: no other program can pass for it.
    pub exact: bool,
    /// It was matched by itself, so it gets a domain of its own. Otherwise it stays in the domain
    /// of the interactive program that started it.
    pub own: bool,
}

impl Memory {
    /// Put back what an earlier daemon left, and take the machine's reserve. If that fails (no
    /// journal of knobs, say), nothing is protected; the daemon says so and goes on.
    pub fn start(config: MemoryConfig, tree: Option<&Tree>) -> Self {
        let mut memory = Self {
            config,
            protector: None,
            programs: BTreeMap::new(),
            total: Bytes(0),
            said_full: false,
        };
        let Some(tree) = tree.filter(|t| config.protect && t.is_system()) else {
            return memory;
        };
        match memory.open(tree) {
            Ok(protector) => memory.protector = Some(protector),
            Err(e) => warn!("memory is not protected: {e:#}"),
        }
        memory
    }

    fn open(&mut self, tree: &Tree) -> Result<Protector> {
        let mut journal = Journal::open(Path::new(aplomb_memory::journal::DEFAULT))?;
        let left = journal.recover();
        for complaint in left.complaints {
            warn!("{complaint}");
        }
        let info =
            std::fs::read_to_string(MEMINFO).with_context(|| format!("reading {MEMINFO}"))?;
        let field = |name| field(&info, name).with_context(|| format!("{MEMINFO}: no {name}"));
        self.total = usable_memory(&info).with_context(|| format!("{MEMINFO}: no MemAvailable"))?;
        if let Some(factor) = scale_factor(self.config.reserve, field("MemTotal:")?)? {
            journal.set(Path::new(SCALE_FACTOR), &factor.to_string())?;
        }
        let mut protector = Protector::new(Places::system(tree.root()), journal);
        protector.cap(&top(), self.share(self.config.limit_ppm));
        if let Mode::Uses { why } = protector.mode() {
            info!("memory: the ages of pages are unknown, so whole programs are protected: {why}");
        }
        Ok(protector)
    }

    fn share(&self, ppm: u64) -> Bytes {
        Bytes(u64::try_from(u128::from(self.total.0) * u128::from(ppm) / 1_000_000).unwrap_or(0))
    }

    /// The program of `event` becomes interactive: protect its memory.
    pub fn protect(&mut self, tree: &Tree, event: &Event, wanted: &Wanted) {
        let known = self.programs.contains_key(&event.pid);
        if self.protector.is_none() || (known && !wanted.own) {
            return;
        }
        if self.programs.len() >= MAX_PROGRAMS && !known {
            if !std::mem::replace(&mut self.said_full, true) {
                warn!("the memory of {MAX_PROGRAMS} programs is protected: that of more is not");
            }
            return;
        }
        if let Err(e) = self.try_protect(tree, event, wanted) {
            warn!(
                "the memory of process {} is not protected: {e:#}",
                event.pid
            );
        }
    }

    fn try_protect(&mut self, tree: &Tree, event: &Event, wanted: &Wanted) -> Result<()> {
        let Some(process) = Proven::of(event) else {
            return Ok(());
        };
        let uid = process.uid;
        let (domain, ours) = match wanted.named {
            Some(name) => {
                let path: DomainPath = name.parse().map_err(anyhow::Error::msg)?;
                let domain = with_manager(tree, |m| m.place(&path))?;
                if !is_booted() {
                    tree.give_memory(&domain)?;
                }
                (domain, Vec::new())
            }
            None if is_booted() => return Ok(()),
            None if !may_move(process.cgroup.as_ref()) => {
                let Some(domain) = process.cgroup.filter(|_| wanted.exact) else {
                    return Ok(());
                };
                if tree.pids(&tree.open(&domain)?)? != [event.pid] {
                    return Ok(());
                }
                (domain, Vec::new())
            }
            None => {
                let of_user = child(&top(), &uid.to_string())?;
                let domain = child(&of_user, &domain_name(event))?;
                let place = if wanted.own { domain.clone() } else { top() };
                let there = process.cgroup.clone();
                match process.enter(tree, &domain, &place, || make(tree, &domain))? {
                    Placed::Exited => return Ok(()),
                    // Its parent's domain, or an earlier daemon has moved it.
                    Placed::AlreadyThere => {
                        let domain = there.unwrap_or(domain);
                        let above = std::iter::successors(domain.parent(), DomainPath::parent);
                        let ours = above.collect();
                        (domain, ours)
                    }
                    Placed::Moved => (domain, vec![top(), of_user]),
                }
            }
        };
        let left = self.programs.get(&event.pid);
        if left.is_some_and(|left| *left != domain) {
            self.release(event.pid);
        }
        self.put(event.pid, uid, domain, &ours, wanted.pi)
    }

    fn put(
        &mut self,
        pid: i32,
        uid: u32,
        domain: DomainPath,
        ours: &[DomainPath],
        pi: Duration,
    ) -> Result<()> {
        let most = match uid {
            0 => self.config.limit_ppm,
            _ => self.config.user_limit_ppm,
        };
        let most = self.share(most);
        self.programs.insert(pid, domain.clone());
        let Some(protector) = &mut self.protector else {
            return Ok(());
        };
        // Of a domain that is not below ours, the cap is its own.
        let of_user = ours.iter().find(|o| o.parent() == Some(top()));
        protector.cap(of_user.unwrap_or(&domain), most);
        Ok(protector.protect(&domain, ours, pi, Instant::now())?)
    }

    /// Process `pid` runs again after more than its period.
    pub fn returned(&mut self, pid: i32) {
        let (Some(domain), Some(protector)) = (self.programs.get(&pid), &mut self.protector) else {
            return;
        };
        if let Err(e) = protector.used(domain, Instant::now()) {
            warn!("the memory of process {pid} is not protected again: {e}");
        }
    }

    /// Process `pid` is interactive no longer, or has exited.
    pub fn release(&mut self, pid: i32) {
        let Some(gone) = self.programs.remove(&pid) else {
            return;
        };
        if self.programs.values().any(|domain| *domain == gone) {
            return; // another program of the same domain
        }
        let released = self.protector.as_mut().map(|p| p.release(&gone));
        if let Some(Err(e)) = released {
            warn!("{e}");
        }
    }

    /// The next time at which [`Memory::tick`] has work. None while nothing interactive runs.
    pub fn deadline(&self) -> Option<Instant> {
        self.protector.as_ref().and_then(Protector::deadline)
    }

    /// Look at the working sets that are due.
    pub fn tick(&mut self, now: Instant) {
        let complaints = self.protector.as_mut().map(|p| p.tick(now));
        for complaint in complaints.into_iter().flatten() {
            warn!("{complaint}");
        }
    }

    /// The daemon ends: all knobs and processes go back.
    pub fn end(&mut self, tree: Option<&Tree>) {
        let ended = self.protector.take().map(|mut p| p.end());
        for complaint in ended.into_iter().flat_map(|report| report.complaints) {
            warn!("{complaint}");
        }
        self.programs.clear();
        let Some(tree) = tree else { return };
        let Ok(walk) = tree.walk(&top()) else { return };
        for found in walk.domains.iter().rev() {
            if let Err(e) = empty(tree, &found.path) {
                warn!("processes stay in {}: {e}", found.path);
            }
            let _ = tree.remove(&found.path); // it has processes, or was removed meanwhile
        }
    }

    /// The protected domains, for people.
    pub fn table(&self) -> Option<MemoryTable> {
        let protector = self.protector.as_ref()?;
        let lines = protector.table(Instant::now()).into_iter();
        Some(MemoryTable {
            by_age: protector.mode() == Mode::Ages,
            domains: lines
                .map(|l| MemoryLine {
                    path: l.path.to_string(),
                    pi_ms: l.pi_ms,
                    usage: l.usage.0,
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

fn top() -> DomainPath {
    child(&DomainPath::root(), TOP).unwrap_or_else(|_| DomainPath::root())
}

fn child(path: &DomainPath, name: &str) -> Result<DomainPath> {
    path.child(name).map_err(anyhow::Error::msg)
}

/// True for a process in the root or below our domain. From elsewhere no process is moved: it would
/// escape the limits and the shares of its cgroup.
fn may_move(cgroup: Option<&DomainPath>) -> bool {
    cgroup.is_some_and(|at| at.is_root() || top().holds(at))
}

/// The name of a program's domain: what is harmless of the program's name, and its process id.
fn domain_name(event: &Event) -> String {
    let name = aplomb_kernel::comm_text(&event.comm);
    let harmless = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().filter(harmless).take(MAX_NAME).collect();
    let name = name.trim_start_matches('-');
    if name.is_empty() {
        return format!("program-{}", event.pid);
    }
    format!("{name}-{}", event.pid)
}

/// Create a program's domain, which is removed when the program has exited.
fn make(tree: &Tree, domain: &DomainPath) -> Result<(), DomainError> {
    match tree.create_for_memory(domain)? {
        None => Err(DomainError::State {
            path: tree.root().into(),
            why: "it has no memory controller",
        }),
        Some(made) if made.last() == Some(domain) => {
            tree.set_mark(&tree.open(domain)?, EPHEMERAL, Some("1"))
        }
        Some(_) => Ok(()),
    }
}

/// Move all processes of `domain` to the root: all that we moved came from there (may_move()).
fn empty(tree: &Tree, domain: &DomainPath) -> Result<(), DomainError> {
    let dir = match tree.open(domain) {
        Err(DomainError::Missing(_)) => return Ok(()), // all have exited
        opened => opened?,
    };
    let root = tree.open(&DomainPath::root())?;
    for _ in 0..ROUNDS {
        let pids = tree.pids(&dir)?;
        if pids.is_empty() {
            break;
        }
        for pid in pids {
            match tree.move_pid(&root, pid) {
                Ok(()) | Err(DomainError::State { .. }) => {} // it has exited
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// The memory that programs can have: what is available, and what programs have already. Without
/// what the kernel itself, its drivers and reserved huge pages keep.
fn usable_memory(info: &str) -> Option<Bytes> {
    let in_use = ["Active(anon):", "Inactive(anon):"].map(|f| field(info, f).unwrap_or(0));
    let in_use = in_use[0].saturating_add(in_use[1]);
    Some(Bytes(field(info, "MemAvailable:")?.saturating_add(in_use)))
}

/// A field of /proc/meminfo, bytes.
fn field(info: &str, name: &str) -> Option<u64> {
    let line = info.lines().find_map(|l| l.strip_prefix(name))?;
    let kb: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kb.checked_mul(1024)
}

/// The vm.watermark_scale_factor at which `reserve` bytes lie between two watermarks. None if the
/// machine has that much there already.
fn scale_factor(reserve: u64, total: u64) -> Result<Option<u64>> {
    let text =
        std::fs::read_to_string(SCALE_FACTOR).with_context(|| format!("reading {SCALE_FACTOR}"))?;
    let now: u64 = text
        .trim()
        .parse()
        .with_context(|| format!("{SCALE_FACTOR}: \"{}\"", text.trim()))?;
    let wanted = wanted_scale(reserve, total);
    Ok((wanted > now).then_some(wanted))
}

fn wanted_scale(reserve: u64, total: u64) -> u64 {
    let scale = u128::from(reserve) * u128::from(SCALE);
    let wanted = scale.div_ceil(u128::from(total.max(1)));
    u64::try_from(wanted).unwrap_or(MAX_SCALE).min(MAX_SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::event;

    #[test]
    fn the_reserve_is_a_part_of_memory() {
        assert_eq!(wanted_scale(8 << 20, 768 << 20), 105); // 1 %
        assert_eq!(wanted_scale(8 << 20, 64 << 30), 2);
        assert_eq!(wanted_scale(0, 64 << 30), 0);
        assert_eq!(wanted_scale(1 << 30, 1 << 30), MAX_SCALE);
        let text = "MemTotal: 9999 kB\nMemAvailable:  1024 kB\nActive(anon): 3 kB\n";
        assert_eq!(usable_memory(text), Some(Bytes(1027 << 10)));
        assert_eq!(usable_memory("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn a_domain_is_named_after_what_is_harmless_of_a_program() {
        let mut e = event(1, 812);
        for (comm, name) in [
            ("mplayer", "mplayer-812"),
            ("../../x y", "xy-812"),
            ("--help", "help-812"),
            ("/", "program-812"),
        ] {
            e.comm = [0; 16];
            e.comm[..comm.len()].copy_from_slice(comm.as_bytes());
            assert_eq!(domain_name(&e), name);
            assert!(top().child(&domain_name(&e)).is_ok());
        }
    }
}
