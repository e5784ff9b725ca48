//! The state of the simulated kernel: CPUs, tasks, queues, timers and the event queue.
//!
//! The scheduler calls kernel functions within its callbacks, while the simulator works on the same
//! state. So each field that changes is a cell. The scheduler's variables are C globals, so a
//! process has one simulation at a time; [`crate::Simulation`] enforces that.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ptr;

use crate::agenda::{Agenda, Event};
use crate::cgroups::Cgroups;
use crate::cost::{Ledger, Lock};
use crate::host::{self, CgroupOps, Has};
use crate::numbers::Numbers;
use crate::queue::{Queues, GLOBAL};
use crate::rival::Rivals;
use crate::task::{CpuMask, Masks, Place, TaskId, TaskStruct, Tasks};
use crate::{Change, Settings, Switch};

/// The capacity of the fastest CPUs (`CAPACITY_FULL` of bpf/policy/capacity.h).
const FULL: u64 = 1024;

/// The hotplug state of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    On,
    /// The CPU is going offline: it takes no tasks, and pushes its tasks to other CPUs.
    Leaving,
    Off,
}

pub(crate) struct Cpu {
    pub curr: Cell<Option<TaskId>>,
    pub local: RefCell<VecDeque<TaskId>>,
    /// The running task's time is accounted up to here, ns.
    pub counted_to: Cell<u64>,
    /// Number of the current run. A `Done` event of an earlier run is void.
    pub run: Cell<u32>,
    /// Number of exec calls on this CPU.
    pub execs: Cell<u32>,
    /// A pick is planned.
    pub resched: Cell<bool>,
    /// A tick is planned. An idle CPU has no ticks.
    pub ticks: Cell<bool>,
    /// Idle time so far, ns.
    pub idle_ns: Cell<u64>,
    /// The beginning of the current idle time, ns.
    pub idle_since: Cell<Option<u64>>,
    /// The task of the last switch in the trace.
    pub traced: Cell<Option<TaskId>>,
    pub power: Cell<Power>,
    /// A real-time task has the CPU until then, ns.
    pub taken_until: Cell<u64>,
    /// What the scheduler's work takes here and has not passed yet, ns (cost.rs).
    pub owes: Cell<u64>,
    /// Number of runnable tasks on the CPU's run queue, in whichever dispatch queue they wait.
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
            taken_until: Cell::new(0),
            owes: Cell::new(0),
            runnable: Cell::new(0),
        }
    }

    /// Is the CPU online, so that the scheduler may use it?
    pub fn is_on(&self) -> bool {
        self.power.get() == Power::On
    }
}

/// A BPF timer.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    pub address: usize,
    /// Number of starts and cancellations. A `Timer` event with another number is void.
    pub armed: u32,
    /// The CPU on which the timer was started.
    pub cpu: u32,
}

/// The queue into which the scheduler inserts the task that is being enqueued.
#[derive(Clone, Copy)]
pub(crate) struct Insertion {
    pub queue: u64,
    pub slice: u64,
    pub vtime: u64,
    pub flags: u64,
    pub ordered: bool,
}

