//! Settings, matchers, reservations, servers: bpf/intf.h in Rust's terms.
//!
//! libbpf-cargo generates the layouts at build time (module `layout`). This module gives them
//! names, enums and texts.

use std::fmt;

use aplomb_protocol::{Part, ServerPolicy, ServerState};
use serde::{Deserialize, Serialize};

use crate::layout::types as raw;
use crate::CpuCapacities;

/// Limits of the kernel side (`enum limits`).
pub mod limits {
    use super::raw::limits as l;
    /// Most possible CPUs of a machine.
    pub const MAX_CPUS: u32 = l::MAX_CPUS.0;
    /// Most matchers.
    pub const MAX_SPECS: u32 = l::MAX_SPECS.0;
    /// Most servers (interactive processes) at a time.
    pub const MAX_SERVERS: u32 = l::MAX_SERVERS.0;
    /// Most domains at a time, including the root.
    pub const MAX_DOMAINS: u32 = l::MAX_DOMAINS.0;
    /// Most levels of domains below the root.
    pub const MAX_DEPTH: u32 = l::MAX_DEPTH.0;
    /// Most disks whose requests are ordered.
    pub const MAX_DISKS: u32 = l::MAX_DISKS.0;
    /// Most disks, and volumes on them.
    pub const MAX_VOLUMES: u32 = l::MAX_VOLUMES.0;
    /// Seats whose users may have more of the machine than others.
    pub const MAX_SEATS: u32 = l::MAX_SEATS.0;
    /// Most servers of one user, root excepted.
    pub const MAX_OWNED: u32 = l::MAX_OWNED.0;
    pub const MAX_OWNED_DOMAINS: u32 = l::MAX_OWNED_DOMAINS.0;
}

/// Bits of [`SpecRow::flags`] (`enum spec_flags`).
pub mod flags {
    use super::raw::spec_flags as f;
    /// A matched program gets a reservation.
    pub const INTERACTIVE: u32 = f::SPEC_INTERACTIVE.0;
    /// Flag I: a child without a spec of its own keeps this reservation.
    pub const INHERIT: u32 = f::SPEC_INHERIT.0;
    /// Flag R: the reservation may be revoked in an overload.
    pub const REVOCABLE: u32 = f::SPEC_REVOCABLE.0;
    /// Flag P: the spec applies only if an interactive task starts the program.
    pub const PARENT: u32 = f::SPEC_PARENT.0;
    pub const STICKY: u32 = f::SPEC_STICKY.0;
    /// Flag G: the reservation is guaranteed.
    pub const GUARANTEED: u32 = f::SPEC_GUARANTEED.0;
    /// Root asked for it: it counts in no user's account.
    pub const BY_ROOT: u32 = f::SPEC_BY_ROOT.0;
    /// The server belongs to a domain, not to a process.
    pub const DOMAIN: u32 = f::SPEC_DOMAIN.0;
}

/// Settings of the kernel side. They cannot be changed after the load. bpf/state/state.bpf.h
/// explains their meaning and trade-offs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// R_lo, ppm: a revoked task may get its reservation back on a CPU whose load is below this.
    pub r_lo_ppm: u64,
    /// R_hi, ppm: a task is admitted only if the load stays below this.
    pub r_hi_ppm: u64,
    /// R_max, ppm: above this load reservations are revoked. Best-effort work keeps the rest of the
    /// CPU.
    pub r_max_ppm: u64,
    /// The exec window: CPU time, ns, that a forked child may use of its parent's budget.
    pub fork_window_ns: u64,
    /// How fast each CPU is (bpf/policy/capacity.h).
    pub cpu_capacities: CpuCapacities,
    /// The server policy of tasks whose spec names none: what becomes of a task that used up its
    /// budget.
    pub server_policy: ServerPolicy,
    /// What all programs of one user may use by right of reservations, ppm of all CPUs together
    /// (bpf/reserved/owner.bpf.h);
    pub owner_limit_ppm: u64,
    /// of a user whose session is the active one of a seat.
    pub seat_limit_ppm: u64,
    /// Tasks are parked while memory is short.
    pub memory: bool,
    /// A program that is matched in the root cgroup waits at its start until the daemon has moved
    /// it ([`crate::Kernel::park`] with 0 ends the wait).
    pub programs_move: bool,
    /// The most dirty pages of one domain on one device. None: no limits.
    pub dirty: Option<DirtyLimits>,
    /// The requests of disks are ordered (bpf/policy/cello.h).
    pub order_disks: bool,
    /// All requests are counted, also while disks are not watched (bpf/disk/account.bpf.h). Takes
    /// `order_disks`.
    pub count_disks: bool,
}

