//! `wrr.h`: weighted round-robin among the members of a node, to compare [`crate::mtr`] with.

/// A node (`struct wrr_node`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Turns given out so far.
    pub turns: u64,
}

/// One of its members (`struct wrr_member`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its place in the list, which is its key.
    pub turn: u64,
    /// The rest of its quantum, ns.
    pub left: u64,
}

/// One turn of all members, ns (`WRR_CYCLE_NS`).
pub const CYCLE: u64 = 100_000_000;

extern "C" {
    fn policy_wrr_quantum(ppm: u64) -> u64;
    fn policy_wrr_wake(m: *mut Member, n: *mut Node, quantum: u64);
    fn policy_wrr_charge(m: *mut Member, n: *mut Node, ns: u64, quantum: u64) -> bool;
}

/// The quantum for a share of `ppm` of the node, ns.
pub fn quantum(ppm: u64) -> u64 {
    // SAFETY: pure arithmetic on its argument
    unsafe { policy_wrr_quantum(ppm) }
}

// SAFETY, for both: the C functions touch nothing but what they are given, whose layout the tests
// compare.
impl Member {
    /// It wakes up or is new: it goes to the end of the list, with `quantum` ns.
    pub fn wake(&mut self, n: &mut Node, quantum: u64) {
        unsafe { policy_wrr_wake(self, n, quantum) }
    }

    /// It ran for `ns`. True: its turn is over.
    pub fn charge(&mut self, n: &mut Node, ns: u64, quantum: u64) -> bool {
        unsafe { policy_wrr_charge(self, n, ns, quantum) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
