//! Compares the leftist heap with a sorted set: the least key, the heap's shape after each
//! operation, and the number of loop rounds that each operation takes.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::{Heaps, Node, SIZE};
use crate::assert_layout;

extern "C" {
    fn policy_rounds() -> u64;
}

/// Rounds of the header's loops since the last call.
fn rounds() -> u64 {
    // SAFETY: reads and resets a counter of this thread.
    unsafe { policy_rounds() }
}

/// The longest possible right spine of a heap of `n` nodes.
fn spine(n: usize) -> u64 {
    u64::from((n + 1).ilog2())
}

/// A heap and a model of it: the keys, relative to `base`, with the nodes' indices.
struct Pair {
    root: u32,
    base: u64,
    model: BTreeSet<(u64, u32)>,
}

impl Pair {
    fn new(base: u64) -> Self {
        Self {
            root: 0,
            base,
            model: BTreeSet::new(),
        }
    }

    fn insert(&mut self, heaps: &mut Heaps, i: u32, key: u64) {
        let n = self.model.len();
        rounds();
        heaps.insert(&mut self.root, i, self.base.wrapping_add(key));
        // The one-node heap is merged along a spine, plus one round that sees the end; then back
        // up. An empty heap takes none.
        let taken = rounds();
        assert_eq!(taken > 0, n > 0, "insert into {n}");
        assert!(taken <= 2 * (spine(n) + 2), "insert into {n}");
        self.model.insert((key, i));
        self.top(heaps);
    }

    fn remove(&mut self, heaps: &mut Heaps, key: u64, i: u32) {
        let n = self.model.len();
        rounds();
        heaps.remove(&mut self.root, i);
        // Two spines are merged, and back up; then up from the node's place to the first unchanged
        // rank.
        assert!(
            rounds() <= 2 * (2 * spine(n) + 1) + spine(n) + 1,
            "remove from {n}"
        );
        assert!(self.model.remove(&(key, i)));
        assert_eq!(
            *heaps.node(i),
            Node {
                key: heaps.node(i).key,
                ..Node::default()
            }
        );
        self.top(heaps);
    }

    /// The node on top has the least key.
    fn top(&self, heaps: &Heaps) {
        let Some(&(least, _)) = self.model.first() else {
            assert_eq!(self.root, 0);
            return;
        };
        let key = heaps.node(self.root).key.wrapping_sub(self.base);
        assert_eq!(key, least);
        assert!(self.model.contains(&(key, self.root)));
        assert_eq!(*heaps.node(0), Node::default());
    }

    /// Checks all properties in section 2 of the header, and that the nodes are those of the model.
    fn shape(&self, heaps: &Heaps) {
        let mut seen = HashSet::new();
        let mut todo = vec![(self.root, 0)];
        while let Some((i, up)) = todo.pop() {
            if i == 0 {
                continue;
            }
            let node = heaps.node(i);
            assert!(seen.insert(i), "{i} is there twice");
            assert_eq!((node.inside, u32::from(node.up)), (1, up), "{i}");
            let key = node.key.wrapping_sub(self.base);
            assert!(self.model.contains(&(key, i)), "{i}");
            assert!(
                up == 0 || heaps.node(up).key.wrapping_sub(self.base) <= key,
                "{i}"
            );
            let ranks = [node.left, node.right].map(|c| heaps.node(c.into()).rank);
            assert!(ranks[0] >= ranks[1], "{i} leans to the right");
            assert_eq!(node.rank, ranks[1] + 1, "{i}");
            todo.push((node.left.into(), i));
            todo.push((node.right.into(), i));
        }
        assert_eq!(seen.len(), self.model.len());
        assert!(u64::from(heaps.node(self.root).rank) <= spine(seen.len()));
    }
}

