//! How much of a domain's memory to protect, and when to look again. Pure: time and measurements
//! come in as arguments.
//!
//! Theory:
//!
//! 1. **Why.** An interactive program sleeps while its user thinks. The kernel takes the pages
//!    that were not used for the longest time, whatever program they belong to. So one program
//!    that reads much memory takes the pages of all programs that sleep, and the next key press
//!    waits for the disk.
//! 2. **Rule** (Redline section 4). A page of an interactive program is given up only when it has
//!    not been used for the *protection period* pi; then it is *expired*. Redline's default is 30
//!    minutes. Kato section 6.2 is the same rule with a shorter pi: 10 T, ten periods of the task.
//! 3. **Means.** A stock kernel does not know pi. It has `memory.min`, an amount: reclaim leaves a
//!    cgroup alone while the cgroup uses less. Above it, reclaim takes the cgroup's oldest pages
//!    first. So an amount of `usage - expired` protects just the pages that are younger than pi.
//!    `memory.low` is too weak: the multi-generational LRU comes back to such a cgroup once it has
//!    tried the others of its turn (shrink_one() in `mm/vmscan.c`). Beside four programs that wrote
//!    to more memory than there was, a program that slept for 8 s lost 909 of its pages so. The
//!    price of memory.min: if all that is left is protected, the kernel kills a program. So the
//!    caller caps the protection ([`crate::Protector::cap`]).
//! 4. **Whole.** While no page is expired, `memory.min` is "max". The kernel protects
//!    min(usage, memory.min), so this costs nothing, and each new page is protected at once.
//! 5. **Headroom.** Once pages are expired, the domain may still use new pages, or expired pages
//!    again, before the next look. The protection has room for that: what the usage or the working
//!    set grew by since the last look, at least 1/8 of the usage, at least 8 MB. If more is used
//!    than that, as many of the oldest pages of the working set are without protection until the
//!    next look.
//! 6. **Idle.** If no task of the domain ran for pi, all its pages are expired. It is *withdrawn*:
//!    no protection, and no look until it runs again. So a machine on which nothing runs has no
//!    wake-ups from here.
//! 7. **Age, then count.** The ages show a use only after the next aging. So a look first creates
//!    a generation, then counts. If no task ran since the last look, no page was used since, and
//!    the generations of that look suffice.
//! 8. **When to look.** Each 9/16 pi while tasks of the domain ran since the last look. If none
//!    ran, pi after the last use, to withdraw. Between the looks there is a *check* each 1/16 pi,
//!    which costs one read of a file: did a task run? So the last use is known to 1/16 pi, and the
//!    protection of an idle program ends that much late at most. Why 9/16: the kernel keeps at most
//!    four generations. Right after a look they are 0, 9/16, 18/16 and 27/16 pi old, so the fourth
//!    one holds the pages that were last used 18/16 pi ago or earlier, and is expired. With steps
//!    of pi/2 that would be exactly pi, and a late timer or a tick of 10 ms would hide it. So a
//!    page is found expired between pi and 27/16 pi after its last use, and never before pi.
//!    Under pressure the kernel creates generations on its own, and the four may cover less than
//!    pi. Then nothing is found expired: the protection errs towards too much.
//! 9. **Return.** When a withdrawn domain runs again, all of it is protected at once, and a
//!    generation is created. So the pages that are used from then on can be told from the others,
//!    which are found expired at the second look.
//!
//! ```text
//!                      a look finds expired pages
//!     +-------------+ ----------------------------> +-------------+
//!     | Young       |                               | Aged        |
//!     | Whole       | <---------------------------- | Bytes       |
//!     +-------------+      a look finds none        +-------------+
//!        |       ^                                         |
//!        |       | used()                                  |
//!        v       |                                         |
//!     +-------------+   no task ran for pi (both ways)     |
//!     | Withdrawn   | <------------------------------------+
//!     | None        |
//!     +-------------+
//! ```

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cgroup::{Bytes, Limit};

