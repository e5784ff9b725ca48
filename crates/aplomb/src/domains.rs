//! The manager of the domain tree on this machine: systemd or the cgroup file system.

use aplomb_domain::{is_booted, Cgroupfs, DomainError, Manager, Systemd, Tree};

/// Call `act` with the manager of the tree of this machine.
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

/// CPUs online.
pub fn cpus() -> u32 {
    // SAFETY: returns a number, touches no memory of ours
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(n).unwrap_or(1).max(1)
}
