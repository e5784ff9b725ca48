//! Resolves matchers to rows of the kernel side's map: the programs that a spec means on this
//! machine at this moment.
//!
//! Paths are opened inside a root directory with openat2(RESOLVE_IN_ROOT), so links cannot lead out
//! of it.
//!
//! A file that begins with `#!` is matched as an argument of its interpreter, because the kernel
//! executes the interpreter and passes the script's path among the arguments. The argument is
//! compared whole, as the caller passed it (a shell finds `foo` in PATH and passes `/usr/bin/foo`).
//! So a script that is started by a relative path is not recognised.
//!
//! A link to a file that is many commands (busybox, snap) is matched by the file together with the
//! name under which it is executed. So `busybox vi` is not recognised by a spec for the link `vi`.
//!
//! Any user can pass any argument, and make a link of any name. So such a row is revocable and
//! not guaranteed, whatever the spec says. The same holds for a file on a file system on which two
//! files can have the same inode number, and for a file that a user other than root can write or
//! replace.

use crate::device::{DeviceOf, MountTable};
use crate::diag::{shorten, Diagnostic, Severity};
use crate::key::{Key, MatchKind};
use crate::limits::{MAX_GLOB_HITS, MAX_MATCHERS};
use crate::lookup::{Found, Root, Way};
use crate::model::{flags, Matcher, ServerPolicy, Spec};
use crate::script::{self, Interpreter};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// How a row was found. The smaller value is the more specific one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// By a path without stars, or by a name.
    Exact,
    /// By a path with stars, as one of the files that it stands for.
    Glob,
}

/// One row of the kernel side's matcher map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: Key,
    /// What a program that matches this row gets.
    pub grant: Grant,
    pub via: Via,
    /// The file of the row, with all links resolved, as seen from the root. For a script it is the
    /// file of its interpreter. None for names.
    pub file: Option<PathBuf>,
    /// Why a user other than root can have a program of their own matched. None: only root can.
    pub weak: Option<String>,
}

/// The part of a spec that depends on the row by which a program is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// `flags` of `struct spec`.
    pub flags: u32,
    /// Server policy; None: the machine's setting.
    pub server: Option<ServerPolicy>,
    /// The process is moved into the spec's domain.
    pub domain: bool,
    /// Only the file that the spec names is matched: no other program can pass for it.
    pub exact: bool,
}

impl Grant {
    const NONE: Grant = Grant {
        flags: 0,
        server: None,
        domain: false,
        exact: false,
    };

    /// Everything that the spec grants.
    fn all(spec: &Spec) -> Grant {
        Grant {
            flags: spec.flags(),
            server: spec.server,
            domain: spec.domain.is_some(),
            exact: true,
        }
    }

    /// The grant of a row that any user's program can match: revocable, and without what only root
    /// may give ([`Spec::is_privileged`]).
    fn without_privileges(self) -> Grant {
        Grant {
            flags: (self.flags | flags::REVOCABLE) & !flags::GUARANTEED,
            server: self.server.filter(|s| *s != ServerPolicy::CbsSoft),
            domain: false,
            exact: false,
        }
    }
}

/// Why a matcher has no row at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absent {
    /// The file does not exist, or the stars stand for no file.
    Missing,
    /// The file exists but cannot be matched; the text says why.
    Unusable(String),
}

/// The rows of a matcher on this machine at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub matcher: Matcher,
    pub rows: Vec<Row>,
    /// Set if there is no row.
    pub absent: Option<Absent>,
    /// Directories, as seen from the root, in which a change can change the rows. They must be
    /// watched for names that are created, moved or deleted.
    pub watch: Vec<PathBuf>,
    /// Directories on the way to the files, as seen from the root: it counts if one of them is
    /// moved or deleted itself.
    pub above: Vec<PathBuf>,
    /// More than [`MAX_GLOB_HITS`] files match; the others have no row.
    pub truncated: bool,
}

/// Why resolving cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("cannot open the root directory {path}: {source}")]
    Root {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot read the mount table /proc/self/mountinfo: {0}")]
    Mounts(std::io::Error),
}

