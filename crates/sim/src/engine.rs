//! A simulation: what is played, and the loop over what happens.
//!
//! The kernel's part is in `run.rs` (choices, wake-ups, steps), `hotplug.rs`, `change.rs` and `cgroups/`, in the
//! order of Linux 6.16 to 7.3:
//!
//! ```text
//!   a task wakes      select_cpu (if it may run on several) -> enqueue, unless select_cpu sent it
//!   a CPU chooses     [dispatch, if it has nothing] -> stopping(prev, runnable), enqueue(prev) -> running(next)
//!   a task sleeps     stopping(prev, false) -> the CPU chooses
//! ```
//!
//! After `balance_one`, `pick_task_scx`, `put_prev_task_scx`, `set_next_task_scx`, `dequeue_task_scx` and
//! `dispatch_enqueue` of kernel/sched/ext.c: a running task whose slice is left goes on without a word;
//! dispatch is called while the task that runs is in no queue; if it then has a slice again, or there is
//! nothing else, it goes on; and slices are looked at by ticks and when a CPU chooses, at no other time.

use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::agenda::Happening;
use crate::cgroups::{CgroupError, Existing};
use crate::host::{self, Reservation, ServerPolicy};
use crate::invariants::Invariants;
use crate::kfuncs::enter;
use crate::state::{Power, State};
use crate::task::{CpuMask, Place, Program, TaskId};
use crate::Change;

/// What is played.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// CPUs, 1 to [`crate::MAX_CPUS`].
    pub cpus: usize,
    /// Between ticks, ns.
    pub tick_ns: u64,
    /// From a kick to its arrival, ns.
    pub kick_ns: u64,
    /// By how much BPF timers are late, ns.
    pub timer_late_ns: u64,
    /// Thresholds of admission, ppm of a CPU.
    pub r_lo_ppm: u64,
    /// See `r_lo_ppm`.
    pub r_hi_ppm: u64,
    /// See `r_lo_ppm`.
    pub r_max_ppm: u64,
    /// What becomes of tasks that have used up their budgets, unless their reservations say otherwise.
    pub server: ServerPolicy,
    /// Check the invariants after each event.
    pub checked: bool,
    /// Keep every change of what runs, for [`Simulation::trace`].
    pub traced: bool,
}

impl Default for Settings {
    /// One CPU, HZ=250 as Debian has it, kicks of 1 us.
    fn default() -> Self {
        Self {
            cpus: 1,
            tick_ns: 4_000_000,
            kick_ns: 1_000,
            timer_late_ns: 0,
            r_lo_ppm: 600_000,
            r_hi_ppm: 800_000,
            r_max_ppm: 900_000,
            server: ServerPolicy::default(),
            checked: false,
            traced: false,
        }
    }
}

/// From `at` on `task` runs on `cpu`; None: it is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// ns
    pub at: u64,
    /// Number of the CPU.
    pub cpu: usize,
    /// What runs.
    pub task: Option<TaskId>,
}

static PLAYING: Mutex<()> = Mutex::new(());

/// One machine with the scheduler on it.
pub struct Simulation {
    pub(crate) state: Box<State>,
    invariants: Invariants,
    trace: Vec<Switch>,
    happened: u64,
    _alone: MutexGuard<'static, ()>,
}

impl Simulation {
    /// A machine on which the scheduler has just been attached, at time 0. Waits for another simulation of
    /// this process to end: the scheduler's variables are there once.
    pub fn new(settings: Settings) -> Self {
        match Self::attach(settings, &[]) {
            Ok(simulation) => simulation,
            Err(never) => unreachable!("{never}"),
        }
    }

    /// The same, on a machine that has cgroups beside the root already.
    ///
    /// # Errors
    /// One of them is not possible; see [`CgroupError`].
    pub fn attach(settings: Settings, cgroups: &[Existing]) -> Result<Self, CgroupError> {
        assert!(
            (1..=crate::MAX_CPUS).contains(&settings.cpus),
            "1 to {} CPUs",
            crate::MAX_CPUS
        );
        let alone = PLAYING.lock().unwrap_or_else(PoisonError::into_inner);
        host::reset();
        let state = Box::new(State::new(settings));
        state.existing_cgroups(cgroups)?;
        enter(&*state);
        host::settings(&state.settings);
        // SAFETY: the state above is what it works on
        let status = unsafe { host::aplomb_init() };
        assert_eq!(status, 0, "the scheduler's init failed");
        state.attach_cgroups();
        Ok(Self {
            state,
            invariants: Invariants::default(),
            trace: Vec::new(),
            happened: 0,
            _alone: alone,
        })
    }

    /// ns since the start.
    pub fn now(&self) -> u64 {
        self.state.now.get()
    }

    /// Events processed so far.
    pub fn events(&self) -> u64 {
        self.happened
    }

    /// How often the scheduler told a decision of this type (`enum event_type` of bpf/intf.h).
    pub fn told(&self, kind: usize) -> u64 {
        self.state.events.borrow()[kind]
    }

    /// Every change of what runs (if `traced`).
    pub fn trace(&self) -> &[Switch] {
        &self.trace
    }

    /// R_load of a CPU, ppm.
    pub fn load_ppm(&self, cpu: usize) -> u64 {
        host::load_ppm(cpu)
    }

    /// CPU time that a task has had, ns.
    pub fn ran(&self, id: TaskId) -> u64 {
        let t = &self.state.tasks[id];
        if let Place::Running(cpu) = t.place.get() {
            self.state.count_run(cpu);
        }
        t.kernel.sum_exec_runtime.get()
    }

