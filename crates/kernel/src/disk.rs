//! Device time as the kernel side counts it (bpf/disk/account.bpf.h).

use std::collections::BTreeMap;

use aplomb_disk::Number;
use libbpf_rs::{MapCore, MapFlags};

use crate::layout::types as raw;
use crate::{ClassTimes, DiskAccount, DiskTime, DiskTimes, KernelError};

/// How the kernel packs a device's numbers (include/linux/kdev_t.h).
pub(crate) const MINOR_BITS: u32 = 20;

/// What was counted since the load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskCounts {
    pub account: DiskAccount,
    /// By the id of a domain's cgroup: of its own requests, and those of domains below it that have
    /// ended. The root's also has what no other domain is charged for.
    pub domains: BTreeMap<u64, Vec<DiskTimes>>,
}

impl DiskCounts {
    /// Adds a row of the map `disk_counts`, as bytes and as words. One with an unknown class, or of
    /// another length, is left out.
    pub(crate) fn add(&mut self, key: &[u8], sums: &[u64]) {
        let Some(key) = Key::from_bytes(key) else {
            return;
        };
        let &[requests, device_ns, wait_ns, waits] = sums else {
            return;
        };
        let time = DiskTime {
            requests,
            device_ns,
            wait_ns,
            waits,
        };
        let disks = self.domains.entry(key.domain).or_default();
        let number = key.number;
        let found = disks.iter().position(|d| d.number == number);
        let place = found.unwrap_or_else(|| {
            disks.push(DiskTimes {
                number,
                classes: ClassTimes::default(),
            });
            disks.len() - 1
        });
        let classes = &mut disks[place].classes;
        match raw::disk_class(key.class) {
            raw::disk_class::DISK_SOFT_REAL_TIME => classes.soft_real_time = time,
            raw::disk_class::DISK_INTERACTIVE => classes.interactive = time,
            raw::disk_class::DISK_REST => classes.rest = time,
            _ => {}
        }
    }
}

struct Key {
    domain: u64,
    number: Number,
    class: u32,
}

impl Key {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<raw::disk_count_key>() {
            return None;
        }
        // SAFETY: `bytes` has its length, and any bytes are valid in it (integers only)
        let key = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<raw::disk_count_key>()) };
        Some(Self {
            domain: key.domain,
            number: Number {
                major: key.disk >> MINOR_BITS,
                minor: key.disk & ((1 << MINOR_BITS) - 1),
            },
            class: key.class,
        })
    }
}

/// A function that reads a value of words from a map that has one on each CPU, and adds them up.
/// None: the map has no such key.
pub(crate) fn per_cpu(
    map: &impl MapCore,
) -> impl Fn(&[u8]) -> Result<Option<Vec<u64>>, KernelError> + '_ {
    |key| {
        let found = map.lookup_percpu(key, MapFlags::ANY);
        let found = found.map_err(|source| KernelError::Call {
            doing: "reading the device time of domains",
            source,
        })?;
        Ok(found.map(|values| add_up(&values)))
    }
}

fn add_up(values: &[Vec<u8>]) -> Vec<u64> {
    let words = |value: &Vec<u8>| -> Vec<u64> {
        let words = value.chunks_exact(8).filter_map(|w| w.try_into().ok());
        words.map(u64::from_ne_bytes).collect()
    };
    values
        .iter()
        .map(words)
        .reduce(|sum, one| {
            sum.iter()
                .zip(one)
                .map(|(a, b)| a.wrapping_add(b))
                .collect()
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(domain: u64, disk: u32, class: u32) -> Vec<u8> {
        let mut bytes = domain.to_ne_bytes().to_vec();
        bytes.extend(disk.to_ne_bytes());
        bytes.extend(class.to_ne_bytes());
        bytes
    }

    #[test]
    fn rows_become_disks_by_domain() {
        let mut counts = DiskCounts::default();
        let sda = 8 << MINOR_BITS;
        counts.add(&key(7, sda, 2), &[3, 30, 300, 2]);
        counts.add(&key(7, sda, 0), &[1, 10, 0, 0]);
        counts.add(&key(7, sda | 16, 1), &[5, 50, 500, 5]);
        counts.add(&key(9, sda, 3), &[1, 1, 1, 1]);
        counts.add(&key(9, sda, 2)[1..], &[1, 1, 1, 1]);
        counts.add(&key(9, sda, 2), &[1]);
        let disks = &counts.domains[&7];
        assert_eq!(disks.len(), 2);
        assert_eq!(disks[0].number.to_string(), "8:0");
        assert_eq!(disks[0].classes.rest.device_ns, 30);
        assert_eq!(disks[0].classes.soft_real_time.requests, 1);
        assert_eq!(disks[1].number.to_string(), "8:16");
        assert_eq!(disks[1].classes.interactive.mean_wait_ns(), Some(100));
        assert_eq!(
            counts.domains[&9][0].classes,
            ClassTimes::default(),
            "no such class, nor such a row"
        );
    }

    #[test]
    fn the_cpus_are_added_up() {
        let cpu = |words: [u64; 2]| words.map(u64::to_ne_bytes).concat();
        assert_eq!(add_up(&[cpu([1, 2]), cpu([10, 20])]), [11, 22]);
        assert!(add_up(&[]).is_empty());
    }
}
