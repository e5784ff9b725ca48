//! What a model's policy sees of the machine, and the interface between policy and engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::task::{CpuMask, TaskId};
use crate::Reservation;

/// Something that is going to happen. At one time: first steps and budgets end, then alarms ring, then tasks wake
/// up, so that a job which is done when the next is due is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Happening {
    /// The step or the time limit of what runs on a CPU ends; the number is that of its run.
    Ends(usize, u64),
    /// An alarm of the policy.
    Alarm(u64),
    /// A sleep ends; its number.
    Wake(TaskId, u64),
}

impl Happening {
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
    /// What runs on it.
    pub curr: Option<TaskId>,
    /// The running task's time is counted up to here, ns.
    pub(super) counted_to: u64,
    /// Numbers what runs: an end that was meant for an earlier run is void.
    pub(super) run: u64,
    /// What the trace says of it.
    pub(super) noted: Option<TaskId>,
}

/// One task, as far as a policy has to know it.
pub struct Seat {
    /// Where it may run.
    pub allowed: CpuMask,
    /// Nice 0: 100.
    pub weight: u32,
    /// Where it ran last.
    pub cpu: Option<usize>,
}

/// CPUs, tasks, time and what is to come.
pub struct Core {
    /// ns since the start.
    pub now: u64,
    /// CPUs.
    pub cpus: Vec<Cpu>,
    /// By number.
    pub tasks: Vec<Seat>,
    agenda: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    said: u64,
}

impl Core {
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            now: 0,
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            tasks: Vec::new(),
            agenda: BinaryHeap::new(),
            said: 0,
        }
    }

    pub(super) fn plan(&mut self, at: u64, what: Happening) {
        self.said += 1;
        let order = what.rank() << 62 | self.said;
        self.agenda.push(Reverse((at, order, what)));
    }

    /// The next thing that happens, if it does by `end`.
    pub(super) fn next(&mut self, end: u64) -> Option<Happening> {
        let Reverse((at, ..)) = self.agenda.peek()?;
        if *at > end {
            return None;
        }
        let Reverse((at, _, what)) = self.agenda.pop()?;
        self.now = at;
        Some(what)
    }

    /// Have [`Policy::alarm`] called at `at`, ns.
    pub fn alarm(&mut self, at: u64, what: u64) {
        self.plan(at, Happening::Alarm(what));
    }

    /// What the task on `cpu` has run and was not yet charged for, ns.
    pub fn uncharged(&self, cpu: usize) -> u64 {
        self.now - self.cpus[cpu].counted_to
    }

    /// The CPU that runs a task; None: none does.
    pub fn running(&self, id: TaskId) -> Option<usize> {
        self.cpus.iter().position(|cpu| cpu.curr == Some(id))
    }

    /// An idle CPU where the task may run, the one where it ran last before others.
    pub fn idle_for(&self, id: TaskId) -> Option<usize> {
        let seat = &self.tasks[id];
        let free = |cpu: usize| self.cpus[cpu].curr.is_none() && seat.allowed.has(cpu);
        seat.cpu
            .filter(|&cpu| free(cpu))
            .or_else(|| (0..self.cpus.len()).find(|&cpu| free(cpu)))
    }
}

/// Who runs where. A runnable task is either running, or with the policy; the engine moves it.
pub trait Policy {
    /// A new task, still asleep.
    fn born(&mut self, core: &mut Core, id: TaskId);
    /// A running task executes another program: what it reserved is void. True: it now has this reservation.
    fn exec(&mut self, core: &mut Core, id: TaskId, wanted: Option<Reservation>) -> bool;
    /// A sleeping task becomes runnable.
    fn wake(&mut self, core: &mut Core, id: TaskId);
    /// A running task that is still runnable comes back.
    fn put(&mut self, core: &mut Core, id: TaskId);
    /// A running task sleeps.
    fn sleep(&mut self, core: &mut Core, id: TaskId);
    /// A running task ends.
    fn exit(&mut self, core: &mut Core, id: TaskId);
    /// Give away the task that is to run on this CPU, which has none.
    fn pick(&mut self, core: &mut Core, cpu: usize) -> Option<TaskId>;
    /// The CPU that has to choose again because this task waits; None: it waits.
    fn rival(&self, core: &Core, id: TaskId) -> Option<usize>;
    /// A running task ran for so long, ns; at most its limit.
    fn charge(&mut self, core: &Core, id: TaskId, ran: u64);
    /// How long a task that runs may go on before its CPU chooses again, ns; more than 0 after [`Policy::pick`].
    fn limit(&self, core: &Core, id: TaskId) -> u64;
    /// An alarm rings. A task that it made wait for a CPU.
    fn alarm(&mut self, core: &mut Core, what: u64) -> Option<TaskId>;
}
