//! `heap.h`: leftist heaps whose nodes are linked by index. One array holds any number of heaps.

/// Number of nodes in the array; node 0 stands for none (`HEAP_SIZE`).
pub const SIZE: usize = 16384;

/// A node (`struct heap_node`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The node's key, on a clock that may wrap.
    pub key: u64,
    /// Index of the left child; 0: none.
    pub left: u16,
    /// Index of the right child; 0: none.
    pub right: u16,
    /// Index of the parent; 0: none.
    pub up: u16,
    /// Length of the node's right spine, including the node; 0: the node is in no heap.
    pub rank: u8,
    /// 1: the node is in a heap.
    pub inside: u8,
}

extern "C" {
    fn policy_heap_insert(at: *mut Node, root: *mut u32, i: u32, key: u64);
    fn policy_heap_remove(at: *mut Node, root: *mut u32, i: u32);
}

/// The array of nodes, which holds any number of heaps.
#[derive(Clone, Debug)]
pub struct Heaps {
    at: Vec<Node>,
}

impl Default for Heaps {
    fn default() -> Self {
        Self {
            at: vec![Node::default(); SIZE],
        }
    }
}

// SAFETY, for both: the C functions access only `*root` and the array. They mask each index by the
// array's size.
impl Heaps {
    /// Inserts node `i` (1 to [`SIZE`] - 1) with `key` into the heap whose root is `root` (0:
    /// empty).
    pub fn insert(&mut self, root: &mut u32, i: u32, key: u64) {
        unsafe { policy_heap_insert(self.at.as_mut_ptr(), root, i, key) }
    }

    /// Removes node `i` from the heap whose root is `root`.
    pub fn remove(&mut self, root: &mut u32, i: u32) {
        unsafe { policy_heap_remove(self.at.as_mut_ptr(), root, i) }
    }

    /// Node `i`.
    ///
    /// # Panics
    ///
    /// If `i` is not below [`SIZE`].
    pub fn node(&self, i: u32) -> &Node {
        &self.at[i as usize]
    }
}

#[cfg(test)]
mod tests;
