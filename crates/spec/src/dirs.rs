//! Where specs are, and which file takes precedence: the rules of systemd's unit directories.
//!
//! A file in `/run` masks the file with the same name in `/etc`, which masks the vendor's. An empty
//! file or a link to /dev/null masks as well, and defines nothing. Drop-ins `NAME.toml.d/*.conf` of
//! all three directories change the specs of NAME.toml. The vendor's are applied first, and they
//! mask each other by file name in the same way. Redline's single file /etc/aplomb/spec.tab takes
//! precedence over the files in /etc, and those in /run take precedence over it.

use crate::diag::{nearest, Diagnostic, Place};
use crate::limits::{MAX_FILES, MAX_FILE_BYTES};
use crate::merge::{merge, Candidate};
use crate::model::Spec;
use crate::raw::Raw;
use crate::trust::{refusal, untrusted, Entry, Role};
use crate::{tab, toml_format};
use rustix::fs::{FileType, Mode, OFlags};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The places from which specs are read, in order of increasing precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// Of the distribution and of aplomb: PREFIX/lib/aplomb/specs.d, where PREFIX is /usr by
    /// default.
    pub vendor: PathBuf,
    /// Of the administrator: /etc/aplomb/specs.d.
    pub etc: PathBuf,
    /// Redline's single file: /etc/aplomb/spec.tab.
    pub tab: PathBuf,
    /// Valid until the next boot: /run/aplomb/specs.d.
    pub runtime: PathBuf,
}

impl Dirs {
    /// The directories of this system, for the running program: see [`Dirs::for_program`].
    pub fn system() -> Dirs {
        Dirs::for_program(std::env::current_exe().ok().as_deref())
    }

    /// The directories of this system. A program that is installed as PREFIX/bin/NAME reads the
    /// specs that were installed with it, in PREFIX/lib/aplomb/specs.d. If that directory does not
    /// exist, the program reads those below /usr.
    pub fn for_program(program: Option<&Path>) -> Dirs {
        let mut dirs = Dirs::under(Path::new("/"));
        let own = program
            .and_then(Path::parent)
            .filter(|folder| folder.file_name() == Some("bin".as_ref()))
            .and_then(Path::parent)
            .map(|prefix| prefix.join("lib/aplomb/specs.d"));
        if let Some(own) = own.filter(|own| own.is_dir()) {
            dirs.vendor = own;
        }
        dirs
    }

    /// The same directories below another root.
    pub fn under(root: &Path) -> Dirs {
        Dirs {
            vendor: root.join("usr/lib/aplomb/specs.d"),
            etc: root.join("etc/aplomb/specs.d"),
            tab: root.join("etc/aplomb/spec.tab"),
            runtime: root.join("run/aplomb/specs.d"),
        }
    }
}

/// The owners whose files are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Only files that root alone can change: root owns the file and all directories on its way,
    /// and neither group nor others can write them. Others are refused with an error.
    #[default]
    RootOnly,
    /// Files of any user. For tests, and to check a user's own file.
    AnyOwner,
}

/// Options of [`load`].
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    pub trust: Trust,
}

/// The result of [`load`]. A spec with an error is left out, and `diagnostics` says why.
#[derive(Debug, Clone, Default)]
pub struct SpecSet {
    /// The specs, in order of increasing precedence. Names are unique, and so are matchers.
    pub specs: Vec<Spec>,
    pub diagnostics: Vec<Diagnostic>,
}

impl SpecSet {
    /// Was a file or a spec skipped?
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The spec with this name.
    pub fn get(&self, name: &str) -> Option<&Spec> {
        self.specs.iter().find(|s| s.name == name)
    }
}

/// For each file name: the layer of the file that takes precedence (0 vendor, 1 etc, 2 runtime),
/// and its path.
type Winners = BTreeMap<String, (usize, PathBuf)>;

