//! Diagnostics: what is wrong, where (file, line, column, field), and what was probably meant.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A place in a file. Lines and columns count from 1, columns in characters; 0 stands for the whole
/// file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    pub file: Arc<Path>,
    pub line: u32,
    pub column: u32,
}

impl Place {
    /// The file as a whole.
    pub fn file(file: &Path) -> Place {
        Place {
            file: file.into(),
            line: 0,
            column: 0,
        }
    }
}

impl Default for Place {
    fn default() -> Self {
        Place::file(Path::new(""))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&defused(&self.file.to_string_lossy()))?;
        match (self.line, self.column) {
            (0, _) => Ok(()),
            (l, 0) => write!(f, ":{l}"),
            (l, c) => write!(f, ":{l}:{c}"),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How severe a finding is. A note is the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, but often intended: a vendor's file is masked, or a program is not installed.
    Note,
    /// Allowed, but probably not intended.
    Warning,
    /// The spec or file was skipped.
    Error,
}

/// One finding. `Display` writes it on one line:
/// `specs/x.toml:12:7: field "cpu": runtime 40ms exceeds period 30ms; did you mean "30ms/40ms"?`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    pub severity: Severity,
    pub place: Place,
    /// The field, as its format calls it ("cpu" in TOML, "C" in spec.tab). None if the finding is
    /// about more than one field.
    pub field: Option<String>,
    pub message: String,
    /// What was probably meant, in a form that can be pasted into the file.
    pub suggestion: Option<String>,
    /// A second place that is involved, such as the definition that this one replaces.
    pub also: Option<Place>,
}

impl Diagnostic {
    pub fn new(severity: Severity, place: &Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity,
            place: place.clone(),
            field: None,
            message: message.into(),
            suggestion: None,
            also: None,
        }
    }

    pub fn error(place: &Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, place, message)
    }

    pub fn warning(place: &Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, place, message)
    }

    pub fn note(place: &Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Note, place, message)
    }

    pub fn field(mut self, field: &str) -> Diagnostic {
        self.field = Some(shorten(field));
        self
    }

    /// Sets what was probably meant. The suggestion contains text of the file. It is left out if it
    /// contains characters that a terminal would interpret, or if it is too long to be helpful.
    pub fn suggest(mut self, suggestion: Option<impl Into<String>>) -> Diagnostic {
        self.suggestion = suggestion.map(Into::into).filter(|s| shorten(s) == *s);
        self
    }

    pub fn also(mut self, place: &Place) -> Diagnostic {
        self.also = Some(place.clone());
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match self.severity {
            Severity::Error => {}
            Severity::Warning => write!(f, "warning: ")?,
            Severity::Note => write!(f, "note: ")?,
        }
        if let Some(field) = &self.field {
            write!(f, "field \"{field}\": ")?;
        }
        write!(f, "{}", self.message)?;
        if let Some(place) = &self.also {
            write!(f, " (see {place})")?;
        }
        match &self.suggestion {
            Some(s) if s.contains('"') => write!(f, "; did you mean {s}?"),
            Some(s) => write!(f, "; did you mean \"{s}\"?"),
            None => Ok(()),
        }
    }
}

/// The candidate that is nearest to `typed`, if it is near enough to be a typing error.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if typed.len() > 64 {
        return None;
    }
    let typed = typed.to_lowercase();
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&typed, &c.to_lowercase()), c))
        .filter(|&(d, c)| d <= 1 + c.len() / 4)
        .min_by_key(|&(d, _)| d)
        .map(|(_, c)| c)
}

/// Text of a file, made safe and short enough for one line of a terminal or log.
pub fn shorten(text: &str) -> String {
    const MAX: usize = 80;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => defused(&text[..end]) + "…",
        None => defused(text),
    }
}

/// `text` with all characters escaped that a terminal would interpret instead of showing.
fn defused(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that change the look of a line but are not visible (text direction, zero width).
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Converts byte offsets in a text to lines and columns.
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    file: Arc<Path>,
}

impl<'a> Lines<'a> {
    pub fn new(file: &Path, text: &'a str) -> Lines<'a> {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(i, _)| i + 1))
            .collect();
        Lines {
            text,
            starts,
            file: file.into(),
        }
    }

    /// The place of a byte offset. An offset beyond the end of the text means its end.
    pub fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|&s| s <= offset) - 1;
        let column = self.text.as_bytes()[self.starts[line]..offset]
            .iter()
            .filter(|&&b| b & 0xc0 != 0x80) // not a continuation byte of UTF-8
            .count();
        Place {
            file: self.file.clone(),
            line: clamp(line),
            column: clamp(column),
        }
    }
}

fn clamp(from_zero: usize) -> u32 {
    u32::try_from(from_zero + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_everything() {
        let place = Place {
            file: Path::new("specs/x.toml").into(),
            line: 12,
            column: 7,
        };
        let d = Diagnostic::error(&place, "runtime 40ms exceeds period 30ms")
            .field("cpu")
            .suggest(Some("30ms/40ms"));
        assert_eq!(
            d.to_string(),
            "specs/x.toml:12:7: field \"cpu\": runtime 40ms exceeds period 30ms; did you mean \"30ms/40ms\"?"
        );
        let w = Diagnostic::warning(&Place::file(Path::new("a")), "odd").also(&place);
        assert_eq!(w.to_string(), "a: warning: odd (see specs/x.toml:12:7)");
    }

    #[test]
    fn places_count_characters_from_one() {
        let l = Lines::new(Path::new("f"), "ä b\n\nxyz");
        let at = |o| (l.place(o).line, l.place(o).column);
        assert_eq!(
            [at(0), at(2), at(4), at(5), at(6), at(8), at(99)],
            [(1, 1), (1, 2), (1, 4), (2, 1), (3, 1), (3, 3), (3, 4)]
        );
    }

    #[test]
    fn nearest_takes_slips_only() {
        assert_eq!(
            nearest("revokable", ["revocable", "inherit"]),
            Some("revocable")
        );
        assert_eq!(
            nearest("kernel_thread", ["kernel-thread"]),
            Some("kernel-thread")
        );
        assert_eq!(nearest("banana", ["revocable", "inherit", "io"]), None);
    }

    #[test]
    fn terminal_escapes_are_defused() {
        assert_eq!(shorten("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shorten(&"x".repeat(500)).chars().count(), 81);
        let d = Diagnostic::error(&Place::file(Path::new("\u{1b}c")), "x").suggest(Some("\u{8}"));
        assert_eq!(d.to_string(), "\\u{1b}c: x");
    }
}
