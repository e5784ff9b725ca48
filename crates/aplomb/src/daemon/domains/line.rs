//! A domain of the kernel side as a line of the table for people.

use aplomb_domain::DomainPath;
use aplomb_kernel::Domain;

use super::{Known, NotInForce};
use crate::protocol::{DomainLine, ParkLine};

/// The line of `d`, which was found at a path. Its memory is filled in by
/// `Memory::fill`, its device time by `disks::fill`.
pub fn line(d: &Domain, found: Option<(&DomainPath, &Known)>) -> DomainLine {
    let refused = found.and_then(|(_, k)| k.refused.clone());
    DomainLine {
        path: found.map_or(String::new(), |(p, _)| p.to_string()),
        cgid: d.cgid,
        depth: d.depth,
        weight: d.weight,
        idle: d.idle,
        policy: d.policy,
        reservation: d.reservation,
        disk_ppm: d.disk_ppm,
        refused: refused.map(|why| match why {
            NotInForce::Unknown(message) | NotInForce::Refused { message, .. } => message,
        }),
        max: d.max,
        memory: None,
        share_ppm: d.share_ppm,
        ran_ns: d.ran_ns,
        throttled: d.throttled,
        throttled_ns: d.throttled_ns,
        parked: d
            .parks
            .iter()
            .map(|(reason, times, ns)| ParkLine {
                reason: reason.clone(),
                times: *times,
                ns: *ns,
            })
            .collect(),
        disk_times: Vec::new(),
        waiting: d.waiting,
        ephemeral: found.is_some_and(|(_, k)| k.marks.ephemeral),
        gone: d.gone,
    }
}
