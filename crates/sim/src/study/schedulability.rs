//! Figures 21 to 23: how many of the random task sets with the same workload meet all deadlines.
//!
//! A set succeeds if all its tasks are admitted (by schedulers that admit) and no task misses a
//! deadline in the run. Each task reserves what it uses, or a margin more. Tasks start 1 ms apart,
//! in the order of admission, and their first jobs are released together. A run ends at the first
//! miss. aplomb is simulated with kicks that take 1 us, the models without delay (see `model/`).

use serde::{Deserialize, Serialize};

use crate::machine::Scheduler;
use crate::study::taskset::{PeriodicTask, Recipe};
use crate::study::{analysis, settings};
use crate::workload::Periodic;
use crate::{CpuMask, Reservation};

/// Time between the starts of tasks, ns.
const APART_NS: u64 = 1_000_000;
/// Time from the last start to the first jobs, ns: two of the longest periods, so that the period
/// that a server began at its admission is over.
const SETTLE_NS: u64 = 200_000_000;
/// Time between checks for a miss, ns.
const LOOK_NS: u64 = 200_000_000;

/// Some task sets of one point of a figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The simulated columns. The analytic ones follow them.
    pub schedulers: Vec<Scheduler>,
    /// Number of CPUs.
    pub cpus: usize,
    /// C/T of tasks, ppm.
    pub range_ppm: (u64, u64),
    /// Workload, ppm of all CPUs.
    pub workload_ppm: u64,
    /// Seed of the first set; the other sets have the next numbers.
    pub seed: u64,
    /// Number of sets.
    pub sets: u64,
    /// Length of each run, ns.
    pub length_ns: u64,
    /// Each task reserves this much more than it uses, ns, at most its period.
    pub margin_ns: u64,
}

/// The result of a batch under one scheduler, or by one test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of sets that missed no deadline (or that the test accepts).
    pub met: u64,
    /// Number of sets with a task that was not admitted (or that the test refuses).
    pub refused: u64,
    /// Seeds of the sets that were admitted and missed a deadline.
    pub missed: Vec<u64>,
    /// Number of simulated events.
    pub events: u64,
}

/// The result of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No deadline missed.
    Met,
    /// A task was not admitted.
    Refused,
    /// A deadline was missed.
    Missed,
}

impl Tally {
    /// Add the results of another batch.
    pub fn add(&mut self, other: Self) {
        self.met += other.met;
        self.refused += other.refused;
        self.missed.extend(other.missed);
        self.events += other.events;
    }
}

impl Batch {
    /// Names of all columns.
    pub fn columns(schedulers: &[Scheduler]) -> Vec<String> {
        let played = schedulers.iter().map(Scheduler::to_string);
        played
            .chain(analysis::TESTS.map(|(name, _)| name.to_owned()))
            .collect()
    }

    /// Play one set. Returns the number of events, too.
    fn play_set(&self, scheduler: Scheduler, set: &[PeriodicTask]) -> (Outcome, u64) {
        let mut machine = scheduler.machine(settings(self.cpus));
        let begin = APART_NS * set.len() as u64 + SETTLE_NS;
        let mut started = Vec::new();
        for (ino, task) in (1..).zip(set) {
            machine.reserve(
                ino,
                Reservation {
                    runtime: task.period.min(task.work + self.margin_ns),
                    period: task.period,
                    guaranteed: true,
                    ..Reservation::default()
                },
            );
            let (program, jobs) = Periodic::new(ino, task.work, task.period, begin);
            let id = machine.start_with(100, CpuMask::first(self.cpus), Box::new(program));
            machine.run_until(APART_NS * ino);
            if scheduler.admits() && !machine.admitted(id) {
                return (Outcome::Refused, machine.events());
            }
            started.push(jobs);
        }
        let mut now = begin;
        while now < begin + self.length_ns {
            now = (now + LOOK_NS).min(begin + self.length_ns);
            machine.run_until(now);
            if started.iter().any(|jobs| jobs.borrow().late(now)) {
                return (Outcome::Missed, machine.events());
            }
        }
        (Outcome::Met, machine.events())
    }

