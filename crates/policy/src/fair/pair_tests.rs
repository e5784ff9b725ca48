//! The pair of queues of one CPU: CPU time is shared by virtual time, and what a queue ran while it
//! was alone, or could not run, does not count later.

use super::*;
use crate::{MS, SEC};
use proptest::prelude::*;

/// The longest slice, ns: a tick (100 Hz) may end it late.
const QUANTUM: u64 = 14 * MS;
/// How far one queue may be ahead of the other, ns of virtual time.
const LEAD: u64 = 16 * MS;
/// How far the pinned tasks may be behind when they wake up, ns of virtual time.
const WAKE: i64 = MS as i64;

/// One CPU with two queues: its pinned tasks (0), and those that other CPUs serve, too (1).
#[derive(Default)]
struct Cpu {
    pair: Pair,
    /// Of each queue, ns.
    now: [u64; 2],
    /// CPU time, ns.
    ran: [u64; 2],
}

impl Cpu {
    /// The queue that goes first.
    fn pick(&mut self) -> usize {
        usize::from(self.pair.ahead(self.now[0], self.now[1]) >= 0)
    }

    /// Queue `q`, whose tasks weigh `weight` together, runs for `ns`. Weight 1 has virtual time at
    /// the speed of CPU time.
    fn run(&mut self, q: usize, weight: u64, ns: u64) {
        self.now[q] += ns / weight;
        self.ran[q] += ns;
    }

    /// Both queues always have tasks, of `weight` together. `each` is called after every quantum.
    fn contend(&mut self, weight: [u64; 2], quanta: &[u64], mut each: impl FnMut([u64; 2])) {
        self.ran = [0, 0];
        for &ns in quanta {
            let q = self.pick();
            self.run(q, weight[q], ns);
            each(self.ran);
        }
    }
}

#[test]
fn equals_take_turns() {
    let mut cpu = Cpu::default();
    let order: Vec<_> = (0..6)
        .map(|_| {
            let q = cpu.pick();
            cpu.run(q, 1, 4 * MS);
            q
        })
        .collect();
    assert_eq!(order, [1, 0, 1, 0, 1, 0]);
}

#[test]
fn three_tasks_get_three_times_what_one_gets() {
    for weight in [[3, 1], [1, 3]] {
        let mut cpu = Cpu::default();
        cpu.contend(weight, &[4 * MS; 4000], |_| ());
        cpu.contend(weight, &[4 * MS; 4000], |_| ());
        for (ran, weight) in cpu.ran.iter().zip(weight) {
            let due = 4 * SEC * weight;
            assert!(ran.abs_diff(due) <= 32 * MS, "{weight}: {ran}");
        }
    }
}

/// A pinned hog had its CPU alone for a minute; then a build begins there. (And the other way
/// round.)
#[test]
fn a_minute_alone_is_not_held_against_a_queue() {
    for alone in [0, 1] {
        let mut cpu = Cpu::default();
        cpu.run(alone, 1, 60 * SEC);
        let mut waited = 0;
        while waited <= SEC {
            let q = cpu.pick();
            if q == alone {
                break;
            }
            cpu.run(q, 1, 4 * MS);
            waited += 4 * MS;
        }
        assert!(waited <= LEAD + 4 * MS, "{waited}");
    }
}

/// The others run on more CPUs than this one: here the pinned tasks are always behind, so they have
/// the whole CPU. Once they are no longer, they have saved up no more than LEAD.
#[test]
fn what_one_cpu_cannot_give_is_no_credit() {
    let mut cpu = Cpu::default();
    for _ in 0..1000 {
        cpu.now[1] += 3 * MS;
        assert_eq!(cpu.pick(), 0);
        cpu.run(0, 20, 4 * MS);
    }
    cpu.ran = [0, 0];
    while cpu.pick() == 0 {
        cpu.run(0, 1, MS);
    }
    assert!(cpu.ran[0] <= LEAD + MS, "{}", cpu.ran[0]);
}

fn quanta() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1..=QUANTUM, 50..400)
}

/// Most by which the service of two queues, for each weight, may differ while both have tasks.
fn bound(weight: [u64; 2], quanta: &[u64]) -> u64 {
    QUANTUM / weight[0] + QUANTUM / weight[1] + quanta.len() as u64
}

proptest! {
    /// Start-time fair queueing with weights w: |W_0/w_0 - W_1/w_1| <= q/w_0 + q/w_1 at all times.
    #[test]
    fn split_is_by_weight(w in (1u64..50, 1u64..50), quanta in quanta()) {
        let weight = [w.0, w.1];
        let mut worst = 0;
        Cpu::default().contend(weight, &quanta, |ran| {
            worst = worst.max((ran[0] / weight[0]).abs_diff(ran[1] / weight[1]));
        });
        let bound = bound(weight, &quanta);
        prop_assert!(worst <= bound, "{worst} above {bound}");
    }

    /// Whatever each queue ran alone before, neither is ahead by more than LEAD. So neither
    /// starves, and a queue gains nothing by idling.
    #[test]
    fn history_alone_counts_for_no_more_than_the_lead(
        history in prop::collection::vec((0usize..2, 0..100 * SEC, 1u64..50), 0..20),
        w in (1u64..50, 1u64..50), quanta in quanta())
    {
        let mut cpu = Cpu::default();
        for (q, alone, weight) in history {
            cpu.run(q, weight, alone);
            if alone % 3 == 0 {
                cpu.pick(); // the other queue had a task for a moment
            }
        }
        let weight = [w.0, w.1];
        let mut worst = 0;
        cpu.contend(weight, &quanta, |ran| {
            worst = worst.max((ran[0] / weight[0]).abs_diff(ran[1] / weight[1]));
        });
        let bound = LEAD + bound(weight, &quanta);
        prop_assert!(worst <= bound, "{worst} above {bound}");
    }

    /// It is near to even always.
    #[test]
    fn it_is_ahead_or_behind_within_bounds(even: u64, pinned: u64, others: u64) {
        let mut pair = Pair { even };
        let ahead = pair.ahead(pinned, others);
        prop_assert!((-(LEAD as i64)..=LEAD as i64).contains(&ahead));
        prop_assert_eq!(pair.ahead(pinned, others), ahead);
    }

    /// Sleep leaves the credit with which they go first, and takes no debt away.
    #[test]
    fn after_a_sleep_the_pinned_tasks_are_hardly_behind(even: u64, pinned: u64, others: u64) {
        let (mut pair, mut before) = (Pair { even }, Pair { even });
        pair.wakes(pinned, others);
        prop_assert_eq!(pair.ahead(pinned, others), before.ahead(pinned, others).max(-WAKE));
    }

    /// However often they sleep, they get no more than the others, but for one turn.
    #[test]
    fn sleep_gains_nothing(turns in prop::collection::vec((1..=QUANTUM, any::<bool>()), 50..400)) {
        let mut cpu = Cpu::default();
        for (ns, wakes) in turns {
            if wakes {
                cpu.pair.wakes(cpu.now[0], cpu.now[1]);
            }
            let q = cpu.pick();
            cpu.run(q, 1, ns);
            prop_assert!(cpu.ran[0] <= cpu.ran[1] + QUANTUM, "{:?}", cpu.ran);
        }
    }
}
