//! Weighted round-robin: shares of those who never sleep.

use super::{quantum, Member, Node, CYCLE};
use crate::node::{self, Machine, Order};
use crate::{assert_layout, MS, PPM, SEC};

pub struct Wrr {
    node: Node,
    members: Vec<Member>,
    quanta: Vec<u64>,
}

impl Wrr {
    pub fn new(shares: &[u64]) -> Self {
        Self {
            node: Node::default(),
            members: vec![Member::default(); shares.len()],
            quanta: shares.iter().map(|&s| quantum(s)).collect(),
        }
    }
}

impl Order for Wrr {
    fn wake(&mut self, m: usize) {
        self.members[m].wake(&mut self.node, self.quanta[m]);
    }

    fn key(&self, m: usize) -> u64 {
        self.members[m].turn
    }

    fn slice(&self, m: usize) -> u64 {
        self.members[m].left
    }

    fn charge(&mut self, m: usize, ns: u64) {
        self.members[m].charge(&mut self.node, ns, self.quanta[m]);
    }

    fn preempts(&self) -> bool {
        false
    }
}

#[test]
fn layout_is_the_headers() {
    assert_layout!(policy_layout_wrr_member, Member, turn, left);
    extern "C" {
        static policy_wrr_cycle_ns: u64;
    }
    // SAFETY: a constant of shim_tree.c
    assert_eq!(unsafe { policy_wrr_cycle_ns }, CYCLE);
    assert_eq!([PPM, 500_000, 1].map(quantum), [100 * MS, 50 * MS, MS / 10]);
}

#[test]
fn who_never_sleeps_gets_his_share() {
    let shares = [500_000, 300_000, 200_000];
    let members = shares.map(|s| node::Member::new((s, PPM), vec![(SEC, 0)]));
    let mut m = Machine::new(Wrr::new(&shares), members.into());
    m.run(10 * SEC);
    assert_eq!(
        [0, 1, 2].map(|i| m.members[i].ran),
        shares.map(|s| 10 * SEC / PPM * s)
    );
}

/// A turn that is not used up is continued; one that is, is at the end of the line.
#[test]
fn turns() {
    let mut n = Node::default();
    let mut m = Member::default();
    m.wake(&mut n, 10);
    assert_eq!((m.turn, m.left), (1, 10));
    assert!(!m.charge(&mut n, 4, 10));
    assert_eq!((m.turn, m.left), (1, 6));
    assert!(m.charge(&mut n, 6, 10));
    assert_eq!((m.turn, m.left), (2, 10));
    m.wake(&mut n, 0);
    assert_eq!((m.turn, m.left), (3, 1), "a quantum of nothing is 1 ns");
}
