//! Calls of the scheduler's callbacks. A callback that the scheduler lacks is skipped, as in the
//! kernel. In tests each call is recorded, so that the order can be compared with the kernel's.

use crate::cgroups::Cgroup;
use crate::host;
use crate::state::State;
use crate::task::{Task, TaskId, TaskStruct};

use recorded::record;

// SAFETY of all calls below: the scheduler gets tasks and cgroups of the current simulation
// (kfuncs::enter), and their memory lives until that simulation ends.
impl State {
    /// Call the callback `name`; `of` is the task, CPU or cgroup that it is about. Like the
    /// prologue of a BPF program (`__bpf_prog_enter`), this disables migration of the current task
    /// once more. The kernel does so with preemptible RCU, and in all versions before 6.18.
    fn call<R>(&self, name: &'static str, of: TaskId, callback: impl FnOnce() -> R) -> R {
        record(name, of);
        self.pay_call();
        let depth = &self.current().migration_disabled;
        depth.set(depth.get() + 1);
        let result = callback();
        depth.set(depth.get() - 1);
        result
    }

    pub fn ops_init_task(&self, t: &Task, fork: bool) {
        let cgroup = self.group_of(t).pointer();
        let mut args = host::InitArgs { fork, cgroup };
        #[cfg(test)]
        crate::tests::probe::init_task(Self::id(t.pointer()), &args);
        self.no_task_locked.set(true);
        let status = self.call("init_task", Self::id(t.pointer()), || unsafe {
            host::aplomb_init_task(t.pointer(), &mut args)
        });
        self.no_task_locked.set(false);
        assert_eq!(status, 0, "init_task failed");
    }

    pub fn ops_enable(&self, t: &Task) {
        self.call("enable", Self::id(t.pointer()), || unsafe {
            host::aplomb_enable(t.pointer())
        });
    }

    pub fn ops_exit_task(&self, t: &Task) {
        let mut args = host::ExitArgs { cancelled: false };
        self.call("exit_task", Self::id(t.pointer()), || unsafe {
            host::aplomb_exit_task(t.pointer(), &mut args)
        });
    }

    pub fn ops_select_cpu(&self, t: &Task, previous: usize, flags: u64) -> Option<usize> {
        let cpu = self.call("select_cpu", Self::id(t.pointer()), || unsafe {
            host::aplomb_select_cpu(t.pointer(), previous as i32, flags)
        });
        usize::try_from(cpu).ok()
    }

    pub fn ops_runnable(&self, t: &Task, flags: u64) {
        #[cfg(test)]
        if !self.has.runnable {
            crate::tests::probe::lacking("runnable", t.pointer(), flags);
        }
        if self.has.runnable {
            self.call("runnable", Self::id(t.pointer()), || unsafe {
                host::host_runnable(t.pointer(), flags)
            });
        }
    }

    pub fn ops_quiescent(&self, t: &Task, flags: u64) {
        #[cfg(test)]
        if !self.has.quiescent {
            crate::tests::probe::lacking("quiescent", t.pointer(), flags);
        }
        if self.has.quiescent {
            self.call("quiescent", Self::id(t.pointer()), || unsafe {
                host::host_quiescent(t.pointer(), flags)
            });
        }
    }

    pub fn ops_enqueue(&self, t: &Task, flags: u64) {
        self.call("enqueue", Self::id(t.pointer()), || unsafe {
            host::aplomb_enqueue(t.pointer(), flags)
        });
    }

    pub fn ops_dispatch(&self, cpu: usize, prev: *mut TaskStruct) {
        self.call("dispatch", cpu, || unsafe {
            host::aplomb_dispatch(cpu as i32, prev)
        });
    }

    pub fn ops_running(&self, t: &Task) {
        self.call("running", Self::id(t.pointer()), || unsafe {
            host::aplomb_running(t.pointer())
        });
    }

    pub fn ops_stopping(&self, t: &Task, runnable: bool) {
        self.call("stopping", Self::id(t.pointer()), || unsafe {
            host::aplomb_stopping(t.pointer(), runnable)
        });
    }

    /// `sched_yield`. If the scheduler has no callback for it, the kernel sets the slice to 0.
    pub fn ops_yield(&self, t: &Task) {
        if self.has.yields {
            self.call("yield", Self::id(t.pointer()), || unsafe {
                host::host_yield(t.pointer())
            });
        } else {
            t.kernel.scx.slice.set(0);
        }
    }

    pub fn ops_set_cpumask(&self, t: &Task) {
        self.call("set_cpumask", Self::id(t.pointer()), || unsafe {
            host::aplomb_set_cpumask(t.pointer(), t.kernel.cpus_ptr.get())
        });
    }

    pub fn ops_tick(&self, t: &Task) {
        if self.has.tick {
            self.call("tick", Self::id(t.pointer()), || unsafe {
                host::host_tick(t.pointer())
            });
        }
    }

    pub fn ops_set_weight(&self, t: &Task) {
        if self.has.set_weight {
            self.call("set_weight", Self::id(t.pointer()), || unsafe {
                host::host_set_weight(t.pointer(), t.kernel.scx.weight.get())
            });
        }
    }

