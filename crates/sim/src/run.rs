//! How a CPU chooses, and what tasks do when they run: wake-ups, steps, sleeps, forks and exits.
//!
//! After `select_task_rq`, `try_to_wake_up`, `wake_up_new_task` of kernel/sched/core.c and `balance_one`,
//! `pick_task_scx`, `put_prev_task_scx`, `set_next_task_scx`, `enqueue_task_scx` of kernel/sched/ext.c.

use std::ptr;

use crate::agenda::Happening;
use crate::cgroups::Cgroup;
use crate::host::{self, Binprm, Program as ProgramFile};
use crate::queue::GLOBAL;
use crate::state::{Sent, State, LOCAL};
use crate::task::{CpuMask, Ends, Place, Program, Step, Task, TaskId, QUEUED};
use crate::Switch;

/// Wake-up (`SCX_ENQ_WAKEUP`), and select_cpu was asked (`SCX_ENQ_CPU_SELECTED`).
const ENQ_WAKEUP: u64 = 1;
const ENQ_CPU_SELECTED: u64 = 1 << 10;
/// Nobody else is there, and dispatch gave it no slice (`SCX_ENQ_LAST`, with `SCX_OPS_ENQ_LAST`).
const ENQ_LAST: u64 = 1 << 41;
/// It went to sleep (`SCX_DEQ_SLEEP`).
const DEQ_SLEEP: u64 = 1;
/// `SCX_WAKE_FORK`, `SCX_WAKE_TTWU`
const WAKE_FORK: u64 = 4;
const WAKE_TTWU: u64 = 8;
/// What a task gets that goes on because there is nothing else (`SCX_SLICE_DFL`), ns.
const SLICE_DEFAULT: u64 = 20_000_000;
/// Times that dispatch is called in a row while it does something (`SCX_DSP_MAX_LOOPS`).
const DISPATCH_LOOPS: u32 = 32;
/// Steps without any time that a task may take in a row; one more is a mistake in the workload.
const STEPS_AT_ONCE: u32 = 10_000;

impl State {
    /// A new task in `cgroup`, child or thread of the current one if there is one. Its first step may be a sleep.
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

    /// A sleeping task's next step: with something to do it wakes up. (What it does then it does when it runs.)
    pub fn advance_asleep(&self, id: TaskId, new: bool) {
        let t = &self.tasks[id];
        match self.ask(id) {
            Step::SleepUntil(at) if at > self.now.get() => {
                self.plan(at, Happening::Wake(id as u32, t.naps.get()));
            }
            Step::Wait if t.wakes.get() == 0 => t.waits.set(true),
            Step::Run(ns) => {
                t.left.set(ns);
                self.wake(id, new);
            }
            step => {
                t.left.set(0);
                t.pending.set(Some(step));
                self.wake(id, new);
            }
        }
    }

    /// The next step of a task.
    fn ask(&self, id: TaskId) -> Step {
        let t = &self.tasks[id];
        if let Some(step) = t.pending.take() {
            return step;
        }
        let mut program = t.program.take().expect("a task that has not exited");
        let step = program.next(self.now.get(), t.kernel.sum_exec_runtime.get());
        t.program.set(Some(program));
        step
    }

