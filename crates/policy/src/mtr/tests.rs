//! MTR-LS: cumulative service, fairness and delay (Eclipse, definitions 1 to 3, section 5.3), and
//! the paper's examples.

use proptest::prelude::*;

use super::{Member, Node, CYCLE, TOKENS};
use crate::node::{self, Machine, Order};
use crate::sfq::tests::{shares, Sfq};
use crate::wrr::tests::Wrr;
use crate::{assert_layout, MS, PPM, SEC};

/// T (1 + 2/MTR_TOKENS), plus what tokens of whole ns lose by rounding during a test.
const BOUND: u64 = CYCLE + 2 * CYCLE / TOKENS as u64 + MS / 10;

pub struct Mtr {
    node: Node,
    members: Vec<Member>,
    /// The shortest run of a member that does not sleep, ns: the CPU checks slices only at ticks.
    tick: u64,
}

impl Mtr {
    pub fn new(shares: &[u64]) -> Self {
        let mut node = Node::default();
        let members = shares.iter().map(|&s| Member::join(&mut node, s)).collect();
        let tick = 0;
        Self {
            node,
            members,
            tick,
        }
    }
}

impl Order for Mtr {
    fn wake(&mut self, m: usize) {
        // The member has kept its place, and may run one token before it.
        self.members[m].wake(&self.node);
    }

    fn key(&self, m: usize) -> u64 {
        self.members[m].key()
    }

    fn slice(&self, m: usize) -> u64 {
        self.members[m].slice().max(self.tick)
    }

    fn charge(&mut self, m: usize, ns: u64) {
        self.members[m].charge(&mut self.node, ns);
    }

    fn preempts(&self) -> bool {
        true
    }
}

fn machine<O: Order>(order: O, shares: &[u64], phases: &[Vec<node::Phase>]) -> Machine<O> {
    let members = shares.iter().zip(phases);
    let members = members.map(|(&share, p)| node::Member::new((share, PPM), p.clone()));
    Machine::new(order, members.collect())
}

#[test]
fn layout_and_constants_are_the_headers() {
    assert_layout!(
        policy_layout_mtr_member,
        Member,
        stamp,
        left,
        token,
        first,
        early,
        due
    );
    extern "C" {
        static policy_mtr_cycle_ns: u64;
        static policy_mtr_tokens: u64;
    }
    // SAFETY: constants of shim.c.
    let (cycle, tokens) = unsafe { (policy_mtr_cycle_ns, policy_mtr_tokens) };
    assert_eq!((cycle, tokens as usize), (CYCLE, TOKENS));
}

/// Example 2 (figure 6): a member that sleeps keeps its place; only its used tokens are at the
/// rear.
#[test]
fn a_member_that_sleeps_keeps_its_place() {
    let mut n = Node::default();
    let [mut a, mut b] = [100_000, 100_000].map(|ppm| Member::join(&mut n, ppm));
    assert!(a.key() < b.key());
    // A runs for half of its time and sleeps. Its other half is still before B.
    let half = a.token * TOKENS as u64 / 2;
    a.charge(&mut n, half);
    assert!(a.key() < b.key());
    b.charge(&mut n, b.token);
    assert!(a.key() < b.key(), "and B has moved further back");
    // Once all of A's first tokens are used, B is first.
    a.charge(&mut n, half);
    assert!(b.key() < a.key());
    // Using a part of a token moves nothing.
    let key = b.key();
    b.charge(&mut n, b.token / 2);
    assert_eq!((b.key(), b.slice()), (key, b.token - b.token / 2));
}

#[test]
fn more_than_a_cycle_is_all_tokens() {
    let mut n = Node::default();
    let mut m = Member::join(&mut n, 100_000);
    m.charge(&mut n, 10 * SEC);
    assert_eq!(n.moves, 1 + TOKENS as u64);
    assert!(m.stamp.iter().all(|&s| s > 1) && m.left <= m.token);
    // The next charge uses up another cycle of tokens; what is beyond that is dropped.
    assert_eq!(m.debt, CYCLE / 10);
    m.charge(&mut n, 0);
    assert_eq!((n.moves, m.debt), (1 + 2 * TOKENS as u64, 0));
}

/// After a late tick the member has run for more than a cycle's worth. It pays by not running in
/// the next cycle, so on average it has its share.
#[test]
fn what_was_run_too_long_is_paid_later() {
    let mut n = Node::default();
    let mut m = Member::join(&mut n, 10_000);
    let cycle = CYCLE / 100;
    m.charge(&mut n, cycle + cycle / 2);
    assert_eq!(m.debt, cycle / 2);
    m.charge(&mut n, cycle / 4);
    assert_eq!(
        (m.debt, n.moves),
        (0, 1 + TOKENS as u64 * 7 / 4),
        "three quarters of the next cycle are used up"
    );
}

#[test]
fn a_new_share_has_tokens_of_another_length() {
    let mut n = Node::default();
    let mut m = Member::join(&mut n, 400_000);
    let key = m.key();
    m.resize(100_000);
    let whole = CYCLE / TOKENS as u64;
    assert_eq!((m.token, m.left, m.key()), (whole / 10, whole / 10, key));
    // If a token is partly used, the same part of it is left when its length changes.
    m.charge(&mut n, m.token / 4);
    m.resize(300_000);
    assert_eq!((m.token, m.left), (whole * 3 / 10, whole * 9 / 40));
    m.resize(0);
    assert_eq!((m.token, m.left), (10_000, 7_500), "the least there is");
}

