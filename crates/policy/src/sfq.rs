//! `sfq.h`: start-time fair queueing among the members of a node.

/// Virtual time that 1 ns costs at a weight of 1 (`SFQ_SCALE`).
pub const SCALE: u64 = 1 << 20;

/// A node (`struct sfq_node`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Virtual time, in the unit of [`SCALE`].
    pub now: u64,
    /// Virtual time before its last step; `now` after all members slept.
    pub before: u64,
    /// The greatest finish tag of the members that went to sleep.
    pub last: u64,
}

/// One of its members (`struct sfq_member`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Start tag, which is the member's key.
    pub start: u64,
}

extern "C" {
    fn policy_sfq_wake(m: *mut Member, n: *const Node);
    fn policy_sfq_go_on(m: *mut Member, v: u64, credit_ns: u64, weight: u32);
    fn policy_sfq_run(m: *const Member, n: *mut Node);
    fn policy_sfq_sleep(m: *const Member, n: *mut Node, all: bool);
    fn policy_sfq_charge(m: *mut Member, ns: u64, weight: u32);
}

// SAFETY, for all: the C functions access only their arguments, whose layouts the tests compare.
impl Member {
    /// The member becomes runnable.
    pub fn wake(&mut self, n: &Node) {
        unsafe { policy_sfq_wake(self, n) }
    }

    /// The member waits again without having slept. If it is behind virtual time `v` (the node's
    /// `now` or `before`) by more than `credit` ns of run time at `weight`, it moves up to that.
    pub fn go_on(&mut self, v: u64, credit: u64, weight: u32) {
        unsafe { policy_sfq_go_on(self, v, credit, weight) }
    }

    /// The member is chosen.
    pub fn run(&self, n: &mut Node) {
        unsafe { policy_sfq_run(self, n) }
    }

    /// The member goes to sleep. `all`: no other member is runnable.
    pub fn sleep(&self, n: &mut Node, all: bool) {
        unsafe { policy_sfq_sleep(self, n, all) }
    }

    /// Charges `ns` of run time to the member at `weight` (see [`crate::share::weight`]).
    pub fn charge(&mut self, ns: u64, weight: u32) {
        unsafe { policy_sfq_charge(self, ns, weight) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
