//! Redline's line format (section 3): `path:type:C:T:flags:pi:io`, one program a line.
//!
//!  - path: absolute; `*` stands for any characters except `/`. Or `[kswapd0]`, `[kswapd*]` for
//!    kernel threads
//!  - type: `iact` (default) or `be`, in any case
//!  - C, T: runtime and period in ms, decimals allowed; `-` for best-effort
//!  - flags: the letters I (inheritable), R (revocable), P (applies only when an interactive task
//!    starts the program), G (guaranteed; not in Redline), or `-`
//!  - pi: memory protection period in s
//!  - io: I/O priority, 0 to 7; pi and io may be omitted
//!
//! `-` or an empty field stands for the default. `#` at the start of a line or after a blank begins
//! a comment. `\:`, `\#`, `\\` and `\ ` stand for the second character itself. The format has no
//! names: a spec gets the last part of its path as its name, followed by `-2`, `-3`, … if that is
//! taken.

use crate::diag::{nearest, shorten, Diagnostic, Lines, Place};
use crate::duration::{decimal, format_decimal};
use crate::fields;
use crate::limits::*;
use crate::model::{Class, Launch, Matcher, Spec};
use crate::raw::{Field, Protect, Raw};
use crate::size::format_size;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The result of a parser: the valid specs, and what is wrong with the others.
pub type Parsed = (Vec<Spec>, Vec<Diagnostic>);

/// Why a spec cannot be written in this format, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotExpressible(pub String);

const FIELDS: [&str; 7] = ["path", "type", "C", "T", "flags", "pi", "io"];
const FLAGS: &str = "IRPG";
const MS: u64 = 1_000_000;

/// Parses a spec.tab. `file` is not read: it is only named in origins and diagnostics.
///
/// A line with an error gives no spec; the other lines do.
pub fn parse(file: &Path, text: &[u8]) -> Parsed {
    let text = match decode(file, text) {
        Ok(text) => text,
        Err(d) => return (Vec::new(), vec![d]),
    };
    let lines = Lines::new(file, text);
    let (mut specs, mut diags) = (Vec::new(), Vec::new());
    let mut names = Names::default();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        match parse_line(line, offset, &lines) {
            Ok(None) => {}
            Ok(Some(raw)) => match raw.build() {
                Ok((mut spec, warnings)) => {
                    spec.name = names.take(&spec.name);
                    specs.push(spec);
                    diags.extend(warnings);
                }
                Err(bad) => diags.extend(bad.into_iter().map(in_our_terms)),
            },
            Err(bad) => diags.push(bad),
        }
        offset += line.len();
    }
    (specs, capped(diags, file))
}

/// Writes a spec as lines: one for each matcher, each with a newline at its end.
///
/// # Errors
///
/// The spec has a matcher by argument, app or command, a server policy, a private reserve of
/// memory, or a domain. Redline's lines have no field for these, and other readers of the format
/// would not know a new one.
pub fn print(spec: &Spec) -> Result<String, NotExpressible> {
    let (class, cpu) = match spec.class {
        Class::Interactive => (
            "iact",
            format!(
                "{}:{}",
                format_decimal(spec.runtime_ns, MS),
                format_decimal(spec.period_ns, MS)
            ),
        ),
        Class::BestEffort => ("be", "-:-".to_string()),
    };
    if let Some(server) = spec.server {
        let what = format!("spec.tab has no place for server \"{server}\"");
        return Err(NotExpressible(what));
    }
    if let Some(bytes) = spec.memory {
        let size = format_size(bytes);
        let what = format!("spec.tab has no place for memory \"{size}\"");
        return Err(NotExpressible(what));
    }
    if let Some(domain) = &spec.domain {
        let what = format!("spec.tab has no place for domain \"{domain}\"");
        return Err(NotExpressible(what));
    }
    let mut flags = String::new();
    for (set, letter) in [
        (spec.inherit, 'I'),
        (spec.revocable, 'R'),
        (spec.launch == Launch::Interactive, 'P'),
        (spec.guaranteed, 'G'),
    ] {
        if set {
            flags.push(letter);
        }
    }
    if flags.is_empty() {
        flags.push('-');
    }
    let number = |n: Option<u32>| n.map_or("-".to_string(), |n| n.to_string());
    let (pi, io) = (number(spec.protect_s), number(spec.io.map(u32::from)));
    let mut out = String::new();
    for matcher in &spec.matchers {
        let who = match matcher {
            Matcher::Path(p) => escape(p),
            Matcher::KernelThread(k) => escape(&format!("[{k}]")),
            other => return Err(NotExpressible(format!("spec.tab has no place for {other}"))),
        };
        out.push_str(&format!("{who}:{class}:{cpu}:{flags}:{pi}:{io}\n"));
    }
    Ok(out)
}

