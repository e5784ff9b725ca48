//! Shares in bytes, room for newcomers, and nodes that can be forgotten.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::{Hsfq, LEAST, ROOM, ROOT};
use crate::SEC;

#[test]
fn constants_are_the_headers() {
    extern "C" {
        static policy_hsfq_constants: [u32; 4];
    }
    // SAFETY: a constant of shim_net.c
    let [room, least, packets, levels] = unsafe { policy_hsfq_constants };
    assert_eq!((u64::from(room), u64::from(least)), (ROOM, LEAST));
    assert!(u64::from(packets) > ROOM / LEAST, "a slot for each packet");
    assert!(
        levels >= 1 + 16 + 2,
        "all levels of domains, and two of a leaf"
    );
}

/// Leaves 2, 3, … with these weights, each of which always has `waiting` packets of its size.
fn shares(leaves: &[(u32, u32)], up: u32, q: &mut Hsfq, bytes: u64) -> Vec<u64> {
    for (i, (weight, size)) in leaves.iter().enumerate() {
        let leaf = 100 + i as u32;
        q.become_node(leaf, up, *weight, true);
        for _ in 0..4 {
            q.come(leaf, *size, 0).unwrap();
        }
    }
    let mut sent = vec![0; leaves.len()];
    while sent.iter().sum::<u64>() < bytes {
        let (leaf, _) = q.go(true, 0).unwrap();
        let i = leaf as usize - 100;
        sent[i] += u64::from(leaves[i].1);
        q.come(leaf, leaves[i].1, 0).unwrap();
    }
    sent
}

/// QLinux, Fig. 7a and 7b.
#[test]
fn shares_are_by_weight_whatever_the_size() {
    for (a, b, sizes) in [(1, 1, (64, 1472)), (1, 4, (1000, 1000)), (1, 9, (1472, 64))] {
        let leaves = [(100 * a, sizes.0), (100 * b, sizes.1)];
        let sent = shares(&leaves, ROOT, &mut Hsfq::default(), 10_000_000);
        let off = (sent[0] * u64::from(b)).abs_diff(sent[1] * u64::from(a));
        let most = u64::from(sizes.0 * b + sizes.1 * a);
        assert!(off <= most, "{a}:{b}: {sent:?}");
    }
}

/// QLinux, Fig. 13b: a domain below 16 others has what it would have right below the root.
#[test]
fn depth_changes_no_share() {
    let mut q = Hsfq::default();
    for level in 2..18 {
        q.become_node(level, level - 1, 100, false);
    }
    q.become_node(50, ROOT, 300, true);
    q.become_node(51, 17, 100, true);
    let mut sent = BTreeMap::from([(50, 0u64), (51, 0)]);
    for leaf in [50, 51] {
        for _ in 0..4 {
            q.come(leaf, 1000, 0).unwrap();
        }
    }
    for _ in 0..4000 {
        let (leaf, _) = q.go(true, 0).unwrap();
        *sent.get_mut(&leaf).unwrap() += 1;
        q.come(leaf, 1000, 0).unwrap();
    }
    assert!(sent[&50].abs_diff(3000) <= 2, "{sent:?}");
}

/// Senders with packets of one size all have the same start tag when a thin flow's packet comes. It
/// is the next, right below the root and below a domain.
#[test]
fn a_packet_of_an_idle_member_is_next() {
    for (senders, size, deep) in [(2, 1000, false), (16, 1000, true), (64, 1514, true)] {
        let mut q = Hsfq::default();
        let up = if deep { 2 } else { ROOT };
        if deep {
            q.become_node(2, ROOT, 100, false);
        }
        let thin = 3;
        q.become_node(thin, up, 100, true);
        for leaf in 100..100 + senders {
            q.become_node(leaf, up, 100, true);
            for _ in 0..4 {
                q.come(leaf, size, 0).unwrap();
            }
        }
        for turn in 0..7 * senders {
            // after the first round: until then the senders were idle, too
            if turn > senders && turn % 7 == 6 {
                q.come(thin, 100, 0).unwrap();
                assert_eq!(q.go(true, 0).unwrap().0, thin, "{turn} of {senders}");
            }
            let (leaf, _) = q.go(true, 0).unwrap();
            q.come(leaf, size, 0).unwrap();
        }
    }
}

