//! `hsfq.h`: hierarchical start-time fair queueing of packets.

use std::ptr::NonNull;

/// Bytes that all packets may count (`HSFQ_ROOM`).
pub const ROOM: u64 = 16_383 * LEAST;
/// Bytes that a packet counts as at least (`HSFQ_LEAST`).
pub const LEAST: u64 = 2048;
/// The node of the root (`HSFQ_ROOT`).
pub const ROOT: u32 = 1;

/// The struct hsfq, which the C side allocates.
#[repr(C)]
struct Raw([u8; 0]);

/// Some fields of a node (`struct hsfq_node`), by their offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// That wait.
    pub packets: u32,
    /// Of the room, bytes.
    pub held: u32,
    /// So far.
    pub sent_bytes: u64,
    /// Packets, so far.
    pub dropped: u64,
    /// For how long the sent packets waited, summed, ns.
    pub delay_ns: u64,
}

extern "C" {
    fn policy_hsfq_new() -> *mut Raw;
    fn policy_hsfq_drop(q: *mut Raw);
    fn policy_hsfq_node(q: *mut Raw, i: u32) -> *const u8;
    fn policy_hsfq_become(q: *mut Raw, i: u32, up: u32, weight: u32, is_leaf: bool);
    fn policy_hsfq_forget(q: *mut Raw, i: u32) -> bool;
    fn policy_hsfq_come(q: *mut Raw, leaf: u32, bytes: u32, now: u64) -> u32;
    fn policy_hsfq_go(q: *mut Raw, is_sent: bool, now: u64, slot: *mut u32) -> u32;
    fn policy_hsfq_ceiling(q: *mut Raw, i: u32, rate: u64);
    fn policy_hsfq_alone(q: *mut Raw, bytes: *mut u32) -> u32;
    fn policy_hsfq_late(q: *mut Raw) -> u64;
    static policy_layout_hsfq_node: [usize; 6];
}

/// The packets of one interface.
pub struct Hsfq(NonNull<Raw>);

impl Drop for Hsfq {
    fn drop(&mut self) {
        // SAFETY: it came from policy_hsfq_new(), and is dropped once
        unsafe { policy_hsfq_drop(self.0.as_ptr()) }
    }
}

impl Default for Hsfq {
    fn default() -> Self {
        // SAFETY: it has no arguments
        let mut q = Self(NonNull::new(unsafe { policy_hsfq_new() }).expect("no memory"));
        q.become_node(ROOT, 0, 100, false);
        q
    }
}

// SAFETY, for all: the C functions access only the struct, and mask each index by its arrays'
// sizes.
impl Hsfq {
    /// Node `i`, which is free, is a member of `up` now.
    pub fn become_node(&mut self, i: u32, up: u32, weight: u32, is_leaf: bool) {
        unsafe { policy_hsfq_become(self.0.as_ptr(), i, up, weight, is_leaf) }
    }

    /// Forgets node `i`, if it has nothing to remember.
    pub fn forget(&mut self, i: u32) -> bool {
        unsafe { policy_hsfq_forget(self.0.as_ptr(), i) }
    }

    /// A packet of `bytes` comes to `leaf`. Returns its slot; None: there is no room for it.
    ///
    /// # Panics
    ///
    /// If it has room but no slot.
    pub fn come(&mut self, leaf: u32, bytes: u32, now: u64) -> Option<u32> {
        let slot = unsafe { policy_hsfq_come(self.0.as_ptr(), leaf, bytes, now) };
        assert_ne!(slot, u32::MAX, "a packet was admitted, and has no slot");
        (slot > 0).then_some(slot)
    }

    /// The link is free: the next packet is sent, or dropped. Returns its leaf and its slot.
    pub fn go(&mut self, is_sent: bool, now: u64) -> Option<(u32, u32)> {
        let mut slot = 0;
        let leaf = unsafe { policy_hsfq_go(self.0.as_ptr(), is_sent, now, &mut slot) };
        (leaf > 0).then_some((leaf, slot))
    }

    /// From now on node `i` sends `rate` bytes a second at most; 0: as much as it can.
    pub fn set_ceiling(&mut self, i: u32, rate: u64) {
        unsafe { policy_hsfq_ceiling(self.0.as_ptr(), i, rate) }
    }

    /// When the first node that is at its ceiling may send again, ns. None: none is.
    pub fn late(&self) -> Option<u64> {
        let at = unsafe { policy_hsfq_late(self.0.as_ptr()) };
        (at > 0).then_some(at)
    }

    /// The leaf of a packet that is alone, and the packet's bytes: no node counts it as waiting.
    pub fn alone(&self) -> Option<(u32, u32)> {
        let mut bytes = 0;
        let leaf = unsafe { policy_hsfq_alone(self.0.as_ptr(), &mut bytes) };
        (leaf > 0).then_some((leaf, bytes))
    }

    /// What node `i` has counted. `packets` and `held` include the nodes below it; the others are
    /// its own packets, and those of nodes below it that are forgotten.
    pub fn counts(&self, i: u32) -> Counts {
        let [size, offsets @ ..] = unsafe { policy_layout_hsfq_node };
        let node = unsafe { policy_hsfq_node(self.0.as_ptr(), i) };
        let bytes = unsafe { std::slice::from_raw_parts(node, size) };
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Counts {
            packets: word(offsets[0]),
            held: word(offsets[1]),
            sent_bytes: long(offsets[2]),
            dropped: long(offsets[3]),
            delay_ns: long(offsets[4]),
        }
    }
}

#[cfg(test)]
mod tests;