/// A row with the index of its spec in the slice given to [`Resolver::set`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOfSet {
    pub spec: usize,
    pub key: Key,
    pub grant: Grant,
    pub via: Via,
    pub file: Option<PathBuf>,
    /// [`Row::weak`].
    pub weak: Option<String>,
}

/// All rows of a set: one for each key, at most [`MAX_MATCHERS`].
#[derive(Debug, Clone, Default)]
pub struct Resolution {
    pub rows: Vec<RowOfSet>,
    /// Directories to watch, each once.
    pub watch: Vec<PathBuf>,
    /// [`Resolved::above`], each once.
    pub above: Vec<PathBuf>,
    /// Findings: two specs that mean the same file (a warning, or a note if they request the same);
    /// rows that cannot be guaranteed because any user's program can match them (a warning);
    /// programs that are absent (a note); rows that did not fit (an error).
    pub diagnostics: Vec<Diagnostic>,
}

/// Resolves specs below a root directory (`/`, or a fake one in tests), with one snapshot of the
/// mount table.
pub struct Resolver<D = MountTable> {
    root: Root<D>,
}

impl Resolver<MountTable> {
    /// A resolver with the mount table of this process.
    ///
    /// # Errors
    ///
    /// The root cannot be opened or the mount table cannot be read.
    pub fn new(root: &Path) -> Result<Self, ResolveError> {
        Resolver::with(root, MountTable::read().map_err(ResolveError::Mounts)?)
    }
}

impl<D: DeviceOf> Resolver<D> {
    /// A resolver that finds devices in another way.
    ///
    /// # Errors
    ///
    /// The root cannot be opened.
    pub fn with(root: &Path, devices: D) -> Result<Self, ResolveError> {
        let failed = |source| ResolveError::Root {
            path: root.into(),
            source,
        };
        Ok(Resolver {
            root: Root::open(root, devices).map_err(failed)?,
        })
    }

    /// The rows of each matcher of a spec, in the order of the matchers. A missing program is no
    /// error.
    pub fn spec(&self, spec: &Spec) -> Vec<Resolved> {
        spec.matchers
            .iter()
            .map(|m| self.matcher(m, Grant::all(spec)))
            .collect()
    }

    /// All rows of a set, one for each key. If two specs have the same key, the one whose path has
    /// no stars takes precedence; otherwise the later one.
    pub fn set(&self, specs: &[Spec]) -> Resolution {
        let mut out = Resolution::default();
        let mut by_key: HashMap<Key, usize> = HashMap::new();
        let mut way = Way::default();
        let mut told = HashSet::new();
        for (index, spec) in specs.iter().enumerate() {
            let resolved = self.spec(spec);
            let mut refused = 0;
            for r in &resolved {
                way.names.extend(r.watch.iter().cloned());
                way.moves.extend(r.above.iter().cloned());
                out.diagnostics.extend(findings(spec, r));
                for row in &r.rows {
                    let new = RowOfSet {
                        spec: index,
                        key: row.key,
                        grant: row.grant,
                        via: row.via,
                        file: row.file.clone(),
                        weak: row.weak.clone(),
                    };
                    match by_key.get(&row.key).copied() {
                        Some(at) if out.rows[at].spec == index => {
                            out.rows[at].via = out.rows[at].via.min(row.via);
                        }
                        Some(at) => {
                            let old = &out.rows[at];
                            if told.insert((old.spec, index, row.key)) {
                                out.diagnostics.push(same_thing(specs, old, &new));
                            }
                            if new.via <= old.via {
                                out.rows[at] = new;
                            }
                        }
                        None if out.rows.len() < MAX_MATCHERS => {
                            by_key.insert(row.key, out.rows.len());
                            out.rows.push(new);
                        }
                        None => refused += 1,
                    }
                }
            }
            if refused > 0 {
                let what = format!(
                    "{refused} rows of \"{}\" are over the limit of {MAX_MATCHERS}",
                    spec.name
                );
                out.diagnostics.push(Diagnostic::error(&spec.origin, what));
            }
            if resolved.iter().all(|r| r.absent == Some(Absent::Missing)) {
                let what = format!("\"{}\" is not on this machine", spec.name);
                out.diagnostics.push(Diagnostic::note(&spec.origin, what));
            }
        }
        out.watch = way.names.into_iter().collect();
        out.above = way.moves.into_iter().collect();
        out
    }

