//! EEVDF, after Linux's fair class (6.12 and later).
//!
//! Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First" (1995). On each CPU a task's
//! virtual time v advances by its run time over its weight. V is the weighted mean of all v on the
//! CPU. A task is *eligible* if it is not ahead (v <= V). Its virtual deadline is slice / weight
//! after the v at which its slice began. The eligible task with the earliest virtual deadline runs.
//! As in Linux:
//! - The base slice is 0.75 ms times 1 + log2(CPUs, at most 8).
//! - A running task keeps the CPU until its slice ends, or until it is ahead and a task wakes up
//!   that is chosen before it (RUN_TO_PARITY).
//! - The lag, V - v, is kept over a sleep, at most two slices of it. Debt is paid off during the
//!   sleep as V advances, credit stays (the effect of delayed dequeue). A new task begins at V with
//!   half a slice (PLACE_DEADLINE_INITIAL).
//! - A task wakes up on the CPU where it ran last, or on an idle CPU if that one is busy. A new
//!   task starts on the CPU with the least weight. A CPU that becomes idle pulls a task from the
//!   CPU with the most waiting tasks. Every 64 ms the CPU with the most weight gives a task to the
//!   CPU with the least, unless that would reverse the imbalance.
//!
//! Simplified: a slice ends at its end, not at the next tick; no cache or NUMA domains; no wake-up
//! preemption by shorter slices (all slices are the same); no cgroups; load is the weight of
//! runnable tasks, without PELT.

use std::collections::BTreeSet;

use crate::model::core::{Core, Policy};
use crate::task::TaskId;
use crate::Reservation;

/// Base slice on one CPU, ns.
const BASE_SLICE_NS: u64 = 750_000;
/// Virtual time of 1 ns at weight 1. It is more than the highest weight (8668), so that no time
/// rounds to 0, and 10^5 s at weight 1 fit into 64 bits.
const FINE: i64 = 100 << 7;
/// Time between load balances, ns.
const BALANCE_NS: u64 = 64_000_000;

/// One task.
struct Entity {
    weight: i64,
    /// v.
    virtual_time: i64,
    deadline: i64,
    /// The CPU in whose queue the task is, or was last.
    queue: usize,
    /// V - v when the task fell asleep.
    lag: i64,
    /// V when the task fell asleep.
    left_at: i64,
    new: bool,
}

/// The runnable tasks of one CPU.
#[derive(Default)]
struct Queue {
    /// The waiting tasks, by virtual deadline.
    waiting: BTreeSet<(i64, TaskId)>,
    /// Sum of the weights, the running task's included.
    weight: i128,
    /// Sum of weight times v, the running task's included.
    weighted: i128,
    /// V when the last task left, which is V while the queue is empty.
    stood_at: i64,
}

impl Queue {
    fn join(&mut self, e: &Entity) {
        self.weight += i128::from(e.weight);
        self.weighted += i128::from(e.weight) * i128::from(e.virtual_time);
    }

    fn part(&mut self, e: &Entity) {
        self.stood_at = self.mean(0);
        self.weight -= i128::from(e.weight);
        self.weighted -= i128::from(e.weight) * i128::from(e.virtual_time);
    }

    /// V, if the running task has run `uncharged` ns that are not charged yet.
    fn mean(&self, uncharged: u64) -> i64 {
        if self.weight == 0 {
            return self.stood_at;
        }
        let sum = self.weighted + i128::from(uncharged) * i128::from(FINE);
        sum.div_euclid(self.weight) as i64
    }

    /// v <= V, without rounding.
    fn eligible(&self, virtual_time: i64, uncharged: u64) -> bool {
        i128::from(virtual_time) * self.weight
            <= self.weighted + i128::from(uncharged) * i128::from(FINE)
    }
}

/// See the file's header.
pub struct Eevdf {
    slice: u64,
    queues: Vec<Queue>,
    tasks: Vec<Entity>,
    /// Number of load balances, plus 1; 0: none is planned.
    turn: usize,
}

impl Eevdf {
    /// The model for a machine with this many CPUs.
    pub fn new(cpus: usize) -> Self {
        Self {
            slice: BASE_SLICE_NS * (1 + u64::from(cpus.clamp(1, 8).ilog2())),
            queues: (0..cpus).map(|_| Queue::default()).collect(),
            tasks: Vec::new(),
            turn: 0,
        }
    }

