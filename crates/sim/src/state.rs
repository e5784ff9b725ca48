//! What the played kernel knows.
//!
//! The scheduler calls back into the simulator in the middle of its own callbacks, so all is behind cells that
//! are borrowed for a statement at a time. One simulation lives in a process at a time (the scheduler's
//! variables are C's globals); [`crate::Simulation`] sees to that.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ptr;

use crate::queue::{Numbered, Queues};
use crate::task::{CpuMask, Place, Task, TaskId, TaskStruct};

pub(crate) const LOCAL: u64 = 1 << 63 | 2; // SCX_DSQ_LOCAL
const ENQ_PREEMPT: u64 = 1 << 32;

/// Something that is going to happen, in the order of the agenda.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Happening {
    /// A CPU chooses anew.
    Resched(usize),
    /// A kick arrives; true: it preempts.
    Kick(usize, bool),
    /// The current step of the task that runs there is done. The number is that of its run.
    Done(usize, u64),
    /// The tick.
    Tick(usize),
    /// A BPF timer, by address, armed the so-manieth time.
    Timer(usize, u64),
    /// A sleep of a task ends; its number.
    Wake(TaskId, u64),
}

pub(crate) struct Cpu {
    pub curr: Option<TaskId>,
    pub local: VecDeque<TaskId>,
    /// The running task's time is counted up to here.
    pub counted_to: u64,
    /// Numbers what runs, so that ticks and ends of the one before are void.
    pub run: u64,
    pub resched: bool,
    /// It ticks; an idle one does not.
    pub ticks: bool,
    /// ns in which it was idle, and since when it is.
    pub idle_ns: u64,
    pub idle_since: Option<u64>,
}

/// Where the scheduler sent the task that is being enqueued.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub queue: u64,
    pub slice: u64,
    pub vtime: u64,
    pub flags: u64,
    pub ordered: bool,
}

pub(crate) struct State {
    pub now: Cell<u64>,
    /// The CPU whose code runs now, and its task.
    pub cpu: Cell<usize>,
    pub current: Cell<*mut TaskStruct>,
    pub cpus: RefCell<Vec<Cpu>>,
    #[allow(clippy::vec_box)] // the scheduler keeps their addresses
    pub tasks: RefCell<Vec<Box<Task>>>,
    pub queues: RefCell<Queues>,
    pub idle: RefCell<CpuMask>,
    pub online: CpuMask,
    pub agenda: RefCell<BinaryHeap<Reverse<(u64, u64, Happening)>>>,
    pub said: Cell<u64>,
    pub timers: RefCell<Numbered<usize, (u64, usize)>>,
    pub sent: Cell<Option<Sent>>,
    /// Tasks that dispatch has moved to the local queue.
    pub moved: Cell<u32>,
    pub kick_ns: u64,
    pub timer_late_ns: u64,
    pub events: RefCell<Vec<u64>>,
}

impl State {
    pub fn new(cpus: usize, kick_ns: u64, timer_late_ns: u64) -> Self {
        let idle = || Cpu {
            curr: None,
            local: VecDeque::new(),
            counted_to: 0,
            run: 0,
            resched: false,
            ticks: false,
            idle_ns: 0,
            idle_since: Some(0),
        };
        Self {
            now: Cell::new(0),
            cpu: Cell::new(0),
            current: Cell::new(ptr::null_mut()),
            cpus: RefCell::new((0..cpus).map(|_| idle()).collect()),
            tasks: RefCell::default(),
            queues: RefCell::default(),
            idle: RefCell::new(CpuMask::first(cpus)),
            online: CpuMask::first(cpus),
            agenda: RefCell::default(),
            said: Cell::new(0),
            timers: RefCell::default(),
            sent: Cell::new(None),
            moved: Cell::new(0),
            kick_ns,
            timer_late_ns,
            events: RefCell::new(vec![0; 64]),
        }
    }

    /// Something will happen at `at`.
    pub fn plan(&self, at: u64, what: Happening) {
        self.said.set(self.said.get() + 1);
        self.agenda
            .borrow_mut()
            .push(Reverse((at, self.said.get(), what)));
    }

    /// The scheduler's pointer to a task.
    pub fn pointer(&self, id: TaskId) -> *mut TaskStruct {
        &mut self.tasks.borrow_mut()[id].kernel
    }

