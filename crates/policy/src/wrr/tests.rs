//! Weighted round-robin: shares of members that never sleep.

use proptest::prelude::*;

use super::{quantum, Member, Node, CYCLE};
use crate::node::{self, Machine, Order};
use crate::sfq::tests::shares;
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
    // SAFETY: a constant of shim_tree.c.
    assert_eq!(unsafe { policy_wrr_cycle_ns }, CYCLE);
    assert_eq!([PPM, 500_000, 1].map(quantum), [100 * MS, 50 * MS, MS / 10]);
}

#[test]
fn a_member_that_never_sleeps_gets_its_share() {
    let shares = [500_000, 300_000, 200_000];
    let members = shares.map(|s| node::Member::new((s, PPM), vec![(SEC, 0)]));
    let mut m = Machine::new(Wrr::new(&shares), members.into());
    m.run(10 * SEC);
    assert_eq!(
        [0, 1, 2].map(|i| m.members[i].ran),
        shares.map(|s| 10 * SEC / PPM * s)
    );
}

/// A member whose quantum is not used up keeps its turn. Otherwise it goes to the end of the line.
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

/// How much too late a quantum may end: a tick, ns.
const OVER: u64 = 4 * MS;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The first member runs for a part of the rest of its quantum, ppm.
    Part(u64),
    /// The first member runs for the rest of its quantum, and for so many ns more.
    Whole(u64),
    /// The member goes to sleep, or wakes up.
    Toggle(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        2 => (0..PPM).prop_map(Event::Part),
        4 => prop_oneof![Just(0), 0..=OVER].prop_map(Event::Whole),
        1 => (0usize..8).prop_map(Event::Toggle),
    ];
    prop::collection::vec(event, 50..250)
}

/// The run time of one member at the end of a turn, ns.
#[derive(Clone, Copy, Default)]
struct Had {
    ran: u64,
    /// The part of `ran` that was beyond its quanta.
    over: u64,
    /// How often the member has gone to sleep; None: it sleeps now.
    naps: Option<u32>,
}

/// A line of turns, and the run times of its members.
struct Line {
    order: Wrr,
    had: Vec<Had>,
    naps: Vec<u32>,
    /// For each member: the run times of all members at the end of each of its turns.
    rounds: Vec<Vec<Vec<Had>>>,
    /// For each member that woke up and has not run yet: the run times of all members when it woke
    /// up.
    woke: Vec<Option<Vec<Had>>>,
}

impl Line {
    fn new(shares: &[u64]) -> Self {
        let n = shares.len();
        let mut line = Self {
            order: Wrr::new(shares),
            had: vec![Had::default(); n],
            naps: vec![0; n],
            rounds: vec![vec![]; n],
            woke: vec![None; n],
        };
        (0..n).for_each(|m| line.turn(m));
        line
    }

    fn turn(&mut self, m: usize) {
        if self.had[m].naps.take().is_some() {
            self.naps[m] += 1;
            self.woke[m] = None;
            return;
        }
        self.had[m].naps = Some(self.naps[m]);
        self.order.wake(m);
        self.woke[m] = Some(self.had.clone());
    }

    fn run(&mut self, ns: impl Fn(u64) -> u64) -> Result<(), TestCaseError> {
        let awake = (0..self.had.len()).filter(|&m| self.had[m].naps.is_some());
        let Some(m) = awake.min_by_key(|&m| self.order.key(m)) else {
            return Ok(());
        };
        if let Some(then) = self.woke[m].take() {
            for (j, (now, then)) in self.had.iter().zip(&then).enumerate() {
                // A member that wakes up waits for at most one turn of each other member.
                let most = self.order.quanta[j].max(1) + OVER;
                prop_assert!(now.ran - then.ran <= most, "{m} waits for {j}");
            }
        }
        let left = self.order.slice(m);
        let ns = ns(left);
        let turn = self.order.key(m);
        self.order.charge(m, ns);
        self.had[m].ran += ns;
        prop_assert_eq!(ns >= left, self.order.key(m) != turn, "its turn is over");
        if ns >= left {
            self.had[m].over += ns - left;
            self.rounds[m].push(self.had.clone());
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A round is the time between the ends of two turns of a member. In any number of rounds, a
    /// member that is awake all the time gets that many quanta, each longer by at most its overrun.
    /// A member that sleeps in between gets no more than that.
    #[test]
    fn in_whole_rounds_each_has_its_quanta(
        weights in prop::collection::vec(1u32..=100, 1..8),
        events in events(),
    ) {
        let mut line = Line::new(&shares(&weights));
        for event in events {
            match event {
                Event::Part(ppm) => line.run(|left| left * ppm / PPM)?,
                Event::Whole(over) => line.run(|left| left + over)?,
                Event::Toggle(m) => line.turn(m % weights.len()),
            }
        }
        for (i, ends) in line.rounds.iter().enumerate() {
            for (from, before) in ends.iter().enumerate() {
                for (n, after) in (1..).zip(&ends[from + 1..]) {
                    if before[i].naps != after[i].naps {
                        break; // it slept, so this is no round
                    }
                    for (j, (b, a)) in before.iter().zip(after).enumerate() {
                        let (ran, quanta) = (a.ran - b.ran, n * line.order.quanta[j]);
                        prop_assert!(ran <= quanta + n * OVER, "{j} had {ran} in {n} rounds of {i}");
                        if b.naps.is_some() && b.naps == a.naps {
                            prop_assert_eq!(ran - (a.over - b.over), quanta, "{} in {} rounds of {}", j, n, i);
                        }
                    }
                }
            }
        }
    }
}
