//! `heap.h`: leftist heaps whose nodes are linked by index, any number of them in one array.

/// Nodes of the array, of which 0 means none (`HEAP_SIZE`).
pub const SIZE: usize = 16384;

/// A node (`struct heap_node`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its key, on a clock that may wrap.
    pub key: u64,
    /// Index of its left child; 0: none.
    pub left: u16,
    /// Index of its right child.
    pub right: u16,
    /// Index of its parent.
    pub up: u16,
    /// Length of its right spine, itself included; 0: it is in no heap.
    pub rank: u8,
    /// 1: it is in a heap.
    pub inside: u8,
}

extern "C" {
    fn policy_heap_insert(at: *mut Node, root: *mut u32, i: u32, key: u64);
    fn policy_heap_remove(at: *mut Node, root: *mut u32, i: u32);
}

/// The array, with any number of heaps.
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

// SAFETY, for both: the C functions touch nothing but `*root` and the array, whose indices they
// mask by its size.
impl Heaps {
    /// Node `i`, 1 to [`SIZE`] - 1, joins the heap that begins at `root` (0: it is empty).
    pub fn insert(&mut self, root: &mut u32, i: u32, key: u64) {
        unsafe { policy_heap_insert(self.at.as_mut_ptr(), root, i, key) }
    }

    /// Node `i` leaves the heap that begins at `root`.
    pub fn remove(&mut self, root: &mut u32, i: u32) {
        unsafe { policy_heap_remove(self.at.as_mut_ptr(), root, i) }
    }

    /// Node `i`.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn node(&self, i: u32) -> &Node {
        &self.at[i as usize]
    }
}

#[cfg(test)]
mod tests;