/// The room of a lone sender at this depth, and of a newcomer beside `n` that fill theirs.
#[test]
fn a_newcomer_has_room() {
    for n in [1u32, 8, 64, 500] {
        let mut q = Hsfq::default();
        for leaf in 2..n + 3 {
            q.become_node(leaf, ROOT, 100, true);
        }
        // Each in turn, so that none is the first to fill its room.
        let mut refused = 0;
        while refused < n {
            refused = (2..n + 2)
                .filter(|leaf| q.come(*leaf, 1000, 0).is_none())
                .count() as u32;
        }
        let lone = q.counts(2).held;
        if n == 1 {
            assert!(u64::from(lone).abs_diff(ROOM * 4 / 5) <= LEAST, "{lone}");
        }
        let mut newcomers = 0;
        while q.come(n + 2, 1000, 0).is_some() {
            newcomers += LEAST;
        }
        let right = 0.8 * ROOM as f64 / f64::from(4 * n + 1);
        let off = newcomers as f64 - right;
        assert!(
            off.abs() <= f64::from(n + 1) * LEAST as f64,
            "{n}: {newcomers}, right: {right}"
        );
        assert!(newcomers >= LEAST, "{n}");
    }
}

/// A user with one domain is not worse off because another has a thousand in one of its own.
#[test]
fn many_domains_of_one_owner_have_one_room() {
    let mut q = Hsfq::default();
    q.become_node(2, ROOT, 100, false);
    q.become_node(3, ROOT, 100, true);
    for leaf in 10..1010 {
        q.become_node(leaf, 2, 100, true);
    }
    for _ in 0..20 {
        for leaf in 10..1010 {
            q.come(leaf, 1500, 0);
        }
    }
    let crowd = q.counts(2).held;
    assert!(u64::from(crowd) <= ROOM * 4 / 5, "{crowd}");
    let mut other = 0;
    while q.come(3, 1500, 0).is_some() {
        other += LEAST;
    }
    assert!(other > ROOM / 10, "{other}");
}

/// A link of 1 ns a byte, whose leaves always have packets of 1,000 bytes: what each leaf sends
/// from `from` to `until`, ns.
fn run(q: &mut Hsfq, leaves: &[u32], from: u64, until: u64) -> BTreeMap<u32, u64> {
    let mut sent: BTreeMap<u32, u64> = leaves.iter().map(|leaf| (*leaf, 0)).collect();
    let mut now = from;
    while now < until {
        for leaf in leaves {
            while q.counts(*leaf).packets < 2 {
                q.come(*leaf, 1000, now).unwrap();
            }
        }
        match q.go(true, now) {
            Some((leaf, _)) => {
                *sent.get_mut(&leaf).unwrap() += 1000;
                now += 1000;
            }
            None => now = q.late().unwrap().max(now + 1),
        }
    }
    sent
}

/// A ceiling holds for a leaf and for all below an inner node, and the others have the rest.
#[test]
fn ceilings_hold_and_leave_the_rest_to_others() {
    let mut q = Hsfq::default();
    q.become_node(2, ROOT, 100, false);
    for (leaf, up) in [(10, 2), (11, 2), (12, ROOT), (13, ROOT)] {
        q.become_node(leaf, up, 100, true);
    }
    let all = [10, 11, 12, 13];
    q.set_ceiling(2, 100_000_000); // a tenth of the link
    q.set_ceiling(12, 50_000_000);
    let sent = run(&mut q, &all, SEC, 2 * SEC);
    let near = |got: u64, right: u64| got.abs_diff(right) < right / 100;
    assert!(
        near(sent[&10], 50_000_000) && near(sent[&11], 50_000_000),
        "{sent:?}"
    );
    assert!(near(sent[&12], 50_000_000), "{sent:?}");
    assert!(near(sent[&13], 850_000_000), "{sent:?}");
    // All have one: the link is idle in between.
    q.set_ceiling(13, 10_000_000);
    let sent = run(&mut q, &all, 2 * SEC, 3 * SEC);
    assert!(near(sent[&13], 10_000_000), "{sent:?}");
    assert!(near(sent.values().sum(), 160_000_000), "{sent:?}");
    // None has one any more: shares by weight again.
    for i in [2, 12, 13] {
        q.set_ceiling(i, 0);
    }
    let sent = run(&mut q, &all, 4 * SEC, 5 * SEC);
    assert!(
        near(sent[&13], 333_333_000) && near(sent[&10], 166_666_000),
        "{sent:?}"
    );
}

