//! The cgroup v2 tree, whose directories are the domains: find, walk, create, remove, read and
//! write them.
//!
//! Names come from outside. So below the root every directory is opened from its parent's
//! descriptor, part by part, with O_NOFOLLOW: no name leads out of the tree. All writes use the
//! caller's own rights.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, mkdirat, open, openat, unlinkat, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::{
    find_mount, Attributes, DomainError, DomainPath, Marks, Max, WrongMark, Xattrs, MAX_WEIGHT,
};

mod memory;
mod walk;

pub use walk::{Enter, Found, Walk, MAX_OWNED, MAX_WALK};

/// Why a domain cannot have domains below.
const FULL: &str = "it has processes of its own, so it cannot have domains below; move them first";
/// Bytes of an interface file that are read.
const MAX_FILE: u64 = 4096;

/// A cgroup v2 tree.
pub struct Tree {
    root: OwnedFd,
    /// The mount point, for messages.
    at: PathBuf,
    store: Box<dyn Attributes>,
    /// True for the tree of this machine, false for a folder of a test.
    system: bool,
}

/// An open domain.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    pub path: DomainPath,
    /// The path of the directory in the file system, for messages.
    at: PathBuf,
    owner: u32,
}

/// The values of the kernel's files of a domain. None where there is no such file (in the root, or
/// without the CPU controller).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Files {
    pub weight: Option<u32>,
    pub idle: Option<bool>,
    /// Some(None): no limit.
    pub max: Option<Option<Max>>,
    /// The domain or one below it has processes.
    pub populated: bool,
}

