//! `wmr.h`: EDF-WMR. A reservation that fits on no single CPU is split over several CPUs, in
//! windows (Kato, Ishikawa and Rajkumar, section 5).
//!
//! At run time a [`Split`] belongs to the [`Server`], whose start, deadline and budget are those of
//! the current window. For admission, the [`Roster`] of each CPU holds its guarantees, and
//! [`Roster::room`] is the room for another one.

use crate::edf::{change, Change, Server};

/// Most CPUs that one reservation may be split over (`WMR_PARTS`).
pub const PARTS: usize = 8;
/// Most guaranteed reservations, or parts of them, on one CPU (`WMR_MEMBERS`).
pub const MEMBERS: usize = 32;

/// A reservation that is split over several CPUs (`struct wmr_split`). Times and amounts in ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Q'_x, the budget of each window x.
    pub runtime: [u64; PARTS],
    /// CPU of each window x.
    pub cpu: [i32; PARTS],
    /// Start of the period.
    pub release: u64,
    /// The time at which the task last went to sleep.
    pub slept_at: u64,
    /// The budget at `slept_at`.
    pub kept: i64,
    /// n, the number of windows, 0 to [`PARTS`]; 0: the reservation is not split.
    pub parts: u32,
    /// Index of the current window, below n.
    pub window: u32,
}

/// A guarantee on one CPU: `runtime` within `window`, once in `period`, ns (`struct wmr_member`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Q', ns.
    pub runtime: u64,
    /// D, ns: P/n.
    pub window: u64,
    /// P, ns; at least 1 ms.
    pub period: u64,
    /// Slot of the server.
    pub slot: u64,
}

/// All guarantees on one CPU (`struct wmr_roster`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// The guarantees; only the first `members` entries are valid.
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
    fn policy_wmr_room(r: *const Roster, period: u64, window: u64, most_ppm: u64) -> u64;
    fn policy_wmr_first(period: u64, cpus: u32, promised_ppm: u64) -> u32;
    fn policy_wmr_number(first: u32, i: u32) -> u32;
    fn policy_wmr_offer(w: *mut Split, n: u32, cpu: i32, room: u64);
    fn policy_wmr_complete(w: *mut Split, n: u32, runtime: u64) -> bool;
    fn policy_wmr_join(r: *mut Roster, slot: u64, runtime: u64, window: u64, period: u64);
    fn policy_wmr_leave(r: *mut Roster, slot: u64);
}

/// The smallest part of a reservation, ns; a smaller one is not worth its migration
/// (`WMR_LEAST_NS`).
pub fn least_ns() -> u64 {
    // SAFETY: a constant of shim.c.
    unsafe { policy_wmr_least_ns }
}

/// Bandwidth of `runtime` in `period` (ns, not 0), ppm of a CPU, rounded up.
pub fn bandwidth(runtime: u64, period: u64) -> u64 {
    // SAFETY: pure arithmetic on the arguments.
    unsafe { policy_wmr_bandwidth(runtime, period) }
}

/// The numbers of windows to try for a reservation with `period` ns on `cpus` CPUs, in this order.
/// `promised`: of all these CPUs, with the reservation, ppm of one.
pub fn numbers(period: u64, cpus: u32, promised: u64) -> impl Iterator<Item = u32> {
    // SAFETY: both are pure arithmetic on their arguments.
    let first = unsafe { policy_wmr_first(period, cpus, promised) };
    (2..=PARTS as u32)
        .map(move |i| unsafe { policy_wmr_number(first, i) })
        .take_while(move |&n| n <= cpus)
}

// SAFETY, for all below: the C functions access only their arguments, whose layouts the tests
// compare.
impl Split {
    /// A period begins at `now`, with a full budget.
    pub fn release(&mut self, s: &mut Server, now: u64) {
        unsafe { policy_wmr_release(self, s, now) }
    }

    /// The task goes to sleep. The caller has called [`Server::charge`] before.
    pub fn sleep(&mut self, s: &Server, now: u64) {
        unsafe { policy_wmr_sleep(self, s, now) }
    }

    /// The task wakes up. The caller then calls [`Split::assign`].
    pub fn wake(&mut self, s: &mut Server, now: u64) {
        unsafe { policy_wmr_wake(self, s, now) }
    }

    /// Begins the next window or period if the budget of the current window is used up or its time
    /// is over.
    pub fn assign(&mut self, s: &mut Server, now: u64) -> Change {
        change(unsafe { policy_wmr_assign(self, s, now) })
    }

    /// CPU `cpu` has `room` ns for a part. The `n` largest offers are kept, the largest first.
    pub fn offer(&mut self, n: u32, cpu: i32, room: u64) {
        unsafe { policy_wmr_offer(self, n, cpu, room) }
    }

    /// Do the offers suffice for `runtime` ns in `n` windows? If so, they are cut to this sum.
    pub fn complete(&mut self, n: u32, runtime: u64) -> bool {
        unsafe { policy_wmr_complete(self, n, runtime) }
    }
}

impl Member {
    /// An upper bound of dbf(length): the most that the guarantee can demand in any `length` ns,
    /// ns.
    pub fn demand(&self, length: u64) -> u64 {
        unsafe { policy_wmr_demand(self, length) }
    }
}

impl Roster {
    /// Bandwidth of all guarantees, ppm of a CPU.
    pub fn promised(&self) -> u64 {
        unsafe { policy_wmr_promised(self) }
    }

    /// The largest runtime, ns, of another guarantee with these `period` and `window` (ns); 0: none
    /// fits. `most_ppm` is the part of the CPU that may be guaranteed.
    pub fn room(&self, period: u64, window: u64, most_ppm: u64) -> u64 {
        unsafe { policy_wmr_room(self, period, window, most_ppm) }
    }

    /// Adds a guarantee; its `runtime` must be within [`Roster::room`].
    pub fn join(&mut self, slot: u64, runtime: u64, window: u64, period: u64) {
        unsafe { policy_wmr_join(self, slot, runtime, window, period) }
    }

    /// Removes the guarantee of `slot`, if there is one.
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
