//! Watches for created, removed and replaced files of specs and programs (inotify).
//!
//! Directories are watched, not files: a package manager writes a new file and renames it over the
//! old one, and a watch on the old file would not report that. Of the directories on the way to a
//! program only their own move or deletion counts: in some of them (a home) names change all the
//! time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};

/// The most directories that are watched. If there are more, this is logged.
pub const MAX_DIRS: usize = 4096;

/// The kinds of files that changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    pub specs: bool,
    pub programs: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Role {
    specs: bool,
    programs: bool,
    /// On the way to a program: only a change of the directory itself counts.
    above: bool,
}

/// A file that becomes ready (as exceptional data) whenever a file system is mounted or unmounted
/// in the daemon's namespace: see proc(5).
///
/// # Errors
/// /proc is not mounted.
pub fn mounts() -> io::Result<File> {
    File::open("/proc/self/mountinfo")
}

/// An inotify instance and what it watches.
#[derive(Debug)]
pub struct Watch {
    inotify: Inotify,
    dirs: HashMap<PathBuf, (WatchDescriptor, Role)>,
}

impl Watch {
    /// # Errors
    /// The user's limit of inotify instances is reached.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            inotify: Inotify::init()?,
            dirs: HashMap::new(),
        })
    }

    /// Watch exactly these directories. Returns a sentence for each that could not be watched.
    /// `above` are the directories on the way to programs.
    pub fn set(
        &mut self,
        specs: &BTreeSet<PathBuf>,
        programs: &BTreeSet<PathBuf>,
        above: &BTreeSet<PathBuf>,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        let old = std::mem::take(&mut self.dirs);
        // If there are too many, those on the way are left out first.
        let mut all: Vec<_> = specs.union(programs).collect();
        all.extend(
            above
                .iter()
                .filter(|d| !specs.contains(*d) && !programs.contains(*d)),
        );
        if all.len() > MAX_DIRS {
            problems.push(format!(
                "{} directories to watch; only {MAX_DIRS} are",
                all.len()
            ));
        }
        for dir in all.into_iter().take(MAX_DIRS) {
            let role = Role {
                specs: specs.contains(dir),
                programs: programs.contains(dir),
                above: above.contains(dir),
            };
            let mut flags = WatchMask::DELETE_SELF | WatchMask::MOVE_SELF | WatchMask::ONLYDIR;
            if role.specs || role.programs {
                flags |= WatchMask::CREATE
                    | WatchMask::MOVED_TO
                    | WatchMask::MOVED_FROM
                    | WatchMask::DELETE
                    | WatchMask::ATTRIB; // chmod +x
            }
            if role.specs {
                flags |= WatchMask::CLOSE_WRITE;
            }
            // For a directory that is watched already, add() returns the same descriptor and sets
            // the mask.
            match self.inotify.watches().add(dir, flags) {
                Ok(watch) => drop(self.dirs.insert(dir.clone(), (watch, role))),
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(e) => problems.push(format!(
                    "changes in {} will not be seen: {e}",
                    dir.display()
                )),
            }
        }
        let kept: HashSet<&WatchDescriptor> = self.dirs.values().map(|(watch, _)| watch).collect();
        for (watch, _) in old.into_values() {
            if !kept.contains(&watch) {
                // This fails if the directory was removed, because its watch was removed with it.
                let _ = self.inotify.watches().remove(watch);
            }
        }
        problems
    }

    /// The kinds of files that changed since the last call.
    pub fn read(&mut self) -> Changed {
        let mut changed = Changed::default();
        let mut buffer = [0; 4096];
        // Without events, read_events() fails with WouldBlock.
        while let Ok(events) = self.inotify.read_events(&mut buffer) {
            for event in events {
                if event.mask.contains(EventMask::Q_OVERFLOW) {
                    return Changed {
                        specs: true,
                        programs: true,
                    };
                }
                // Two paths can be the same directory, and so have the same watch.
                for (_, role) in self.dirs.values().filter(|(w, _)| *w == event.wd) {
                    changed.specs |= role.specs;
                    changed.programs |= role.programs || role.above;
                }
            }
        }
        changed
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn renames_over_a_program_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mplayer"), "old").unwrap();
        let mut watch = Watch::new().unwrap();
        let programs = BTreeSet::from([dir.path().to_path_buf()]);
        assert!(watch
            .set(&BTreeSet::new(), &programs, &BTreeSet::new())
            .is_empty());
        assert_eq!(watch.read(), Changed::default());
        fs::write(dir.path().join("mplayer.new"), "new").unwrap();
        fs::rename(dir.path().join("mplayer.new"), dir.path().join("mplayer")).unwrap();
        assert_eq!(
            watch.read(),
            Changed {
                specs: false,
                programs: true
            }
        );
        assert_eq!(watch.read(), Changed::default());
    }

    #[test]
    fn writes_count_for_specs_only() {
        let dir = tempfile::tempdir().unwrap();
        let (specs, programs) = (dir.path().join("specs"), dir.path().join("bin"));
        for d in [&specs, &programs] {
            fs::create_dir(d).unwrap();
            fs::write(d.join("x"), "1").unwrap();
        }
        let mut watch = Watch::new().unwrap();
        watch.set(
            &BTreeSet::from([specs.clone()]),
            &BTreeSet::from([programs.clone()]),
            &BTreeSet::new(),
        );
        fs::write(programs.join("x"), "2").unwrap();
        assert_eq!(watch.read(), Changed::default(), "the same inode");
        fs::write(specs.join("x"), "2").unwrap();
        assert_eq!(
            watch.read(),
            Changed {
                specs: true,
                programs: false
            }
        );
    }

    #[test]
    fn directories_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        let mut watch = Watch::new().unwrap();
        let both = BTreeSet::from([dir.path().to_path_buf(), inner.clone()]);
        assert!(
            watch
                .set(&BTreeSet::new(), &both, &BTreeSet::new())
                .is_empty(),
            "one that is missing is no problem"
        );
        fs::create_dir(&inner).unwrap();
        assert!(watch.read().programs);
        watch.set(&BTreeSet::new(), &both, &BTreeSet::new());
        fs::write(inner.join("x"), "").unwrap();
        assert!(watch.read().programs);
        watch.set(
            &BTreeSet::new(),
            &BTreeSet::from([dir.path().to_path_buf()]),
            &BTreeSet::new(),
        );
        watch.read();
        fs::write(inner.join("y"), "").unwrap();
        assert!(!watch.read().programs, "no longer watched");
    }

    #[test]
    fn of_a_directory_on_the_way_its_own_move_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (app, bin) = (dir.path().join("app"), dir.path().join("app/bin"));
        fs::create_dir_all(&bin).unwrap();
        let mut watch = Watch::new().unwrap();
        let none = BTreeSet::new();
        let (programs, above) = (BTreeSet::from([bin]), BTreeSet::from([app.clone()]));
        assert!(watch.set(&none, &programs, &above).is_empty());
        fs::write(app.join("x"), "").unwrap();
        assert!(!watch.read().programs, "a name in it does not count");
        fs::rename(&app, dir.path().join("old")).unwrap();
        assert!(watch.read().programs);
    }
}
