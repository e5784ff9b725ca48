//! The state of the machine that a model's policy sees, and the interface of policies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::task::{CpuMask, TaskId};
use crate::Reservation;

/// A future event. Events of the same time are processed in the order of the variants, so that a
/// job that is completed at the release of the next job counts as completed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// The step or the time limit of the running task of a CPU ends. The second number is the CPU's
    /// `run`.
    Ends(usize, u64),
    /// An alarm of the policy.
    Alarm(u64),
    /// A sleep ends. The second number is the task's `sleeps`.
    Wake(TaskId, u64),
}

impl Event {
    fn rank(self) -> u64 {
        match self {
            Self::Ends(..) => 0,
            Self::Alarm(_) => 1,
            Self::Wake(..) => 2,
        }
    }
}

/// One CPU.
#[derive(Default)]
pub struct Cpu {
    /// The running task.
    pub curr: Option<TaskId>,
    /// The running task's time is accounted up to here, ns.
    pub(super) counted_to: u64,
    /// Number of the current run. An `Ends` event of an earlier run is void.
    pub(super) run: u64,
    /// The task of the last switch in the trace.
    pub(super) traced: Option<TaskId>,
}

/// The part of a task that a policy sees.
pub struct Seat {
    /// Its affinity.
    pub allowed: CpuMask,
    /// Its weight; nice 0: 100.
    pub weight: u32,
    /// The CPU on which it ran last.
    pub cpu: Option<usize>,
}

/// Time, CPUs, tasks and the event queue.
pub struct Core {
    /// Time since the start, ns.
    pub now: u64,
    /// CPUs.
    pub cpus: Vec<Cpu>,
    /// The tasks, by number.
    pub tasks: Vec<Seat>,
    agenda: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Number of events that were planned.
    planned: u64,
}

impl Core {
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            now: 0,
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            tasks: Vec::new(),
            agenda: BinaryHeap::new(),
            planned: 0,
        }
    }

    pub(super) fn plan(&mut self, at: u64, what: Event) {
        self.planned += 1;
        let order = what.rank() << 62 | self.planned;
        self.agenda.push(Reverse((at, order, what)));
    }

    /// Take the next event, if its time is at most `end`, ns.
    pub(super) fn next(&mut self, end: u64) -> Option<Event> {
        let Reverse((at, ..)) = self.agenda.peek()?;
        if *at > end {
            return None;
        }
        let Reverse((at, _, what)) = self.agenda.pop()?;
        self.now = at;
        Some(what)
    }

    /// Call [`Policy::alarm`] with `what` at `at`, ns.
    pub fn alarm(&mut self, at: u64, what: u64) {
        self.plan(at, Event::Alarm(what));
    }

    /// Run time of the task on `cpu` that was not charged yet, ns.
    pub fn uncharged(&self, cpu: usize) -> u64 {
        self.now - self.cpus[cpu].counted_to
    }

    /// The CPU that runs a task.
    pub fn running(&self, id: TaskId) -> Option<usize> {
        self.cpus.iter().position(|cpu| cpu.curr == Some(id))
    }

    /// An idle CPU where the task may run, if possible the one where it ran last.
    pub fn idle_for(&self, id: TaskId) -> Option<usize> {
        let seat = &self.tasks[id];
        let free = |cpu: usize| self.cpus[cpu].curr.is_none() && seat.allowed.has(cpu);
        seat.cpu
            .filter(|&cpu| free(cpu))
            .or_else(|| (0..self.cpus.len()).find(|&cpu| free(cpu)))
    }
}

/// A policy: which task runs on which CPU. A runnable task either runs, or is in the policy's
/// queues; the engine moves it between the two.
pub trait Policy {
    /// A new task, still asleep.
    fn new_task(&mut self, core: &mut Core, id: TaskId);
    /// A running task executes another program, so its reservation ends. True: it has the
    /// reservation `wanted` now.
    fn exec(&mut self, core: &mut Core, id: TaskId, wanted: Option<Reservation>) -> bool;
    /// A sleeping task becomes runnable.
    fn wake(&mut self, core: &mut Core, id: TaskId);
    /// A running task that stays runnable is put back.
    fn put(&mut self, core: &mut Core, id: TaskId);
    /// A running task goes to sleep.
    fn sleep(&mut self, core: &mut Core, id: TaskId);
    /// A running task exits.
    fn exit(&mut self, core: &mut Core, id: TaskId);
    /// Take the next task for this CPU, which runs none, out of the queues.
    fn pick(&mut self, core: &mut Core, cpu: usize) -> Option<TaskId>;
    /// The CPU that has to pick again because this task waits. None: the task keeps waiting.
    fn rival(&self, core: &Core, id: TaskId) -> Option<usize>;
    /// Charge a running task for `ran` ns, at most its limit.
    fn charge(&mut self, core: &Core, id: TaskId, ran: u64);
    /// How long a running task may go on until its CPU picks again, ns; more than 0 after
    /// [`Policy::pick`].
    fn limit(&self, core: &Core, id: TaskId) -> u64;
    /// The time of an alarm has come. Returns a task that waits for a CPU because of it.
    fn alarm(&mut self, core: &mut Core, what: u64) -> Option<TaskId>;
}
