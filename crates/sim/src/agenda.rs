//! What will happen, in order of time; what is planned for the same moment happens in the order of planning.
//!
//! A hierarchical timing wheel (Varghese and Lauck, SOSP 1987), exact: level 0 has a slot for each of the
//! next 64 ns, level n for each of the next 64 spans of 64^n ns. An entry is put where its time first differs
//! from the wheel's, and moves down as that time comes near: at most as often as there are levels below it,
//! whatever the number of entries. All entries of one moment are always in one slot, and slots are emptied
//! from their front: so the order of planning holds without a number for it.

use std::collections::VecDeque;
use std::mem;

/// Something that is going to happen. CPUs, tasks and timers by number; the second numbers tell whether it
/// still holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// A CPU chooses anew.
    Resched(u32),
    /// A kick arrives; true: it preempts.
    Kick(u32, bool),
    /// The same, if it is idle then.
    KickIdle(u32),
    /// The current step of the task that runs there is done. The number is that of its run.
    Done(u32, u32),
    /// The tick.
    Tick(u32),
    /// A BPF timer, armed the so-manieth time.
    Timer(u32, u32),
    /// A sleep of a task ends; its number.
    Wake(u32, u32),
    /// A change from outside, by its number.
    Change(u32),
}

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    what: Happening,
}

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 64usize.div_ceil(BITS as usize);

pub(crate) struct Agenda {
    /// The wheel's time: that of the last entry taken.
    now: u64,
    slots: Vec<VecDeque<Entry>>,
    /// Which slots of a level have entries.
    used: [u64; LEVELS],
    /// Memory of slots that were emptied, for the next ones.
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

    /// `at` is not before what was last taken.
    pub fn push(&mut self, at: u64, what: Happening) {
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

    /// The next entry, if it is at `end` or before.
    pub fn pop(&mut self, end: u64) -> Option<(u64, Happening)> {
        let level = self.used.iter().position(|&used| used != 0)?;
        let slot = self.used[level].trailing_zeros();
        let entries = &mut self.slots[level * SLOTS + slot as usize];
        // of the same moment the first is first
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
            // the others move down, now that the wheel's time is among theirs
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
        /// As a sorted map keyed by time and order of planning would have it.
        #[test]
        fn entries_come_in_order(steps in prop::collection::vec((0u64..1 << 40, 0u32..30, any::<bool>()), 1..300)) {
            let (mut agenda, mut model) = (Agenda::new(), BTreeMap::new());
            let mut now = 0;
            for (n, &(after, shift, take)) in steps.iter().enumerate() {
                let at = now + (after >> shift);
                agenda.push(at, Happening::Change(n as u32));
                model.insert((at, n), Happening::Change(n as u32));
                if take {
                    let end = now + after;
                    let expected = model.first_key_value().map(|(&(at, n), &what)| (at, n, what)).filter(|e| e.0 <= end);
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