/// Reads all places. It never fails as a whole: a file or spec that cannot be read or parsed is
/// skipped and reported. A place that does not exist counts as empty.
pub fn load(dirs: &Dirs, options: &LoadOptions) -> SpecSet {
    let mut loader = Loader {
        trust: options.trust,
        diags: Vec::new(),
    };
    let (mut files, mut dropins) = (Winners::new(), BTreeMap::<String, Winners>::new());
    for (layer, dir) in [&dirs.vendor, &dirs.etc, &dirs.runtime]
        .into_iter()
        .enumerate()
    {
        for name in loader.names(dir) {
            let path = dir.join(&name);
            if name.ends_with(".toml") {
                loader.put(&mut files, name, layer, path);
            } else if let Some(of) = name.strip_suffix(".d").filter(|n| n.ends_with(".toml")) {
                let conf = loader
                    .names(&path)
                    .into_iter()
                    .filter(|n| n.ends_with(".conf"));
                let of = dropins.entry(of.to_string()).or_default();
                conf.collect::<Vec<_>>().into_iter().for_each(|n| {
                    let file = path.join(&n);
                    loader.put(of, n, layer, file);
                });
            } else if name.ends_with(".conf") || name.ends_with(".tab") {
                let what = "not read: specs are in *.toml, drop-ins in NAME.toml.d/*.conf";
                loader
                    .diags
                    .push(Diagnostic::warning(&Place::file(&path), what));
            }
        }
    }
    let mut by_layer: [Vec<Candidate>; 3] = Default::default();
    for (name, (layer, path)) in &files {
        let over = dropins.remove(name).unwrap_or_default();
        by_layer[*layer].extend(loader.toml(path, &over));
    }
    for over in dropins.into_values() {
        for (_, path) in over.into_values() {
            let what = "this drop-in has no effect: there is no such file of specs";
            loader
                .diags
                .push(Diagnostic::warning(&Place::file(&path), what));
        }
    }
    let [mut all, etc, runtime] = by_layer;
    all.extend(etc);
    all.extend(loader.tab(&dirs.tab));
    all.extend(runtime);
    let (specs, merged) = merge(all);
    loader.diags.extend(merged);
    SpecSet {
        specs,
        diagnostics: loader.diags,
    }
}

struct Loader {
    trust: Trust,
    diags: Vec<Diagnostic>,
}

impl Loader {
    /// Names of the files in a directory, sorted. Empty if the directory does not exist.
    fn names(&mut self, dir: &Path) -> Vec<String> {
        let fail = |what: String| Diagnostic::error(&Place::file(dir), what);
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(e) => {
                self.diags
                    .push(fail(format!("cannot read the directory: {e}")));
                return Vec::new();
            }
        };
        if let Some(why) = self.untrusted(dir) {
            let what = format!("nothing is read from here: {why}");
            self.diags.push(fail(what));
            return Vec::new();
        }
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|n| !n.starts_with('.'))
            .take(MAX_FILES + 1)
            .collect();
        if names.len() > MAX_FILES {
            self.diags.push(fail(format!(
                "nothing is read from here: more than {MAX_FILES} files"
            )));
            return Vec::new();
        }
        names.sort();
        names
    }

    /// Adds a file. A file of a later layer replaces the one with the same name, unless it is
    /// refused.
    fn put(&mut self, winners: &mut Winners, name: String, layer: usize, path: PathBuf) {
        if let Some(why) = self.untrusted(&path) {
            let what = format!("the file is refused: {why}");
            self.diags
                .push(Diagnostic::error(&Place::file(&path), what));
            return;
        }
        if let Some((_, old)) = winners.get(&name) {
            let what = format!("masks {}", old.display());
            self.diags.push(Diagnostic::note(&Place::file(&path), what));
        }
        winners.insert(name, (layer, path));
    }

    /// Why a file or directory is refused. None: it is accepted.
    fn untrusted(&self, path: &Path) -> Option<String> {
        match self.trust {
            Trust::AnyOwner => None,
            Trust::RootOnly => match std::path::absolute(path) {
                Ok(path) => untrusted(&path, Entry::at),
                Err(e) => Some(e.to_string()),
            },
        }
    }

    fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        // Again for the file that was opened, because root may have replaced it meanwhile.
        let opened = |uid, mode| match self.trust {
            Trust::AnyOwner => None,
            Trust::RootOnly => refusal(Role::Last, uid, mode),
        };
        match read_file(path, opened) {
            Ok(bytes) => bytes,
            Err(what) => {
                self.diags.push(Diagnostic::error(&Place::file(path), what));
                None
            }
        }
    }

    fn toml(&mut self, path: &Path, over: &Winners) -> Vec<Candidate> {
        let Some(text) = self.read(path) else {
            return Vec::new();
        };
        let (mut raws, mut diags) = toml_format::parse_raw(path, &text);
        let mut dropins: Vec<_> = over.values().collect();
        dropins.sort(); // by layer, then by name
        for (_, conf) in dropins {
            let Some(text) = self.read(conf) else {
                continue;
            };
            let (changes, bad) = toml_format::parse_raw(conf, &text);
            diags.extend(bad);
            changes
                .into_iter()
                .for_each(|c| diags.extend(overlay(&mut raws, c, path)));
        }
        let mut out = Vec::new();
        for raw in raws {
            match raw.build() {
                Ok((spec, warnings)) => {
                    out.push(Candidate {
                        spec,
                        nameless: false,
                    });
                    diags.extend(warnings);
                }
                Err(bad) => diags.extend(bad),
            }
        }
        self.diags.extend(toml_format::sorted(diags, path));
        out
    }

    fn tab(&mut self, path: &Path) -> Vec<Candidate> {
        if matches!(rustix::fs::stat(path), Err(rustix::io::Errno::NOENT)) {
            return Vec::new();
        }
        if let Some(why) = self.untrusted(path) {
            let what = format!("the file is refused: {why}");
            self.diags.push(Diagnostic::error(&Place::file(path), what));
            return Vec::new();
        }
        let Some(text) = self.read(path) else {
            return Vec::new();
        };
        let (specs, diags) = tab::parse(path, &text);
        self.diags.extend(diags);
        specs
            .into_iter()
            .map(|spec| Candidate {
                spec,
                nameless: true,
            })
            .collect()
    }
}

