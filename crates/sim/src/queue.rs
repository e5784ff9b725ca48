//! Dispatch queues: by virtual time (a tree), or first in, first out (the same with a counter for a key).

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::task::TaskId;

/// A map by small numbers or addresses, which nobody hostile chooses; asked for several times an event.
pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Multiplies by an odd constant (2^64 over the golden ratio) and folds the upper half down.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }

    fn write_u64(&mut self, n: u64) {
        let product = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Virtual times wrap; around the time that queues are at they order like this.
fn key(vtime: u64) -> u64 {
    vtime.wrapping_add(1 << 63)
}

/// One queue.
#[derive(Default)]
pub(crate) struct Queue {
    tasks: BTreeMap<(u64, u64), TaskId>,
}

/// All that the scheduler made.
#[derive(Default)]
pub(crate) struct Queues {
    by_id: Numbered<u64, Queue>,
    entered: u64,
}

impl Queues {
    /// A new queue; false if there is one.
    pub fn create(&mut self, id: u64) -> bool {
        self.by_id.insert(id, Queue::default()).is_none()
    }

    pub fn len(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).map(|q| q.tasks.len())
    }

    /// Put `task` in at `vtime`, behind those with the same; its place in the queue.
    pub fn insert(&mut self, id: u64, task: TaskId, vtime: u64) -> Option<(u64, u64)> {
        self.entered += 1;
        let at = (key(vtime), self.entered);
        self.by_id.get_mut(&id)?.tasks.insert(at, task);
        Some(at)
    }

    pub fn remove(&mut self, id: u64, at: (u64, u64)) {
        if let Some(queue) = self.by_id.get_mut(&id) {
            queue.tasks.remove(&at);
        }
    }

    /// The first task after `after` (None: the first of all).
    pub fn next(&self, id: u64, after: Option<(u64, u64)>) -> Option<((u64, u64), TaskId)> {
        let tasks = &self.by_id.get(&id)?.tasks;
        let found = match after {
            None => tasks.iter().next(),
            Some(at) => tasks
                .range((std::ops::Bound::Excluded(at), std::ops::Bound::Unbounded))
                .next(),
        };
        found.map(|(&at, &task)| (at, task))
    }

    /// All queues with their tasks, for the invariants.
    pub fn all(&self) -> impl Iterator<Item = (u64, TaskId)> + '_ {
        self.by_id
            .iter()
            .flat_map(|(&id, q)| q.tasks.values().map(move |&t| (id, t)))
    }
}
