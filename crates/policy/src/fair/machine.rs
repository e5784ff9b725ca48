//! A virtual machine for the theorems: N CPUs and one queue by virtual time, as in
//! `bpf/tree/place.bpf.h`.
//!
//! A task is placed when it is queued. When it begins to run, the queue's virtual time advances to
//! the task's. When it stops (at the end of its slice, or when its work is done and it sleeps), it
//! is charged; if it sleeps and none waits, the queue is told. Tasks with equal
//! virtual times run in the order of arrival, as in a dispatch queue of the kernel.

use super::{cost, debt, Queue};

/// Slice, ns (`FAIR_SLICE_NS`).
pub const SLICE: u64 = 4_000_000;

/// What a task does repeatedly.
#[derive(Clone, Copy, Debug)]
pub enum Life {
    /// Works all the time.
    Hog,
    /// Works and then sleeps, ns.
    Sleeper { work: u64, sleep: u64 },
    /// Works and exits; a child takes its place at once. ns.
    Forker { work: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Queued { arrival: u64 },
    Running { since: u64, until: u64 },
    Asleep { until: u64 },
}

#[derive(Clone, Debug)]
pub struct Task {
    pub weight: u32,
    pub life: Life,
    pub vtime: u64,
    /// CPU time of the task and of the children that took its place, ns.
    pub served: u64,
    left: u64,
    state: State,
}

pub struct Machine {
    pub tasks: Vec<Task>,
    pub now: u64,
    /// The virtual time of a new child in a queue.
    pub child: fn(&Queue) -> u64,
    /// Slices, used in rotation: reserved work may cut any slice short.
    pub slices: Vec<u64>,
    queue: Queue,
    cpus: usize,
    arrivals: u64,
    turn: usize,
}

impl Machine {
    pub fn new(cpus: usize) -> Self {
        Machine {
            tasks: Vec::new(),
            now: 0,
            child: Queue::start,
            slices: vec![SLICE],
            queue: Queue::default(),
            cpus,
            arrivals: 0,
            turn: 0,
        }
    }

    /// Queues a new task. Returns its index.
    pub fn add(&mut self, weight: u32, life: Life) -> usize {
        self.add_at(weight, life, (self.child)(&self.queue))
    }

    /// Queues a task that has run before and has the virtual time `vtime`. Returns its index.
    pub fn add_at(&mut self, weight: u32, life: Life, vtime: u64) -> usize {
        self.tasks.push(Task {
            weight,
            life,
            vtime,
            served: 0,
            left: work(life),
            state: State::Asleep { until: 0 },
        });
        let i = self.tasks.len() - 1;
        self.enqueue(i);
        i
    }

    /// The queue's virtual time.
    pub fn queue_now(&self) -> u64 {
        self.queue.now
    }

    /// Queues a task as `fair_enqueue` does: places it, and limits its debt by the queue's length.
    fn enqueue(&mut self, i: usize) {
        let waiting = self.tasks.iter().filter(|t| queued(t)).count() as u64;
        let task = &self.tasks[i];
        let mut v = self.queue.place(task.vtime, task.weight);
        if v > self.queue.now + SLICE {
            v = v.min(self.queue.now + debt(waiting, task.weight));
        }
        self.tasks[i].vtime = v;
        self.arrivals += 1;
        self.tasks[i].state = State::Queued {
            arrival: self.arrivals,
        };
    }

    fn dispatch(&mut self) {
        let mut running = self
            .tasks
            .iter()
            .filter(|t| matches!(t.state, State::Running { .. }))
            .count();
        while running < self.cpus {
            let next = (0..self.tasks.len())
                .filter(|&i| queued(&self.tasks[i]))
                .min_by_key(|&i| match self.tasks[i].state {
                    State::Queued { arrival } => (self.tasks[i].vtime, arrival),
                    _ => unreachable!("filtered above"),
                });
            let Some(i) = next else { return };
            let slice = self.slices[self.turn % self.slices.len()];
            self.turn += 1;
            let t = &mut self.tasks[i];
            self.queue.begins(t.vtime);
            t.state = State::Running {
                since: self.now,
                until: self.now + slice.min(t.left),
            };
            running += 1;
        }
    }

    fn stop(&mut self, i: usize, since: u64) {
        let none_waits = !self.tasks.iter().any(queued);
        let t = &mut self.tasks[i];
        let ran = self.now - since;
        t.vtime += cost(ran, t.weight);
        self.queue.ran(t.vtime);
        t.served += ran;
        t.left -= ran;
        if t.left > 0 {
            return self.enqueue(i);
        }
        t.left = work(t.life);
        match t.life {
            Life::Sleeper { sleep, .. } => {
                if none_waits {
                    self.queue.none_waits();
                }
                t.state = State::Asleep {
                    until: self.now + sleep,
                }
            }
            Life::Forker { .. } => {
                t.vtime = (self.child)(&self.queue);
                self.enqueue(i);
            }
            Life::Hog => self.enqueue(i),
        }
    }

    /// One step: CPUs choose tasks, time advances to the next event, and tasks stop or wake up.
    pub fn step(&mut self) {
        self.dispatch();
        let due = |t: &Task| match t.state {
            State::Running { until, .. } | State::Asleep { until } => Some(until),
            State::Queued { .. } => None,
        };
        let Some(next) = self.tasks.iter().filter_map(due).min() else {
            return;
        };
        self.now = next;
        for i in 0..self.tasks.len() {
            match self.tasks[i].state {
                State::Running { since, until } if until == next => self.stop(i, since),
                State::Asleep { until } if until <= next => self.enqueue(i),
                _ => {}
            }
        }
    }

    pub fn run(&mut self, end: u64) {
        while self.now < end {
            self.step();
        }
    }
}

fn queued(t: &Task) -> bool {
    matches!(t.state, State::Queued { .. })
}

fn work(life: Life) -> u64 {
    match life {
        Life::Hog => u64::MAX,
        Life::Sleeper { work, .. } | Life::Forker { work } => work,
    }
}
