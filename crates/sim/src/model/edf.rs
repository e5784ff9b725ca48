//! Earliest deadline first over constant bandwidth servers, on several CPUs.
//!
//! *Global* (SCHED_DEADLINE with one root domain): the tasks with the m earliest server deadlines
//! run, on any CPU. *Partitioned*: a task is placed when it gets its reservation: on the first CPU
//! (first-fit), or the CPU with the least bandwidth (worst-fit), on which the sum of Q/P stays
//! within the capacity. It stays there. A task that fits on no CPU is refused, and runs as
//! best-effort.
//!
//! Global EDF refuses no task, because Linux's admission (sum of Q/P up to 95 % of the CPUs) would
//! hide the misses that are compared. Children of a reserved task are best-effort, as with
//! SCHED_FLAG_RESET_ON_FORK, without which such a task may not fork.
//!
//! Tasks without a reservation share the rest by weighted round-robin.

use std::collections::BTreeSet;

use crate::model::cbs::{Cbs, Server};
use crate::model::core::{Core, Policy};
use crate::model::fcbs::Bonus;
use crate::model::Wrr;
use crate::task::TaskId;
use crate::Reservation;

/// A whole CPU, ppm.
pub const WHOLE_PPM: u64 = 1_000_000;
/// Bandwidths are added in units of 1/PARTS of a CPU. The error of rounding is 1 ns in 1000 s.
const PARTS: u64 = 1_000_000_000_000;

/// Which CPUs a reserved task may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// All CPUs.
    Global,
    /// The first CPU on which it fits.
    First,
    /// The CPU with the least load.
    Worst,
}

/// A reserved task.
struct Reserved {
    server: Cbs,
    /// Number of its queue: its CPU, or 0 if global.
    queue: usize,
    /// The task's budget is used up, and the task waits for its next period.
    throttled: bool,
}

/// See the file's header.
pub struct Edf {
    fit: Fit,
    server: Server,
    /// Capacity of each queue, in [`PARTS`].
    capacity: u64,
    /// Waiting tasks, by deadline.
    queues: Vec<BTreeSet<(u64, TaskId)>>,
    /// Sum of Q/P of each queue, in [`PARTS`].
    load: Vec<u64>,
    /// The bonus of each queue; only [`Server::Flexible`] adds to it.
    bonus: Vec<Bonus>,
    /// By task.
    reserved: Vec<Option<Reserved>>,
    background: Wrr,
}

impl Edf {
    /// `most_ppm`: if partitioned, the greatest sum of Q/P of a CPU; [`WHOLE_PPM`]: the whole
    /// CPU.
    pub fn new(cpus: usize, fit: Fit, server: Server, most_ppm: u64) -> Self {
        let (queues, each) = if fit == Fit::Global {
            (1, cpus)
        } else {
            (cpus, 1)
        };
        Self {
            fit,
            server,
            capacity: most_ppm * (PARTS / WHOLE_PPM),
            queues: vec![BTreeSet::new(); queues],
            load: vec![0; queues],
            bonus: vec![Bonus::new(each); queues],
            reserved: Vec::new(),
            background: Wrr::default(),
        }
    }

    /// The queue for a new reservation, if there is one.
    fn place(&self, core: &Core, id: TaskId, bandwidth: u64) -> Option<usize> {
        if self.fit == Fit::Global {
            return Some(0);
        }
        let allowed = &core.tasks[id].allowed;
        let fits = |&cpu: &usize| {
            allowed.has(cpu) && self.load[cpu].saturating_add(bandwidth) <= self.capacity
        };
        let mut fitting = (0..self.queues.len()).filter(fits);
        match self.fit {
            Fit::Worst => fitting.min_by_key(|&cpu| self.load[cpu]),
            _ => fitting.next(),
        }
    }

    fn forget(&mut self, id: TaskId) {
        if let Some(old) = self.reserved[id].take() {
            self.load[old.queue] -= old.server.bandwidth(PARTS);
        }
    }

    /// A runnable reserved task is inserted into its queue, or waits for its next period.
    fn enqueue(&mut self, core: &mut Core, id: TaskId) {
        let Some(r) = &mut self.reserved[id] else {
            return;
        };
        if r.server.budget == 0 {
            if self.server == Server::Hard && r.server.deadline > core.now {
                r.throttled = true;
                core.alarm(r.server.deadline, id as u64);
                return;
            }
            r.server.exhausted(core.now);
        }
        self.queues[r.queue].insert((r.server.deadline, id));
    }

    /// A task's job is completed: give its slack to another task, by the rules of `fcbs.rs`.
    fn pass_on(&mut self, core: &mut Core, id: TaskId) {
        let Some(giver) = &mut self.reserved[id] else {
            return;
        };
        let (now, queue) = (core.now, giver.queue);
        let Some((slack, deadline)) = giver.server.complete(now) else {
            return;
        };
        let late = |id: TaskId| {
            let r = self.reserved[id].as_ref().filter(|r| r.queue == queue)?;
            let may = r.server.overruns(now) && r.server.deadline >= deadline;
            may.then_some((r.server.deadline, id))
        };
        let running = core.cpus.iter().filter_map(|cpu| cpu.curr);
        let waiting = self.queues[queue].iter().map(|&(_, id)| id);
        if let Some((own, k)) = running.chain(waiting).filter_map(late).min() {
            self.lend(core, k, own, (slack, deadline));
            return;
        }
        let next = self.queues[queue].range((deadline, 0)..).next();
        match next.and_then(|&(_, j)| self.reserved[j].as_mut()) {
            Some(next) => next.server.budget += slack,
            None => self.bonus[queue].keep(now, slack, deadline),
        }
    }