    fn matcher(&self, matcher: &Matcher, grant: Grant) -> Resolved {
        let mut out = Resolved {
            matcher: matcher.clone(),
            rows: Vec::new(),
            absent: None,
            watch: Vec::new(),
            above: Vec::new(),
            truncated: false,
        };
        let by_name = |key| Row {
            key,
            grant: grant.without_privileges(),
            via: Via::Exact,
            file: None,
            weak: Some("it is only a name".into()),
        };
        match matcher {
            Matcher::App(id) => out.rows.push(by_name(Key::app(id))),
            Matcher::Command(name) => out.rows.push(by_name(Key::command(name))),
            // Only the kernel creates kernel threads, so this name identifies one as reliably as a
            // file.
            Matcher::KernelThread(name) => {
                out.rows.push(Row {
                    grant,
                    weak: None,
                    ..by_name(Key::kernel_thread(name))
                });
            }
            Matcher::Path(path) => self.files(path, None, grant, &mut out),
            Matcher::Argument { path, argument } => {
                self.files(path, Some(argument), grant, &mut out)
            }
        }
        out
    }

    /// Adds the rows of a path, with or without stars, to `out`.
    fn files(&self, path: &str, argument: Option<&str>, grant: Grant, out: &mut Resolved) {
        let starred = path.contains('*');
        let mut way = Way::default();
        let hits = if starred {
            way = self.root.fixed_way(path);
            self.root.glob(path)
        } else {
            vec![path.to_string()]
        };
        out.truncated = hits.len() > MAX_GLOB_HITS;
        let via = if starred { Via::Glob } else { Via::Exact };
        let mut why = Absent::Missing;
        for hit in hits.into_iter().take(MAX_GLOB_HITS) {
            let there = self.root.way(Path::new(&hit));
            way.names.extend(there.names);
            way.moves.extend(there.moves);
            match self.file(&hit, argument) {
                Ok(rows) => out.rows.extend(rows.into_iter().map(|row| Row {
                    grant: match &row.weak {
                        Some(_) => grant.without_privileges(),
                        None => grant,
                    },
                    via,
                    ..row
                })),
                Err(Absent::Missing) => {}
                Err(unusable) => why = unusable,
            }
        }
        out.watch = way.names.into_iter().collect();
        out.above = way.moves.into_iter().collect();
        if out.rows.is_empty() {
            out.absent = Some(why);
        }
    }

    /// The rows of one file, without what the spec grants.
    fn file(&self, path: &str, argument: Option<&str>) -> Result<Vec<Row>, Absent> {
        let found = self.root.find(path)?;
        let of_argument = |found: &Found, argument: &str| {
            let key = Key::argument(found.inode, found.device, argument);
            let why = format!("it is an argument of {}", found.real.display());
            row_of(found, key, Some(why))
        };
        if let Some(argument) = argument {
            found.executable()?;
            return Ok(vec![of_argument(&found, argument)]);
        }
        let Some(first) = self.root.interpreter(&found)? else {
            found.executable()?;
            let link = Path::new(path);
            let name = link.file_name().and_then(|n| n.to_str());
            if let Some(name) = name.filter(|_| self.root.is_many_commands(link, &found)) {
                let key = Key::named(found.inode, found.device, name);
                let why = format!("it is one name of {}", found.real.display());
                return Ok(vec![row_of(&found, key, Some(why))]);
            }

            let key = match self.root.generation(&found) {
                Some(g) => Key::file_of_generation(found.inode, found.device, g),
                None => Key::file(found.inode, found.device),
            };
            return Ok(vec![row_of(&found, key, found.weak.clone())]);
        };
        let typed = Some(path.to_string());
        let aliases = self.root.way(Path::new(path)).aliases;
        let others = aliases.iter().chain(Some(&found.real));
        let others = others.filter_map(|p| p.to_str().map(str::to_string));
        let last = self.last_interpreter(first)?;
        let mut names: Vec<String> = typed.into_iter().collect();
        for name in others {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names.iter().map(|n| of_argument(&last, n)).collect())
    }

