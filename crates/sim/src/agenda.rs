//! The event queue: future events in order of time. Events of the same time are processed in the
//! order in which they were planned.
//!
//! A hierarchical timing wheel (Varghese and Lauck, SOSP 1987) with exact times. Level 0 has a slot
//! for each of the next 64 ns, level n a slot for each of the next 64 spans of 64^n ns. An entry is
//! put into the level at which its time first differs from the wheel's time. It moves down as its
//! time approaches, at most once for each level below, whatever the number of entries. All entries
//! of one time are always in the same slot, and slots are emptied from their front. So the order of
//! planning is kept without a sequence number.

use std::collections::VecDeque;
use std::mem;

/// A future event. CPUs, tasks and timers are given by number. `Done`, `Timer` and `Wake` have a
/// second number: the event is void if the CPU, timer or task has another number by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A CPU picks its next task.
    Resched(u32),
    /// A kick arrives. True: it preempts the running task.
    Kick(u32, bool),
    /// A kick arrives that has no effect unless the CPU is idle then.
    KickIdle(u32),
    /// The running task completes its current step. The second number is the CPU's `run`.
    Done(u32, u32),
    /// The tick of a CPU.
    Tick(u32),
    /// A BPF timer expires. The second number is the timer's `armed` when it was started.
    Timer(u32, u32),
    /// A sleep of a task ends. The second number is the task's `sleeps` when it fell asleep.
    Wake(u32, u32),
    /// A change from outside is due. The number is its index in `State::changes`.
    Change(u32),
}

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    what: Event,
}

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 64usize.div_ceil(BITS as usize);

pub(crate) struct Agenda {
    /// The wheel's time: the time of the last entry that was taken.
    now: u64,
    slots: Vec<VecDeque<Entry>>,
    /// For each level, the bits of its slots that have entries.
    used: [u64; LEVELS],
    /// Memory of slots that were emptied, for reuse.
    spare: Vec<VecDeque<Entry>>,
}

impl Agenda {
    pub fn new() -> Self {
        Self {
            now: 0,
            slots: (0..LEVELS * SLOTS).map(|_| VecDeque::new()).collect(),
            used: [0; LEVELS],
            spare: Vec::new(),
        }
    }

    /// Plan an event for the time `at`, ns, which must not be before the wheel's time.
    pub fn push(&mut self, at: u64, what: Event) {
        debug_assert!(at >= self.now, "planned for the past");
        let level = (63 - ((at ^ self.now) | 1).leading_zeros()) / BITS;
        let slot = (at >> (level * BITS)) as usize % SLOTS;
        let entries = &mut self.slots[level as usize * SLOTS + slot];
        if entries.capacity() == 0 {
            if let Some(spare) = self.spare.pop() {
                *entries = spare;
            }
        }
        entries.push_back(Entry { at, what });
        self.used[level as usize] |= 1 << slot;
    }

    /// Take the next entry, if its time is at most `end`, ns.
    pub fn pop(&mut self, end: u64) -> Option<(u64, Event)> {
        let level = self.used.iter().position(|&used| used != 0)?;
        let slot = self.used[level].trailing_zeros();
        let entries = &mut self.slots[level * SLOTS + slot as usize];
        // the slots of level 0 hold one time only, so their first entry is the next one
        let first = if level == 0 {
            0
        } else {
            let times = entries.iter().map(|e| e.at).enumerate();
            times.min_by_key(|&(n, at)| (at, n))?.0
        };
        if entries.get(first)?.at > end {
            return None;
        }
        let entry = entries.remove(first)?;
        self.now = entry.at;
        if entries.is_empty() {
            self.used[level] &= !(1 << slot);
        } else if level > 0 {
            // the wheel's time is now within this slot's span, so the other entries move down
            self.used[level] &= !(1 << slot);
            let mut others = mem::take(entries);
            for other in others.drain(..) {
                self.push(other.at, other.what);
            }
            if self.spare.len() < SLOTS {
                self.spare.push(others);
            }
        }
        Some((entry.at, entry.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The order is that of a map sorted by time and order of planning.
        #[test]
        fn events_come_in_order_of_time_and_of_planning(
            steps in prop::collection::vec((0u64..1 << 40, 0u32..30, any::<bool>()), 1..300),
        ) {
            let (mut agenda, mut model) = (Agenda::new(), BTreeMap::new());
            let mut now = 0;
            for (n, &(after, shift, take)) in steps.iter().enumerate() {
                let at = now + (after >> shift);
                agenda.push(at, Event::Change(n as u32));
                model.insert((at, n), Event::Change(n as u32));
                if take {
                    let end = now + after;
                    let first = model.first_key_value().map(|(&(at, n), &what)| (at, n, what));
                    let expected = first.filter(|e| e.0 <= end);
                    if let Some((at, n, _)) = expected {
                        model.remove(&(at, n));
                    }
                    let taken = agenda.pop(end);
                    prop_assert_eq!(taken, expected.map(|(at, _, what)| (at, what)));
                    now = taken.map_or(end, |t| t.0);
                }
            }
            for (&(at, _), &what) in &model {
                prop_assert_eq!(agenda.pop(u64::MAX), Some((at, what)));
            }
            prop_assert_eq!(agenda.pop(u64::MAX), None);
        }
    }
}
