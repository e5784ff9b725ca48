//! What tasks do: the steps of their programs, sleeps, forks, exits and signals.

use crate::agenda::Event;
use crate::host::{self, Binprm, Program as ProgramFile};
use crate::state::State;
use crate::task::{Ends, Place, Step, Task, TaskId, PF_EXITING};

/// The task goes to sleep (`SCX_DEQ_SLEEP`).
const DEQ_SLEEP: u64 = 1;
/// Steps in a row that take no time. One more is an endless loop in the workload, and panics.
const STEPS_AT_ONCE: u32 = 10_000;

impl State {
    /// The next step of a sleeping task. A step other than a sleep wakes the task up; the task
    /// makes this step when it runs.
    pub fn advance_asleep(&self, id: TaskId, new: bool) {
        let t = &self.tasks[id];
        match self.ask(id) {
            Step::SleepUntil(at) if at > self.now.get() => {
                self.plan(at, Event::Wake(id as u32, t.sleeps.get()));
            }
            Step::Wait if t.pending_wakes.get() == 0 => t.until_woken.set(true),
            Step::Run(ns) => {
                t.left.set(ns);
                self.wake(id, new);
            }
            step => {
                t.left.set(0);
                t.pending.set(Some(step));
                self.wake(id, new);
            }
        }
    }

    /// Get the next step from a task's program.
    fn ask(&self, id: TaskId) -> Step {
        let t = &self.tasks[id];
        if let Some(step) = t.pending.take() {
            return step;
        }
        let mut program = t.program.take().expect("a task that has not exited");
        let step = program.next(self.now.get(), t.kernel.sum_exec_runtime.get());
        t.program.set(Some(program));
        step
    }

    /// The running task has completed a step. Make its next steps, up to one that takes time.
    pub fn advance_running(&self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr.get() else {
            return;
        };
        let t = &self.tasks[id];
        self.enter_cpu(cpu);
        for _ in 0..STEPS_AT_ONCE {
            match self.ask(id) {
                Step::Run(0) => {}
                Step::Run(ns) => {
                    t.left.set(ns);
                    let run = self.cpus[cpu].run.get();
                    let takes = self.time_on(cpu, ns);
                    self.plan(self.now.get() + takes, Event::Done(cpu as u32, run));
                    return;
                }
                Step::SleepUntil(at) if at <= self.now.get() => {}
                Step::SleepUntil(at) => return self.sleep(cpu, t, Some(at)),
                Step::Wait if t.pending_wakes.get() > 0 => {
                    t.pending_wakes.set(t.pending_wakes.get() - 1)
                }
                Step::Wait => return self.sleep(cpu, t, None),
                Step::Wake(other) => self.wake_other(other),
                Step::Yield => {
                    self.ops_yield(t);
                    if !self.pick_after(cpu, Some(id), true) {
                        return; // it makes its next step when it runs again
                    }
                }
                Step::Exec(ino) => {
                    let execs = &self.cpus[cpu].execs;
                    execs.set(execs.get().wrapping_add(1));
                    let id = &t.kernel.self_exec_id;
                    id.set(id.get() + 1);
                    let mut file = ProgramFile::new(ino);
                    let mut binprm = Binprm::new(&mut file);
                    // SAFETY: the task is the current one, and the file lives until the call
                    // returns
                    unsafe { host::host_exec(t.pointer(), &mut binprm) };
                }
                Step::Fork(which) => self.fork(t, which, false),
                Step::Thread(which) => self.fork(t, which, true),
                Step::BeginExit => Self::begin_exit(t),
                Step::Exit => return self.exit(cpu, t),
                Step::ExitGroup => {
                    self.kill_group(t.kernel.tgid.get(), Some(id));
                    return self.exit(cpu, t);
                }
            }
        }
        panic!(
            "{} ns: task {id} makes endless steps that take no time",
            self.now.get()
        );
    }

    fn fork(&self, parent: &Task, which: u64, thread: bool) {
        let mut program = parent.program.take();
        let child = program.as_mut().map(|p| p.child(which));
        parent.program.set(program);
        if let Some(child) = child {
            let weight = parent.kernel.scx.weight.get();
            let (cpu, current) = (self.cpu.get(), self.current.get());
            let (thread_of, cgroup) = (thread.then_some(parent), self.cgroup_of(parent));
            self.add(weight, parent.allowed(), child, thread_of, cgroup);
            self.cpu.set(cpu);
            self.current.set(current);
        }
    }

    /// Wake another task, as the writer of a pipe does. If the other task is not in [`Step::Wait`],
    /// its next [`Step::Wait`] does not wait.
    fn wake_other(&self, id: TaskId) {
        let Some(t) = self.tasks.get(id) else { return };
        if t.place.get() == Place::Asleep && t.until_woken.replace(false) {
            self.advance_asleep(id, false);
        } else {
            t.pending_wakes.set(t.pending_wakes.get() + 1);
        }
    }

    fn sleep(&self, cpu: usize, t: &Task, until: Option<u64>) {
        self.leave(t, Place::Asleep);
        t.sleeps.set(t.sleeps.get().wrapping_add(1));
        t.until_woken.set(until.is_none());
        if let Some(at) = until {
            let id = Self::id(t.pointer());
            self.plan(at, Event::Wake(id as u32, t.sleeps.get()));
        }
        self.pick_after(cpu, Some(Self::id(t.pointer())), false);
    }

    fn begin_exit(t: &Task) {
        if !t.is_exiting() {
            t.kernel.flags.set(t.kernel.flags.get() | PF_EXITING);
            // SAFETY: a live task, whose memory lives until the simulation ends
            unsafe { host::host_exit(t.pointer()) };
        }
    }

    fn exit(&self, cpu: usize, t: &Task) {
        Self::begin_exit(t);
        self.leave(t, Place::Exited);
        self.pick_after(cpu, Some(Self::id(t.pointer())), false);
        self.ops_exit_task(t);
        self.cgroup_of(t).left(); // after exit_task, as in finish_task_switch()
        t.program.set(None);
    }

    /// The running task is not runnable any more.
    fn leave(&self, t: &Task, place: Place) {
        self.ops_stopping(t, false);
        self.deactivate(t, DEQ_SLEEP);
        t.place.set(place);
    }

    /// SIGKILL. A sleeping task wakes up and exits, a waiting task exits when it runs, a running
    /// task exits now.
    pub fn kill(&self, id: TaskId) {
        let Some(t) = self.tasks.get(id) else { return };
        if t.place.get() == Place::Exited {
            return;
        }
        t.program.set(Some(Box::new(Ends)));
        t.pending.set(None);
        match t.place.get() {
            Place::Asleep => {
                t.sleeps.set(t.sleeps.get().wrapping_add(1)); // the planned wake-up is void
                t.until_woken.set(false);
                self.advance_asleep(id, false);
            }
            Place::Running(cpu) => {
                self.count_run(cpu);
                let run = self.cpus[cpu].run.get();
                self.plan(self.now.get(), Event::Done(cpu as u32, run));
            }
            _ => {}
        }
        t.left.set(0);
    }

    /// Kill all threads of a process except `except`.
    pub fn kill_group(&self, tgid: i32, except: Option<TaskId>) {
        for id in 0..self.tasks.len() {
            if self.tasks[id].kernel.tgid.get() == tgid && except != Some(id) {
                self.kill(id);
            }
        }
    }
}
