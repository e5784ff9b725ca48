//! Scenario files: a machine and its tasks in TOML, for `aplomb-sim play`.
//!
//! ```toml
//! cpus = 1
//! length = "10s"
//!
//! [[task]]
//! name = "movie"
//! work = "5ms"            # in every period
//! period = "40ms"
//! reserve = "6ms/40ms"
//!
//! [[task]]
//! name = "bomb"           # without work it never stops
//! count = 20
//! ```
//!
//! `kind.rs` has all fields of a task, `play.rs` plays a scenario.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use crate::workload::TraceError;
use crate::MAX_CPUS;

mod kind;
mod play;

pub use kind::Kind;
pub use play::Options;

/// Most tasks of a scenario; a file with more is refused.
pub const MAX_TASKS: usize = 100_000;
/// Longest length of a scenario, ns.
const MAX_LENGTH: u64 = 100_000 * 1_000_000_000;

/// What is wrong with a scenario file.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// It is not TOML, or a field is unknown, missing or malformed; the message has line and
    /// column.
    #[error("{0}: {1}")]
    Parse(PathBuf, String),
    /// A value is out of range, or does not fit another.
    #[error("{0}: {1}")]
    Value(PathBuf, String),
    /// A trace that cannot be used.
    #[error("{0}: task \"{1}\": {2}")]
    Trace(PathBuf, String, TraceError),
}

/// A time in a scenario, ns: "5ms".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        aplomb_spec::parse_duration(&text)
            .map(Time)
            .map_err(serde::de::Error::custom)
    }
}

/// A reservation, C/T: "6ms/30ms".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// C, ns.
    pub runtime: u64,
    /// T, ns.
    pub period: u64,
}

impl FromStr for Reserve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (c, t) = text
            .split_once('/')
            .ok_or("a reservation is C/T, such as \"6ms/30ms\"")?;
        let parse = |part| aplomb_spec::parse_duration(part).map_err(|e| e.to_string());
        let (runtime, period) = (parse(c)?, parse(t)?);
        if runtime == 0 || runtime > period {
            return Err("C must be more than 0 and at most T".into());
        }
        Ok(Self { runtime, period })
    }
}

impl<'de> Deserialize<'de> for Reserve {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// 1 to 1,024.
    #[serde(default = "one")]
    pub cpus: usize,
    /// Length of the run.
    pub length: Time,
    /// Time between ticks.
    #[serde(default = "tick")]
    pub tick: Time,
    /// Seed of random numbers; the same seed gives the same run.
    #[serde(default)]
    pub seed: u64,
    /// The tasks.
    #[serde(default)]
    pub task: Vec<Kind>,
}

fn one() -> usize {
    1
}

fn zero() -> Time {
    Time(0)
}

fn tick() -> Time {
    Time(4_000_000)
}

impl Scenario {
    /// Read and check a file.
    ///
    /// # Errors
    /// See [`ScenarioError`]; each names the file, and the line or the task and field.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text =
            std::fs::read_to_string(path).map_err(|e| ScenarioError::Read(path.into(), e))?;
        Self::parse(path, &text)
    }

    /// Parse and check the text of the file `path`.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let mut scenario: Self =
            toml::from_str(text).map_err(|e| ScenarioError::Parse(path.into(), e.to_string()))?;
        if let Some(what) = scenario.problem() {
            return Err(ScenarioError::Value(path.into(), what));
        }
        for kind in &mut scenario.task {
            kind.load(path.parent().unwrap_or(Path::new("")))
                .map_err(|e| ScenarioError::Trace(path.into(), kind.name.clone(), e))?;
        }
        Ok(scenario)
    }

    /// The same scenario on another number of CPUs.
    ///
    /// # Errors
    /// [`ScenarioError::Value`] if it does not fit that number.
    pub fn with_cpus(self, path: &Path, cpus: usize) -> Result<Self, ScenarioError> {
        let scenario = Self { cpus, ..self };
        match scenario.problem() {
            Some(what) => Err(ScenarioError::Value(path.into(), what)),
            None => Ok(scenario),
        }
    }

    /// The first value that is out of range, as a message.
    fn problem(&self) -> Option<String> {
        if !(1..=MAX_CPUS).contains(&self.cpus) {
            return Some(format!("cpus = {}: 1 to {MAX_CPUS}", self.cpus));
        }
        if self.length.0 == 0 || self.length.0 > MAX_LENGTH {
            return Some(format!(
                "length: more than 0, at most {} s",
                MAX_LENGTH / 1_000_000_000
            ));
        }
        if !(10_000..=1_000_000_000).contains(&self.tick.0) {
            return Some("tick: 10us to 1s".into());
        }
        let mut tasks = 0usize;
        for kind in &self.task {
            tasks = tasks.saturating_add(kind.tasks());
            if let Some(what) = kind.problem(self.cpus) {
                return Some(format!("task \"{}\": {what}", kind.name));
            }
        }
        match tasks {
            0 => Some("it has no [[task]]".into()),
            n if n > MAX_TASKS => Some(format!("{n} tasks; at most {MAX_TASKS}")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