/// Translates a diagnostic of [`Raw::build`] to this format's names of the fields.
fn in_our_terms(mut d: Diagnostic) -> Diagnostic {
    let ours = match d.field.as_deref() {
        Some("guaranteed" | "revocable") => "flags",
        Some("cpu") => "C",
        _ => return d,
    };
    d.suggestion = None; // it is in TOML
    d.field(ours)
}

/// The file's bytes as text.
///
/// # Errors
///
/// The bytes are not UTF-8. The diagnostic has the place of the first wrong byte.
pub(crate) fn decode<'a>(file: &Path, text: &'a [u8]) -> Result<&'a str, Diagnostic> {
    std::str::from_utf8(text).map_err(|e| {
        let good = std::str::from_utf8(&text[..e.valid_up_to()]).unwrap_or_default();
        Diagnostic::error(
            &Lines::new(file, good).place(good.len()),
            "this is not UTF-8 text",
        )
    })
}

/// Keeps at most [`MAX_DIAGNOSTICS`] diagnostics, and adds a last one that counts the rest.
pub(crate) fn capped(mut diags: Vec<Diagnostic>, file: &Path) -> Vec<Diagnostic> {
    if diags.len() > MAX_DIAGNOSTICS {
        let rest = diags.split_off(MAX_DIAGNOSTICS);
        let severity = rest
            .iter()
            .map(|d| d.severity)
            .max()
            .unwrap_or(crate::Severity::Note);
        let what = format!("{} more findings are not shown", rest.len());
        diags.push(Diagnostic::new(severity, &Place::file(file), what));
    }
    diags
}

/// Gives each spec a unique name.
#[derive(Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    /// For each name: the last number that was tried, so that many specs with one name cost little
    /// time.
    next: HashMap<String, u32>,
}

impl Names {
    /// Returns `name` if it is not taken, otherwise `name` with the first free one of `-2`, `-3`, …
    pub(crate) fn take(&mut self, name: &str) -> String {
        let mut out = name.to_string();
        while !self.taken.insert(out.clone()) {
            let n = self.next.entry(name.to_string()).or_insert(1);
            *n += 1;
            let tail = format!("-{n}");
            let keep = name.len().min(MAX_NAME_BYTES - tail.len()); // names are ASCII
            out = format!("{}{tail}", &name[..keep]);
        }
        out
    }
}

/// The fields of one line, and where they are.
struct Line<'a> {
    fields: Vec<(String, usize)>,
    /// Offset of the line in the file.
    start: usize,
    /// Length of the line without the blanks at its end, bytes.
    len: usize,
    lines: &'a Lines<'a>,
}

fn parse_line(line: &str, start: usize, lines: &Lines) -> Result<Option<Raw>, Diagnostic> {
    let fields =
        split(line).map_err(|(at, what)| Diagnostic::error(&lines.place(start + at), what))?;
    let Some(fields) = fields else {
        return Ok(None);
    };
    Line {
        fields,
        start,
        len: line.trim_end().len(),
        lines,
    }
    .raw()
    .map(Some)
}