/// Applies one table of a drop-in to the spec that it names.
fn overlay(raws: &mut [Raw], change: Raw, base: &Path) -> Option<Diagnostic> {
    let Some(name) = change.name.clone() else {
        let what = "a drop-in names the spec that it changes";
        return Some(Diagnostic::error(&change.place, what).field("name"));
    };
    let named = |r: &Raw| r.name.as_ref().is_some_and(|n| n.value == name.value);
    if let Some(raw) = raws.iter_mut().find(|r| named(r)) {
        raw.overlay(change);
        return None;
    }
    let known = raws
        .iter()
        .filter_map(|r| r.name.as_ref())
        .map(|n| n.value.as_str());
    let what = format!("{} has no spec \"{}\"", base.display(), name.value);
    Some(
        Diagnostic::error(&name.place, what)
            .field("name")
            .suggest(nearest(&name.value, known)),
    )
}

/// The bytes of a spec file. None if the file is a mask (empty, or /dev/null).
///
/// # Errors
///
/// A message, if the file cannot be read, is no regular file, is longer than [`MAX_FILE_BYTES`], or
/// is refused by `refusal`, which is given its owner and mode.
pub(crate) fn read_file(
    path: &Path,
    refusal: impl Fn(u32, u32) -> Option<&'static str>,
) -> Result<Option<Vec<u8>>, String> {
    // Without NONBLOCK, opening a FIFO would block forever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let failed = |e: std::io::Error| format!("cannot read the file: {e}");
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    let st = rustix::fs::fstat(&fd).map_err(|e| failed(e.into()))?;
    let kind = FileType::from_raw_mode(st.st_mode);
    if kind == FileType::CharacterDevice && st.st_rdev == rustix::fs::makedev(1, 3) {
        return Ok(None);
    }
    if kind != FileType::RegularFile {
        return Err("this is no file".into());
    }
    if let Some(why) = refusal(st.st_uid, st.st_mode) {
        return Err(format!("the file is refused: {why}"));
    }
    let mut bytes = Vec::new();
    std::fs::File::from(fd)
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("the file is longer than {MAX_FILE_BYTES} bytes"));
    }
    Ok(Some(bytes).filter(|b| !b.is_empty()))
}
