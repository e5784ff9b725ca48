//! When to see again where a program is.
//!
//! A desktop starts a program in its own cgroup first, and moves the program into a unit of its own
//! some milliseconds later. No event tells the daemon. So it *visits* the program: 100 ms after the
//! start, then each time after twice the time, up to every 64 s as long as the program is
//! protected. A program that is in no unit of its own after two minutes will not be moved any more,
//! and is left alone.
//!
//! What the units need (units.rs) is computed in the same rhythm: a program grows most after its
//! start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aplomb_kernel::Event;

use super::Wanted;

/// The first visit; each later one is after twice the time.
const FIRST: Duration = Duration::from_millis(100);
/// The longest time between two visits.
const LAST: Duration = Duration::from_secs(64);
/// Programs that are followed: several times as many as can be protected, since most of those that
/// are not protected are in a session and are forgotten soon.
const MAX_FOLLOWED: usize = 1024;

/// A program that is followed.
#[derive(Debug, Clone, Copy)]
pub struct Follow {
    pub event: Event,
    pi: Duration,
    private: Option<u64>,
    exact: bool,
    inherit: bool,
    revocable: bool,
    /// Time between the last visit and the next one.
    step: Duration,
    /// None: its protection is withdrawn, so no visit is due until it runs again.
    at: Option<Instant>,
}

impl Follow {
    /// How it is to be protected.
    pub fn wanted(&self) -> Wanted<'static> {
        Wanted {
            named: None,
            pi: self.pi,
            private: self.private,
            exact: self.exact,
            own: true,
            inherit: self.inherit,
            revocable: self.revocable,
            starts_others: false,
        }
    }
}

/// The programs that are followed, by process id.
#[derive(Debug, Default)]
pub struct Followed(BTreeMap<i32, Follow>);

impl Followed {
    /// Follow the program of `event`, or begin anew. Beyond [`MAX_FOLLOWED`], it stays where it is
    /// first found.
    pub fn add(&mut self, event: &Event, wanted: &Wanted, now: Instant) {
        if self.0.len() >= MAX_FOLLOWED && !self.0.contains_key(&event.pid) {
            return;
        }
        let follow = Follow {
            event: *event,
            pi: wanted.pi,
            private: wanted.private,
            exact: wanted.exact,
            inherit: wanted.inherit,
            revocable: wanted.revocable,
            step: FIRST,
            at: Some(now + FIRST),
        };
        self.0.insert(event.pid, follow);
    }

    pub fn remove(&mut self, pid: i32) {
        self.0.remove(&pid);
    }

    /// A withdrawn program runs again.
    pub fn returned(&mut self, pid: i32, now: Instant) {
        if let Some(follow) = self.0.get_mut(&pid) {
            follow.at.get_or_insert(now + follow.step);
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(|f| f.at).min()
    }

    /// The programs to visit now, if one is due: also those that would be due within a quarter of
    /// their time, so that many programs cost few wake-ups.
    pub fn due(&self, now: Instant) -> Vec<Follow> {
        if self.deadline().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let due = |f: &&Follow| f.at.is_some_and(|at| at <= now + f.step / 4);
        self.0.values().filter(due).copied().collect()
    }

    /// A program was visited. `protected`: whether its unit is now; None if it has none of its
    /// own.
    pub fn visited(&mut self, pid: i32, protected: Option<bool>, now: Instant) {
        let Some(follow) = self.0.get_mut(&pid) else {
            return;
        };
        let was_last = follow.step >= LAST;
        follow.step = (follow.step * 2).min(LAST);
        match protected {
            None if was_last => drop(self.0.remove(&pid)),
            Some(false) if was_last => follow.at = None,
            _ => follow.at = Some(now + follow.step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::event;

    fn wanted() -> Wanted<'static> {
        Wanted {
            named: None,
            pi: Duration::from_secs(1800),
            private: None,
            exact: true,
            own: true,
            revocable: true,
            inherit: true,
            starts_others: false,
        }
    }

    /// The times of all visits within an hour, if each finds `protected`.
    fn visits(protected: Option<bool>) -> Vec<Duration> {
        let (begin, mut followed) = (Instant::now(), Followed::default());
        followed.add(&event(1, 812), &wanted(), begin);
        let mut times = Vec::new();
        while let Some(at) = followed.deadline() {
            if at > begin + Duration::from_secs(3600) {
                break;
            }
            let due = followed.due(at);
            assert_eq!(due.len(), 1);
            assert!(due[0].wanted().inherit && due[0].wanted().exact);
            times.push(at - begin);
            followed.visited(812, protected, at);
        }
        times
    }

    #[test]
    fn what_has_no_unit_is_forgotten_and_what_is_withdrawn_costs_no_wake_up() {
        let none = visits(None);
        assert_eq!(none[0], FIRST);
        assert!(
            none.len() <= 12 && *none.last().unwrap() <= LAST * 3,
            "{none:?}"
        );
        assert!(visits(Some(false)).len() <= 12);
        let protected = visits(Some(true));
        assert!(protected.windows(2).all(|w| w[1] - w[0] <= LAST));
        assert!(protected.len() <= 12 + 3600 / 64);
    }

    #[test]
    fn a_program_that_returns_is_visited_again() {
        let (now, mut followed) = (Instant::now(), Followed::default());
        followed.add(&event(1, 812), &wanted(), now);
        while followed.deadline().is_some() {
            followed.visited(812, Some(false), now);
        }
        followed.returned(812, now);
        assert_eq!(followed.deadline(), Some(now + LAST));
        followed.remove(812);
        assert_eq!(followed.deadline(), None);
    }

    #[test]
    fn those_that_are_nearly_due_are_visited_together_and_their_number_is_bounded() {
        let (now, mut followed) = (Instant::now(), Followed::default());
        for pid in 0..MAX_FOLLOWED as i32 + 5 {
            let start = now + Duration::from_millis(pid as u64 % 20);
            followed.add(&event(1, pid), &wanted(), start);
        }
        assert_eq!(followed.due(now).len(), 0, "none is due");
        assert_eq!(followed.due(now + FIRST).len(), MAX_FOLLOWED);
    }
}
