//! A simulation: its settings, and the loop over its events.
//!
//! The kernel's part is in `run.rs` (picks, wake-ups), `steps.rs` (what tasks do), `hotplug.rs`,
//! `change.rs` and `cgroups/`. The callbacks are called in the order of Linux 6.16 to 7.3:
//!
//! ```text
//!   a task wakes up    select_cpu (if the task may run on several CPUs)
//!                      enqueue, unless select_cpu has inserted the task into a queue
//!   a CPU picks        dispatch, if the CPU has no task
//!                      stopping(prev, runnable), enqueue(prev), running(next)
//!   a task sleeps      stopping(prev, false), then the CPU picks
//! ```
//!
//! As in `balance_one`, `pick_task_scx`, `put_prev_task_scx`, `set_next_task_scx`,
//! `dequeue_task_scx` and `dispatch_enqueue` of kernel/sched/ext.c:
//! - A running task with slice left goes on without a callback.
//! - dispatch is called while the running task is in no queue. If the task then has a slice again,
//!   or there is no other task, it goes on.
//! - The slice is checked at ticks and when a CPU picks, at no other time.

use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::agenda::Event;
use crate::cgroups::{CgroupError, Existing};
use crate::cost::{Costs, Ledger, Spent};
use crate::host::{self, Reservation, ServerPolicy};
use crate::invariants::Invariants;
use crate::kfuncs::enter;
use crate::numbers::{self, Numbers};
use crate::state::{Power, State};
use crate::task::{CpuMask, Place, Program, TaskId};
use crate::Change;

/// How often the timers are made, before the simulator gives up.
const MAKES: u32 = 16;

/// The simulated machine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// CPUs, 1 to [`crate::MAX_CPUS`].
    pub cpus: usize,
    /// Threads of each core, at least 1: so many CPUs in a row. (The simulated CPU is not slower
    /// while the other threads run.)
    pub threads: usize,
    /// CPUs that share a cache, at least 1: so many in a row. None: all do.
    pub cache: Option<usize>,
    /// The CPUs that are slower than the others; None: all are alike.
    pub slow: Option<SlowCpus>,
    /// Time between ticks, ns.
    pub tick_ns: u64,
    /// Time from a kick to its arrival, ns.
    pub kick_ns: u64,
    /// How late BPF timers expire, ns.
    pub timer_late_ns: u64,
    /// Until then the kernel has no memory to start a timer in a callback, in which interrupts are
    /// off, ns; 0: it always has.
    pub timers_fail_until: u64,
    /// So often the kernel has no memory to make a timer.
    pub timers_unmade: u32,
    /// R_lo, a threshold of admission, ppm of a CPU.
    pub r_lo_ppm: u64,
    /// R_hi, see `r_lo_ppm`.
    pub r_hi_ppm: u64,
    /// R_max, see `r_lo_ppm`.
    pub r_max_ppm: u64,
    /// The server policy of reservations that do not name one.
    pub server: ServerPolicy,
    /// The kernel's flags and queue ids.
    pub numbers: Numbers,
    /// How long the scheduler's own work takes; None: no time.
    pub costs: Option<Costs>,
    /// Check the invariants after each event.
    pub checked: bool,
    /// Keep every context switch, for [`Simulation::trace`].
    pub traced: bool,
}

impl Default for Settings {
    /// One CPU, HZ=250 (Debian's), kicks that take 1 us.
    fn default() -> Self {
        Self {
            cpus: 1,
            threads: 1,
            cache: None,
            slow: None,
            tick_ns: 4_000_000,
            kick_ns: 1_000,
            timer_late_ns: 0,
            timers_fail_until: 0,
            timers_unmade: 0,
            r_lo_ppm: 600_000,
            r_hi_ppm: 800_000,
            r_max_ppm: 900_000,
            server: ServerPolicy::default(),
            numbers: Numbers::default(),
            costs: None,
            checked: false,
            traced: false,
        }
    }
}

/// CPUs of which each does less work in a time than the others of the machine do.
#[derive(Clone, Copy, Debug)]
pub struct SlowCpus {
    /// The first of them; all later ones are slow, too.
    pub from: usize,
    /// The work that they do in a time, in 1024ths of what the others do, 1 to 1024.
    pub capacity: u16,
    /// Is the scheduler told?
    pub known: bool,
}

/// A context switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Time, ns.
    pub at: u64,
    /// Number of the CPU.
    pub cpu: usize,
    /// The task that runs from then on; None: the CPU is idle.
    pub task: Option<TaskId>,
}