    /// Follows interpreters that are scripts themselves, to the last one.
    fn last_interpreter(&self, first: Interpreter) -> Result<Found, Absent> {
        let mut next = first;
        for _ in 0..script::MAX_DEPTH {
            let candidates = match &next {
                Interpreter::Path(p) => vec![p.clone()],
                Interpreter::Name(n) => script::PATH.iter().map(|d| format!("{d}/{n}")).collect(),
            };
            let Some(found) = candidates.iter().find_map(|p| self.root.find(p).ok()) else {
                let (Interpreter::Path(n) | Interpreter::Name(n)) = &next;
                return Err(Absent::Unusable(format!(
                    "its interpreter \"{}\" is missing",
                    shorten(n)
                )));
            };
            match self.root.interpreter(&found)? {
                None => return found.executable().map(|()| found),
                Some(deeper) => next = deeper,
            }
        }
        Err(Absent::Unusable(
            "its interpreters are scripts without end".into(),
        ))
    }
}

/// The row of a file; [`Resolver::files`] fills in what its spec grants.
fn row_of(found: &Found, key: Key, weak: Option<String>) -> Row {
    Row {
        key,
        grant: Grant::NONE,
        via: Via::Exact,
        file: Some(found.real.clone()),
        weak,
    }
}

/// The diagnostics about a matcher.
fn findings(spec: &Spec, r: &Resolved) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    if let Some(Absent::Unusable(why)) = &r.absent {
        let what = format!(
            "{} of \"{}\" cannot be matched: {why}",
            r.matcher, spec.name
        );
        out.push(Diagnostic::warning(&spec.origin, what).field("path"));
    }
    let named = |row: &&Row| row.key.kind == MatchKind::Named;
    if let Some(file) = r.rows.iter().find(named).and_then(|row| row.file.as_ref()) {
        let what = format!(
            "{} of \"{}\" is one of the commands in {}: only what is executed under this name is matched",
            r.matcher,
            spec.name,
            file.display()
        );
        out.push(Diagnostic::warning(&spec.origin, what).field("path"));
    }
    let mut weak = r.rows.iter().filter_map(|row| row.weak.as_ref());
    if let Some(how) = weak.next().filter(|_| spec.is_privileged()) {
        let what = format!(
            "any user's program can pass for {} of \"{}\" ({how}): so it is revocable, neither guaranteed nor cbs-soft, and in no domain",
            r.matcher, spec.name
        );
        let field = if spec.guaranteed {
            "guaranteed"
        } else if spec.domain.is_some() {
            "domain"
        } else {
            "server"
        };
        out.push(Diagnostic::warning(&spec.origin, what).field(field));
    }
    if r.truncated {
        let what = format!(
            "{} stands for more than {MAX_GLOB_HITS} files; the rest is left out",
            r.matcher
        );
        out.push(Diagnostic::warning(&spec.origin, what).field("path"));
    }
    out
}

fn same_thing(specs: &[Spec], old: &RowOfSet, new: &RowOfSet) -> Diagnostic {
    let (winner, loser) = if new.via <= old.via {
        (new, old)
    } else {
        (old, new)
    };
    let (winner, loser) = (&specs[winner.spec], &specs[loser.spec]);
    let file = new
        .file
        .as_ref()
        .map_or("the same thing".to_string(), |f| f.display().to_string());
    let what = format!(
        "\"{}\" and \"{}\" both mean {file}; the first holds",
        winner.name, loser.name
    );
    // Programs in one file (busybox, uutils) often request the same.
    let severity = if winner.asks_the_same(loser) {
        Severity::Note
    } else {
        Severity::Warning
    };
    Diagnostic::new(severity, &winner.origin, what).also(&loser.origin)
}

/// [`Resolver::new`] and [`Resolver::spec`] in one, for a single spec.
///
/// # Errors
///
/// As [`Resolver::new`].
pub fn resolve(spec: &Spec, root: &Path) -> Result<Vec<Resolved>, ResolveError> {
    Ok(Resolver::new(root)?.spec(spec))
}
