//! What a machine of many CPUs gets done, if the scheduler's work takes time (cost.rs): tasks that
//! work for a short time, sleep and wake up again, more than the CPUs can serve.
//!
//! A cycle is one sleep and one wake-up. The first part of a run does not count: until then tasks
//! start, and queues grow to their length.

use std::cell::Cell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::{CgroupId, Costs, CpuMask, Program, Settings, Simulation, Spent, Step, ROOT};

/// Tasks for each CPU: with as much sleep as work, two would be enough to keep it busy.
const TASKS: usize = 4;
/// What a task works for, and what it sleeps for, ns.
const WORK_NS: u64 = 100_000;
/// What is left out at the beginning, of a run's length.
const SETTLE: u64 = 4;
const SERVICES: usize = 40;

/// Where the tasks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// There is no domain.
    Plain,
    /// In 40 domains at depth 3.
    Services,
    /// In one domain at depth 8.
    Deep,
}

impl Place {
    /// All, in the order of tables.
    pub const ALL: [Place; 3] = [Place::Plain, Place::Services, Place::Deep];

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Place::Plain => "plain",
            Place::Services => "services",
            Place::Deep => "deep",
        }
    }

    /// Makes the domains. Returns those with tasks.
    fn domains(self, sim: &mut Simulation) -> Vec<CgroupId> {
        let below = |sim: &mut Simulation, above, name: &str| {
            sim.create_cgroup(above, name)
                .expect("a new cgroup of a new machine")
        };
        match self {
            Place::Plain => vec![ROOT],
            Place::Services => {
                let slice = below(sim, ROOT, "system");
                let inner = below(sim, slice, "inner");
                (0..SERVICES)
                    .map(|i| below(sim, inner, &format!("s{i}")))
                    .collect()
            }
            Place::Deep => {
                let leaf = (1..=8).fold(ROOT, |above, i| below(sim, above, &format!("d{i}")));
                vec![leaf]
            }
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Number of CPUs.
    pub cpus: usize,
    /// Where the tasks are.
    pub place: Place,
    /// What the scheduler's work takes.
    pub costs: Costs,
    /// Length of the run, ns.
    pub length_ns: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// See [`Load`].
    pub cpus: usize,
    /// See [`Load`].
    pub place: Place,
    /// Cycles of all tasks, in a second.
    pub cycles_per_s: f64,
    /// How often the lock of the tree of domains was taken, for each cycle.
    pub tree_locks_per_cycle: f64,
    /// Part of all CPUs' time that went into waiting for locks, ppm.
    pub waiting_ppm: u64,
    /// The same, into the scheduler's other work.
    pub working_ppm: u64,
}

/// Works and sleeps, and counts how often.
fn cycles(count: &Rc<Cell<u64>>) -> impl Program {
    let count = Rc::clone(count);
    let mut works = false;
    move |now: u64, _ran: u64| {
        works = !works;
        if works {
            return Step::Run(WORK_NS);
        }
        count.set(count.get() + 1);
        Step::SleepUntil(now + WORK_NS)
    }
}

impl Load {
    /// Play the run.
    pub fn play(&self) -> Outcome {
        let mut sim = Simulation::new(Settings {
            cpus: self.cpus,
            costs: Some(self.costs),
            ..Settings::default()
        });
        let domains = self.place.domains(&mut sim);
        let count = Rc::default();
        for i in 0..TASKS * self.cpus {
            let at = domains[i % domains.len()];
            sim.start_in(at, 100, CpuMask::first(self.cpus), Box::new(cycles(&count)))
                .expect("a task of a cgroup that exists");
        }
        let from = self.length_ns / SETTLE;
        sim.run_until(from);
        let (done, spent, locks) = (count.get(), sim.spent(), sim.tree_locks());
        sim.run_until(self.length_ns);
        let Spent { waiting, working } = sim.spent();
        let done = count.get() - done;
        let all = (self.length_ns - from) * self.cpus as u64;
        let ppm = |ns: u64| ns.saturating_mul(1_000_000) / all.max(1);
        Outcome {
            cpus: self.cpus,
            place: self.place,
            cycles_per_s: done as f64 * 1e9 / (self.length_ns - from) as f64,
            tree_locks_per_cycle: (sim.tree_locks() - locks) as f64 / done.max(1) as f64,
            waiting_ppm: ppm(waiting - spent.waiting),
            working_ppm: ppm(working - spent.working),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        call: 200,
        line: 100,
        tree: 300,
        round: 30,
        queue: 200,
    };
    const FREE: Costs = Costs {
        call: 0,
        line: 0,
        tree: 0,
        round: 0,
        queue: 0,
    };

    fn play(cpus: usize, place: Place, costs: Costs) -> Outcome {
        Load {
            cpus,
            place,
            costs,
            length_ns: 40_000_000,
        }
        .play()
    }

    /// Work that costs nothing leaves each CPU 10,000 cycles of 0.1 ms a second.
    #[test]
    fn without_costs_all_time_is_the_tasks() {
        for place in Place::ALL {
            let found = play(4, place, FREE);
            assert!(
                (39_000.0..=40_000.0).contains(&found.cycles_per_s),
                "{found:?}"
            );
            assert_eq!((found.waiting_ppm, found.working_ppm), (0, 0));
        }
    }

    /// What the scheduler takes, the tasks lack: each CPU's time is one or the other.
    #[test]
    fn all_time_is_accounted() {
        for (cpus, place) in [(1, Place::Plain), (4, Place::Services), (16, Place::Deep)] {
            let found = play(cpus, place, COSTS);
            let tasks = found.cycles_per_s * WORK_NS as f64 / 1e3 / cpus as f64;
            let all = tasks + (found.waiting_ppm + found.working_ppm) as f64;
            assert!(
                (970_000.0..=1_010_000.0).contains(&all),
                "{all} ppm: {found:?}"
            );
        }
    }

    /// One lock for the machine: its holders work for at most one CPU's time together.
    #[test]
    fn a_lock_of_the_machine_bounds_what_many_cpus_do() {
        let (few, many) = (
            play(2, Place::Services, COSTS),
            play(256, Place::Services, COSTS),
        );
        assert!(few.waiting_ppm < 20_000, "{few:?}");
        assert!(many.waiting_ppm > 100_000, "{many:?}");
        let locks_a_second = many.tree_locks_per_cycle * many.cycles_per_s;
        assert!(locks_a_second * (COSTS.tree as f64) < 1.05e9, "{many:?}");
    }
}
