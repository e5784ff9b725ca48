//! The loop over a model's events: steps of programs, alarms, picks of CPUs.

use std::collections::HashMap;

use crate::machine::Machine;
use crate::model::core::{Core, Event, Policy, Seat};
use crate::task::{CpuMask, Program, Step, TaskId};
use crate::{Reservation, Settings, Switch, MAX_CPUS};

/// Steps in a row that take no time. One more is an endless loop in the workload, and panics.
const STEPS_AT_ONCE: u32 = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Asleep,
    /// Runnable, in the policy's queues.
    Waiting,
    Running,
    Exited,
}

/// The engine's part of a task.
struct TaskState {
    /// None after the task's exit.
    program: Option<Box<dyn Program>>,
    place: Place,
    /// The rest of its [`Step::Run`], ns.
    left: u64,
    /// The step that ended the task's sleep. The task makes this step when it runs.
    pending: Option<Step>,
    ran: u64,
    migrations: u64,
    /// Number of sleeps so far.
    sleeps: u64,
    admitted: bool,
}

/// A machine under a policy.
pub struct Model<P> {
    core: Core,
    policy: P,
    tasks: Vec<TaskState>,
    reservations: HashMap<u64, Reservation>,
    traced: bool,
    trace: Vec<Switch>,
    processed: u64,
}

impl<P: Policy> Model<P> {
    /// A machine under `policy`, at time 0. Of the settings, a model uses `cpus` and `traced`.
    ///
    /// # Panics
    /// With 0 CPUs or more than [`MAX_CPUS`].
    pub fn new(settings: Settings, policy: P) -> Self {
        assert!(
            (1..=MAX_CPUS).contains(&settings.cpus),
            "1 to {MAX_CPUS} CPUs"
        );
        Self {
            core: Core::new(settings.cpus),
            policy,
            tasks: Vec::new(),
            reservations: HashMap::new(),
            traced: settings.traced,
            trace: Vec::new(),
            processed: 0,
        }
    }

    /// Start a task with nice 0 that may run on all CPUs. It wakes up now.
    pub fn start(&mut self, program: impl Program + 'static) -> TaskId {
        let all = CpuMask::first(self.core.cpus.len());
        self.add(100, all, Box::new(program))
    }

    fn add(&mut self, weight: u32, allowed: CpuMask, program: Box<dyn Program>) -> TaskId {
        let id = self.tasks.len();
        self.tasks.push(TaskState {
            program: Some(program),
            place: Place::Asleep,
            left: 0,
            pending: None,
            ran: 0,
            migrations: 0,
            sleeps: 0,
            admitted: false,
        });
        self.core.tasks.push(Seat {
            allowed,
            weight,
            cpu: None,
        });
        self.policy.new_task(&mut self.core, id);
        self.advance_asleep(id);
        id
    }

    fn process(&mut self, what: Event) {
        match what {
            Event::Ends(cpu, run) => {
                if self.core.cpus[cpu].run != run {
                    return;
                }
                self.count(cpu);
                let Some(id) = self.core.cpus[cpu].curr else {
                    return;
                };
                if self.tasks[id].left == 0 {
                    self.advance_running(cpu, id);
                } else {
                    self.reschedule(cpu);
                }
            }
            Event::Alarm(what) => {
                if let Some(id) = self.policy.alarm(&mut self.core, what) {
                    self.seek(id);
                }
            }
            Event::Wake(id, sleep) => {
                let task = &self.tasks[id];
                if task.sleeps == sleep && task.place == Place::Asleep {
                    self.advance_asleep(id);
                }
            }
        }
    }

    /// Account the run time of the task on `cpu` up to now.
    fn count(&mut self, cpu: usize) {
        let c = &mut self.core.cpus[cpu];
        let ran = self.core.now - c.counted_to;
        c.counted_to = self.core.now;
        if let (Some(id), 1..) = (c.curr, ran) {
            let task = &mut self.tasks[id];
            task.ran += ran;
            task.left -= ran;
            self.policy.charge(&self.core, id, ran);
        }
    }

    fn ask(&mut self, id: TaskId) -> Step {
        let (now, task) = (self.core.now, &mut self.tasks[id]);
        let pending = task.pending.take();
        pending.unwrap_or_else(|| {
            let program = task.program.as_mut();
            program.map_or(Step::Exit, |p| p.next(now, task.ran))
        })
    }

    /// The next step of a sleeping task. A step other than a sleep wakes the task up.
    fn advance_asleep(&mut self, id: TaskId) {
        match self.ask(id) {
            Step::SleepUntil(at) if at > self.core.now => {
                self.core.plan(at, Event::Wake(id, self.tasks[id].sleeps));
            }
            Step::Wait => {}
            Step::Run(ns) => {
                self.tasks[id].left = ns;
                self.wake(id);
            }
            step => {
                self.tasks[id].pending = Some(step);
                self.wake(id);
            }
        }
    }

    fn wake(&mut self, id: TaskId) {
        self.tasks[id].place = Place::Waiting;
        self.policy.wake(&mut self.core, id);
        self.seek(id);
    }

    /// A task waits. Let a CPU pick again if the policy says so.
    fn seek(&mut self, id: TaskId) {
        if let Some(cpu) = self.policy.rival(&self.core, id) {
            self.reschedule(cpu);
        }
    }

