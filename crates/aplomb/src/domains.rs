//! Who manages the domain tree on this machine.

use aplomb_domain::{is_booted, Cgroupfs, DomainError, Manager, Systemd, Tree};

/// Do something by way of whoever manages the tree of this machine.
///
/// # Errors
/// Those of `act`.
pub fn with_manager<T>(
    tree: &Tree,
    act: impl FnOnce(&dyn Manager) -> Result<T, DomainError>,
) -> Result<T, DomainError> {
    if tree.is_system() && is_booted() {
        return act(&Systemd::connect(tree, cpus())?);
    }
    act(&Cgroupfs { tree, cpus: cpus() })
}

/// CPUs on line.
pub fn cpus() -> u32 {
    // SAFETY: asks for a number
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(n).unwrap_or(1).max(1)
}
