//! Finds files inside a root directory without leaving it, and their identity as the kernel side
//! sees it.

use crate::device::{DeviceOf, FileId};
use crate::limits::MAX_GLOB_HITS;
use crate::resolve::Absent;
use crate::script::{self, Interpreter};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Links of a path that are watched. The kernel follows up to 40, but real paths have only a few.
const MAX_LINKS: usize = 16;

/// A directory that stands for `/`.
pub struct Root<D> {
    fd: OwnedFd,
    /// The directory's real path.
    base: PathBuf,
    devices: D,
}

/// A file that was found, with its identity as the kernel side sees it.
pub struct Found {
    fd: OwnedFd,
    pub inode: u64,
    pub device: u64,
    /// Several files can have this identity, so any user may be able to create a file that matches.
    pub weak: bool,
    mode: u32,
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

impl<D: DeviceOf> Root<D> {
    pub fn open(root: &Path, devices: D) -> std::io::Result<Root<D>> {
        let base = root.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root {
            fd: rustix::fs::open(&base, flags, Mode::empty())?,
            base,
            devices,
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
        Ok(Found {
            fd,
            inode,
            device: device.number,
            weak: device.shared_inodes,
            mode,
            real,
        })
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

    /// The directory above the first star of a path.
    pub fn fixed_directory(&self, path: &str) -> Option<PathBuf> {
        let fixed = path.split('*').next().unwrap_or_default();
        self.nearest_directory(Path::new(fixed.rsplit_once('/').map_or("", |(dir, _)| dir)))
    }

    /// The directory of a path, and the directories of everything that its links point to, one
    /// after the other.
    pub fn directories(&self, path: &str) -> Vec<PathBuf> {
        let mut out = Vec::new();
        let mut next = PathBuf::from(path);
        for _ in 0..MAX_LINKS {
            let (Some(parent), Some(name)) = (next.parent(), next.file_name()) else {
                break;
            };
            let Some(dir) = self.nearest_directory(parent) else {
                break;
            };
            out.push(dir.clone());
            let Ok(link) = self
                .fd_of(parent)
                .and_then(|fd| rustix::fs::readlinkat(&fd, name, Vec::new()))
            else {
                break;
            };
            next = dir.join(OsStr::from_bytes(link.as_bytes())); // an absolute link replaces dir
        }
        out
    }

    /// The real path of a directory, or of the nearest one above it that exists.
    fn nearest_directory(&self, path: &Path) -> Option<PathBuf> {
        let fd = path.ancestors().find_map(|p| {
            let fd = self.fd_of(p).ok()?;
            let st = rustix::fs::fstat(&fd).ok()?;
            (FileType::from_raw_mode(st.st_mode) == FileType::Directory).then_some(fd)
        })?;
        let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        Some(Path::new("/").join(real.strip_prefix(&self.base).ok()?))
    }
}
