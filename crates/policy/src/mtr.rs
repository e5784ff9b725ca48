//! `mtr.h`: move-to-rear list scheduling (MTR-LS) among the members of a node (Eclipse, section 5).

/// Number of tokens of each member (`MTR_TOKENS`).
pub const TOKENS: usize = 16;
/// T, the service cycle, ns (`MTR_CYCLE_NS`).
pub const CYCLE: u64 = 500_000_000;

/// A node (`struct mtr_node`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Number of moves to the rear so far.
    pub moves: u64,
    /// The latest place (stamp) that has run.
    pub front: u64,
}

/// One of its members (`struct mtr_member`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// For each token the number of its last move to the rear, as a ring.
    pub stamp: [u64; TOKENS],
    /// What is left of the first token, ns.
    pub left: u64,
    /// Length of each token, ns.
    pub token: u64,
    /// Run time beyond all of the member's tokens, ns.
    pub debt: u64,
    /// Index of the first token in `stamp`.
    pub first: u32,
    /// Whether the member may use its first token before its place (`enum mtr_early`).
    pub early: u32,
    /// 1: the member's place was before the front when it woke up.
    pub due: u32,
    /// Unused.
    pub pad: u32,
}

extern "C" {
    fn policy_mtr_key(m: *const Member) -> u64;
    fn policy_mtr_join(m: *mut Member, n: *mut Node, ppm: u64);
    fn policy_mtr_wake(m: *mut Member, n: *const Node);
    fn policy_mtr_resize(m: *mut Member, ppm: u64);
    fn policy_mtr_charge(m: *mut Member, n: *mut Node, ns: u64);
    fn policy_mtr_slice(m: *const Member) -> u64;
}

// SAFETY, for all: the C functions access only their arguments, whose layouts the tests compare.
impl Member {
    /// A new member with a share of `ppm` of the node.
    pub fn join(n: &mut Node, ppm: u64) -> Self {
        let mut m = Self::default();
        unsafe { policy_mtr_join(&mut m, n, ppm) };
        m
    }

    /// The member's place on the list; the least is first.
    pub fn key(&self) -> u64 {
        unsafe { policy_mtr_key(self) }
    }

    /// The member becomes runnable.
    pub fn wake(&mut self, n: &Node) {
        unsafe { policy_mtr_wake(self, n) }
    }

    /// The member's share is `ppm` from now on.
    pub fn resize(&mut self, ppm: u64) {
        unsafe { policy_mtr_resize(self, ppm) }
    }

    /// Charges `ns` of run time to the member.
    pub fn charge(&mut self, n: &mut Node, ns: u64) {
        unsafe { policy_mtr_charge(self, n, ns) }
    }

    /// How long the member may run until its place changes, ns.
    pub fn slice(&self) -> u64 {
        unsafe { policy_mtr_slice(self) }
    }
}

#[cfg(test)]
mod churn;
#[cfg(test)]
pub(crate) mod tests;