#[test]
fn layout_and_size_are_the_headers() {
    assert_layout!(
        policy_layout_heap_node,
        Node,
        key,
        left,
        right,
        up,
        rank,
        inside
    );
    extern "C" {
        static policy_heap_size: u64;
    }
    // SAFETY: a constant of shim_tree.c.
    assert_eq!(unsafe { policy_heap_size }, SIZE as u64);
}

/// Fills the whole array, in the orders that make the longest chains and the highest ranks, and
/// empties it again in two ways.
#[test]
fn all_nodes_there_are() {
    let n = SIZE as u64 - 1;
    type Key = fn(u64) -> u64;
    let orders: [Key; 4] = [
        |i| i,
        |i| SIZE as u64 - i,
        |i| i * 5_003 % SIZE as u64,
        |_| 7,
    ];
    for key in orders {
        for by_key in [true, false] {
            let mut heaps = Heaps::default();
            let mut pair = Pair::new(u64::MAX - 1000);
            for i in 1..=n {
                pair.insert(&mut heaps, i as u32, key(i));
            }
            pair.shape(&heaps);
            for i in 1..=n {
                let (key, out) = match by_key {
                    true => (heaps.node(pair.root).key.wrapping_sub(pair.base), pair.root),
                    false => (key(i), i as u32),
                };
                pair.remove(&mut heaps, key, out);
                if i % 1024 == 0 {
                    pair.shape(&heaps);
                }
            }
            assert_eq!(pair.root, 0);
        }
    }
}

/// Falling keys make one chain to the left, as long as there are nodes. Removing the node at its
/// end stops at the first parent.
#[test]
fn the_end_of_a_long_chain() {
    let mut heaps = Heaps::default();
    let mut pair = Pair::new(0);
    for i in 1..=1000 {
        pair.insert(&mut heaps, i, 1000 - u64::from(i));
    }
    let depth = |mut i: u32| {
        let mut n = 0;
        while i != 0 {
            i = heaps.node(i).up.into();
            n += 1;
        }
        n
    };
    assert_eq!(depth(1), 1000);
    rounds();
    heaps.remove(&mut pair.root, 1);
    // The removed node has no children to merge, and its parent's rank does not change.
    assert_eq!(rounds(), 1);
}

/// Calls that the caller must not make change nothing.
#[test]
fn in_twice_and_out_twice() {
    let mut heaps = Heaps::default();
    let mut pair = Pair::new(0);
    pair.insert(&mut heaps, 1, 10);
    pair.insert(&mut heaps, 2, 20);
    heaps.insert(&mut pair.root, 2, 5);
    pair.shape(&heaps);
    heaps.remove(&mut pair.root, 3);
    pair.shape(&heaps);
    pair.remove(&mut heaps, 10, 1);
    heaps.remove(&mut pair.root, 1);
    pair.shape(&heaps);
}

/// Which heap, a node and a key: the node is inserted if it is in no heap, and removed if it is in
/// one.
type Step = (usize, u32, u64);

fn steps(most: u32) -> impl Strategy<Value = Vec<Step>> {
    let key = prop_oneof![0u64..8, 0u64..1_000, 0u64..(1 << 62)];
    prop::collection::vec((0usize..2, 1..=most, key), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Two heaps in one array, with keys that wrap.
    #[test]
    fn as_a_sorted_set(steps in prop_oneof![steps(6), steps(80), steps(8191)], bases: [u64; 2]) {
        let mut heaps = Heaps::default();
        let mut pairs = bases.map(Pair::new);
        pairs[1].base = u64::MAX - 500;
        for (which, i, key) in steps {
            let home = pairs.iter().position(|p| p.model.iter().any(|&(_, at)| at == i));
            match home {
                Some(home) => {
                    let key = heaps.node(i).key.wrapping_sub(pairs[home].base);
                    pairs[home].remove(&mut heaps, key, i);
                }
                None => pairs[which].insert(&mut heaps, i, key),
            }
            pairs.iter().for_each(|p| p.shape(&heaps));
        }
    }
}
