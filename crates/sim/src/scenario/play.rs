//! Plays a scenario on a machine with any scheduler.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Kind, Scenario};
use crate::machine::{Machine, Scheduler};
use crate::report::{Line, Report};
use crate::rng::Rng;
use crate::workload::JobLog;
use crate::{CpuMask, Program, Reservation, Settings, Step, TaskId};

/// How a scenario is played.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The seed, instead of the scenario's.
    pub seed: Option<u64>,
    /// Keep the context switches, for the picture.
    pub traced: bool,
}

impl Scenario {
    /// Play the scenario. `progress` is called 100 times, with the virtual time so far, ns.
    pub fn play(&self, options: Options, mut progress: impl FnMut(u64)) -> Report {
        let mut machine = options.scheduler.machine(Settings {
            cpus: self.cpus,
            tick_ns: self.tick.0,
            traced: options.traced,
            ..Settings::default()
        });
        let seed = options.seed.unwrap_or(self.seed);
        let mut rng = Rng::new(seed);
        let births = Births::default();
        let mut groups = Vec::new();
        for (ino, kind) in (1..).zip(&self.task) {
            groups.push(kind.start(&mut *machine, ino, self.cpus, &births, &mut rng));
        }
        for part in 1..=100 {
            let end = (u128::from(self.length.0) * part / 100) as u64;
            machine.run_until(end);
            progress(end);
        }
        let own: usize = groups.iter().map(|group| group.ids.len()).sum();
        for (id, &kind) in (own..).zip(births.borrow().iter()) {
            groups[kind as usize - 1].ids.push(id);
        }
        let mut names = vec![String::new(); own + births.borrow().len()];
        for (kind, group) in self.task.iter().zip(&groups) {
            (group.ids.iter()).for_each(|&id| names[id].clone_from(&kind.name));
        }
        let lines = self.task.iter().zip(&groups);
        let lines = lines.map(|(kind, group)| group.line(kind, &*machine, self.length.0));
        Report {
            scheduler: options.scheduler,
            seed,
            cpus: self.cpus,
            length_ns: self.length.0,
            events: machine.events(),
            tasks: lines.collect(),
            names,
            trace: machine.trace().to_vec(),
        }
    }
}

/// The number of the kind of each forked task, in the order of the forks, which is that of task
/// ids.
type Births = Rc<RefCell<Vec<u64>>>;

/// The tasks of one kind.
struct Group {
    ids: Vec<TaskId>,
    jobs: Vec<JobLog>,
}

impl Kind {
    fn start(
        &self,
        machine: &mut dyn Machine,
        number: u64,
        cpus: usize,
        births: &Births,
        rng: &mut Rng,
    ) -> Group {
        let ino = self.reserve.map_or(0, |r| {
            let asked = Reservation {
                runtime: r.runtime,
                period: r.period,
                revocable: self.revocable,
                guaranteed: self.guaranteed,
                ..Reservation::default()
            };
            machine.reserve(number, asked);
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
            let (program, jobs) = self.program(ino, rng);
            group.jobs.extend(jobs);
            let task = Member {
                until: self.start.0,
                kind: number,
                births: Rc::clone(births),
                program,
            };
            let id = machine.start_with(self.weight(), allowed, Box::new(task));
            group.ids.push(id);
        }
        group
    }
}

/// A task that sleeps until `until`, then does what `program` does. It records the kind of its
/// children.
struct Member {
    until: u64,
    kind: u64,
    births: Births,
    program: Box<dyn Program>,
}

impl Program for Member {
    fn next(&mut self, now: u64, ran: u64) -> Step {
        if now < self.until {
            return Step::SleepUntil(self.until);
        }
        self.program.next(now, ran)
    }

    fn child(&mut self, which: u64) -> Box<dyn Program> {
        self.births.borrow_mut().push(self.kind);
        Box::new(Self {
            until: 0,
            kind: self.kind,
            births: Rc::clone(&self.births),
            program: self.program.child(which),
        })
    }
}

impl Group {
    fn line(&self, kind: &Kind, machine: &dyn Machine, length: u64) -> Line {
        let mut response: Vec<u64> = Vec::new();
        let mut missed = 0;
        for jobs in &self.jobs {
            response.extend(&jobs.borrow().response);
            missed += jobs.borrow().missed_at(length);
        }
        response.sort_unstable();
        let ran: u64 = self.ids.iter().map(|&id| machine.ran(id)).sum();
        let admitted = self.ids.iter().filter(|&&id| machine.admitted(id));
        Line {
            name: kind.name.clone(),
            tasks: self.ids.len(),
            admitted: admitted.count(),
            reserved: kind.reserve.is_some(),
            share_ppm: (u128::from(ran) * 1_000_000 / u128::from(length)) as u64,
            jobs: response.len(),
            missed,
            median_ns: response.get(response.len() / 2).copied().unwrap_or(0),
            worst_ns: response.last().copied().unwrap_or(0),
            migrations: self.ids.iter().map(|&id| machine.migrations(id)).sum(),
        }
    }
}
