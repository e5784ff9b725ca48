//! A cgroup tree in a folder, for tests here and in other crates. The directories have the files
//! that the kernel would create. Attributes are files too, because `trusted.*` needs root. The tree
//! behaves as the kernel's where the code depends on it.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::{Attributes, DomainPath, Tree};

/// Attributes as files ".attribute.NAME" in the directory. Setting one whose name begins with
/// `refused` fails with EPERM.
#[derive(Debug, Clone, Default)]
pub struct InFiles {
    pub refused: &'static str,
}

impl InFiles {
    fn file(dir: BorrowedFd<'_>, name: &str) -> PathBuf {
        let link = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let dir = fs::read_link(link).unwrap_or_default();
        dir.join(format!(".attribute.{name}"))
    }
}

impl Attributes for InFiles {
    fn get(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(Self::file(dir, name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn set(&self, dir: BorrowedFd<'_>, name: &str, value: Option<&str>) -> io::Result<()> {
        if !self.refused.is_empty() && name.starts_with(self.refused) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match (value, fs::remove_file(Self::file(dir, name))) {
            (Some(value), _) => fs::write(Self::file(dir, name), value),
            (None, Err(e)) if e.kind() != io::ErrorKind::NotFound => Err(e),
            (None, _) => Ok(()),
        }
    }

    /// Removes the files. A folder can be removed only when it is empty; a cgroup, when it has no
    /// processes and no child cgroups.
    fn before_removal(&self, dir: BorrowedFd<'_>) {
        let dir = fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).unwrap_or_default();
        let events = fs::read_to_string(dir.join("cgroup.events")).unwrap_or_default();
        let inside: Vec<_> = fs::read_dir(&dir).into_iter().flatten().flatten().collect();
        if events.contains("populated 1") || inside.iter().any(|e| e.path().is_dir()) {
            return;
        }
        for file in inside {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Creates the files that the kernel shows in a new cgroup.
///
/// # Panics
/// The folder cannot be written.
pub fn create_cgroup_files(dir: &Path) {
    for (name, text) in [
        ("cgroup.controllers", "cpuset cpu io memory pids\n"),
        ("cgroup.subtree_control", ""),
        ("cgroup.procs", ""),
        ("cgroup.events", "populated 0\nfrozen 0\n"),
        ("cpu.stat", "usage_usec 0\nuser_usec 0\n"),
        ("cpu.weight", "100\n"),
        ("cpu.idle", "0\n"),
        ("cpu.max", "max 100000\n"),
    ] {
        fs::write(dir.join(name), text).expect("a test's folder can be written");
    }
}

/// A tree at `root` with these domains.
///
/// # Panics
/// The folder cannot be written.
pub fn tree(root: &Path, domains: &[&str], store: InFiles) -> Tree {
    create_cgroup_files(root);
    for domain in domains {
        let path: DomainPath = domain.parse().expect("a domain's path");
        let mut dir = root.to_path_buf();
        for part in path.parts() {
            dir.push(part);
            if !dir.exists() {
                fs::create_dir(&dir).expect("a test's folder can be written");
                create_cgroup_files(&dir);
            }
        }
    }
    Tree::at(root, store).expect("a tree")
}
