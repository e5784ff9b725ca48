//! Cumulative service of one member while others come, go, sleep, and have their shares changed.

use proptest::prelude::*;

use super::{Member, Node, CYCLE, TOKENS};
use crate::{MS, PPM};

/// T (1 + 2/MTR_TOKENS), and what tokens of whole ns round off.
const BOUND: f64 = (CYCLE + 2 * CYCLE / TOKENS as u64 + MS / 10) as f64;

/// What happens to one of the others, between two steps.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It comes, with a share of so many ppm, if there is room and it is not there.
    Join(usize, u64),
    Leave(usize),
    /// Its share changes, if there is room.
    Resize(usize, u64),
    /// It falls asleep, or wakes up.
    Toggle(usize),
    /// The one that is observed does.
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
    // resize is 0 for none: an arm of no weight is never chosen
    prop::collection::vec((10_000u64..80 * MS, event), 50..400)
}

/// Returns the most that the lag of a member with `mine` grew over any interval, less what grown
/// shares may have cost.
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
                    // its share of T, at once
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

    /// Shares that never add up to more than 1: the guarantee holds while members come and go.
    #[test]
    fn members_come_and_go(mine in 20_000u64..800_000, events in events(0)) {
        let worst = worst(mine, &events);
        prop_assert!(worst <= BOUND, "{worst}");
    }

    /// Each share that grows may cost as much as it grew, of T.
    #[test]
    fn shares_change(mine in 20_000u64..800_000, events in events(4)) {
        let worst = worst(mine, &events);
        prop_assert!(worst <= BOUND, "{worst}");
    }
}