static PLAYING: Mutex<()> = Mutex::new(());

/// One machine with the scheduler on it.
pub struct Simulation {
    pub(crate) state: Box<State>,
    invariants: Invariants,
    trace: Vec<Switch>,
    processed: u64,
    _alone: MutexGuard<'static, ()>,
}

impl Simulation {
    /// A machine on which the scheduler has just been attached, at time 0. The scheduler's
    /// variables exist once in a process, so this waits until another simulation of the process has
    /// ended.
    pub fn new(settings: Settings) -> Self {
        match Self::attach(settings, &[]) {
            Ok(simulation) => simulation,
            Err(never) => unreachable!("{never}"),
        }
    }

    /// Like [`Simulation::new`], on a machine that already has cgroups beside the root.
    ///
    /// # Errors
    /// A cgroup is not valid; see [`CgroupError`].
    pub fn attach(settings: Settings, cgroups: &[Existing]) -> Result<Self, CgroupError> {
        assert!(
            (1..=crate::MAX_CPUS).contains(&settings.cpus),
            "1 to {} CPUs",
            crate::MAX_CPUS
        );
        let alone = PLAYING.lock().unwrap_or_else(PoisonError::into_inner);
        host::reset();
        numbers::set(settings.numbers);
        let state = Box::new(State::new(settings));
        state.existing_cgroups(cgroups)?;
        enter(&*state);
        host::settings(&state.settings);
        // SAFETY: kfuncs::enter() has set the state that the scheduler's kernel functions use
        let status = unsafe {
            // If some are missing, the scheduler's init has to find out.
            let _all = (0..MAKES).any(|_| host::make_timers(std::ptr::null_mut()) == 0);
            host::aplomb_init()
        };
        assert_eq!(status, 0, "the scheduler's init failed");
        state.attach_cgroups();
        Ok(Self {
            state,
            invariants: Invariants::default(),
            trace: Vec::new(),
            processed: 0,
            _alone: alone,
        })
    }

    /// Time since the start, ns.
    pub fn now(&self) -> u64 {
        self.state.now.get()
    }

    /// Events processed so far.
    pub fn events(&self) -> u64 {
        self.processed
    }

    /// How many decisions of this type the scheduler has reported (`enum event_type` of
    /// bpf/intf.h).
    pub fn reported(&self, kind: usize) -> u64 {
        self.state.reported.borrow()[kind]
    }

    /// How often the scheduler looked for an idle CPU.
    pub fn idle_searches(&self) -> u64 {
        self.state.idle_searches.get()
    }

    /// How often the scheduler took the lock of the domain tree, which all CPUs share.
    pub fn tree_locks(&self) -> u64 {
        self.state.tree_locks.get()
    }

    /// Every context switch (if `traced`).
    pub fn trace(&self) -> &[Switch] {
        &self.trace
    }

    /// R_load of a CPU, ppm.
    pub fn load_ppm(&self, cpu: usize) -> u64 {
        host::load_ppm(cpu)
    }

    /// CPU time of a task, ns.
    pub fn ran(&self, id: TaskId) -> u64 {
        let t = &self.state.tasks[id];
        if let Place::Running(cpu) = t.place.get() {
            self.state.count_run(cpu);
        }
        t.kernel.sum_exec_runtime.get()
    }

    /// Where the CPUs' time went that the scheduler took (if [`Settings::costs`]).
    pub fn spent(&self) -> Spent {
        let ledger = self.state.ledger.as_ref();
        ledger.map_or_else(Spent::default, Ledger::spent)
    }

    /// Where a task is.
    pub fn place(&self, id: TaskId) -> Place {
        self.state.tasks[id].place.get()
    }

    /// Number of tasks, those that have exited included.
    pub fn tasks(&self) -> usize {
        self.state.tasks.len()
    }

    /// Number of migrations of a task.
    pub fn migrations(&self, id: TaskId) -> u64 {
        self.state.tasks[id].migrations.get().into()
    }

    /// A task's server: its state (`enum server_state` of bpf/intf.h), and the CPU time that the
    /// task ran on the server's own budget, ns. None: the task has no server.
    pub fn server(&self, id: TaskId) -> Option<(u32, u64)> {
        host::server(self.state.tasks[id].pointer())
    }