/// Dirty limits by class of the task that dirties, in pages, above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyLimits {
    pub interactive: u64,
    pub best_effort: u64,
}

/// How the time of each disk is shared (bpf/policy/cello.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskShares {
    /// Length of a round, ns.
    pub round_ns: u64,
    /// Weights in what domains leave: of soft real-time programs, 1 to 10,000;
    pub soft_real_time: u32,
    /// of interactive programs;
    pub interactive: u32,
    /// of all else.
    pub rest: u32,
}

/// A disk whose requests are ordered, or a volume on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderedDisk {
    /// Its own numbers.
    pub major: u32,
    /// See `major`.
    pub minor: u32,
    /// Which disk its requests go to, below [`limits::MAX_DISKS`].
    pub disk: u32,
}

impl Default for Settings {
    /// Redline's constants (sections 3 and 6.1), and FCBS as the server policy.
    fn default() -> Self {
        Self {
            r_lo_ppm: 600_000,
            r_hi_ppm: 800_000,
            r_max_ppm: 900_000,
            fork_window_ns: 1_000_000,
            cpu_capacities: CpuCapacities::Auto,
            server_policy: ServerPolicy::Fcbs,
            owner_limit_ppm: 200_000,
            seat_limit_ppm: 600_000,
            memory: false,
            programs_move: false,
            dirty: None,
            order_disks: false,
            count_disks: false,
        }
    }
}

/// Key of one matcher (`struct match_key`). Crate aplomb-spec computes its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Matcher(pub [u64; 4]);

impl Matcher {
    /// The key's bytes, as the map stores them.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Returns None if `bytes` is not 32 bytes long.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut words = [0; 4];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(from.try_into().ok()?);
        }
        (bytes.len() == 32).then_some(Self(words))
    }
}

/// The value of one matcher (`struct spec`): what a matched program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecRow {
    /// C, ns.
    pub runtime_ns: u64,
    /// T, ns.
    pub period_ns: u64,
    /// User space's number for the spec, never 0.
    pub id: u32,
    /// See [`flags`].
    pub flags: u32,
    /// Memory protection period pi, s; 0: aplomb chooses.
    pub protect_s: u32,
    /// I/O priority, 0 (most urgent) to 7; u32::MAX: aplomb chooses.
    pub io_priority: u32,
    /// Server policy; None: [`Settings::server_policy`].
    pub policy: Option<ServerPolicy>,
}

impl SpecRow {
    pub(crate) fn to_raw(self) -> raw::spec {
        raw::spec {
            runtime_ns: self.runtime_ns,
            period_ns: self.period_ns,
            id: self.id,
            flags: self.flags,
            protect_s: self.protect_s,
            io_priority: self.io_priority,
            policy: policy_number(self.policy),
            pad: 0,
        }
    }

    fn from_raw(s: &raw::spec) -> Self {
        Self {
            runtime_ns: s.runtime_ns,
            period_ns: s.period_ns,
            id: s.id,
            flags: s.flags,
            protect_s: s.protect_s,
            io_priority: s.io_priority,
            policy: ServerPolicy::numbered(s.policy),
        }
    }
}

/// The policy's number in `enum server_policy`; None is `POLICY_DEFAULT`.
pub(crate) fn policy_number(policy: Option<ServerPolicy>) -> u32 {
    policy.map_or(raw::server_policy::POLICY_DEFAULT.0, ServerPolicy::number)
}

/// The state with this number in `enum server_state`. Returns None if the slot is free.
pub(crate) fn server_state(state: u32) -> Option<ServerState> {
    match raw::server_state(state) {
        raw::server_state::SERVER_ADMITTED => Some(ServerState::Admitted),
        raw::server_state::SERVER_REJECTED => Some(ServerState::Rejected),
        raw::server_state::SERVER_REVOKED => Some(ServerState::Revoked),
        raw::server_state::SERVER_DEMOTED => Some(ServerState::Demoted),
        _ => None,
    }
}

