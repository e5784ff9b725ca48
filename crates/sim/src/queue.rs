//! Dispatch queues: by virtual time (a tree), or first in, first out (the same with a counter for a key).

use std::collections::{BTreeMap, HashMap};

use crate::task::TaskId;

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
    by_id: HashMap<u64, Queue>,
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