    /// Clear the reservation of a task's process (`aplomb set --clear`).
    pub fn clear_reservation(&mut self, id: TaskId) {
        host::reserve(self.state.tasks[id].kernel.pid.get(), None);
    }

    /// Give a task's process a reservation (`aplomb set`), whatever the task does now.
    pub fn reserve(&mut self, id: TaskId, asked: Reservation) {
        host::reserve(self.state.tasks[id].kernel.pid.get(), Some(asked));
    }

    /// A task belongs to this user, and what it forks from now on. Without this it is root's.
    pub fn set_user(&mut self, id: TaskId, user: u32) {
        self.state.set_user(id, user);
    }

    /// Add a spec for the program with inode `ino`.
    pub fn spec(&mut self, ino: u64, asked: Reservation) {
        host::spec(ino, asked);
    }

    /// Start a best-effort task with nice 0 that may run on all CPUs. It wakes up now.
    pub fn start(&mut self, program: impl Program + 'static) -> TaskId {
        let all = CpuMask::first(self.state.settings.cpus);
        self.start_with(100, all, Box::new(program))
    }

    /// Like [`Simulation::start`], with a weight (nice 0: 100) and an affinity.
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

    /// Make a change from outside now. False: the kernel would refuse the change. Panics if a CPU
    /// goes online or offline and the scheduler has no callback for that, because the kernel would
    /// end the scheduler.
    pub fn change(&mut self, change: Change) -> bool {
        let done = self.state.change(&change);
        self.check();
        done
    }

    /// Does the scheduler have callbacks for CPU hotplug?
    pub fn knows_hotplug(&self) -> bool {
        self.state.has.cpu_offline && self.state.has.cpu_online
    }

    /// Like [`Simulation::change`], at the time `at`, ns. If `at` has passed, the change is made
    /// next.
    pub fn plan(&mut self, at: u64, change: Change) {
        self.state.plan_change(at.max(self.now()), change);
    }

    /// Process all events until `end`, ns.
    pub fn run_until(&mut self, end: u64) {
        loop {
            let next = self.state.agenda.borrow_mut().pop(end);
            let Some((at, what)) = next else { break };
            self.state.now.set(at);
            self.processed += 1;
            self.state.process(what);
            if self.state.leaving.get() > 0 {
                self.state.finish_offline();
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
    fn process(&self, what: Event) {
        match what {
            Event::Resched(cpu) => {
                self.cpus[cpu as usize].resched.set(false);
                self.pick(cpu as usize);
            }
            Event::Kick(cpu, preempt) => self.kicked(cpu as usize, preempt),
            Event::KickIdle(cpu) => {
                if self.cpus[cpu as usize].curr.get().is_none() {
                    self.kicked(cpu as usize, false);
                }
            }
            Event::Tick(cpu) => self.tick(cpu as usize),
            Event::Done(cpu, run) => {
                let cpu = cpu as usize;
                if self.cpus[cpu].run.get() == run {
                    self.count_run(cpu);
                    if !self.goes_on(cpu) {
                        self.advance_running(cpu);
                    }
                }
            }
            Event::Timer(timer, armed) => {
                let t = self.timers.borrow()[timer as usize];
                if t.armed == armed {
                    self.enter_cpu(self.or_online(t.cpu as usize));
                    self.in_timer.set(true);
                    // SAFETY: the scheduler started the timer, and its maps live until the process
                    // ends
                    unsafe { host::host_timer_fire(t.address) };
                    self.in_timer.set(false);
                }
            }
            Event::Wake(id, sleep) => {
                let t = &self.tasks[id as usize];
                if t.sleeps.get() == sleep && t.place.get() == Place::Asleep {
                    self.enter_cpu(self.or_online(t.kernel.cpu.get() as usize));
                    self.advance_asleep(id as usize, false);
                }
            }
            Event::Change(number) => {
                let change = self.changes.borrow_mut()[number as usize].take();
                change.iter().for_each(|change| {
                    self.change(change);
                });
            }
        }
    }

    /// Is the running task not done yet, since the scheduler's work took its time, or a slow CPU
    /// did some ns less than it seemed? Then it is, when that has passed.
    fn goes_on(&self, cpu: usize) -> bool {
        let c = &self.cpus[cpu];
        let left = c.curr.get().map_or(0, |id| self.tasks[id].left.get());
        if left > 0 {
            let at = self.now.get() + c.owes.get() + self.time_on(cpu, left);
            self.plan(at, Event::Done(cpu as u32, c.run.get()));
        }
        left > 0
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
