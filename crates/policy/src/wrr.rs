//! `wrr.h`: weighted round-robin among the members of a node, for comparison with [`crate::mtr`]
//! (Eclipse, sections 4 and 7).

/// A node (`struct wrr_node`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Turns handed out so far.
    pub turns: u64,
}

/// One of its members (`struct wrr_member`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The member's place in the list, which is its key.
    pub turn: u64,
    /// What is left of the member's quantum, ns.
    pub left: u64,
}

/// One turn of all members, ns (`WRR_CYCLE_NS`).
pub const CYCLE: u64 = 100_000_000;

extern "C" {
    fn policy_wrr_quantum(ppm: u64) -> u64;
    fn policy_wrr_wake(m: *mut Member, n: *mut Node, quantum: u64);
    fn policy_wrr_charge(m: *mut Member, n: *mut Node, ns: u64, quantum: u64) -> bool;
}

/// The quantum, ns, for a share of `ppm` of the node.
pub fn quantum(ppm: u64) -> u64 {
    // SAFETY: pure arithmetic on its argument.
    unsafe { policy_wrr_quantum(ppm) }
}

// SAFETY, for both: the C functions access only their arguments, whose layouts the tests compare.
impl Member {
    /// The member wakes up or is new: it goes to the end of the list with a quantum of `quantum`
    /// ns.
    pub fn wake(&mut self, n: &mut Node, quantum: u64) {
        unsafe { policy_wrr_wake(self, n, quantum) }
    }

    /// Charges `ns` of run time to the member. Returns whether its turn is over.
    pub fn charge(&mut self, n: &mut Node, ns: u64, quantum: u64) -> bool {
        unsafe { policy_wrr_charge(self, n, ns, quantum) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
