//! A virtual CPU for the theorems: servers, tasks that work and sleep, exact time.
//!
//! The virtual CPU calls the headers where `bpf/reserved/queue.bpf.h` does:
//!  - a task wakes up: wake, assign;
//!  - a task stops: sleep (if it goes to sleep), charge, assign; then assign again if it is queued.
//!
//! The eligible task with the earliest deadline runs. When its budget is used up, it is stopped
//! (`timer_late` ns too late). If no task is eligible, a hog has the CPU. With `spare` the first
//! waiting task has it instead and is not charged.
//!
//! A server with policy fcbs lends the rest of its budget when its task sleeps, and gets it back if
//! the task wakes up before the deadline. A server that waits for its next period runs on the bank
//! if the bank's deadline is the earliest.

use super::{Change, Policy, Server};
use crate::fcbs::{Bank, Loan};
use std::collections::VecDeque;

/// The two rules that differ from Listing 1, so that counter-examples can use the paper's.
#[derive(Clone, Copy)]
pub struct Rules {
    pub wake: fn(&mut Server, u64),
    pub assign: fn(&mut Server, u64) -> Change,
}

/// The rules of edf.h.
pub const HEADER: Rules = Rules {
    wake: Server::wake,
    assign: Server::assign,
};

#[derive(Clone, Copy, Debug)]
pub enum When {
    /// At this time, ns. If it has passed, the task does not sleep.
    At(u64),
    /// After a sleep of this many ns; 0: the task does not sleep.
    After(u64),
}

/// A task's next piece of work, in ns, and when it arrives.
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
    /// Each finished burst: when it became ready, and when it was done.
    pub bursts: Vec<(u64, u64)>,
    /// Each run on the task's own budget: (from, to).
    pub runs: Vec<(u64, u64)>,
    /// Each run on the bank: (from, to).
    pub draws: Vec<(u64, u64)>,
    /// Each sleep: (from, to).
    pub sleeps: Vec<(u64, u64)>,
    /// Each period (start, deadline) in which the task wanted more time than it got: it used up its
    /// budget, or it was still ready at the deadline.
    pub wanting: Vec<(u64, u64)>,
    /// The largest budget that was left at a deadline while the task was ready, ns.
    pub left_over: u64,
    /// Number of deadlines that passed with work left, as the header reported them.
    pub missed: u32,
}

pub struct Task {
    pub server: Server,
    loan: Loan,
    pub trace: Trace,
    plan: VecDeque<Burst>,
    state: State,
}

impl Task {
    /// A task that is admitted at time 0 with `runtime` ns every `period` ns.
    pub fn new(runtime: u64, period: u64, plan: impl IntoIterator<Item = Burst>) -> Self {
        let mut task = Task {
            server: Server::new(0, runtime, period),
            loan: Loan::default(),
            trace: Trace::default(),
            plan: plan.into_iter().collect(),
            state: State::Done,
        };
        task.next_burst(0);
        task
    }

    pub fn policy(mut self, policy: Policy) -> Self {
        self.server.policy = policy as u32;
        self
    }

    fn is(&self, policy: Policy) -> bool {
        self.server.policy == policy as u32
    }

    /// Begins the next burst, or sleeps until it arrives. Returns whether the task is ready.
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
            self.trace.sleeps.push((now, until));
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

/// What pays for a task's run: its own budget, the bank, or nothing (spare time).
#[derive(Clone, Copy, PartialEq)]
enum Right {
    Own,
    Bank,
    Spare,
}

#[derive(Clone, Copy, PartialEq)]
struct Running {
    task: usize,
    right: Right,
    since: u64,
}

pub struct Cpu {
    pub tasks: Vec<Task>,
    pub bank: Bank,
    /// Total budget that was lent, ns.
    pub lent: u64,
    /// Total budget that was given back to lenders, ns.
    pub returned: u64,
    pub rules: Rules,
    /// Waiting tasks may run without being charged if no task is eligible.
    pub spare: bool,
    /// How much too late a used-up budget stops its task, ns.
    pub timer_late: u64,
    /// `run` ends early after this many events, because a plan may consist of bursts of a few ns.
    pub max_events: u32,
    pub now: u64,
    running: Option<Running>,
}

impl Cpu {
    pub fn new(tasks: Vec<Task>) -> Self {
        Cpu {
            tasks,
            bank: Bank::default(),
            lent: 0,
            returned: 0,
            rules: HEADER,
            spare: false,
            timer_late: 0,
            max_events: 20_000,
            now: 0,
            running: None,
        }
    }

