//! EEVDF, after Linux's fair class (6.12 and later).
//!
//! Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First" (1995). On each CPU a task's virtual time v
//! advances by its run time over its weight; V is the mean of all v there, by weight. A task is *eligible* if it
//! is not ahead (v <= V), its virtual deadline is v + slice / weight from when it began its slice, and the
//! eligible task with the earliest virtual deadline runs. As in Linux:
//! - base slice 0.75 ms times 1 + log2(CPUs, at most 8);
//! - what runs keeps the CPU until its slice is over, or until it is ahead and one wakes up that is chosen before
//!   it (RUN_TO_PARITY);
//! - lag, V - v, is kept over sleep, at most two slices of it; debt is paid off while asleep as V goes on, credit
//!   stays (what delayed dequeue does); a new task begins at V with half a slice (PLACE_DEADLINE_INITIAL);
//! - a task wakes up where it ran last, or on an idle CPU if that one is busy; new ones where least weight is; a CPU
//!   that becomes idle pulls a waiting task from the CPU with the most; every 64 ms the heaviest CPU gives one to
//!   the lightest, unless that would make it the heavier one by more.
//!
//! Simplified: a slice ends when it ends, not at the next tick; no cache or NUMA domains; no wake-up preemption
//! by shorter slices (all are the same); no cgroups; load is the weight of what is runnable now, without PELT.

use std::collections::BTreeSet;

use crate::model::core::{Core, Policy};
use crate::task::TaskId;
use crate::Reservation;

/// Base slice on one CPU, ns.
const BASE_SLICE_NS: u64 = 750_000;
/// Virtual time of a nanosecond at weight 1: more than the highest weight (8668), so that none rounds to 0, and
/// little enough that 10^5 s at weight 1 fit.
const FINE: i64 = 100 << 7;
/// Between looks at the balance of CPUs, ns.
const BALANCE_NS: u64 = 64_000_000;

/// One task.
struct Entity {
    weight: i64,
    /// v
    virtual_time: i64,
    deadline: i64,
    /// The CPU in whose queue it is, or was.
    queue: usize,
    /// Asleep: V - v when it fell asleep, and V then.
    lag: i64,
    left_at: i64,
    new: bool,
}

/// One CPU's tasks: those that wait are in the tree, by virtual deadline; sums are of these and of what runs.
#[derive(Default)]
struct Queue {
    waiting: BTreeSet<(i64, TaskId)>,
    weight: i128,
    /// Sum of weight times v.
    weighted: i128,
    /// V when the last one left.
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

    /// V, with `uncharged` ns of what runs.
    fn mean(&self, uncharged: u64) -> i64 {
        if self.weight == 0 {
            return self.stood_at;
        }
        let sum = self.weighted + i128::from(uncharged) * i128::from(FINE);
        sum.div_euclid(self.weight) as i64
    }

    /// Not ahead of V, exactly.
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
    /// Looks at the balance so far, plus one.
    turn: usize,
}

impl Eevdf {
    /// For so many CPUs.
    pub fn new(cpus: usize) -> Self {
        Self {
            slice: BASE_SLICE_NS * (1 + u64::from(cpus.clamp(1, 8).ilog2())),
            queues: (0..cpus).map(|_| Queue::default()).collect(),
            tasks: Vec::new(),
            turn: 0,
        }
    }

    /// Virtual time of so many ns of a task.
    fn virtual_of(&self, id: TaskId, ns: u64) -> i64 {
        ns as i64 * FINE / self.tasks[id].weight
    }

    /// V of a queue at this moment.
    fn mean(&self, core: &Core, queue: usize) -> i64 {
        self.queues[queue].mean(Self::uncharged(core, queue))
    }

    fn uncharged(core: &Core, cpu: usize) -> u64 {
        core.cpus[cpu].curr.map_or(0, |_| core.uncharged(cpu))
    }

    /// The task joins a queue with this lag.
    fn place(&mut self, core: &Core, id: TaskId, queue: usize, lag: i64) {
        let now = self.mean(core, queue);
        let q = &mut self.queues[queue];
        let e = &mut self.tasks[id];
        // its joining moves V towards it: with this much more, its lag is `lag` after it
        let lag = if q.weight == 0 {
            0
        } else {
            (i128::from(lag) * (q.weight + i128::from(e.weight)) / q.weight) as i64
        };
        e.virtual_time = now - lag;
        e.queue = queue;
        q.join(e);
    }

    /// Half the slice for a new task, all of it for others.
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

    /// The one that waits to run next there: of the eligible ones that with the earliest deadline. (What runs may be
    /// the only eligible one; then the one that is least ahead.)
    fn best(&self, core: &Core, cpu: usize) -> Option<TaskId> {
        let q = &self.queues[cpu];
        let uncharged = Self::uncharged(core, cpu);
        let eligible = |id: TaskId| q.eligible(self.tasks[id].virtual_time, uncharged);
        let ids = || q.waiting.iter().map(|&(_, id)| id);
        let found = ids().find(|&id| eligible(id));
        found.or_else(|| ids().min_by_key(|&id| self.tasks[id].virtual_time))
    }

    /// Where a task wakes up.
    fn target(&self, core: &Core, id: TaskId) -> usize {
        let seat = &core.tasks[id];
        let idle = core.idle_for(id);
        let least = || {
            let allowed = (0..self.queues.len()).filter(|&cpu| seat.allowed.has(cpu));
            allowed.min_by_key(|&cpu| self.queues[cpu].weight)
        };
        idle.or(seat.cpu).or_else(least).unwrap_or(0)
    }

    /// Take a waiting task to another queue, with its lag and what is left of its slice.
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

    /// A task that waits on the CPU where most do, and may run on `cpu`.
    fn victim(&self, core: &Core, cpu: usize) -> Option<TaskId> {
        let may = |id: TaskId| core.tasks[id].allowed.has(cpu);
        let busiest = |q: &&Queue| q.waiting.iter().any(|&(_, id)| may(id));
        let q = self.queues.iter().filter(busiest);
        let q = q.max_by_key(|q| q.waiting.len())?;
        q.waiting.iter().map(|&(_, id)| id).find(|&id| may(id))
    }
}

impl Policy for Eevdf {
    fn born(&mut self, core: &mut Core, id: TaskId) {
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
        let gone_on = self.mean(core, e.queue) - e.left_at;
        let lag = if e.lag < 0 {
            (e.lag + gone_on).clamp(e.lag, 0)
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
        // among equals another CPU each time, so that nobody is alone on one for ever while others share
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
