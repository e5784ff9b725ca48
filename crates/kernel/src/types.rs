//! Settings, matchers, reservations, servers, events: bpf/intf.h in Rust's terms.
//!
//! The layouts are libbpf-cargo's (module `layout`, made from bpf/intf.h at build time); here they
//! get names, enums and texts.

use std::fmt;

use aplomb_protocol::{EventKind, Part, ServerPolicy, ServerState};
use serde::{Deserialize, Serialize};

use crate::layout::types as raw;

/// Numbers that bound the kernel side (`enum limits`).
pub mod limits {
    use super::raw::limits as l;
    /// Possible CPUs of a machine.
    pub const MAX_CPUS: u32 = l::MAX_CPUS.0;
    /// Matchers.
    pub const MAX_SPECS: u32 = l::MAX_SPECS.0;
    /// Interactive tasks at a time.
    pub const MAX_SERVERS: u32 = l::MAX_SERVERS.0;
    /// Domains at a time, the root too.
    pub const MAX_DOMAINS: u32 = l::MAX_DOMAINS.0;
    /// Levels of domains below the root.
    pub const MAX_DEPTH: u32 = l::MAX_DEPTH.0;
}

/// Bits of [`SpecRow::flags`] (`enum spec_flags`).
pub mod flags {
    use super::raw::spec_flags as f;
    pub const INTERACTIVE: u32 = f::SPEC_INTERACTIVE.0;
    pub const INHERIT: u32 = f::SPEC_INHERIT.0;
    pub const REVOCABLE: u32 = f::SPEC_REVOCABLE.0;
    pub const PARENT: u32 = f::SPEC_PARENT.0;
    pub const STICKY: u32 = f::SPEC_STICKY.0;
    pub const GUARANTEED: u32 = f::SPEC_GUARANTEED.0;
    pub const DOMAIN: u32 = f::SPEC_DOMAIN.0;
}

/// Settings of the kernel side, fixed when it is loaded. Meaning and trade-offs:
/// bpf/state/state.bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// R_lo, ppm: a revoked task may come back to a CPU below this load.
    pub r_lo_ppm: u64,
    /// R_hi, ppm: a task is admitted only if the load stays below this.
    pub r_hi_ppm: u64,
    /// R_max, ppm: above this load tasks are revoked; the rest of the CPU is best-effort work's.
    pub r_max_ppm: u64,
    /// CPU time that a forked child has, on its parent's budget, to exec; ns.
    pub fork_window_ns: u64,
    /// What becomes of a task that has used up its budget, unless its spec says otherwise.
    pub server_policy: ServerPolicy,
}

impl Default for Settings {
    /// Redline's constants (sections 3 and 6.1), and FCBS.
    fn default() -> Self {
        Self {
            r_lo_ppm: 600_000,
            r_hi_ppm: 800_000,
            r_max_ppm: 900_000,
            fork_window_ns: 1_000_000,
            server_policy: ServerPolicy::Fcbs,
        }
    }
}

/// Key of one matcher: `struct match_key`, whose words crate aplomb-spec computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Matcher(pub [u64; 4]);

impl Matcher {
    /// The key as the map holds it.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut words = [0; 4];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(from.try_into().ok()?);
        }
        (bytes.len() == 32).then_some(Self(words))
    }
}

/// What a matcher leads to: `struct spec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecRow {
    /// C, ns.
    pub runtime_ns: u64,
    /// T, ns.
    pub period_ns: u64,
    /// User space's number for the spec; never 0.
    pub id: u32,
    /// See [`flags`].
    pub flags: u32,
    /// pi, s; 0: chosen by aplomb.
    pub protect_s: u32,
    /// 0..7; u32::MAX: chosen by aplomb.
    pub io_priority: u32,
    /// None: [`Settings::server_policy`].
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

/// The number in `enum server_policy`.
pub(crate) fn policy_number(policy: Option<ServerPolicy>) -> u32 {
    policy.map_or(raw::server_policy::POLICY_DEFAULT.0, ServerPolicy::number)
}

/// The state that a number of `enum server_state` means. None: the slot is free.
pub(crate) fn server_state(state: u32) -> Option<ServerState> {
    match raw::server_state(state) {
        raw::server_state::SERVER_ADMITTED => Some(ServerState::Admitted),
        raw::server_state::SERVER_REJECTED => Some(ServerState::Rejected),
        raw::server_state::SERVER_REVOKED => Some(ServerState::Revoked),
        _ => None,
    }
}