    /// The runnable task `k`, whose own deadline is `own`, goes on with `slack`: (ns, deadline).
    fn lend(&mut self, core: &mut Core, k: TaskId, own: u64, slack: (u64, u64)) {
        let Some(r) = &mut self.reserved[k] else {
            return;
        };
        let uncharged = core.running(k).map_or(0, |cpu| core.uncharged(cpu));
        r.server.borrow(slack.0, slack.1, uncharged);
        if self.queues[r.queue].remove(&(own, k)) {
            self.queues[r.queue].insert((slack.1, k));
        }
        // the CPU of `k`, or one whose task `k` may preempt now, has to pick again
        core.alarm(core.now, k as u64);
    }

    /// The deadline of the task that runs on `cpu`. None: the CPU is idle or runs a best-effort
    /// task.
    fn running(&self, core: &Core, cpu: usize) -> Option<u64> {
        let r = self.reserved[core.cpus[cpu].curr?].as_ref()?;
        Some(r.server.deadline)
    }
}

impl Policy for Edf {
    fn new_task(&mut self, core: &mut Core, id: TaskId) {
        self.reserved.push(None);
        self.background.new_task(core, id);
    }

    fn exec(&mut self, core: &mut Core, id: TaskId, wanted: Option<Reservation>) -> bool {
        self.forget(id);
        let Some(wanted) = wanted else { return false };
        let server = Cbs::new(wanted, core.now);
        let bandwidth = server.bandwidth(PARTS);
        let Some(queue) = self.place(core, id, bandwidth) else {
            return false;
        };
        self.load[queue] += bandwidth;
        self.reserved[id] = Some(Reserved {
            server,
            queue,
            throttled: false,
        });
        true
    }

    fn wake(&mut self, core: &mut Core, id: TaskId) {
        match &mut self.reserved[id] {
            Some(r) => {
                r.server.wake(core.now);
                if self.server == Server::Flexible {
                    if r.server.budget == 0 {
                        r.server.exhausted(core.now);
                    }
                    let deadline = r.server.deadline;
                    r.server.budget += self.bonus[r.queue].take(core.now, deadline);
                }
                self.enqueue(core, id);
            }
            None => self.background.wake(core, id),
        }
    }

    fn put(&mut self, core: &mut Core, id: TaskId) {
        match &self.reserved[id] {
            Some(_) => self.enqueue(core, id),
            None => self.background.put(core, id),
        }
    }

    fn sleep(&mut self, core: &mut Core, id: TaskId) {
        if self.reserved[id].is_none() {
            self.background.sleep(core, id);
        } else if self.server == Server::Flexible {
            self.pass_on(core, id);
        }
    }

    fn exit(&mut self, core: &mut Core, id: TaskId) {
        if self.reserved[id].is_none() {
            self.background.exit(core, id);
        }
        self.forget(id);
    }

    fn pick(&mut self, core: &mut Core, cpu: usize) -> Option<TaskId> {
        let queue = if self.fit == Fit::Global { 0 } else { cpu };
        let may = |&&(_, id): &&(u64, TaskId)| core.tasks[id].allowed.has(cpu);
        let first = self.queues[queue].iter().find(may).copied();
        let seat = if self.fit == Fit::Global { cpu } else { 0 };
        self.bonus[queue].runs(core.now, seat, first.map(|(deadline, _)| deadline));
        if let Some(first) = first {
            self.queues[queue].remove(&first);
            return Some(first.1);
        }
        self.background.pick(core, cpu)
    }

    fn rival(&self, core: &Core, id: TaskId) -> Option<usize> {
        let Some(r) = &self.reserved[id] else {
            return self.background.rival(core, id);
        };
        if r.throttled {
            return None;
        }
        if let Some(cpu) = core.running(id) {
            return Some(cpu); // it got slack, so its limit has changed
        }
        if let Some(cpu) = core.idle_for(id) {
            if self.fit == Fit::Global || cpu == r.queue {
                return Some(cpu);
            }
        }
        // preempt a best-effort task if there is one, else the task with the latest deadline
        let deadline = |cpu| self.running(core, cpu).unwrap_or(u64::MAX);
        let (from, to) = match self.fit {
            Fit::Global => (0, core.cpus.len()),
            _ => (r.queue, r.queue + 1),
        };
        let allowed = &core.tasks[id].allowed;
        let latest = (from..to)
            .filter(|&cpu| allowed.has(cpu))
            .max_by_key(|&cpu| (deadline(cpu), core.tasks[id].cpu == Some(cpu)))?;
        (deadline(latest) > r.server.deadline).then_some(latest)
    }

    fn charge(&mut self, core: &Core, id: TaskId, ran: u64) {
        match &mut self.reserved[id] {
            Some(r) => r.server.budget -= ran,
            None => self.background.charge(core, id, ran),
        }
    }

    fn limit(&self, core: &Core, id: TaskId) -> u64 {
        match &self.reserved[id] {
            Some(r) => r.server.budget,
            None => self.background.limit(core, id),
        }
    }

    fn alarm(&mut self, core: &mut Core, what: u64) -> Option<TaskId> {
        let id = what as TaskId;
        let r = self.reserved[id].as_mut()?;
        if r.throttled {
            r.throttled = false;
            self.enqueue(core, id);
            return Some(id);
        }
        let waits = self.queues[r.queue].contains(&(r.server.deadline, id));
        (waits || core.running(id).is_some()).then_some(id)
    }
}
