//! From matchers to rows of the kernel's map.

use crate::device::{DeviceOf, MountTable};
use crate::diag::Diagnostic;
use crate::key::Key;
use crate::model::{Matcher, Spec};
use std::path::{Path, PathBuf};

/// How a row came about; the smaller, the more specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// A path without a star, or a name.
    Exact,
    /// One of the files that a path with stars stands for.
    Glob,
}

/// One row of the kernel's matcher map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: Key,
    /// `flags` of `struct spec`: the spec's own, and R where anybody's program can match this row.
    pub flags: u32,
    pub via: Via,
    /// The file behind it, all links followed, as seen from the root; None for names.
    pub file: Option<PathBuf>,
}

/// Why a matcher has no row now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absent {
    /// No such file, or nothing that the stars stand for.
    Missing,
    /// There, but cannot be matched, and why.
    Unusable(String),
}

/// What a matcher stands for on this machine now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub matcher: Matcher,
    pub rows: Vec<Row>,
    /// Set if there is no row.
    pub absent: Option<Absent>,
    /// Directories (as seen from the root) in which a change may change the rows: watch them for created,
    /// moved and deleted names.
    pub watch: Vec<PathBuf>,
    /// More files fit than the limit of a star allows; the rest has no row.
    pub truncated: bool,
}

/// Why resolving cannot begin at all.
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
    pub flags: u32,
    pub file: Option<PathBuf>,
}

/// All rows of a set: one per key, at most [`crate::limits::MAX_MATCHERS`].
#[derive(Debug, Clone, Default)]
pub struct Resolution {
    pub rows: Vec<RowOfSet>,
    /// Directories to watch, each once.
    pub watch: Vec<PathBuf>,
    /// Two specs that mean the same file (warning), absent programs (note), what did not fit (error).
    pub diagnostics: Vec<Diagnostic>,
}

/// Resolves specs below a root directory (`/`, or a fake one in tests), with one snapshot of the mounts.
pub struct Resolver<D = MountTable> {
    _d: D,
}

impl Resolver<MountTable> {
    /// With the mount table of this process.
    ///
    /// # Errors
    /// The root cannot be opened or the mount table cannot be read.
    pub fn new(_root: &Path) -> Result<Self, ResolveError> {
        todo!()
    }
}

impl<D: DeviceOf> Resolver<D> {
    /// With another way to find devices.
    ///
    /// # Errors
    /// The root cannot be opened.
    pub fn with(_root: &Path, _devices: D) -> Result<Self, ResolveError> {
        todo!()
    }

    /// What each matcher of a spec stands for, in the matchers' order. Missing programs are no error.
    pub fn spec(&self, _spec: &Spec) -> Vec<Resolved> {
        todo!()
    }

    /// All rows of a set, one per key. Where two specs mean the same thing, the one without stars wins,
    /// then the later one.
    pub fn set(&self, _specs: &[Spec]) -> Resolution {
        todo!()
    }
}

/// [`Resolver::new`] and [`Resolver::spec`] in one, for a single spec.
///
/// # Errors
/// As [`Resolver::new`].
pub fn resolve(spec: &Spec, root: &Path) -> Result<Vec<Resolved>, ResolveError> {
    Ok(Resolver::new(root)?.spec(spec))
}