/// A node whose only child is at its ceiling has nothing to send, whatever comes to that child.
#[test]
fn a_packet_for_a_late_node_wakes_no_ancestor() {
    let mut q = Hsfq::default();
    q.become_node(2, ROOT, 100, false);
    q.become_node(10, 2, 100, true);
    q.become_node(11, ROOT, 100, true);
    q.set_ceiling(10, 1_000); // a packet a second
    for _ in 0..3 {
        q.come(10, 1000, SEC).unwrap();
    }
    assert_eq!(q.go(true, SEC).map(|g| g.0), Some(10));
    q.come(10, 1000, SEC + 1).unwrap();
    assert_eq!(q.go(true, SEC + 1), None);
    q.come(11, 1000, SEC + 2).unwrap();
    assert_eq!(q.go(true, SEC + 2).map(|g| g.0), Some(11));
    let at = q.late().unwrap();
    assert_eq!(q.go(true, at - 1), None);
    assert_eq!(q.go(true, at).map(|g| g.0), Some(10));
    assert!(!q.forget(10), "its ceiling would be forgotten");
}

#[derive(Debug, Clone)]
enum Step {
    Come { leaf: u32, bytes: u32 },
    Go { is_sent: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6u32, 40..3000u32).prop_map(|(leaf, bytes)| Step::Come { leaf, bytes }),
        (0..6u32, 40..70_000u32).prop_map(|(leaf, bytes)| Step::Come { leaf, bytes }),
        (0..8u8).prop_map(|n| Step::Go { is_sent: n > 0 }),
        (0..8u8).prop_map(|n| Step::Go { is_sent: n > 0 }),
    ]
}

/// Two inner nodes with three leaves each.
fn six_leaves(weights: &[u32]) -> Hsfq {
    let mut q = Hsfq::default();
    for (i, weight) in weights.iter().enumerate() {
        let i = i as u32;
        if i % 3 == 0 {
            q.become_node(2 + i / 3, ROOT, *weight, false);
        }
        q.become_node(10 + i, 2 + i / 3, *weight, true);
    }
    q
}

/// Bytes that the nodes of `six_leaves` sent, and packets that they dropped.
fn totals(q: &Hsfq) -> (u64, u64) {
    let all = (1..16).map(|i| q.counts(i));
    all.fold((0, 0), |(sent, dropped), c| {
        (sent + c.sent_bytes, dropped + c.dropped)
    })
}

