//! Budgets of owners: how often the daemon works for one user, or writes to the journal about it.
//!
//! An owner is a user id. Root has no budget: the machine is root's. The memory is bounded, however
//! many users there are.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

/// Lines in the journal about one user: this many at once, then one in each [`WARNING_PAUSE`].
pub const WARNINGS: u32 = 10;
pub const WARNING_PAUSE: Duration = Duration::from_secs(10);
/// Owners that are remembered. With more, those whose budget is whole are forgotten, and then new
/// ones have to wait until one is.
const MAX_OWNERS: usize = 4096;

/// A budget of `burst` units for each owner, of which one comes back in each `pause`.
#[derive(Debug)]
pub struct Budget {
    burst: u32,
    pause: Duration,
    /// When the budget is whole again. Owners that are missing have a whole one.
    whole_at: HashMap<u32, Instant>,
}

impl Budget {
    pub fn new(burst: u32, pause: Duration) -> Self {
        Self {
            burst,
            pause,
            whole_at: HashMap::new(),
        }
    }

    /// Is there a place for this owner? Those whose budget is whole are forgotten.
    fn has_room(&mut self, owner: u32, now: Instant) -> bool {
        if self.whole_at.len() < MAX_OWNERS || self.whole_at.contains_key(&owner) {
            return true;
        }
        self.whole_at.retain(|_, at| *at > now);
        self.whole_at.len() < MAX_OWNERS
    }

    /// Take one unit of an owner's budget.
    ///
    /// # Errors
    /// The budget is used up. The error is the time at which there is one unit again.
    pub fn take(&mut self, owner: u32, now: Instant) -> Result<(), Instant> {
        if owner == 0 {
            return Ok(());
        }
        if !self.has_room(owner, now) {
            return Err(now + self.pause);
        }
        let whole_at = self.whole_at.entry(owner).or_insert(now);
        let from = (*whole_at).max(now);
        let most = self.pause * self.burst.saturating_sub(1);
        if from > now + most {
            return Err(from - most);
        }
        *whole_at = from + self.pause;
        Ok(())
    }
}

/// The daemon's time for one user: this much at once, then one part in [`WORK_PART`] of the time
/// that passes. That is half of the daemon's reservation (2ms/50ms in specs/system.toml), so that
/// the other half is left for root.
const WORK_AT_ONCE: Duration = Duration::from_millis(100);
const WORK_PART: u32 = 50;

/// How much the daemon works for each user: what requests cost is measured, so the dear ones (all
/// domains) wait sooner than the cheap ones.
#[derive(Debug)]
pub struct Work(Budget);

impl Default for Work {
    fn default() -> Self {
        Self(Budget::new(1, Duration::ZERO))
    }
}

impl Work {
    /// Is there time for a request of `owner`?
    ///
    /// # Errors
    /// Not before this time.
    pub fn ready(&self, owner: u32, now: Instant) -> Result<(), Instant> {
        let most = WORK_AT_ONCE * WORK_PART;
        match self.0.whole_at.get(&owner) {
            Some(at) if *at > now + most => Err(*at - most),
            _ => Ok(()),
        }
    }

    /// The daemon has worked for `owner` for this long.
    pub fn did(&mut self, owner: u32, cost: Duration, now: Instant) {
        if owner == 0 || !self.0.has_room(owner, now) {
            return;
        }
        let whole_at = self.0.whole_at.entry(owner).or_insert(now);
        *whole_at = (*whole_at).max(now) + cost * WORK_PART;
    }
}

/// The budgets of lines in the journal, and how many lines about an owner are left out now.
struct Warnings {
    budget: Budget,
    left_out: HashMap<u32, u64>,
}

static WARNED: Mutex<Option<Warnings>> = Mutex::new(None);

/// Write a warning about what belongs to `owner` to the journal, within that owner's budget.
pub fn warn_about(owner: u32, message: &str) {
    if let Some(line) = line_about(owner, message, Instant::now()) {
        warn!("{line}");
    }
}

