//! CPUs that leave and come, and where tasks go that cannot stay.
//!
//! After `sched_cpu_deactivate`, `balance_push`, `select_fallback_rq`, `sched_cpu_activate` of
//! kernel/sched/core.c and `handle_hotplug`, `scx_rq_online` of kernel/sched/ext.c:
//!
//! ```text
//!   leaves   the CPU's own kernel thread preempts what runs (stopping, enqueue)
//!            no more wake-ups, dispatches and kernel-side moves to this CPU
//!            cpu_offline
//!            each task that comes into its local queue runs for an instant and is pushed to another CPU
//!            once none of the tasks on its run queue is left, in whatever queue: it is off line
//!   comes    cpu_online; then the CPU chooses
//! ```
//!
//! The last step matters: a task that waits in a queue of the scheduler's still is on the run queue of the CPU
//! where it was enqueued, so the kernel waits until another CPU has taken it. Nobody takes one that is tied to
//! this CPU: the scheduler has to send it to the local queue, from where it is pushed with a wider affinity.

use crate::agenda::Happening;
use crate::state::{Power, State};
use crate::task::{CpuMask, Place, Task, TaskId, QUEUED};

/// Between looks whether a CPU that is to come has left already, ns.
const RETRY_NS: u64 = 1_000_000;
/// `DEQUEUE_SAVE`, `ENQUEUE_RESTORE`
pub(crate) const SAVE: u64 = 2;

impl State {
    /// CPUs that take tasks.
    fn on_mask(&self) -> CpuMask {
        let mut mask = CpuMask::first(0);
        let on = (0..self.cpus.len()).filter(|&cpu| self.cpus[cpu].on());
        on.for_each(|cpu| mask.set(cpu, true));
        mask
    }

    /// `cpu`, or another that is there, for what happens in its name.
    pub fn or_another(&self, cpu: usize) -> usize {
        if self.cpus[cpu].on() {
            return cpu;
        }
        let other = self.cpus.iter().position(|c| c.on());
        other.expect("a CPU is left")
    }

    /// False: it is the last one, or not there. Panics if the scheduler has no callback for it.
    pub fn offline(&self, cpu: usize) -> bool {
        let Some(c) = self.cpus.get(cpu).filter(|c| c.on()) else {
            return false;
        };
        if self.on_mask().count() == 1 {
            return false;
        }
        self.on(cpu);
        self.count_run(cpu);
        if let Some(id) = c.curr.get() {
            let t = &self.tasks[id];
            t.kernel.scx.slice.set(0);
            self.put_prev(t, 0);
        }
        self.stand_still(cpu);
        c.power.set(Power::Leaving);
        self.leaving.set(self.leaving.get() + 1);
        self.on(cpu);
        self.ops_cpu(cpu, false);
        self.push_away(cpu);
        self.see_off();
        true
    }

    /// False: it is there. One that is leaving goes first.
    pub fn online(&self, cpu: usize) -> bool {
        let Some(c) = self.cpus.get(cpu) else {
            return false;
        };
        match c.power.get() {
            Power::On => return false,
            Power::Leaving => {
                let number = self.changes.borrow().len();
                let again = Some(crate::Change::Online(cpu));
                self.changes.borrow_mut().push(again);
                let at = self.now.get() + RETRY_NS;
                self.plan(at, Happening::Change(number as u32));
                return true;
            }
            Power::Off => {}
        }
        let mut online = self.online.get();
        online.set(cpu, true);
        self.online.set(online);
        self.on(cpu);
        self.ops_cpu(cpu, true);
        c.power.set(Power::On);
        c.idle_since.set(Some(self.now.get()));
        self.resched(cpu);
        true
    }

    /// A kernel thread of a higher class has `cpu`: no task runs there, and it is not idle.
    pub fn stand_still(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        c.curr.set(None);
        c.run.set(c.run.get().wrapping_add(1));
        c.counted_to.set(self.now.get());
        self.idle.borrow_mut().set(cpu, false);
    }

    /// A CPU that leaves chooses: whatever it picks is taken away from it at once.
    pub fn push_away(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        if c.power.get() == Power::Off {
            return;
        }
        loop {
            let Some(id) = c.local.borrow_mut().pop_front() else {
                break;
            };
            let t = &self.tasks[id];
            self.stand_still(cpu);
            c.curr.set(Some(id));
            t.place.set(Place::Running(cpu));
            self.on(cpu);
            self.ops_running(t);
            self.ops_stopping(t, true);
            self.stand_still(cpu);
            let to = self.fallback(t);
            self.migrate(id, to);
        }
        self.begin(cpu, None);
    }

    /// CPUs that leave and have no task left are off line.
    pub fn see_off(&self) {
        for (cpu, c) in self.cpus.iter().enumerate() {
            if c.power.get() == Power::Leaving && c.runnable.get() == 0 {
                c.power.set(Power::Off);
                self.leaving.set(self.leaving.get() - 1);
                let mut online = self.online.get();
                online.set(cpu, false);
                // it stays in the mask of idle CPUs, as in the kernel (`update_builtin_idle` does not ask)
                self.online.set(online);
            }
        }
    }

    /// A CPU for a task that cannot stay where it is; if it may run on none that is there, on any from now on.
    pub fn fallback(&self, t: &Task) -> usize {
        let on = self.on_mask();
        if let Some(cpu) = t.allowed().first_common(&on, self.cpus.len()) {
            return cpu;
        }
        let queued = t.kernel.scx.flags.get() & QUEUED != 0;
        if queued {
            self.ops_quiescent(t, SAVE);
        }
        t.allow(self.masks.get(&CpuMask::first(self.cpus.len())));
        self.ops_set_cpumask(t);
        if queued {
            self.ops_runnable(t, SAVE);
        }
        self.or_another(0)
    }

    /// A runnable task that is in no queue goes to another CPU. `move_queued_task()`
    pub fn migrate(&self, id: TaskId, to: usize) {
        self.set_cpu(id, to);
        self.sent.set(None);
        self.enqueue(&self.tasks[id], 0);
        if self.cpus[to].curr.get().is_none() {
            self.resched(to);
        }
    }
}
