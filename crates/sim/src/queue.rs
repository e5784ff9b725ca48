//! Dispatch queues, ordered by virtual time. A FIFO queue has all tasks at virtual time 0.
//!
//! A queue is a list of short runs of entries in descending order. Its head is the last entry of
//! the last run, so taking the head moves no entries. An insertion searches the runs by their last
//! entries, then within one run, and moves half a run on average. The entries of a run are
//! contiguous in memory: with 100,000 tasks cache misses dominate.

use crate::task::TaskId;

/// A task's position in a queue: [`key`] of its virtual time, then its insertion number.
pub(crate) type Seat = (u64, u64);

/// Longest run of entries.
const RUN: usize = 64;
/// Queues in one page of the table.
const PAGE: usize = 1024;
/// Queue numbers of the scheduler are below this; a queue with a higher number cannot be created.
const MOST: u64 = 1 << 26;
/// `SCX_DSQ_GLOBAL`. It is stored as queue 0, a number that schedulers do not use.
pub(crate) const GLOBAL: u64 = 1 << 63 | 1;

/// The order of virtual times. They are compared as signed numbers, so they may be below 0.
fn key(vtime: u64) -> u64 {
    vtime.wrapping_add(1 << 63)
}

/// One queue.
#[derive(Default)]
pub(crate) struct Queue {
    /// No run is empty. Runs, and the entries in each, are in descending order.
    runs: Vec<Vec<(Seat, TaskId)>>,
    /// The least seat of each run, which is that of its last entry.
    firsts: Vec<Seat>,
    len: usize,
}

impl Queue {
    /// The run in which `seat` is, or would be.
    fn run_of(&self, seat: Seat) -> usize {
        let after = self.firsts.partition_point(|&first| first > seat);
        after.min(self.runs.len().saturating_sub(1))
    }

    fn insert(&mut self, seat: Seat, task: TaskId) {
        self.len += 1;
        if self.runs.is_empty() {
            self.runs.push(Vec::with_capacity(RUN));
            self.firsts.push(seat);
        }
        let mut r = self.run_of(seat);
        if self.runs[r].len() == RUN {
            let mut run = Vec::with_capacity(RUN);
            run.extend(self.runs[r].drain(RUN / 2..));
            self.firsts[r] = self.runs[r][RUN / 2 - 1].0;
            self.firsts.insert(r + 1, run[run.len() - 1].0);
            self.runs.insert(r + 1, run);
            r = self.run_of(seat);
        }
        let run = &mut self.runs[r];
        let at = run.partition_point(|&(other, _)| other > seat);
        run.insert(at, (seat, task));
        self.firsts[r] = run[run.len() - 1].0;
    }

    fn remove(&mut self, seat: Seat) {
        if self.runs.is_empty() {
            return;
        }
        let r = self.run_of(seat);
        let run = &mut self.runs[r];
        let at = run.partition_point(|&(other, _)| other > seat);
        if run.get(at).is_none_or(|entry| entry.0 != seat) {
            return;
        }
        run.remove(at);
        self.len -= 1;
        match run.last() {
            Some(first) => self.firsts[r] = first.0,
            None => {
                self.runs.remove(r);
                self.firsts.remove(r);
            }
        }
    }

    fn next(&self, after: Option<Seat>) -> Option<(Seat, TaskId)> {
        let Some(after) = after else {
            return self.runs.last()?.last().copied();
        };
        let r = self.firsts.partition_point(|&first| first > after);
        let here = self.runs.get(r).and_then(|run| {
            let at = run.partition_point(|&(other, _)| other > after);
            run[..at].last()
        });
        here.or_else(|| self.runs[..r].last()?.last()).copied()
    }

    fn previous(&self, before: Option<Seat>) -> Option<(Seat, TaskId)> {
        let Some(before) = before else {
            return self.runs.first()?.first().copied();
        };
        let run = self
            .runs
            .get(self.firsts.partition_point(|&first| first >= before))?;
        run.get(run.partition_point(|&(other, _)| other >= before))
            .copied()
    }
}

/// All queues of the scheduler, in a table of two levels by number.
#[derive(Default)]
pub(crate) struct Queues {
    pages: Vec<Vec<Option<Queue>>>,
    entered: u64,
}

