//! The contents of a specification, the same for both formats (Redline section 3).

use crate::diag::Place;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether a program gets a reservation (`iact` and `be` in Redline).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The program has a reservation of C every T.
    Interactive,
    /// The program has no reservation, and does not inherit its parent's either.
    BestEffort,
}

/// By which parents the program must be started so that its spec applies (flag P).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Launch {
    /// Any parent.
    Any,
    /// By an interactive task only (flag P; Redline's own rule): the shells of a build job stay
    /// best-effort.
    Interactive,
}

/// Server policy: what becomes of a task that has used up its budget (`enum server_policy`;
/// bpf/policy/edf.h explains the policies).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerPolicy {
    /// The task waits for its next period. Until then it may run on spare time, like a best-effort
    /// task (Redline, Listing 1).
    Redline = 1,
    /// The task does not run until its next period.
    CbsHard = 2,
    /// The server gets its next budget at once, with a deadline one period later. So the task runs
    /// before best-effort work as long as it does not sleep.
    CbsSoft = 3,
    /// Like `redline`, but the task may also use what other servers leave of their budgets (Kato et
    /// al., section 4.2).
    Fcbs = 4,
    /// Like `redline`; and the task is best-effort work for the first part of each period, too. For
    /// helpers that have to have their time, and seldom need it at once.
    Deferred = 5,
}

impl ServerPolicy {
    /// All policies.
    pub const ALL: [Self; 5] = [
        Self::Redline,
        Self::CbsHard,
        Self::CbsSoft,
        Self::Fcbs,
        Self::Deferred,
    ];

    /// The policy's name in specs, settings, options and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redline => "redline",
            Self::CbsHard => "cbs-hard",
            Self::CbsSoft => "cbs-soft",
            Self::Fcbs => "fcbs",
            Self::Deferred => "deferred",
        }
    }

    /// The policy with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// The policy's number in `enum server_policy`.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The policy with this number in `enum server_policy`. None for 0, which means the machine's
    /// policy.
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.number() == number)
    }
}

impl fmt::Display for ServerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How to recognise a program. The kernel side compares in the order argument, path, app, command.
///
/// The variants are in the order in which a spec prints them. Argument, app and command are names,
/// and any user's program can take a name. So a row by name is revocable, and a spec with such a
/// matcher cannot be [`Spec::is_privileged`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matcher {
    /// The executable's absolute path; each `*` stands for any characters except `/`.
    Path(String),
    /// A program that an interpreter runs: the interpreter's path (as in [`Matcher::Path`]), and
    /// one of the first 8 arguments after argv\[0\]. Both the whole argument and its part after the
    /// last `/` are compared.
    Argument { path: String, argument: String },
    /// Application id, unescaped: one part of the cgroup's name (Flatpak, Snap, desktop launchers).
    App(String),
    /// Command name (`comm`), at most 15 bytes.
    Command(String),
    /// Name of a kernel thread. `kswapd*` stands for all whose name, up to the first digit, `/` or
    /// `:`, is `kswapd`.
    KernelThread(String),
}

impl Matcher {
    /// Can any user make a program of their own match?
    pub fn is_by_name(&self) -> bool {
        matches!(
            self,
            Matcher::Argument { .. } | Matcher::App(_) | Matcher::Command(_)
        )
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Matcher::Path(p) => write!(f, "path \"{p}\""),
            Matcher::Argument { path, argument } => {
                write!(f, "path \"{path}\" with argument \"{argument}\"")
            }
            Matcher::App(a) => write!(f, "app \"{a}\""),
            Matcher::Command(c) => write!(f, "command \"{c}\""),
            Matcher::KernelThread(k) => write!(f, "kernel-thread \"{k}\""),
        }
    }
}