/// The line to write. None if the owner's budget is used up and the journal says so already.
fn line_about(owner: u32, message: &str, now: Instant) -> Option<String> {
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    let warned = warned.get_or_insert_with(|| Warnings {
        budget: Budget::new(WARNINGS, WARNING_PAUSE),
        left_out: HashMap::new(),
    });
    if warned.budget.take(owner, now).is_ok() {
        return Some(match warned.left_out.remove(&owner) {
            Some(n) if n > 1 => format!("{message} (user {owner}: {n} more warnings before)"),
            _ => message.into(),
        });
    }
    if warned.left_out.len() >= MAX_OWNERS && !warned.left_out.contains_key(&owner) {
        return None;
    }
    let left_out = warned.left_out.entry(owner).or_insert(0);
    *left_out += 1;
    (*left_out == 1).then(|| {
        let seconds = WARNING_PAUSE.as_secs();
        format!("{message} (user {owner}: of further warnings one in {seconds} s is written)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_comes_back_with_time() {
        let mut budget = Budget::new(3, Duration::from_secs(2));
        let now = Instant::now();
        for _ in 0..3 {
            assert_eq!(budget.take(7, now), Ok(()));
        }
        let again = now + Duration::from_secs(2);
        assert_eq!(budget.take(7, now), Err(again));
        assert_eq!(budget.take(8, now), Ok(()), "each owner has its own");
        assert_eq!(budget.take(7, again), Ok(()));
        assert!(budget.take(7, again).is_err());
        let later = now + Duration::from_secs(60);
        for _ in 0..3 {
            assert_eq!(budget.take(7, later), Ok(()));
        }
        assert!(budget.take(7, later).is_err(), "and no more than that");
        for _ in 0..100 {
            assert_eq!(budget.take(0, now), Ok(()), "root has none");
        }
    }

    #[test]
    fn one_user_has_a_fiftieth_of_the_daemons_time() {
        let mut work = Work::default();
        let begin = Instant::now();
        let (mut now, mut worked) = (begin, Duration::ZERO);
        let cost = Duration::from_millis(7);
        while now < begin + Duration::from_secs(100) {
            match work.ready(7, now) {
                Ok(()) => {
                    now += cost;
                    worked += cost;
                    work.did(7, cost, now);
                }
                Err(at) => now = at,
            }
        }
        let most = Duration::from_secs(2) + WORK_AT_ONCE + cost;
        assert!(worked <= most && worked > most - 3 * cost, "{worked:?}");
        assert!(work.ready(7, now + Duration::from_secs(5)).is_ok());
        assert_eq!(work.ready(8, now), Ok(()), "each user has an own part");
        work.did(0, Duration::from_secs(9), now);
        assert_eq!(work.ready(0, now), Ok(()), "root has no limit");
    }

    #[test]
    fn owners_without_end_take_no_memory_without_end() {
        let mut budget = Budget::new(1, Duration::from_secs(1));
        let now = Instant::now();
        let taken = (1..=3 * MAX_OWNERS as u32).filter(|o| budget.take(*o, now).is_ok());
        assert_eq!(taken.count(), MAX_OWNERS);
        let later = now + Duration::from_secs(2);
        assert_eq!(budget.take(u32::MAX, later), Ok(()));
        assert_eq!(budget.whole_at.len(), 1);
    }

    #[test]
    fn a_user_fills_no_journal() {
        let (now, user) = (Instant::now(), 4_000_000);
        let lines: Vec<String> = (0..1000)
            .filter_map(|n| line_about(user, &format!("bad {n}"), now))
            .collect();
        assert_eq!(lines.len(), WARNINGS as usize + 1);
        assert!(lines[10].contains("user 4000000"), "{}", lines[10]);
        assert_eq!(line_about(user + 1, "x", now).as_deref(), Some("x"));
        let later = line_about(user, "y", now + WARNING_PAUSE).unwrap();
        assert!(later.contains("990 more warnings"), "{later}");
    }
}
