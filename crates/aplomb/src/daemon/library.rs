//! The specs in force, the files that they mean on this machine now, and the numbers by which the
//! kernel side names them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aplomb_kernel::{flags, Matcher, SpecRow};
use aplomb_memory::working_set::DEFAULT_PI;
use aplomb_spec::{
    load, Diagnostic, Dirs, Grant, LoadOptions, Resolution, ResolveError, Resolver, Severity, Spec,
    SpecSet,
};

use super::watch::Wanted;
use crate::config::percent;
use crate::protocol::{SpecLine, RUN_SPEC};
use tracing::{error, warn};

/// Number of the spec that stands for reservations by request. The numbers of others follow.
pub const RUN_ID: u32 = 1;

/// Errors in specs that are reported one by one. The rest is only counted.
pub const MAX_REPORT: usize = aplomb_spec::limits::MAX_DIAGNOSTICS;

/// The places of the specs.
#[derive(Debug, Clone)]
pub struct Sources {
    pub dirs: Dirs,
    pub options: LoadOptions,
    /// The folder that stands for "/": another one in tests.
    pub root: PathBuf,
}

/// The specs in force and their rows.
#[derive(Debug)]
pub struct Library {
    sources: Sources,
    specs: Vec<Spec>,
    resolution: Resolution,
    /// The errors of specs that were skipped when the files were read.
    errors: Vec<Diagnostic>,
    /// Names by number, from [`RUN_ID`] on. The list only grows, so that the numbers in the history
    /// stay valid.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Library {
    /// Read and resolve all specs.
    ///
    /// # Errors
    /// The mount table cannot be read. Errors in specs are in [`Library::errors`] instead.
    pub fn open(sources: Sources) -> Result<Self, ResolveError> {
        let mut library = Self {
            sources,
            specs: Vec::new(),
            resolution: Resolution::default(),
            errors: Vec::new(),
            names: vec![RUN_SPEC.into()],
            numbers: HashMap::new(),
        };
        library.reload()?;
        Ok(library)
    }

    /// Read and resolve everything again. A spec with an error is reported and skipped.
    ///
    /// # Errors
    /// As [`Library::open`]. The library is unchanged then.
    pub fn reload(&mut self) -> Result<(), ResolveError> {
        let SpecSet { specs, diagnostics } = load(&self.sources.dirs, &self.sources.options);
        let resolution = self.resolve(&specs)?;
        let (errors, others): (Vec<_>, Vec<_>) =
            diagnostics.into_iter().partition(Diagnostic::is_error);
        let warnings = others.iter().chain(&resolution.diagnostics);
        for warning in warnings.filter(|d| d.severity == Severity::Warning) {
            warn!("{warning}");
        }
        for spec in &specs {
            if !self.numbers.contains_key(&spec.name) {
                self.names.push(spec.name.clone());
                self.numbers
                    .insert(spec.name.clone(), RUN_ID + self.names.len() as u32 - 1);
            }
        }
        (self.specs, self.resolution, self.errors) = (specs, resolution, errors);
        for line in self.error_report() {
            error!("{line}");
        }
        Ok(())
    }

    /// Find the files of the specs again. Returns true if the rows changed.
    ///
    /// # Errors
    /// The mount table cannot be read. The library is unchanged then.
    pub fn resolve_again(&mut self) -> Result<bool, ResolveError> {
        let new = self.resolve(&self.specs)?;
        let changed = new.rows != self.resolution.rows;
        self.resolution = new;
        Ok(changed)
    }

    fn resolve(&self, specs: &[Spec]) -> Result<Resolution, ResolveError> {
        Ok(Resolver::new(&self.sources.root)?.set(specs))
    }