    /// A task becomes runnable; `new`: for the first time.
    fn wake(&self, id: TaskId, new: bool) {
        let t = &self.tasks[id];
        let previous = t.kernel.cpu.get() as usize;
        let (how, mut flags) = if new {
            (WAKE_FORK, 0)
        } else {
            (WAKE_TTWU, ENQ_WAKEUP)
        };
        let mut cpu = previous;
        self.sent.set(None);
        if t.kernel.nr_cpus_allowed.get() > 1 {
            cpu = self.ops_select_cpu(t, previous, how).unwrap_or(previous);
            if !new {
                flags |= ENQ_CPU_SELECTED;
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
        cpu < self.cpus.len() && self.cpus[cpu].on() && t.allowed().has(cpu)
    }

    /// A task joins the run queue of its CPU. `activate_task()` and the preemption test after it.
    pub fn activate(&self, t: &Task, flags: u64) {
        let cpu = t.kernel.cpu.get() as usize;
        t.kernel.scx.flags.set(t.kernel.scx.flags.get() | QUEUED);
        self.count_runnable(cpu, 1);
        self.ops_runnable(t, flags);
        self.enqueue(t, flags);
        if self.cpus[cpu].curr.get().is_none() {
            self.resched(cpu); // a runnable task is above the idle one
        }
    }

    /// It leaves the run queue of its CPU, to sleep, to exit or to move. `deactivate_task()`
    pub fn deactivate(&self, t: &Task, flags: u64) {
        t.kernel.scx.flags.set(t.kernel.scx.flags.get() & !QUEUED);
        self.count_runnable(t.kernel.cpu.get() as usize, -1);
        self.ops_quiescent(t, flags);
    }

    /// enqueue(), unless select_cpu() has sent the task already; then to where it was sent.
    pub fn enqueue(&self, t: &Task, flags: u64) {
        let (id, cpu) = (Self::id(t.pointer()), t.kernel.cpu.get() as usize);
        if !self.cpus[cpu].on() {
            // the scheduler was told that this CPU has gone, and is not bothered with it
            self.sent.set(Some(Sent {
                queue: LOCAL,
                slice: SLICE_DEFAULT,
                vtime: 0,
                flags: 0,
                ordered: false,
            }));
        }
        // set_task_runnable()
        let jiffies = self.now.get() / self.settings.tick_ns;
        t.kernel.scx.runnable_at.set(jiffies);
        let sent = self.sent.take().or_else(|| {
            self.ops_enqueue(t, flags);
            self.sent.take()
        });
        let sent =
            sent.unwrap_or_else(|| panic!("enqueue lost task {id} at {} ns", self.now.get()));
        self.deliver(id, cpu, sent);
    }

    /// The CPU chooses what runs next.
    pub fn choose(&self, cpu: usize) {
        self.on(cpu);
        self.count_run(cpu);
        let prev = self.cpus[cpu].curr.get();
        self.choose_after(cpu, prev, prev.is_some());
    }

    /// `prev` ran; it is `runnable` or sleeps now (its stopping() was called then). True: it goes on.
    pub fn choose_after(&self, cpu: usize, prev: Option<TaskId>, runnable: bool) -> bool {
        let c = &self.cpus[cpu];
        if !c.on() {
            self.push_away(cpu);
            return false;
        }
        let prev_task = prev.map(|id| &self.tasks[id]);
        let slice_left = || runnable && prev_task.is_some_and(|t| t.kernel.scx.slice.get() > 0);
        let has_local = || !c.local.borrow().is_empty();
        let mut keep = slice_left();
        if !keep && !has_local() && !self.take(GLOBAL, cpu) {
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
            self.put_prev(t, if next.is_none() { ENQ_LAST } else { 0 });
        }
        self.begin(cpu, next);
        false
    }

    /// The running task is put back without having slept.
    pub fn put_prev(&self, t: &Task, flags: u64) {
        self.ops_stopping(t, true);
        self.sent.set(None);
        self.enqueue(t, flags);
    }

    /// `next`, or nothing, runs on `cpu` from now on.
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
            self.note_switch(cpu, next);
        }
        let Some(id) = next else { return };
        let t = &self.tasks[id];
        t.place.set(Place::Running(cpu));
        self.on(cpu);
        self.ops_running(t);
        self.plan(now + t.left.get(), Happening::Done(cpu as u32, c.run.get()));
        if !c.ticks.replace(true) {
            self.plan_tick(cpu);
        }
    }

    fn note_switch(&self, cpu: usize, task: Option<TaskId>) {
        if self.cpus[cpu].traced.replace(task) != task {
            let at = self.now.get();
            self.trace.borrow_mut().push(Switch { at, cpu, task });
        }
    }

    /// Ticks are at multiples of their length, for all CPUs.
    pub fn plan_tick(&self, cpu: usize) {
        let length = self.settings.tick_ns;
        let at = (self.now.get() / length + 1) * length;
        self.plan(at, Happening::Tick(cpu as u32));
    }

