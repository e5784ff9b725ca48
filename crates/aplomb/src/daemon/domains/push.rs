//! Pushes the settings of one domain to the kernel side.

use aplomb_domain::Reservation;
use aplomb_kernel::{DomainChange, Kernel, KernelError};

use super::Known;

/// Push the settings in which the attributes (`known.marks`) differ from those pushed before
/// (`known.pushed`). If the kernel side refuses a setting, the previous one stays in force.
pub fn push_settings(known: &mut Known, kernel: &mut dyn Kernel) -> Result<(), KernelError> {
    let (cgid, marks) = (known.cgid, &known.marks);
    if known.pushed.policy != marks.policy {
        kernel.set_domain(cgid, DomainChange::Policy(marks.policy))?;
        known.pushed.policy = marks.policy;
    }
    if known.pushed.disk_ppm != marks.disk_ppm {
        kernel.set_domain(cgid, DomainChange::Disk(marks.disk_ppm.unwrap_or(0)))?;
        known.pushed.disk_ppm = marks.disk_ppm;
    }
    if known.pushed.reservation != marks.reservation {
        let (old, new) = (known.pushed.reservation, marks.reservation);
        // A domain has one of the two kinds of reservation. So the old kind is removed first;
        // otherwise it would count beside the new one.
        if old.is_some_and(|o| !new.is_some_and(|n| same_kind(o, n))) {
            kernel.set_domain(cgid, old.map_or(DomainChange::Fraction(0), removal_of))?;
            known.pushed.reservation = None;
        }
        if let Some(new) = new {
            if let Err(e) = kernel.set_domain(cgid, some(new)) {
                if known.pushed.reservation.is_none() {
                    if let Some(old) = old {
                        if kernel.set_domain(cgid, some(old)).is_ok() {
                            known.pushed.reservation = Some(old);
                        }
                    }
                }
                return Err(e);
            }
        }
        known.pushed.reservation = new;
    }
    Ok(())
}

fn same_kind(a: Reservation, b: Reservation) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

fn some(reservation: Reservation) -> DomainChange {
    match reservation {
        Reservation::Fraction(ppm) => DomainChange::Fraction(ppm),
        Reservation::Budget {
            runtime_ns,
            period_ns,
        } => DomainChange::Budget {
            runtime_ns,
            period_ns,
        },
    }
}

/// The change that removes a reservation of the disks.
pub const NO_DISK_SHARE: DomainChange = DomainChange::Disk(0);

/// The change that removes `reservation`.
pub fn removal_of(reservation: Reservation) -> DomainChange {
    match reservation {
        Reservation::Fraction(_) => DomainChange::Fraction(0),
        Reservation::Budget { .. } => DomainChange::Budget {
            runtime_ns: 0,
            period_ns: 0,
        },
    }
}
