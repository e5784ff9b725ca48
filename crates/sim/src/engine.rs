//! The kernel's part: which callback of the scheduler is called when, in the order of Linux 6.16 to 7.3.
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

use std::cmp::Reverse;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::host::{self, Binprm, Program as ProgramFile, Reservation, ServerPolicy};
use crate::kfuncs::enter;
use crate::state::{Happening, Sent, State, LOCAL};
use crate::task::{CpuMask, Place, Program, Step, Task, TaskId, TaskStruct, QUEUED};

/// Wake-up (`SCX_ENQ_WAKEUP`), and select_cpu was asked (`SCX_ENQ_CPU_SELECTED`).
const ENQ_WAKEUP: u64 = 1;
const ENQ_CPU_SELECTED: u64 = 1 << 10;
/// Nobody else is there, and dispatch gave it no slice (`SCX_ENQ_LAST`; the scheduler has set `SCX_OPS_ENQ_LAST`).
const ENQ_LAST: u64 = 1 << 41;
/// `SCX_WAKE_TTWU`
const WAKE_TTWU: u64 = 8;
/// What a task gets that goes on because there is nothing else (`SCX_SLICE_DFL`), ns.
const SLICE_DEFAULT: u64 = 20_000_000;
/// Times that dispatch is called in a row while it does something (`SCX_DSP_MAX_LOOPS`).
const DISPATCH_LOOPS: u32 = 32;
/// Steps without any time that a task may take in a row; one more is a mistake in the workload.
const STEPS_AT_ONCE: u32 = 10_000;

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
    state: Box<State>,
    settings: Settings,
    trace: Vec<Switch>,
    happened: u64,
    _alone: MutexGuard<'static, ()>,
}

impl Simulation {
    /// A machine on which the scheduler has just been attached, at time 0. Waits for another simulation of
    /// this process to end: the scheduler's variables are there once.
    pub fn new(settings: Settings) -> Self {
        assert!(
            (1..=crate::MAX_CPUS).contains(&settings.cpus),
            "1 to {} CPUs",
            crate::MAX_CPUS
        );
        let alone = PLAYING.lock().unwrap_or_else(PoisonError::into_inner);
        host::reset();
        let state = Box::new(State::new(
            settings.cpus,
            settings.kick_ns,
            settings.timer_late_ns,
        ));
        enter(&*state);
        host::settings(
            settings.r_lo_ppm,
            settings.r_hi_ppm,
            settings.r_max_ppm,
            settings.server,
        );
        // SAFETY: the state above is what it works on
        let status = unsafe { host::aplomb_init() };
        assert_eq!(status, 0, "the scheduler's init failed");
        Self {
            state,
            settings,
            trace: Vec::new(),
            happened: 0,
            _alone: alone,
        }
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
        let place = self.state.tasks.borrow()[id].place;
        if let Place::Running(cpu) = place {
            self.state.count_run(cpu);
        }
        self.state.tasks.borrow()[id].kernel.sum_exec_runtime
    }

    /// How often a task changed its CPU.
    pub fn migrations(&self, id: TaskId) -> u64 {
        self.state.tasks.borrow()[id].migrations
    }

    /// What the scheduler says about a task's server: (state, ns served by right).
    pub fn server(&self, id: TaskId) -> Option<(u32, u64)> {
        host::server(self.state.pointer(id))
    }

    /// A specification for the program with inode `ino`.
    pub fn spec(&mut self, ino: u64, asked: Reservation) {
        host::spec(ino, asked);
    }

    /// A new best-effort task that may run on all CPUs, of nice 0's weight: it wakes up now.
    pub fn start(&mut self, program: impl Program + 'static) -> TaskId {
        self.start_with(100, CpuMask::first(self.settings.cpus), Box::new(program))
    }

    /// The same with weight (nice 0: 100) and affinity.
    pub fn start_with(
        &mut self,
        weight: u32,
        allowed: CpuMask,
        program: Box<dyn Program>,
    ) -> TaskId {
        self.state.current.set(ptr::null_mut());
        self.add(weight, allowed, program)
    }

    fn add(&mut self, weight: u32, allowed: CpuMask, program: Box<dyn Program>) -> TaskId {
        let id = self.state.tasks.borrow().len();
        let task = Task::new(id, weight, allowed, program);
        self.state.tasks.borrow_mut().push(task);
        self.born(id);
        id
    }