/// One interactive task: `struct server_info`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Thread group.
    pub pid: i32,
    pub comm: String,
    pub spec: SpecRow,
    pub state: ServerState,
    /// Where the reservation is; of a split one: the CPU of its current window.
    pub cpu: i32,
    /// Admitted by what is promised (flag G).
    pub guaranteed: bool,
    /// Of a guaranteed one: its CPUs in the order of its windows. Else empty.
    pub parts: Vec<Part>,
    /// The window that it is in, an index of `parts`.
    pub window: u32,
    /// Times it went from one window's CPU to the next's.
    pub migrations: u64,
    /// From the parent, not matched by itself.
    pub inherited: bool,
    pub threads: i32,
    /// Mean use of the reservation over the last three full seconds, ppm of a CPU.
    pub use_ppm: u64,
    /// CPU time taken by right of the reservation, in all.
    pub served_ns: u64,
    /// CPU time taken of what others left of their budgets (fcbs), in all.
    pub reclaimed_ns: u64,
    pub periods: u64,
    /// Times the budget was used up.
    pub exhausted: u64,
    /// Deadlines that passed with work left.
    pub missed: u64,
}

impl Server {
    /// `sample_no`: the governor's second that runs now (`sample_no` of reserved/server.bpf.h).
    /// It is not over, so the use is that of the full seconds which the ring still has. None: free,
    /// or a domain's, which is no task.
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
        // of others, what is there may be left over from the slot's last owner
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

/// What became of a request for a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// None: it was taken away.
    pub state: Option<ServerState>,
    pub cpu: i32,
    /// max(R_load, S_load) of that CPU before, ppm.
    pub load_ppm: u64,
}

/// The number of an event's kind in `enum event_type`.
pub(crate) fn event_number(kind: EventKind) -> u32 {
    use raw::event_type as e;
    match kind {
        EventKind::Matched => e::EV_MATCHED,
        EventKind::Inherited => e::EV_INHERITED,
        EventKind::Admitted => e::EV_ADMITTED,
        EventKind::Rejected => e::EV_REJECTED,
        EventKind::Exhausted => e::EV_EXHAUSTED,
        EventKind::Revoked => e::EV_REVOKED,
        EventKind::Reactivated => e::EV_REACTIVATED,
        EventKind::Missed => e::EV_MISSED,
        EventKind::Exited => e::EV_EXITED,
        EventKind::Moved => e::EV_MOVED,
        EventKind::Limit => e::EV_LIMIT,
        EventKind::Lost => e::EV_LOST,
        EventKind::Guaranteed => e::EV_GUARANTEED,
        EventKind::Domain => e::EV_DOMAIN,
        EventKind::Parked => e::EV_PARKED,
    }
    .0
}

fn event_kind(number: u32) -> Option<EventKind> {
    EventKind::ALL
        .into_iter()
        .find(|k| event_number(*k) == number)
}

/// One decision of the kernel side: `struct event`. What a, b, c are depends on the kind:
/// bpf/intf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    pub kind: EventKind,
    pub cpu: i32,
    pub pid: i32,
    pub spec_id: u32,
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub comm: [u8; 16],
}

impl Event {
    /// From a record of the ring buffer. None: not an event that this program knows, such as the
    /// record that ops.exit sends to wake it up.
    pub(crate) fn from_record(record: &[u8]) -> Option<Self> {
        if record.len() < size_of::<raw::event>() {
            return None;
        }
        // SAFETY: long enough, and every bit pattern is a valid `event` (integers only).
        let e = unsafe { std::ptr::read_unaligned(record.as_ptr().cast::<raw::event>()) };
        Some(Self {
            time_ns: e.time_ns,
            kind: event_kind(e.r#type)?,
            cpu: e.cpu,
            pid: e.pid,
            spec_id: e.spec_id,
            a: e.a,
            b: e.b,
            c: e.c,
            comm: e.comm.map(|c| c as u8),
        })
    }
}

/// Why the kernel ended the scheduler (`struct exit_info`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitInfo {
    /// `enum scx_exit_kind` of the kernel.
    pub kind: i32,
    /// As the kernel gave it.
    pub code: i64,
    /// The kernel asks for the scheduler to be loaded again.
    pub restart: bool,
    /// A CPU went off line or came.
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

/// Text of a NUL-padded name. Bytes that are no UTF-8 or control the terminal are replaced: a
/// process chooses its own name.
pub fn comm_text(comm: &[u8]) -> String {
    let end = comm.iter().position(|b| *b == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end])
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
