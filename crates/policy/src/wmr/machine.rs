//! Virtual CPUs for the theorems: EDF on each, reservations whole or in windows, exact time.
//!
//! The machine calls the header where `bpf/reserved/queue.bpf.h` does:
//!  - a task wakes up: wake, assign;
//!  - a task stops: charge, assign, then sleep if it goes to sleep;
//!  - a window ends while its task is ready: assign.
//!
//! With `reclaim` each CPU has a bank (fcbs.h). A task that goes to sleep lends the rest of its
//! budget. A task that waits for its next window draws on the bank of the CPU of its last window.

use super::{bandwidth, numbers, Roster, Split, PARTS};
use crate::edf::cpu::{Burst, Trace, When};
use crate::edf::{Change, Server};
use crate::fcbs::{Bank, Loan};
use std::collections::VecDeque;

/// The rules of a server: those of wmr.h, or, to show that it fails, the wake rule of edf.h.
#[derive(Clone, Copy, PartialEq)]
pub enum Control {
    Windows,
    WakeRule,
}

#[derive(Clone, Copy)]
enum State {
    Asleep { until: u64 },
    Ready { left: u64, since: u64 },
    Done,
}

pub struct Task {
    pub server: Server,
    pub split: Split,
    pub control: Control,
    pub trace: Trace,
    /// The CPU of each run in `trace.runs`.
    pub cpus: Vec<i32>,
    /// Each window (start, deadline, Q') in which the task wanted more time than it got.
    pub wanting: Vec<(u64, u64, u64)>,
    /// The CPU of the latest window that has begun.
    cpu: i32,
    loan: Loan,
    plan: VecDeque<Burst>,
    state: State,
}

impl Task {
    /// A task that is admitted asleep at time 0, with `split` every `period` ns.
    pub fn new(split: Split, period: u64, plan: impl IntoIterator<Item = Burst>) -> Self {
        let runtime = split.runtime[..split.parts as usize].iter().sum();
        let mut task = Task {
            server: Server::new(0, runtime, period),
            split,
            control: Control::Windows,
            trace: Trace::default(),
            cpus: Vec::new(),
            wanting: Vec::new(),
            cpu: split.cpu[0],
            loan: Loan::default(),
            plan: plan.into_iter().collect(),
            state: State::Done,
        };
        task.split.release(&mut task.server, 0);
        task.split.sleep(&task.server, 0);
        task.next_burst(0);
        if task.ready() {
            task.wake(0);
        }
        task
    }

    /// Begins the next burst, or sleeps until it arrives.
    fn next_burst(&mut self, now: u64) {
        self.state = State::Done;
        let Some(burst) = self.plan.front() else {
            return;
        };
        let until = match burst.when {
            When::At(t) => t,
            When::After(ns) => now + ns,
        };
        if until > now {
            self.state = State::Asleep { until };
            self.trace.sleeps.push((now, until));
        } else {
            self.begin_burst(now);
        }
    }

    fn begin_burst(&mut self, now: u64) {
        if let Some(burst) = self.plan.pop_front() {
            self.state = State::Ready {
                left: burst.work,
                since: now,
            };
        }
    }

    fn ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    fn wake(&mut self, now: u64) {
        match self.control {
            Control::Windows => self.split.wake(&mut self.server, now),
            Control::WakeRule => self.server.wake(now),
        }
        self.assign(now);
    }

    fn assign(&mut self, now: u64) {
        let (before, window) = (self.server, self.split.window as usize);
        let change = match self.control {
            Control::Windows => self.split.assign(&mut self.server, now),
            Control::WakeRule => self.server.assign(now),
        };
        match change {
            Change::Exhausted => {
                let budget = self.split.runtime[window];
                self.wanting.push((before.start, before.deadline, budget));
            }
            Change::Missed => self.trace.missed += 1,
            _ => {}
        }
    }

    /// If the current window has begun, moves the task to that window's CPU.
    fn arrive(&mut self, now: u64) {
        if self.server.start <= now {
            self.cpu = self.split.cpu[self.split.window as usize % PARTS];
        }
    }

