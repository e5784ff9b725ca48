//! A machine with any scheduler: aplomb ([`crate::Simulation`]), or a model of another one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::{self, Edf, Eevdf, Fit, Model, Server, Wrr};
use crate::{CpuMask, Program, Reservation, ServerPolicy, Settings, Simulation, Switch, TaskId};

/// The interface of a machine for studies and scenarios. Times are ns since its start.
pub trait Machine {
    /// A task that executes the program with inode `ino` (not 0) gets this reservation. Models use
    /// runtime and period only: their reservations are neither revoked nor inherited.
    fn reserve(&mut self, ino: u64, reservation: Reservation);
    /// Start a task with a weight (nice 0: 100) and an affinity. It wakes up now.
    fn start_with(&mut self, weight: u32, allowed: CpuMask, program: Box<dyn Program>) -> TaskId;
    /// Process all events until `end`, ns.
    fn run_until(&mut self, end: u64);
    /// Events processed so far.
    fn events(&self) -> u64;
    /// CPU time of a task, ns.
    fn ran(&self, id: TaskId) -> u64;
    /// Number of migrations of a task.
    fn migrations(&self, id: TaskId) -> u64;
    /// Is the task's reservation admitted?
    fn admitted(&self, id: TaskId) -> bool;
    /// Every context switch (if [`Settings::traced`]).
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

/// A scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Scheduler {
    /// aplomb's own source, with this server policy.
    Aplomb(ServerPolicy),
    /// EDF over CBS.
    Edf(Fit, Server),
    /// Linux's fair class.
    Eevdf,
    /// Weighted round-robin.
    Wrr,
}

/// All names, in the order of tables.
const NAMES: [(&str, Scheduler); 14] = [
    ("aplomb-redline", Scheduler::Aplomb(ServerPolicy::Redline)),
    ("aplomb-cbs-hard", Scheduler::Aplomb(ServerPolicy::CbsHard)),
    ("aplomb-cbs-soft", Scheduler::Aplomb(ServerPolicy::CbsSoft)),
    ("aplomb-fcbs", Scheduler::Aplomb(ServerPolicy::Fcbs)),
    ("aplomb-deferred", Scheduler::Aplomb(ServerPolicy::Deferred)),
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

/// A name that no scheduler has.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" is no scheduler; the schedulers are {names}", names = names())]
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

    /// Parses a name of [`NAMES`], or "aplomb": aplomb with the default server policy.
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
    /// aplomb with this server policy ("redline", "cbs-hard", "cbs-soft", "fcbs", "deferred").
    /// None: there is no such policy.
    pub fn aplomb_with(policy: &str) -> Option<Self> {
        format!("aplomb-{policy}").parse().ok()
    }

    /// Does the scheduler refuse reservations that it cannot keep?
    pub fn admits(self) -> bool {
        match self {
            Self::Aplomb(_) => true,
            Self::Edf(fit, _) => fit != Fit::Global,
            Self::Eevdf | Self::Wrr => false,
        }
    }

    /// A machine with this scheduler. A process has at most one machine with aplomb at a time; the
    /// creation of another one waits.
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
    fn names_are_parsed_as_they_are_displayed() {
        for (name, scheduler) in NAMES {
            assert_eq!(name.parse::<Scheduler>().unwrap(), scheduler);
            assert_eq!(scheduler.to_string(), name);
        }
        let error = "cfs".parse::<Scheduler>().unwrap_err().to_string();
        assert!(error.contains("eevdf, wrr"), "{error}");
    }
}