/// Example 1: a member computes for 1 ms and waits elsewhere for 23 ms, beside ten members that
/// never sleep. On a CPU of its own it would do 41.7 rounds a second.
#[test]
fn an_io_bound_one_beside_ten_loops() {
    let shares = shares(&[100; 11]);
    let mut phases = vec![vec![(SEC, 0)]; 10];
    phases.push(vec![(MS, 23 * MS)]);
    let mut rate = [0; 3];
    let mut wrr = machine(Wrr::new(&shares), &shares, &phases);
    wrr.run(100 * SEC);
    rate[0] = wrr.members[10].done / 100;
    let mut sfq = machine(Sfq::new(&[100; 11]), &shares, &phases);
    sfq.run(100 * SEC);
    rate[1] = sfq.members[10].done / 100;
    let mut mtr = machine(Mtr::new(&shares), &shares, &phases);
    mtr.run(100 * SEC);
    rate[2] = mtr.members[10].done / 100;
    assert!(rate[0] <= 9, "round-robin: {rate:?}");
    assert!(rate[1] <= 25, "fair queueing with quanta of 4 ms: {rate:?}");
    assert!(rate[2] >= 41, "move-to-rear: {rate:?}");
}

/// A sleeper of `weight` beside 20 onoffs of weight 100 (Eclipse, Fig. 11), on a CPU that checks
/// slices only every 4 ms. Returns the longest wait of the sleeper until it began, its run time,
/// and the run time of one of the others; all in ns.
fn beside_onoffs(weight: u32, (on, off): node::Phase) -> (u64, u64, u64) {
    let mut weights = [100; 21];
    weights[20] = weight;
    let shares = shares(&weights);
    let mut phases = vec![vec![(11 * MS, 5 * MS)]; 20];
    phases.push(vec![(on, off)]);
    let mut order = Mtr::new(&shares);
    order.tick = 4 * MS;
    let mut m = machine(order, &shares, &phases);
    m.run(2 * SEC); // the sleeper is new and begins at the rear
    m.members[20].worst_wait = 0;
    m.run(60 * SEC);
    (
        m.members[20].worst_wait,
        m.members[20].ran,
        m.members[0].ran,
    )
}

/// A member that wants more than its share begins soon whenever it wakes up, but gets no more than
/// its share.
#[test]
fn a_member_that_wants_more_than_its_share_begins_soon() {
    for (on, off) in [(11, 100), (11, 60), (9, 70), (20, 200)] {
        let (wait, ran, other) = beside_onoffs(100, (on * MS, off * MS));
        // A few members that woke up just before run first. Without the early token: 60 to 300 ms.
        assert!(wait <= 20 * MS, "{wait}");
        let most = other + CYCLE / TOKENS as u64 + CYCLE / 21;
        assert!(ran <= most, "{ran} {most}");
    }
}

/// A member that wants less than its share runs before all other members that are early.
#[test]
fn a_member_that_wants_less_than_its_share_begins_at_once() {
    for (on, off) in [(11, 100), (5, 40), (20, 200), (1, 9)] {
        let (wait, ..) = beside_onoffs(400, (on * MS, off * MS));
        assert_eq!(wait, 0, "{on} of {}", on + off);
    }
}

fn phases() -> impl Strategy<Value = Vec<node::Phase>> {
    let compute = prop_oneof![10_000..5 * MS, 10_000..300 * MS];
    let elsewhere = prop_oneof![Just(0), 10_000..20 * MS, 10_000..900 * MS];
    prop::collection::vec((compute, elsewhere), 1..8)
}

fn many() -> impl Strategy<Value = (Vec<u64>, Vec<Vec<node::Phase>>)> {
    prop::collection::vec((1u32..=100, phases()), 2..7).prop_map(|all| {
        let (weights, phases): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        (shares(&weights), phases)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Definitions 1 to 3, over every interval of 30 s. A job of d ns is done by d / a + BOUND
    /// after it could begin. A turn is done no later than BOUND after the time at which it was
    /// expected, given the member's earlier turns at a speed of a.
    #[test]
    fn cumulative_service_delay_and_fairness((shares, phases) in many()) {
        let mut m = machine(Mtr::new(&shares), &shares, &phases);
        m.run(30 * SEC);
        for member in &m.members {
            prop_assert!(member.worst_lag <= i128::from(BOUND), "{} of {}", member.worst_lag, member.share.0);
            prop_assert!(member.worst_job <= i128::from(BOUND), "job: {} of {}", member.worst_job, member.share.0);
            prop_assert!(member.worst_late <= i128::from(BOUND), "late: {} of {}", member.worst_late, member.share.0);
        }
        prop_assert!(m.worst_pair <= i128::from(BOUND), "{}", m.worst_pair);
    }
}

/// The bound on the delay is tight: a member that has just used all of its tokens waits for all
/// tokens of the others.
#[test]
fn a_delay_of_nearly_a_cycle_happens() {
    let shares = [990_000, 10_000];
    let phases = [
        vec![(10_000, 20 * MS), (SEC, 0)],
        vec![(6 * MS, 40 * MS), (MS / 2, SEC)],
    ];
    let mut m = machine(Mtr::new(&shares), &shares, &phases);
    m.run(SEC);
    let late = m.members[1].worst_job as u64;
    assert!((CYCLE * 4 / 5..BOUND).contains(&late), "{late}");
}

/// Round-robin gives no such guarantee: with the same tasks the member's lag grows without bound.
#[test]
fn round_robin_has_no_cumulative_service() {
    let shares = shares(&[100; 11]);
    let mut phases = vec![vec![(SEC, 0)]; 10];
    phases.push(vec![(MS, 23 * MS)]);
    let lag = |seconds| {
        let mut m = machine(Wrr::new(&shares), &shares, &phases);
        m.run(seconds * SEC);
        m.members[10].worst_lag as u64
    };
    let (short, long) = (lag(10), lag(100));
    assert!(long > 9 * short && long > 20 * BOUND, "{short} {long}");
    assert_eq!(PPM / shares[0], 11);
}
