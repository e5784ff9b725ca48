//! `fair.h`: virtual time with nice weights (start-time fair queueing), and the pair of queues of a
//! CPU.
//!
//! The tests run the header on the virtual machine of `fair/machine.rs`, which has one queue and N
//! CPUs and calls the header as `bpf/tree/place.bpf.h` does.

/// Weight of nice 0 (`FAIR_NICE_0`). Weights are those of sched_ext throughout this module.
pub const WEIGHT: u64 = 100;
/// The header counts weights in this part of sched_ext's (`FAIR_UNIT`).
pub const UNIT: u32 = 64;
/// How far behind its queue's virtual time a task may be when it joins, ns (`FAIR_CREDIT_NS`).
pub const CREDIT: u64 = 4_000_000;
/// How long a task that has just begun keeps the CPU from those that wake up, ns (`FAIR_GUARD_NS`).
pub const GUARD: u64 = 300_000;
/// How far ahead of its queue's virtual time a task may be when it joins, ns (`FAIR_DEBT_NS`).
pub const DEBT: u64 = 100_000_000;

/// A queue's virtual time (`struct fair_queue`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Of the task that began to run last, ns.
    pub now: u64,
    /// The latest that a task has run to.
    pub last: u64,
    /// `now` when no task waited last.
    pub floor: u64,
}

/// Shares one CPU between its pinned tasks and the machine's queue (`struct fair_pair`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// What the pinned tasks' virtual time is more than the queue's when both are even, ns.
    pub even: u64,
}

extern "C" {
    fn policy_fair_cost(ran_ns: u64, weight: u32) -> u64;
    fn policy_fair_begins(q: *mut Queue, v: u64);
    fn policy_fair_ran(q: *mut Queue, v: u64);
    fn policy_fair_none_waits(q: *mut Queue);
    fn policy_fair_place(v: u64, q: *const Queue, weight: u32) -> u64;
    fn policy_fair_preempts(v: u64, weight: u32, other: u64) -> bool;
    fn policy_fair_rested_preempts(v: u64, weight: u32, now: u64) -> bool;
    fn policy_fair_guarded(ran_ns: u64, weight: u32, wakes: u32) -> bool;
    fn policy_fair_turn_left(ran_ns: u64, weight: u32, wakes: u32) -> u64;
    fn policy_fair_debt(waiting: u64, weight: u32) -> u64;
    fn policy_fair_start(q: *const Queue) -> u64;
    fn policy_fair_pair_ahead(f: *mut Pair, pinned: u64, others: u64) -> i64;
    fn policy_fair_pair_wakes(f: *mut Pair, pinned: u64, others: u64);
}

/// The virtual time, ns, that `ran_ns` of CPU time cost a task of `weight`.
pub fn cost(ran_ns: u64, weight: u32) -> u64 {
    // SAFETY: pure arithmetic on its arguments, as are the next four
    unsafe { policy_fair_cost(ran_ns, weight * UNIT) }
}

/// Whether a task of `weight` that wakes up with virtual time `v`, ns, preempts one at `other`.
pub fn preempts(v: u64, weight: u32, other: u64) -> bool {
    unsafe { policy_fair_preempts(v, weight * UNIT, other) }
}

/// Whether one that last began to run `FAIR_REST_NS` ago or earlier preempts the running task, if
/// its queue is at `now`, ns.
pub fn rested_preempts(v: u64, weight: u32, now: u64) -> bool {
    unsafe { policy_fair_rested_preempts(v, weight * UNIT, now) }
}

/// Whether a task of `weight` that began `ran_ns` ago keeps the CPU from one of weight `wakes` that
/// wakes up.
pub fn guarded(ran_ns: u64, weight: u32, wakes: u32) -> bool {
    unsafe { policy_fair_guarded(ran_ns, weight * UNIT, wakes * UNIT) }
}

/// For how long such a task may keep it yet from one that is rested, ns.
pub fn turn_left(ran_ns: u64, weight: u32, wakes: u32) -> u64 {
    unsafe { policy_fair_turn_left(ran_ns, weight * UNIT, wakes * UNIT) }
}

/// How far ahead of its queue a task of `weight` may be when it joins while `waiting` tasks wait,
/// ns of virtual time.
pub fn debt(waiting: u64, weight: u32) -> u64 {
    unsafe { policy_fair_debt(waiting, weight * UNIT) }
}

// SAFETY, for all: the C functions access only `*self`, whose layout the tests compare.
impl Queue {
    /// A task with virtual time `v`, ns, begins to run.
    pub fn begins(&mut self, v: u64) {
        unsafe { policy_fair_begins(self, v) }
    }

    /// A task has run to virtual time `v`, ns.
    pub fn ran(&mut self, v: u64) {
        unsafe { policy_fair_ran(self, v) }
    }

    /// No task waits.
    pub fn none_waits(&mut self) {
        unsafe { policy_fair_none_waits(self) }
    }

    /// The virtual time, ns, with which a task of `weight` and virtual time `v` joins.
    pub fn place(&self, v: u64, weight: u32) -> u64 {
        unsafe { policy_fair_place(v, self, weight * UNIT) }
    }

    /// The virtual time, ns, of a new task.
    pub fn start(&self) -> u64 {
        unsafe { policy_fair_start(self) }
    }
}

impl Pair {
    /// How far the pinned tasks, at virtual time `pinned`, are ahead of the others, at `others`,
    /// ns: at most four slices, either way. If it is less than 0, they are next.
    pub fn ahead(&mut self, pinned: u64, others: u64) -> i64 {
        unsafe { policy_fair_pair_ahead(self, pinned, others) }
    }

    /// The pinned tasks, which all slept, come back: of what they did not use they keep 1 ms.
    pub fn wakes(&mut self, pinned: u64, others: u64) {
        unsafe { policy_fair_pair_wakes(self, pinned, others) }
    }
}

#[cfg(test)]
mod machine;
#[cfg(test)]
mod pair_tests;
#[cfg(test)]
mod tests;