    fn born(&self, id: TaskId) {
        let p = self.state.pointer(id);
        let parent = self.state.current.get();
        // SAFETY: both live; the scheduler's callbacks in the kernel's order
        unsafe {
            (*p).real_parent = parent;
            let mut args = host::InitArgs {
                fork: !parent.is_null(),
            };
            let status = host::aplomb_init_task(p, &mut args);
            assert_eq!(status, 0, "init_task failed");
            host::aplomb_enable(p);
        }
        self.state.tasks.borrow_mut()[id].naps += 1;
        self.advance_asleep(id);
    }

    /// Play until `end`, ns.
    pub fn run_until(&mut self, end: u64) {
        loop {
            let next = self
                .state
                .agenda
                .borrow()
                .peek()
                .map(|Reverse((at, ..))| *at);
            if next.is_none_or(|at| at > end) {
                break;
            }
            let Some(Reverse((at, _, what))) = self.state.agenda.borrow_mut().pop() else {
                break;
            };
            self.state.now.set(at);
            self.happened += 1;
            self.happen(what);
            if self.settings.checked {
                crate::invariants::check(&self.state);
            }
        }
        self.state.now.set(end);
        for cpu in 0..self.settings.cpus {
            self.state.count_run(cpu);
        }
    }

    fn happen(&mut self, what: Happening) {
        let s = &self.state;
        match what {
            Happening::Resched(cpu) => {
                s.cpus.borrow_mut()[cpu].resched = false;
                self.choose(cpu);
            }
            Happening::Kick(cpu, preempt) => {
                s.count_run(cpu);
                let curr = s.cpus.borrow()[cpu].curr;
                if let (Some(id), true) = (curr, preempt) {
                    s.tasks.borrow_mut()[id].kernel.scx.slice = 0;
                }
                s.resched(cpu);
            }
            Happening::Tick(cpu) => {
                let curr = s.cpus.borrow()[cpu].curr;
                s.cpus.borrow_mut()[cpu].ticks = curr.is_some();
                let Some(id) = curr else { return };
                s.count_run(cpu);
                self.plan_tick(cpu);
                if s.tasks.borrow()[id].kernel.scx.slice == 0 {
                    s.resched(cpu);
                }
            }
            Happening::Done(cpu, run) => {
                if s.cpus.borrow()[cpu].run == run {
                    s.count_run(cpu);
                    self.advance_running(cpu);
                }
            }
            Happening::Timer(timer, armed) => {
                let now = s.timers.borrow().get(&timer).copied();
                if let Some((_, cpu)) = now.filter(|a| a.0 == armed) {
                    self.on(cpu);
                    // SAFETY: the scheduler armed it, and its maps live as long as we do
                    unsafe { host::host_timer_fire(timer) };
                }
            }
            Happening::Wake(id, nap) => {
                let asleep = {
                    let t = &s.tasks.borrow()[id];
                    t.naps == nap && t.place == Place::Asleep
                };
                if asleep {
                    let cpu = s.tasks.borrow()[id].kernel.cpu as usize;
                    self.on(cpu);
                    self.advance_asleep(id);
                }
            }
        }
    }

    /// What follows runs on `cpu`, in the name of what runs there.
    fn on(&self, cpu: usize) {
        let curr = self.state.cpus.borrow()[cpu].curr;
        self.state.cpu.set(cpu);
        self.state
            .current
            .set(curr.map_or(ptr::null_mut(), |id| self.state.pointer(id)));
    }

    /// A sleeping task's next step: with CPU time to use it wakes up.
    fn advance_asleep(&self, id: TaskId) {
        match self.ask(id) {
            Step::SleepUntil(at) if at > self.now() => {
                let nap = self.state.tasks.borrow()[id].naps;
                self.state.plan(at, Happening::Wake(id, nap));
            }
            Step::Wait => {}
            step => {
                // the first steps of a task are taken by it, when it runs
                self.state.tasks.borrow_mut()[id].left =
                    if let Step::Run(ns) = step { ns } else { 0 };
                if !matches!(step, Step::Run(_)) {
                    self.unasked(id, step);
                }
                self.wake(id);
            }
        }
    }

    /// The next step of a task.
    fn ask(&self, id: TaskId) -> Step {
        let taken = {
            let t = &mut self.state.tasks.borrow_mut()[id];
            t.pending.take().map_or_else(|| Err(t.program.take()), Ok)
        };
        match taken {
            Ok(step) => step,
            Err(program) => {
                let mut program = program.expect("a task asks itself for its next step");
                let ran = self.state.tasks.borrow()[id].kernel.sum_exec_runtime;
                let step = program.next(self.now(), ran);
                self.state.tasks.borrow_mut()[id].program = Some(program);
                step
            }
        }
    }

