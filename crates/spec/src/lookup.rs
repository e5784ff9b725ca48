//! Finds files inside a root directory without leaving it, and their identity as the kernel side
//! sees it.

use crate::device::{DeviceOf, FileId};
use crate::limits::MAX_GLOB_HITS;
use crate::resolve::Absent;
use crate::script::{self, Interpreter};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Links of a path that are watched and checked: as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// Entries of a directory among which links to one file are looked for.
const MAX_ENTRIES: usize = 16_384;

/// The directories, as seen from the root, in which a change can lead a path to another file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    /// Those that hold the file, a link on the way to it, or the first part that is missing: a name
    /// that is created, moved or deleted there may count.
    pub names: BTreeSet<PathBuf>,
    /// The directories on the way: it counts if one of them is moved or deleted itself.
    pub moves: BTreeSet<PathBuf>,
    /// The links on the way. The owner of a link can let it lead to another file.
    pub links: BTreeSet<PathBuf>,
    /// Those of them that lead to the file itself, not to a directory above it: its other names.
    pub aliases: BTreeSet<PathBuf>,
}

/// A directory that stands for `/`.
pub struct Root<D> {
    fd: OwnedFd,
    /// The directory's real path.
    base: PathBuf,
    devices: D,
    /// Its owner and group are trusted like root.
    owner: (u32, u32),
}

/// A file that was found, with its identity as the kernel side sees it.
pub struct Found {
    fd: OwnedFd,
    pub inode: u64,
    pub device: u64,
    /// Why a user other than root may be able to have a file of this identity executed; None: only
    /// root can.
    pub weak: Option<String>,
    mode: u32,
    st_dev: u64,
    has_generations: bool,
    /// The file's real path, as seen from the root.
    pub real: PathBuf,
}

impl Found {
    /// Checks that the kernel would execute the file.
    ///
    /// # Errors
    ///
    /// The file is not a regular file, or it is not executable.
    pub fn executable(&self) -> Result<(), Absent> {
        if FileType::from_raw_mode(self.mode) != FileType::RegularFile {
            return Err(Absent::Unusable("it is no file".into()));
        }
        if self.mode & 0o111 == 0 {
            return Err(Absent::Unusable("it is not executable".into()));
        }
        Ok(())
    }
}

/// The file system's answer to FS_IOC_GETVERSION.
type GetVersion =
    rustix::ioctl::Getter<{ rustix::ioctl::opcode::read::<std::ffi::c_long>(b'v', 1) }, u32>;

