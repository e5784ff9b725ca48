//! What the attributes of domains set for packets: weights, ceilings and queues.

use std::collections::BTreeMap;

use aplomb_domain::{attached_priority, Marks, Queue};
use aplomb_kernel::{queue_id, Qdisc, SelectBy, Selector};
use tracing::warn;

/// What is set for the packets of a domain, or of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetSetting {
    pub(super) weight: u32,
    /// Bits a second. None: no ceiling.
    pub(super) max: Option<u64>,
}

impl Default for NetSetting {
    fn default() -> Self {
        let weight = 100;
        Self { weight, max: None }
    }
}

impl NetSetting {
    /// None: the attributes set nothing.
    pub fn of(marks: &Marks) -> Option<Self> {
        let usual = Self::default();
        let set = Self {
            weight: marks.net_weight.unwrap_or(usual.weight),
            max: marks.net_max,
        };
        (set != usual).then_some(set)
    }

    /// `id`: of the domain's cgroup, or of the queue.
    fn apply(&self, qdisc: &mut Qdisc, id: u64) {
        let rate = self.max.map_or(0, |bits| bits / 8);
        if let Err(e) = qdisc.set_domain(id, self.weight, rate) {
            warn!("{e}");
        }
    }
}

/// Do these attributes set anything for packets?
pub fn sets_packets(marks: &Marks) -> bool {
    NetSetting::of(marks).is_some() || !marks.net_queues.is_empty()
}

/// Do these attributes set the same for packets?
pub fn set_the_same(a: &Marks, b: &Marks) -> bool {
    NetSetting::of(a) == NetSetting::of(b) && a.net_queues == b.net_queues
}

/// All settings of packets on this machine.
#[derive(Debug, Default)]
pub struct NetSettings {
    /// By the ids of cgroups and of queues. All others have the default.
    weights: BTreeMap<u64, NetSetting>,
    /// The ids of queues.
    selectors: BTreeMap<Selector, u64>,
    /// With the ids of their domains' cgroups.
    pub queues: Vec<(u64, Queue)>,
}

impl NetSettings {
    /// `all`: the attributes of the domains, with the ids of their cgroups.
    pub fn of<'a>(all: impl Iterator<Item = (u64, &'a Marks)>) -> Self {
        let mut settings = Self::default();
        for (domain, marks) in all {
            if let Some(set) = NetSetting::of(marks) {
                settings.weights.insert(domain, set);
            }
            for queue in marks.net_queues.iter() {
                settings.add(domain, queue);
            }
        }
        settings
    }

    fn add(&mut self, domain: u64, queue: &Queue) {
        let id = queue_id(domain, queue.number);
        let (weight, max) = (queue.weight, None);
        let set = NetSetting { weight, max };
        if set != NetSetting::default() {
            self.weights.insert(id, set);
        }
        let by = [
            Some(SelectBy::Priority(attached_priority(queue.number))),
            queue.priority.map(SelectBy::Priority),
            queue.mark.map(SelectBy::Mark),
        ];
        for by in by.into_iter().flatten() {
            self.selectors.insert(Selector { domain, by }, id);
        }
        self.queues.push((domain, queue.clone()));
    }

    /// Put into force in `qdisc` what differs from `before`.
    pub fn apply(&self, qdisc: &mut Qdisc, before: &Self) {
        // Before the selectors, so that a queue's first packet finds its weight.
        for (id, setting) in changes(&before.weights, &self.weights) {
            setting.apply(qdisc, id);
        }
        for (selector, queue) in differences(&before.selectors, &self.selectors) {
            if let Err(e) = qdisc.select(selector, queue) {
                warn!("{e}");
            }
        }
    }
}

/// What differs between the settings of before and of now. A domain that has gone has the default.
pub(super) fn changes(
    before: &BTreeMap<u64, NetSetting>,
    now: &BTreeMap<u64, NetSetting>,
) -> Vec<(u64, NetSetting)> {
    let all = differences(before, now).into_iter();
    all.map(|(id, setting)| (id, setting.unwrap_or_default()))
        .collect()
}

/// The entries that differ, first those that have gone (None), so that there is room for others.
fn differences<K: Ord + Copy, V: PartialEq + Copy>(
    before: &BTreeMap<K, V>,
    now: &BTreeMap<K, V>,
) -> Vec<(K, Option<V>)> {
    let gone = before.keys().filter(|key| !now.contains_key(key));
    gone.map(|key| (*key, None))
        .chain(now.iter().map(|(key, value)| (*key, Some(*value))))
        .filter(|(key, value)| before.get(key) != value.as_ref())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[(u64, &str)]) -> NetSettings {
        let parsed = |text: &str| Marks {
            net_queues: text.parse().unwrap(),
            ..Marks::default()
        };
        let all: Vec<_> = texts.iter().map(|(id, text)| (*id, parsed(text))).collect();
        NetSettings::of(all.iter().map(|(id, marks)| (*id, marks)))
    }

    #[test]
    fn a_queue_has_a_weight_and_selectors_of_its_domain() {
        let set = of(&[
            (7, "voice number=3 weight=300 priority=6 mark=0x10"),
            (8, "bulk number=3"),
        ]);
        let (voice, bulk) = (queue_id(7, 3), queue_id(8, 3));
        let weight = set.weights.get(&voice).map(|s| s.weight);
        assert_eq!((set.weights.len(), weight), (1, Some(300)));
        let selector = |domain, by| Selector { domain, by };
        let attached = SelectBy::Priority(attached_priority(3));
        let expected = BTreeMap::from([
            (selector(7, SelectBy::Priority(6)), voice),
            (selector(7, SelectBy::Mark(16)), voice),
            (selector(7, attached), voice),
            (selector(8, attached), bulk),
        ]);
        assert_eq!(set.selectors, expected);
        assert_eq!(set.queues.len(), 2);
    }

    #[test]
    fn only_selectors_that_differ_change() {
        let before = of(&[(7, "a number=1 priority=6; b number=2")]);
        let now = of(&[(7, "a number=1 mark=6; c number=3 priority=6")]);
        let selector = |by| Selector { domain: 7, by };
        let attached = |n| selector(SelectBy::Priority(attached_priority(n)));
        let told = differences(&before.selectors, &now.selectors);
        let expected = [
            (attached(2), None),
            (selector(SelectBy::Mark(6)), Some(queue_id(7, 1))),
            (selector(SelectBy::Priority(6)), Some(queue_id(7, 3))),
            (attached(3), Some(queue_id(7, 3))),
        ];
        assert_eq!(told, expected);
        assert_eq!(differences(&now.selectors, &now.selectors), []);
    }

    #[test]
    fn queues_alone_are_a_setting() {
        let with = Marks {
            net_queues: "a number=1".parse().unwrap(),
            ..Marks::default()
        };
        assert!(sets_packets(&with) && !sets_packets(&Marks::default()));
        assert!(set_the_same(&with, &with.clone()));
        assert!(!set_the_same(&with, &Marks::default()));
    }
}
