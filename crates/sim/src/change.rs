//! Changes from outside: affinity, weight, signals, CPU hotplug, cgroups.
//!
//! For a change of affinity, weight or cgroup the kernel takes a runnable task off its run queue
//! and puts it back (`sched_change_begin` and `sched_change_end` with DEQUEUE_SAVE,
//! kernel/sched/core.c). So the scheduler sees a queued task enqueued again on the same CPU, and a
//! running task stop and run again. After that, a task that may not stay on its CPU is migrated
//! (`affine_move_task`).

use crate::agenda::Event;
use crate::hotplug::SAVE;
use crate::run::SLICE_DEFAULT;
use crate::state::State;
use crate::task::{CpuMask, Place, Task, TaskId};
use crate::CgroupChange;

/// A change from outside, made at once ([`crate::Simulation::change`]) or later
/// ([`crate::Simulation::plan`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A CPU goes offline.
    Offline(usize),
    /// A CPU goes online.
    Online(usize),
    /// `sched_setaffinity`
    Affinity(TaskId, CpuMask),
    /// The nice value, as a weight of sched_ext (nice 0: 100).
    Weight(TaskId, u32),
    /// `sched_setscheduler`, within sched_ext: SCHED_NORMAL (0), [`crate::SCHED_IDLE`].
    Policy(TaskId, u8),
    /// A real-time task has this CPU for so many ns.
    RealTime(usize, u64),
    /// The task, which waits, comes from a real-time class while it runs on its CPU (`chrt -o`),
    /// and another real-time task preempts it at once.
    FromRealTime(TaskId),
    /// `setsid`: the task is in the autogroup with this number, and so are its later children.
    /// 0: in none, as while `kernel.sched_autogroup_enabled` is 0.
    Session(TaskId, u16),
    /// A signal that ends the task.
    Kill(TaskId),
    /// A signal that ends all threads of the task's process.
    KillGroup(TaskId),
    /// A change of a cgroup, or of the cgroup of a task.
    Cgroup(CgroupChange),
}

impl State {
    /// Make a change. False: the kernel would refuse it.
    pub fn change(&self, change: &Change) -> bool {
        self.enter_cpu(self.or_online(0));
        self.current.set(std::ptr::null_mut());
        let alive = |id| {
            let task = self.tasks.get(id);
            task.filter(|t| t.place.get() != Place::Exited)
        };
        match *change {
            Change::Offline(cpu) => self.offline(cpu),
            Change::Online(cpu) => self.online(cpu),
            Change::Affinity(id, ref mask) => alive(id).is_some_and(|t| self.affinity(t, mask)),
            Change::Weight(id, weight) => alive(id).is_some_and(|t| {
                self.sched_change(t, SAVE, || {
                    t.kernel.scx.weight.set(weight);
                    self.ops_set_weight(t);
                });
                true
            }),
            Change::Policy(id, policy) => alive(id).is_some_and(|t| {
                self.sched_change(t, SAVE, || t.kernel.policy.set(policy));
                true
            }),
            Change::RealTime(cpu, ns) => {
                self.count_run(cpu);
                self.take_for_higher_class(cpu);
                let end = self.now.get() + ns;
                self.cpus[cpu].taken_until.set(end);
                self.plan(end, Event::Resched(cpu as u32));
                true
            }
            Change::FromRealTime(id) => alive(id).is_some_and(|t| self.leave_real_time(t)),
            Change::Session(id, session) => alive(id).is_some_and(|t| {
                self.sched_change(t, SAVE, || t.kernel.session.set(session));
                true
            }),
            Change::Kill(id) => alive(id).is_some_and(|_| {
                self.kill(id);
                true
            }),
            Change::KillGroup(id) => alive(id).is_some_and(|t| {
                self.kill_group(t.kernel.tgid.get(), None);
                true
            }),
            Change::Cgroup(ref change) => self.change_cgroup(change).is_ok(),
        }
    }

    /// Plan a change for the time `at`.
    pub fn plan_change(&self, at: u64, change: Change) {
        let mut changes = self.changes.borrow_mut();
        changes.push(Some(change));
        self.plan(at, Event::Change(changes.len() as u32 - 1));
    }