impl Line<'_> {
    fn raw(&self) -> Result<Raw, Diagnostic> {
        let n = self.fields.len();
        if n > FIELDS.len() {
            let what = format!(
                "{n} fields, there are {}; a \":\" in a path is written \"\\:\"",
                FIELDS.len()
            );
            return Err(Diagnostic::error(&self.place(FIELDS.len()), what));
        }
        if n < 5 {
            let what = format!(
                "the line ends before this field; it has the form {}",
                FIELDS.join(":")
            );
            return Err(self.bad(n, what, None));
        }
        let matcher = self.matcher()?;
        let class = self.class()?;
        let [inherit, revocable, parent, guaranteed] = self.flags()?;
        let launch = if parent {
            Launch::Interactive
        } else {
            Launch::Any
        };
        let io = self
            .whole(6, 0..=u32::from(MAX_IO))?
            .and_then(|n| u8::try_from(n).ok());
        let mut raw = Raw {
            place: self.place(0),
            name: self.field(0, fields::name_for(&matcher)),
            class: self.field(1, class),
            cpu: self.cpu(class)?.and_then(|pair| self.field(2, pair)),
            inherit: self.field(4, inherit),
            revocable: self.field(4, revocable),
            guaranteed: self.field(4, guaranteed),
            launch: self.field(4, launch),
            protect: self.field(5, self.whole(5, 1..=MAX_PROTECT_S)?.map(Protect::Seconds)),
            io: self.field(6, io),
            ..Raw::default()
        };
        match matcher {
            Matcher::KernelThread(k) => raw.kernel_thread = self.field(0, vec![k]),
            _ => raw.path = self.field(0, vec![self.text(0).to_string()]),
        }
        Ok(raw)
    }

    fn text(&self, i: usize) -> &str {
        self.fields.get(i).map_or("", |f| &f.0)
    }

    /// The field's text. None if it stands for the default.
    fn given(&self, i: usize) -> Option<&str> {
        Some(self.text(i)).filter(|t| !matches!(*t, "" | "-"))
    }

    fn place(&self, i: usize) -> Place {
        self.lines
            .place(self.start + self.fields.get(i).map_or(self.len, |f| f.1))
    }

    fn field<T>(&self, i: usize, value: T) -> Option<Field<T>> {
        Some(Field {
            value,
            place: self.place(i),
        })
    }

    fn bad(&self, i: usize, message: impl Into<String>, hint: Option<String>) -> Diagnostic {
        Diagnostic::error(&self.place(i), message)
            .field(FIELDS[i])
            .suggest(hint)
    }

    fn matcher(&self) -> Result<Matcher, Diagnostic> {
        let who = self.text(0);
        let Some(rest) = who.strip_prefix('[') else {
            fields::check_path(who).map_err(|p| self.bad(0, p.message, p.suggestion))?;
            return Ok(Matcher::Path(who.to_string()));
        };
        let Some(name) = rest.strip_suffix(']') else {
            return Err(self.bad(0, "a kernel thread's name ends in \"]\"", None));
        };
        fields::check_kernel_thread(name)
            .map_err(|p| self.bad(0, p.message, p.suggestion.map(|s| format!("[{s}]"))))?;
        Ok(Matcher::KernelThread(name.to_string()))
    }

    fn class(&self) -> Result<Class, Diagnostic> {
        match self.given(1).map(str::to_ascii_lowercase).as_deref() {
            None | Some("iact") => Ok(Class::Interactive),
            Some("be") => Ok(Class::BestEffort),
            Some(other) => {
                let hint = match nearest(other, ["iact", "interactive", "be", "best-effort"]) {
                    Some("interactive" | "iact") => Some("iact".to_string()),
                    Some(_) => Some("be".to_string()),
                    None => None,
                };
                let what = format!("\"{}\" is neither iact nor be", shorten(self.text(1)));
                Err(self.bad(1, what, hint))
            }
        }
    }

    /// C and T in ns. None for a best-effort program without C and T.
    fn cpu(&self, class: Class) -> Result<Option<(u64, u64)>, Diagnostic> {
        match (self.ms(2)?, self.ms(3)?) {
            (Some(c), Some(t)) => {
                let write = |c, t| format!("{}:{}", format_decimal(c, MS), format_decimal(t, MS));
                fields::check_cpu(c, t, write).map_err(|p| self.bad(2, p.message, p.suggestion))?;
                Ok(Some((c, t)))
            }
            (None, None) if class == Class::BestEffort => Ok(None),
            (c, _) => {
                let missing = if c.is_none() { 2 } else { 3 };
                Err(self.bad(missing, "a runtime and a period are needed, in ms", None))
            }
        }
    }

    fn ms(&self, i: usize) -> Result<Option<u64>, Diagnostic> {
        let Some(text) = self.given(i) else {
            return Ok(None);
        };
        decimal(text, MS)
            .map(Some)
            .map_err(|message| match crate::parse_duration(text) {
                Ok(ns) => self.bad(
                    i,
                    "milliseconds are written without a unit",
                    Some(format_decimal(ns, MS)),
                ),
                Err(_) => self.bad(i, message, None),
            })
    }

    /// Whether each flag of [`FLAGS`] is given, in its order.
    fn flags(&self) -> Result<[bool; 4], Diagnostic> {
        let mut flags = [false; 4];
        for letter in self.given(4).unwrap_or_default().chars() {
            match FLAGS.find(letter) {
                Some(n) => {
                    if std::mem::replace(&mut flags[n], true) {
                        return Err(self.bad(4, format!("\"{letter}\" is given twice"), None));
                    }
                }
                None => {
                    let what = format!(
                        "\"{}\" is no flag (I, R, P, G)",
                        shorten(&letter.to_string())
                    );
                    let fixed = self.text(4).to_ascii_uppercase();
                    let fits = fixed.chars().all(|c| FLAGS.contains(c));
                    return Err(self.bad(4, what, Some(fixed).filter(|_| fits)));
                }
            }
        }
        Ok(flags)
    }

    fn whole(
        &self,
        i: usize,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>, Diagnostic> {
        let Some(text) = self.given(i) else {
            return Ok(None);
        };
        match text.parse::<u32>() {
            Ok(n) if range.contains(&n) && text.bytes().all(|b| b.is_ascii_digit()) => Ok(Some(n)),
            _ => {
                let (from, to) = (range.start(), range.end());
                let what = format!(
                    "\"{}\" is no whole number from {from} to {to}",
                    shorten(text)
                );
                Err(self.bad(i, what, None))
            }
        }
    }
}

