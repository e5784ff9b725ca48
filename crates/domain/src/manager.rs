//! Who changes domains: the cgroup file system itself, or the service manager where it owns the
//! tree.

use crate::{
    print_cpu_max, Change, Directory, DomainError, DomainPath, DomainPolicy, Marks, Tree, CPU,
    EPHEMERAL, OWNERS_POLICY, POLICY,
};

/// Makes and changes domains. What the kernel has no file for goes into attributes in either case:
/// the service manager has no property for it, and leaves the attributes of its cgroups alone.
pub trait Manager {
    /// The domain that `path` means here: systemd's slice "a-b.slice" is in "a.slice".
    ///
    /// # Errors
    /// A path that can be none here.
    fn place(&self, path: &DomainPath) -> Result<DomainPath, DomainError>;

    /// Make a domain, and those above it. True: it was made; false: it was there. An `ephemeral`
    /// one is removed by the daemon when its last process has gone; one that was there is not made
    /// so.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn create(&self, path: &DomainPath, ephemeral: bool) -> Result<bool, DomainError>;

    /// Remove a domain that is empty.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn remove(&self, path: &DomainPath) -> Result<(), DomainError>;

    /// Change a domain, in the order of `changes`.
    ///
    /// # Errors
    /// See [`DomainError`]; changes before the one that failed are made.
    fn set(&self, path: &DomainPath, changes: &[Change]) -> Result<(), DomainError>;

    /// Move a process into a domain.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn move_pid(&self, path: &DomainPath, pid: i32) -> Result<(), DomainError>;

    /// Put the calling process into the domain `path`, which is made if it is missing: what it
    /// executes next runs there. Returns where it is.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn enter(&self, path: &DomainPath, ephemeral: bool) -> Result<DomainPath, DomainError>;

    /// Give the calling process a unit of its own beside the one that it is in, where there are
    /// units.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn scope(&self) -> Result<(), DomainError> {
        Ok(())
    }
}

/// Writes the cgroup file system: for machines where nobody else does.
pub struct Cgroupfs<'a> {
    pub tree: &'a Tree,
    /// CPUs on line, for limits that are written as a fraction of the machine.
    pub cpus: u32,
}

impl Manager for Cgroupfs<'_> {
    fn place(&self, path: &DomainPath) -> Result<DomainPath, DomainError> {
        Ok(path.clone())
    }

    fn create(&self, path: &DomainPath, ephemeral: bool) -> Result<bool, DomainError> {
        let made = self.tree.create(path)?;
        if made && ephemeral {
            let dir = self.tree.open(path)?;
            if let Err(e) = self.tree.set_mark(&dir, EPHEMERAL, Some("1")) {
                let _ = self.tree.remove(path);
                return Err(e);
            }
        }
        Ok(made)
    }

    fn remove(&self, path: &DomainPath) -> Result<(), DomainError> {
        self.tree.remove(path)
    }

    fn set(&self, path: &DomainPath, changes: &[Change]) -> Result<(), DomainError> {
        let dir = self.tree.open(path)?;
        for change in changes {
            match *change {
                Change::Weight(weight) => dir.write("cpu.weight", &weight.to_string())?,
                Change::Idle(idle) => dir.write("cpu.idle", if idle { "1" } else { "0" })?,
                Change::Max(limit) => {
                    let max = limit.map(|l| l.on(self.cpus));
                    dir.write("cpu.max", &print_cpu_max(max))?;
                }
                Change::Cpu(_) | Change::Policy(_) => set_mark(self.tree, &dir, change)?,
            }
        }
        Ok(())
    }

    fn move_pid(&self, path: &DomainPath, pid: i32) -> Result<(), DomainError> {
        let dir = self.tree.open(path)?;
        self.tree.move_pid(&dir, pid)
    }

    fn enter(&self, path: &DomainPath, ephemeral: bool) -> Result<DomainPath, DomainError> {
        let made = self.create(path, ephemeral)?;
        let moved = self.move_pid(path, 0);
        if moved.is_err() && made {
            let _ = self.remove(path);
        }
        moved.map(|()| path.clone())
    }
}

/// Set what is kept in attributes: reservation and policy. Others are no business of this
/// function's.
///
/// # Errors
/// Failed system calls; a reservation is root's to set.
pub fn set_mark(tree: &Tree, dir: &Directory, change: &Change) -> Result<(), DomainError> {
    match change {
        Change::Cpu(reservation) => {
            let text = reservation.map(|r| r.to_string());
            tree.set_mark(dir, CPU, text.as_deref())
        }
        Change::Policy(policy) => {
            let text = (*policy != DomainPolicy::Default).then(|| policy.name());
            match tree.set_mark(dir, POLICY, text) {
                // who owns the directory may order what is inside
                Err(e) if e.is_permission() => {
                    tree.set_mark(dir, OWNERS_POLICY, text)?;
                    let (Marks { policy: now, .. }, _) = tree.marks(dir);
                    if now == *policy {
                        Ok(())
                    } else {
                        Err(e)
                    }
                }
                // or the owner's would count from now on
                Ok(()) if text.is_none() => tree.set_mark(dir, OWNERS_POLICY, None),
                done => done,
            }
        }
        Change::Weight(_) | Change::Max(_) | Change::Idle(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
