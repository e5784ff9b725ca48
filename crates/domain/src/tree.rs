//! The cgroup v2 tree as the place where domains live: find, walk, make, remove, read and write
//! them.
//!
//! Names come from outside, so below the root every directory is opened from its parent's
//! descriptor, part by part, with O_NOFOLLOW: no name leads out of the tree. All writes are the
//! caller's own: what the kernel does not let him write, this does not either.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, mkdirat, open, openat, unlinkat, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::{
    find_mount, Attributes, DomainError, DomainPath, Marks, Max, WrongMark, Xattrs, MAX_WEIGHT,
};

/// Directories that one walk visits at most.
pub const MAX_WALK: usize = 16_384;
/// Why a domain gets none below.
const FULL: &str = "it has processes of its own, so it cannot have domains below; move them first";
/// Bytes of an interface file that are read.
const MAX_FILE: u64 = 4096;

/// The tree.
pub struct Tree {
    root: OwnedFd,
    /// Its mount point, for messages.
    at: PathBuf,
    store: Box<dyn Attributes>,
    /// This machine's own, not a folder of a test.
    system: bool,
}

/// An open domain.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    pub path: DomainPath,
    /// Where it is in the file system, for messages.
    at: PathBuf,
}

/// What the kernel's files of a domain say; None: it has no such file (the root; no CPU
/// controller).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Files {
    pub weight: Option<u32>,
    pub idle: Option<bool>,
    /// The inner None: no limit.
    pub max: Option<Option<Max>>,
    /// It or a domain below has processes.
    pub populated: bool,
}

/// One domain that a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub path: DomainPath,
    /// The cgroup's id: the inode number of its directory.
    pub cgid: u64,
    pub marks: Marks,
    pub wrong: Vec<WrongMark>,
}

/// All that a walk found, each after its parent.
#[derive(Debug, Default)]
pub struct Walk {
    pub domains: Vec<Found>,
    /// Some were left out: more than [`MAX_WALK`], or deeper than 16 levels.
    pub truncated: bool,
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

    /// True of the tree of this machine, which a service manager may own.
    pub fn is_system(&self) -> bool {
        self.system
    }

    /// Where the root is in the file system.
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
        })
    }

    /// Make a domain, and those above it that are missing, with the CPU controller in all. True: it
    /// was made; false: it was there.
    ///
    /// # Errors The CPU controller is not in this tree; a domain above has processes of its own;
    /// failed system calls. What was made until then is taken away again.
    pub fn create(&self, path: &DomainPath) -> Result<bool, DomainError> {
        let mut made = Vec::new();
        let result = self.create_parts(path, &mut made);
        if result.is_err() {
            for path in made.iter().rev() {
                let _ = self.remove(path); // the first error is the one that matters
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

    /// Remove a domain that is empty.
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

    /// What the kernel's files say.
    ///
    /// # Errors
    /// Failed system calls; a file that is not understood.
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
        // an idle group's cpu.weight reads 0
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

    /// The attributes of a domain, and what is wrong with them.
    pub fn marks(&self, dir: &Directory) -> (Marks, Vec<WrongMark>) {
        Marks::read(&*self.store, dir.fd.as_fd())
    }

    /// Set one attribute, or take it away.
    ///
    /// # Errors
    /// Failed system calls; for this user, [`DomainError::is_permission`].
    pub fn set_mark(
        &self,
        dir: &Directory,
        name: &'static str,
        value: Option<&str>,
    ) -> Result<(), DomainError> {
        let set = self.store.set(dir.fd.as_fd(), name, value);
        set.map_err(|e| failed(&dir.at, name, e))
    }

    /// Move a process, with all its threads, into a domain; 0: the one that calls.
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

    /// All domains at `top` and below, each after its parent, at most [`MAX_WALK`].
    ///
    /// # Errors
    /// `top` is missing. What vanishes during the walk is left out.
    pub fn walk(&self, top: &DomainPath) -> Result<Walk, DomainError> {
        let mut walk = Walk::default();
        let mut todo = vec![self.open(top)?];
        while let Some(dir) = todo.pop() {
            if walk.domains.len() >= MAX_WALK {
                walk.truncated = true;
                break;
            }
            let Ok(cgid) = dir.cgid() else { continue };
            let (marks, wrong) = self.marks(&dir);
            walk.domains.push(Found {
                path: dir.path.clone(),
                cgid,
                marks,
                wrong,
            });
            let mut names = dir.children().unwrap_or_default();
            names.sort();
            for name in names.into_iter().rev() {
                match dir.below(&name) {
                    Ok(child) => todo.push(child),
                    Err(DomainError::Wrong { .. }) => walk.truncated = true,
                    Err(_) => {} // gone
                }
            }
        }
        Ok(walk)
    }
}

impl Directory {
    fn below(&self, name: &str) -> Result<Self, DomainError> {
        let at = self.at.join(name);
        let path = wrap(&at, self.path.child(name))?;
        match openat(&self.fd, name, directory(), Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path, at }),
            Err(Errno::NOENT) => Err(DomainError::Missing(path.to_string())),
            Err(e) => Err(failed(&at, "opening it as a directory", e)),
        }
    }

    /// The cgroup's id.
    ///
    /// # Errors
    /// Failed system calls.
    pub fn cgid(&self) -> Result<u64, DomainError> {
        let stat = fstat(&self.fd).map_err(|e| failed(&self.at, "looking at it", e))?;
        Ok(stat.st_ino)
    }

    /// True if a process ever ran in it: it has used CPU time (cpu.stat, which every cgroup has).
    pub fn was_used(&self) -> bool {
        let stat = self.read_if_there("cpu.stat").ok().flatten();
        stat.is_some_and(|text| parse_used(&text))
    }

    /// Names of the directories in it.
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
    /// It has no such file; failed system calls.
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
        // one write: the kernel takes each as a whole
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

    /// An error for a cgroup with processes. The kernel lets it give the CPU controller on, since
    /// that is for threads too; but what is below it then is "domain invalid", and takes no
    /// process. The root may have both.
    fn can_have_children(&self) -> Result<(), DomainError> {
        let kind = self.read_if_there("cgroup.type")?; // the root has none; threaded ones may have both
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

    /// `+cpu` in cgroup.subtree_control, unless it is there.
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

/// Whether a cgroup.events says that the cgroup or one below has processes.
pub fn parse_populated(text: &str) -> bool {
    text.lines().any(|l| l.trim() == "populated 1")
}

/// Whether a cpu.stat says that any CPU time was used.
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