    /// Take `t` off its run queue, if it is on one, make the `change`, and put it back.
    /// `flags_of_both` are the flags of the dequeue and of the enqueue.
    pub fn sched_change(&self, t: &Task, flags_of_both: u64, change: impl FnOnce()) {
        let flags = &t.kernel.scx.flags;
        if !t.runnable() {
            return change();
        }
        let runs = matches!(t.place.get(), Place::Running(_));
        if let Place::Running(cpu) = t.place.get() {
            self.count_run(cpu);
            self.enter_cpu(cpu);
            self.ops_stopping(t, false);
        } else {
            self.dequeue(t);
        }
        self.ops_quiescent(t, flags_of_both);
        flags.set(flags.get() & !self.queued_flag());
        change();
        flags.set(flags.get() | self.queued_flag());
        self.ops_runnable(t, flags_of_both);
        if runs {
            self.ops_running(t);
        } else {
            self.insertion.set(None);
            self.enqueue(t, flags_of_both);
        }
    }

    /// Remove a waiting task from its dispatch queue. It stays on its CPU's run queue.
    fn dequeue(&self, t: &Task) {
        match t.place.get() {
            Place::Queue(queue) => self.queues.borrow_mut().remove(queue, t.seat.get()),
            Place::Local(cpu) => {
                let id = Self::id(t.pointer());
                self.cpus[cpu].local.borrow_mut().retain(|&l| l != id);
            }
            _ => {}
        }
    }

    /// A task of a higher scheduling class runs on `cpu` from now on. A task that has slice left
    /// stays, first in the local queue (`put_prev_task_scx()`).
    fn take_for_higher_class(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        if let Some(id) = c.curr.get() {
            let t = &self.tasks[id];
            self.enter_cpu(cpu);
            self.ops_stopping(t, true);
            self.insertion.set(None);
            if t.kernel.scx.slice.get() > 0 {
                c.local.borrow_mut().push_front(id);
                t.place.set(Place::Local(cpu));
                t.waits_since.set(self.now.get());
            } else {
                self.enqueue(t, 0);
            }
        }
        self.run_higher_class(cpu);
    }

    fn leave_real_time(&self, t: &Task) -> bool {
        let cpu = t.kernel.cpu.get() as usize;
        let c = &self.cpus[cpu];
        if !matches!(t.place.get(), Place::Queue(_)) {
            return false;
        }
        self.count_run(cpu);
        self.take_for_higher_class(cpu);
        self.dequeue(t);
        self.ops_quiescent(t, SAVE);
        c.curr.set(Some(Self::id(t.pointer())));
        self.ops_enable(t);
        self.ops_runnable(t, SAVE);
        t.kernel.scx.slice.set(SLICE_DEFAULT);
        t.place.set(Place::Running(cpu));
        self.enter_cpu(cpu);
        self.ops_running(t);
        self.take_for_higher_class(cpu);
        self.resched(cpu);
        true
    }

    fn affinity(&self, t: &Task, mask: &CpuMask) -> bool {
        let mut possible = *mask;
        (self.cpus.len()..crate::MAX_CPUS).for_each(|cpu| possible.set(cpu, false));
        let there = |&cpu: &usize| self.cpus[cpu].is_on();
        let Some(to) = possible.iter().find(there) else {
            return false;
        };
        self.sched_change(t, SAVE, || {
            t.allow(self.masks.get(&possible));
            self.ops_set_cpumask(t);
        });
        let from = t.kernel.cpu.get() as usize;
        if !t.runnable() || possible.has(from) {
            return true;
        }
        let id = Self::id(t.pointer());
        if let Place::Running(cpu) = t.place.get() {
            // the stopper preempts the task; a task with slice left stays first in the local queue
            self.ops_stopping(t, true);
            if t.kernel.scx.slice.get() == 0 {
                self.insertion.set(None);
                self.enqueue(t, 0);
                self.dequeue(t);
            }
            self.run_higher_class(cpu);
            self.resched(cpu);
        } else {
            self.dequeue(t);
        }
        self.migrate(id, to);
        true
    }
}
