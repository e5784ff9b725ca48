//! The manager of the domain tree on this machine: systemd or the cgroup file system.

use aplomb_domain::{
    is_booted, unit_place, Cgroupfs, DomainError, DomainPath, Manager, Systemd, Tree,
};

/// True if systemd owns this tree: then a change of it is a call over D-Bus that may take seconds.
pub fn is_managed(tree: &Tree) -> bool {
    tree.is_system() && is_booted()
}

/// The cgroup path of a domain in this tree. Calls no other program.
///
/// # Errors
/// The manager of the tree cannot have a domain of that path.
pub fn place_of(tree: &Tree, path: &DomainPath) -> Result<DomainPath, DomainError> {
    match is_managed(tree) {
        true => unit_place(path),
        false => Ok(path.clone()),
    }
}

/// Call `act` with the manager of the tree of this machine. Where systemd is it, this may take as
/// long as [`Systemd::connect`] says, so the daemon's loop does not call it ([`is_managed`]).
///
/// # Errors
/// Those of `act`.
pub fn with_manager<T>(
    tree: &Tree,
    act: impl FnOnce(&dyn Manager) -> Result<T, DomainError>,
) -> Result<T, DomainError> {
    if is_managed(tree) {
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
