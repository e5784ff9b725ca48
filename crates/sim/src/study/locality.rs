//! Several caches: how often tasks change the cache where their data is, and whether they have what
//! they are due all the same.
//!
//! A task's data is read again when the task comes to a CPU of another cache: that is the model of
//! a cache miss. How long it takes is not played.

use serde::{Deserialize, Serialize};

use crate::workload::{hog, on_off};
use crate::{CpuMask, Settings, Simulation, TaskId, ROOT};

const SEC: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// Sleepers run for this long, and sleep for half of it, ns.
const ON: u64 = MS / 2;

/// One run: tasks of one domain, of which each sees all caches.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Number of caches.
    pub caches: usize,
    /// CPUs that share one.
    pub each: usize,
    /// Loops.
    pub loops: usize,
    /// Tasks that sleep now and then.
    pub sleepers: usize,
    /// Does the scheduler know which CPUs share a cache?
    pub known: bool,
    /// Whole seconds that count, after the first.
    pub seconds: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// See [`Load`].
    pub loops: usize,
    /// See [`Load`].
    pub sleepers: usize,
    /// See [`Load`].
    pub known: bool,
    /// How often a loop came to another cache, in a second.
    pub changes_per_s: f64,
    /// The same, of the turns of all loops, ppm.
    pub changed_ppm: u64,
    /// By how much the loop that is furthest off has more or less than their mean, percent.
    pub off_percent: f64,
    /// CPU time of a sleeper, ppm of a CPU.
    pub sleeper_ppm: u64,
}

impl Load {
    fn cpus(&self) -> usize {
        self.caches * self.each
    }

    /// (turns of `ids` from `from` ns on; of these, those beside another cache than the one before)
    fn turns(&self, sim: &Simulation, ids: &[TaskId], from: u64) -> (u64, u64) {
        let mut at = vec![None; sim.tasks()];
        let (mut turns, mut changes) = (0, 0);
        for switch in sim.trace() {
            let Some(id) = switch.task.filter(|id| ids.contains(id)) else {
                continue;
            };
            let cache = switch.cpu / self.each;
            let before = at[id].replace(cache);
            if switch.at >= from {
                turns += 1;
                changes += u64::from(before.is_some_and(|b| b != cache));
            }
        }
        (turns, changes)
    }

    /// Play the run.
    pub fn play(&self) -> Outcome {
        let mut sim = Simulation::new(Settings {
            cpus: self.cpus(),
            cache: self.known.then_some(self.each),
            traced: true,
            ..Settings::default()
        });
        let domain = sim
            .create_cgroup(ROOT, "domain")
            .expect("a new cgroup of a new machine");
        let all = CpuMask::first(self.cpus());
        let start = |sim: &mut Simulation, program| {
            sim.start_in(domain, 100, all, program)
                .expect("a task of a cgroup that exists")
        };
        let loops: Vec<_> = (0..self.loops)
            .map(|_| start(&mut sim, Box::new(hog(0))))
            .collect();
        let sleepers: Vec<_> = (0..self.sleepers)
            .map(|_| start(&mut sim, Box::new(on_off(0, ON, ON / 2))))
            .collect();
        let had = |sim: &Simulation, ids: &[TaskId]| -> Vec<u64> {
            ids.iter().map(|&id| sim.ran(id)).collect()
        };
        sim.run_until(SEC);
        let (first, slept) = (had(&sim, &loops), had(&sim, &sleepers));
        sim.run_until((1 + self.seconds) * SEC);
        let ran = |now: Vec<u64>, before: Vec<u64>| -> Vec<u64> {
            now.iter().zip(before).map(|(n, b)| n - b).collect()
        };
        let looped = ran(had(&sim, &loops), first);
        let slept = ran(had(&sim, &sleepers), slept);
        let mean = |all: &[u64]| all.iter().sum::<u64>() as f64 / all.len().max(1) as f64;
        let due = mean(&looped).max(1.0);
        let off = |ns: &u64| 100.0 * (*ns as f64 / due - 1.0).abs();
        let (turns, changes) = self.turns(&sim, &loops, SEC);
        let length = self.seconds * SEC;
        Outcome {
            loops: self.loops,
            sleepers: self.sleepers,
            known: self.known,
            changes_per_s: changes as f64 / self.seconds as f64,
            changed_ppm: changes * 1_000_000 / turns.max(1),
            off_percent: looped.iter().map(off).fold(0.0, f64::max),
            sleeper_ppm: (mean(&slept) * 1e6) as u64 / length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(loops: usize, sleepers: usize, known: bool) -> Outcome {
        let load = Load {
            caches: 2,
            each: 4,
            loops,
            sleepers,
            known,
            seconds: 2,
        };
        load.play()
    }

    #[test]
    fn knowing_the_caches_helps() {
        let (known, not_known) = (play(9, 0, true), play(9, 0, false));
        assert!(known.changes_per_s * 4.0 < not_known.changes_per_s);
        assert!(known.off_percent < 2.0 && not_known.off_percent < 10.0);
    }

    #[test]
    fn sleepers_have_what_they_had() {
        let (known, not_known) = (play(8, 4, true), play(8, 4, false));
        let ratio = known.sleeper_ppm as f64 / not_known.sleeper_ppm as f64;
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
        assert!(known.sleeper_ppm > 100_000);
    }
}
