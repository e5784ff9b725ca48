//! What happens when, in a model: steps of programs, alarms, CPUs that choose again.

use std::collections::HashMap;

use crate::machine::Machine;
use crate::model::core::{Core, Happening, Policy, Seat};
use crate::task::{CpuMask, Program, Step, TaskId};
use crate::{Reservation, Settings, Switch, MAX_CPUS};

/// Steps without any time that a task may take in a row; one more is a mistake in the workload.
const STEPS_AT_ONCE: u32 = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Asleep,
    /// Runnable, with the policy.
    Waiting,
    Running,
    Gone,
}

/// The engine's part of a task.
struct Life {
    /// None while it is being asked, and after its end.
    program: Option<Box<dyn Program>>,
    place: Place,
    /// What is left of its [`Step::Run`], ns.
    left: u64,
    /// A step asked for in its sleep, taken when it runs.
    pending: Option<Step>,
    ran: u64,
    migrations: u64,
    /// Numbers its sleeps.
    naps: u64,
    admitted: bool,
}

/// A machine under a policy.
pub struct Model<P> {
    core: Core,
    policy: P,
    lives: Vec<Life>,
    reservations: HashMap<u64, Reservation>,
    traced: bool,
    trace: Vec<Switch>,
    happened: u64,
}

impl<P: Policy> Model<P> {
    /// Of the settings, a model needs the number of CPUs and whether to keep a trace.
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
            lives: Vec::new(),
            reservations: HashMap::new(),
            traced: settings.traced,
            trace: Vec::new(),
            happened: 0,
        }
    }

    /// A new task of nice 0's weight that may run on all CPUs: it wakes up now.
    pub fn start(&mut self, program: impl Program + 'static) -> TaskId {
        let all = CpuMask::first(self.core.cpus.len());
        self.add(100, all, Box::new(program))
    }

    fn add(&mut self, weight: u32, allowed: CpuMask, program: Box<dyn Program>) -> TaskId {
        let id = self.lives.len();
        self.lives.push(Life {
            program: Some(program),
            place: Place::Asleep,
            left: 0,
            pending: None,
            ran: 0,
            migrations: 0,
            naps: 0,
            admitted: false,
        });
        self.core.tasks.push(Seat {
            allowed,
            weight,
            cpu: None,
        });
        self.policy.born(&mut self.core, id);
        self.advance_asleep(id);
        id
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Ends(cpu, run) => {
                if self.core.cpus[cpu].run != run {
                    return;
                }
                self.count(cpu);
                let Some(id) = self.core.cpus[cpu].curr else {
                    return;
                };
                if self.lives[id].left == 0 {
                    self.advance_running(cpu, id);
                } else {
                    self.choose(cpu);
                }
            }
            Happening::Alarm(what) => {
                if let Some(id) = self.policy.alarm(&mut self.core, what) {
                    self.seek(id);
                }
            }
            Happening::Wake(id, nap) => {
                let life = &self.lives[id];
                if life.naps == nap && life.place == Place::Asleep {
                    self.advance_asleep(id);
                }
            }
        }
    }

    /// Count what the task on `cpu` has run up to now.
    fn count(&mut self, cpu: usize) {
        let c = &mut self.core.cpus[cpu];
        let ran = self.core.now - c.counted_to;
        c.counted_to = self.core.now;
        if let (Some(id), 1..) = (c.curr, ran) {
            let life = &mut self.lives[id];
            life.ran += ran;
            life.left -= ran;
            self.policy.charge(&self.core, id, ran);
        }
    }

    fn ask(&mut self, id: TaskId) -> Step {
        let (now, life) = (self.core.now, &mut self.lives[id]);
        let pending = life.pending.take();
        pending.unwrap_or_else(|| {
            let program = life.program.as_mut();
            program.map_or(Step::Exit, |p| p.next(now, life.ran))
        })
    }

    /// A sleeping task's next step: one that is not more sleep wakes it up.
    fn advance_asleep(&mut self, id: TaskId) {
        match self.ask(id) {
            Step::SleepUntil(at) if at > self.core.now => {
                self.core.plan(at, Happening::Wake(id, self.lives[id].naps));
            }
            Step::Wait => {}
            Step::Run(ns) => {
                self.lives[id].left = ns;
                self.wake(id);
            }
            step => {
                self.lives[id].pending = Some(step);
                self.wake(id);
            }
        }
    }

    fn wake(&mut self, id: TaskId) {
        self.lives[id].place = Place::Waiting;
        self.policy.wake(&mut self.core, id);
        self.seek(id);
    }

    /// A task waits: does a CPU have to choose again?
    fn seek(&mut self, id: TaskId) {
        if let Some(cpu) = self.policy.rival(&self.core, id) {
            self.choose(cpu);
        }
    }

    /// `cpu` chooses what it runs.
    fn choose(&mut self, cpu: usize) {
        self.count(cpu);
        let prev = self.core.cpus[cpu].curr.take();
        if let Some(id) = prev {
            self.lives[id].place = Place::Waiting;
            self.policy.put(&mut self.core, id);
        }
        self.begin(cpu);
        if let Some(id) = prev.filter(|&id| self.lives[id].place == Place::Waiting) {
            self.seek(id); // it lost this CPU; another may suit it
        }
    }

    /// The next task runs on `cpu`, which has none.
    fn begin(&mut self, cpu: usize) {
        let next = self.policy.pick(&mut self.core, cpu);
        let now = self.core.now;
        let c = &mut self.core.cpus[cpu];
        c.curr = next;
        c.counted_to = now;
        self.note(cpu, next);
        let Some(id) = next else {
            self.core.cpus[cpu].run += 1; // what was planned for the one before is void
            return;
        };
        let life = &mut self.lives[id];
        life.place = Place::Running;
        let last = self.core.tasks[id].cpu.replace(cpu);
        life.migrations += u64::from(last.is_some_and(|last| last != cpu));
        self.go_on(cpu, id);
    }

    /// Plan the end of what runs on `cpu`.
    fn go_on(&mut self, cpu: usize, id: TaskId) {
        let time = self.lives[id].left.min(self.policy.limit(&self.core, id));
        let c = &mut self.core.cpus[cpu];
        c.run += 1;
        let what = Happening::Ends(cpu, c.run);
        self.core.plan(self.core.now.saturating_add(time), what);
    }

    fn note(&mut self, cpu: usize, task: Option<TaskId>) {
        if !self.traced {
            return;
        }
        let at = self.core.now;
        if std::mem::replace(&mut self.core.cpus[cpu].noted, task) != task {
            self.trace.push(Switch { at, cpu, task });
        }
    }

    /// The running task has done its step: the next ones, up to one that takes time.
    fn advance_running(&mut self, cpu: usize, id: TaskId) {
        let mut anew = false;
        for _ in 0..STEPS_AT_ONCE {
            match self.ask(id) {
                Step::Run(0) => {}
                Step::Run(ns) => {
                    self.lives[id].left = ns;
                    if anew || self.policy.limit(&self.core, id) == 0 {
                        self.choose(cpu);
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
                    self.lives[id].admitted = self.policy.exec(&mut self.core, id, wanted);
                    anew = true; // it may be of another rank now
                }
                Step::Yield => {} // whoever is before it would run already
                Step::Wake(other) => {
                    if self
                        .lives
                        .get(other)
                        .is_some_and(|l| l.place == Place::Asleep)
                    {
                        self.advance_asleep(other);
                    }
                    if self.core.cpus[cpu].curr != Some(id) {
                        return; // it was preempted by it, and goes on when it runs again
                    }
                }
                // a model knows no processes: a thread is a task, and ends alone
                Step::Fork(which) | Step::Thread(which) => {
                    let child = self.lives[id].program.as_mut().map(|p| p.child(which));
                    if let Some(child) = child {
                        let seat = &self.core.tasks[id];
                        let (weight, allowed) = (seat.weight, seat.allowed);
                        self.add(weight, allowed, child);
                    }
                    if self.core.cpus[cpu].curr != Some(id) {
                        return; // the child preempted it; it goes on here when it runs again
                    }
                }
                Step::Exit | Step::ExitGroup => {
                    self.lives[id].place = Place::Gone;
                    self.lives[id].program = None;
                    self.core.cpus[cpu].curr = None;
                    self.policy.exit(&mut self.core, id);
                    return self.choose(cpu);
                }
            }
        }
        panic!("task {id} takes no time at {} ns", self.core.now);
    }

    fn sleep(&mut self, cpu: usize, id: TaskId, until: Option<u64>) {
        let life = &mut self.lives[id];
        life.place = Place::Asleep;
        life.naps += 1;
        if let Some(at) = until {
            self.core.plan(at, Happening::Wake(id, life.naps));
        }
        self.core.cpus[cpu].curr = None;
        self.policy.sleep(&mut self.core, id);
        self.choose(cpu);
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
            self.happened += 1;
            self.happen(what);
        }
        self.core.now = end;
        (0..self.core.cpus.len()).for_each(|cpu| self.count(cpu));
    }

    fn events(&self) -> u64 {
        self.happened
    }

    fn ran(&self, id: TaskId) -> u64 {
        self.lives[id].ran
    }

    fn migrations(&self, id: TaskId) -> u64 {
        self.lives[id].migrations
    }

    fn admitted(&self, id: TaskId) -> bool {
        self.lives[id].admitted
    }

    fn trace(&self) -> &[Switch] {
        &self.trace
    }
}
