//! The device time of domains, each with those below it.

use std::collections::HashMap;

use aplomb_kernel::{DiskCounts, DiskTimes, Domain};

/// Of each domain of `domains`, in their order: what was counted for it and all below it, by disk.
/// What was counted for a domain that is not among them goes to the root.
pub fn with_those_below(domains: &[Domain], counts: &DiskCounts) -> Vec<Vec<DiskTimes>> {
    let by_slot: HashMap<u32, usize> = (0..).zip(domains).map(|(i, d)| (d.slot, i)).collect();
    let by_id: HashMap<u64, usize> = (0..).zip(domains).map(|(i, d)| (d.cgid, i)).collect();
    let root = by_slot.get(&0).copied();
    let mut times = vec![Vec::new(); domains.len()];
    for (id, own) in &counts.domains {
        let mut at = by_id.get(id).copied().or(root);
        // A tree that changes meanwhile may show a circle.
        for _ in 0..=aplomb_kernel::limits::MAX_DEPTH {
            let Some(i) = at else { break };
            add(&mut times[i], own);
            let above = (domains[i].slot != 0).then_some(domains[i].parent);
            at = above.and_then(|slot| by_slot.get(&slot).copied());
        }
    }
    times
}

fn add(to: &mut Vec<DiskTimes>, own: &[DiskTimes]) {
    for disk in own {
        match to.iter_mut().find(|d| d.number == disk.number) {
            Some(sum) => sum.classes = sum.classes.and(&disk.classes),
            None => to.push(*disk),
        }
    }
    to.sort_by_key(|d| d.number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ClassTimes, DiskTime};

    fn domain(slot: u32, parent: u32) -> Domain {
        Domain {
            cgid: u64::from(slot) + 100,
            slot,
            parent,
            depth: 0,
            children: 0,
            weight: 100,
            idle: false,
            policy: aplomb_kernel::DomainPolicy::default(),
            reservation: None,
            disk_ppm: None,
            max: None,
            burst_ns: 0,
            share_ppm: 0,
            ran_ns: 0,
            throttled_ns: 0,
            throttled: 0,
            parks: Vec::new(),
            is_throttled: false,
            waiting: 0,
            gone: false,
        }
    }

    fn disk(number: &str, requests: u64) -> DiskTimes {
        DiskTimes {
            number: number.parse().unwrap(),
            classes: ClassTimes {
                rest: DiskTime {
                    requests,
                    ..DiskTime::default()
                },
                ..ClassTimes::default()
            },
        }
    }

    #[test]
    fn a_domain_has_the_time_of_those_below() {
        let all = [domain(0, 0), domain(2, 1), domain(1, 0)];
        let counts = DiskCounts {
            domains: [
                (101, vec![disk("8:16", 1)]),
                (102, vec![disk("8:16", 10), disk("8:0", 100)]),
                (4711, vec![disk("8:0", 1000)]),
            ]
            .into(),
            ..DiskCounts::default()
        };
        let found = with_those_below(&all, &counts);
        assert_eq!(found[0], [disk("8:0", 1100), disk("8:16", 11)]);
        assert_eq!(found[1], [disk("8:0", 100), disk("8:16", 10)]);
        assert_eq!(found[2], [disk("8:0", 100), disk("8:16", 11)]);
        assert!(with_those_below(&[], &counts).is_empty());
    }
}
