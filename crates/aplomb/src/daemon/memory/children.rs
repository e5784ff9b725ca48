//! Children of interactive programs wait before the daemon looks at them.
//!
//! A child is in its parent's domain, which is protected already. So nothing is lost if the daemon
//! looks at it a little later, and a child that lives for a moment (a compiler's, a shell's) costs
//! it nothing: a program that forks 1,000 times a second would pay for its own protection
//! otherwise.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aplomb_kernel::Event;

/// How long a child waits. Trade: with less, more short-lived children are looked at; with more,
/// the file pages that a child has mapped are held later.
const WAIT: Duration = Duration::from_millis(100);
/// The most that wait. One more is looked at when it comes.
const MOST: usize = 1024;

/// Children that wait, the first one first.
#[derive(Debug, Default)]
pub struct Children(VecDeque<(Instant, Event)>);

impl Children {
    /// The process of `event` became interactive. Returns false if it cannot wait.
    pub fn add(&mut self, event: &Event, now: Instant) -> bool {
        let room = self.0.len() < MOST;
        if room {
            self.0.push_back((now + WAIT, *event));
        }
        room
    }

    /// Process `pid` is not interactive, or was looked at, or has exited.
    pub fn forget(&mut self, pid: i32) {
        self.0.retain(|(_, event)| event.pid != pid);
    }

    /// When the first one has waited; None if none waits.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }

    /// One that has waited until `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<Event> {
        self.deadline().filter(|at| *at <= now)?;
        self.0.pop_front().map(|(_, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::event;

    #[test]
    fn who_lives_on_is_looked_at() {
        let (mut children, start) = (Children::default(), Instant::now());
        assert_eq!(children.deadline(), None);
        assert!(children.add(&event(1, 7), start));
        assert!(children.add(&event(1, 8), start + WAIT / 2));
        children.forget(7);
        assert!(children.take_due(start + WAIT).is_none(), "8 waits");
        assert_eq!(children.deadline(), Some(start + WAIT / 2 + WAIT));
        assert_eq!(children.take_due(start + 2 * WAIT).map(|e| e.pid), Some(8));
        assert_eq!(children.deadline(), None);
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let (mut children, now) = (Children::default(), Instant::now());
        for pid in 0..MOST {
            assert!(children.add(&event(1, pid as i32), now));
        }
        assert!(!children.add(&event(1, 5000), now));
    }
}
