//! The content of a specification, the same for both formats (Redline section 3).

use crate::diag::Place;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether a program gets a reservation. Redline's `iact` and `be`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Has a reservation of C every T.
    Interactive,
    /// Has none, and does not inherit its parent's either.
    BestEffort,
}

/// Which parents may start the program so that its spec applies (flag P).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Launch {
    /// Any parent.
    Any,
    /// An interactive task only (flag P; Redline's own rule): a build job's shells stay
    /// best-effort.
    Interactive,
}

/// What becomes of a task that has used up its budget (`enum server_policy`; bpf/policy/edf.h
/// explains the policies).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerPolicy {
    /// Waits for its next period; until then it has spare time, like any best-effort task (Redline,
    /// Listing 1).
    Redline = 1,
    /// Waits for its next period, and does not run before.
    CbsHard = 2,
    /// Has its next budget at once, for a deadline one period later: before best-effort work for as
    /// long as it does not sleep.
    CbsSoft = 3,
    /// As `redline`, and uses what others leave of their budgets (Kato et al., section 4.2).
    Fcbs = 4,
}

impl ServerPolicy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Redline, Self::CbsHard, Self::CbsSoft, Self::Fcbs];

    /// The word for it in specs, settings, options and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redline => "redline",
            Self::CbsHard => "cbs-hard",
            Self::CbsSoft => "cbs-soft",
            Self::Fcbs => "fcbs",
        }
    }

    /// The policy that a word means.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Its number in `enum server_policy`.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The policy that a number of `enum server_policy` means; None for 0, the machine's.
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.number() == number)
    }
}

impl fmt::Display for ServerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How to recognise a program. The kernel asks in the order argument, path, app, command.
///
/// The variants are in the order in which a spec prints them. Any user's program can take a name
/// (argument, app, command). So a row by name is revocable, and a spec with such a matcher is not
/// [`Spec::is_privileged`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matcher {
    /// The executable's file: absolute path; each `*` stands for any characters but `/`.
    Path(String),
    /// A program run by an interpreter: the interpreter's path (as in [`Matcher::Path`]), and one
    /// of its first 8 arguments after argv\[0\], compared whole and by its part after the last `/`.
    Argument { path: String, argument: String },
    /// Application id: one part of the cgroup's name (Flatpak, Snap, desktop launchers), unescaped.
    App(String),
    /// Command name (`comm`), at most 15 bytes.
    Command(String),
    /// Kernel thread by its name; `kswapd*` stands for all whose name up to the first digit, `/` or
    /// `:` is `kswapd`.
    KernelThread(String),
}

impl Matcher {
    /// True if any user can make a program of their own match.
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

/// One specification. The parsers only make valid ones; see [`crate::limits`] for the ranges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Unique in a set: letters, digits and `. _ + @ -`, 1 to 64 bytes.
    pub name: String,
    /// One line for people; empty if none. Redline's format has no place for it.
    pub description: String,
    pub class: Class,
    /// C: 100 us .. T, in ns; 0 for best-effort.
    pub runtime_ns: u64,
    /// T: 1 ms .. 10 s, in ns; 0 for best-effort.
    pub period_ns: u64,
    /// Flag I: a forked child that executes nothing with a spec of its own keeps this one.
    pub inherit: bool,
    /// Flag R: may be revoked when the CPU is overloaded.
    pub revocable: bool,
    /// Flag G: admitted only if there is room for all that is promised, and then never revoked; may
    /// be split over several CPUs (bpf/reserved/room.bpf.h). Excludes `revocable`.
    pub guaranteed: bool,
    /// What becomes of a task that has used up its budget; None: as set for the machine.
    pub server: Option<ServerPolicy>,
    /// Flag P is [`Launch::Interactive`].
    pub launch: Launch,
    /// pi, memory protection period: 1 s .. 7 days; None: chosen by aplomb.
    pub protect_s: Option<u32>,
    /// I/O priority, 0 (most urgent) .. 7; None: chosen by aplomb.
    pub io: Option<u8>,
    /// The domain that a process of the program is moved into when it starts: a cgroup's path.
    pub domain: Option<String>,
    /// At least one; sorted and without repetition.
    pub matchers: Vec<Matcher>,
    /// Where it was written.
    pub origin: Place,
}

/// Bits of `enum spec_flags` in bpf/intf.h (a test compares them with it).
pub mod flags {
    pub const INTERACTIVE: u32 = 1 << 0;
    pub const INHERIT: u32 = 1 << 1;
    pub const REVOCABLE: u32 = 1 << 2;
    pub const PARENT: u32 = 1 << 3;
    pub const GUARANTEED: u32 = 1 << 5;
}

/// `io_priority` of `struct spec` in bpf/intf.h when aplomb chooses.
pub const IO_AUTO: u32 = u32::MAX;

impl Spec {
    /// `flags` of `struct spec` as written. The rows of the kernel's map have those of
    /// [`crate::Grant`] instead, which differ if any user's program can match the row.
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

    /// Share of one CPU that the spec asks for, in ppm (C/T rounded down); 0 for best-effort.
    pub fn bandwidth_ppm(&self) -> u64 {
        (self.runtime_ns * 1_000_000)
            .checked_div(self.period_ns)
            .unwrap_or(0)
    }

    /// True if the spec grants what only root may give: a reservation that is never revoked, a
    /// place in a domain with a share of its own, or precedence over best-effort work beyond its
    /// budget. Such a spec has no matcher by name, and rows that any user's program can match do
    /// not get these.
    pub fn is_privileged(&self) -> bool {
        self.guaranteed || self.server == Some(ServerPolicy::CbsSoft) || self.domain.is_some()
    }

    /// True if the other spec differs in its name, description and matchers at most.
    pub fn asks_the_same(&self, other: &Spec) -> bool {
        let what = |s: &Spec| {
            (
                s.runtime_ns,
                s.period_ns,
                s.flags(),
                s.server,
                s.protect_s,
                s.io,
                s.domain.clone(),
            )
        };
        what(self) == what(other)
    }

    /// The spec with its origin blanked, to compare what two specs say wherever they were written.
    pub fn without_origin(&self) -> Spec {
        Spec {
            origin: Place::default(),
            ..self.clone()
        }
    }
}