    /// The virtual time in which a task runs for `ns`.
    fn virtual_of(&self, id: TaskId, ns: u64) -> i64 {
        ns as i64 * FINE / self.tasks[id].weight
    }

    /// V of a queue now.
    fn mean(&self, core: &Core, queue: usize) -> i64 {
        self.queues[queue].mean(Self::uncharged(core, queue))
    }

    fn uncharged(core: &Core, cpu: usize) -> u64 {
        core.cpus[cpu].curr.map_or(0, |_| core.uncharged(cpu))
    }

    /// Add a task to a queue with this lag.
    fn place(&mut self, core: &Core, id: TaskId, queue: usize, lag: i64) {
        let now = self.mean(core, queue);
        let q = &mut self.queues[queue];
        let e = &mut self.tasks[id];
        // adding the task moves V towards the task's v; the lag is scaled so that it is `lag`
        // afterwards
        let lag = if q.weight == 0 {
            0
        } else {
            (i128::from(lag) * (q.weight + i128::from(e.weight)) / q.weight) as i64
        };
        e.virtual_time = now - lag;
        e.queue = queue;
        q.join(e);
    }

    /// Begin a slice: half a slice for a new task.
    fn begin_slice(&mut self, id: TaskId) {
        let slice = self.virtual_of(id, self.slice);
        let e = &mut self.tasks[id];
        e.deadline = e.virtual_time + if e.new { slice / 2 } else { slice };
        e.new = false;
    }

    fn insert(&mut self, id: TaskId) {
        let e = &self.tasks[id];
        self.queues[e.queue].waiting.insert((e.deadline, id));
    }

    /// The waiting task that runs next: the eligible one with the earliest deadline. If only the
    /// running task is eligible, the waiting task that is least ahead.
    fn best(&self, core: &Core, cpu: usize) -> Option<TaskId> {
        let q = &self.queues[cpu];
        let uncharged = Self::uncharged(core, cpu);
        let eligible = |id: TaskId| q.eligible(self.tasks[id].virtual_time, uncharged);
        let ids = || q.waiting.iter().map(|&(_, id)| id);
        let found = ids().find(|&id| eligible(id));
        found.or_else(|| ids().min_by_key(|&id| self.tasks[id].virtual_time))
    }

    /// The CPU on which a task wakes up.
    fn target(&self, core: &Core, id: TaskId) -> usize {
        let seat = &core.tasks[id];
        let idle = core.idle_for(id);
        let least = || {
            let allowed = (0..self.queues.len()).filter(|&cpu| seat.allowed.has(cpu));
            allowed.min_by_key(|&cpu| self.queues[cpu].weight)
        };
        idle.or(seat.cpu).or_else(least).unwrap_or(0)
    }

    /// Move a waiting task to another queue, with its lag and the rest of its slice.
    fn pull(&mut self, core: &Core, id: TaskId, to: usize) {
        let from = self.tasks[id].queue;
        let now = self.mean(core, from);
        let e = &self.tasks[id];
        self.queues[from].waiting.remove(&(e.deadline, id));
        let (lag, left) = (now - e.virtual_time, e.deadline - e.virtual_time);
        self.queues[from].part(e);
        self.place(core, id, to, lag);
        self.tasks[id].deadline = self.tasks[id].virtual_time + left;
        self.insert(id);
    }

    /// A task that may run on `cpu`, from the CPU with the most waiting tasks.
    fn victim(&self, core: &Core, cpu: usize) -> Option<TaskId> {
        let may = |id: TaskId| core.tasks[id].allowed.has(cpu);
        let busiest = |q: &&Queue| q.waiting.iter().any(|&(_, id)| may(id));
        let q = self.queues.iter().filter(busiest);
        let q = q.max_by_key(|q| q.waiting.len())?;
        q.waiting.iter().map(|&(_, id)| id).find(|&id| may(id))
    }
}

