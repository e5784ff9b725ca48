//! What the played kernel knows: CPUs, tasks, queues, timers, and what will happen.
//!
//! The scheduler calls back into the simulator in the middle of its own callbacks, so all is in cells. One
//! simulation lives in a process at a time (the scheduler's variables are C's globals); [`crate::Simulation`]
//! sees to that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr;

use crate::agenda::{Agenda, Happening};
use crate::cgroups::Cgroups;
use crate::host::{self, CgroupOps, Has};
use crate::queue::{Queues, GLOBAL};
use crate::task::{CpuMask, Masks, Place, TaskId, TaskStruct, Tasks};
use crate::{Change, Settings, Switch};

pub(crate) const LOCAL: u64 = 1 << 63 | 2; // SCX_DSQ_LOCAL
const LOCAL_ON: u64 = 1 << 63 | 1 << 62; // SCX_DSQ_LOCAL_ON, the CPU in the lower half
const ENQ_PREEMPT: u64 = 1 << 32;
const ENQ_HEAD: u64 = 1 << 4;

/// Whether a CPU is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    On,
    /// On its way out: it takes no tasks, and pushes away those it has.
    Leaving,
    Off,
}

pub(crate) struct Cpu {
    pub curr: Cell<Option<TaskId>>,
    pub local: RefCell<VecDeque<TaskId>>,
    /// The running task's time is counted up to here.
    pub counted_to: Cell<u64>,
    /// Numbers what runs, so that ends of the one before are void.
    pub run: Cell<u32>,
    /// Counts what was executed (exec) here.
    pub execs: Cell<u32>,
    pub resched: Cell<bool>,
    /// It ticks; an idle one does not.
    pub ticks: Cell<bool>,
    /// ns in which it was idle, and since when it is.
    pub idle_ns: Cell<u64>,
    pub idle_since: Cell<Option<u64>>,
    /// What the trace says that runs.
    pub traced: Cell<Option<TaskId>>,
    pub power: Cell<Power>,
    /// Runnable tasks on its run queue, wherever the scheduler has them queued.
    pub runnable: Cell<u32>,
}

impl Cpu {
    fn idle() -> Self {
        Self {
            curr: Cell::new(None),
            local: RefCell::default(),
            counted_to: Cell::new(0),
            run: Cell::new(0),
            execs: Cell::new(0),
            resched: Cell::new(false),
            ticks: Cell::new(false),
            idle_ns: Cell::new(0),
            idle_since: Cell::new(Some(0)),
            traced: Cell::new(None),
            power: Cell::new(Power::On),
            runnable: Cell::new(0),
        }
    }

    /// Does the scheduler have a say in it?
    pub fn on(&self) -> bool {
        self.power.get() == Power::On
    }
}

/// A BPF timer.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    pub address: usize,
    /// How often it was armed or cancelled; the one in the agenda counts if this is still its number.
    pub armed: u32,
    /// Where it was armed.
    pub cpu: u32,
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
    pub settings: Settings,
    /// Which of the callbacks that not every scheduler has this one has.
    pub has: Has,
    /// Its callbacks for cgroups.
    pub cgroup_ops: CgroupOps,
    pub now: Cell<u64>,
    /// The CPU whose code runs now, and its task.
    pub cpu: Cell<usize>,
    pub current: Cell<*mut TaskStruct>,
    /// Who is current while no task is: the idle task.
    swapper: TaskStruct,
    pub cpus: Vec<Cpu>,
    pub tasks: Tasks,
    pub masks: Masks,
    pub cgroups: Cgroups,
    pub queues: RefCell<Queues>,
    pub idle: RefCell<CpuMask>,
    /// CPUs that are there; those that leave are until they have gone. In a cell that the scheduler's
    /// pointer goes into.
    pub online: Cell<CpuMask>,
    pub leaving: Cell<u32>,
    pub agenda: RefCell<Agenda>,
    pub timers: RefCell<Vec<Timer>>,
    pub changes: RefCell<Vec<Option<Change>>>,
    pub sent: Cell<Option<Sent>>,
    /// The callback under way is one in which no task's cgroup may be asked for.
    pub no_task_locked: Cell<bool>,
    /// Tasks that dispatch has moved to the local queue.
    pub moved: Cell<u32>,
    pub events: RefCell<Vec<u64>>,
    /// Since the last look.
    pub trace: RefCell<Vec<Switch>>,
}

impl State {
    pub fn new(settings: Settings) -> Self {
        let cpus = settings.cpus;
        let queues = RefCell::new(Queues::default());
        queues.borrow_mut().create(GLOBAL);
        Self {
            settings,
            has: host::has(),
            cgroup_ops: host::cgroup_ops(),
            now: Cell::new(0),
            cpu: Cell::new(0),
            current: Cell::new(ptr::null_mut()),
            swapper: TaskStruct::swapper(),
            cpus: (0..cpus).map(|_| Cpu::idle()).collect(),
            tasks: Tasks::new(),
            masks: Masks::default(),
            cgroups: Cgroups::new(),
            queues,
            idle: RefCell::new(CpuMask::first(cpus)),
            online: Cell::new(CpuMask::first(cpus)),
            leaving: Cell::new(0),
            agenda: RefCell::new(Agenda::new()),
            timers: RefCell::default(),
            changes: RefCell::default(),
            sent: Cell::new(None),
            no_task_locked: Cell::new(false),
            moved: Cell::new(0),
            events: RefCell::new(vec![0; 64]),
            trace: RefCell::default(),
        }
    }

    /// Something will happen at `at`.
    pub fn plan(&self, at: u64, what: Happening) {
        self.agenda.borrow_mut().push(at, what);
    }

