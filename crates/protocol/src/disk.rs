//! Changes to how the time of disks is shared, and whose it was.

use aplomb_disk::Number;
use serde::{Deserialize, Serialize};

/// What is None stays as it is. The change lasts until the daemon ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskChange {
    /// Length of a round, ns.
    #[serde(default)]
    pub round_ns: Option<u64>,
    /// Weights of the classes and the rest in what domains leave.
    #[serde(default)]
    pub soft_real_time: Option<u32>,
    #[serde(default)]
    pub interactive: Option<u32>,
    #[serde(default)]
    pub rest: Option<u32>,
    /// This disk, and what is on it, is ordered again.
    #[serde(default)]
    pub start: Option<String>,
    /// This disk is ordered no longer.
    #[serde(default)]
    pub stop: Option<String>,
}

impl DiskChange {
    /// True if it asks how things are, and changes nothing.
    #[must_use]
    pub fn is_question(&self) -> bool {
        *self == Self::default()
    }
}

/// How device time is counted (bpf/disk/account.bpf.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskAccount {
    /// True: all requests are counted. False: those that came while disks were watched.
    pub always: bool,
    /// For how long requests have been counted so far, ns.
    pub counted_ns: u64,
    /// Requests that are in no domain's counts, because a table is full.
    pub uncounted: u64,
}

/// Requests that were done. All numbers only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTime {
    pub requests: u64,
    /// Their device time, ns.
    pub device_ns: u64,
    /// For how long they waited before they were sent to the disk, ns: those of `waits` requests.
    pub wait_ns: u64,
    /// Of how many requests the wait is known.
    pub waits: u64,
}

impl DiskTime {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            device_ns: self.device_ns.saturating_add(other.device_ns),
            wait_ns: self.wait_ns.saturating_add(other.wait_ns),
            waits: self.waits.saturating_add(other.waits),
        }
    }

    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            device_ns: self.device_ns.saturating_sub(before.device_ns),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
            waits: self.waits.saturating_sub(before.waits),
        }
    }

    /// For how long a request waited on average, ns. None if that is known of none.
    #[must_use]
    pub fn mean_wait_ns(&self) -> Option<u64> {
        self.wait_ns.checked_div(self.waits)
    }
}

/// Requests by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassTimes {
    pub soft_real_time: DiskTime,
    pub interactive: DiskTime,
    pub rest: DiskTime,
}

impl ClassTimes {
    /// Each class with the name that it has for people.
    #[must_use]
    pub fn named(&self) -> [(&'static str, DiskTime); 3] {
        [
            ("soft-real-time", self.soft_real_time),
            ("interactive", self.interactive),
            ("rest", self.rest),
        ]
    }

    /// All classes together.
    #[must_use]
    pub fn total(&self) -> DiskTime {
        self.soft_real_time.and(&self.interactive).and(&self.rest)
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            soft_real_time: self.soft_real_time.and(&other.soft_real_time),
            interactive: self.interactive.and(&other.interactive),
            rest: self.rest.and(&other.rest),
        }
    }

    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            soft_real_time: self.soft_real_time.since(&before.soft_real_time),
            interactive: self.interactive.since(&before.interactive),
            rest: self.rest.since(&before.rest),
        }
    }
}

/// The requests that a domain and those below it had one disk do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTimes {
    pub number: Number,
    #[serde(flatten)]
    pub classes: ClassTimes,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(n: u64) -> DiskTime {
        DiskTime {
            requests: n,
            device_ns: 10 * n,
            wait_ns: 100 * n,
            waits: n / 2,
        }
    }

    #[test]
    fn times_add_up() {
        let both = ClassTimes {
            soft_real_time: time(2),
            rest: time(4),
            ..ClassTimes::default()
        };
        assert_eq!(both.total(), time(6));
        assert_eq!(both.and(&both).since(&both), both);
        assert_eq!(both.rest.mean_wait_ns(), Some(200));
        assert_eq!(both.interactive.mean_wait_ns(), None);
        assert_eq!(
            time(1).since(&time(3)).requests,
            0,
            "the daemon is another one"
        );
    }

    #[test]
    fn a_disk_survives_the_wire() {
        let times = DiskTimes {
            number: "8:16".parse().unwrap(),
            classes: ClassTimes {
                interactive: time(3),
                ..ClassTimes::default()
            },
        };
        let json = serde_json::to_value(times).unwrap();
        assert_eq!(json["number"], "8:16");
        assert_eq!(json["interactive"]["device_ns"], 30);
        assert_eq!(serde_json::from_value::<DiskTimes>(json).unwrap(), times);
        assert!(serde_json::from_str::<Number>("\"8\"").is_err());
    }
}
