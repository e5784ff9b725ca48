//! The fairness bound of SFQ, and the delay of a member that wakes up.

use proptest::prelude::*;

use super::{Member, Node, SCALE};
use crate::node::{self, Machine, Order};
use crate::{assert_layout, MS, PPM, SEC};

/// A node whose virtual time is `now`.
fn at(now: u64) -> Node {
    let before = now;
    Node {
        now,
        before,
        last: 0,
    }
}

/// The longest time that a member runs between two choices, ns.
const QUANTUM: u64 = 4 * MS;

pub struct Sfq {
    node: Node,
    members: Vec<Member>,
    weights: Vec<u32>,
}

impl Sfq {
    pub fn new(weights: &[u32]) -> Self {
        Self {
            node: Node::default(),
            members: vec![Member::default(); weights.len()],
            weights: weights.to_vec(),
        }
    }
}

impl Order for Sfq {
    fn wake(&mut self, m: usize) {
        self.members[m].wake(&self.node);
    }

    fn key(&self, m: usize) -> u64 {
        self.members[m].start
    }

    fn run(&mut self, m: usize) {
        self.members[m].run(&mut self.node);
    }

    fn slice(&self, _: usize) -> u64 {
        QUANTUM
    }

    fn charge(&mut self, m: usize, ns: u64) {
        self.members[m].charge(ns, self.weights[m]);
    }

    fn sleep(&mut self, m: usize, all: bool) {
        self.members[m].sleep(&mut self.node, all);
    }

    fn preempts(&self) -> bool {
        false
    }
}

/// Shares in proportion to the weights, ppm.
pub fn shares(weights: &[u32]) -> Vec<u64> {
    let sum: u64 = weights.iter().copied().map(u64::from).sum();
    weights.iter().map(|&w| u64::from(w) * PPM / sum).collect()
}

fn machine(weights: &[u32], phases: &[Vec<node::Phase>]) -> Machine<Sfq> {
    let sum: u32 = weights.iter().sum();
    let members = weights.iter().zip(phases);
    let member = |(&w, p): (&u32, &Vec<_>)| node::Member::new((w.into(), sum.into()), p.clone());
    Machine::new(Sfq::new(weights), members.map(member).collect())
}

/// QLinux, Fig. 5: weights of 1:1, 1:2, 1:4 and 1:9.
#[test]
fn progress_is_by_weight() {
    for w in [1, 2, 4, 9] {
        let mut m = machine(&[100, 100 * w], &[vec![(SEC, 0)], vec![(SEC, 0)]]);
        m.run(100 * SEC);
        let [a, b] = [m.members[0].ran, m.members[1].ran];
        let off = (a * u64::from(w)).abs_diff(b);
        assert!(off <= QUANTUM * u64::from(w + 1), "1:{w}: {a} {b}");
    }
}

#[test]
fn layout_and_scale_are_the_headers() {
    assert_layout!(policy_layout_sfq_node, Node, now, before, last);
    extern "C" {
        static policy_sfq_scale: u64;
    }
    // SAFETY: a constant of shim_tree.c.
    assert_eq!(unsafe { policy_sfq_scale }, SCALE);
}

/// 10 s at the least and at the greatest weight: the charge neither overflows nor rounds to 0.
#[test]
fn charges_at_the_ends() {
    let charge = |ns, weight| {
        let mut m = Member::default();
        m.charge(ns, weight);
        m.start
    };
    assert_eq!(charge(10 * SEC, 1), 10 * SEC * SCALE);
    assert_eq!(charge(10 * SEC, 1 << 20), 10 * SEC);
    assert_eq!(charge(1, u32::MAX), 1, "rounded up");
    assert_eq!(charge(0, 100), 0);
    assert_eq!(charge(5, 0), 5 * SCALE, "a weight of 0 is 1");
    assert_eq!(charge(u64::MAX, 1), 1 << 63, "saturated");
    // From 1 ms on, the error is below 0.1 %.
    let exact = |ns, weight: u32| (ns as f64) * (SCALE as f64) / f64::from(weight);
    for weight in [64, 6_400, 640_000, 1 << 29] {
        let got = charge(MS, weight) as f64;
        assert!(
            (got / exact(MS, weight) - 1.0).abs() < 0.001,
            "{weight}: {got}"
        );
    }
}

/// Virtual time wraps. A member that slept during the wrap is not ahead, whatever its tag.
#[test]
fn sleep_through_the_end_of_the_clock() {
    let mut m = Member { start: 1000 };
    for now in [
        1001,
        1 << 42,
        1 << 62,
        1 << 63,
        (1 << 63) + 2000,
        u64::MAX - (1 << 42),
    ] {
        m.start = 1000;
        m.wake(&at(now));
        assert_eq!(m.start, now);
    }
    // A member is ahead by what it ran last.
    m.start = 1000 + SCALE;
    m.wake(&at(1000));
    assert_eq!(m.start, 1000 + SCALE);
    let mut n = at(u64::MAX - 5);
    m.start = 7;
    m.wake(&n);
    m.run(&mut n);
    assert_eq!((m.start, n.now), (7, 7), "12 later");
}

/// When all members sleep, none stays ahead: the one that ran longest before does not have to wait
/// (found by `delay_bound`).
#[test]
fn the_end_of_a_busy_period() {
    let mut n = Node::default();
    let [mut a, mut b] = [Member::default(); 2];
    a.charge(9 * MS, 100);
    b.charge(4 * MS, 100);
    a.sleep(&mut n, false);
    assert_eq!(n.now, 0);
    b.wake(&n);
    assert!(b.start < a.start);
    b.sleep(&mut n, true);
    assert_eq!(n.now, a.start);
    a.wake(&n);
    b.wake(&n);
    assert_eq!((a.start, b.start), (n.now, n.now));
}