pub(crate) struct State {
    pub settings: Settings,
    /// Which of the optional callbacks the scheduler has.
    pub has: Has,
    /// The scheduler's cgroup callbacks.
    pub cgroup_ops: CgroupOps,
    pub now: Cell<u64>,
    /// The CPU on which the current code runs.
    pub cpu: Cell<usize>,
    /// The task on that CPU; null: none.
    pub current: Cell<*mut TaskStruct>,
    /// The idle task, which is current while `current` is null.
    swapper: TaskStruct,
    pub cpus: Vec<Cpu>,
    pub tasks: Tasks,
    pub masks: Masks,
    /// The users of tasks that are not root's.
    pub users: RefCell<HashMap<TaskId, u32>>,
    pub cgroups: Cgroups,
    pub queues: RefCell<Queues>,
    pub idle: RefCell<CpuMask>,
    /// The online CPUs, those that are going offline included. The scheduler has a pointer to the
    /// value in this cell.
    pub online: Cell<CpuMask>,
    /// The masks that the scheduler made.
    #[expect(clippy::vec_box, reason = "the scheduler keeps their addresses")]
    pub made_masks: RefCell<Vec<Box<CpuMask>>>,
    pub leaving: Cell<u32>,
    pub agenda: RefCell<Agenda>,
    pub timers: RefCell<Vec<Timer>>,
    /// Timers for which there was no memory.
    pub timers_refused: Cell<u32>,
    /// A timer's callback runs, with interrupts on.
    pub in_timer: Cell<bool>,
    pub changes: RefCell<Vec<Option<Change>>>,
    pub insertion: Cell<Option<Insertion>>,
    /// The current callback is one without a locked run queue, in which the kernel refuses
    /// `scx_bpf_task_cgroup()`.
    pub no_task_locked: Cell<bool>,
    /// Number of tasks that the current dispatch has moved.
    pub moved: Cell<u32>,
    pub rivals: Rivals,
    /// Searches for an idle CPU.
    pub idle_searches: Cell<u64>,
    /// How often the lock of the domain tree was taken.
    pub tree_locks: Cell<u64>,
    /// None: the scheduler's work takes no time.
    pub ledger: Option<Ledger>,
    /// The CPU that `bpf_cpumask_any_distribute()` gave out last.
    pub distributed: Cell<usize>,
    /// Number of decisions that the scheduler has reported, by type.
    pub reported: RefCell<Vec<u64>>,
    /// Context switches since the last [`crate::Simulation::run_until`].
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
            users: RefCell::default(),
            cgroups: Cgroups::new(),
            queues,
            idle: RefCell::new(CpuMask::first(cpus)),
            online: Cell::new(CpuMask::first(cpus)),
            made_masks: RefCell::default(),
            leaving: Cell::new(0),
            agenda: RefCell::new(Agenda::new()),
            timers: RefCell::default(),
            timers_refused: Cell::default(),
            in_timer: Cell::default(),
            changes: RefCell::default(),
            insertion: Cell::new(None),
            no_task_locked: Cell::new(false),
            moved: Cell::new(0),
            rivals: Rivals::new(),
            idle_searches: Cell::new(0),
            tree_locks: Cell::new(0),
            ledger: settings.costs.map(Ledger::new),
            distributed: Cell::new(0),
            reported: RefCell::new(vec![0; 64]),
            trace: RefCell::default(),
        }
    }

    /// Plan an event.
    pub fn plan(&self, at: u64, what: Event) {
        self.agenda.borrow_mut().push(at, what);
    }

    /// Number of the task behind the scheduler's pointer: its pid less one.
    pub fn id(p: *const TaskStruct) -> TaskId {
        // SAFETY: the scheduler has pointers to tasks of this simulation only, and they live as
        // long as it does
        (unsafe { (*p).pid.get() } - 1) as TaskId
    }

    /// A task's user; 0: root.
    pub fn user(&self, id: TaskId) -> u32 {
        self.users.borrow().get(&id).copied().unwrap_or(0)
    }

    pub fn set_user(&self, id: TaskId, user: u32) {
        if user != 0 {
            self.users.borrow_mut().insert(id, user);
        }
    }

    /// Make `cpu` the current CPU, and the task that runs there the current task.
    pub fn enter_cpu(&self, cpu: usize) {
        let curr = self.cpus[cpu].curr.get();
        self.cpu.set(cpu);
        self.current
            .set(curr.map_or(ptr::null_mut(), |id| self.tasks[id].pointer()));
    }

    /// The kernel's `current`.
    pub fn current(&self) -> &TaskStruct {
        // SAFETY: null, or a task of this simulation
        unsafe { self.current.get().as_ref() }.unwrap_or(&self.swapper)
    }

    /// Let `cpu` pick again, unless a pick is planned already.
    pub fn resched(&self, cpu: usize) {
        if !self.cpus[cpu].resched.replace(true) {
            self.plan(self.now.get(), Event::Resched(cpu as u32));
        }
    }

    /// Account the run time of the task on `cpu` up to now.
    pub fn count_run(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        let now = self.now.get();
        let ran = now - c.counted_to.replace(now);
        let paid = self.pay_back(cpu, ran);
        let Some(id) = c.curr.get() else { return };
        if ran > 0 {
            let t = &self.tasks[id];
            let k = &t.kernel;
            k.sum_exec_runtime.set(k.sum_exec_runtime.get() + ran);
            k.scx.slice.set(k.scx.slice.get().saturating_sub(ran));
            let done = self.work_on(cpu, ran - paid);
            t.left.set(t.left.get().saturating_sub(done));
        }
    }

    fn capacity(&self, cpu: usize) -> u64 {
        let slow = self.settings.slow.filter(|slow| cpu >= slow.from);
        slow.map_or(FULL, |slow| slow.capacity.into())
    }

    /// The work, ns, that `cpu` does in `time` ns, rounded down.
    pub fn work_on(&self, cpu: usize, time: u64) -> u64 {
        time * self.capacity(cpu) / FULL
    }

    /// The time, ns, that `cpu` takes for `work` ns, rounded up.
    pub fn time_on(&self, cpu: usize, work: u64) -> u64 {
        (work * FULL).div_ceil(self.capacity(cpu))
    }

    /// Move a task to the run queue of `cpu`.
    pub fn set_cpu(&self, id: TaskId, cpu: usize) {
        let t = &self.tasks[id];
        let before = t.kernel.cpu.replace(cpu as u32) as usize;
        if before != cpu {
            t.migrations.set(t.migrations.get() + 1);
            if t.kernel.scx.flags.get() & self.queued_flag() != 0 {
                self.count_runnable(before, -1);
                self.count_runnable(cpu, 1);
            }
        }
    }

    /// `SCX_TASK_QUEUED`: in `scx.flags` of a runnable task.
    pub fn queued_flag(&self) -> u32 {
        self.settings.numbers.task_queued as u32
    }

    pub fn count_runnable(&self, cpu: usize, by: i32) {
        let runnable = &self.cpus[cpu].runnable;
        runnable.set(runnable.get().wrapping_add_signed(by));
    }

    /// Put a task into a CPU's local queue.
    pub fn insert_local(&self, cpu: usize, id: TaskId, flags: u64) {
        let c = &self.cpus[cpu];
        let numbers = &self.settings.numbers;
        let preempt = flags & numbers.enq_preempt != 0;
        if preempt || flags & numbers.enq_head != 0 {
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

    /// Make the insertion of a task that is on `cpu`'s run queue and in no dispatch queue.
    pub fn deliver(&self, id: TaskId, cpu: usize, insertion: Insertion) {
        let t = &self.tasks[id];
        t.kernel.scx.slice.set(insertion.slice);
        t.waits_since.set(self.now.get());
        let mut queue = insertion.queue;
        let Numbers {
            dsq_local,
            dsq_local_on,
            ..
        } = self.settings.numbers;
        if queue == dsq_local {
            return self.insert_local(cpu, id, insertion.flags);
        }
        if queue & dsq_local_on == dsq_local_on {
            let there = (queue & u64::from(u32::MAX)) as usize;
            assert!(there < self.cpus.len(), "task {id}: no CPU {there}");
            if there == cpu || self.may_move(id, there) {
                return self.insert_local(there, id, insertion.flags);
            }
            queue = GLOBAL; // task_can_run_on_remote_rq(): the CPU has just gone offline
        }
        let vtime = if insertion.ordered {
            t.kernel.scx.dsq_vtime.set(insertion.vtime);
            insertion.vtime
        } else {
            0
        };
        self.pay_lock(Lock::Queue(queue));
        let seat = self.queues.borrow_mut().insert(queue, id, vtime);
        let seat = seat.unwrap_or_else(|| {
            panic!("task {id} is inserted into a queue that does not exist: {queue:#x}");
        });
        t.seat.set(seat);
        t.place.set(Place::Queue(queue));
    }

    /// May a task on another CPU's run queue be moved to `cpu`?
    fn may_move(&self, id: TaskId, cpu: usize) -> bool {
        self.cpus[cpu].is_on() && self.tasks[id].allowed().has(cpu)
    }

    /// Move the first task of a queue that may run on `cpu` to its local queue. False: there is
    /// none.
    pub fn move_to_local(&self, queue: u64, cpu: usize) -> bool {
        if self.queues.borrow().len(queue).unwrap_or(0) > 0 {
            self.pay_lock(Lock::Queue(queue)); // an empty queue is seen without
        }
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

    /// Claim an idle CPU of `allowed`, `first` if possible. As in the kernel, a CPU that was idle
    /// when it went offline stays in the mask, so it may be claimed once.
    pub fn claim_idle(&self, allowed: &CpuMask, first: Option<usize>) -> Option<usize> {
        let mut idle = self.idle.borrow_mut();
        let found = first
            .filter(|&cpu| idle.has(cpu) && allowed.has(cpu))
            .or_else(|| idle.first_common(allowed, self.cpus.len()))?;
        idle.set(found, false);
        Some(found)
    }
}