    /// Number of the task behind the scheduler's pointer. Pids are numbers plus one.
    pub fn id(p: *const TaskStruct) -> TaskId {
        // SAFETY: the scheduler passes on what it was given, and tasks live as long as their simulation.
        (unsafe { (*p).pid.get() } - 1) as TaskId
    }

    /// What follows runs on `cpu`, in the name of what runs there.
    pub fn on(&self, cpu: usize) {
        let curr = self.cpus[cpu].curr.get();
        self.cpu.set(cpu);
        self.current
            .set(curr.map_or(ptr::null_mut(), |id| self.tasks[id].pointer()));
    }

    /// What the kernel calls `current`.
    pub fn current(&self) -> &TaskStruct {
        // SAFETY: null, or a task of this simulation
        unsafe { self.current.get().as_ref() }.unwrap_or(&self.swapper)
    }

    /// Have `cpu` choose anew, at once unless it is about to.
    pub fn resched(&self, cpu: usize) {
        if !self.cpus[cpu].resched.replace(true) {
            self.plan(self.now.get(), Happening::Resched(cpu as u32));
        }
    }

    /// Count what the task on `cpu` has run up to now.
    pub fn count_run(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        let now = self.now.get();
        let ran = now - c.counted_to.replace(now);
        let Some(id) = c.curr.get() else { return };
        if ran > 0 {
            let t = &self.tasks[id];
            let k = &t.kernel;
            k.sum_exec_runtime.set(k.sum_exec_runtime.get() + ran);
            k.scx.slice.set(k.scx.slice.get().saturating_sub(ran));
            t.left.set(t.left.get().saturating_sub(ran));
        }
    }

    /// A runnable task goes to the run queue of `cpu`.
    pub fn set_cpu(&self, id: TaskId, cpu: usize) {
        let t = &self.tasks[id];
        let before = t.kernel.cpu.replace(cpu as u32) as usize;
        if before != cpu {
            t.migrations.set(t.migrations.get() + 1);
            if t.kernel.scx.flags.get() & crate::task::QUEUED != 0 {
                self.count_runnable(before, -1);
                self.count_runnable(cpu, 1);
            }
        }
    }

    pub fn count_runnable(&self, cpu: usize, by: i32) {
        let runnable = &self.cpus[cpu].runnable;
        runnable.set(runnable.get().wrapping_add_signed(by));
    }

    /// Put a task into a CPU's local queue.
    pub fn insert_local(&self, cpu: usize, id: TaskId, flags: u64) {
        let c = &self.cpus[cpu];
        let preempt = flags & ENQ_PREEMPT != 0;
        if flags & (ENQ_PREEMPT | ENQ_HEAD) != 0 {
            c.local.borrow_mut().push_front(id);
        } else {
            c.local.borrow_mut().push_back(id);
        }
        self.set_cpu(id, cpu);
        self.tasks[id].place.set(Place::Local(cpu));
        match c.curr.get() {
            None => self.resched(cpu),
            Some(curr) if preempt && curr != id => {
                self.tasks[curr].kernel.scx.slice.set(0);
                self.resched(cpu);
            }
            Some(_) => {}
        }
    }

    /// Do what the scheduler asked for with a task that is on `cpu`'s run queue, and nowhere else.
    pub fn deliver(&self, id: TaskId, cpu: usize, sent: Sent) {
        let t = &self.tasks[id];
        t.kernel.scx.slice.set(sent.slice);
        t.waits_since.set(self.now.get());
        let mut queue = sent.queue;
        if queue == LOCAL {
            return self.insert_local(cpu, id, sent.flags);
        }
        if queue & LOCAL_ON == LOCAL_ON {
            let there = (queue & u64::from(u32::MAX)) as usize;
            assert!(there < self.cpus.len(), "task {id}: no CPU {there}");
            if there == cpu || self.may_move(id, there) {
                return self.insert_local(there, id, sent.flags);
            }
            queue = GLOBAL; // task_can_run_on_remote_rq(): the CPU has just gone
        }
        let vtime = if sent.ordered {
            t.kernel.scx.dsq_vtime.set(sent.vtime);
            sent.vtime
        } else {
            0
        };
        let seat = self.queues.borrow_mut().insert(queue, id, vtime);
        let seat = seat.unwrap_or_else(|| {
            panic!("task {id} sent to a queue that is not there: {queue:#x}");
        });
        t.seat.set(seat);
        t.place.set(Place::Queue(queue));
    }

    /// May a task of another CPU's run queue be taken to `cpu`?
    fn may_move(&self, id: TaskId, cpu: usize) -> bool {
        self.cpus[cpu].on() && self.tasks[id].allowed().has(cpu)
    }

    /// Take the first task of a queue that may run on `cpu` to its local queue.
    pub fn take(&self, queue: u64, cpu: usize) -> bool {
        let mut after = None;
        loop {
            let Some((seat, id)) = self.queues.borrow().next(queue, after) else {
                return false;
            };
            if self.tasks[id].kernel.cpu.get() as usize == cpu || self.may_move(id, cpu) {
                self.queues.borrow_mut().remove(queue, seat);
                self.cpus[cpu].local.borrow_mut().push_back(id);
                self.set_cpu(id, cpu);
                self.tasks[id].place.set(Place::Local(cpu));
                return true;
            }
            after = Some(seat);
        }
    }

    /// Claim an idle CPU of `allowed`. As in the kernel, the mask is of CPUs that were idle when they were last
    /// heard of: one that went off line idle may be claimed, once.
    pub fn claim_idle(&self, allowed: &CpuMask, first: Option<usize>) -> Option<usize> {
        let mut idle = self.idle.borrow_mut();
        let found = first
            .filter(|&cpu| idle.has(cpu) && allowed.has(cpu))
            .or_else(|| idle.first_common(allowed, self.cpus.len()))?;
        idle.set(found, false);
        Some(found)
    }
}
