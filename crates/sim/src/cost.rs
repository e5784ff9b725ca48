//! What the scheduler's own work costs, if [`crate::Settings::costs`] says so. Otherwise it takes
//! no time.
//!
//! 1. Why. What a lock costs that all CPUs share cannot be seen in the lab, whose CPUs take turns
//!    on one of the host's. Here it follows from how often the scheduler's source takes which lock,
//!    on machines of any size.
//!
//! 2. Model. A CPU owes the time that its scheduler's work takes and that has not passed yet. Its
//!    task makes no progress meanwhile. A callback takes a fixed time. A lock is free from some
//!    time on: a CPU that comes earlier waits until then. It pays for the cache line if another CPU
//!    had the lock before it, and then holds the lock. The lock of the tree of domains is held for
//!    longer by each round of a loop under it: a round is a step on a walk through the tree, or
//!    along a heap. That of a dispatch queue is held for a fixed time. A word that is changed
//!    atomically is a lock that is held for no time: its cache line costs.
//!
//!    ```text
//!    CPU 0  |--call--|==hold==|
//!    CPU 1     |--call--|.wait.|-line-|==hold==|
//!    ```
//!
//! 3. What is approximate. What a callback does happens at the instant of its event, and its time
//!    passes after that: other CPUs see the result early by as much. CPUs take a lock in the order
//!    of their events, also where one of them, by what it owes, would come later. Nor does a lock
//!    that is wanted by many take longer to change hands. The locks of run queues are not modelled.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::host;
use crate::state::State;

/// How long the scheduler's work takes, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// A callback, without the locks that it takes.
    pub call: u64,
    /// The cache line of a lock, or of a word that is changed atomically, that another CPU had.
    pub line: u64,
    /// How long the lock of the tree of domains is held at least.
    pub tree: u64,
    /// How much longer it is held for each round of a loop.
    pub round: u64,
    /// How long the lock of a dispatch queue is held.
    pub queue: u64,
}

/// Where the CPUs' time went that the scheduler took, ns of all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Waiting for locks.
    pub waiting: u64,
    /// Callbacks, cache lines of locks, and locks that were held.
    pub working: u64,
}

/// A lock that CPUs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lock {
    Tree,
    Queue(u64),
    /// No lock, but a cache line that CPUs change one after the other.
    Line(usize),
}

#[derive(Clone, Copy, Debug)]
struct Held {
    until: u64,
    by: usize,
}

/// The costs, and the locks as they are now.
#[derive(Debug)]
pub(crate) struct Ledger {
    costs: Costs,
    locks: RefCell<HashMap<Lock, Held>>,
    /// Rounds of loops when the lock of the tree was taken.
    rounds: Cell<u64>,
    spent: Cell<Spent>,
}

impl Ledger {
    pub fn new(costs: Costs) -> Self {
        Self {
            costs,
            locks: RefCell::default(),
            rounds: Cell::default(),
            spent: Cell::default(),
        }
    }

    /// CPU `cpu` comes to `lock` at `now`. Returns how long it waits, and how long it works then.
    fn take(&self, lock: Lock, cpu: usize, now: u64) -> Spent {
        let mut locks = self.locks.borrow_mut();
        let held = locks.entry(lock).or_insert(Held { until: 0, by: cpu });
        let waiting = held.until.saturating_sub(now);
        let hold = match lock {
            Lock::Tree => self.costs.tree,
            Lock::Queue(_) => self.costs.queue,
            Lock::Line(_) => 0,
        };
        let working = hold + if held.by == cpu { 0 } else { self.costs.line };
        *held = Held {
            until: now + waiting + working,
            by: cpu,
        };
        Spent { waiting, working }
    }

    pub fn spent(&self) -> Spent {
        self.spent.get()
    }
}

impl State {
    /// The current CPU runs a callback.
    pub fn pay_call(&self) {
        if let Some(ledger) = &self.ledger {
            let working = ledger.costs.call;
            self.owe(ledger, |_, _| Spent {
                waiting: 0,
                working,
            });
        }
    }

    /// The current CPU takes a lock.
    pub fn pay_lock(&self, lock: Lock) {
        if let Some(ledger) = &self.ledger {
            if lock == Lock::Tree {
                ledger.rounds.set(host::rounds());
            }
            self.owe(ledger, |cpu, now| ledger.take(lock, cpu, now));
        }
    }

    /// The current CPU releases the lock of the tree, and has held it for the rounds under it.
    pub fn pay_rounds(&self) {
        if let Some(ledger) = &self.ledger {
            let working = ledger.costs.round * (host::rounds() - ledger.rounds.get());
            if let Some(held) = ledger.locks.borrow_mut().get_mut(&Lock::Tree) {
                held.until += working;
            }
            self.owe(ledger, |_, _| Spent {
                waiting: 0,
                working,
            });
        }
    }

    /// The current CPU owes what `work` says of it and of the time to which it owes already.
    fn owe(&self, ledger: &Ledger, work: impl FnOnce(usize, u64) -> Spent) {
        let cpu = self.cpu.get();
        self.count_run(cpu);
        let owes = &self.cpus[cpu].owes;
        let more = work(cpu, self.now.get() + owes.get());
        owes.set(owes.get() + more.waiting + more.working);
        let mut all = ledger.spent.get();
        all.waiting += more.waiting;
        all.working += more.working;
        ledger.spent.set(all);
    }

    /// Of the last `ran` ns on `cpu`, how many went into what it owed?
    pub fn pay_back(&self, cpu: usize, ran: u64) -> u64 {
        let owes = &self.cpus[cpu].owes;
        let paid = owes.get().min(ran);
        owes.set(owes.get() - paid);
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cache line of a word costs the CPU that takes it from another one, and CPUs that want it
    /// at once come one after the other.
    #[test]
    fn a_word_costs_when_another_cpu_had_it() {
        let ledger = Ledger::new(Costs {
            call: 1,
            line: 100,
            tree: 1,
            round: 1,
            queue: 1,
        });
        let take = |cpu, now| {
            let found = ledger.take(Lock::Line(7), cpu, now);
            (found.waiting, found.working)
        };
        assert_eq!(take(0, 0), (0, 0));
        assert_eq!(take(1, 10), (0, 100));
        assert_eq!(take(1, 200), (0, 0));
        assert_eq!(take(2, 300), (0, 100));
        assert_eq!(take(3, 340), (60, 100));
    }
}