/// A minute of sleep gives no right to a minute of CPU time.
#[test]
fn sleep_earns_nothing() {
    let mut m = machine(
        &[100, 100],
        &[vec![(SEC, 0)], vec![(1, 60 * SEC), (60 * SEC, 0)]],
    );
    m.run(60 * SEC);
    let before = m.members[1].ran;
    m.run(62 * SEC);
    let got = m.members[1].ran - before;
    assert!(got <= SEC + QUANTUM, "{got}");
}

/// At any weight and any virtual time, also where it wraps: a member that goes on is at most its
/// credit behind, and never ahead of where it was.
#[test]
fn a_member_that_is_released_keeps_its_place() {
    for weight in [1, 64, 400, 640_000] {
        let credit = (QUANTUM * SCALE / u64::from(weight)).min(1 << 41);
        for now in [0, 5, 1 << 42, u64::MAX - 7] {
            let released = |start: u64| {
                let mut m = Member { start };
                m.go_on(now, QUANTUM, weight);
                m.start
            };
            let least = now.wrapping_sub(credit);
            for ahead in [0, 1, credit / 2, 1 << 40] {
                let start = now.wrapping_add(ahead);
                assert_eq!(released(start), start, "it is ahead");
            }
            for behind in [1, credit / 2, credit] {
                let start = now.wrapping_sub(behind);
                assert_eq!(released(start), start, "it keeps its place");
            }
            for behind in [credit + 1, 1 << 60, 1 << 63] {
                assert_eq!(released(now.wrapping_sub(behind)), least, "no more");
            }
        }
    }
    let mut m = Member { start: 0 };
    m.go_on(9, 0, 100);
    assert_eq!(m.start, 9, "no credit is a wake-up");
}

/// A light member is chosen while no task of the heavy one can be found, and the virtual time steps
/// by a slice at the light weight. The heavy one, all of whose tasks ran, keeps its place.
#[test]
fn a_choice_out_of_turn_takes_nothing_from_a_member_that_goes_on() {
    let mut node = Node::default();
    let (mut heavy, mut light) = (Member::default(), Member::default());
    for (m, weight) in [(&mut heavy, 900), (&mut light, 100)] {
        m.run(&mut node);
        m.charge(QUANTUM, weight);
    }
    heavy.run(&mut node);
    let turn = node.now;
    light.run(&mut node);
    assert_eq!((node.now, node.before), (light.start, turn));
    let place = heavy.start;
    heavy.go_on(node.before, 0, 900);
    assert_eq!(heavy.start, place);
    heavy.go_on(node.now, 0, 900);
    assert_eq!(
        heavy.start, light.start,
        "by the time after the step it loses its place"
    );
    // Once all sleep there is nothing to keep.
    heavy.sleep(&mut node, true);
    assert_eq!(node.before, node.now);
}

fn phases() -> impl Strategy<Value = Vec<node::Phase>> {
    let compute = 10_000..60 * MS;
    let elsewhere = prop_oneof![Just(0), 10_000..200 * MS];
    prop::collection::vec((compute, elsewhere), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// | W_f/w_f - W_g/w_g | <= q/w_f + q/w_g, over any interval in which both are runnable.
    #[test]
    fn fairness_bound(all in prop::collection::vec((1u32..=1000, phases()), 2..7)) {
        let (weights, phases): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let mut m = machine(&weights, &phases);
        m.run(20 * SEC);
        let sum: u64 = weights.iter().copied().map(u64::from).sum();
        let mut least = weights;
        least.sort_unstable();
        // For the two members with the least weights. Each tag is rounded up by less than 1 ns.
        let bound = QUANTUM * sum / u64::from(least[0]) + QUANTUM * sum / u64::from(least[1]);
        let rounded = 10 * sum;
        prop_assert!(m.worst_pair <= i128::from(bound + rounded), "{} > {bound}", m.worst_pair);
    }

    /// Each quantum is done by the time at which it was expected to begin at a speed of w / sum w,
    /// plus its own length, plus one quantum of each other member (Goyal's delay theorem). This
    /// holds however members sleep.
    #[test]
    fn delay_bound(all in prop::collection::vec((1u32..=1000, phases()), 2..7)) {
        let (weights, phases): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let mut m = machine(&weights, &phases);
        m.run(20 * SEC);
        for (i, member) in m.members.iter().enumerate() {
            let bound = QUANTUM * (weights.len() - 1) as u64;
            prop_assert!(member.worst_late <= i128::from(bound + 10_000), "{i}: {} {bound}", member.worst_late);
        }
    }

    /// A member that wakes up and is not ahead of the others waits for at most one quantum of each
    /// of them.
    #[test]
    fn delay_of_a_light_sleeper(
        hogs in prop::collection::vec(1u32..=1000, 1..8),
        weight in 1u32..=1000,
    ) {
        let mut weights = hogs.clone();
        weights.push(weight);
        let mut all = vec![vec![(SEC, 0)]; hogs.len()];
        let light = 10_000; // 10 us every 60 s is below any share: the least is 1 of 7,001
        all.push(vec![(light, 60 * SEC)]);
        let mut m = machine(&weights, &all);
        m.run(200 * SEC);
        let sleeper = &m.members[hogs.len()];
        prop_assert!(sleeper.done >= 3);
        prop_assert!(sleeper.worst_wait <= QUANTUM * hogs.len() as u64, "{}", sleeper.worst_wait);
    }
}
