//! Reports what this kernel and machine can and cannot do, for `aplomb doctor` and for error
//! messages.
//!
//! All facts are read from /proc and /sys. Reading them needs no privilege and changes nothing.
//! Tests use another root directory, which contains its own /proc and /sys.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::btf::Types;
use crate::distribution::{Distribution, Family};
use crate::{limits, scheduler, CpuCapacities, LoadError};

/// How serious a finding is for aplomb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// aplomb works, but less well or untested.
    Warn,
    /// aplomb cannot run.
    Fail,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Short name; scripts can rely on it.
    pub name: String,
    pub level: Level,
    /// What was found on this machine.
    pub found: String,
    /// Why the finding matters; empty if all is well.
    pub why: String,
    /// What the user can change; empty if nothing.
    pub change: String,
}

/// A machine, seen through its /proc and /sys.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

/// Capabilities that loading needs, with their bits in CapEff (include/uapi/linux/capability.h).
const CAPABILITIES: [(&str, u32); 3] =
    [("CAP_BPF", 39), ("CAP_PERFMON", 38), ("CAP_SYS_ADMIN", 21)];

/// Oldest kernel that the lab tests.
const OLDEST_TESTED: (u32, u32) = (6, 16);
/// First kernel with sched_ext upstream.
const OLDEST: (u32, u32) = (6, 12);

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        Self::at("/")
    }

    /// The machine whose /proc and /sys are below `root`.
    pub fn at(root: impl AsRef<Path>) -> Self {
        Self {
            root: root.as_ref().into(),
        }
    }

    /// Its sysfs.
    pub(crate) fn sys(&self) -> PathBuf {
        self.path("sys")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path))
            .ok()
            .map(|s| s.trim().to_owned())
    }

    /// `uname -r`.
    pub fn release(&self) -> String {
        self.read("proc/sys/kernel/osrelease")
            .unwrap_or_else(|| "unknown".into())
    }

    /// Major and minor version of the kernel.
    fn version(&self) -> Option<(u32, u32)> {
        let release = self.release();
        let mut numbers = release
            .split(|c: char| !c.is_ascii_digit())
            .map(|n| n.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    }

    /// Name of the attached sched_ext scheduler; None if none is attached.
    pub fn running(&self) -> Option<String> {
        let state = self.read("sys/kernel/sched_ext/state")?;
        if state == "disabled" {
            return None;
        }
        let name = self
            .read("sys/kernel/sched_ext/root/ops")
            .filter(|n| !n.is_empty());
        Some(name.unwrap_or_else(|| format!("one without a name (state: {state})")))
    }

    /// The number of possible CPUs: the highest possible CPU number plus one.
    pub fn possible_cpus(&self) -> Option<u32> {
        let list = self.read("sys/devices/system/cpu/possible")?;
        let last = list.rsplit([',', '-']).next()?;
        last.parse::<u32>().ok().map(|n| n + 1)
    }

    fn missing_capabilities(&self) -> Vec<&'static str> {
        let status = self.read("proc/self/status").unwrap_or_default();
        let effective = status
            .lines()
            .find_map(|l| l.strip_prefix("CapEff:"))
            .and_then(|v| u64::from_str_radix(v.trim(), 16).ok())
            .unwrap_or(0);
        CAPABILITIES
            .iter()
            .filter(|(_, bit)| effective >> bit & 1 == 0)
            .map(|(name, _)| *name)
            .collect()
    }

    /// The kernel's types; None if the kernel has no BTF or it cannot be read.
    fn types(&self) -> Option<Types<'static>> {
        Types::read(&self.path("sys/kernel/btf/vmlinux")).ok()
    }

    fn has_sched_ext(&self) -> bool {
        self.path("sys/kernel/sched_ext").is_dir()
    }

    /// Checks that the kernel and the process meet all requirements of a load. Returns the kernel's
    /// types.
    ///
    /// # Errors
    ///
    /// The first requirement that is not met, or the scheduler that is already attached.
    pub(crate) fn require(&self) -> Result<Types<'static>, LoadError> {
        if !self.has_sched_ext() {
            return Err(LoadError::NoSchedExt {
                release: self.release(),
            });
        }
        let types = self.types().ok_or(LoadError::NoBtf)?;
        let missing = scheduler::missing_enumerators(&types)?;
        if !missing.is_empty() {
            return Err(LoadError::OtherInterface {
                release: self.release(),
                missing,
            });
        }
        let found = self.possible_cpus().ok_or(LoadError::NoCpuList)?;
        if found > limits::MAX_CPUS {
            return Err(LoadError::TooManyCpus {
                found,
                limit: limits::MAX_CPUS,
            });
        }
        let missing = self.missing_capabilities();
        if !missing.is_empty() {
            return Err(LoadError::NoCapability(missing.join(" and ")));
        }
        match self.running() {
            Some(other) => Err(LoadError::Busy(other)),
            None => Ok(types),
        }
    }

    /// All findings, for `aplomb doctor`. `capacities` is what the configuration says of them.
    pub fn facts(&self, capacities: &CpuCapacities) -> Vec<Fact> {
        let mut facts = vec![
            self.distribution(),
            self.kernel(),
            self.sched_ext(),
            self.btf(),
            self.interface(),
            self.jit(),
            self.attached(),
            self.privileges(),
            self.cpus(),
            self.capacities(capacities),
            self.realtime(),
            self.lockdown(),
            self.memlock(),
            self.hz(),
            self.autogroup(),
            self.cgroups(),
            self.init(),
        ];
        facts.extend(self.memory_facts());
        facts.extend(self.oom_facts());
        facts.extend(self.disk_facts());
        facts.push(self.qdiscs());
        facts
    }

    fn distribution(&self) -> Fact {
        let found = Distribution::at(&self.root);
        let known = match found.family {
            Family::Unknown => " (its packages are not known here: advice is general)",
            _ => "",
        };
        ok("distribution", format!("{}{known}", found.name))
    }

    /// How to install a usable kernel on this distribution.
    fn install_kernel(&self) -> String {
        Distribution::at(&self.root).install_kernel()
    }

    fn kernel(&self) -> Fact {
        let release = self.release();
        match self.version() {
            Some(v) if v >= OLDEST_TESTED => ok("kernel", release),
            Some(v) if v >= OLDEST => warn(
                "kernel",
                release,
                "aplomb is tested from Linux 6.16 on",
                format!(
                    "if it does not load, use a later kernel: {}",
                    self.install_kernel()
                ),
            ),
            _ => fail(
                "kernel",
                release,
                "sched_ext, which lets a program schedule, came with Linux 6.12",
                self.install_kernel(),
            ),
        }
    }

    fn sched_ext(&self) -> Fact {
        if self.has_sched_ext() {
            return ok("sched_ext", "present");
        }
        fail(
            "sched_ext",
            "not in this kernel",
            "aplomb is a sched_ext scheduler; distributions switched it on at different times (Debian: from 6.16; \
             Fedora, Arch, NixOS: from 6.12)",
            self.install_kernel(),
        )
    }

    fn btf(&self) -> Fact {
        if self.types().is_some() {
            return ok("btf", "present");
        }
        fail(
            "btf",
            "/sys/kernel/btf/vmlinux is missing or unreadable",
            "the scheduler finds the kernel's structs by this description",
            format!(
                "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y: {}",
                self.install_kernel()
            ),
        )
    }

    fn jit(&self) -> Fact {
        match self.read("proc/sys/net/core/bpf_jit_enable").as_deref() {
            Some("0") => fail(
                "bpf-jit",
                "off",
                "programs that call kernel functions need the compiler",
                "sysctl net.core.bpf_jit_enable=1",
            ),
            Some(_) => ok("bpf-jit", "on"),
            None => ok("bpf-jit", "cannot be read without root, or always on"),
        }
    }

    fn attached(&self) -> Fact {
        match self.running() {
            None => ok("scheduler", "the kernel's own"),
            Some(name) if is_aplomb(&name) => ok("scheduler", name),
            Some(name) => fail(
                "scheduler",
                name,
                "sched_ext holds one scheduler at a time",
                "stop that one (systemctl stop scx, scx_loader, or its process)",
            ),
        }
    }

    fn privileges(&self) -> Fact {
        let missing = self.missing_capabilities();
        if missing.is_empty() {
            return ok("privileges", "enough to start the daemon");
        }
        warn(
            "privileges",
            format!("without {}", missing.join(", ")),
            "only the daemon needs them; questions and reservations within your limit do not",
            "to start the daemon: systemctl start aplomb, or sudo aplomb daemon",
        )
    }

    fn cpus(&self) -> Fact {
        match self.possible_cpus() {
            Some(n) if n > limits::MAX_CPUS => fail(
                "cpus",
                format!("{n} possible"),
                format!("the tables of the kernel side hold {}", limits::MAX_CPUS),
                "boot with possible_cpus= or nr_cpus= set lower",
            ),
            Some(n) => ok("cpus", format!("{n} possible")),
            None => warn(
                "cpus",
                "unknown",
                "/sys/devices/system/cpu/possible cannot be read",
                "mount /sys",
            ),
        }
    }

    fn realtime(&self) -> Fact {
        if self.read("sys/kernel/realtime").as_deref() == Some("1") {
            return fail(
                "preempt-rt",
                "a PREEMPT_RT kernel",
                "it refuses BPF timers, by which budgets end exactly",
                format!(
                    "boot the ordinary kernel: {}",
                    Distribution::at(&self.root).ordinary_kernel()
                ),
            );
        }
        ok("preempt-rt", "no")
    }

    fn lockdown(&self) -> Fact {
        let Some(modes) = self.read("sys/kernel/security/lockdown") else {
            return ok("lockdown", "not in use");
        };
        let mode = modes.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
        if mode == "confidentiality" {
            return fail(
                "lockdown",
                mode,
                "in this mode BPF programs may not read kernel memory",
                "boot with lockdown=integrity, or without",
            );
        }
        ok("lockdown", mode)
    }

    fn memlock(&self) -> Fact {
        let limits = self.read("proc/self/limits").unwrap_or_default();
        let line = limits
            .lines()
            .find_map(|l| l.strip_prefix("Max locked memory"));
        let found = line
            .and_then(|l| l.split_whitespace().next())
            .unwrap_or("unknown")
            .to_owned();
        // Since Linux 5.11 BPF memory is charged to the cgroup, and every kernel with sched_ext is
        // later.
        ok(
            "memlock",
            format!("{found} (not needed: BPF memory is charged to the cgroup)"),
        )
    }

    fn hz(&self) -> Fact {
        let config = self.read(&format!("boot/config-{}", self.release()));
        let hz = config
            .as_deref()
            .and_then(|c| c.lines().find_map(|l| l.strip_prefix("CONFIG_HZ=")));
        match hz.and_then(|hz| hz.parse::<u32>().ok()) {
            Some(hz) if hz < 250 => warn(
                "hz",
                format!("{hz}"),
                "best-effort tasks are preempted at ticks only; reservations are not affected",
                "nothing, unless best-effort work feels coarse: then a kernel with CONFIG_HZ=250 or 1000",
            ),
            Some(hz) => ok("hz", format!("{hz}")),
            None => ok("hz", "unknown (the kernel's configuration is not in /boot)"),
        }
    }

    fn autogroup(&self) -> Fact {
        match self
            .read("proc/sys/kernel/sched_autogroup_enabled")
            .as_deref()
        {
            Some("1") => ok(
                "autogroup",
                "on (a session weighs one task; under aplomb nice values count between sessions too)",
            ),
            Some(_) => ok("autogroup", "off"),
            None => ok("autogroup", "not in this kernel"),
        }
    }

    fn cgroups(&self) -> Fact {
        if self.path("sys/fs/cgroup/cgroup.controllers").exists() {
            return ok("cgroup2", "mounted");
        }
        warn(
            "cgroup2",
            "not mounted at /sys/fs/cgroup",
            "applications are recognised by their cgroup's name (Flatpak, Snap, desktop launchers)",
            "mount -t cgroup2 none /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1",
        )
    }

    fn init(&self) -> Fact {
        match self.read("proc/1/comm").as_deref() {
            Some("systemd") => ok("init", "systemd"),
            Some(other) => warn(
                "init",
                other.to_owned(),
                "the shipped unit is for systemd",
                "start `aplomb daemon` from your init; it stays in the foreground and ends on SIGTERM",
            ),
            None => ok("init", "unknown"),
        }
    }
}

/// Does `ops`, the contents of /sys/kernel/sched_ext/root/ops, name this scheduler? (The kernel
/// appends a version or suffix.)
pub fn is_aplomb(ops: &str) -> bool {
    ops.split(['_', '-']).next() == Some("aplomb")
}

fn fact(
    name: &str,
    level: Level,
    found: impl Into<String>,
    why: impl Into<String>,
    change: impl Into<String>,
) -> Fact {
    Fact {
        name: name.into(),
        level,
        found: found.into(),
        why: why.into(),
        change: change.into(),
    }
}

fn ok(name: &str, found: impl Into<String>) -> Fact {
    fact(name, Level::Ok, found, "", "")
}

fn warn(
    name: &str,
    found: impl Into<String>,
    why: impl Into<String>,
    change: impl Into<String>,
) -> Fact {
    fact(name, Level::Warn, found, why, change)
}

fn fail(
    name: &str,
    found: impl Into<String>,
    why: impl Into<String>,
    change: impl Into<String>,
) -> Fact {
    fact(name, Level::Fail, found, why, change)
}

mod capacity;
mod disk;
mod interface;
mod memory;
mod oom;

#[cfg(test)]
mod tests;
