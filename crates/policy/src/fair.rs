//! `fair.h`: virtual time with nice weights (start-time fair queueing), and the pair of queues of a
//! CPU.
//!
//! The tests run it on the virtual machine of `fair/machine.rs`, one queue and N CPUs, in the way
//! of `bpf/tree/place.bpf.h`.

/// Weight of nice 0 (`FAIR_WEIGHT`).
pub const WEIGHT: u64 = 100;
/// How far behind its queue a task may join it, ns of virtual time (`FAIR_CREDIT_NS`).
pub const CREDIT: u64 = 4_000_000;
/// How far ahead, ns of virtual time (`FAIR_DEBT_NS`).
pub const DEBT: u64 = 100_000_000;

/// One CPU between the machine's queue (member 0) and its pinned tasks (member 1)
/// (`struct fair_pair`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Start tags, ns of virtual time.
    pub tag: [u64; 2],
    /// Tag of the member served last.
    pub now: u64,
}

extern "C" {
    fn policy_fair_cost(ran_ns: u64, weight: u32) -> u64;
    fn policy_fair_place(v: u64, now: u64) -> u64;
    fn policy_fair_debt(waiting: u64) -> u64;
    fn policy_fair_start(now: u64) -> u64;
    fn policy_fair_pair_pick(f: *mut Pair) -> u32;
    fn policy_fair_pair_charge(f: *mut Pair, m: u32, ran_ns: u64, nr: u32);
}

/// Virtual time that `ran_ns` of CPU cost a task of `weight`.
pub fn cost(ran_ns: u64, weight: u32) -> u64 {
    // SAFETY: pure arithmetic on its arguments, as are the next three
    unsafe { policy_fair_cost(ran_ns, weight) }
}

/// The virtual time at which a task with virtual time `v` joins a queue that is at `now`.
pub fn place(v: u64, now: u64) -> u64 {
    unsafe { policy_fair_place(v, now) }
}

/// How far ahead of its queue a task may join it if `waiting` tasks wait, ns of virtual time.
pub fn debt(waiting: u64) -> u64 {
    unsafe { policy_fair_debt(waiting) }
}

/// Virtual time of a task that is new in a queue at `now`.
pub fn start(now: u64) -> u64 {
    unsafe { policy_fair_start(now) }
}

// SAFETY, for both: the C functions touch nothing but `*f`, whose layout the tests compare.
impl Pair {
    /// The member that is next, if tasks of both wait.
    pub fn pick(&mut self) -> usize {
        unsafe { policy_fair_pair_pick(self) as usize }
    }

    /// Member `m`, with `nr` tasks, ran for `ran_ns`.
    pub fn charge(&mut self, m: usize, ran_ns: u64, nr: u32) {
        unsafe { policy_fair_pair_charge(self, m as u32, ran_ns, nr) }
    }
}

#[cfg(test)]
mod machine;
#[cfg(test)]
mod pair_tests;
#[cfg(test)]
mod tests;