/// Redline's protection period: a user has to leave a program alone for long before it loses pages.
pub const DEFAULT_PI: Duration = Duration::from_secs(30 * 60);
/// The shortest protection period; a shorter one counts as this. Its looks are 140 ms apart, and
/// the last one follows 109 ms after the one before it, so none is closer than [`MIN_STEP`].
pub const MIN_PI: Duration = Duration::from_millis(250);
/// The longest protection period; a longer one counts as this. Times that are computed from it fit
/// into [`Instant`].
pub const MAX_PI: Duration = Duration::from_secs(366 * 24 * 3600);
/// The shortest time between two looks: each walks the page tables of the domain's programs.
pub const MIN_STEP: Duration = Duration::from_millis(100);
/// The least headroom: as much as the reserve of free memory that Redline keeps for interactive
/// programs.
pub const MIN_HEADROOM: Bytes = Bytes(8 << 20);

/// How much of a domain is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// Nothing by us: memory.min has its old value.
    None,
    /// This much, a multiple of the page size.
    Bytes(Bytes),
    /// All that it uses, now and until the next look.
    Whole,
}

impl Protection {
    /// The value of memory.min that protects this much.
    pub fn limit(self) -> Limit {
        match self {
            Self::None => Limit::ZERO,
            Self::Bytes(bytes) => Limit::Bytes(bytes),
            Self::Whole => Limit::Max,
        }
    }
}

/// What a look finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observation {
    /// Memory that the domain uses.
    pub usage: Bytes,
    /// The part of it that was not used for pi. Zero where there are no ages: then all memory of a
    /// domain that ran within pi counts as young.
    pub expired: Bytes,
}

/// What follows from a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub protection: Protection,
    /// Create a new generation now: the domain returns.
    pub age: bool,
    /// None: no look is due until the domain runs again.
    pub next_look: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No page is known to be expired.
    Young,
    /// Some pages are expired.
    Aged,
    /// No task ran for pi.
    Withdrawn,
}

/// The working set of one domain.
#[derive(Debug, Clone)]
pub struct WorkingSet {
    pi: Duration,
    page_size: Bytes,
    state: State,
    /// No task of the domain is known to have run later.
    last_use: Instant,
    /// `used` was called since the last look.
    used_since: bool,
    /// The usage and the working set that the last look found.
    last: Option<(Bytes, Bytes)>,
    protection: Protection,
    next_look: Option<Instant>,
    /// Counts while a look is planned.
    next_check: Instant,
}

impl WorkingSet {
    /// A domain that runs now. A period out of bounds counts as [`MIN_PI`] or [`MAX_PI`]. It is not
    /// aged: most domains are new, with no page to tell from others, and reading the generations
    /// costs time for each cgroup of the machine.
    pub fn new(pi: Duration, page_size: Bytes, now: Instant) -> (Self, Decision) {
        let mut new = Self {
            pi: pi.clamp(MIN_PI, MAX_PI),
            page_size,
            state: State::Withdrawn,
            last_use: now,
            used_since: false,
            last: None,
            protection: Protection::None,
            next_look: None,
            next_check: now,
        };
        let mut decision = new.wake(now);
        decision.age = false;
        (new, decision)
    }

    /// The protection period.
    pub fn pi(&self) -> Duration {
        self.pi
    }

    /// The protection in force.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// The working set that the last look found; None before the first one.
    pub fn size(&self) -> Option<Bytes> {
        self.last.map(|(_, young)| young)
    }

    /// When to look next. None for a withdrawn domain.
    pub fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// When something is due: a look or a check. None for a withdrawn domain.
    pub fn next_due(&self) -> Option<Instant> {
        self.next_look.map(|look| look.min(self.next_check))
    }

    /// True if [`WorkingSet::used`] was called since the last look, or a check found a use.
    pub fn was_used(&self) -> bool {
        self.used_since
    }

    /// What is due begins. True: a look; false: a check alone. The next ones are planned, so that
    /// one that fails is not repeated at once.
    pub fn begin(&mut self, now: Instant) -> bool {
        let is_look = self.next_look.is_some_and(|at| at <= now);
        self.next_check = now + self.check_step();
        if is_look {
            self.skip(now);
        }
        is_look
    }

