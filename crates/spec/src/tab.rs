//! Redline's line format.

use crate::diag::Diagnostic;
use crate::model::Spec;
use std::path::Path;

/// What a parser gives: the valid specs, and what it found wrong with the others.
pub type Parsed = (Vec<Spec>, Vec<Diagnostic>);

/// Why a spec cannot be written in a format, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotExpressible(pub String);

/// Parses a spec.tab; `file` is only named in origins and diagnostics.
pub fn parse(_file: &Path, _text: &[u8]) -> Parsed {
    todo!()
}

/// Writes a spec as lines, one per matcher, each ending in a newline.
///
/// # Errors
/// It has a matcher by argument, app or command, for which the format has no place.
pub fn print(_spec: &Spec) -> Result<String, NotExpressible> {
    todo!()
}