    /// Runs until `end`, or for `max_events` events. Afterwards `now` is the time that was reached.
    pub fn run(&mut self, end: u64) {
        for _ in 0..self.max_events {
            self.wake_sleepers();
            self.end_of_budget();
            self.look_at_deadlines();
            let next = self.choose();
            if next != self.running {
                self.stop(false);
                self.begin(next);
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
            if !matches!(task.state, State::Asleep { until } if until <= self.now) {
                continue;
            }
            if task.loan.lent > 0 {
                if self.now < task.server.deadline {
                    let back = self.bank.take_back(&mut task.loan, self.now);
                    task.server.budget = back as i64;
                    self.returned += back;
                } else {
                    task.loan.lent = 0;
                }
            }
            (self.rules.wake)(&mut task.server, self.now);
            assign(self.rules, task, self.now);
            // The task has already slept, so its burst begins now, whatever the plan says.
            if let Some(burst) = task.plan.pop_front() {
                task.state = State::Ready {
                    left: burst.work,
                    since: self.now,
                };
            }
        }
    }

    /// Records each ready task whose deadline is now, and the budget that it has left: that much is
    /// late.
    fn look_at_deadlines(&mut self) {
        for (i, task) in self.tasks.iter_mut().enumerate() {
            let s = task.server;
            if !task.ready() || s.deadline != self.now || s.start > self.now {
                continue;
            }
            let ran = match self.running {
                Some(r) if r.task == i && r.right == Right::Own => self.now - r.since,
                _ => 0,
            };
            let left = (s.budget - ran as i64).max(0) as u64;
            task.trace.left_over = task.trace.left_over.max(left);
            task.trace.wanting.push((begin(&s), s.deadline));
        }
    }

    fn budget_end(&self, r: Running) -> u64 {
        r.since + self.tasks[r.task].server.budget.max(0) as u64 + self.timer_late
    }

    fn end_of_budget(&mut self) {
        if self
            .running
            .is_some_and(|r| r.right == Right::Own && self.budget_end(r) <= self.now)
        {
            self.stop(false);
        }
    }

    /// Chooses the task with the earliest deadline. Among equal deadlines the running task goes on.
    fn choose(&self) -> Option<Running> {
        let running = |right, i| {
            self.running
                .filter(|r| r.task == i && r.right == right)
                .unwrap_or(Running {
                    task: i,
                    right,
                    since: self.now,
                })
        };
        let ready = || (0..self.tasks.len()).filter(|&i| self.tasks[i].ready());
        let earliest = |&i: &usize| {
            let goes_on = self.running.is_some_and(|r| r.task == i);
            (self.tasks[i].server.deadline, !goes_on)
        };
        let eligible = |i: usize| self.tasks[i].server.eligible(self.now);
        let own = ready().filter(|&i| eligible(i)).min_by_key(earliest);
        if self.bank.slack(self.now) > 0
            && own.is_none_or(|i| self.bank.deadline < self.tasks[i].server.deadline)
        {
            let overrunner = ready()
                .filter(|&i| self.tasks[i].is(Policy::Fcbs) && !eligible(i))
                .min_by_key(earliest);
            if let Some(i) = overrunner {
                return Some(running(Right::Bank, i));
            }
        }
        let spare = || {
            ready()
                .find(|&i| !self.tasks[i].is(Policy::CbsHard))
                .filter(|_| self.spare)
        };
        own.map(|i| running(Right::Own, i))
            .or_else(|| spare().map(|i| running(Right::Spare, i)))
    }

    fn begin(&mut self, next: Option<Running>) {
        self.running = next;
        match next {
            Some(r) if r.right == Right::Own => {
                let deadline = self.tasks[r.task].server.deadline;
                self.bank.freeze(self.now, deadline);
            }
            Some(r) if r.right == Right::Bank => self.bank.draw(self.now),
            _ => {}
        }
    }

    fn next_event(&self) -> u64 {
        let mut t = u64::MAX;
        for (i, task) in self.tasks.iter().enumerate() {
            match task.state {
                State::Asleep { until } => t = t.min(until),
                State::Ready { left, .. } => {
                    for at in [task.server.start, task.server.deadline] {
                        if at > self.now {
                            t = t.min(at);
                        }
                    }
                    if let Some(r) = self.running.filter(|r| r.task == i) {
                        t = t.min(self.now + left);
                        t = match r.right {
                            Right::Own => t.min(self.budget_end(r)),
                            Right::Bank => t
                                .min(self.now + self.bank.slack(self.now))
                                .min(self.bank.deadline),
                            Right::Spare => t,
                        };
                    }
                }
                State::Done => {}
            }
        }
        t
    }

    /// Advances time to `t`. If the running task's work is done then, it sleeps or begins its next
    /// burst.
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

    /// Stops the running task, as `reserved_stopping` does, and `reserved_enqueue` unless it
    /// sleeps.
    fn stop(&mut self, sleeps: bool) {
        let Some(r) = self.running.take() else { return };
        let task = &mut self.tasks[r.task];
        self.bank.thaw(self.now);
        if sleeps {
            task.server.sleep();
        }
        match r.right {
            Right::Own => {
                task.server.charge(self.now - r.since);
                task.trace.runs.push((r.since, self.now));
                assign(self.rules, task, self.now);
            }
            Right::Bank => task.trace.draws.push((r.since, self.now)),
            Right::Spare => {}
        }
        if !sleeps {
            assign(self.rules, task, self.now);
        } else if task.is(Policy::Fcbs) && task.server.eligible(self.now) {
            let s = &mut task.server;
            self.bank
                .give(&mut task.loan, self.now, s.budget as u64, s.deadline);
            self.lent += s.budget as u64;
            s.budget = 0;
        }
    }
}

/// When the period of `s` began. A deferred server's right begins later, and is put off when its
/// task wakes up.
fn begin(s: &Server) -> u64 {
    if s.policy == Policy::Deferred as u32 {
        s.deadline - s.period
    } else {
        s.start
    }
}

fn assign(rules: Rules, task: &mut Task, now: u64) {
    let before = task.server;
    match (rules.assign)(&mut task.server, now) {
        Change::Missed => task.trace.missed += 1,
        // Not for a task that slept until after its deadline: it had lent the rest of its budget.
        Change::Exhausted if now <= before.deadline => {
            let period = (begin(&before), before.deadline);
            task.trace.wanting.push(period);
        }
        _ => {}
    }
}
