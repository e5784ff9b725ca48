//! Wake-ups, enqueues, and how a CPU picks its next task.
//!
//! As in `select_task_rq`, `try_to_wake_up`, `wake_up_new_task` of kernel/sched/core.c and
//! `balance_one`, `pick_task_scx`, `put_prev_task_scx`, `set_next_task_scx`, `enqueue_task_scx` of
//! kernel/sched/ext.c.

use std::ptr;

use crate::agenda::Event;
use crate::cgroups::Cgroup;
use crate::queue::GLOBAL;
use crate::state::{Insertion, State};
use crate::task::{CpuMask, Place, Program, Task, TaskId};
use crate::Switch;

/// `SCX_WAKE_FORK`, `SCX_WAKE_TTWU`
const WAKE_FORK: u64 = 4;
const WAKE_TTWU: u64 = 8;
/// Slice of a task that goes on because the CPU has no other (`SCX_SLICE_DFL`), ns.
pub const SLICE_DEFAULT: u64 = 20_000_000;
/// Calls of dispatch in one pick, as long as each moves a task (`SCX_DSP_MAX_LOOPS`).
const DISPATCH_LOOPS: u32 = 32;

impl State {
    /// Add a task in `cgroup`: a child of the current task if there is one, or a thread of
    /// `thread_of`. Its first step may be a sleep.
    pub fn add(
        &self,
        weight: u32,
        allowed: &CpuMask,
        program: Box<dyn Program>,
        thread_of: Option<&Task>,
        cgroup: &Cgroup,
    ) -> TaskId {
        let allowed = self.masks.get(allowed);
        let t = self.tasks.add(|id| Task::new(id, weight, allowed, program));
        let parent = self.current.get();
        let leader = thread_of.map_or(t.pointer(), |of| of.kernel.group_leader.get());
        t.kernel.group_leader.set(leader);
        t.kernel.real_parent.set(parent);
        // SAFETY: a task of this simulation, or null
        if let Some(of) = unsafe { parent.as_ref() } {
            t.kernel.session.set(of.session.get());
            self.set_user(Self::id(t.pointer()), self.user(Self::id(parent)));
        }
        if let Some(of) = thread_of {
            t.kernel.tgid.set(of.kernel.tgid.get());
            t.kernel.real_parent.set(of.kernel.real_parent.get());
        }
        self.join(t, cgroup);
        self.ops_init_task(t, !parent.is_null());
        self.ops_enable(t);
        let id = Self::id(t.pointer());
        self.advance_asleep(id, true);
        id
    }

    /// A task becomes runnable. `new`: it has never run.
    pub fn wake(&self, id: TaskId, new: bool) {
        let t = &self.tasks[id];
        let previous = t.kernel.cpu.get() as usize;
        let (how, mut flags) = if new {
            (WAKE_FORK, 0)
        } else {
            (WAKE_TTWU, self.settings.numbers.enq_wakeup)
        };
        let mut cpu = previous;
        self.insertion.set(None);
        if t.kernel.nr_cpus_allowed.get() > 1 {
            cpu = self.ops_select_cpu(t, previous, how).unwrap_or(previous);
            if !new {
                flags |= self.settings.numbers.enq_cpu_selected;
            }
        }
        if !self.may_run_on(t, cpu) {
            cpu = self.fallback(t);
        }
        self.set_cpu(id, cpu);
        self.activate(t, flags);
    }

    /// `is_cpu_allowed()`
    pub fn may_run_on(&self, t: &Task, cpu: usize) -> bool {
        cpu < self.cpus.len() && self.cpus[cpu].is_on() && t.allowed().has(cpu)
    }

    /// Put a task on the run queue of its CPU. `activate_task()` and the preemption test after it.
    pub fn activate(&self, t: &Task, flags: u64) {
        let cpu = t.kernel.cpu.get() as usize;
        t.kernel
            .scx
            .flags
            .set(t.kernel.scx.flags.get() | self.queued_flag());
        self.count_runnable(cpu, 1);
        self.ops_runnable(t, flags);
        self.enqueue(t, flags);
        if self.cpus[cpu].curr.get().is_none() {
            self.resched(cpu); // a runnable task preempts the idle task
        }
    }

    /// Take a task off the run queue of its CPU, to sleep, exit or migrate. `deactivate_task()`
    pub fn deactivate(&self, t: &Task, flags: u64) {
        t.kernel
            .scx
            .flags
            .set(t.kernel.scx.flags.get() & !self.queued_flag());
        self.count_runnable(t.kernel.cpu.get() as usize, -1);
        self.ops_quiescent(t, flags);
    }

