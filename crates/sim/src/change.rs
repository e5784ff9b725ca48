//! What others do to a task while it runs, waits or sleeps: affinity, weight, cgroup.
//!
//! The kernel takes a runnable task off its run queue for the change and puts it back (`sched_change_begin`
//! and `sched_change_end` with DEQUEUE_SAVE, kernel/sched/core.c). So the scheduler sees a queued task
//! enqueued again, on the CPU where it was, and one that runs stop and run again. A task that may not stay on
//! its CPU is moved after that (`affine_move_task`).

use crate::agenda::Happening;
use crate::hotplug::SAVE;
use crate::state::State;
use crate::task::{CpuMask, Place, Task, TaskId, QUEUED};
use crate::CgroupChange;

/// A change from outside, at once ([`crate::Simulation::change`]) or at a time ([`crate::Simulation::plan`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A CPU leaves.
    Offline(usize),
    /// A CPU comes back.
    Online(usize),
    /// `sched_setaffinity`
    Affinity(TaskId, CpuMask),
    /// Nice value, as sched_ext's weight (nice 0: 100).
    Weight(TaskId, u32),
    /// A signal that ends it.
    Kill(TaskId),
    /// One that ends all threads of its process.
    KillGroup(TaskId),
    /// What is done to cgroups, and to tasks with them.
    Cgroup(CgroupChange),
}

impl State {
    /// False: the kernel would refuse it.
    pub fn change(&self, change: &Change) -> bool {
        self.on(self.or_another(0));
        self.current.set(std::ptr::null_mut());
        let alive = |id| {
            let task = self.tasks.get(id);
            task.filter(|t| t.place.get() != Place::Gone)
        };
        match *change {
            Change::Offline(cpu) => self.offline(cpu),
            Change::Online(cpu) => self.online(cpu),
            Change::Affinity(id, ref mask) => alive(id).is_some_and(|t| self.affinity(t, mask)),
            Change::Weight(id, weight) => alive(id).is_some_and(|t| {
                self.changed(t, SAVE, || {
                    t.kernel.scx.weight.set(weight);
                    self.ops_set_weight(t);
                });
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

    /// `change` will be made at `at`.
    pub fn plan_change(&self, at: u64, change: Change) {
        let mut changes = self.changes.borrow_mut();
        changes.push(Some(change));
        self.plan(at, Happening::Change(changes.len() as u32 - 1));
    }

    /// Take `t` off its run queue, if it is on one, `change` it, and put it back. `how`: the flags of both.
    pub fn changed(&self, t: &Task, how: u64, change: impl FnOnce()) {
        let flags = &t.kernel.scx.flags;
        if !t.runnable() {
            return change();
        }
        let runs = matches!(t.place.get(), Place::Running(_));
        if let Place::Running(cpu) = t.place.get() {
            self.count_run(cpu);
            self.on(cpu);
            self.ops_stopping(t, false);
        } else {
            self.dequeue(t);
        }
        self.ops_quiescent(t, how);
        flags.set(flags.get() & !QUEUED);
        change();
        flags.set(flags.get() | QUEUED);
        self.ops_runnable(t, how);
        if runs {
            self.ops_running(t);
        } else {
            self.sent.set(None);
            self.enqueue(t, how);
        }
    }

    /// Out of the queue that it waits in. It stays on its CPU's run queue.
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

    fn affinity(&self, t: &Task, mask: &CpuMask) -> bool {
        let mut possible = *mask;
        (self.cpus.len()..crate::MAX_CPUS).for_each(|cpu| possible.set(cpu, false));
        let there = |&cpu: &usize| self.cpus[cpu].on();
        let Some(to) = possible.iter().find(there) else {
            return false;
        };
        self.changed(t, SAVE, || {
            t.allow(self.masks.get(&possible));
            self.ops_set_cpumask(t);
        });
        let from = t.kernel.cpu.get() as usize;
        if !t.runnable() || possible.has(from) {
            return true;
        }
        let id = Self::id(t.pointer());
        if let Place::Running(cpu) = t.place.get() {
            // the stopper takes the CPU; what has slice left stays at the head of the local queue
            self.ops_stopping(t, true);
            if t.kernel.scx.slice.get() == 0 {
                self.sent.set(None);
                self.enqueue(t, 0);
                self.dequeue(t);
            }
            self.stand_still(cpu);
            self.resched(cpu);
        } else {
            self.dequeue(t);
        }
        self.migrate(id, to);
        true
    }
}