impl Policy for Eevdf {
    fn new_task(&mut self, core: &mut Core, id: TaskId) {
        self.tasks.push(Entity {
            weight: i64::from(core.tasks[id].weight.max(1)),
            virtual_time: 0,
            deadline: 0,
            queue: 0,
            lag: 0,
            left_at: 0,
            new: true,
        });
        if self.turn == 0 && self.queues.len() > 1 {
            self.turn = 1;
            core.alarm(core.now + BALANCE_NS, 0);
        }
    }

    fn exec(&mut self, _: &mut Core, _: TaskId, _: Option<Reservation>) -> bool {
        false
    }

    fn wake(&mut self, core: &mut Core, id: TaskId) {
        let to = self.target(core, id);
        let e = &self.tasks[id];
        let advance = self.mean(core, e.queue) - e.left_at;
        let lag = if e.lag < 0 {
            (e.lag + advance).clamp(e.lag, 0)
        } else {
            e.lag
        };
        self.place(core, id, to, lag);
        self.begin_slice(id);
        self.insert(id);
    }

    fn put(&mut self, _: &mut Core, id: TaskId) {
        if self.tasks[id].virtual_time >= self.tasks[id].deadline {
            self.begin_slice(id);
        }
        self.insert(id);
    }

    fn sleep(&mut self, core: &mut Core, id: TaskId) {
        let now = self.mean(core, self.tasks[id].queue);
        let most = 2 * self.virtual_of(id, self.slice);
        let e = &mut self.tasks[id];
        e.lag = (now - e.virtual_time).clamp(-most, most);
        e.left_at = now;
        self.queues[e.queue].part(e);
    }

    fn exit(&mut self, core: &mut Core, id: TaskId) {
        self.sleep(core, id);
    }

    fn pick(&mut self, core: &mut Core, cpu: usize) -> Option<TaskId> {
        if self.queues[cpu].waiting.is_empty() {
            let victim = self.victim(core, cpu)?;
            self.pull(core, victim, cpu);
        }
        let id = self.best(core, cpu)?;
        self.queues[cpu]
            .waiting
            .remove(&(self.tasks[id].deadline, id));
        Some(id)
    }

    fn rival(&self, core: &Core, id: TaskId) -> Option<usize> {
        let cpu = self.tasks[id].queue;
        let Some(curr) = core.cpus[cpu].curr else {
            return Some(cpu);
        };
        if let Some(idle) = core.idle_for(id) {
            return Some(idle);
        }
        let uncharged = core.uncharged(cpu);
        let ran = self.tasks[curr].virtual_time + self.virtual_of(curr, uncharged);
        let ahead = !self.queues[cpu].eligible(ran, uncharged);
        (ahead && self.best(core, cpu) == Some(id)).then_some(cpu)
    }

    fn charge(&mut self, _: &Core, id: TaskId, ran: u64) {
        let time = self.virtual_of(id, ran);
        let e = &mut self.tasks[id];
        e.virtual_time += time;
        self.queues[e.queue].weighted += i128::from(e.weight) * i128::from(time);
    }

    fn limit(&self, _: &Core, id: TaskId) -> u64 {
        let e = &self.tasks[id];
        let left = i128::from(e.deadline - e.virtual_time).max(0) * i128::from(e.weight);
        (left as u128).div_ceil(FINE as u128) as u64
    }

    fn alarm(&mut self, core: &mut Core, _: u64) -> Option<TaskId> {
        core.alarm(core.now + BALANCE_NS, 0);
        self.turn += 1;
        // among equal CPUs another one is taken each time, so that no task keeps a CPU to itself
        // for ever
        let key = |cpu: usize| {
            (
                self.queues[cpu].weight,
                (cpu + self.turn) % self.queues.len(),
            )
        };
        let cpus = 0..self.queues.len();
        let heaviest = cpus.clone().max_by_key(|&cpu| key(cpu))?;
        let lightest = cpus.min_by_key(|&cpu| key(cpu))?;
        let excess = self.queues[heaviest].weight - self.queues[lightest].weight;
        let moved = self.queues[heaviest].waiting.iter().map(|&(_, id)| id);
        let moved = moved
            .filter(|&id| core.tasks[id].allowed.has(lightest))
            .find(|&id| i128::from(self.tasks[id].weight) <= excess)?;
        self.pull(core, moved, lightest);
        Some(moved)
    }
}
