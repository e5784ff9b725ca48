//! A machine with a scheduler on it, whichever: ours ([`crate::Simulation`]) or a model of what others do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::{self, Edf, Eevdf, Fit, Model, Server, Wrr};
use crate::{CpuMask, Program, Reservation, ServerPolicy, Settings, Simulation, Switch, TaskId};

/// What a study or a scenario needs of a machine. Times are ns since its start.
pub trait Machine {
    /// The program with inode `ino` (not 0) asks for this when a task executes it. Of a model, only runtime and
    /// period matter: its reservations are neither revoked nor inherited.
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
        self.spec(ino, r);
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
const NAMES: [(&str, Scheduler); 13] = [
    ("aplomb-redline", Scheduler::Aplomb(ServerPolicy::Redline)),
    ("aplomb-cbs-hard", Scheduler::Aplomb(ServerPolicy::CbsHard)),
    ("aplomb-cbs-soft", Scheduler::Aplomb(ServerPolicy::CbsSoft)),
    ("aplomb-fcbs", Scheduler::Aplomb(ServerPolicy::Fcbs)),
    ("global-edf-hard", Scheduler::Edf(Fit::Global, Server::Hard)),
    ("global-edf-soft", Scheduler::Edf(Fit::Global, Server::Soft)),
    (
        "global-edf-fcbs",
        Scheduler::Edf(Fit::Global, Server::Flexible),
    ),
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
    /// Ours with this server policy ("redline", "cbs-hard", "cbs-soft", "fcbs"); None: no policy's name.
    pub fn ours_with(policy: &str) -> Option<Self> {
        format!("aplomb-{policy}").parse().ok()
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
    /// With 0 CPUs or more than [`crate::MAX_CPUS`].
    pub fn machine(self, settings: Settings) -> Box<dyn Machine> {
        match self {
            Self::Aplomb(server) => Box::new(Simulation::new(Settings { server, ..settings })),
            Self::Edf(fit, server) => Box::new(Model::new(
                settings,
                Edf::new(settings.cpus, fit, server, model::WHOLE_PPM),
            )),
            Self::Eevdf => Box::new(Model::new(settings, Eevdf::new(settings.cpus))),
            Self::Wrr => Box::new(Model::new(settings, Wrr::default())),
        }
    }
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