impl<D: DeviceOf> Root<D> {
    pub fn open(root: &Path, devices: D) -> std::io::Result<Root<D>> {
        let base = root.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&base, flags, Mode::empty())?;
        let st = rustix::fs::fstat(&fd)?;
        Ok(Root {
            fd,
            base,
            devices,
            owner: (st.st_uid, st.st_gid),
        })
    }

    /// Finds a path inside the root.
    ///
    /// # Errors
    ///
    /// The file does not exist, or it cannot be opened or examined.
    pub fn find(&self, path: &str) -> Result<Found, Absent> {
        let fd = self.fd_of(Path::new(path)).map_err(|e| match e {
            rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => Absent::Missing,
            e => Absent::Unusable(std::io::Error::from(e).to_string()),
        })?;
        let failed = |e: std::io::Error| Absent::Unusable(e.to_string());
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let st = rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, wanted)
            .map_err(|e| failed(e.into()))?;
        let whole =
            std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(failed)?;
        let real = match whole.strip_prefix(&self.base) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => {
                return Err(Absent::Unusable(
                    "it was moved while it was looked at".into(),
                ))
            }
        };
        let has_mount = st.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        let id = FileId {
            path: whole,
            mount_id: has_mount.then_some(st.stx_mnt_id),
            st_dev: rustix::fs::makedev(st.stx_dev_major, st.stx_dev_minor),
        };
        let device = self.devices.device_of(&id);
        let (inode, mode) = (st.stx_ino, u32::from(st.stx_mode));
        let weak = if device.shared_inodes {
            Some("inode numbers are not unique on its file system".to_string())
        } else if self.others_may_write(st.stx_uid, st.stx_gid, mode) {
            Some("a user other than root can write to it".to_string())
        } else {
            self.writable_on_the_way(path)
                .map(|d| format!("a user other than root can write to {}", d.display()))
        };
        Ok(Found {
            fd,
            inode,
            device: device.number,
            weak,
            mode,
            st_dev: id.st_dev,
            has_generations: device.has_generations,
            real,
        })
    }

    /// A directory on the way to a file in which a user other than root can put another file, or a
    /// link of such a user. (A group can add links to a directory with the sticky bit.)
    fn writable_on_the_way(&self, path: &str) -> Option<PathBuf> {
        let way = self.way(Path::new(path));
        let mut links = way.links.into_iter().filter(|link| self.others_own(link));
        let mut dirs = way.names.into_iter().chain(way.moves);
        let writable = dirs.find(|dir| {
            let st = self.fd_of(dir).and_then(rustix::fs::fstat);
            st.is_ok_and(|st| self.others_may_write(st.st_uid, st.st_gid, st.st_mode))
        });
        writable.or_else(|| links.next())
    }

    /// True if a user that is not trusted owns the link itself.
    fn others_own(&self, link: &Path) -> bool {
        let (Some(dir), Some(name)) = (link.parent(), link.file_name()) else {
            return false;
        };
        let st = self
            .fd_of(dir)
            .and_then(|dir| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW));
        st.is_ok_and(|st| ![0, self.owner.0].contains(&st.st_uid))
    }

    /// True if the owner, the group or the mode lets a user write that is neither root nor the
    /// owner of the root directory. In a directory with the sticky bit a group can add files, but
    /// replace only its own (a store of packages).
    fn others_may_write(&self, uid: u32, gid: u32, mode: u32) -> bool {
        let trusted = [0, self.owner.0].contains(&uid);
        let group = mode & 0o020 != 0 && ![0, self.owner.1].contains(&gid);
        let sticky = mode & 0o1000 != 0;
        !trusted || (group && !sticky) || mode & 0o002 != 0
    }

    fn fd_of(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let inside = if inside.as_os_str().is_empty() {
            Path::new(".")
        } else {
            inside
        };
        let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(
            &self.fd,
            inside,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            how,
        )
    }

    /// The generation of a regular file's inode. None if its file system has none, or if this
    /// process may not read it.
    pub fn generation(&self, found: &Found) -> Option<u32> {
        if !found.has_generations {
            return None;
        }
        let file = std::fs::File::open(format!("/proc/self/fd/{}", found.fd.as_raw_fd())).ok()?;
        // SAFETY: the kernel writes 32 bits, although the request's number says that of a long.
        unsafe { rustix::ioctl::ioctl(&file, GetVersion::new()) }.ok()
    }

    /// The interpreter of a script. None if the file is no script, or if this process may not read
    /// it.
    ///
    /// # Errors
    ///
    /// The file is not a regular file, or its `#!` line is invalid.
    pub fn interpreter(&self, found: &Found) -> Result<Option<Interpreter>, Absent> {
        if FileType::from_raw_mode(found.mode) != FileType::RegularFile {
            return Err(Absent::Unusable("it is no file".into()));
        }
        let Ok(file) = std::fs::File::open(format!("/proc/self/fd/{}", found.fd.as_raw_fd()))
        else {
            return Ok(None);
        };
        let mut head = Vec::with_capacity(script::HEAD_BYTES);
        if file
            .take(script::HEAD_BYTES as u64)
            .read_to_end(&mut head)
            .is_err()
        {
            return Ok(None);
        }
        script::interpreter(&head).map_err(Absent::Unusable)
    }

    /// The files that a path with stars stands for, as seen from the root. If there are more than
    /// [`MAX_GLOB_HITS`], one more than that is returned.
    pub fn glob(&self, path: &str) -> Vec<String> {
        let literal = |part: &str| glob::Pattern::escape(part);
        let Some(base) = self.base.to_str() else {
            return Vec::new();
        };
        let base = base.trim_end_matches('/');
        let pattern = literal(base) + &path.split('*').map(literal).collect::<Vec<_>>().join("*");
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let Ok(found) = glob::glob_with(&pattern, options) else {
            return Vec::new();
        };
        found
            .flatten()
            .filter_map(|p| Some(format!("/{}", p.strip_prefix(&self.base).ok()?.to_str()?)))
            .take(MAX_GLOB_HITS + 1)
            .collect()
    }

    /// The way to the first part of a path that has a star.
    pub fn fixed_way(&self, path: &str) -> Way {
        let parts = path.split('/').scan(false, |starred, part| {
            let past = std::mem::replace(starred, *starred || part.contains('*'));
            (!past).then_some(part)
        });
        self.way(Path::new(&parts.collect::<Vec<_>>().join("/")))
    }

    /// What decides where a path leads: see [`Way`]. Follows at most [`MAX_LINKS`] links.
    pub fn way(&self, path: &Path) -> Way {
        let mut way = Way::default();
        let mut here = PathBuf::from("/"); // always a real path
        let mut rest: VecDeque<OsString> = parts(path);
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&name);
            match self.link(&here, &name) {
                Some(target) => {
                    way.names.insert(here.clone());
                    if rest.is_empty() {
                        way.aliases.insert(next.clone());
                    }
                    way.links.insert(next);
                    links += 1;
                    if links > MAX_LINKS {
                        break;
                    }
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    }
                    for part in parts(&target).into_iter().rev() {
                        rest.push_front(part);
                    }
                }
                None if !rest.is_empty() && self.is_directory(&next) => {
                    way.moves.insert(next.clone());
                    here = next;
                }
                None => {
                    way.names.insert(here);
                    break;
                }
            }
        }
        way
    }

    /// The target of the link `name` in `dir`. None if it is no link.
    fn link(&self, dir: &Path, name: &OsStr) -> Option<PathBuf> {
        let fd = self.fd_of(dir).ok()?;
        let target = rustix::fs::readlinkat(&fd, name, Vec::new()).ok()?;
        Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// True if the file `found`, to which the link `path` leads, is many commands (busybox, snap):
    /// links of at least two other names lead to it from `path`'s directory. A name that only
    /// leaves off the end of the file's own (`vim` of `vim.basic`, `python3` of `python3.13`) is
    /// none.
    pub fn is_many_commands(&self, path: &Path, found: &Found) -> bool {
        let (Some(name), Some(own)) = (path.file_name(), found.real.file_name()) else {
            return false;
        };
        if is_name_of(name.as_bytes(), own.as_bytes()) {
            return false;
        }
        let Some(dir) = path.parent().and_then(|p| self.fd_of(p).ok()) else {
            return false;
        };
        let Ok(entries) = std::fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd())) else {
            return false;
        };
        let here = path.parent().unwrap_or(Path::new("/"));
        let leads_there = |name: &OsStr| {
            let st = self.fd_of(&here.join(name)).and_then(rustix::fs::fstat);
            st.is_ok_and(|st| st.st_ino == found.inode && st.st_dev == found.st_dev)
        };
        entries
            .flatten()
            .take(MAX_ENTRIES)
            .filter(|e| e.file_type().is_ok_and(|t| t.is_symlink()))
            .map(|e| e.file_name())
            .filter(|n| !is_name_of(n.as_bytes(), own.as_bytes()) && leads_there(n))
            .nth(1)
            .is_some()
    }

    fn is_directory(&self, path: &Path) -> bool {
        let found = self.fd_of(path).and_then(rustix::fs::fstat);
        found.is_ok_and(|st| FileType::from_raw_mode(st.st_mode) == FileType::Directory)
    }
}

/// True if `name` is the file name `own`, or that name without its end.
fn is_name_of(name: &[u8], own: &[u8]) -> bool {
    let rest = own.strip_prefix(name);
    rest.is_some_and(|rest| rest.first().is_none_or(|b| !b.is_ascii_alphabetic()))
}

/// The parts of a path without its root.
fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_os_string()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}
