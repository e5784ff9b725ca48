//! First in, first out: no task overtakes another, and no other task runs until the running one
//! waits.

use proptest::prelude::*;

use super::{charge, Node};
use crate::node::{self, Machine, Order};
use crate::{assert_layout, MS};

/// A leaf with the keys of its tasks, and the order of arrivals and of first runs.
struct Fifo {
    node: Node,
    now: u64,
    keys: Vec<u64>,
    came: Vec<usize>,
    began: Vec<usize>,
}

impl Fifo {
    /// A leaf of `n` tasks, in a node where the greatest key so far is `now`.
    fn new(n: usize, now: u64) -> Self {
        Self {
            node: Node::default(),
            now,
            keys: vec![0; n],
            came: vec![],
            began: vec![],
        }
    }
}

impl Order for Fifo {
    fn wake(&mut self, m: usize) {
        self.keys[m] = self.node.arrive(self.now);
        self.came.push(m);
    }

    fn key(&self, m: usize) -> u64 {
        self.keys[m].wrapping_sub(self.now) // keys wrap as virtual times do
    }

    fn run(&mut self, m: usize) {
        if (self.keys[m].wrapping_sub(self.now) as i64) > 0 {
            self.now = self.keys[m];
            self.began.push(m);
        }
    }

    fn slice(&self, _m: usize) -> u64 {
        4 * MS
    }

    fn charge(&mut self, m: usize, ns: u64) {
        self.keys[m] = charge(self.keys[m], ns);
    }

    fn preempts(&self) -> bool {
        false
    }
}

#[test]
fn layout_is_the_headers() {
    assert_layout!(policy_layout_fifo_node, Node, arrivals);
}

#[test]
fn numbers() {
    let mut n = Node::default();
    assert_eq!([n.arrive(0), n.arrive(0)], [1, 2]);
    assert_eq!(charge(2, 7 * MS), 2, "a task that ran keeps its place");
    assert_eq!(n.arrive(40), 41, "beyond a key of another policy's");
    n.arrivals = u64::MAX;
    assert_eq!(n.arrive(u64::MAX - 3), 0, "across the wrap");
}

proptest! {
    /// Tasks compute for a while and sleep, at random times. Each task begins in the order of its
    /// arrival, once for each arrival, and then runs through slice after slice until it sleeps.
    /// This holds whatever key the node was at before, also across the wrap.
    #[test]
    fn no_task_overtakes_another(
        phases in prop::collection::vec(prop::collection::vec((1..20 * MS, 1..50 * MS), 1..4), 1..6),
        before in prop_oneof![Just(0), Just(u64::MAX - 7), any::<u64>()],
    ) {
        let n = phases.len();
        let members = phases.into_iter().map(|p| node::Member::new((1, 1), p)).collect();
        let mut m = Machine::new(Fifo::new(n, before), members);
        m.run(2_000 * MS);
        let Fifo { came, began, .. } = &m.order;
        prop_assert!(began.len() > 10, "{} began", began.len());
        prop_assert_eq!(&came[..began.len()], &began[..], "in the order in which they came");
        prop_assert!(came.len() - began.len() < n.max(1), "and all but those that wait have begun");
    }
}