    /// Where a task is.
    pub fn place(&self, id: TaskId) -> Place {
        self.state.tasks[id].place.get()
    }

    /// How many tasks there are, those that have exited included.
    pub fn tasks(&self) -> usize {
        self.state.tasks.len()
    }

    /// How often a task changed its CPU.
    pub fn migrations(&self, id: TaskId) -> u64 {
        self.state.tasks[id].migrations.get()
    }

    /// What the scheduler says about a task's server: (state, ns served by right).
    pub fn server(&self, id: TaskId) -> Option<(u32, u64)> {
        host::server(self.state.tasks[id].pointer())
    }

    /// Take the reservation of a task's program away (`aplomb set --clear`).
    pub fn take_away(&mut self, id: TaskId) {
        host::take_away(self.state.tasks[id].kernel.pid.get());
    }

    /// A specification for the program with inode `ino`.
    pub fn spec(&mut self, ino: u64, asked: Reservation) {
        host::spec(ino, asked);
    }

    /// A new best-effort task that may run on all CPUs, of nice 0's weight: it wakes up now.
    pub fn start(&mut self, program: impl Program + 'static) -> TaskId {
        let all = CpuMask::first(self.state.settings.cpus);
        self.start_with(100, all, Box::new(program))
    }

    /// The same with weight (nice 0: 100) and affinity.
    pub fn start_with(
        &mut self,
        weight: u32,
        allowed: CpuMask,
        program: Box<dyn Program>,
    ) -> TaskId {
        self.state.current.set(ptr::null_mut());
        let root = self.state.cgroups.root();
        self.state.add(weight, &allowed, program, None, root)
    }

    /// Something is changed from outside, now. False: the kernel would refuse it. Panics if a CPU comes or
    /// leaves and the scheduler has no callback for it, since the kernel would end the scheduler.
    pub fn change(&mut self, change: Change) -> bool {
        let done = self.state.change(&change);
        self.check();
        done
    }

    /// Does the scheduler have callbacks for CPUs that come and leave?
    pub fn knows_hotplug(&self) -> bool {
        self.state.has.cpu_offline && self.state.has.cpu_online
    }

    /// The same, at `at` ns.
    pub fn plan(&mut self, at: u64, change: Change) {
        self.state.plan_change(at.max(self.now()), change);
    }

    /// Play until `end`, ns.
    pub fn run_until(&mut self, end: u64) {
        loop {
            let next = self.state.agenda.borrow_mut().pop(end);
            let Some((at, what)) = next else { break };
            self.state.now.set(at);
            self.happened += 1;
            self.state.happen(what);
            if self.state.leaving.get() > 0 {
                self.state.see_off();
            }
            self.check();
        }
        self.state.now.set(end);
        self.trace.append(&mut self.state.trace.borrow_mut());
        for cpu in 0..self.state.settings.cpus {
            self.state.count_run(cpu);
        }
    }

    pub(crate) fn check(&mut self) {
        if self.state.settings.checked {
            self.invariants.check(&self.state);
        }
    }
}

impl State {
    fn happen(&self, what: Happening) {
        match what {
            Happening::Resched(cpu) => {
                self.cpus[cpu as usize].resched.set(false);
                self.choose(cpu as usize);
            }
            Happening::Kick(cpu, preempt) => self.kicked(cpu as usize, preempt),
            Happening::KickIdle(cpu) => {
                if self.cpus[cpu as usize].curr.get().is_none() {
                    self.kicked(cpu as usize, false);
                }
            }
            Happening::Tick(cpu) => self.tick(cpu as usize),
            Happening::Done(cpu, run) => {
                let cpu = cpu as usize;
                if self.cpus[cpu].run.get() == run {
                    self.count_run(cpu);
                    self.advance_running(cpu);
                }
            }
            Happening::Timer(timer, armed) => {
                let t = self.timers.borrow()[timer as usize];
                if t.armed == armed {
                    self.on(self.or_another(t.cpu as usize));
                    // SAFETY: the scheduler armed it, and its maps live as long as we do
                    unsafe { host::host_timer_fire(t.address) };
                }
            }
            Happening::Wake(id, nap) => {
                let t = &self.tasks[id as usize];
                if t.naps.get() == nap && t.place.get() == Place::Asleep {
                    self.on(self.or_another(t.kernel.cpu.get() as usize));
                    self.advance_asleep(id as usize, false);
                }
            }
            Happening::Change(number) => {
                let change = self.changes.borrow_mut()[number as usize].take();
                change.iter().for_each(|change| {
                    self.change(change);
                });
            }
        }
    }

    fn kicked(&self, cpu: usize, preempt: bool) {
        if self.cpus[cpu].power.get() == Power::Off {
            return;
        }
        self.count_run(cpu);
        if let (Some(id), true) = (self.cpus[cpu].curr.get(), preempt) {
            self.tasks[id].kernel.scx.slice.set(0);
        }
        self.resched(cpu);
    }

    fn tick(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        c.ticks.set(c.curr.get().is_some());
        let Some(id) = c.curr.get() else { return };
        self.count_run(cpu);
        self.plan_tick(cpu);
        self.ops_tick(&self.tasks[id]);
        if self.tasks[id].kernel.scx.slice.get() == 0 {
            self.resched(cpu);
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        enter(ptr::null());
    }
}
