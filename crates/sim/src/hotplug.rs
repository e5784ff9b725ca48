//! CPUs that go offline and online, and the migration of tasks that cannot stay.
//!
//! As in `sched_cpu_deactivate`, `balance_push`, `select_fallback_rq`, `sched_cpu_activate` of
//! kernel/sched/core.c and `handle_hotplug`, `scx_rq_online` of kernel/sched/ext.c:
//!
//! ```text
//!   offline   the CPU's hotplug thread preempts the running task (stopping, enqueue)
//!             no task is woken up, dispatched or moved to this CPU any more
//!             cpu_offline
//!             each task in its local queue runs for an instant and is pushed to another CPU
//!             the CPU is offline when its run queue is empty
//!   online    cpu_online, then the CPU picks
//! ```
//!
//! The last step of offline matters. A task in a queue of the scheduler is still on the run queue
//! of the CPU where it was enqueued, so the kernel waits until another CPU has taken it. No other
//! CPU takes a task that is pinned to this CPU: the scheduler has to send it to the local queue.
//! From there the kernel pushes it away with a wider affinity.

use crate::agenda::Event;
use crate::state::{Power, State};
use crate::task::{CpuMask, Place, Task, TaskId};

/// Time until the next attempt to bring a CPU online, if it is still going offline, ns.
const RETRY_NS: u64 = 1_000_000;
/// `DEQUEUE_SAVE`, `ENQUEUE_RESTORE`
pub(crate) const SAVE: u64 = 2;

impl State {
    /// The CPUs that take tasks.
    fn on_mask(&self) -> CpuMask {
        let mut mask = CpuMask::first(0);
        let on = (0..self.cpus.len()).filter(|&cpu| self.cpus[cpu].is_on());
        on.for_each(|cpu| mask.set(cpu, true));
        mask
    }

    /// `cpu`, or the first CPU that is online if `cpu` is not.
    pub fn or_online(&self, cpu: usize) -> usize {
        if self.cpus[cpu].is_on() {
            return cpu;
        }
        let other = self.cpus.iter().position(|c| c.is_on());
        other.expect("a CPU is left")
    }

    /// Take a CPU offline. False: it is the last online CPU, or not online. Panics if the scheduler
    /// has no callback for that.
    pub fn offline(&self, cpu: usize) -> bool {
        let Some(c) = self.cpus.get(cpu).filter(|c| c.is_on()) else {
            return false;
        };
        if self.on_mask().count() == 1 {
            return false;
        }
        self.enter_cpu(cpu);
        self.count_run(cpu);
        if let Some(id) = c.curr.get() {
            let t = &self.tasks[id];
            t.kernel.scx.slice.set(0);
            self.put_prev(t, 0);
        }
        self.run_higher_class(cpu);
        c.power.set(Power::Leaving);
        self.leaving.set(self.leaving.get() + 1);
        self.enter_cpu(cpu);
        self.ops_cpu(cpu, false);
        self.push_tasks(cpu);
        self.finish_offline();
        true
    }

    /// Bring a CPU online. False: it is online. A CPU that is still going offline is brought online
    /// as soon as it is offline.
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
                self.plan(at, Event::Change(number as u32));
                return true;
            }
            Power::Off => {}
        }
        let mut online = self.online.get();
        online.set(cpu, true);
        self.online.set(online);
        self.enter_cpu(cpu);
        self.ops_cpu(cpu, true);
        c.power.set(Power::On);
        c.idle_since.set(Some(self.now.get()));
        self.resched(cpu);
        true
    }

    /// A kernel thread of a higher scheduling class runs on `cpu`: the CPU runs no task of
    /// sched_ext, and is not idle.
    pub fn run_higher_class(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        c.curr.set(None);
        c.run.set(c.run.get().wrapping_add(1));
        c.counted_to.set(self.now.get());
        self.idle.borrow_mut().set(cpu, false);
    }

    /// A pick of a CPU that is going offline: each task in its local queue is migrated at once.
    pub fn push_tasks(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        if c.power.get() == Power::Off {
            return;
        }
        loop {
            let Some(id) = c.local.borrow_mut().pop_front() else {
                break;
            };
            let t = &self.tasks[id];
            self.run_higher_class(cpu);
            c.curr.set(Some(id));
            t.place.set(Place::Running(cpu));
            self.enter_cpu(cpu);
            self.ops_running(t);
            self.ops_stopping(t, true);
            self.run_higher_class(cpu);
            let to = self.fallback(t);
            self.migrate(id, to);
        }
        self.begin(cpu, None);
    }

    /// Mark as offline each CPU that is going offline and whose run queue is empty.
    pub fn finish_offline(&self) {
        for (cpu, c) in self.cpus.iter().enumerate() {
            if c.power.get() == Power::Leaving && c.runnable.get() == 0 {
                c.power.set(Power::Off);
                self.leaving.set(self.leaving.get() - 1);
                let mut online = self.online.get();
                online.set(cpu, false);
                // the CPU stays in the mask of idle CPUs, as in the kernel: `update_builtin_idle`
                // does not check whether a CPU is online
                self.online.set(online);
            }
        }
    }

    /// A CPU for a task that cannot stay where it is. If no CPU of its affinity is online, it may
    /// run on all CPUs from now on. `select_fallback_rq()`
    pub fn fallback(&self, t: &Task) -> usize {
        let on = self.on_mask();
        if let Some(cpu) = t.allowed().first_common(&on, self.cpus.len()) {
            return cpu;
        }
        let queued = t.kernel.scx.flags.get() & self.queued_flag() != 0;
        if queued {
            self.ops_quiescent(t, SAVE);
        }
        t.allow(self.masks.get(&CpuMask::first(self.cpus.len())));
        self.ops_set_cpumask(t);
        if queued {
            self.ops_runnable(t, SAVE);
        }
        self.or_online(0)
    }

    /// Migrate a runnable task that is in no dispatch queue. `move_queued_task()`
    pub fn migrate(&self, id: TaskId, to: usize) {
        self.set_cpu(id, to);
        self.insertion.set(None);
        self.enqueue(&self.tasks[id], 0);
        if self.cpus[to].curr.get().is_none() {
            self.resched(to);
        }
    }
}