impl Tree {
    /// The tree of this machine.
    ///
    /// # Errors
    /// No cgroup v2 tree is mounted, or it cannot be opened.
    pub fn system() -> Result<Self, DomainError> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut tree = Self::at(find_mount(&mounts).ok_or(DomainError::NoTree)?, Xattrs)?;
        tree.system = true;
        Ok(tree)
    }

    /// The tree whose root is `at`, with attributes kept in `store`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn at(
        at: impl Into<PathBuf>,
        store: impl Attributes + 'static,
    ) -> Result<Self, DomainError> {
        let at = at.into();
        let root = open(&at, directory(), Mode::empty()).map_err(|e| failed(&at, "opening", e))?;
        Ok(Self {
            root,
            at,
            store: Box::new(store),
            system: false,
        })
    }

    /// True for the tree of this machine, which a service manager may own.
    pub fn is_system(&self) -> bool {
        self.system
    }

    /// The path of the root in the file system.
    pub fn root(&self) -> &Path {
        &self.at
    }

    /// Open a domain.
    ///
    /// # Errors
    /// [`DomainError::Missing`]; failed system calls.
    pub fn open(&self, path: &DomainPath) -> Result<Directory, DomainError> {
        let mut dir = self.top()?;
        for part in path.parts() {
            dir = dir.below(part)?;
        }
        Ok(dir)
    }

    fn top(&self) -> Result<Directory, DomainError> {
        let fd = self.root.try_clone();
        let fd = fd.map_err(|e| failed(&self.at, "opening", e))?;
        Ok(Directory {
            fd,
            path: DomainPath::root(),
            at: self.at.clone(),
            owner: 0,
        })
    }

    /// Create a domain and its missing ancestors, all with the CPU controller. Returns true if the
    /// domain was created, false if it existed.
    ///
    /// # Errors
    ///
    /// The CPU controller is not in this tree; a domain above has processes of its own; failed
    /// system calls. The domains that were created before the error are removed again.
    pub fn create(&self, path: &DomainPath) -> Result<bool, DomainError> {
        let mut made = Vec::new();
        let result = self.create_parts(path, &mut made);
        if result.is_err() {
            for path in made.iter().rev() {
                let _ = self.remove(path); // the caller gets the first error, not this one
            }
        }
        result.map(|()| made.last() == Some(path))
    }

    fn create_parts(
        &self,
        path: &DomainPath,
        made: &mut Vec<DomainPath>,
    ) -> Result<(), DomainError> {
        let mut dir = self.top()?;
        if !words(&dir.read("cgroup.controllers")?).any(|c| c == "cpu") {
            return Err(DomainError::NoController(dir.at.join("cgroup.controllers")));
        }
        for part in path.parts() {
            if dir.gives_cpu_to_children()? {
                if let Ok(below) = dir.below(part) {
                    dir = below;
                    continue;
                }
            }
            dir.can_have_children()?;
            dir.give_cpu_to_children()?;
            match mkdirat(&dir.fd, part, Mode::from(0o755)) {
                Ok(()) => made.push(wrap(&dir.at, dir.path.child(part))?),
                Err(Errno::EXIST) => {}
                Err(e) => return Err(failed(&dir.at.join(part), "making it", e)),
            }
            dir = dir.below(part)?;
        }
        Ok(())
    }

    /// Remove an empty domain.
    ///
    /// # Errors
    /// It has processes or domains below; it is the root; it is missing; failed system calls.
    pub fn remove(&self, path: &DomainPath) -> Result<(), DomainError> {
        let Some(parent) = path.parent() else {
            return Err(DomainError::State {
                path: self.at.clone(),
                why: "the root of the tree cannot be removed",
            });
        };
        let dir = self.open(&parent)?;
        let at = dir.at.join(path.name());
        self.store
            .before_removal(dir.below(path.name())?.fd.as_fd());
        match unlinkat(&dir.fd, path.name(), AtFlags::REMOVEDIR) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => Err(DomainError::Missing(path.to_string())),
            Err(Errno::BUSY | Errno::NOTEMPTY) => Err(DomainError::State {
                path: at,
                why: "it has processes or domains below; move or end them first",
            }),
            Err(e) => Err(failed(&at, "removing it", e)),
        }
    }

    /// Read the kernel's files of a domain.
    ///
    /// # Errors
    /// Failed system calls; a file with unknown content.
    pub fn files(&self, dir: &Directory) -> Result<Files, DomainError> {
        fn parsed<T>(
            dir: &Directory,
            name: &str,
            parse: impl Fn(&str) -> Result<T, String>,
        ) -> Result<Option<T>, DomainError> {
            let text = dir.read_if_there(name)?;
            let value = text.map(|t| wrap(&dir.at.join(name), parse(t.trim())));
            value.transpose()
        }
        // cpu.weight of an idle cgroup reads 0.
        let weight = |t: &str| match t.parse::<u32>() {
            Ok(w) if w <= MAX_WEIGHT => Ok(w),
            _ => Err(format!("\"{}\" is no weight", aplomb_spec::shorten(t))),
        };
        Ok(Files {
            weight: parsed(dir, "cpu.weight", weight)?,
            idle: parsed(dir, "cpu.idle", crate::parse_switch)?,
            max: parsed(dir, "cpu.max", crate::parse_cpu_max)?,
            populated: parsed(dir, "cgroup.events", |t| Ok(parse_populated(t)))?.unwrap_or(false),
        })
    }

    /// The attributes of a domain, and the invalid ones.
    pub fn marks(&self, dir: &Directory) -> (Marks, Vec<WrongMark>) {
        Marks::read(&*self.store, dir.fd.as_fd())
    }

    /// True if the attribute `name` is "1".
    pub fn is_marked(&self, dir: &Directory, name: &str) -> bool {
        let value = self.store.get(dir.fd.as_fd(), name);
        value.is_ok_and(|v| v.as_deref() == Some(b"1"))
    }

    /// Set one attribute, or remove it.
    ///
    /// # Errors
    /// Failed system calls. If this user may not set it, [`DomainError::is_permission`] is true.
    pub fn set_mark(
        &self,
        dir: &Directory,
        name: &'static str,
        value: Option<&str>,
    ) -> Result<(), DomainError> {
        let set = self.store.set(dir.fd.as_fd(), name, value);
        set.map_err(|e| failed(&dir.at, name, e))
    }

    /// Move a process with all its threads into a domain. A pid of 0 means the calling process.
    ///
    /// # Errors
    /// No such process; the domain has domains with controllers below; failed system calls.
    pub fn move_pid(&self, dir: &Directory, pid: i32) -> Result<(), DomainError> {
        let why = match dir.write("cgroup.procs", &pid.to_string()) {
            Err(DomainError::Io { source, .. }) if is(&source, Errno::BUSY) => {
                "processes go into domains without domains below; move it into one of those"
            }
            Err(DomainError::Io { source, .. }) if is(&source, Errno::OPNOTSUPP) => {
                "its cgroup.type is not \"domain\": one above it has processes of its own; move those first"
            }
            Err(DomainError::Io { source, .. }) if is(&source, Errno::SRCH) => {
                "there is no such process"
            }
            done => return done,
        };
        Err(DomainError::State {
            path: dir.at.join("cgroup.procs"),
            why,
        })
    }
}

impl Directory {
    fn below(&self, name: &str) -> Result<Self, DomainError> {
        let at = self.at.join(name);
        let path = wrap(&at, self.path.child(name))?;
        match openat(&self.fd, name, directory(), Mode::empty()) {
            Ok(fd) => {
                let owner = match self.owner {
                    0 => fstat(&fd).map_or(0, |stat| stat.st_uid),
                    owner => owner,
                };
                Ok(Self {
                    fd,
                    path,
                    at,
                    owner,
                })
            }
            Err(Errno::NOENT) => Err(DomainError::Missing(path.to_string())),
            Err(e) => Err(failed(&at, "opening it as a directory", e)),
        }
    }

