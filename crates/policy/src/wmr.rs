//! `wmr.h`: EDF-WMR. A reservation that fits on no single CPU is split over several, in windows
//! (Kato, Ishikawa and Rajkumar, section 5).
//!
//! Run time: a [`Split`] beside the [`Server`], whose start, deadline and budget are the current
//! window's. Admission: the [`Roster`] of each CPU has its guarantees, [`Roster::room`] is the room
//! for another.

use crate::edf::{change, Change, Server};

/// CPUs that one reservation may be split over (`WMR_PARTS`).
pub const PARTS: usize = 8;
/// Guaranteed reservations, or parts of them, on one CPU (`WMR_MEMBERS`).
pub const MEMBERS: usize = 32;

/// A reservation over several CPUs (`struct wmr_split`). Times and amounts in ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Q'_x: the budget of window x.
    pub runtime: [u64; PARTS],
    /// CPU of window x.
    pub cpu: [i32; PARTS],
    /// Start of the period.
    pub release: u64,
    /// Time at which its task last went to sleep.
    pub slept_at: u64,
    /// The budget at that time.
    pub kept: i64,
    /// n, 0..=[`PARTS`]; 0: not split.
    pub parts: u32,
    /// Number of the current window, below n.
    pub window: u32,
}

/// A guarantee of a CPU: `runtime` within `window`, once in `period`, ns (`struct wmr_member`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Q'.
    pub runtime: u64,
    /// D: P/n.
    pub window: u64,
    /// P, at least 1 ms.
    pub period: u64,
    /// The server's slot.
    pub slot: u64,
}

/// All guarantees of a CPU (`struct wmr_roster`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// The first `members` of these count.
    pub member: [Member; MEMBERS],
    /// Number of members, up to [`MEMBERS`].
    pub members: u32,
    /// Number of changes.
    pub pad: u32,
}

extern "C" {
    static policy_wmr_least_ns: u64;

    fn policy_wmr_release(w: *mut Split, s: *mut Server, now: u64);
    fn policy_wmr_sleep(w: *mut Split, s: *const Server, now: u64);
    fn policy_wmr_wake(w: *mut Split, s: *mut Server, now: u64);
    fn policy_wmr_assign(w: *mut Split, s: *mut Server, now: u64) -> u32;
    fn policy_wmr_demand(m: *const Member, length: u64) -> u64;
    fn policy_wmr_bandwidth(runtime: u64, period: u64) -> u64;
    fn policy_wmr_promised(r: *const Roster) -> u64;
    fn policy_wmr_room(r: *const Roster, period: u64, window: u64, capacity_ppm: u64) -> u64;
    fn policy_wmr_first(period: u64, cpus: u32) -> u32;
    fn policy_wmr_number(first: u32, i: u32) -> u32;
    fn policy_wmr_offer(w: *mut Split, n: u32, cpu: i32, room: u64);
    fn policy_wmr_complete(w: *mut Split, n: u32, runtime: u64) -> bool;
    fn policy_wmr_join(r: *mut Roster, slot: u64, runtime: u64, window: u64, period: u64);
    fn policy_wmr_leave(r: *mut Roster, slot: u64);
}

/// A part below this is not worth its migration, ns (`WMR_LEAST_NS`).
pub fn least_ns() -> u64 {
    // SAFETY: a constant of shim.c
    unsafe { policy_wmr_least_ns }
}

/// Bandwidth of `runtime` in `period` (ns, not 0), ppm of a CPU, rounded up.
pub fn bandwidth(runtime: u64, period: u64) -> u64 {
    // SAFETY: pure arithmetic on its arguments
    unsafe { policy_wmr_bandwidth(runtime, period) }
}

/// The numbers of windows of a reservation of `period` ns, in the order of attempts on `cpus` CPUs.
pub fn numbers(period: u64, cpus: u32) -> impl Iterator<Item = u32> {
    // SAFETY: pure arithmetic on their arguments
    let first = unsafe { policy_wmr_first(period, cpus) };
    (2..=PARTS as u32)
        .map(move |i| unsafe { policy_wmr_number(first, i) })
        .take_while(move |&n| n <= cpus)
}

// SAFETY, for all below: the C functions touch nothing but what they are given, whose layouts the
// tests compare.
impl Split {
    /// A period begins now, with a full budget.
    pub fn release(&mut self, s: &mut Server, now: u64) {
        unsafe { policy_wmr_release(self, s, now) }
    }

    /// The task goes to sleep; after [`Server::charge`].
    pub fn sleep(&mut self, s: &Server, now: u64) {
        unsafe { policy_wmr_sleep(self, s, now) }
    }

    /// The task wakes up; [`Split::assign`] follows.
    pub fn wake(&mut self, s: &mut Server, now: u64) {
        unsafe { policy_wmr_wake(self, s, now) }
    }

    /// The next window, or period, if the current one is over by budget or by time.
    pub fn assign(&mut self, s: &mut Server, now: u64) -> Change {
        change(unsafe { policy_wmr_assign(self, s, now) })
    }

    /// CPU `cpu` has `room` ns for a part: the `n` largest are kept, the largest first.
    pub fn offer(&mut self, n: u32, cpu: i32, room: u64) {
        unsafe { policy_wmr_offer(self, n, cpu, room) }
    }

    /// Are the offers enough for `runtime` ns in `n` windows? If so, they are cut to this sum.
    pub fn complete(&mut self, n: u32, runtime: u64) -> bool {
        unsafe { policy_wmr_complete(self, n, runtime) }
    }
}

impl Member {
    /// The most that it can demand in any `length` ns: an upper bound of dbf(length).
    pub fn demand(&self, length: u64) -> u64 {
        unsafe { policy_wmr_demand(self, length) }
    }
}

impl Roster {
    /// Bandwidth of all guarantees, ppm.
    pub fn promised(&self) -> u64 {
        unsafe { policy_wmr_promised(self) }
    }

    /// The most that another guarantee may have of `window` ns, once in `period`; 0: nothing.
    /// `capacity_ppm`: the part of the CPU that may be guaranteed.
    pub fn room(&self, period: u64, window: u64, capacity_ppm: u64) -> u64 {
        unsafe { policy_wmr_room(self, period, window, capacity_ppm) }
    }

    /// Add a guarantee for which [`Roster::room`] has room.
    pub fn join(&mut self, slot: u64, runtime: u64, window: u64, period: u64) {
        unsafe { policy_wmr_join(self, slot, runtime, window, period) }
    }

    /// Remove the guarantee of `slot`, if there is one.
    pub fn leave(&mut self, slot: u64) {
        unsafe { policy_wmr_leave(self, slot) }
    }
}

#[cfg(test)]
mod counterexamples;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod theorems;