    /// A step that is to be taken later.
    fn unasked(&self, id: TaskId, step: Step) {
        self.state.tasks.borrow_mut()[id].pending = Some(step);
    }

    /// A task becomes runnable.
    pub(crate) fn wake(&self, id: TaskId) {
        let s = &self.state;
        let p = s.pointer(id);
        let (previous, several) = {
            let mut tasks = s.tasks.borrow_mut();
            let t = &mut tasks[id];
            t.kernel.scx.flags |= QUEUED;
            (t.kernel.cpu as usize, t.kernel.nr_cpus_allowed > 1)
        };
        let mut cpu = previous;
        let mut flags = ENQ_WAKEUP;
        s.sent.set(None);
        if several {
            // SAFETY: a live task
            let chosen = unsafe { host::aplomb_select_cpu(p, previous as i32, WAKE_TTWU) };
            let allowed = s.tasks.borrow()[id].allowed;
            cpu = usize::try_from(chosen)
                .ok()
                .filter(|&c| allowed.has(c))
                .unwrap_or(previous);
            flags |= ENQ_CPU_SELECTED;
        }
        {
            let mut tasks = s.tasks.borrow_mut();
            let t = &mut tasks[id];
            t.migrations += u64::from(t.kernel.cpu != cpu as u32);
            t.kernel.cpu = cpu as u32;
        }
        self.enqueue(id, cpu, flags);
        if s.cpus.borrow()[cpu].curr.is_none() {
            s.resched(cpu); // a runnable task is above the idle one
        }
    }

    /// enqueue(), unless select_cpu() has sent the task already; then to where it was sent.
    fn enqueue(&self, id: TaskId, cpu: usize, flags: u64) {
        let s = &self.state;
        if s.sent.get().is_none() {
            // SAFETY: a live task
            unsafe { host::aplomb_enqueue(s.pointer(id), flags) };
        }
        let sent = s
            .sent
            .take()
            .unwrap_or_else(|| panic!("enqueue lost task {id} at {} ns", self.now()));
        s.deliver(id, cpu, Sent { ..sent });
        debug_assert!(sent.queue != LOCAL || s.tasks.borrow()[id].allowed.has(cpu));
    }

    /// The CPU chooses what runs next.
    fn choose(&mut self, cpu: usize) {
        self.on(cpu);
        self.state.count_run(cpu);
        let prev = self.state.cpus.borrow()[cpu].curr;
        self.choose_after(cpu, prev, prev.is_some());
    }

    /// `prev` ran; it is `runnable` or sleeps now (its stopping() was called then).
    fn choose_after(&mut self, cpu: usize, prev: Option<TaskId>, runnable: bool) {
        let s = &self.state;
        let slice_left =
            || prev.is_some_and(|id| runnable && s.tasks.borrow()[id].kernel.scx.slice > 0);
        let has_local = || !s.cpus.borrow()[cpu].local.is_empty();
        let mut keep = slice_left();
        if !keep && !has_local() {
            let pointer = prev.map_or(ptr::null_mut(), |id| s.pointer(id));
            for _ in 0..DISPATCH_LOOPS {
                s.moved.set(0);
                // SAFETY: a live task, or none
                unsafe { host::aplomb_dispatch(cpu as i32, pointer) };
                keep = slice_left();
                if keep || has_local() || s.moved.get() == 0 {
                    break;
                }
            }
        }
        if let (true, Some(id)) = (keep, prev) {
            let scx = &mut s.tasks.borrow_mut()[id].kernel.scx;
            if scx.slice == 0 {
                scx.slice = SLICE_DEFAULT;
            }
            return;
        }
        let next = s.cpus.borrow_mut()[cpu].local.pop_front();
        if let (Some(id), true) = (prev, runnable) {
            // SAFETY: a live task
            unsafe { host::aplomb_stopping(s.pointer(id), true) };
            s.sent.set(None);
            self.enqueue(id, cpu, if next.is_none() { ENQ_LAST } else { 0 });
        }
        self.begin(cpu, next);
    }