    /// The user that this part of the tree was delegated to: the owner of the highest directory on
    /// the way here that is not root's; 0 if all are root's. So what a user's subordinate users
    /// make below belongs to that user.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The cgroup's id.
    ///
    /// # Errors
    /// Failed system calls.
    pub fn cgid(&self) -> Result<u64, DomainError> {
        let stat = fstat(&self.fd).map_err(|e| failed(&self.at, "looking at it", e))?;
        Ok(stat.st_ino)
    }

    /// True if a process ever ran in this domain, that is if cpu.stat shows used CPU time. Every
    /// cgroup has cpu.stat.
    pub fn was_used(&self) -> bool {
        let stat = self.read_if_there("cpu.stat").ok().flatten();
        stat.is_some_and(|text| parse_used(&text))
    }

    /// Names of the child directories.
    ///
    /// # Errors
    /// Failed system calls.
    pub fn children(&self) -> Result<Vec<String>, DomainError> {
        let fail = |e| failed(&self.at, "listing it", e);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_string_lossy();
            if entry.file_type() == FileType::Directory && name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    /// Write into one of the kernel's files.
    ///
    /// # Errors
    /// The domain has no such file; failed system calls.
    pub fn write(&self, name: &str, text: &str) -> Result<(), DomainError> {
        let at = self.at.join(name);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::TRUNC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) if name.starts_with("cpu.") => {
                let why = "there is no such file: the domain above does not give it the CPU controller (cgroup.subtree_control)";
                return Err(DomainError::State { path: at, why });
            }
            Err(e) => return Err(failed(&at, "opening it", e)),
        };
        // One write, because the kernel takes each write as a whole value.
        let written = File::from(fd).write_all(text.as_bytes());
        written.map_err(|e| failed(&at, "writing it", e))
    }

    fn read(&self, name: &str) -> Result<String, DomainError> {
        let text = self.read_if_there(name)?;
        text.ok_or_else(|| failed(&self.at.join(name), "opening it", Errno::NOENT))
    }

    fn read_if_there(&self, name: &str) -> Result<Option<String>, DomainError> {
        let at = self.at.join(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(failed(&at, "opening it", e)),
        };
        let mut text = String::new();
        let read = File::from(fd).take(MAX_FILE).read_to_string(&mut text);
        match read {
            Ok(_) => Ok(Some(text)),
            Err(e) if is(&e, Errno::NODEV) => Ok(None), // removed meanwhile
            Err(e) => Err(failed(&at, "reading it", e)),
        }
    }

    /// Returns an error for a cgroup with processes. The kernel lets such a cgroup enable the CPU
    /// controller for its children, because that is a threaded controller. But the children are
    /// "domain invalid" then and accept no process. The root and threaded cgroups may have both
    /// processes and children.
    fn can_have_children(&self) -> Result<(), DomainError> {
        let kind = self.read_if_there("cgroup.type")?; // the root has no such file
        let has = kind.is_some_and(|k| k.starts_with("domain"))
            && !self.read("cgroup.procs")?.trim().is_empty();
        if !has {
            return Ok(());
        }
        Err(DomainError::State {
            path: self.at.clone(),
            why: FULL,
        })
    }

    fn gives_cpu_to_children(&self) -> Result<bool, DomainError> {
        Ok(words(&self.read("cgroup.subtree_control")?).any(|c| c == "cpu"))
    }

    /// Write `+cpu` into cgroup.subtree_control, unless it is there already.
    fn give_cpu_to_children(&self) -> Result<(), DomainError> {
        if self.gives_cpu_to_children()? {
            return Ok(());
        }
        match self.write("cgroup.subtree_control", "+cpu") {
            Err(DomainError::Io { path, source, .. }) if is(&source, Errno::BUSY) => {
                Err(DomainError::State { path, why: FULL })
            }
            Err(DomainError::Io { source, .. }) if is(&source, Errno::NOENT) => Err(
                DomainError::NoController(self.at.join("cgroup.controllers")),
            ),
            done => done,
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// True if the text of cgroup.events says that the cgroup or one below it has processes.
pub fn parse_populated(text: &str) -> bool {
    text.lines().any(|l| l.trim() == "populated 1")
}

/// True if the text of cpu.stat says that CPU time was used.
pub fn parse_used(text: &str) -> bool {
    let usage = text.lines().find_map(|l| l.strip_prefix("usage_usec "));
    usage.is_some_and(|n| n.trim().parse().is_ok_and(|us: u64| us > 0))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

fn directory() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn failed(path: &Path, doing: &'static str, source: impl Into<io::Error>) -> DomainError {
    DomainError::Io {
        path: path.into(),
        doing,
        source: source.into(),
    }
}

fn wrap<T>(place: &Path, result: Result<T, String>) -> Result<T, DomainError> {
    result.map_err(|message| DomainError::Wrong {
        place: place.display().to_string(),
        message,
    })
}

#[cfg(test)]
mod tests;
