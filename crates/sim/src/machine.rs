//! A machine with a scheduler on it, whichever: ours ([`crate::Simulation`]) or a model of what others do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::{self, Edf, Eevdf, Fit, Model, Server, Wrr};
use crate::{CpuMask, Program, Settings, Simulation, Switch, TaskId};

/// A reservation that a program asks for when it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// C, ns: more than 0.
    pub runtime: u64,
    /// T, ns: at least C.
    pub period: u64,
    /// Ours may take it away in overload; the models never do.
    pub revocable: bool,
    /// Ours admits it only if it can be kept whatever happens; the models have one kind.
    pub guaranteed: bool,
}

/// What a study or a scenario needs of a machine. Times are ns since its start.
pub trait Machine {
    /// The program with inode `ino` (not 0) asks for this when a task executes it.
    fn reserve(&mut self, ino: u64, reservation: Reservation);
    /// A new task with weight (nice 0: 100) and affinity; it wakes up now.
    fn start_with(&mut self, weight: u32, allowed: CpuMask, program: Box<dyn Program>) -> TaskId;
    /// Play until `end`.
    fn run_until(&mut self, end: u64);
    /// Events processed so far.
    fn events(&self) -> u64;
    /// CPU time that a task has had, ns.
    fn ran(&self, id: TaskId) -> u64;
    /// How often a task changed its CPU.
    fn migrations(&self, id: TaskId) -> u64;
    /// Does the task have the reservation that it asked for?
    fn admitted(&self, id: TaskId) -> bool;
    /// Every change of what runs (if [`Settings::traced`]).
    fn trace(&self) -> &[Switch];
}

impl Machine for Simulation {
    fn reserve(&mut self, ino: u64, r: Reservation) {
        // The lead's `guaranteed` goes in here, and nowhere else.
        self.spec(ino, r.runtime, r.period, false, r.revocable);
    }

    fn start_with(&mut self, weight: u32, allowed: CpuMask, program: Box<dyn Program>) -> TaskId {
        Simulation::start_with(self, weight, allowed, program)
    }

    fn run_until(&mut self, end: u64) {
        Simulation::run_until(self, end);
    }

    fn events(&self) -> u64 {
        Simulation::events(self)
    }

    fn ran(&self, id: TaskId) -> u64 {
        Simulation::ran(self, id)
    }

    fn migrations(&self, id: TaskId) -> u64 {
        Simulation::migrations(self, id)
    }

    fn admitted(&self, id: TaskId) -> bool {
        const ADMITTED: u32 = 1; // `enum server_state` of bpf/intf.h
        self.server(id).is_some_and(|(state, _)| state == ADMITTED)
    }

    fn trace(&self) -> &[Switch] {
        Simulation::trace(self)
    }
}

/// How our scheduler enforces a reservation (docs: `--server`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerPolicy {
    /// Redline, Listing 1.
    #[default]
    Redline,
    /// Constant bandwidth server, never more than C in T.
    CbsHard,
    /// Constant bandwidth server, an overrun is postponed.
    CbsSoft,
    /// Flexible CBS (Kato, section 4.2).
    Fcbs,
}

/// Who schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Scheduler {
    /// Our own source.
    Aplomb(ServerPolicy),
    /// EDF with CBS.
    Edf(Fit, Server),
    /// Linux's fair class.
    Eevdf,
    /// Weighted round-robin.
    Wrr,
}

/// All names, in the order of tables.
const NAMES: [(&str, Scheduler); 12] = [
    ("aplomb-redline", Scheduler::Aplomb(ServerPolicy::Redline)),
    ("aplomb-cbs-hard", Scheduler::Aplomb(ServerPolicy::CbsHard)),
    ("aplomb-cbs-soft", Scheduler::Aplomb(ServerPolicy::CbsSoft)),
    ("aplomb-fcbs", Scheduler::Aplomb(ServerPolicy::Fcbs)),
    ("global-edf-hard", Scheduler::Edf(Fit::Global, Server::Hard)),
    ("global-edf-soft", Scheduler::Edf(Fit::Global, Server::Soft)),
    ("partitioned-ff", Scheduler::Edf(Fit::First, Server::Soft)),
    (
        "partitioned-ff-hard",
        Scheduler::Edf(Fit::First, Server::Hard),
    ),
    ("partitioned-wf", Scheduler::Edf(Fit::Worst, Server::Soft)),
    (
        "partitioned-wf-hard",
        Scheduler::Edf(Fit::Worst, Server::Hard),
    ),
    ("eevdf", Scheduler::Eevdf),
    ("wrr", Scheduler::Wrr),
];

/// A name that is no scheduler's.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\": no scheduler; there are {names}", names = names())]
pub struct UnknownScheduler(String);

fn names() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, s)| s == self);
        f.write_str(found.map_or("?", |(name, _)| name))
    }
}

impl FromStr for Scheduler {
    type Err = UnknownScheduler;

    /// One of the names in the error's list; "aplomb" is ours with the default server.
    fn from_str(text: &str) -> Result<Self, UnknownScheduler> {
        if text == "aplomb" {
            return Ok(Self::Aplomb(ServerPolicy::default()));
        }
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, s)| *s)
            .ok_or_else(|| UnknownScheduler(text.into()))
    }
}

impl From<Scheduler> for String {
    fn from(scheduler: Scheduler) -> Self {
        scheduler.to_string()
    }
}

impl TryFrom<String> for Scheduler {
    type Error = UnknownScheduler;

    fn try_from(text: String) -> Result<Self, UnknownScheduler> {
        text.parse()
    }
}

impl Scheduler {
    /// Can this build play it? (Server policies come one by one.)
    pub fn is_there(self) -> bool {
        !matches!(self, Self::Aplomb(policy) if with_server(Settings::default(), policy).is_none())
    }

    /// Does it refuse reservations that it cannot keep?
    pub fn admits(self) -> bool {
        match self {
            Self::Aplomb(_) => true,
            Self::Edf(fit, _) => fit != Fit::Global,
            Self::Eevdf | Self::Wrr => false,
        }
    }

    /// A machine with it. Of ours there can be one at a time in a process; more wait for it to end.
    ///
    /// # Panics
    /// If it is not there, or with 0 CPUs or too many.
    pub fn machine(self, settings: Settings) -> Box<dyn Machine> {
        match self {
            Self::Aplomb(policy) => {
                let settings = with_server(settings, policy);
                Box::new(Simulation::new(settings.expect("is_there() was asked")))
            }
            Self::Edf(fit, server) => Box::new(Model::new(
                settings,
                Edf::new(settings.cpus, fit, server, model::WHOLE_PPM),
            )),
            Self::Eevdf => Box::new(Model::new(settings, Eevdf::new(settings.cpus))),
            Self::Wrr => Box::new(Model::new(settings, Wrr::default())),
        }
    }
}

/// The settings with that server policy; None: there is none yet.
fn with_server(settings: Settings, policy: ServerPolicy) -> Option<Settings> {
    // With `Settings::server` in place: Some(Settings { server: policy, ..settings })
    (policy == ServerPolicy::Redline).then_some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, scheduler) in NAMES {
            assert_eq!(name.parse::<Scheduler>().unwrap(), scheduler);
            assert_eq!(scheduler.to_string(), name);
        }
        let error = "cfs".parse::<Scheduler>().unwrap_err().to_string();
        assert!(error.contains("eevdf, wrr"), "{error}");
    }
}