fn place(id: u64) -> (usize, usize) {
    let id = if id == GLOBAL { 0 } else { id };
    ((id / PAGE as u64) as usize, (id % PAGE as u64) as usize)
}

impl Queues {
    /// Create a queue. False: it exists, or its number is too high.
    pub fn create(&mut self, id: u64) -> bool {
        if id != GLOBAL && id >= MOST {
            return false;
        }
        let (page, at) = place(id);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, Vec::new);
        }
        let page = &mut self.pages[page];
        if page.len() <= at {
            page.resize_with(at + 1, || None);
        }
        let free = page[at].is_none();
        if free {
            page[at] = Some(Queue::default());
        }
        free
    }

    fn get(&self, id: u64) -> Option<&Queue> {
        let (page, at) = place(id);
        self.pages.get(page)?.get(at)?.as_ref()
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Queue> {
        let (page, at) = place(id);
        self.pages.get_mut(page)?.get_mut(at)?.as_mut()
    }

    pub fn len(&self, id: u64) -> Option<usize> {
        self.get(id).map(|q| q.len)
    }

    /// Insert `task` at `vtime`, behind the tasks with the same `vtime`. Returns its seat.
    pub fn insert(&mut self, id: u64, task: TaskId, vtime: u64) -> Option<Seat> {
        self.entered += 1;
        let seat = (key(vtime), self.entered);
        self.get_mut(id)?.insert(seat, task);
        Some(seat)
    }

    /// Number of insertions so far, in all queues. Later insertions have a higher number in their
    /// seats.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    pub fn remove(&mut self, id: u64, seat: Seat) {
        if let Some(queue) = self.get_mut(id) {
            queue.remove(seat);
        }
    }

    /// The first task after `after` (None: the first of all).
    pub fn next(&self, id: u64, after: Option<Seat>) -> Option<(Seat, TaskId)> {
        self.get(id)?.next(after)
    }

    /// The last task before `before` (None: the last of all).
    pub fn previous(&self, id: u64, before: Option<Seat>) -> Option<(Seat, TaskId)> {
        self.get(id)?.previous(before)
    }

    /// All queues with their tasks, for the invariants.
    pub fn all(&self) -> impl Iterator<Item = (u64, TaskId)> + '_ {
        let numbered = self.pages.iter().enumerate().flat_map(|(p, page)| {
            let first = (p * PAGE) as u64;
            (first..).zip(page)
        });
        numbered.flat_map(|(id, queue)| {
            let id = if id == 0 { GLOBAL } else { id };
            let tasks = queue.iter().flat_map(|q| q.runs.iter().flatten());
            tasks.map(move |&(_, task)| (id, task))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The order is that of a sorted map, with many and with few tasks of the same virtual
        /// time.
        #[test]
        fn a_queue_is_ordered_by_virtual_time_then_insertion(
            times in 1u64..2000,
            steps in prop::collection::vec((any::<u64>(), 0u8..4), 1..1500),
        ) {
            let mut queues = Queues::default();
            assert!(queues.create(GLOBAL) && queues.create(70_000) && !queues.create(70_000));
            let mut model = BTreeMap::new();
            for (task, &(random, action)) in steps.iter().enumerate() {
                if action < 3 {
                    let vtime = (random % times).wrapping_sub(times / 2);
                    let seat = queues.insert(70_000, task, vtime);
                    model.insert(seat.unwrap(), task);
                } else if let Some((&seat, _)) =
                    model.iter().nth(random as usize % (model.len() + 1))
                {
                    queues.remove(70_000, seat);
                    model.remove(&seat);
                }
                prop_assert_eq!(queues.len(70_000), Some(model.len()));
                let first = model.first_key_value().map(|(&s, &t)| (s, t));
                prop_assert_eq!(queues.next(70_000, None), first);
            }
            let mut after = None;
            for (&seat, &task) in &model {
                let found = queues.next(70_000, after);
                prop_assert_eq!(found, Some((seat, task)));
                after = Some(seat);
            }
            prop_assert_eq!(queues.next(70_000, after), None);
            let mut before = None;
            for (&seat, &task) in model.iter().rev() {
                prop_assert_eq!(queues.previous(70_000, before), Some((seat, task)));
                before = Some(seat);
            }
            prop_assert_eq!(queues.previous(70_000, before), None);
            prop_assert_eq!(queues.next(GLOBAL, None), None);
        }
    }
}
