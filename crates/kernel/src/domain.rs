//! Domains as the kernel side reports them: `struct domain_info` and `struct domain_args` of
//! bpf/intf.h.

use serde::{Deserialize, Serialize};

use crate::layout::types as raw;
use crate::{DomainPolicy, Max, Reservation};

/// One domain: a cgroup with the CPU controller, or the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// The cgroup's id: the inode number of its directory.
    pub cgid: u64,
    /// Index in the kernel side's table of domains. The root has 0.
    pub slot: u32,
    /// Slot of the parent domain. The root's is 0.
    pub parent: u32,
    /// Levels below the root; the root has 0.
    pub depth: u32,
    /// Number of child domains.
    pub children: u32,
    /// cpu.weight, 1 to 10,000.
    pub weight: u32,
    /// cpu.idle: the domain runs only when no sibling has work.
    pub idle: bool,
    pub policy: DomainPolicy,
    pub reservation: Option<Reservation>,
    /// The reservation of each disk's time, ppm.
    pub disk_ppm: Option<u32>,
    /// cpu.max: quota and period. None: no limit.
    pub max: Option<Max>,
    /// cpu.max.burst, ns.
    pub burst_ns: u64,
    /// The domain's share of the machine while all other domains use theirs, ppm.
    pub share_ppm: u32,
    /// CPU time of all tasks in the domain and below it since the kernel side created the domain,
    /// ns.
    pub ran_ns: u64,
    /// Total time for which the domain was throttled, ns.
    pub throttled_ns: u64,
    /// How often the domain was throttled.
    pub throttled: u64,
    /// Parks of the domain's own tasks by reason: (reason, number of parks, total length in ns).
    pub parks: Vec<(String, u64, u64)>,
    /// The domain is throttled now: its quota is used up until the next period.
    pub is_throttled: bool,
    /// Number of the domain's own tasks that wait for a CPU.
    pub waiting: u32,
    /// The cgroup was removed, but tasks of it still exist.
    pub gone: bool,
}

/// Names of `enum park_reason` (bpf/policy/park.h), in its order.
const PARK_REASONS: [&str; 7] = [
    "cpu.max", "request", "memory", "reserve", "start", "dirty", "disk",
];

impl Domain {
    /// Returns None if the slot is free.
    pub(crate) fn from_raw(d: &raw::domain_info) -> Option<Self> {
        let gone = match raw::domain_state(d.state) {
            raw::domain_state::DOMAIN_LIVE => false,
            raw::domain_state::DOMAIN_GONE => true,
            _ => return None,
        };
        let reservation = match (d.interval_ns, d.reserved_ppm) {
            (0, 0) => None,
            (0, ppm) => Some(Reservation::Fraction(ppm)),
            (period_ns, _) => Some(Reservation::Budget {
                runtime_ns: d.runtime_ns,
                period_ns,
            }),
        };
        Some(Self {
            cgid: d.cgid,
            slot: d.slot,
            parent: d.parent,
            depth: d.depth,
            children: d.children,
            weight: d.weight,
            idle: d.idle != 0,
            policy: DomainPolicy::numbered(d.policy).unwrap_or_default(),
            reservation,
            disk_ppm: (d.disk_ppm > 0).then_some(d.disk_ppm),
            max: (d.quota_ns > 0).then_some(Max {
                quota_ns: d.quota_ns,
                period_ns: d.period_ns,
            }),
            burst_ns: d.burst_ns,
            share_ppm: d.share_ppm,
            ran_ns: d.ran_ns,
            throttled_ns: d.throttled_ns,
            throttled: d.throttled,
            parks: PARK_REASONS
                .into_iter()
                .zip(d.parked)
                .zip(d.parked_ns)
                .map(|((reason, times), ns)| (reason.into(), times, ns))
                .collect(),
            is_throttled: d.is_throttled != 0,
            waiting: d.waiting,
            gone,
        })
    }
}

/// One change to a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainChange {
    Policy(DomainPolicy),
    /// A fraction of the machine, ppm; 0 removes the reservation.
    Fraction(u32),
    /// C every T of one CPU, ns; both 0 remove the reservation.
    Budget {
        runtime_ns: u64,
        period_ns: u64,
    },
    /// A fraction of each disk's time, ppm; 0 removes it.
    Disk(u32),
}