    /// Put the running task of `cpu` back, and pick.
    fn reschedule(&mut self, cpu: usize) {
        self.count(cpu);
        let prev = self.core.cpus[cpu].curr.take();
        if let Some(id) = prev {
            self.tasks[id].place = Place::Waiting;
            self.policy.put(&mut self.core, id);
        }
        self.begin(cpu);
        if let Some(id) = prev.filter(|&id| self.tasks[id].place == Place::Waiting) {
            self.seek(id); // it lost this CPU, but may run on another
        }
    }

    /// Run the policy's next task on `cpu`, which runs none.
    fn begin(&mut self, cpu: usize) {
        let next = self.policy.pick(&mut self.core, cpu);
        let now = self.core.now;
        let c = &mut self.core.cpus[cpu];
        c.curr = next;
        c.counted_to = now;
        self.trace_switch(cpu, next);
        let Some(id) = next else {
            self.core.cpus[cpu].run += 1; // planned events of the last run are void
            return;
        };
        let task = &mut self.tasks[id];
        task.place = Place::Running;
        let last = self.core.tasks[id].cpu.replace(cpu);
        task.migrations += u64::from(last.is_some_and(|last| last != cpu));
        self.go_on(cpu, id);
    }

    /// Plan the end of the running task's step or time limit.
    fn go_on(&mut self, cpu: usize, id: TaskId) {
        let time = self.tasks[id].left.min(self.policy.limit(&self.core, id));
        let c = &mut self.core.cpus[cpu];
        c.run += 1;
        let what = Event::Ends(cpu, c.run);
        self.core.plan(self.core.now.saturating_add(time), what);
    }

    fn trace_switch(&mut self, cpu: usize, task: Option<TaskId>) {
        if !self.traced {
            return;
        }
        let at = self.core.now;
        if std::mem::replace(&mut self.core.cpus[cpu].traced, task) != task {
            self.trace.push(Switch { at, cpu, task });
        }
    }

    /// The running task has completed a step. Make its next steps, up to one that takes time.
    fn advance_running(&mut self, cpu: usize, id: TaskId) {
        let mut repick = false;
        for _ in 0..STEPS_AT_ONCE {
            match self.ask(id) {
                Step::Run(0) => {}
                Step::Run(ns) => {
                    self.tasks[id].left = ns;
                    if repick || self.policy.limit(&self.core, id) == 0 {
                        self.reschedule(cpu);
                    } else {
                        self.go_on(cpu, id);
                    }
                    return;
                }
                Step::SleepUntil(at) if at <= self.core.now => {}
                Step::SleepUntil(at) => return self.sleep(cpu, id, Some(at)),
                Step::Wait => return self.sleep(cpu, id, None),
                Step::Exec(ino) => {
                    let wanted = self.reservations.get(&ino).copied();
                    self.tasks[id].admitted = self.policy.exec(&mut self.core, id, wanted);
                    repick = true; // its order may have changed
                }
                Step::BeginExit => {}
                Step::Yield => {} // a task that goes before it would run already
                Step::Wake(other) => {
                    if self
                        .tasks
                        .get(other)
                        .is_some_and(|l| l.place == Place::Asleep)
                    {
                        self.advance_asleep(other);
                    }
                    if self.core.cpus[cpu].curr != Some(id) {
                        return; // the other task preempted it; it goes on when it runs again
                    }
                }
                // a model has no processes: a thread is a task, and exits alone
                Step::Fork(which) | Step::Thread(which) => {
                    let child = self.tasks[id].program.as_mut().map(|p| p.child(which));
                    if let Some(child) = child {
                        let seat = &self.core.tasks[id];
                        let (weight, allowed) = (seat.weight, seat.allowed);
                        self.add(weight, allowed, child);
                    }
                    if self.core.cpus[cpu].curr != Some(id) {
                        return; // the child preempted it; it goes on when it runs again
                    }
                }
                Step::Exit | Step::ExitGroup => {
                    self.tasks[id].place = Place::Exited;
                    self.tasks[id].program = None;
                    self.core.cpus[cpu].curr = None;
                    self.policy.exit(&mut self.core, id);
                    return self.reschedule(cpu);
                }
            }
        }
        panic!(
            "{} ns: task {id} makes endless steps that take no time",
            self.core.now
        );
    }

    fn sleep(&mut self, cpu: usize, id: TaskId, until: Option<u64>) {
        let task = &mut self.tasks[id];
        task.place = Place::Asleep;
        task.sleeps += 1;
        if let Some(at) = until {
            self.core.plan(at, Event::Wake(id, task.sleeps));
        }
        self.core.cpus[cpu].curr = None;
        self.policy.sleep(&mut self.core, id);
        self.reschedule(cpu);
    }
}

impl<P: Policy> Machine for Model<P> {
    fn reserve(&mut self, ino: u64, reservation: Reservation) {
        self.reservations.insert(ino, reservation);
    }

    fn start_with(&mut self, weight: u32, allowed: CpuMask, program: Box<dyn Program>) -> TaskId {
        self.add(weight, allowed, program)
    }

    fn run_until(&mut self, end: u64) {
        while let Some(what) = self.core.next(end) {
            self.processed += 1;
            self.process(what);
        }
        self.core.now = end;
        (0..self.core.cpus.len()).for_each(|cpu| self.count(cpu));
    }

    fn events(&self) -> u64 {
        self.processed
    }

    fn ran(&self, id: TaskId) -> u64 {
        self.tasks[id].ran
    }

    fn migrations(&self, id: TaskId) -> u64 {
        self.tasks[id].migrations
    }

    fn admitted(&self, id: TaskId) -> bool {
        self.tasks[id].admitted
    }

    fn trace(&self) -> &[Switch] {
        &self.trace
    }
}
