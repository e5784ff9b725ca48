//! `aplomb spec check`: parse one file, and say what is wrong or unwise.

use crate::device::DeviceOf;
use crate::diag::Diagnostic;
use crate::model::Spec;
use crate::resolve::Resolver;
use std::path::Path;

/// Outcome of a check.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// The specs that are valid.
    pub specs: Vec<Spec>,
    /// Errors, lints (warnings) and notes, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// True if there is an error; warnings and notes do not count.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Checks one file of either format (`*.toml` is TOML, anything else Redline's form), whoever owns it.
/// With a resolver, programs that are not on this machine are noted.
pub fn check_file<D: DeviceOf>(_path: &Path, _machine: Option<&Resolver<D>>) -> Checked {
    todo!()
}

/// Checks several files as one set: also finds names and matchers that two of them define.
pub fn check_files<D: DeviceOf>(_paths: &[&Path], _machine: Option<&Resolver<D>>) -> Checked {
    todo!()
}

/// Warnings about a valid spec that is probably not what its author wants.
pub fn lint(_spec: &Spec) -> Vec<Diagnostic> {
    todo!()
}
