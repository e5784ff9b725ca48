//! `fifo.h`: first in, first out, among the tasks of a leaf.

/// A node (`struct fifo_node`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Numbers handed out so far.
    pub arrivals: u64,
}

extern "C" {
    fn policy_fifo_arrive(n: *mut Node, now: u64) -> u64;
    fn policy_fifo_charge(number: u64, ns: u64) -> u64;
}

impl Node {
    /// The number of a task that arrives, which is its key. `now` is the greatest key that has run.
    pub fn arrive(&mut self, now: u64) -> u64 {
        // SAFETY: accesses only the node, whose layout the tests compare.
        unsafe { policy_fifo_arrive(self, now) }
    }
}

/// The key of a task that arrived as `number` and has run for `ns`: the same number.
pub fn charge(number: u64, ns: u64) -> u64 {
    // SAFETY: pure arithmetic on its arguments
    unsafe { policy_fifo_charge(number, ns) }
}

#[cfg(test)]
mod tests;
