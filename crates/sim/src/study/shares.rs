//! What two domains have of a machine of many CPUs, by their weights.
//!
//! Each domain has more tasks than it can use: loops, or tasks that sleep now and then. The first
//! second does not count. A domain is off by points: percent of all CPUs.

use serde::{Deserialize, Serialize};

use crate::workload::{hog, on_off};
use crate::{CpuMask, Settings, Simulation, TaskId, ROOT};

const SEC: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const WEIGHT: u32 = 100;

/// What the tasks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One loop for each CPU in each domain.
    Loops,
    /// Two tasks for each CPU in each domain, that run for 3 ms and sleep for 1 ms.
    Sleepers,
}

impl Kind {
    /// All, in the order of tables.
    pub const ALL: [Kind; 2] = [Kind::Loops, Kind::Sleepers];

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Loops => "loops",
            Kind::Sleepers => "sleepers",
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Number of CPUs.
    pub cpus: usize,
    /// What the tasks do.
    pub kind: Kind,
    /// Weight of the second domain, of the first one's.
    pub ratio: u32,
    /// Whole seconds that count.
    pub seconds: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// See [`Load`].
    pub cpus: usize,
    /// See [`Load`].
    pub kind: Kind,
    /// See [`Load`].
    pub ratio: u32,
    /// By how many points the first domain is off what it is due, in the worst second.
    pub second_off: f64,
    /// The same, over all seconds.
    pub off: f64,
    /// Part of all CPUs that both had together, ppm.
    pub used_ppm: u64,
}

impl Load {
    /// The tasks of a domain of `weight`.
    fn start(&self, sim: &mut Simulation, name: &str, weight: u32) -> Vec<TaskId> {
        let at = sim
            .create_cgroup(ROOT, name)
            .expect("a new cgroup of a new machine");
        sim.set_cgroup_weight(at, weight)
            .expect("a weight of 1 to 10,000");
        let all = CpuMask::first(self.cpus);
        let tasks = match self.kind {
            Kind::Loops => self.cpus,
            Kind::Sleepers => 2 * self.cpus,
        };
        (0..tasks)
            .map(|i| {
                let program: Box<dyn crate::Program> = match self.kind {
                    Kind::Loops => Box::new(hog(0)),
                    Kind::Sleepers => Box::new(on_off(0, 3 * MS, MS + i as u64)),
                };
                sim.start_in(at, 100, all, program)
                    .expect("a task of a cgroup that exists")
            })
            .collect()
    }

    /// By how many points the first domain is off, if it ran for `ran` ns in `seconds`.
    fn off(&self, ran: u64, seconds: u64) -> f64 {
        let due = 100.0 / f64::from(1 + self.ratio);
        100.0 * ran as f64 / (seconds * SEC * self.cpus as u64) as f64 - due
    }

    /// Play the run.
    pub fn play(&self) -> Outcome {
        let mut sim = Simulation::new(Settings {
            cpus: self.cpus,
            ..Settings::default()
        });
        let first = self.start(&mut sim, "one", WEIGHT);
        let second = self.start(&mut sim, "other", WEIGHT * self.ratio);
        let had = |sim: &Simulation, ids: &[TaskId]| ids.iter().map(|&id| sim.ran(id)).sum::<u64>();
        sim.run_until(SEC);
        let (begin, other) = (had(&sim, &first), had(&sim, &second));
        let mut before = begin;
        let mut second_off = 0.0_f64;
        for i in 1..=self.seconds {
            sim.run_until((1 + i) * SEC);
            let now = had(&sim, &first);
            second_off = second_off.max(self.off(now - before, 1).abs());
            before = now;
        }
        let used = before - begin + had(&sim, &second) - other;
        Outcome {
            cpus: self.cpus,
            kind: self.kind,
            ratio: self.ratio,
            second_off,
            off: self.off(before - begin, self.seconds),
            used_ppm: used / 1000 / (self.seconds * self.cpus as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(cpus: usize, kind: Kind, ratio: u32) -> Outcome {
        Load {
            cpus,
            kind,
            ratio,
            seconds: 2,
        }
        .play()
    }

    /// What it measures is what the domains ran: all of the machine, and halves of it.
    #[test]
    fn two_equal_domains_share_all_cpus() {
        for kind in Kind::ALL {
            let found = play(4, kind, 1);
            assert!(found.off.abs() < 1.0, "{found:?}");
            assert!(found.second_off >= found.off.abs(), "{found:?}");
            assert!(found.used_ppm > 990_000, "{found:?}");
        }
    }

    /// Of four CPUs at 1:3 the first domain is due one. Half of that, or twice as much, is off.
    #[test]
    fn a_share_that_is_not_received_is_off() {
        let load = Load {
            cpus: 4,
            kind: Kind::Loops,
            ratio: 3,
            seconds: 2,
        };
        assert_eq!(load.off(2 * SEC, 2), 0.0);
        assert_eq!(load.off(SEC, 2), -12.5);
        assert_eq!(load.off(4 * SEC, 2), 25.0);
    }
}