    /// Number of the task behind the scheduler's pointer. Pids are numbers plus one.
    pub fn id(p: *const TaskStruct) -> TaskId {
        // SAFETY: the scheduler passes on what it was given, and tasks live as long as their simulation.
        (unsafe { (*p).pid } - 1) as TaskId
    }

    /// Have `cpu` choose anew, at once unless it is about to.
    pub fn resched(&self, cpu: usize) {
        let mut cpus = self.cpus.borrow_mut();
        if !std::mem::replace(&mut cpus[cpu].resched, true) {
            drop(cpus);
            self.plan(self.now.get(), Happening::Resched(cpu));
        }
    }

    /// Count what the task on `cpu` has run up to now.
    pub fn count_run(&self, cpu: usize) {
        let mut cpus = self.cpus.borrow_mut();
        let c = &mut cpus[cpu];
        let ran = self.now.get() - c.counted_to;
        c.counted_to = self.now.get();
        if let Some(id) = c.curr {
            let mut tasks = self.tasks.borrow_mut();
            let t = &mut tasks[id];
            t.kernel.sum_exec_runtime += ran;
            t.kernel.scx.slice = t.kernel.scx.slice.saturating_sub(ran);
            t.left = t.left.saturating_sub(ran);
        }
    }

    /// Put a task into a CPU's local queue.
    pub fn insert_local(&self, cpu: usize, id: TaskId, flags: u64) {
        let mut cpus = self.cpus.borrow_mut();
        let preempt = flags & ENQ_PREEMPT != 0;
        if preempt {
            cpus[cpu].local.push_front(id);
        } else {
            cpus[cpu].local.push_back(id);
        }
        let curr = cpus[cpu].curr;
        drop(cpus);
        self.settle_on(cpu, id);
        match curr {
            None => self.resched(cpu),
            Some(curr) if preempt && curr != id => {
                self.tasks.borrow_mut()[curr].kernel.scx.slice = 0;
                self.resched(cpu);
            }
            Some(_) => {}
        }
    }

    /// A task is in `cpu`'s local queue from now on.
    fn settle_on(&self, cpu: usize, id: TaskId) {
        let t = &mut self.tasks.borrow_mut()[id];
        t.place = Place::Local(cpu);
        if t.kernel.cpu != cpu as u32 {
            t.kernel.cpu = cpu as u32;
            t.migrations += 1;
        }
    }

    /// Do what the scheduler asked for with a task that it enqueued; `cpu` is the one it was enqueued on.
    pub fn deliver(&self, id: TaskId, cpu: usize, sent: Sent) {
        {
            let t = &mut self.tasks.borrow_mut()[id];
            t.kernel.scx.slice = sent.slice;
            t.waits_since = self.now.get();
        }
        if sent.queue == LOCAL {
            self.insert_local(cpu, id, sent.flags);
            return;
        }
        let vtime = if sent.ordered {
            self.tasks.borrow_mut()[id].kernel.scx.dsq_vtime = sent.vtime;
            sent.vtime
        } else {
            0
        };
        let at = self.queues.borrow_mut().insert(sent.queue, id, vtime);
        let at = at.unwrap_or_else(|| {
            panic!(
                "task {id} sent to a queue that is not there: {:#x}",
                sent.queue
            )
        });
        self.tasks.borrow_mut()[id].place = Place::Queue(sent.queue, at);
    }

    /// Take the first task of a queue that may run on `cpu` to its local queue.
    pub fn take(&self, queue: u64, cpu: usize) -> bool {
        let mut after = None;
        loop {
            let Some((at, id)) = self.queues.borrow().next(queue, after) else {
                return false;
            };
            if self.tasks.borrow()[id].allowed.has(cpu) {
                self.queues.borrow_mut().remove(queue, at);
                self.cpus.borrow_mut()[cpu].local.push_back(id);
                self.settle_on(cpu, id);
                return true;
            }
            after = Some(at);
        }
    }

    /// Claim an idle CPU of `allowed`.
    pub fn claim_idle(&self, allowed: &CpuMask, first: Option<usize>) -> Option<usize> {
        let mut idle = self.idle.borrow_mut();
        let found = first
            .filter(|&cpu| idle.has(cpu) && allowed.has(cpu))
            .or_else(|| {
                let both = idle.0.iter().zip(allowed.0).position(|(i, a)| i & a != 0)?;
                Some(both * 64 + (idle.0[both] & allowed.0[both]).trailing_zeros() as usize)
            })?;
        idle.set(found, false);
        Some(found)
    }
}