/// The fields of a line without its comment, unescaped and trimmed, with their offsets. None if the
/// line has no fields. The error has the offset of an invalid escape.
#[allow(clippy::type_complexity)]
fn split(line: &str) -> Result<Option<Vec<(String, usize)>>, (usize, String)> {
    let mut fields = Vec::new();
    let (mut text, mut start, mut keep) = (String::new(), None, 0);
    let mut blank_before = true;
    let mut any = false;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        let mut literal = false;
        let mut c = c;
        match c {
            '#' if blank_before => break,
            ':' => {
                text.truncate(keep);
                fields.push((std::mem::take(&mut text), start.take().unwrap_or(at)));
                (keep, blank_before, any) = (0, false, true);
                continue;
            }
            '\\' => match chars.next() {
                Some((_, e @ (':' | '#' | '\\' | ' '))) => (c, literal) = (e, true),
                _ => {
                    return Err((
                        at,
                        "a backslash stands before \":\", \"#\", \" \" or \"\\\" only".into(),
                    ))
                }
            },
            _ => {}
        }
        let blank = matches!(c, ' ' | '\t' | '\r' | '\n') && !literal;
        blank_before = blank;
        if blank && start.is_none() {
            continue;
        }
        start.get_or_insert(at);
        text.push(c);
        if !blank {
            (keep, any) = (text.len(), true);
        }
    }
    text.truncate(keep);
    let end = line.trim_end().len();
    fields.push((text, start.unwrap_or(end)));
    Ok(any.then_some(fields))
}

/// Escapes a path so that [`split`] reads it back unchanged.
fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, ':' | '#' | '\\' | ' ') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_short_and_unique() {
        let mut names = Names::default();
        let long = "x".repeat(64);
        assert_eq!(names.take(&format!("{}-2", &long[..62])).len(), 64);
        assert_eq!(names.take(&long), long);
        assert_eq!(names.take(&long), format!("{}-3", &long[..62]));
    }
}