    /// The errors in the files of specs. Each spec with an error was skipped.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        let resolving = self.resolution.diagnostics.iter();
        self.errors.iter().chain(resolving.filter(|d| d.is_error()))
    }

    /// [`Library::errors`] as lines of text: at most [`MAX_REPORT`], and one that counts the rest.
    pub fn error_report(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .errors()
            .take(MAX_REPORT)
            .map(|d| format!("skipped: {d}"))
            .collect();
        let rest = self.errors().count() - lines.len();
        if rest > 0 {
            lines.push(format!("skipped: {rest} more errors in specs"));
        }
        lines
    }

    /// "102 specs, 140 matchers; 1 error".
    pub fn summary(&self) -> String {
        let (specs, rows) = (self.len(), self.row_count());
        let errors = match self.errors().count() {
            0 => String::new(),
            1 => "; 1 error: the spec that has it is skipped".into(),
            n => format!("; {n} errors: the specs that have them are skipped"),
        };
        format!("{specs} specs, {rows} matchers{errors}")
    }

    /// The rows for the kernel's table.
    pub fn rows(&self) -> Vec<(Matcher, SpecRow)> {
        let rows = self.resolution.rows.iter().filter_map(|row| {
            let spec = self.specs.get(row.spec)?;
            let kernel = SpecRow {
                runtime_ns: spec.runtime_ns,
                period_ns: spec.period_ns,
                id: *self.numbers.get(&spec.name)?,
                flags: row.grant.flags,
                protect_s: spec.protect_s.unwrap_or(DEFAULT_PI.as_secs() as u32),
                io_priority: spec.io.map_or(aplomb_spec::IO_AUTO, u32::from),
                policy: row.grant.server,
            };
            Some((Matcher(row.key.words()), kernel))
        });
        rows.collect()
    }

    /// Name of the spec with a number. Empty if there never was one.
    pub fn name(&self, id: u32) -> &str {
        let index = id.checked_sub(RUN_ID).map(|i| i as usize);
        index
            .and_then(|i| self.names.get(i))
            .map_or("", String::as_str)
    }

    /// The domain into which a process of the spec with this number is moved. Also None if any
    /// user's program could match the spec, because such a program must not get a domain's share.
    pub fn domain_of(&self, id: u32) -> Option<&str> {
        let name = self.name(id);
        let index = self.specs.iter().position(|s| s.name == name)?;
        let domain = self.specs[index].domain.as_deref();
        domain.filter(|_| self.grants(id, |g| g.domain))
    }

    /// True if only the files that the spec with this number names are matched: no other program
    /// can pass for them.
    pub fn is_exact(&self, id: u32) -> bool {
        self.grants(id, |g| g.exact)
    }

    /// True if the spec with this number has a flag, however a program is matched.
    pub fn has(&self, id: u32, flag: u32) -> bool {
        self.grants(id, |g| g.flags & flag != 0)
    }

    /// True if all rows of the spec with this number grant it.
    fn grants(&self, id: u32, granted: impl Fn(&Grant) -> bool) -> bool {
        let name = self.name(id);
        let Some(index) = self.specs.iter().position(|s| s.name == name) else {
            return false;
        };
        let mut rows = self.resolution.rows.iter().filter(|r| r.spec == index);
        rows.all(|r| granted(&r.grant))
    }

    /// True if a program of the spec with this number may lose its reservation, however it was
    /// matched.
    pub fn is_revocable(&self, id: u32) -> bool {
        self.grants(id, |g| {
            g.flags & flags::REVOCABLE != 0 && g.flags & flags::GUARANTEED == 0
        })
    }

    /// The memory protection period of the spec with this number: the longest if several specs have
    /// its name.
    pub fn protect_of(&self, id: u32) -> Duration {
        let name = self.name(id);
        let named = self.specs.iter().filter(|s| s.name == name);
        let longest = named.filter_map(|s| s.protect_s).max();
        longest.map_or(DEFAULT_PI, |s| Duration::from_secs(s.into()))
    }

    /// The private reserve of the spec with this number, bytes: the greatest if several specs have
    /// its name.
    pub fn memory_of(&self, id: u32) -> Option<u64> {
        let name = self.name(id);
        let named = self.specs.iter().filter(|s| s.name == name);
        named.filter_map(|s| s.memory).max()
    }

    /// Warn of guaranteed specs that need more than `r_max_ppm`, the most that a CPU may promise.
    /// They are never admitted.
    pub fn warn_of_unreachable_guarantees(&self, r_max_ppm: u64) {
        for spec in &self.specs {
            if spec.guaranteed && spec.bandwidth_ppm() > r_max_ppm {
                let (share, most) = (percent(spec.bandwidth_ppm()), percent(r_max_ppm));
                let what = format!(
                    "{share} of a CPU will not be guaranteed: at most {most} may be (r-max)"
                );
                warn!("{}", Diagnostic::warning(&spec.origin, what).field("cpu"));
            }
        }
    }

    /// Number of specs.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.resolution.rows.len()
    }

    /// All specs, with the files that they mean now.
    pub fn lines(&self) -> Vec<SpecLine> {
        let mut lines: Vec<SpecLine> = self
            .specs
            .iter()
            .map(|spec| SpecLine {
                spec: spec.clone(),
                files: Vec::new(),
                rows: 0,
                weak: Vec::new(),
            })
            .collect();
        for row in &self.resolution.rows {
            if let Some(line) = lines.get_mut(row.spec) {
                line.rows += 1;
                line.files
                    .extend(row.file.as_ref().map(|f| f.display().to_string()));
                let privileged = line.spec.is_privileged();
                line.weak.extend(row.weak.clone().filter(|_| privileged));
            }
        }
        for line in &mut lines {
            line.files.sort();
            line.files.dedup();
            line.weak.sort();
            line.weak.dedup();
        }
        lines
    }

    /// The directories in which a change may change the specs or which files they mean.
    pub fn wanted(&self) -> Wanted {
        let (specs, awaited) = self.spec_dirs();
        Wanted {
            specs,
            awaited,
            programs: self.below_root(&self.resolution.watch),
            above: self.below_root(&self.resolution.above),
        }
    }

    fn below_root(&self, dirs: &[PathBuf]) -> BTreeSet<PathBuf> {
        let strip = |d: &Path| {
            d.strip_prefix("/")
                .map(Path::to_path_buf)
                .unwrap_or_else(|_| d.to_path_buf())
        };
        dirs.iter()
            .map(|d| self.sources.root.join(strip(d)))
            .collect()
    }

    /// The directories of the specs and of their drop-ins; and for each one that is missing, what
    /// has to be created first on the way to it.
    fn spec_dirs(&self) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
        let dirs = &self.sources.dirs;
        let (mut there, mut awaited) = (BTreeSet::new(), BTreeSet::new());
        for place in [
            Some(dirs.vendor.as_path()),
            Some(&dirs.etc),
            Some(&dirs.runtime),
            dirs.tab.parent(),
        ] {
            let Some(place) = place else { continue };
            if !place.is_dir() {
                let missing = place.ancestors().take_while(|a| !a.is_dir()).last();
                awaited.extend(missing.map(Path::to_path_buf));
                continue;
            }
            there.insert(place.to_path_buf());
            let inside = std::fs::read_dir(place).into_iter().flatten().flatten();
            there.extend(
                inside
                    .map(|e| e.path())
                    .filter(|p| p.extension() == Some("d".as_ref()) && p.is_dir()),
            );
        }
        (there, awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::Root;

    #[test]
    fn missing_directories_are_awaited() {
        let root = Root::new();
        root.write("run/aplomb/knobs", "the daemon's own");
        let wanted = Library::open(root.sources()).unwrap().wanted();
        let specs = BTreeSet::from([root.path("usr/lib/aplomb/specs.d")]);
        let awaited = BTreeSet::from([root.path("etc"), root.path("run/aplomb/specs.d")]);
        assert_eq!((wanted.specs, wanted.awaited), (specs, awaited));
    }
}