/// One specification. The parsers create only valid ones; [`crate::limits`] has the ranges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Name, unique in a set: letters, digits and `. _ + @ -`, 1 to 64 bytes.
    pub name: String,
    /// One line for people; may be empty. Redline's format has no field for it.
    pub description: String,
    pub class: Class,
    /// C: 100 us .. T, in ns; 0 for best-effort.
    pub runtime_ns: u64,
    /// T: 1 ms .. 10 s, in ns; 0 for best-effort.
    pub period_ns: u64,
    /// Flag I: a forked child keeps this spec unless it executes a program with a spec of its own.
    pub inherit: bool,
    /// Flag R: the reservation may be revoked when the CPU is overloaded.
    pub revocable: bool,
    /// Flag G: the reservation is admitted only if it fits beside all that is promised, and is then
    /// never revoked. It may be split over several CPUs (bpf/reserved/room.bpf.h). Excludes
    /// `revocable`.
    pub guaranteed: bool,
    /// Server policy: what becomes of a task that has used up its budget. None: the machine's
    /// setting.
    pub server: Option<ServerPolicy>,
    /// Flag P is [`Launch::Interactive`].
    pub launch: Launch,
    /// Memory protection period pi: 1 s to 7 days, in s. None: aplomb chooses.
    pub protect_s: Option<u32>,
    /// Private reserve of memory, bytes: as much of the program's memory stays resident, whatever
    /// its age. None: no reserve, only protection by age.
    pub memory: Option<u64>,
    /// I/O priority, 0 (most urgent) to 7. None: aplomb chooses.
    pub io: Option<u8>,
    /// The domain (a cgroup's path) into which a process of the program is moved when it starts.
    pub domain: Option<String>,
    /// At least one matcher; sorted, each once.
    pub matchers: Vec<Matcher>,
    /// Where the spec was written.
    pub origin: Place,
}

/// Bits of `enum spec_flags` in bpf/intf.h (a test compares them).
pub mod flags {
    pub const INTERACTIVE: u32 = 1 << 0;
    pub const INHERIT: u32 = 1 << 1;
    pub const REVOCABLE: u32 = 1 << 2;
    pub const PARENT: u32 = 1 << 3;
    pub const GUARANTEED: u32 = 1 << 5;
}

/// The value of `io_priority` in `struct spec` (bpf/intf.h) that lets aplomb choose.
pub const IO_AUTO: u32 = u32::MAX;

impl Spec {
    /// The spec's own `flags` of `struct spec`. The rows of the kernel side's map have the flags of
    /// [`crate::Grant`] instead. Those differ if any user's program can match the row.
    pub fn flags(&self) -> u32 {
        let mut f = 0;
        if self.class == Class::Interactive {
            f |= flags::INTERACTIVE;
        }
        if self.inherit {
            f |= flags::INHERIT;
        }
        if self.revocable {
            f |= flags::REVOCABLE;
        }
        if self.launch == Launch::Interactive {
            f |= flags::PARENT;
        }
        if self.guaranteed {
            f |= flags::GUARANTEED;
        }
        f
    }

    /// The share of one CPU that the spec requests, ppm (C/T, rounded down); 0 for best-effort.
    pub fn bandwidth_ppm(&self) -> u64 {
        (self.runtime_ns * 1_000_000)
            .checked_div(self.period_ns)
            .unwrap_or(0)
    }

    /// Does the spec grant what only root may give? That is a reservation that is never revoked, a
    /// place in a domain with a share of its own, or precedence over best-effort work beyond the
    /// budget. Such a spec has no matcher by name. Rows that any user's program can match do not
    /// get these privileges.
    pub fn is_privileged(&self) -> bool {
        self.guaranteed || self.server == Some(ServerPolicy::CbsSoft) || self.domain.is_some()
    }

    /// Does the other spec request the same? It may differ in name, description and matchers.
    pub fn asks_the_same(&self, other: &Spec) -> bool {
        let what = |s: &Spec| {
            (
                s.runtime_ns,
                s.period_ns,
                s.flags(),
                s.server,
                s.protect_s,
                s.memory,
                s.io,
                s.domain.clone(),
            )
        };
        what(self) == what(other)
    }

    /// The spec without its origin, for comparing the contents of two specs from different places.
    pub fn without_origin(&self) -> Spec {
        Spec {
            origin: Place::default(),
            ..self.clone()
        }
    }
}