    /// The callback's result, or 0 if the scheduler lacks it. `bandwidth`: period, quota, burst,
    /// us.
    pub fn ops_cgroup_init(&self, c: &Cgroup, weight: u32, bandwidth: [u64; 3]) -> i32 {
        let Some(init) = self.cgroup_ops.init else {
            return 0;
        };
        let [period, quota, burst] = bandwidth;
        let mut args = host::CgroupInitArgs {
            weight,
            period,
            quota,
            burst,
        };
        self.call("cgroup_init", c.id(), || unsafe {
            init(c.pointer(), &mut args)
        })
    }

    pub fn ops_cgroup_exit(&self, c: &Cgroup) {
        if let Some(exit) = self.cgroup_ops.exit {
            self.call("cgroup_exit", c.id(), || unsafe { exit(c.pointer()) });
        }
    }

    /// The callback's result, or 0 if the scheduler lacks it.
    pub fn ops_cgroup_prep_move(&self, t: &Task, from: &Cgroup, to: &Cgroup) -> i32 {
        let Some(prep_move) = self.cgroup_ops.prep_move else {
            return 0;
        };
        self.no_task_locked.set(true);
        let status = self.call("cgroup_prep_move", Self::id(t.pointer()), || unsafe {
            prep_move(t.pointer(), from.pointer(), to.pointer())
        });
        self.no_task_locked.set(false);
        status
    }

    pub fn ops_cgroup_cancel_move(&self, t: &Task, from: &Cgroup, to: &Cgroup) {
        if let Some(cancel_move) = self.cgroup_ops.cancel_move {
            self.no_task_locked.set(true);
            self.call("cgroup_cancel_move", Self::id(t.pointer()), || unsafe {
                cancel_move(t.pointer(), from.pointer(), to.pointer())
            });
            self.no_task_locked.set(false);
        }
    }

    pub fn ops_cgroup_move(&self, t: &Task, from: &Cgroup, to: &Cgroup) {
        if let Some(moved) = self.cgroup_ops.moved {
            self.call("cgroup_move", Self::id(t.pointer()), || unsafe {
                moved(t.pointer(), from.pointer(), to.pointer())
            });
        }
    }

    pub fn ops_cgroup_set_weight(&self, c: &Cgroup, weight: u32) {
        if let Some(set_weight) = self.cgroup_ops.set_weight {
            self.call("cgroup_set_weight", c.id(), || unsafe {
                set_weight(c.pointer(), weight)
            });
        }
    }

    /// `bandwidth`: period, quota, burst, us.
    pub fn ops_cgroup_set_bandwidth(&self, c: &Cgroup, bandwidth: [u64; 3]) {
        if let Some(set_bandwidth) = self.cgroup_ops.set_bandwidth {
            let [period, quota, burst] = bandwidth;
            self.call("cgroup_set_bandwidth", c.id(), || unsafe {
                set_bandwidth(c.pointer(), period, quota, burst)
            });
        }
    }

    pub fn ops_cgroup_set_idle(&self, c: &Cgroup, idle: bool) {
        if let Some(set_idle) = self.cgroup_ops.set_idle {
            self.call("cgroup_set_idle", c.id(), || unsafe {
                set_idle(c.pointer(), idle)
            });
        }
    }

    /// Call cpu_online (`comes`) or cpu_offline. Panics if the scheduler lacks the callback.
    pub fn ops_cpu(&self, cpu: usize, comes: bool) {
        let has = if comes {
            self.has.cpu_online
        } else {
            self.has.cpu_offline
        };
        #[cfg(test)]
        if let (false, Some(stand_in)) = (has, recorded::STAND_IN.with(|s| *s.borrow())) {
            record(if comes { "cpu_online" } else { "cpu_offline" }, cpu);
            return stand_in(cpu, comes);
        }
        assert!(
            has,
            "CPU {cpu} goes {}: the scheduler has no callback for it, so the kernel would end it",
            if comes { "online" } else { "offline" }
        );
        self.call(
            if comes { "cpu_online" } else { "cpu_offline" },
            cpu,
            || unsafe { host::host_cpu(cpu as i32, comes) },
        );
    }
}

#[cfg(not(test))]
mod recorded {
    pub fn record(_: &'static str, _: super::TaskId) {}
}

#[cfg(test)]
pub(crate) mod recorded {
    use super::TaskId;
    use std::cell::RefCell;

    thread_local! {
        /// Callbacks since the recording began: name, and task, CPU or cgroup. None: not recording.
        pub static RECORDED: RefCell<Option<Vec<(&'static str, usize)>>> =
            const { RefCell::new(None) };
    }

    pub fn record(name: &'static str, of: TaskId) {
        RECORDED.with(|n| n.borrow_mut().iter_mut().for_each(|n| n.push((name, of))));
    }

    /// Called in place of hotplug callbacks that the scheduler lacks. The arguments are the CPU,
    /// and whether it goes online.
    pub type StandIn = fn(usize, bool);

    thread_local! {
        pub static STAND_IN: RefCell<Option<StandIn>> = const { RefCell::new(None) };
    }

    /// The callbacks that are called while `f` runs.
    pub fn calls(f: impl FnOnce()) -> Vec<(&'static str, usize)> {
        RECORDED.with(|n| *n.borrow_mut() = Some(Vec::new()));
        f();
        RECORDED.with(|n| n.borrow_mut().take()).unwrap_or_default()
    }
}