    /// A tally for each column.
    pub fn play(&self) -> Vec<Tally> {
        let columns = self.schedulers.len() + analysis::TESTS.len();
        let mut tallies = vec![Tally::default(); columns];
        let recipe = Recipe {
            range_ppm: self.range_ppm,
            total_ppm: self.workload_ppm * self.cpus as u64,
        };
        for seed in self.seed..self.seed + self.sets {
            let set = recipe.draw(seed);
            let (played, tested) = tallies.split_at_mut(self.schedulers.len());
            for (&scheduler, tally) in self.schedulers.iter().zip(played) {
                let (outcome, events) = self.play_set(scheduler, &set);
                tally.events += events;
                match outcome {
                    Outcome::Met => tally.met += 1,
                    Outcome::Refused => tally.refused += 1,
                    Outcome::Missed => tally.missed.push(seed),
                }
            }
            for ((_, test), tally) in analysis::TESTS.iter().zip(tested) {
                if test(&set, self.cpus) {
                    tally.met += 1;
                } else {
                    tally.refused += 1;
                }
            }
        }
        tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tasks: &[(u64, u64)]) -> Vec<PeriodicTask> {
        let task = |&(c, t): &(u64, u64)| PeriodicTask {
            work: c * 1_000_000,
            period: t * 1_000_000,
        };
        tasks.iter().map(task).collect()
    }

    #[test]
    fn a_set_is_met_refused_or_missed() {
        let play = |name: &str, tasks: &[(u64, u64)]| {
            let batch = Batch {
                schedulers: Vec::new(),
                cpus: 2,
                range_ppm: (0, 0),
                workload_ppm: 0,
                seed: 0,
                sets: 0,
                length_ns: 2_000_000_000,
                margin_ns: 0,
            };
            batch.play_set(name.parse().unwrap(), &set(tasks)).0
        };
        let over = [(6, 10), (6, 10), (6, 10)];
        assert_eq!(play("global-edf-soft", &over), Outcome::Missed);
        assert_eq!(play("partitioned-ff", &over), Outcome::Refused);
        assert_eq!(play("partitioned-ff", &over[..2]), Outcome::Met);
        assert_eq!(play("eevdf", &[(10, 10), (1, 1)]), Outcome::Met);
        assert_eq!(play("eevdf", &[(10, 10), (1, 1), (1, 10)]), Outcome::Missed);
        assert_eq!(play("aplomb", &[(3, 10), (3, 10)]), Outcome::Met);
        assert_eq!(
            play("aplomb", &[(9, 10), (9, 10), (9, 10)]),
            Outcome::Refused
        );
    }

    /// Of these 33 sets admission lets 11 in. In the last three, a CPU that had become idle took a
    /// split task from the CPU of its window, again and again.
    #[test]
    fn what_is_admitted_meets_its_deadlines() {
        let play = |seed, sets| {
            let batch = Batch {
                schedulers: vec!["aplomb-fcbs".parse().unwrap()],
                cpus: 4,
                range_ppm: (500_000, 1_000_000),
                workload_ppm: 950_000,
                seed,
                sets,
                length_ns: 3_000_000_000,
                margin_ns: 50_000,
            };
            batch.play().swap_remove(0)
        };
        let mut tally = play(1, 30);
        for seed in [144, 286, 391] {
            tally.add(play(seed, 1));
        }
        assert!(tally.missed.is_empty(), "{tally:?}");
        assert!(tally.met > 10, "{tally:?}");
    }

    #[test]
    fn two_batches_give_the_result_of_one() {
        let batch = |seed, sets| Batch {
            schedulers: vec!["global-edf-soft".parse().unwrap()],
            cpus: 4,
            range_ppm: (500_000, 1_000_000),
            workload_ppm: 850_000,
            seed,
            sets,
            length_ns: 1_000_000_000,
            margin_ns: 0,
        };
        let whole = batch(1, 20).play();
        let mut parts = batch(1, 5).play();
        for (sum, part) in parts.iter_mut().zip(batch(6, 15).play()) {
            sum.add(part);
        }
        assert_eq!(whole, parts);
        let edf = &whole[0];
        assert_eq!(edf.met + edf.missed.len() as u64, 20, "it refuses none");
        assert!(edf.met > 0 && !edf.missed.is_empty(), "{edf:?}");
    }
}