    /// `next`, or nothing, runs on `cpu` from now on.
    fn begin(&mut self, cpu: usize, next: Option<TaskId>) {
        let s = &self.state;
        let now = s.now.get();
        let run = {
            let mut cpus = s.cpus.borrow_mut();
            let c = &mut cpus[cpu];
            c.curr = next;
            c.run += 1;
            c.counted_to = now;
            match next {
                None if c.idle_since.is_none() => c.idle_since = Some(now),
                Some(_) => c.idle_ns += c.idle_since.take().map_or(0, |since| now - since),
                None => {}
            }
            c.run
        };
        s.idle.borrow_mut().set(cpu, next.is_none());
        if self.settings.traced
            && self
                .trace
                .last()
                .is_none_or(|l| (l.cpu, l.task) != (cpu, next))
        {
            self.trace.push(Switch {
                at: now,
                cpu,
                task: next,
            });
        }
        let Some(id) = next else { return };
        let left = {
            let t = &mut s.tasks.borrow_mut()[id];
            t.place = Place::Running(cpu);
            t.left
        };
        self.on(cpu);
        // SAFETY: a live task
        unsafe { host::aplomb_running(s.pointer(id)) };
        s.plan(now + left, Happening::Done(cpu, run));
        if !std::mem::replace(&mut s.cpus.borrow_mut()[cpu].ticks, true) {
            self.plan_tick(cpu);
        }
    }

    /// Ticks are at multiples of their length, for all CPUs.
    fn plan_tick(&self, cpu: usize) {
        let length = self.settings.tick_ns;
        self.state
            .plan((self.now() / length + 1) * length, Happening::Tick(cpu));
    }

    /// The running task has done its step: the next ones, up to one that takes time.
    fn advance_running(&mut self, cpu: usize) {
        let Some(id) = self.state.cpus.borrow()[cpu].curr else {
            return;
        };
        self.on(cpu);
        for _ in 0..STEPS_AT_ONCE {
            match self.ask(id) {
                Step::Run(0) => {}
                Step::Run(ns) => {
                    self.state.tasks.borrow_mut()[id].left = ns;
                    let run = self.state.cpus.borrow()[cpu].run;
                    self.state.plan(self.now() + ns, Happening::Done(cpu, run));
                    return;
                }
                Step::SleepUntil(at) if at <= self.now() => {}
                Step::SleepUntil(at) => return self.sleep(cpu, id, Some(at)),
                Step::Wait => return self.sleep(cpu, id, None),
                Step::Exec(ino) => {
                    let mut file = ProgramFile::new(ino);
                    let mut binprm = Binprm::new(&mut file);
                    // SAFETY: the task is the current one, the file lives for the call
                    unsafe { host::host_exec(self.state.pointer(id), &mut binprm) };
                }
                Step::Fork(which) => self.fork(id, which),
                Step::Exit => return self.exit(cpu, id),
            }
        }
        panic!("task {id} takes no time at {} ns", self.now());
    }

    fn fork(&mut self, parent: TaskId, which: u64) {
        let (mut program, weight, allowed) = {
            let mut tasks = self.state.tasks.borrow_mut();
            let t = &mut tasks[parent];
            (t.program.take(), t.kernel.scx.weight, t.allowed)
        };
        let child = program.as_mut().map(|p| p.child(which));
        self.state.tasks.borrow_mut()[parent].program = program;
        if let Some(child) = child {
            self.add(weight, allowed, child);
        }
    }

    fn sleep(&mut self, cpu: usize, id: TaskId, until: Option<u64>) {
        self.leave(cpu, id, Place::Asleep);
        let nap = {
            let t = &mut self.state.tasks.borrow_mut()[id];
            t.naps += 1;
            t.naps
        };
        if let Some(at) = until {
            self.state.plan(at, Happening::Wake(id, nap));
        }
        self.choose_after(cpu, Some(id), false);
    }

    fn exit(&mut self, cpu: usize, id: TaskId) {
        let p: *mut TaskStruct = self.state.pointer(id);
        // SAFETY: a live task; its memory stays until the simulation ends
        unsafe { host::host_exit(p) };
        self.leave(cpu, id, Place::Gone);
        self.choose_after(cpu, Some(id), false);
        // SAFETY: as above
        unsafe { host::aplomb_exit_task(p, &mut host::ExitArgs { cancelled: false }) };
        self.state.tasks.borrow_mut()[id].program = None;
    }

    /// The running task is runnable no more.
    fn leave(&self, cpu: usize, id: TaskId, place: Place) {
        // SAFETY: a live task
        unsafe { host::aplomb_stopping(self.state.pointer(id), false) };
        let t = &mut self.state.tasks.borrow_mut()[id];
        t.kernel.scx.flags &= !QUEUED;
        t.place = place;
        debug_assert_eq!(self.state.cpus.borrow()[cpu].curr, Some(id));
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        enter(ptr::null());
    }
}
