//! CPUs that differ: what programs get on a machine of fast and slow CPUs, if the scheduler knows
//! which are which, and if it takes all for alike.

use std::cell::Cell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::workload::{JobLog, Periodic};
use crate::{
    Change, CpuMask, Program, Reservation, Settings, Simulation, SlowCpus, Step, TaskId, SCHED_IDLE,
};

const SEC: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// A game or a film: work in each of its periods, and what is reserved for it, ns.
const FRAME_WORK: u64 = 4 * MS;
const FRAME_RESERVED: u64 = 5 * MS;
const FRAME_PERIOD: u64 = 16 * MS;
/// An editor: work after each key, and the time between keys, ns.
const KEY_WORK: u64 = 2 * MS;
const KEY_PERIOD: u64 = 50 * MS;
/// Seconds that do not count: until then tasks start, and reservations are placed.
const SETTLE: u64 = 1;

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// Programs with reservations, two for each fast CPU and one for each slow CPU, beside two
    /// loops for each CPU.
    Frames,
    /// The same, guaranteed.
    Guaranteed,
    /// Ordinary programs that wake up now and then, one for each fast CPU, and a loop of background
    /// work (`SCHED_IDLE`) for each slow CPU.
    Keys,
    /// A loop for each CPU. After the first second all end but as many as there are fast CPUs:
    /// those that were started last.
    Loops,
}

impl Case {
    /// All, in the order of tables.
    pub const ALL: [Case; 4] = [Case::Frames, Case::Guaranteed, Case::Keys, Case::Loops];

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Case::Frames => "frames",
            Case::Guaranteed => "guaranteed",
            Case::Keys => "keys",
            Case::Loops => "loops",
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Number of fast CPUs.
    pub fast: usize,
    /// Number of slow CPUs.
    pub slow: usize,
    /// What a slow CPU does, in 1024ths of what a fast one does.
    pub capacity: u16,
    /// Does the scheduler know it?
    pub known: bool,
    /// What runs.
    pub case: Case,
    /// Whole seconds that count.
    pub seconds: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Jobs (frames, keys) that were completed.
    pub jobs: u64,
    /// Of these, later than a period after their release; and those that are overdue at the end.
    pub missed: u64,
    /// Mean response time of a job, of the time that its work takes on a fast CPU.
    pub response: f64,
    /// Work of the loops, of what as many fast CPUs do, ppm.
    pub work_ppm: u64,
}

/// The run, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// See [`Load`].
    pub case: Case,
    /// See [`Load`].
    pub known: bool,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Never stops, and counts its work, ns.
fn counted(done: &Rc<Cell<u64>>) -> impl Program {
    const STEP: u64 = MS;
    let done = Rc::clone(done);
    let mut begun = false;
    move |_now: u64, _ran: u64| {
        if std::mem::replace(&mut begun, true) {
            done.set(done.get() + STEP);
        }
        Step::Run(STEP)
    }
}

/// What all `logs` say of jobs with `work` ns that were released from `from` on.
fn sum(logs: &[JobLog], work: u64, now: u64) -> Outcome {
    let mut total = Outcome::default();
    let mut response = 0;
    for log in logs {
        let log = log.borrow();
        total.jobs += log.response.len() as u64;
        total.missed += log.missed_at(now);
        response += log.response.iter().sum::<u64>();
    }
    total.response = response as f64 / (total.jobs * work).max(1) as f64;
    total
}

impl Load {
    fn cpus(&self) -> usize {
        self.fast + self.slow
    }

    fn end(&self) -> u64 {
        (SETTLE + self.seconds) * SEC
    }

    fn loops(&self, sim: &mut Simulation, count: usize, done: &Rc<Cell<u64>>) -> Vec<TaskId> {
        (0..count).map(|_| sim.start(counted(done))).collect()
    }

    /// `count` programs that begin with the first second that counts, at times of their own.
    fn periodic(
        &self,
        sim: &mut Simulation,
        count: usize,
        (ino, work, period): (u64, u64, u64),
    ) -> Vec<JobLog> {
        let each = |i: usize| {
            let first = SETTLE * SEC + period * i as u64 / count as u64;
            let (task, log) = Periodic::new(ino, work, period, first);
            sim.start_with(100, CpuMask::first(self.cpus()), Box::new(task));
            log
        };
        (0..count).map(each).collect()
    }

    fn frames(&self, sim: &mut Simulation, guaranteed: bool) -> Outcome {
        let program = 1;
        let count = 2 * self.fast + self.slow;
        let asked = Reservation {
            runtime: FRAME_RESERVED,
            period: FRAME_PERIOD,
            guaranteed,
            ..Reservation::default()
        };
        sim.spec(program, asked);
        self.loops(sim, 2 * self.cpus(), &Rc::default());
        let logs = self.periodic(sim, count, (program, FRAME_WORK, FRAME_PERIOD));
        sim.run_until(self.end());
        sum(&logs, FRAME_WORK, self.end())
    }

    fn keys(&self, sim: &mut Simulation) -> Outcome {
        for id in self.loops(sim, self.slow, &Rc::default()) {
            sim.change(Change::Policy(id, SCHED_IDLE));
        }
        let logs = self.periodic(sim, self.fast, (0, KEY_WORK, KEY_PERIOD));
        sim.run_until(self.end());
        sum(&logs, KEY_WORK, self.end())
    }

    fn work(&self, sim: &mut Simulation) -> Outcome {
        let done = Rc::default();
        let first = self.loops(sim, self.slow, &Rc::default());
        self.loops(sim, self.fast, &done);
        sim.run_until(SETTLE * SEC);
        for id in first {
            sim.change(Change::Kill(id));
        }
        let before = done.get();
        sim.run_until(self.end());
        let of = self.fast as u64 * self.seconds * SEC;
        Outcome {
            work_ppm: (done.get() - before) / (of / 1_000_000),
            ..Outcome::default()
        }
    }

    /// Play the run.
    pub fn play(&self) -> Line {
        let mut sim = Simulation::new(Settings {
            cpus: self.cpus(),
            slow: Some(SlowCpus {
                from: self.fast,
                capacity: self.capacity,
                known: self.known,
            }),
            ..Settings::default()
        });
        let outcome = match self.case {
            Case::Frames => self.frames(&mut sim, false),
            Case::Guaranteed => self.frames(&mut sim, true),
            Case::Keys => self.keys(&mut sim),
            Case::Loops => self.work(&mut sim),
        };
        Line {
            case: self.case,
            known: self.known,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(case: Case, known: bool) -> Outcome {
        let load = Load {
            fast: 2,
            slow: 4,
            capacity: 512,
            known,
            case,
            seconds: 3,
        };
        load.play().outcome
    }

    /// What it measures differs if the scheduler knows the CPUs, in each case.
    #[test]
    fn knowing_the_cpus_helps() {
        for case in [Case::Frames, Case::Guaranteed] {
            let (known, alike) = (play(case, true), play(case, false));
            assert!(known.jobs > 180 * 2, "{known:?}");
            assert_eq!(known.missed, 0, "{case:?}");
            assert!(alike.missed > 0, "{case:?} {alike:?}");
        }
        let (known, alike) = (play(Case::Keys, true), play(Case::Keys, false));
        assert!(
            known.response < 1.1 && alike.response > 1.3,
            "{known:?} {alike:?}"
        );
        let (known, alike) = (play(Case::Loops, true), play(Case::Loops, false));
        assert!(known.work_ppm > 980_000, "{known:?}");
        assert!(alike.work_ppm < 800_000, "{alike:?}");
    }
}
