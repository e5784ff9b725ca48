//! A scenario file: machine and tasks in TOML, for `aplomb sim`.
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
//! name = "bomb"           # neither work nor on: it never stops
//! count = 20
//! ```

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use crate::report::{Line, Report};
use crate::workload::{hog, on_off, Jobs, Periodic};
use crate::{CpuMask, Program, Reservation, Settings, Simulation, Step, TaskId, MAX_CPUS};

/// Tasks of a scenario; more are refused.
pub const MAX_TASKS: usize = 100_000;
/// Longest time that is played, ns.
const MAX_LENGTH: u64 = 100_000 * 1_000_000_000;

/// What is wrong with a scenario file.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// It is not TOML, or a field is unknown, missing or malformed; the message has line and column.
    #[error("{0}: {1}")]
    Parse(PathBuf, String),
    /// Its values make no sense together.
    #[error("{0}: {1}")]
    Value(PathBuf, String),
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

/// One kind of task of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kind {
    /// For the table.
    pub name: String,
    /// So many of them.
    #[serde(default = "one")]
    pub count: usize,
    /// -20 to 19.
    #[serde(default)]
    pub nice: i32,
    /// CPUs that they may run on; all, if missing.
    pub cpus: Option<Vec<usize>>,
    /// When they start.
    #[serde(default = "zero")]
    pub start: Time,
    /// Each reserves that.
    pub reserve: Option<Reserve>,
    /// May be revoked.
    #[serde(default)]
    pub revocable: bool,
    /// Periodic: CPU time in every period, and the period.
    pub work: Option<Time>,
    /// See `work`.
    pub period: Option<Time>,
    /// On-off: uses the CPU for so long, then sleeps for `off`.
    pub on: Option<Time>,
    /// See `on`.
    pub off: Option<Time>,
}

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// 1 to 1,024.
    #[serde(default = "one")]
    pub cpus: usize,
    /// How long is played.
    pub length: Time,
    /// Between ticks.
    #[serde(default = "tick")]
    pub tick: Time,
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

/// The scheduler's weight of a nice value: the kernel's table (`sched_prio_to_weight`) in units where nice 0
/// has 100, rounded, at least 1 (`sched_weight_to_cgroup`).
fn weight_of(nice: i32) -> u32 {
    const KERNEL: [u32; 40] = [
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100,
        4904, 3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172,
        137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
    ];
    let kernel = KERNEL[(nice + 20).clamp(0, 39) as usize];
    ((kernel * 100 + 512) / 1024).max(1)
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

    /// The same for a text.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self =
            toml::from_str(text).map_err(|e| ScenarioError::Parse(path.into(), e.to_string()))?;
        match scenario.wrong() {
            Some(what) => Err(ScenarioError::Value(path.into(), what)),
            None => Ok(scenario),
        }
    }

    /// The same on another number of CPUs.
    ///
    /// # Errors
    /// [`ScenarioError::Value`], naming `path`, if that makes no sense.
    pub fn with_cpus(self, path: &Path, cpus: usize) -> Result<Self, ScenarioError> {
        let scenario = Self { cpus, ..self };
        match scenario.wrong() {
            Some(what) => Err(ScenarioError::Value(path.into(), what)),
            None => Ok(scenario),
        }
    }

    fn wrong(&self) -> Option<String> {
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
            tasks = tasks.saturating_add(kind.count);
            if let Some(what) = kind.wrong(self.cpus) {
                return Some(format!("task \"{}\": {what}", kind.name));
            }
        }
        match tasks {
            0 => Some("it has no [[task]]".into()),
            n if n > MAX_TASKS => Some(format!("{n} tasks; at most {MAX_TASKS}")),
            _ => None,
        }
    }

    /// Play it. `progress` is told the time played so far, ns, now and then.
    pub fn play(&self, traced: bool, mut progress: impl FnMut(u64)) -> Report {
        let mut sim = Simulation::new(Settings {
            cpus: self.cpus,
            tick_ns: self.tick.0,
            traced,
            ..Settings::default()
        });
        let groups: Vec<_> = (1..)
            .zip(&self.task)
            .map(|(ino, kind)| kind.start(&mut sim, ino, self.cpus))
            .collect();
        for part in 1..=100 {
            let end = (u128::from(self.length.0) * part / 100) as u64;
            sim.run_until(end);
            progress(end);
        }
        let lines = self
            .task
            .iter()
            .zip(&groups)
            .map(|(kind, group)| group.line(kind, &sim, self.length.0));
        Report {
            cpus: self.cpus,
            length_ns: self.length.0,
            events: sim.events(),
            tasks: lines.collect(),
            names: self
                .task
                .iter()
                .flat_map(|kind| std::iter::repeat_n(kind.name.clone(), kind.count))
                .collect(),
            trace: sim.trace().to_vec(),
        }
    }
}