    /// The window ends while the task is ready. Its budget was last charged `ran` ns ago.
    fn look_at_deadline(&mut self, ran: u64) {
        let left = (self.server.budget - ran as i64).max(0) as u64;
        self.trace.left_over = self.trace.left_over.max(left);
        let budget = self.split.runtime[self.split.window as usize];
        self.wanting
            .push((self.server.start, self.server.deadline, budget));
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Running {
    task: usize,
    /// The task runs on its own budget; false: on the bank.
    own: bool,
    since: u64,
}

pub struct Machine {
    pub tasks: Vec<Task>,
    pub now: u64,
    /// Each CPU has a bank, and budgets that are left are lent.
    pub reclaim: bool,
    pub banks: Vec<Bank>,
    /// Total budget that was lent, ns.
    pub lent: u64,
    /// Total budget that was given back to lenders, ns.
    pub returned: u64,
    running: Vec<Option<Running>>,
}

/// [`Machine::run`] ends early after this many events, because a plan may consist of bursts of a
/// few ns.
const MAX_EVENTS: u32 = 20_000;

impl Machine {
    pub fn new(cpus: usize, tasks: Vec<Task>) -> Self {
        Machine {
            tasks,
            now: 0,
            reclaim: false,
            banks: vec![Bank::default(); cpus],
            lent: 0,
            returned: 0,
            running: vec![None; cpus],
        }
    }

    /// Runs until `end`, or for [`MAX_EVENTS`] events. Afterwards `now` is the time that was
    /// reached.
    pub fn run(&mut self, end: u64) {
        for _ in 0..MAX_EVENTS {
            self.end_windows();
            self.wake_sleepers();
            for cpu in 0..self.running.len() {
                let next = self.choose(cpu);
                if next != self.running[cpu] {
                    self.stop(cpu, false);
                    self.begin(cpu, next);
                }
            }
            let t = self.next_event().min(end);
            self.advance(t);
            if t == end {
                break;
            }
        }
        for cpu in 0..self.running.len() {
            self.stop(cpu, false);
        }
    }

    fn wake_sleepers(&mut self) {
        for task in &mut self.tasks {
            if !matches!(task.state, State::Asleep { until } if until <= self.now) {
                continue;
            }
            if task.loan.lent > 0 && self.now < task.server.deadline {
                let bank = &mut self.banks[task.cpu as usize];
                let back = bank.take_back(&mut task.loan, self.now);
                task.server.budget = back as i64;
                self.returned += back;
            }
            task.loan.lent = 0;
            task.wake(self.now);
            task.begin_burst(self.now);
            task.arrive(self.now);
        }
    }

    /// Handles budgets that are used up, windows that are over, and windows that begin.
    fn end_windows(&mut self) {
        for i in 0..self.tasks.len() {
            let own = |r: &Option<Running>| r.is_some_and(|r| r.task == i && r.own);
            let on = self.running.iter().position(own);
            let since = on.and_then(|cpu| self.running[cpu]).map(|r| r.since);
            let ran = since.map_or(0, |since| self.now - since);
            let task = &mut self.tasks[i];
            let s = task.server;
            let over = task.ready() && s.start <= self.now && s.deadline <= self.now;
            if over {
                task.look_at_deadline(ran);
            }
            match on {
                Some(cpu) if over || s.budget <= ran as i64 => self.stop(cpu, false),
                None if over => task.assign(self.now),
                _ => {}
            }
            self.tasks[i].arrive(self.now);
        }
    }

    /// Chooses the task of `cpu` with the earliest deadline. Among equal deadlines the running one
    /// goes on.
    fn choose(&self, cpu: usize) -> Option<Running> {
        let running = |task, own| {
            let same = self.running[cpu].filter(|r| r.task == task && r.own == own);
            same.unwrap_or(Running {
                task,
                own,
                since: self.now,
            })
        };
        let here = || {
            let tasks = self.tasks.iter().enumerate();
            tasks.filter(|(_, t)| t.ready() && t.cpu == cpu as i32)
        };
        let earliest = |(i, t): &(usize, &Task)| {
            let goes_on = self.running[cpu].is_some_and(|r| r.task == *i);
            (t.server.deadline, !goes_on)
        };
        let eligible = |t: &Task| t.server.eligible(self.now);
        let own = here().filter(|(_, t)| eligible(t)).min_by_key(earliest);
        let bank = &self.banks[cpu];
        if bank.slack(self.now) > 0 && own.is_none_or(|(_, t)| bank.deadline < t.server.deadline) {
            let overrunner = here().filter(|(_, t)| !eligible(t)).min_by_key(earliest);
            if let Some((i, _)) = overrunner {
                return Some(running(i, false));
            }
        }
        own.map(|(i, _)| running(i, true))
    }

    fn begin(&mut self, cpu: usize, next: Option<Running>) {
        self.running[cpu] = next;
        let bank = &mut self.banks[cpu];
        match next {
            Some(r) if r.own => bank.freeze(self.now, self.tasks[r.task].server.deadline),
            Some(_) => bank.draw(self.now),
            None => {}
        }
    }

    fn next_event(&self) -> u64 {
        let mut t = u64::MAX;
        for task in &self.tasks {
            match task.state {
                State::Asleep { until } => t = t.min(until),
                State::Ready { .. } => {
                    for at in [task.server.start, task.server.deadline] {
                        if at > self.now {
                            t = t.min(at);
                        }
                    }
                }
                State::Done => {}
            }
        }
        for (r, bank) in self.running.iter().zip(&self.banks) {
            let Some(r) = r else { continue };
            let task = &self.tasks[r.task];
            if let State::Ready { left, .. } = task.state {
                t = t.min(self.now + left);
            }
            t = t.min(if r.own {
                r.since + task.server.budget.max(0) as u64
            } else {
                bank.deadline.min(self.now + bank.slack(self.now))
            });
        }
        t
    }

    /// Advances time to `t`. If a running task's work is done then, it sleeps or begins its next
    /// burst.
    fn advance(&mut self, t: u64) {
        let ran = t - self.now;
        self.now = t;
        for cpu in 0..self.running.len() {
            let Some(r) = self.running[cpu] else {
                continue;
            };
            let task = &mut self.tasks[r.task];
            let State::Ready { left, since } = task.state else {
                unreachable!("a task that runs is ready")
            };
            if left > ran {
                task.state = State::Ready {
                    left: left - ran,
                    since,
                };
                continue;
            }
            task.trace.bursts.push((since, t));
            task.next_burst(t);
            if !task.ready() {
                self.stop(cpu, true);
            }
        }
    }

    fn stop(&mut self, cpu: usize, sleeps: bool) {
        let Some(r) = self.running[cpu].take() else {
            return;
        };
        let (task, bank) = (&mut self.tasks[r.task], &mut self.banks[cpu]);
        bank.thaw(self.now);
        if sleeps {
            task.server.sleep();
        }
        let run = (r.since, self.now);
        if !r.own {
            task.trace.draws.push(run);
        } else {
            task.server.charge(self.now - r.since);
            if self.now > r.since {
                task.trace.runs.push(run);
                task.cpus.push(cpu as i32);
            }
            task.assign(self.now);
        }
        task.arrive(self.now);
        if !sleeps {
            return;
        }
        task.split.sleep(&task.server, self.now);
        if self.reclaim && task.server.eligible(self.now) {
            let s = &mut task.server;
            let bank = &mut self.banks[task.cpu as usize];
            bank.give(&mut task.loan, self.now, s.budget as u64, s.deadline);
            self.lent += s.budget as u64;
            s.budget = 0;
        }
    }
}

/// Places a reservation as `bpf/reserved/room.bpf.h` does: whole on the CPU with the most room. If
/// it fits on none, it is split over several CPUs, with the numbers of windows tried in the order
/// of [`numbers`].
pub fn place(
    rosters: &mut [Roster],
    most_ppm: u64,
    slot: u64,
    runtime: u64,
    period: u64,
) -> Option<Split> {
    let split = find(rosters, most_ppm, runtime, period)?;
    let parts = split.parts as usize;
    for x in 0..parts {
        let roster = &mut rosters[split.cpu[x] as usize];
        roster.join(slot, split.runtime[x], period / parts as u64, period);
    }
    Some(split)
}

fn find(rosters: &[Roster], most_ppm: u64, runtime: u64, period: u64) -> Option<Split> {
    let cpus = 0..rosters.len() as i32;
    let promised = rosters.iter().map(Roster::promised).sum::<u64>() + bandwidth(runtime, period);
    let numbers = numbers(period, rosters.len() as u32, promised);
    for n in std::iter::once(1).chain(numbers) {
        let mut split = Split::default();
        for cpu in cpus.clone() {
            let room = rosters[cpu as usize].room(period, period / u64::from(n), most_ppm);
            split.offer(n, cpu, room);
        }
        if split.complete(n, runtime) {
            if n > 1 {
                let room =
                    |cpu: i32| rosters[cpu as usize].room(period, period / u64::from(n), most_ppm);
                last_by_best_fit(&mut split, cpus, room);
            }
            return Some(split);
        }
    }
    None
}

/// The last part, if it needs anything, goes to the first CPU with the least room that is enough.
fn last_by_best_fit(split: &mut Split, cpus: std::ops::Range<i32>, room: impl Fn(i32) -> u64) {
    let last = split.parts as usize - 1;
    let others = &split.cpu[..last];
    let need = split.runtime[last];
    let fits = |&cpu: &i32| need > 0 && room(cpu) >= need && !others.contains(&cpu);
    if let Some(cpu) = cpus.filter(fits).min_by_key(|&cpu| room(cpu)) {
        split.cpu[last] = cpu;
    }
}
