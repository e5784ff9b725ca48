//! The pair of queues of one CPU: CPU time is shared by the number of tasks, and what a member ran
//! while it was alone does not count later.

use super::*;
use crate::{MS, SEC};
use proptest::prelude::*;

/// The longest slice, ns: a tick (100 Hz) may end it late.
const QUANTUM: u64 = 14 * MS;
/// How far one member may be behind the other when both begin to wait, for each task, ns.
const LEAD: u64 = 16 * MS;

/// Both members always have `nr` tasks waiting, while quanta of the given lengths (ns) run. `each`
/// gets the total run time of each member (ns) after every quantum.
fn contend(f: &mut Pair, nr: [u32; 2], quanta: &[u64], mut each: impl FnMut([u64; 2])) {
    let mut ran = [0, 0];
    for &q in quanta {
        let m = f.pick();
        f.charge(m, q, nr[m]);
        ran[m] += q;
        each(ran);
    }
}

#[test]
fn equals_take_turns() {
    let mut f = Pair::default();
    let order: Vec<_> = (0..6)
        .map(|_| {
            let m = f.pick();
            f.charge(m, 4 * MS, 1);
            m
        })
        .collect();
    assert_eq!(order, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn three_tasks_get_three_times_what_one_gets() {
    let mut f = Pair::default();
    contend(&mut f, [3, 1], &[4 * MS; 4000], |_| ());
    let mut total = [0, 0];
    contend(&mut f, [3, 1], &[4 * MS; 4000], |ran| total = ran);
    assert_eq!(total, [12 * SEC, 4 * SEC]);
}

/// A pinned hog had its CPU alone for a minute; then a build begins there. (And the other way
/// round.)
#[test]
fn a_minute_alone_is_not_held_against_a_member() {
    for alone in [0, 1] {
        let mut f = Pair::default();
        f.charge(alone, 60 * SEC, 1);
        let mut waited = 0;
        while waited <= SEC {
            let m = f.pick();
            if m == alone {
                break;
            }
            f.charge(m, 4 * MS, 1);
            waited += 4 * MS;
        }
        assert!(waited <= LEAD + 4 * MS, "{waited}");
    }
}

#[test]
fn no_tasks_count_as_one() {
    let mut f = Pair::default();
    f.charge(1, 4 * MS, 0);
    assert_eq!(f.tag[1], 4 * MS);
}

fn quanta() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1..=QUANTUM, 50..400)
}

proptest! {
    /// Start-time fair queueing with weights n: |W_0/n_0 - W_1/n_1| <= q/n_0 + q/n_1 at all times.
    #[test]
    fn split_is_by_number_of_tasks(nr in (1u32..50, 1u32..50), quanta in quanta()) {
        let nr = [nr.0, nr.1];
        let mut worst = 0;
        contend(&mut Pair::default(), nr, &quanta, |ran| {
            worst = worst.max((ran[0] / u64::from(nr[0])).abs_diff(ran[1] / u64::from(nr[1])));
        });
        let bound = QUANTUM / u64::from(nr[0]) + QUANTUM / u64::from(nr[1]) + quanta.len() as u64;
        prop_assert!(worst <= bound, "{worst} above {bound}");
    }

    /// Whatever each member ran alone before, neither is ahead by more than LEAD. So neither
    /// starves, and a member gains nothing by idling.
    #[test]
    fn history_alone_counts_for_no_more_than_the_lead(
        history in prop::collection::vec((0usize..2, 0..100 * SEC, 1u32..50), 0..20),
        nr in (1u32..50, 1u32..50), quanta in quanta())
    {
        let mut f = Pair::default();
        for (m, alone, nr) in history {
            f.charge(m, alone, nr);
            if alone % 3 == 0 {
                f.pick(); // the other member had a task for a moment
            }
        }
        let nr = [nr.0, nr.1];
        let mut worst = 0;
        contend(&mut f, nr, &quanta, |ran| {
            worst = worst.max((ran[0] / u64::from(nr[0])).abs_diff(ran[1] / u64::from(nr[1])));
        });
        let bound = LEAD + QUANTUM / u64::from(nr[0]) + QUANTUM / u64::from(nr[1]) + quanta.len() as u64;
        prop_assert!(worst <= bound, "{worst} above {bound}");
    }
}
