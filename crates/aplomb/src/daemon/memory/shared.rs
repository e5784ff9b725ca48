//! When the file pages of a program that are charged to others are held (`aplomb_memory::shared`):
//! a moment after it became interactive, when it has mapped what it starts with, and a few times
//! later, ever more seldom. What is held is locked again when the daemon is at work anyway, for the
//! kernel may have put other pages there. Nothing is looked at while nothing changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aplomb_memory::shared::{Most, Shared};
use aplomb_memory::Bytes;
use tracing::warn;

use super::programs::Programs;
use super::Memory;

/// From a program's start to the first time.
const FIRST: Duration = Duration::from_secs(2);
/// From each time to the next, as a multiple of the one before: 2 s, 10 s, 50 s, 250 s after it.
const FACTOR: u32 = 5;
const LAST: Duration = Duration::from_secs(250);
/// Programs that are looked at in one go. Each costs about a millisecond, and the daemon serves its
/// clients and events in between (memory/pace.rs).
const MOST_AT_ONCE: usize = 8;

/// From one time that all is locked again to the next, at least. It costs little: the pages that
/// are locked already are only counted.
const AGAIN: Duration = Duration::from_secs(10);

/// What is held, and when to look for more.
#[derive(Debug, Default)]
pub struct Holding {
    shared: Shared,
    /// By process id: when, and the time after which that is.
    due: BTreeMap<i32, (Instant, Duration)>,
    /// Not before this is all locked again.
    again: Option<Instant>,
}

impl Holding {
    /// Process `pid` is protected, or runs again after its period.
    pub fn begin(&mut self, pid: i32, now: Instant) {
        self.due.insert(pid, (now + FIRST, FIRST));
    }

    /// Process `pid` is protected no longer.
    pub fn release(&mut self, pid: i32) {
        self.due.remove(&pid);
        self.shared.release(pid);
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.due.values().map(|(at, _)| *at).min()
    }

    /// What is held, in all.
    pub fn bytes(&self) -> Bytes {
        self.shared.bytes()
    }

    /// The processes that are due, at most [`MOST_AT_ONCE`]. Each is due again later, or never.
    fn take_due(&mut self, now: Instant) -> Vec<i32> {
        let due = self.due.iter().filter(|(_, (at, _))| *at <= now);
        let due: Vec<i32> = due.map(|(pid, _)| *pid).take(MOST_AT_ONCE).collect();
        for pid in &due {
            let after = self.due.remove(pid).map(|(_, after)| after * FACTOR);
            if let Some(after) = after.filter(|after| *after <= LAST) {
                self.due.insert(*pid, (now + after, after));
            }
        }
        due
    }

    fn hold(&mut self, now: Instant, programs: &Programs, most: Most) {
        let mut complaints = Vec::new();
        if self.again.is_none_or(|at| at <= now) {
            complaints = self.shared.lock_again();
            self.again = Some(now + AGAIN);
        }
        let due = self.take_due(now).into_iter();
        let due = due.filter_map(|pid| Some((pid, programs.get(pid)?.uid)));
        complaints.extend(self.shared.hold(&due.collect::<Vec<_>>(), most));
        for complaint in complaints {
            warn!("not all file pages of a program are kept: {complaint}");
        }
    }
}

impl Memory {
    /// Hold what is due, and no longer what idle programs have. `looked`: some working set was due
    /// for a look.
    pub(super) fn hold_shared(&mut self, now: Instant, looked: bool) {
        let Some(protector) = &self.protector else {
            return;
        };
        if looked {
            for pid in self.holding.shared.holders() {
                let kept = self.programs.get(pid);
                if kept.is_none_or(|k| protector.keeps_nothing(&k.domain)) {
                    self.holding.release(pid);
                }
            }
        }
        let most = Most {
            all: self.share(self.config.limit_ppm / PART),
            user: self.share(self.config.user_limit_ppm / PART),
        };
        self.holding.hold(now, &self.programs, most);
    }
}

/// The part of a cap that may be held: a quarter. Locked pages are not in the domains that the caps
/// count, and code is the smaller part of a program.
const PART: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_at_four_times() {
        let (mut holding, start) = (Holding::default(), Instant::now());
        assert_eq!(holding.deadline(), None);
        holding.begin(7, start);
        let mut times = Vec::new();
        while let Some(at) = holding.deadline() {
            assert!(holding.take_due(at - Duration::from_millis(1)).is_empty());
            assert_eq!(holding.take_due(at), [7]);
            times.push(at.duration_since(start).as_secs());
        }
        assert_eq!(times, [2, 12, 62, 312]);
        holding.begin(7, start);
        holding.release(7);
        assert_eq!(holding.deadline(), None);
    }

    #[test]
    fn of_many_that_are_due_a_few_are_looked_at_in_one_go() {
        let (mut holding, start) = (Holding::default(), Instant::now());
        let many = MOST_AT_ONCE as i32 + 1;
        (1..=many).for_each(|pid| holding.begin(pid, start));
        assert_eq!(holding.take_due(start + FIRST).len(), MOST_AT_ONCE);
        assert_eq!(
            holding.deadline(),
            Some(start + FIRST),
            "the others are due at once"
        );
        assert_eq!(holding.take_due(start + FIRST), [many]);
    }
}