    /// A check has found whether a task of the domain ran since the last check.
    pub fn check(&mut self, now: Instant, ran: bool) {
        if ran && self.state != State::Withdrawn {
            self.used_since = true;
            // When it ran last is not known, so it counts as now.
            self.last_use = self.last_use.max(now);
            self.look_until(now + self.step());
        }
    }

    /// A task of the domain runs. Returns a decision if the domain was withdrawn.
    pub fn used(&mut self, now: Instant) -> Option<Decision> {
        if self.state == State::Withdrawn {
            return Some(self.wake(now));
        }
        self.used_since = true;
        self.last_use = self.last_use.max(now);
        // The look may have been planned for the withdrawal, which is later.
        self.look_until(now + self.step());
        None
    }

    /// Decide by what a look has found, after its check. A look before its time is allowed. A
    /// withdrawn domain stays so: it returns by [`WorkingSet::used`].
    pub fn look(&mut self, now: Instant, seen: Observation) -> Decision {
        if self.state == State::Withdrawn {
            return self.decision(false);
        }
        let ran = std::mem::take(&mut self.used_since);
        let expired = seen.expired.min(seen.usage);
        let young = Bytes(seen.usage.0 - expired.0);
        if now.saturating_duration_since(self.last_use) >= self.pi {
            self.state = State::Withdrawn;
            self.protection = Protection::None;
            self.next_look = None;
            self.last = Some((seen.usage, Bytes(0)));
            return self.decision(false);
        }
        if expired.0 == 0 {
            self.state = State::Young;
            self.protection = Protection::Whole;
        } else {
            self.state = State::Aged;
            let bytes = young.0.saturating_add(self.headroom(seen.usage, young).0);
            self.protection = Protection::Bytes(round_up(Bytes(bytes), self.page_size));
        }
        self.last = Some((seen.usage, young));
        let withdrawal = (self.last_use + self.pi).max(now + MIN_STEP);
        self.next_look = Some(withdrawal);
        if ran {
            self.look_until(now + self.step());
        }
        self.decision(false)
    }

    /// A look found nothing, because a file could not be read. The protection stays.
    pub fn skip(&mut self, now: Instant) {
        if self.state != State::Withdrawn {
            self.next_look = Some(now + self.step());
        }
    }

    /// Take another protection period. The next look is at most one of its steps away.
    pub fn set_pi(&mut self, pi: Duration, now: Instant) {
        self.pi = pi.clamp(MIN_PI, MAX_PI);
        self.look_until(now + self.step());
    }

    fn look_until(&mut self, latest: Instant) {
        self.next_look = self.next_look.map(|at| at.min(latest));
    }

    fn wake(&mut self, now: Instant) -> Decision {
        self.state = State::Young;
        self.protection = Protection::Whole;
        self.last_use = self.last_use.max(now);
        self.used_since = true;
        self.last = None;
        self.next_look = Some(now + self.step());
        self.next_check = now + self.check_step();
        self.decision(true)
    }

    /// The time from a look to the next one of a domain that runs.
    fn step(&self) -> Duration {
        self.pi * 9 / 16
    }

    /// The time from a check to the next one.
    fn check_step(&self) -> Duration {
        (self.pi / 16).max(MIN_STEP)
    }

    fn headroom(&self, usage: Bytes, young: Bytes) -> Bytes {
        let (usage_before, young_before) = self.last.unwrap_or((usage, young));
        let growth = usage.0.saturating_sub(usage_before.0);
        let growth = growth.max(young.0.saturating_sub(young_before.0));
        MIN_HEADROOM.max(Bytes(growth)).max(Bytes(usage.0 / 8))
    }

    fn decision(&self, age: bool) -> Decision {
        Decision {
            protection: self.protection,
            age,
            next_look: self.next_look,
        }
    }
}

/// The next multiple of `page`, or `bytes` if there is none.
fn round_up(bytes: Bytes, page: Bytes) -> Bytes {
    let rounded = bytes.0.checked_next_multiple_of(page.0.max(1));
    Bytes(rounded.unwrap_or(bytes.0))
}

#[cfg(test)]
mod tests;