/// The tasks of one kind.
struct Group {
    ids: Vec<TaskId>,
    jobs: Vec<Rc<RefCell<Jobs>>>,
}

impl Kind {
    fn wrong(&self, cpus: usize) -> Option<String> {
        let given = (
            self.work.is_some(),
            self.period.is_some(),
            self.on.is_some(),
            self.off.is_some(),
        );
        if !matches!(
            given,
            (true, true, false, false) | (false, false, true, true) | (false, false, false, false)
        ) {
            return Some(
                "give work and period, or on and off, or none of them (it never stops)".into(),
            );
        }
        let zero = |time: Option<Time>| time.is_some_and(|t| t.0 == 0);
        if zero(self.work) || zero(self.period) || zero(self.on) || zero(self.off) {
            return Some("work, period, on and off must be more than 0".into());
        }
        if self.work.zip(self.period).is_some_and(|(w, p)| w.0 > p.0) {
            return Some("work is more than period".into());
        }
        if !(-20..=19).contains(&self.nice) {
            return Some(format!("nice = {}: -20 to 19", self.nice));
        }
        if self.count == 0 {
            return Some("count: at least 1".into());
        }
        match &self.cpus {
            Some(list) if list.is_empty() => Some("cpus is empty".into()),
            Some(list) => list
                .iter()
                .find(|&&c| c >= cpus)
                .map(|c| format!("cpus: there is no CPU {c}")),
            None => None,
        }
    }

    fn start(&self, sim: &mut Simulation, number: u64, cpus: usize) -> Group {
        let ino = self.reserve.map_or(0, |r| {
            let asked = Reservation {
                runtime: r.runtime,
                period: r.period,
                revocable: self.revocable,
                ..Reservation::default()
            };
            sim.spec(number, asked);
            number
        });
        let mut allowed = CpuMask::first(cpus);
        if let Some(list) = &self.cpus {
            (0..cpus).for_each(|cpu| allowed.set(cpu, list.contains(&cpu)));
        }
        let mut group = Group {
            ids: Vec::new(),
            jobs: Vec::new(),
        };
        for _ in 0..self.count {
            let program = self.program(ino, &mut group.jobs);
            let late = Late {
                until: self.start.0,
                program,
            };
            group
                .ids
                .push(sim.start_with(weight_of(self.nice), allowed, Box::new(late)));
        }
        group
    }

    fn program(&self, ino: u64, jobs: &mut Vec<Rc<RefCell<Jobs>>>) -> Box<dyn Program> {
        if let (Some(work), Some(period)) = (self.work, self.period) {
            let (task, noted) = Periodic::new(ino, work.0, period.0, self.start.0);
            jobs.push(noted);
            return Box::new(task);
        }
        match self.on.zip(self.off) {
            Some((on, off)) => Box::new(on_off(ino, on.0, off.0)),
            None => Box::new(hog(ino)),
        }
    }
}

/// Sleeps until its time, then is `program`.
struct Late {
    until: u64,
    program: Box<dyn Program>,
}

impl Program for Late {
    fn next(&mut self, now: u64, ran: u64) -> Step {
        if now < self.until {
            return Step::SleepUntil(self.until);
        }
        self.program.next(now, ran)
    }
}

impl Group {
    fn line(&self, kind: &Kind, sim: &Simulation, length: u64) -> Line {
        let mut response: Vec<u64> = Vec::new();
        let mut missed = 0;
        for jobs in &self.jobs {
            response.extend(&jobs.borrow().response);
            missed += jobs.borrow().missed;
        }
        response.sort_unstable();
        let ran: u64 = self.ids.iter().map(|&id| sim.ran(id)).sum();
        let servers = self.ids.iter().filter_map(|&id| sim.server(id));
        Line {
            name: kind.name.clone(),
            tasks: self.ids.len(),
            admitted: servers.filter(|s| s.0 == 1).count(),
            reserved: kind.reserve.is_some(),
            share_ppm: (u128::from(ran) * 1_000_000 / u128::from(length)) as u64,
            jobs: response.len(),
            missed,
            median_ns: response.get(response.len() / 2).copied().unwrap_or(0),
            worst_ns: response.last().copied().unwrap_or(0),
            migrations: self.ids.iter().map(|&id| sim.migrations(id)).sum(),
        }
    }
}

#[cfg(test)]
mod tests;