proptest! {
    /// Each admitted packet leaves once, in the order of its leaf; all counts agree with a model.
    #[test]
    fn no_packet_is_lost(
        steps in prop::collection::vec(step(), 1..400),
        weights in prop::collection::vec(1..10_000u32, 6),
        ceilings in prop::collection::vec((2..16u32, 0..10_000_000_000u64), 0..4),
    ) {
        let mut q = six_leaves(&weights);
        for (i, rate) in ceilings {
            if !(4..10).contains(&i) {
                q.set_ceiling(i, rate.max(8));
            }
        }
        let mut model: BTreeMap<u32, VecDeque<(u32, u32)>> = BTreeMap::new(); // slot, bytes
        let (mut sent, mut dropped) = (0u64, 0u64);
        let ends = std::iter::repeat_n(Step::Go { is_sent: true }, steps.len());
        let mut now = SEC;
        for step in steps.into_iter().chain(ends) {
            now += 1;
            match step {
                Step::Come { leaf, bytes } => match q.come(10 + leaf, bytes, now) {
                    Some(slot) => {
                        let used = model.values().flatten().any(|(s, _)| *s == slot);
                        prop_assert!(!used, "a slot is used twice");
                        model.entry(10 + leaf).or_default().push_back((slot, bytes));
                    }
                    None => dropped += 1,
                },
                Step::Go { is_sent } => {
                    let waiting: usize = model.values().map(VecDeque::len).sum();
                    let mut found = q.go(is_sent, now);
                    for _ in 0..8 {
                        if let (None, Some(at)) = (found, q.late()) {
                            prop_assert!(at > now, "its time has come");
                            now = at;
                            found = q.go(is_sent, now);
                        }
                    }
                    let Some((leaf, slot)) = found else {
                        prop_assert_eq!(waiting, 0, "the link is idle though a packet waits");
                        continue;
                    };
                    let first = model.entry(leaf).or_default().pop_front();
                    prop_assert_eq!(first.map(|f| f.0), Some(slot));
                    let bytes = first.map_or(0, |f| f.1);
                    if is_sent { sent += u64::from(bytes) } else { dropped += 1 }
                }
            }
            let all = model.values().flatten();
            let held: u64 = all.clone().map(|(_, b)| u64::from(*b).max(LEAST)).sum();
            let root = q.counts(ROOT);
            match q.alone() {
                Some((_, bytes)) => {
                    prop_assert_eq!(all.map(|(_, b)| *b).collect::<Vec<_>>(), vec![bytes]);
                    prop_assert_eq!((root.packets, root.held), (0, 0));
                }
                None => {
                    prop_assert_eq!(root.packets as usize, all.count());
                    prop_assert_eq!(u64::from(root.held), held);
                }
            }
            prop_assert!(held <= ROOM);
            prop_assert_eq!(totals(&q), (sent, dropped));
        }
        prop_assert_eq!(q.counts(ROOT).packets, 0);
    }

    /// Goyal's bound, for two members of one node that both have packets all the time, beside a
    /// third one that comes and goes.
    #[test]
    fn the_fairness_bound_holds(
        weights in prop::collection::vec(1..1000u32, 3),
        sizes in prop::collection::vec((40..1500u32, 40..1500u32, 0..9000u32), 10..300),
    ) {
        let mut q = Hsfq::default();
        for (i, weight) in weights.iter().enumerate() {
            q.become_node(10 + i as u32, ROOT, *weight, true);
        }
        let mut queues = [VecDeque::new(), VecDeque::new()];
        let mut sent = [0u64; 2];
        let mut longest = [0u64; 2];
        for (a, b, third) in sizes {
            for (i, bytes) in [a, b].into_iter().enumerate() {
                while queues[i].len() < 2 {
                    q.come(10 + i as u32, bytes, 0).unwrap();
                    queues[i].push_back(bytes);
                    longest[i] = longest[i].max(bytes.into());
                }
            }
            if third < 1500 {
                q.come(12, third, 0);
            }
            let (leaf, _) = q.go(true, 0).unwrap();
            if leaf < 12 {
                let i = leaf as usize - 10;
                sent[i] += u64::from(queues[i].pop_front().unwrap());
            }
            let [wa, wb] = [f64::from(weights[0]), f64::from(weights[1])];
            let off = (sent[0] as f64 / wa - sent[1] as f64 / wb).abs();
            let most = longest[0] as f64 / wa + longest[1] as f64 / wb;
            // tags are rounded up: below a byte of virtual time in all
            prop_assert!(off <= most + 1.0, "{off} of {most}");
        }
    }

    /// A packet that is alone leaves no trace: the others leave in the order in which they do if
    /// such packets go through the heaps, too. (They do where there was ever a ceiling.)
    #[test]
    fn a_packet_that_is_alone_changes_no_order(
        steps in prop::collection::vec(step(), 1..300),
        weights in prop::collection::vec(1..10_000u32, 6),
    ) {
        let (mut past, mut through) = (six_leaves(&weights), six_leaves(&weights));
        through.set_ceiling(10, 1_000);
        through.set_ceiling(10, 0);
        let (mut came, mut was_alone) = (false, false);
        for (now, step) in steps.into_iter().enumerate() {
            let now = now as u64;
            match step {
                Step::Come { leaf, bytes } => {
                    let [a, b] = [&mut past, &mut through].map(|q| q.come(10 + leaf, bytes, now));
                    prop_assert_eq!(a, b);
                    came = true;
                }
                Step::Go { is_sent } => {
                    let [a, b] = [&mut past, &mut through].map(|q| q.go(is_sent, now));
                    prop_assert_eq!(a, b);
                }
            }
            was_alone |= past.alone().is_some();
            prop_assert!(through.alone().is_none());
            for i in (1..4).chain(10..16) {
                let [a, b] = [&past, &through].map(|q| {
                    let c = q.counts(i);
                    (c.sent_bytes, c.dropped, c.delay_ns)
                });
                prop_assert_eq!(a, b);
            }
        }
        prop_assert_eq!(came, was_alone, "the first one is");
    }

    /// A node that may be forgotten comes back as if it had been there all the time: the same
    /// packets leave in the same order.
    #[test]
    fn what_is_forgotten_is_not_missed(
        steps in prop::collection::vec(step(), 1..300),
        weights in prop::collection::vec(1..10_000u32, 6),
    ) {
        let (mut kept, mut forgets) = (six_leaves(&weights), six_leaves(&weights));
        for (now, step) in steps.into_iter().enumerate() {
            match step {
                Step::Come { leaf, bytes } => {
                    let i = 10 + leaf;
                    if forgets.forget(i) {
                        forgets.become_node(i, 2 + leaf / 3, weights[leaf as usize], true);
                    }
                    let [a, b] = [&mut kept, &mut forgets].map(|q| q.come(i, bytes, now as u64));
                    prop_assert_eq!(a, b);
                }
                Step::Go { is_sent } => {
                    let [a, b] = [&mut kept, &mut forgets].map(|q| q.go(is_sent, now as u64));
                    prop_assert_eq!(a, b);
                }
            }
            prop_assert_eq!(totals(&kept), totals(&forgets));
        }
    }
}