    /// Call enqueue, unless select_cpu has already inserted the task; then make the insertion.
    pub fn enqueue(&self, t: &Task, flags: u64) {
        let (id, cpu) = (Self::id(t.pointer()), t.kernel.cpu.get() as usize);
        if !self.cpus[cpu].is_on() || t.is_exiting() && !self.has.enq_exiting {
            // cpu_offline was called for this CPU, or the task exits: the kernel enqueues it
            // without the scheduler
            self.insertion.set(Some(Insertion {
                queue: self.settings.numbers.dsq_local,
                slice: SLICE_DEFAULT,
                vtime: 0,
                flags: 0,
                ordered: false,
            }));
        }
        // set_task_runnable()
        let jiffies = self.now.get() / self.settings.tick_ns;
        t.kernel.scx.runnable_at.set(jiffies);
        let insertion = self.insertion.take().or_else(|| {
            self.ops_enqueue(t, flags);
            self.insertion.take()
        });
        let insertion =
            insertion.unwrap_or_else(|| panic!("enqueue lost task {id} at {} ns", self.now.get()));
        self.deliver(id, cpu, insertion);
    }

    /// The CPU picks its next task.
    pub fn pick(&self, cpu: usize) {
        if self.now.get() < self.cpus[cpu].taken_until.get() {
            return; // by a higher class
        }
        self.enter_cpu(cpu);
        self.count_run(cpu);
        let prev = self.cpus[cpu].curr.get();
        self.pick_after(cpu, prev, prev.is_some());
    }

    /// The CPU picks after `prev` ran. If `prev` is not `runnable`, it sleeps, and stopping was
    /// called for it already. Returns true if `prev` goes on.
    pub fn pick_after(&self, cpu: usize, prev: Option<TaskId>, runnable: bool) -> bool {
        let c = &self.cpus[cpu];
        if !c.is_on() {
            self.push_tasks(cpu);
            return false;
        }
        let prev_task = prev.map(|id| &self.tasks[id]);
        let slice_left = || runnable && prev_task.is_some_and(|t| t.kernel.scx.slice.get() > 0);
        let has_local = || !c.local.borrow().is_empty();
        let mut keep = slice_left();
        if !keep && !has_local() && !self.move_to_local(GLOBAL, cpu) {
            let pointer = prev_task.map_or(ptr::null_mut(), Task::pointer);
            for _ in 0..DISPATCH_LOOPS {
                self.moved.set(0);
                self.ops_dispatch(cpu, pointer);
                keep = slice_left();
                if keep || has_local() || self.moved.get() == 0 {
                    break;
                }
            }
            keep |= runnable && !has_local() && !self.has.enq_last;
        }
        if let (true, Some(t)) = (keep, prev_task) {
            if t.kernel.scx.slice.get() == 0 {
                t.kernel.scx.slice.set(SLICE_DEFAULT);
            }
            return true;
        }
        let next = c.local.borrow_mut().pop_front();
        if let (Some(t), true) = (prev_task, runnable) {
            // the CPU has no other task, and dispatch gave this one no slice
            let last = self.settings.numbers.enq_last;
            self.put_prev(t, if next.is_none() { last } else { 0 });
        }
        self.begin(cpu, next);
        false
    }

    /// Enqueue the running task, which stays runnable, again.
    pub fn put_prev(&self, t: &Task, flags: u64) {
        self.ops_stopping(t, true);
        self.insertion.set(None);
        self.enqueue(t, flags);
    }

    /// `next` runs on `cpu` from now on. None: the CPU is idle.
    pub fn begin(&self, cpu: usize, next: Option<TaskId>) {
        let now = self.now.get();
        let c = &self.cpus[cpu];
        c.curr.set(next);
        c.run.set(c.run.get().wrapping_add(1));
        c.counted_to.set(now);
        match next {
            None if c.idle_since.get().is_none() => c.idle_since.set(Some(now)),
            Some(_) => {
                let idle = c.idle_since.take().map_or(0, |since| now - since);
                c.idle_ns.set(c.idle_ns.get() + idle);
            }
            None => {}
        }
        self.idle.borrow_mut().set(cpu, next.is_none());
        if self.settings.traced {
            self.trace_switch(cpu, next);
        }
        let Some(id) = next else { return };
        let t = &self.tasks[id];
        t.place.set(Place::Running(cpu));
        t.kernel.last_arrival.set(now);
        self.enter_cpu(cpu);
        self.ops_running(t);
        self.plan(
            now + self.time_on(cpu, t.left.get()),
            Event::Done(cpu as u32, c.run.get()),
        );
        if !c.ticks.replace(true) {
            self.plan_tick(cpu);
        }
    }

    fn trace_switch(&self, cpu: usize, task: Option<TaskId>) {
        if self.cpus[cpu].traced.replace(task) != task {
            let at = self.now.get();
            self.trace.borrow_mut().push(Switch { at, cpu, task });
        }
    }

    /// Plan the next tick. Ticks of all CPUs are at multiples of `tick_ns`.
    pub fn plan_tick(&self, cpu: usize) {
        let length = self.settings.tick_ns;
        let at = (self.now.get() / length + 1) * length;
        self.plan(at, Event::Tick(cpu as u32));
    }
}
