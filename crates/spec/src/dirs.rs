//! Where specs live, and which file wins.

use crate::diag::Diagnostic;
use crate::model::Spec;
use std::path::{Path, PathBuf};

/// The places that specs come from, the weakest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// The distribution's and aplomb's own: /usr/lib/aplomb/specs.d
    pub vendor: PathBuf,
    /// The administrator's: /etc/aplomb/specs.d
    pub etc: PathBuf,
    /// Redline's one file: /etc/aplomb/spec.tab
    pub tab: PathBuf,
    /// Until the next boot: /run/aplomb/specs.d
    pub runtime: PathBuf,
}

impl Dirs {
    /// The system's own.
    pub fn system() -> Dirs {
        Dirs::under(Path::new("/"))
    }

    /// The same below another root.
    pub fn under(root: &Path) -> Dirs {
        Dirs {
            vendor: root.join("usr/lib/aplomb/specs.d"),
            etc: root.join("etc/aplomb/specs.d"),
            tab: root.join("etc/aplomb/spec.tab"),
            runtime: root.join("run/aplomb/specs.d"),
        }
    }
}

/// Whose files are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Only files and directories owned by root that neither group nor others can write.
    #[default]
    RootOnly,
    /// Anybody's: for tests, and to check a user's own file.
    Anybody,
}

/// How [`load`] reads.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    pub trust: Trust,
}

/// What was loaded. Specs that had an error are left out, and `diagnostics` says so; a daemon that reloads
/// may rather keep its old set if [`SpecSet::has_errors`].
#[derive(Debug, Clone, Default)]
pub struct SpecSet {
    /// Names are unique, and no two specs have the same matcher. In order of increasing strength.
    pub specs: Vec<Spec>,
    pub diagnostics: Vec<Diagnostic>,
}

impl SpecSet {
    /// True if a file or a spec was skipped.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The spec with this name.
    pub fn get(&self, name: &str) -> Option<&Spec> {
        self.specs.iter().find(|s| s.name == name)
    }
}

/// Reads all places. Never fails as a whole: what cannot be read or understood is skipped and reported; a
/// place that does not exist is empty.
pub fn load(_dirs: &Dirs, _options: &LoadOptions) -> SpecSet {
    todo!()
}
