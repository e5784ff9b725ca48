//! The scheduler's callbacks. Those that it lacks are passed over, as the kernel does; in tests each call is
//! noted, so that they can compare the order with the kernel's.

use crate::host;
use crate::state::State;
use crate::task::{Task, TaskId, TaskStruct};

use noted::note;

// SAFETY, of all calls below: the scheduler gets tasks of the simulation that it works for (State::enter), and
// their memory stays until that ends.
impl State {
    pub fn ops_init_task(&self, t: &Task, fork: bool) {
        note("init_task", Self::id(t.pointer()));
        let mut args = host::InitArgs { fork };
        let status = unsafe { host::aplomb_init_task(t.pointer(), &mut args) };
        assert_eq!(status, 0, "init_task failed");
    }

    pub fn ops_enable(&self, t: &Task) {
        note("enable", Self::id(t.pointer()));
        unsafe { host::aplomb_enable(t.pointer()) };
    }

    pub fn ops_exit_task(&self, t: &Task) {
        note("exit_task", Self::id(t.pointer()));
        let mut args = host::ExitArgs { cancelled: false };
        unsafe { host::aplomb_exit_task(t.pointer(), &mut args) };
    }

    pub fn ops_select_cpu(&self, t: &Task, previous: usize, flags: u64) -> Option<usize> {
        note("select_cpu", Self::id(t.pointer()));
        let cpu = unsafe { host::aplomb_select_cpu(t.pointer(), previous as i32, flags) };
        usize::try_from(cpu).ok()
    }

    pub fn ops_runnable(&self, t: &Task, flags: u64) {
        if self.has.runnable {
            note("runnable", Self::id(t.pointer()));
            unsafe { host::host_runnable(t.pointer(), flags) };
        }
    }

    pub fn ops_quiescent(&self, t: &Task, flags: u64) {
        if self.has.quiescent {
            note("quiescent", Self::id(t.pointer()));
            unsafe { host::host_quiescent(t.pointer(), flags) };
        }
    }

    pub fn ops_enqueue(&self, t: &Task, flags: u64) {
        note("enqueue", Self::id(t.pointer()));
        unsafe { host::aplomb_enqueue(t.pointer(), flags) };
    }

    pub fn ops_dispatch(&self, cpu: usize, prev: *mut TaskStruct) {
        note("dispatch", cpu);
        unsafe { host::aplomb_dispatch(cpu as i32, prev) };
    }

    pub fn ops_running(&self, t: &Task) {
        note("running", Self::id(t.pointer()));
        unsafe { host::aplomb_running(t.pointer()) };
    }

    pub fn ops_stopping(&self, t: &Task, runnable: bool) {
        note("stopping", Self::id(t.pointer()));
        unsafe { host::aplomb_stopping(t.pointer(), runnable) };
    }

    /// `sched_yield`: without a callback the kernel takes the slice away.
    pub fn ops_yield(&self, t: &Task) {
        if self.has.yields {
            note("yield", Self::id(t.pointer()));
            unsafe { host::host_yield(t.pointer()) };
        } else {
            t.kernel.scx.slice.set(0);
        }
    }

    pub fn ops_set_cpumask(&self, t: &Task) {
        note("set_cpumask", Self::id(t.pointer()));
        unsafe { host::aplomb_set_cpumask(t.pointer(), t.kernel.cpus_ptr.get()) };
    }

    pub fn ops_tick(&self, t: &Task) {
        if self.has.tick {
            note("tick", Self::id(t.pointer()));
            unsafe { host::host_tick(t.pointer()) };
        }
    }

    pub fn ops_set_weight(&self, t: &Task) {
        if self.has.set_weight {
            note("set_weight", Self::id(t.pointer()));
            unsafe { host::host_set_weight(t.pointer(), t.kernel.scx.weight.get()) };
        }
    }

    /// A CPU leaves (false) or comes.
    pub fn ops_cpu(&self, cpu: usize, comes: bool) {
        let has = if comes {
            self.has.cpu_online
        } else {
            self.has.cpu_offline
        };
        #[cfg(test)]
        if let (false, Some(stand_in)) = (has, noted::STAND_IN.with(|s| *s.borrow())) {
            note(if comes { "cpu_online" } else { "cpu_offline" }, cpu);
            return stand_in(cpu, comes);
        }
        assert!(
            has,
            "CPU {cpu} {}: the scheduler has no callback for it, so the kernel would end the scheduler",
            if comes { "comes" } else { "leaves" }
        );
        note(if comes { "cpu_online" } else { "cpu_offline" }, cpu);
        unsafe { host::host_cpu(cpu as i32, comes) };
    }
}

#[cfg(not(test))]
mod noted {
    pub fn note(_: &'static str, _: super::TaskId) {}
}

#[cfg(test)]
pub(crate) mod noted {
    use super::TaskId;
    use std::cell::RefCell;

    thread_local! {
        /// Callbacks since somebody began to note them: name, and task or CPU.
        pub static NOTED: RefCell<Option<Vec<(&'static str, usize)>>> = const { RefCell::new(None) };
    }

    pub fn note(name: &'static str, of: TaskId) {
        NOTED.with(|n| n.borrow_mut().iter_mut().for_each(|n| n.push((name, of))));
    }

    /// Instead of the scheduler's callbacks for CPUs, if it has none: (CPU, it comes).
    pub type StandIn = fn(usize, bool);

    thread_local! {
        pub static STAND_IN: RefCell<Option<StandIn>> = const { RefCell::new(None) };
    }

    /// What is called while `f` runs.
    pub fn calls(f: impl FnOnce()) -> Vec<(&'static str, usize)> {
        NOTED.with(|n| *n.borrow_mut() = Some(Vec::new()));
        f();
        NOTED.with(|n| n.borrow_mut().take()).unwrap_or_default()
    }
}
