//! A virtual CPU for the theorems: servers, tasks that work and sleep, exact time.
//!
//! It calls the header where `bpf/reserved.bpf.h` does. A wake-up is wake, assign. A stop is sleep (if
//! the task sleeps), charge, assign; and assign once more when it is queued again. The eligible task
//! with the earliest deadline runs; a budget ends it (`timer_late` ns after that). Without an eligible
//! task the CPU is a hog's, or, with `spare`, it goes to the first waiting task and is not charged.

use super::{Change, Server};
use std::collections::VecDeque;

/// The two places where we differ from Listing 1, so that counter-examples can put in the paper's.
#[derive(Clone, Copy)]
pub struct Rules {
    pub wake: fn(&mut Server, u64),
    pub assign: fn(&mut Server, u64) -> Change,
}

pub const HEADER: Rules = Rules {
    wake: Server::wake,
    assign: Server::assign,
};

#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Not before this time; no sleep if it has passed.
    At(u64),
    /// After a sleep of this many ns; 0: no sleep.
    After(u64),
}

/// A task's next piece of work, ns, and when it comes.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub when: When,
    pub work: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Asleep { until: u64 },
    Ready { left: u64, since: u64 },
    Done,
}

/// What happened to a task.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Each finished burst: when it became ready, when it was done.
    pub bursts: Vec<(u64, u64)>,
    /// Each run by right: from, to.
    pub runs: Vec<(u64, u64)>,
    /// Deadlines that the header saw pass with work left.
    pub missed: u32,
}

pub struct Task {
    pub server: Server,
    pub trace: Trace,
    plan: VecDeque<Burst>,
    state: State,
}

impl Task {
    /// A task that is admitted at time 0 with `runtime` every `period` ns.
    pub fn new(runtime: u64, period: u64, plan: impl IntoIterator<Item = Burst>) -> Self {
        let mut task = Task {
            server: Server::new(0, runtime, period),
            trace: Trace::default(),
            plan: plan.into_iter().collect(),
            state: State::Done,
        };
        task.next_burst(0);
        task
    }

    /// Begins the next burst, or sleeps until it comes. True if the task is ready.
    fn next_burst(&mut self, now: u64) -> bool {
        let Some(burst) = self.plan.front() else {
            self.state = State::Done;
            return false;
        };
        let until = match burst.when {
            When::At(t) => t,
            When::After(ns) => now + ns,
        };
        if until > now {
            self.state = State::Asleep { until };
            return false;
        }
        self.state = State::Ready {
            left: burst.work,
            since: now,
        };
        self.plan.pop_front();
        true
    }

    fn ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Running {
    task: usize,
    by_right: bool,
    since: u64,
}

pub struct Cpu {
    pub tasks: Vec<Task>,
    pub rules: Rules,
    pub spare: bool,
    pub timer_late: u64,
    /// Events after which `run` ends early: a plan may be of nanoseconds.
    pub max_events: u32,
    pub now: u64,
    running: Option<Running>,
}

impl Cpu {
    pub fn new(tasks: Vec<Task>) -> Self {
        Cpu {
            tasks,
            rules: HEADER,
            spare: false,
            timer_late: 0,
            max_events: 20_000,
            now: 0,
            running: None,
        }
    }

    /// Lets time pass until `end`, or until `max_events`; `now` tells.
    pub fn run(&mut self, end: u64) {
        for _ in 0..self.max_events {
            self.wake_sleepers();
            self.end_of_budget();
            let next = self.choose();
            if next != self.running {
                self.stop(false);
                self.running = next;
            }
            let t = self.next_event().min(end);
            self.advance(t);
            if t == end {
                break;
            }
        }
        self.stop(false);
    }

    fn wake_sleepers(&mut self) {
        for task in &mut self.tasks {
            if matches!(task.state, State::Asleep { until } if until <= self.now) {
                (self.rules.wake)(&mut task.server, self.now);
                assign(self.rules, task, self.now);
                // it has slept already: the burst begins now, whatever its plan says
                if let Some(burst) = task.plan.pop_front() {
                    task.state = State::Ready {
                        left: burst.work,
                        since: self.now,
                    };
                }
            }
        }
    }

    fn budget_end(&self, r: Running) -> u64 {
        r.since + self.tasks[r.task].server.budget.max(0) as u64 + self.timer_late
    }

    fn end_of_budget(&mut self) {
        if self
            .running
            .is_some_and(|r| r.by_right && self.budget_end(r) <= self.now)
        {
            self.stop(false);
        }
    }

    /// Earliest deadline first; among equals whoever runs goes on.
    fn choose(&self) -> Option<Running> {
        let current = self.running;
        let ready = || (0..self.tasks.len()).filter(|&i| self.tasks[i].ready());
        let keep = |task, by_right| match current {
            Some(r) if r.task == task && r.by_right == by_right => r,
            _ => Running {
                task,
                by_right,
                since: self.now,
            },
        };
        ready()
            .filter(|&i| self.tasks[i].server.eligible(self.now))
            .min_by_key(|&i| {
                (
                    self.tasks[i].server.deadline,
                    current.is_none_or(|r| r.task != i),
                )
            })
            .map(|i| keep(i, true))
            .or_else(|| {
                ready()
                    .next()
                    .filter(|_| self.spare)
                    .map(|i| keep(i, false))
            })
    }

    fn next_event(&self) -> u64 {
        let mut t = u64::MAX;
        for (i, task) in self.tasks.iter().enumerate() {
            match task.state {
                State::Asleep { until } => t = t.min(until),
                State::Ready { left, .. } => {
                    if task.server.start > self.now {
                        t = t.min(task.server.start);
                    }
                    match self.running {
                        Some(r) if r.task == i => {
                            t = t.min(self.now + left);
                            if r.by_right {
                                t = t.min(self.budget_end(r));
                            }
                        }
                        _ => {}
                    }
                }
                State::Done => {}
            }
        }
        t
    }

    /// Runs until `t`; a task whose work is done sleeps, or goes on with its next burst.
    fn advance(&mut self, t: u64) {
        let ran = t - self.now;
        self.now = t;
        let Some(r) = self.running else { return };
        let task = &mut self.tasks[r.task];
        let State::Ready { left, since } = task.state else {
            unreachable!("a task that runs is ready")
        };
        if left > ran {
            task.state = State::Ready {
                left: left - ran,
                since,
            };
            return;
        }
        task.trace.bursts.push((since, t));
        if !task.next_burst(t) {
            self.stop(true);
        }
    }

    /// The running task stops: `reserved_stopping`, and `reserved_enqueue` unless it sleeps.
    fn stop(&mut self, sleeps: bool) {
        let Some(r) = self.running.take() else { return };
        let task = &mut self.tasks[r.task];
        if sleeps {
            task.server.sleep();
        }
        if r.by_right {
            task.server.charge(self.now - r.since);
            task.trace.runs.push((r.since, self.now));
            assign(self.rules, task, self.now);
        }
        if !sleeps {
            assign(self.rules, task, self.now);
        }
    }
}

fn assign(rules: Rules, task: &mut Task, now: u64) {
    if (rules.assign)(&mut task.server, now) == Change::Missed {
        task.trace.missed += 1;
    }
}
