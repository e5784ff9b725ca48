//! The latest decisions of the kernel side, kept in memory for `aplomb log`.

use std::collections::VecDeque;

use aplomb_kernel::Event;

/// Events that are kept. A new event replaces the oldest one. 72 bytes each: 4.5 MB.
pub const CAPACITY: usize = 65_536;

/// A queue of events. Each has a number that never changes; the first event has 0.
#[derive(Debug)]
pub struct History {
    events: VecDeque<Event>,
    capacity: usize,
    /// Number of the oldest event in the queue.
    first: u64,
}

impl Default for History {
    fn default() -> Self {
        Self::with_capacity(CAPACITY)
    }
}

impl History {
    /// An empty history of at most `capacity` events.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            events: VecDeque::new(),
            capacity,
            first: 0,
        }
    }

    pub fn push(&mut self, event: Event) {
        if self.events.len() == self.capacity {
            self.events.pop_front();
            self.first += 1;
        }
        self.events.push_back(event);
    }

    /// Number of the oldest event.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of the next event to come.
    pub fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// The event of a number. None if it was dropped or has not come yet.
    pub fn get(&self, number: u64) -> Option<&Event> {
        self.events
            .get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Number of the first event at or after `time_ns` (CLOCK_MONOTONIC). Events of different CPUs
    /// can be out of order by microseconds. This is not corrected.
    pub fn since(&self, time_ns: u64) -> u64 {
        self.first + self.events.partition_point(|e| e.time_ns < time_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::event;

    #[test]
    fn numbers_stay_when_old_events_go() {
        let mut history = History::with_capacity(3);
        for t in 0..5 {
            history.push(event(t, 1));
        }
        assert_eq!((history.first(), history.end()), (2, 5));
        assert!(history.get(1).is_none());
        assert_eq!(history.get(2).unwrap().time_ns, 2);
        assert!(history.get(5).is_none());
        assert_eq!(
            (history.since(3), history.since(0), history.since(99)),
            (3, 2, 5)
        );
    }
}