impl DomainChange {
    pub(crate) fn to_raw(self, cgid: u64) -> raw::domain_args {
        use raw::domain_change as c;
        let mut args = raw::domain_args {
            cgid,
            ..Default::default()
        };
        match self {
            Self::Policy(policy) => {
                args.change = c::SET_POLICY.0;
                args.policy = policy.number();
            }
            Self::Fraction(ppm) => {
                args.change = c::SET_FRACTION.0;
                args.reserved_ppm = ppm;
            }
            Self::Budget {
                runtime_ns,
                period_ns,
            } => {
                args.change = c::SET_RESERVATION.0;
                args.runtime_ns = runtime_ns;
                args.interval_ns = period_ns;
            }
            Self::Disk(ppm) => {
                args.change = c::SET_DISK.0;
                args.reserved_ppm = ppm;
            }
        }
        args
    }
}

/// The setting that an event of kind [`crate::EventKind::Domain`] reports (`enum domain_change`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainSetting {
    Policy,
    /// The value is in ppm of the machine.
    Fraction,
    /// The value is C, in ns.
    Reservation,
    /// The value is in ppm of each disk's time.
    Disk,
}

impl DomainSetting {
    /// Returns None for a number that this program does not know.
    pub fn numbered(number: u64) -> Option<Self> {
        use raw::domain_change as c;
        match raw::domain_change(u32::try_from(number).ok()?) {
            c::SET_POLICY => Some(Self::Policy),
            c::SET_FRACTION => Some(Self::Fraction),
            c::SET_RESERVATION => Some(Self::Reservation),
            c::SET_DISK => Some(Self::Disk),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_the_headers_numbers() {
        use raw::domain_policy as p;
        let header = [
            p::DOMAIN_DEFAULT,
            p::DOMAIN_SFQ,
            p::DOMAIN_MTR,
            p::DOMAIN_WRR,
            p::DOMAIN_FAIR,
            p::DOMAIN_FIFO,
        ];
        assert_eq!(
            DomainPolicy::ALL.map(DomainPolicy::number),
            header.map(|n| n.0)
        );
        assert_eq!(DomainPolicy::ALL.len(), p::NR_DOMAIN_POLICIES.0 as usize);
        let depth = crate::limits::MAX_DEPTH as usize;
        assert_eq!(depth, aplomb_spec::limits::MAX_DOMAIN_DEPTH);
    }

    #[test]
    fn a_row_of_the_table_is_read_whole() {
        let row = raw::domain_info {
            cgid: 4711,
            ran_ns: 5,
            quota_ns: 50_000_000,
            period_ns: 100_000_000,
            reserved_ppm: 250_000,
            share_ppm: 400_000,
            weight: 200,
            idle: 1,
            policy: 2,
            state: 2,
            slot: 7,
            parent: 3,
            depth: 2,
            ..Default::default()
        };
        let d = Domain::from_raw(&row).unwrap();
        assert_eq!((d.cgid, d.slot, d.parent, d.depth), (4711, 7, 3, 2));
        assert_eq!((d.weight, d.idle, d.gone), (200, true, true));
        assert_eq!(d.policy, DomainPolicy::Mtr);
        assert_eq!(d.reservation, Some(Reservation::Fraction(250_000)));
        assert_eq!(d.max.unwrap().quota_ns, 50_000_000);
        let budget = raw::domain_info {
            runtime_ns: 10,
            interval_ns: 100,
            quota_ns: 0,
            ..row
        };
        let d = Domain::from_raw(&budget).unwrap();
        let wanted = Reservation::Budget {
            runtime_ns: 10,
            period_ns: 100,
        };
        assert_eq!((d.reservation, d.max), (Some(wanted), None));
        assert_eq!(
            Domain::from_raw(&raw::domain_info::default()),
            None,
            "a free slot"
        );
    }

    #[test]
    fn a_change_says_one_thing() {
        let args = DomainChange::Policy(DomainPolicy::Fifo).to_raw(9);
        assert_eq!((args.cgid, args.change, args.policy), (9, 1, 5));
        let args = DomainChange::Fraction(0).to_raw(9);
        assert_eq!((args.change, args.reserved_ppm), (2, 0));
        let args = DomainChange::Disk(200_000).to_raw(9);
        assert_eq!((args.change, args.reserved_ppm), (8, 200_000));
        let args = DomainChange::Budget {
            runtime_ns: 1,
            period_ns: 2,
        }
        .to_raw(9);
        assert_eq!((args.change, args.runtime_ns, args.interval_ns), (4, 1, 2));
        assert_eq!(
            [1, 2, 4, 8, 3].map(DomainSetting::numbered),
            [
                Some(DomainSetting::Policy),
                Some(DomainSetting::Fraction),
                Some(DomainSetting::Reservation),
                Some(DomainSetting::Disk),
                None
            ]
        );
    }
}
