//! Cumulative service of one member while others come, go, sleep, and change their shares.

use proptest::prelude::*;

use super::{Member, Node, CYCLE, TOKENS};
use crate::{MS, PPM};

/// T (1 + 2/MTR_TOKENS), plus what tokens of whole ns lose by rounding.
const BOUND: f64 = (CYCLE + 2 * CYCLE / TOKENS as u64 + MS / 10) as f64;

/// What happens to one of the other members between two steps.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The member joins with a share of so many ppm, if it is absent and there is room.
    Join(usize, u64),
    /// The member leaves.
    Leave(usize),
    /// The member's share changes, if there is room.
    Resize(usize, u64),
    /// The member goes to sleep, or wakes up.
    Toggle(usize),
    /// The observed member goes to sleep, or wakes up.
    ToggleObserved,
}

const OTHERS: usize = 5;

fn events(resize: u32) -> impl Strategy<Value = Vec<(u64, Event)>> {
    let who = || 0..OTHERS;
    let share = || 1_000u64..600_000;
    let event = prop_oneof![
        3 => (who(), share()).prop_map(|(i, s)| Event::Join(i, s)),
        2 => who().prop_map(Event::Leave),
        resize => (who(), share()).prop_map(|(i, s)| Event::Resize(i, s)),
        3 => who().prop_map(Event::Toggle),
        1 => Just(Event::ToggleObserved),
    ];
    // With a `resize` of 0 no share ever changes: an arm of weight 0 is never chosen.
    prop::collection::vec((10_000u64..80 * MS, event), 50..400)
}

/// Returns the most by which the lag of a member with a share of `mine` grew over any interval,
/// less what the growth of other shares may have cost it, ns.
fn worst(mine: u64, events: &[(u64, Event)]) -> f64 {
    let mut node = Node::default();
    let mut me = Member::join(&mut node, mine);
    let mut awake = true;
    let mut others: [Option<(Member, u64, bool)>; OTHERS] = [None; OTHERS];
    let (mut lag, mut least, mut worst) = (0.0f64, 0.0f64, 0.0f64);
    for &(length, event) in events {
        let used: u64 = others.iter().flatten().map(|o| o.1).sum();
        let room = PPM - mine - used;
        match event {
            Event::Join(i, share) if others[i].is_none() && share <= room => {
                others[i] = Some((Member::join(&mut node, share), share, true));
            }
            Event::Leave(i) => others[i] = None,
            Event::Resize(i, to) => {
                if let Some((member, share, _)) = others[i].as_mut().filter(|o| to <= room + o.1) {
                    member.resize(to);
                    // The member's growth times T may be lost at once.
                    lag -= to.saturating_sub(*share) as f64 * CYCLE as f64 / PPM as f64;
                    *share = to;
                }
            }
            Event::Toggle(i) => {
                if let Some(other) = &mut others[i] {
                    other.2 = !other.2;
                    if other.2 {
                        other.0.wake(&node);
                    }
                }
            }
            Event::ToggleObserved => {
                awake = !awake;
                if awake {
                    me.wake(&node);
                }
            }
            Event::Join(..) => {}
        }
        let mut left = length;
        while left > 0 {
            let first = (others.iter_mut().flatten())
                .filter(|o| o.2)
                .map(|o| &mut o.0)
                .min_by_key(|m| m.key());
            let runs_mine = awake && first.as_ref().is_none_or(|m| me.key() < m.key());
            let runs = match first {
                _ if runs_mine => &mut me,
                Some(other) => other,
                None => break,
            };
            let ns = runs.slice().min(left);
            runs.charge(&mut node, ns);
            left -= ns;
            if awake {
                lag += ns as f64;
            }
            if runs_mine {
                lag -= ns as f64 * PPM as f64 / mine as f64;
            }
            least = least.min(lag);
            worst = worst.max(lag - least);
        }
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// If shares never add up to more than 1, the guarantee holds while members come and go.
    #[test]
    fn members_come_and_go(mine in 20_000u64..800_000, events in events(0)) {
        let worst = worst(mine, &events);
        prop_assert!(worst <= BOUND, "{worst}");
    }

    /// Each share that grows by g may cost the observed member g T, once.
    #[test]
    fn shares_change(mine in 20_000u64..800_000, events in events(4)) {
        let worst = worst(mine, &events);
        prop_assert!(worst <= BOUND, "{worst}");
    }
}
