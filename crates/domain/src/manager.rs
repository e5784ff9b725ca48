//! The two ways to change domains: through the cgroup file system, or through the service manager
//! where it owns the tree.

use crate::{
    print_cpu_max, Change, Directory, DomainError, DomainPath, DomainPolicy, Marks, Tree, CPU,
    EPHEMERAL, MEMORY, OWNERS_POLICY, POLICY,
};

/// Creates and changes domains. Settings without a file of the kernel go into attributes in both
/// ways: the service manager has no property for them, and does not touch the attributes of its
/// cgroups.
pub trait Manager {
    /// The cgroup path that `path` means to this manager: systemd's slice "a-b.slice" is in
    /// "a.slice".
    ///
    /// # Errors
    /// This manager cannot have a domain of that path.
    fn place(&self, path: &DomainPath) -> Result<DomainPath, DomainError>;

    /// Create a domain and its missing ancestors. Returns true if the domain was created, false if
    /// it existed. The daemon removes an `ephemeral` domain when its last process has exited. A
    /// domain that existed does not become ephemeral.
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
    /// See [`DomainError`]. The changes before the one that failed stay in force.
    fn set(&self, path: &DomainPath, changes: &[Change]) -> Result<(), DomainError>;

    /// Move a process into a domain.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn move_pid(&self, path: &DomainPath, pid: i32) -> Result<(), DomainError>;

    /// Move the calling process into the domain `path`, which is created if it is missing. The
    /// program that the process executes next runs there. Returns the path of its new cgroup.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn enter(&self, path: &DomainPath, ephemeral: bool) -> Result<DomainPath, DomainError>;

    /// Give a domain the memory controller, so that it has the file memory.min.
    ///
    /// # Errors
    /// See [`DomainError`]. The tree has no memory controller.
    fn give_memory(&self, path: &DomainPath) -> Result<(), DomainError>;

    /// memory.min of a domain was written: where there are units, the unit gets that value too, so
    /// that the manager does not write its own.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn note_memory(&self, _path: &DomainPath) -> Result<(), DomainError> {
        Ok(())
    }

    /// Where there are units, give the calling process a unit of its own, beside the unit that it
    /// is in.
    ///
    /// # Errors
    /// See [`DomainError`].
    fn scope(&self) -> Result<(), DomainError> {
        Ok(())
    }
}

/// Writes the cgroup file system itself, on machines without a service manager that owns it.
pub struct Cgroupfs<'a> {
    pub tree: &'a Tree,
    /// CPUs online, for limits that are written as a fraction of the machine.
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
                Change::Cpu(_)
                | Change::Memory(_)
                | Change::Io(_)
                | Change::NetWeight(_)
                | Change::NetMax(_)
                | Change::Policy(_) => set_mark(self.tree, &dir, change)?,
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

    fn give_memory(&self, path: &DomainPath) -> Result<(), DomainError> {
        if self.tree.give_memory(path)? {
            return Ok(());
        }
        Err(DomainError::State {
            path: self.tree.root().into(),
            why: "it has no memory controller",
        })
    }
}

/// Set a reservation or the policy, which are kept in attributes. Other changes do nothing here.
///
/// # Errors
/// Failed system calls; a reservation as another user than root.
pub fn set_mark(tree: &Tree, dir: &Directory, change: &Change) -> Result<(), DomainError> {
    match change {
        Change::Cpu(reservation) => {
            let text = reservation.map(|r| r.to_string());
            tree.set_mark(dir, CPU, text.as_deref())
        }
        Change::Memory(bytes) => {
            let text = bytes.map(aplomb_spec::format_size);
            tree.set_mark(dir, MEMORY, text.as_deref())
        }
        Change::Io(ppm) => {
            let text = ppm.map(crate::percent);
            tree.set_mark(dir, crate::IO, text.as_deref())
        }
        Change::NetWeight(weight) => {
            let text = weight.map(|w| w.to_string());
            tree.set_mark(dir, crate::NET, text.as_deref())
        }
        Change::NetMax(bits) => {
            let text = bits.map(aplomb_spec::format_rate);
            tree.set_mark(dir, crate::NET_MAX, text.as_deref())
        }
        Change::Policy(policy) => {
            let text = (*policy != DomainPolicy::Default).then(|| policy.name());
            match tree.set_mark(dir, POLICY, text) {
                // The directory's owner may order what is inside.
                Err(e) if e.is_permission() => {
                    tree.set_mark(dir, OWNERS_POLICY, text)?;
                    let (Marks { policy: now, .. }, _) = tree.marks(dir);
                    if now == *policy {
                        Ok(())
                    } else {
                        Err(e)
                    }
                }
                // Otherwise the owner's policy would count from now on.
                Ok(()) if text.is_none() => tree.set_mark(dir, OWNERS_POLICY, None),
                done => done,
            }
        }
        Change::Weight(_) | Change::Max(_) | Change::Idle(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
