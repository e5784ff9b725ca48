//! One kind of task of a scenario: its fields, their limits, and the program that they describe.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;

use super::{one, zero, Reserve, Time};
use crate::rng::Rng;
use crate::workload::{
    hog, on_off, Arrivals, Bomb, JobLog, Movie, Periodic, Player, Random, Trace, TraceError,
};
use crate::Program;

/// A kind of task. At most one of `work`, `on`, `trace`, `bomb` and `random` is given: it selects
/// the tasks' program. Without any the tasks never stop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kind {
    /// Name in the table.
    pub name: String,
    /// Number of tasks.
    #[serde(default = "one")]
    pub count: usize,
    /// -20 to 19.
    #[serde(default)]
    pub nice: i32,
    /// CPUs on which the tasks may run [default: all].
    pub cpus: Option<Vec<usize>>,
    /// The time at which the tasks start.
    #[serde(default = "zero")]
    pub start: Time,
    /// The reservation of each task.
    pub reserve: Option<Reserve>,
    /// The reservation may be revoked.
    #[serde(default)]
    pub revocable: bool,
    /// The reservation is guaranteed.
    #[serde(default)]
    pub guaranteed: bool,
    /// Jobs: CPU time of each. One is released in every `period`, which is also its relative
    /// deadline.
    pub work: Option<Time>,
    /// See `work` and `trace`.
    pub period: Option<Time>,
    /// Jobs: each is released `period` plus a random time after the one before, and the random time
    /// is at most this (sporadic).
    pub extra: Option<Time>,
    /// Jobs: number of jobs that are released together.
    pub burst: Option<u32>,
    /// On-off: the task runs for this long, then sleeps for `off`.
    pub on: Option<Time>,
    /// See `on`.
    pub off: Option<Time>,
    /// A movie: a file with the CPU time of each frame, in the scenario's folder, or synthetic-h264
    /// or synthetic-raw.
    pub trace: Option<PathBuf>,
    /// A movie: scale the trace to this mean, and with `peak` to this longest frame.
    pub mean: Option<Time>,
    /// See `mean`.
    pub peak: Option<Time>,
    /// A movie: drop frames that are more than this many periods late [default: none is dropped].
    pub drop_after: Option<u64>,
    /// A fork bomb that grows to this many tasks.
    pub bomb: Option<u64>,
    /// A bomb: CPU time between forks.
    pub pause: Option<Time>,
    /// Runs and sleeps at random.
    #[serde(default)]
    pub random: bool,
    /// The scaled trace.
    #[serde(skip)]
    frames: Option<Rc<Trace>>,
}

impl Kind {
    /// The first field that is wrong, as a message.
    pub(super) fn problem(&self, cpus: usize) -> Option<String> {
        let what = [
            self.work.is_some(),
            self.on.is_some() || self.off.is_some(),
            self.trace.is_some(),
            self.bomb.is_some(),
            self.random,
        ];
        let [jobs, on_off, movie, bomb, _] = what;
        let complete = what.iter().filter(|&&given| given).count() <= 1
            && self.period.is_some() == (jobs || movie)
            && self.on.is_some() == self.off.is_some();
        if !complete {
            return Some(
                "give work and period, or trace and period, or on and off, or bomb, or random, \
                 or none of them (it never stops)"
                    .into(),
            );
        }
        for (given, field, of, suits) in [
            (self.extra.is_some(), "extra", "work", jobs),
            (self.burst.is_some(), "burst", "work", jobs),
            (self.mean.is_some(), "mean", "trace", movie),
            (self.peak.is_some(), "peak", "mean", self.mean.is_some()),
            (self.drop_after.is_some(), "drop-after", "trace", movie),
            (self.pause.is_some(), "pause", "bomb", bomb),
        ] {
            if given && !suits {
                return Some(format!("{field} goes with {of}"));
            }
        }
        let times = [
            self.work,
            self.period,
            self.on,
            self.off,
            self.mean,
            self.peak,
            self.pause,
        ];
        if times.iter().flatten().any(|t| t.0 == 0) || self.burst == Some(0) || self.bomb == Some(0)
        {
            let all = if on_off || jobs {
                "work, period, on, off and burst"
            } else {
                "period, mean, peak, bomb and pause"
            };
            return Some(format!("{all} must be more than 0"));
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
        if (self.revocable || self.guaranteed) && self.reserve.is_none() {
            return Some("revocable and guaranteed go with reserve".into());
        }
        if self.revocable && self.guaranteed {
            return Some("revocable and guaranteed exclude each other".into());
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

    /// Number of tasks of this kind in the end, forked ones included.
    pub(super) fn tasks(&self) -> usize {
        let grown = usize::try_from(self.bomb.unwrap_or(1)).unwrap_or(usize::MAX);
        self.count.saturating_mul(grown)
    }

    /// Read the trace. `folder` is the scenario's folder.
    pub(super) fn load(&mut self, folder: &Path) -> Result<(), TraceError> {
        let Some(path) = &self.trace else {
            return Ok(());
        };
        let made = path.to_str().and_then(|name| Trace::synthetic(name, 1));
        let trace = match made {
            Some(trace) => trace,
            None => Trace::read(&folder.join(path))?,
        };
        let peak = self.peak.map(|p| p.0);
        self.frames = Some(Rc::new(match self.mean {
            Some(mean) => trace.scaled(mean.0, peak)?,
            None => trace,
        }));
        Ok(())
    }

    /// The weight of the nice value in sched_ext: that of the kernel's table
    /// (`sched_prio_to_weight`), scaled so that nice 0 has 100, rounded, at least 1
    /// (`sched_weight_to_cgroup`).
    pub(super) fn weight(&self) -> u32 {
        const KERNEL: [u32; 40] = [
            88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100,
            4904, 3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172,
            137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
        ];
        let kernel = KERNEL[(self.nice + 20).clamp(0, 39) as usize];
        ((kernel * 100 + 512) / 1024).max(1)
    }

    /// The program of one of its tasks, which executes `ino` first (0: none), and its log of jobs.
    pub(super) fn program(&self, ino: u64, rng: &mut Rng) -> (Box<dyn Program>, Option<JobLog>) {
        let first = self.start.0;
        let period = self.period.map_or(0, |p| p.0);
        if let Some(work) = self.work {
            let arrivals = Arrivals {
                period,
                extra: self.extra.map_or(0, |e| e.0),
                burst: self.burst.unwrap_or(1),
                rng: Rng::new(rng.next_u64()),
            };
            let (task, jobs) = Periodic::arriving(ino, work.0, first, arrivals);
            return (Box::new(task), Some(jobs));
        }
        if let Some(trace) = &self.frames {
            let (task, _, jobs) = Movie::new(Player {
                ino,
                trace: Rc::clone(trace),
                from: rng.below(trace.frames().len() as u64) as usize,
                period,
                first,
                drop_after: self.drop_after,
            });
            return (Box::new(task), Some(jobs));
        }
        let program: Box<dyn Program> = match (self.on.zip(self.off), self.bomb) {
            (Some((on, off)), _) => Box::new(on_off(ino, on.0, off.0)),
            (None, Some(tasks)) => {
                let pause = self.pause.map_or(1_000_000, |p| p.0);
                Box::new(Bomb::new(ino, tasks, pause))
            }
            _ if self.random => Box::new(Random::alone(ino, rng.next_u64())),
            _ => Box::new(hog(ino)),
        };
        (program, None)
    }
}
