//! Which files and directories of specs are trusted: those that only root can change.
//!
//! A spec gives rights, so a user that can write it can give them to itself. As sshd does for its
//! files (StrictModes), the file is checked, and every directory and link from `/` to it: with a
//! directory of another user on the way, that user can put another directory in its place.

use rustix::fs::FileType;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Links that are followed on the way to a file. The kernel follows as many.
const MAX_LINKS: usize = 40;

/// What a path is for the file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The file, or the directory of the files.
    Last,
    /// A directory on the way.
    Way,
    /// A link on the way.
    Link,
}

/// Why a path with this owner and mode is not trusted. None: only root can change it.
///
/// In a directory with the sticky bit (`/tmp`) a user can replace only entries of its own, and each
/// entry on the way is checked as well. But a user can add files there, so it may not be the
/// directory of the files.
pub(crate) fn refusal(role: Role, uid: u32, mode: u32) -> Option<&'static str> {
    let may_be_written = match role {
        Role::Last => true,
        Role::Way => mode & 0o1000 == 0,
        Role::Link => false, // its mode has no meaning
    };
    if uid != 0 {
        Some("it does not belong to root")
    } else if may_be_written && mode & 0o022 != 0 {
        Some("its group or others can write it")
    } else {
        None
    }
}

/// A file, directory or link, not followed.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub uid: u32,
    /// With the type of the file.
    pub mode: u32,
    /// Where a link leads.
    pub target: Option<PathBuf>,
}

impl Entry {
    /// The entry at `path`. None if there is none.
    pub fn at(path: &Path) -> Option<Entry> {
        let st = rustix::fs::lstat(path).ok()?;
        let target = (FileType::from_raw_mode(st.st_mode) == FileType::Symlink)
            .then(|| rustix::fs::readlink(path, Vec::new()).ok())
            .flatten()
            .map(|t| PathBuf::from(OsString::from_vec(t.into_bytes())));
        Some(Entry {
            uid: st.st_uid,
            mode: st.st_mode,
            target,
        })
    }
}

/// Why the absolute `path` is not trusted: names the first part of it that a user other than root
/// can change. `entry` examines a path, as [`Entry::at`] does. None if only root can change what
/// `path` leads to, or if it leads nowhere.
pub(crate) fn untrusted(path: &Path, entry: impl Fn(&Path) -> Option<Entry>) -> Option<String> {
    let mut here = PathBuf::from("/"); // a real path
    let mut rest = parts(path);
    let mut links = 0;
    let why = |at: &Path, role, found: &Entry| {
        let why = refusal(role, found.uid, found.mode)?;
        Some(match at == path {
            true => why.to_string(),
            false => format!("of {}: {why}", at.display()),
        })
    };
    if let Some(bad) = entry(&here).and_then(|e| why(&here, Role::Way, &e)) {
        return Some(bad);
    }
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        let found = entry(&next)?;
        let role = match (&found.target, rest.is_empty()) {
            (Some(_), _) => Role::Link,
            (None, true) if FileType::from_raw_mode(found.mode) == FileType::CharacterDevice => {
                return None; // /dev/null, which any user may write: it masks
            }
            (None, true) => Role::Last,
            (None, false) => Role::Way,
        };
        if let Some(bad) = why(&next, role, &found) {
            return Some(bad);
        }
        let Some(target) = found.target else {
            here = next;
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Some(format!("of {}: too many links", next.display()));
        }
        if target.is_absolute() {
            here = PathBuf::from("/");
        }
        for part in parts(&target).into_iter().rev() {
            rest.push_front(part);
        }
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const DIR: u32 = 0o040_000;
    const FILE: u32 = 0o100_000;

    /// A file system: path, owner, mode with type, target.
    fn of(entries: &[(&str, u32, u32, Option<&str>)]) -> HashMap<PathBuf, Entry> {
        let entry = |&(path, uid, mode, target): &(&str, u32, u32, Option<&str>)| {
            let target = target.map(PathBuf::from);
            (PathBuf::from(path), Entry { uid, mode, target })
        };
        entries.iter().map(entry).collect()
    }

    fn said(fs: &HashMap<PathBuf, Entry>, path: &str) -> Option<String> {
        untrusted(Path::new(path), |p| fs.get(p).cloned())
    }

    #[test]
    fn owner_and_mode_of_each_role() {
        for role in [Role::Last, Role::Way, Role::Link] {
            assert_eq!(refusal(role, 0, 0o755), None);
            assert_eq!(
                refusal(role, 1000, 0o755),
                Some("it does not belong to root")
            );
        }
        for bad in [0o775, 0o757, 0o777] {
            for role in [Role::Last, Role::Way] {
                assert_eq!(
                    refusal(role, 0, bad),
                    Some("its group or others can write it")
                );
            }
            assert_eq!(refusal(Role::Link, 0, bad), None);
        }
        assert_eq!(refusal(Role::Way, 0, 0o1777), None);
        assert!(refusal(Role::Last, 0, 0o1777).is_some());
    }

    #[test]
    fn every_directory_on_the_way_counts() {
        let mut fs = of(&[
            ("/", 0, DIR | 0o755, None),
            ("/opt", 0, DIR | 0o755, None),
            ("/opt/x", 0, DIR | 0o755, None),
            ("/opt/x/a.toml", 0, FILE | 0o644, None),
        ]);
        assert_eq!(said(&fs, "/opt/x/a.toml"), None);
        assert_eq!(said(&fs, "/opt/none"), None);
        fs.insert(
            "/opt".into(),
            Entry {
                uid: 1000,
                mode: DIR | 0o755,
                target: None,
            },
        );
        let bad = Some("of /opt: it does not belong to root".to_string());
        assert_eq!(said(&fs, "/opt/x"), bad);
        assert_eq!(said(&fs, "/opt/x/a.toml"), bad);
    }

    #[test]
    fn links_lead_through_the_directories_of_their_target() {
        let fs = of(&[
            ("/", 0, DIR | 0o755, None),
            ("/etc", 0, DIR | 0o755, None),
            ("/etc/a.toml", 0, 0o120_777, Some("../home/u/a.toml")),
            ("/etc/null", 0, 0o120_777, Some("/dev/null")),
            ("/etc/loop", 0, 0o120_777, Some("loop")),
            ("/dev", 0, DIR | 0o755, None),
            ("/dev/null", 0, 0o020_666, None),
            ("/home", 0, DIR | 0o755, None),
            ("/home/u", 1000, DIR | 0o700, None),
            ("/home/u/a.toml", 0, FILE | 0o644, None),
            ("/tmp", 0, DIR | 0o1777, None),
            ("/tmp/mine", 0, DIR | 0o755, None),
            ("/tmp/theirs", 1000, 0o120_777, Some("mine")),
        ]);
        let bad = |at: &str| Some(format!("of {at}: it does not belong to root"));
        assert_eq!(said(&fs, "/etc/a.toml"), bad("/home/u"));
        assert_eq!(said(&fs, "/etc/null"), None);
        assert!(said(&fs, "/etc/loop").is_some());
        assert_eq!(said(&fs, "/tmp/mine"), None);
        assert!(said(&fs, "/tmp").is_some());
        assert!(said(&fs, "/tmp/theirs").is_some());
    }
}
