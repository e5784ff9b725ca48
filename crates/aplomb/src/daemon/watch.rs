//! Watches for created, removed and replaced files of specs and programs (inotify).
//!
//! Directories are watched, not files: a package manager writes a new file and renames it over the
//! old one, and a watch on the old file would not report that. Of the directories on the way to a
//! program only their own move or deletion counts: in some of them (a home) names change all the
//! time. Of the directory in which one with specs is missing only that name counts: the daemon
//! itself writes files beside it (/run/aplomb), and a package manager does (/usr/lib).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};

/// The most directories that are watched. If there are more, this is logged.
pub const MAX_DIRS: usize = 4096;

/// The kinds of files that changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    pub specs: bool,
    pub programs: bool,
}

/// The directories to watch.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Each change of a file in them is one of the specs.
    pub specs: BTreeSet<PathBuf>,
    /// Not there yet, but the directory above is. Specs may be in it, or further below.
    pub awaited: BTreeSet<PathBuf>,
    /// A new or another file in them may be another program.
    pub programs: BTreeSet<PathBuf>,
    /// On the way to `programs`.
    pub above: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Role {
    specs: bool,
    /// A directory with specs is missing in it.
    awaits: bool,
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
    awaited: BTreeSet<PathBuf>,
}

impl Watch {
    /// # Errors
    /// The user's limit of inotify instances is reached.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            inotify: Inotify::init()?,
            dirs: HashMap::new(),
            awaited: BTreeSet::new(),
        })
    }

    /// Watch exactly these directories. Returns a sentence for each that could not be watched.
    pub fn set(&mut self, wanted: Wanted) -> Vec<String> {
        let mut problems = Vec::new();
        let old = std::mem::take(&mut self.dirs);
        let awaits: BTreeSet<PathBuf> = wanted.awaited.iter().filter_map(|a| parent(a)).collect();
        let Wanted {
            specs,
            programs,
            above,
            ..
        } = &wanted;
        // If there are too many, those on the way are left out first.
        let all: BTreeSet<_> = specs.iter().chain(&awaits).chain(programs).collect();
        let on_the_way = above
            .iter()
            .filter(|d| !all.contains(d))
            .collect::<Vec<_>>();
        let all: Vec<_> = all.into_iter().chain(on_the_way).collect();
        if all.len() > MAX_DIRS {
            problems.push(format!(
                "{} directories to watch; only {MAX_DIRS} are",
                all.len()
            ));
        }
        for dir in all.into_iter().take(MAX_DIRS) {
            let role = Role {
                specs: specs.contains(dir),
                awaits: awaits.contains(dir),
                programs: programs.contains(dir),
                above: above.contains(dir),
            };
            let mut flags = WatchMask::DELETE_SELF | WatchMask::MOVE_SELF | WatchMask::ONLYDIR;
            if role.specs || role.awaits || role.programs {
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
        self.awaited = wanted.awaited;
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
                for (dir, (_, role)) in self.dirs.iter().filter(|(_, (w, _))| *w == event.wd) {
                    // Without a name the event is of the directory itself: it may have gone.
                    let counts = |name| self.awaited.contains(&dir.join(name));
                    changed.specs |= role.specs || role.awaits && event.name.is_none_or(counts);
                    changed.programs |= role.programs || role.above;
                }
            }
        }
        changed
    }
}

fn parent(path: &Path) -> Option<PathBuf> {
    path.parent().map(Path::to_path_buf)
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

    fn in_programs(programs: BTreeSet<PathBuf>) -> Wanted {
        Wanted {
            programs,
            ..Wanted::default()
        }
    }

    #[test]
    fn renames_over_a_program_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mplayer"), "old").unwrap();
        let mut watch = Watch::new().unwrap();
        let programs = BTreeSet::from([dir.path().to_path_buf()]);
        assert!(watch.set(in_programs(programs)).is_empty());
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
        watch.set(Wanted {
            specs: BTreeSet::from([specs.clone()]),
            ..in_programs(BTreeSet::from([programs.clone()]))
        });
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
            watch.set(in_programs(both.clone())).is_empty(),
            "one that is missing is no problem"
        );
        fs::create_dir(&inner).unwrap();
        assert!(watch.read().programs);
        watch.set(in_programs(both));
        fs::write(inner.join("x"), "").unwrap();
        assert!(watch.read().programs);
        watch.set(in_programs(BTreeSet::from([dir.path().to_path_buf()])));
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
        let wanted = Wanted {
            above: BTreeSet::from([app.clone()]),
            ..in_programs(BTreeSet::from([bin]))
        };
        assert!(watch.set(wanted).is_empty());
        fs::write(app.join("x"), "").unwrap();
        assert!(!watch.read().programs, "a name in it does not count");
        fs::rename(&app, dir.path().join("old")).unwrap();
        assert!(watch.read().programs);
    }

    #[test]
    fn beside_an_awaited_directory_nothing_counts() {
        let dir = tempfile::tempdir().unwrap();
        let specs = dir.path().join("specs.d");
        let mut watch = Watch::new().unwrap();
        let wanted = || Wanted {
            awaited: BTreeSet::from([specs.clone()]),
            ..Wanted::default()
        };
        assert!(watch.set(wanted()).is_empty());
        fs::write(dir.path().join("journal"), "the daemon's own").unwrap();
        assert_eq!(watch.read(), Changed::default());
        fs::create_dir(&specs).unwrap();
        assert!(watch.read().specs);
        fs::remove_dir(&specs).unwrap();
        watch.read();
        watch.set(wanted());
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(watch.read().specs, "now one further above is missing");
    }
}