    /// The running task has done its step: the next ones, up to one that takes time.
    pub fn advance_running(&self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr.get() else {
            return;
        };
        let t = &self.tasks[id];
        self.on(cpu);
        for _ in 0..STEPS_AT_ONCE {
            match self.ask(id) {
                Step::Run(0) => {}
                Step::Run(ns) => {
                    t.left.set(ns);
                    let run = self.cpus[cpu].run.get();
                    self.plan(self.now.get() + ns, Happening::Done(cpu as u32, run));
                    return;
                }
                Step::SleepUntil(at) if at <= self.now.get() => {}
                Step::SleepUntil(at) => return self.sleep(cpu, t, Some(at)),
                Step::Wait if t.wakes.get() > 0 => t.wakes.set(t.wakes.get() - 1),
                Step::Wait => return self.sleep(cpu, t, None),
                Step::Wake(other) => self.wake_other(other),
                Step::Yield => {
                    self.ops_yield(t);
                    if !self.choose_after(cpu, Some(id), true) {
                        return; // its next step is due when it runs again
                    }
                }
                Step::Exec(ino) => {
                    let execs = &self.cpus[cpu].execs;
                    execs.set(execs.get().wrapping_add(1));
                    let id = &t.kernel.self_exec_id;
                    id.set(id.get() + 1);
                    let mut file = ProgramFile::new(ino);
                    let mut binprm = Binprm::new(&mut file);
                    // SAFETY: the task is the current one, the file lives for the call
                    unsafe { host::host_exec(t.pointer(), &mut binprm) };
                }
                Step::Fork(which) => self.fork(t, which, false),
                Step::Thread(which) => self.fork(t, which, true),
                Step::Exit => return self.exit(cpu, t),
                Step::ExitGroup => {
                    self.kill_group(t.kernel.tgid.get(), Some(id));
                    return self.exit(cpu, t);
                }
            }
        }
        panic!("task {id} takes no time at {} ns", self.now.get());
    }

    fn fork(&self, parent: &Task, which: u64, thread: bool) {
        let mut program = parent.program.take();
        let child = program.as_mut().map(|p| p.child(which));
        parent.program.set(program);
        if let Some(child) = child {
            let weight = parent.kernel.scx.weight.get();
            let (cpu, current) = (self.cpu.get(), self.current.get());
            let (thread_of, cgroup) = (thread.then_some(parent), self.cgroup_of(parent));
            self.add(weight, parent.allowed(), child, thread_of, cgroup);
            self.cpu.set(cpu);
            self.current.set(current);
        }
    }

    /// The other end of a pipe: a task that waits goes on, one that does not will not wait the next time.
    fn wake_other(&self, id: TaskId) {
        let Some(t) = self.tasks.get(id) else { return };
        if t.place.get() == Place::Asleep && t.waits.replace(false) {
            self.advance_asleep(id, false);
        } else {
            t.wakes.set(t.wakes.get() + 1);
        }
    }

    fn sleep(&self, cpu: usize, t: &Task, until: Option<u64>) {
        self.leave(t, Place::Asleep);
        t.naps.set(t.naps.get().wrapping_add(1));
        t.waits.set(until.is_none());
        if let Some(at) = until {
            let id = Self::id(t.pointer());
            self.plan(at, Happening::Wake(id as u32, t.naps.get()));
        }
        self.choose_after(cpu, Some(Self::id(t.pointer())), false);
    }

    fn exit(&self, cpu: usize, t: &Task) {
        // SAFETY: a live task; its memory stays until the simulation ends
        unsafe { host::host_exit(t.pointer()) };
        self.leave(t, Place::Gone);
        self.choose_after(cpu, Some(Self::id(t.pointer())), false);
        self.ops_exit_task(t);
        self.cgroup_of(t).left(); // not before: finish_task_switch()
        t.program.set(None);
    }

    /// The running task is runnable no more.
    fn leave(&self, t: &Task, place: Place) {
        self.ops_stopping(t, false);
        self.deactivate(t, DEQ_SLEEP);
        t.place.set(place);
    }

    /// A signal that ends it (SIGKILL): asleep it wakes up, queued it ends when it runs, running at once.
    pub fn kill(&self, id: TaskId) {
        let Some(t) = self.tasks.get(id) else { return };
        if t.place.get() == Place::Gone {
            return;
        }
        t.program.set(Some(Box::new(Ends)));
        t.pending.set(None);
        match t.place.get() {
            Place::Asleep => {
                t.naps.set(t.naps.get().wrapping_add(1)); // what it slept for does not come
                t.waits.set(false);
                self.advance_asleep(id, false);
            }
            Place::Running(cpu) => {
                self.count_run(cpu);
                let run = self.cpus[cpu].run.get();
                self.plan(self.now.get(), Happening::Done(cpu as u32, run));
            }
            _ => {}
        }
        t.left.set(0);
    }

    /// All threads of a process but `except`.
    pub fn kill_group(&self, tgid: i32, except: Option<TaskId>) {
        for id in 0..self.tasks.len() {
            if self.tasks[id].kernel.tgid.get() == tgid && except != Some(id) {
                self.kill(id);
            }
        }
    }
}