/// The server of one interactive process (`struct server_info`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Id of the process (thread group).
    pub pid: i32,
    pub comm: String,
    pub spec: SpecRow,
    pub state: ServerState,
    /// The CPU of the reservation. If the reservation is split: the CPU of its current window.
    pub cpu: i32,
    /// The reservation is guaranteed (flag G).
    pub guaranteed: bool,
    /// CPUs and budgets in the order of the windows. Empty if the reservation is not guaranteed.
    pub parts: Vec<Part>,
    /// The current window: an index into `parts`.
    pub window: u32,
    /// How often the server moved from one window's CPU to the next window's.
    pub migrations: u64,
    /// The process inherited its parent's reservation instead of matching a spec.
    pub inherited: bool,
    pub threads: i32,
    /// Mean use of the reservation over the last three full seconds, ppm of a CPU.
    pub use_ppm: u64,
    /// Total CPU time that the process ran by right on its own budget, ns.
    pub served_ns: u64,
    /// Total CPU time that the process ran on other servers' slack (fcbs), ns.
    pub reclaimed_ns: u64,
    /// Number of periods so far.
    pub periods: u64,
    /// How often the budget was used up.
    pub exhausted: u64,
    /// How many deadlines passed while the process still had work.
    pub missed: u64,
}

impl Server {
    /// Returns None if the slot is free, or if the server belongs to a domain and not to a process.
    ///
    /// `sample_no` is the number of the governor's current second (reserved/server.bpf.h). That
    /// second is not over, so `use_ppm` covers only the full seconds before it that the ring still
    /// holds.
    pub(crate) fn from_raw(s: &raw::server_info, sample_no: u64) -> Option<Self> {
        if s.spec.flags & flags::DOMAIN != 0 {
            return None;
        }
        let seconds = s.usage.ns.len() as u64 - 1;
        let used: u64 = (1..=seconds)
            .filter_map(|back| sample_no.checked_sub(back))
            .filter(|n| (s.usage.second.saturating_sub(seconds)..=s.usage.second).contains(n))
            .map(|n| s.usage.ns[(n % (seconds + 1)) as usize])
            .sum();
        let state = server_state(s.state)?;
        // If the server is not guaranteed, `split` may contain data of the slot's previous owner.
        let guaranteed = s.guaranteed != 0 && state == ServerState::Admitted;
        let count = if guaranteed {
            s.split.parts as usize
        } else {
            0
        };
        let parts = s.split.cpu.iter().zip(&s.split.runtime).take(count);
        Some(Self {
            pid: s.tgid,
            comm: comm_text(&s.comm.map(|c| c as u8)),
            spec: SpecRow::from_raw(&s.spec),
            state,
            cpu: s.cpu,
            guaranteed,
            parts: parts
                .map(|(cpu, runtime_ns)| Part {
                    cpu: *cpu,
                    runtime_ns: *runtime_ns,
                })
                .collect(),
            window: if guaranteed { s.split.window } else { 0 },
            migrations: s.migrations,
            inherited: s.inherited != 0,
            threads: s.threads,
            use_ppm: used / (seconds * 1000),
            served_ns: s.served_ns,
            reclaimed_ns: s.reclaimed_ns,
            periods: s.periods,
            exhausted: s.exhausted,
            missed: s.missed,
        })
    }
}

/// To which user a process belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its real user id.
    pub uid: u32,
    /// The user id to whose account it counts (bpf/kernel/owner.bpf.h): the login's, or that of the
    /// maker of its namespace of users. 0 for root.
    pub account: u32,
}

/// The outcome of a request for a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// None: the reservation was removed.
    pub state: Option<ServerState>,
    pub cpu: i32,
    /// max(R_load, S_load) of that CPU before the request, ppm.
    pub load_ppm: u64,
}

/// Why a program is demoted, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shortage {
    /// What the program's domain needs.
    pub demand: u64,
    /// What all need whose limit it is.
    pub total: u64,
    pub limit: u64,
}

/// Why the kernel ended the scheduler (`struct exit_info`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitInfo {
    /// The kernel's `enum scx_exit_kind`.
    pub kind: i32,
    /// The code as the kernel gave it.
    pub code: i64,
    /// The kernel asks for the scheduler to be loaded again.
    pub restart: bool,
    /// A CPU went offline or online.
    pub hotplug: bool,
    pub reason: String,
    pub msg: String,
}

impl fmt::Display for ExitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = if self.reason.is_empty() {
            "no reason given"
        } else {
            &self.reason
        };
        write!(f, "{reason}")?;
        if !self.msg.is_empty() {
            write!(f, " ({})", self.msg)?;
        }
        write!(f, " [kind {}", self.kind)?;
        if self.code != 0 {
            write!(f, ", code {:#x}", self.code)?;
        }
        if self.hotplug {
            write!(f, ", a CPU came or went")?;
        }
        write!(f, "]")
    }
}

/// The text of a NUL-padded name. A process chooses its own name, so bytes that are not UTF-8 and
/// control characters are replaced.
pub fn comm_text(comm: &[u8]) -> String {
    let end = comm.iter().position(|b| *b == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end])
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
