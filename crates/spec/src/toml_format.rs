//! TOML form: a file of `[[spec]]` tables, with the same meaning as Redline's lines.
//!
//! ```toml
//! [[spec]]
//! name = "mplayer"                # unique
//! description = "movie player"
//! path = "/usr/bin/mplayer"       # or a list; "*" stands for any characters but "/"
//! class = "interactive"           # default; or "best-effort"
//! cpu = "5ms/30ms"                # runtime/period
//! inherit = true                  # flag I, default false
//! revocable = true                # flag R, default false
//! guaranteed = true               # flag G, default false: excludes revocable
//! server = "fcbs"                 # redline, cbs-hard, cbs-soft, fcbs, deferred; default "auto"
//! launch = "any"                  # default; "interactive" is flag P
//! protect = "30min"               # pi, or "10T": ten periods of cpu; default "auto"
//! memory = "32M"                  # private reserve; default "none"
//! io = 0                          # 0..7; default "auto"
//! domain = "media"                # moved into this cgroup at exec; only with path, default none
//! ```
//!
//! Other keys that name a program, each a string or a list: `app`, `command`, `kernel-thread`,
//! `argument`. An `argument` that is a string belongs to every `path` of the spec, which are
//! interpreters then. An `argument` of the form `{ path = "…", argument = "…" }` belongs to its own
//! path. Unknown keys are errors. Drop-ins (`NAME.toml.d/*.conf`) have the same form; their keys
//! replace those of the spec with the same name.

use crate::diag::{nearest, shorten, Diagnostic, Lines, Place};
use crate::fields::{self, Problem};
use crate::limits::*;
use crate::model::{Class, Launch};
use crate::raw::{Field, Protect, Raw, RawArgument};
use crate::tab::{capped, decode, Parsed};
use crate::toml_values::{cpu, known_as, memory, protect, said, server, type_of};
use std::collections::HashMap;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

pub use crate::toml_print::print;

pub(crate) const KEYS: [&str; 18] = [
    "name",
    "description",
    "path",
    "argument",
    "app",
    "command",
    "kernel-thread",
    "class",
    "cpu",
    "inherit",
    "revocable",
    "guaranteed",
    "server",
    "launch",
    "protect",
    "memory",
    "io",
    "domain",
];

/// Parses a file of `[[spec]]` tables. `file` is not read: it is only named in origins and
/// diagnostics.
///
/// A spec with an error (including a syntax error) is left out; the other specs stay.
pub fn parse(file: &Path, text: &[u8]) -> Parsed {
    let (raws, mut diags) = parse_raw(file, text);
    let mut specs = Vec::new();
    for raw in raws {
        match raw.build() {
            Ok((spec, warnings)) => {
                specs.push(spec);
                diags.extend(warnings);
            }
            Err(bad) => diags.extend(bad),
        }
    }
    (specs, sorted(diags, file))
}

/// Sorts diagnostics by their place in the file, and limits their number ([`capped`]).
pub(crate) fn sorted(mut diags: Vec<Diagnostic>, file: &Path) -> Vec<Diagnostic> {
    diags.sort_by(|a, b| a.place.cmp(&b.place));
    capped(diags, file)
}

/// The tables of a file whose fields are all valid. They are not yet checked as a whole, because
/// drop-ins are applied first.
pub(crate) fn parse_raw(file: &Path, text: &[u8]) -> (Vec<Raw>, Vec<Diagnostic>) {
    let text = match decode(file, text) {
        Ok(text) => text,
        Err(d) => return (Vec::new(), vec![d]),
    };
    let mut reader = Reader {
        lines: Lines::new(file, text),
        base: 0,
        diags: Vec::new(),
    };
    let mut raws = Vec::new();
    for (start, part) in parts(text) {
        reader.base = start;
        raws.extend(reader.part(file, part));
    }
    let raws = reader.unique(raws);
    (raws, reader.diags)
}

/// Splits a file into pieces that are parsed separately; each has its offset. If the syntax is
/// right, the only piece is the whole file. Otherwise each header begins a piece, so that an error
/// costs only the spec that contains it. A header is a line that begins with "["; no value of ours
/// does.
///
/// A string of several lines may contain a line that looks like a header. So a file with such a
/// string is not split.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let whole = vec![(0, text)];
    let several_lines = ["\"\"\"", "'''"].iter().any(|q| text.contains(q));
    if several_lines || DeTable::parse(text).is_ok() {
        return whole;
    }
    let mut starts = vec![0];
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if offset > 0 && line.trim_start().starts_with('[') {
            starts.push(offset);
        }
        offset += line.len();
    }
    starts.push(text.len());
    starts
        .windows(2)
        .map(|w| (w[0], &text[w[0]..w[1]]))
        .collect()
}

/// A value, with its position in the text.
type Value<'a> = Spanned<DeValue<'a>>;

struct Reader<'a> {
    lines: Lines<'a>,
    /// Offset in the file of the piece that is being read.
    base: usize,
    diags: Vec<Diagnostic>,
}

impl Reader<'_> {
    /// The place of an offset in the current piece.
    fn place(&self, offset: usize) -> Place {
        self.lines.place(self.base + offset)
    }

    /// The specs of one piece of the file. Empty if its syntax is wrong.
    fn part(&mut self, file: &Path, text: &str) -> Vec<Raw> {
        let (root, errors) = DeTable::parse_recoverable(text);
        for e in &errors {
            let place = e
                .span()
                .map_or_else(|| Place::file(file), |s| self.place(s.start));
            self.diags
                .push(Diagnostic::error(&place, shorten(e.message())));
        }
        if errors.is_empty() {
            self.tables(root.get_ref())
        } else {
            Vec::new()
        }
    }

    fn tables(&mut self, root: &DeTable) -> Vec<Raw> {
        let mut raws = Vec::new();
        for (key, value) in root {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("spec", DeValue::Array(tables)) => {
                    for table in tables.iter() {
                        match table.get_ref() {
                            DeValue::Table(t) => {
                                raws.extend(self.spec(t, &self.place(table.span().start)))
                            }
                            other => self.wrong_type(table, "spec", "a table", other),
                        }
                    }
                }
                ("spec", _) => self.fail(
                    value,
                    "spec",
                    said("specs are a list of tables", Some("[[spec]]")),
                ),
                (other, _) => {
                    let place = self.place(key.span().start);
                    let hint = match nearest(other, KEYS) {
                        Some(_) => Some("[[spec]]"), // a spec's key before the first table
                        None => nearest(other, ["spec"]),
                    };
                    let d =
                        Diagnostic::error(&place, "unknown key; a file has [[spec]] tables only");
                    self.diags.push(d.field(other).suggest(hint));
                }
            }
        }
        raws
    }

    /// Keeps only the first of several specs with the same name, and reports the others.
    fn unique(&mut self, mut raws: Vec<Raw>) -> Vec<Raw> {
        let mut first: HashMap<String, Place> = HashMap::new();
        for raw in &raws {
            let Some(name) = &raw.name else { continue };
            match first.get(&name.value) {
                None => drop(first.insert(name.value.clone(), name.place.clone())),
                Some(at) => self.diags.push(
                    Diagnostic::error(&name.place, format!("\"{}\" is defined twice", name.value))
                        .field("name")
                        .also(at),
                ),
            }
        }
        raws.retain(|r| {
            r.name
                .as_ref()
                .is_none_or(|n| first.get(&n.value) == Some(&n.place))
        });
        raws
    }

    /// Reads one table. Returns None if a field is wrong.
    fn spec(&mut self, table: &DeTable, place: &Place) -> Option<Raw> {
        let before = self.diags.len();
        let mut raw = Raw {
            place: place.clone(),
            ..Raw::default()
        };
        for (key, value) in table {
            let k = key.get_ref().as_ref();
            match k {
                "name" => raw.name = self.text(value, k, fields::check_name),
                "description" => raw.description = self.text(value, k, fields::check_description),
                "path" => raw.path = self.list(value, k, fields::check_path),
                "app" => raw.app = self.list(value, k, fields::check_app),
                "command" => raw.command = self.list(value, k, fields::check_command),
                "kernel-thread" => {
                    raw.kernel_thread = self.list(value, k, fields::check_kernel_thread)
                }
                "argument" => raw.argument = self.arguments(value),
                "class" => raw.class = self.class(value),
                "cpu" => raw.cpu = self.parsed(value, k, cpu),
                "inherit" => raw.inherit = self.boolean(value, k),
                "revocable" => raw.revocable = self.boolean(value, k),
                "guaranteed" => raw.guaranteed = self.boolean(value, k),
                "server" => raw.server = self.parsed(value, k, server),
                "launch" => raw.launch = self.launch(value),
                "protect" => raw.protect = self.protect(value),
                "memory" => raw.memory = self.parsed(value, k, memory),
                "io" => raw.io = self.io(value),
                "domain" => raw.domain = self.text(value, k, fields::check_domain),
                other => {
                    let place = self.place(key.span().start);
                    let d = Diagnostic::error(&place, "unknown key").field(other);
                    self.diags.push(d.suggest(known_as(other)));
                }
            }
        }
        (self.diags.len() == before).then_some(raw)
    }

    fn fail(&mut self, value: &Value, field: &str, p: Problem) {
        let place = self.place(value.span().start);
        self.diags.push(
            Diagnostic::error(&place, p.message)
                .field(field)
                .suggest(p.suggestion),
        );
    }

    fn wrong_type(&mut self, value: &Value, field: &str, wanted: &str, found: &DeValue) {
        let p = said(format!("{} where {wanted} is needed", type_of(found)), None);
        self.fail(value, field, p);
    }

    fn done<T>(&self, value: &Value, v: T) -> Option<Field<T>> {
        Some(Field {
            value: v,
            place: self.place(value.span().start),
        })
    }

    /// A string that `parse` converts to a value.
    fn parsed<T>(
        &mut self,
        value: &Value,
        key: &str,
        parse: impl Fn(&str) -> Result<T, Problem>,
    ) -> Option<Field<T>> {
        match value.get_ref() {
            DeValue::String(s) => match parse(s) {
                Ok(v) => return self.done(value, v),
                Err(p) => self.fail(value, key, p),
            },
            other => self.wrong_type(value, key, "a string", other),
        }
        None
    }

    fn text(
        &mut self,
        value: &Value,
        key: &str,
        check: fn(&str) -> Result<(), Problem>,
    ) -> Option<Field<String>> {
        self.parsed(value, key, |s| check(s).map(|()| s.to_string()))
    }

    /// A string or a list of strings.
    fn list(
        &mut self,
        value: &Value,
        key: &str,
        check: fn(&str) -> Result<(), Problem>,
    ) -> Option<Field<Vec<String>>> {
        let DeValue::Array(items) = value.get_ref() else {
            let one = self.text(value, key, check)?;
            return Some(Field {
                value: vec![one.value],
                place: one.place,
            });
        };
        let texts = items
            .iter()
            .filter_map(|i| self.text(i, key, check))
            .map(|f| f.value)
            .collect();
        self.done(value, texts)
    }

    /// One string or table of path and argument, or a list of these.
    fn arguments(&mut self, value: &Value) -> Option<Field<Vec<RawArgument>>> {
        let out = match value.get_ref() {
            DeValue::Array(items) => items.iter().filter_map(|i| self.argument(i)).collect(),
            _ => vec![self.argument(value)?],
        };
        self.done(value, out)
    }

    fn argument(&mut self, value: &Value) -> Option<RawArgument> {
        let DeValue::Table(table) = value.get_ref() else {
            return Some(RawArgument::OfPaths(
                self.text(value, "argument", fields::check_argument)?.value,
            ));
        };
        let (mut path, mut argument) = (None, None);
        for (key, v) in table {
            match key.get_ref().as_ref() {
                "path" => path = Some(self.text(v, "path", fields::check_path)?.value),
                "argument" => {
                    argument = Some(self.text(v, "argument", fields::check_argument)?.value)
                }
                other => {
                    let place = self.place(key.span().start);
                    let d = Diagnostic::error(&place, "unknown key").field(other);
                    self.diags
                        .push(d.suggest(nearest(other, ["path", "argument"])));
                    return None;
                }
            }
        }
        match (path, argument) {
            (Some(path), Some(argument)) => Some(RawArgument::Own { path, argument }),
            _ => {
                self.fail(
                    value,
                    "argument",
                    said("such a table has a path and an argument", None),
                );
                None
            }
        }
    }

    fn boolean(&mut self, value: &Value, key: &str) -> Option<Field<bool>> {
        match value.get_ref() {
            DeValue::Boolean(b) => return self.done(value, *b),
            DeValue::String(s) if matches!(s.as_ref(), "true" | "false") => {
                let p = said(
                    "true and false have no quotes",
                    Some(&format!("{key} = {s}")),
                );
                self.fail(value, key, p);
            }
            other => self.wrong_type(value, key, "true or false", other),
        }
        None
    }

    fn class(&mut self, value: &Value) -> Option<Field<Class>> {
        self.parsed(value, "class", |s| match s {
            "interactive" => Ok(Class::Interactive),
            "best-effort" => Ok(Class::BestEffort),
            other => {
                let hint = match other.to_ascii_lowercase().as_str() {
                    "iact" => Some("interactive"),
                    "be" => Some("best-effort"),
                    o => nearest(o, ["interactive", "best-effort"]),
                };
                Err(said(
                    format!(
                        "\"{}\" is neither interactive nor best-effort",
                        shorten(other)
                    ),
                    hint,
                ))
            }
        })
    }

    fn launch(&mut self, value: &Value) -> Option<Field<Launch>> {
        self.parsed(value, "launch", |s| match s {
            "any" => Ok(Launch::Any),
            "interactive" => Ok(Launch::Interactive),
            other => {
                let hint = nearest(other, ["any", "interactive"]);
                Err(said(
                    format!("\"{}\" is neither any nor interactive", shorten(other)),
                    hint,
                ))
            }
        })
    }

    fn protect(&mut self, value: &Value) -> Option<Field<Option<Protect>>> {
        if let DeValue::Integer(n) = value.get_ref() {
            let hint =
                (n.radix() == 10 && n.as_str().len() < 10).then(|| format!("{}s", n.as_str()));
            self.fail(
                value,
                "protect",
                said("a duration needs a unit", hint.as_deref()),
            );
            return None;
        }
        self.parsed(value, "protect", protect)
    }

    fn io(&mut self, value: &Value) -> Option<Field<Option<u8>>> {
        let p = match value.get_ref() {
            DeValue::String(s) if s == "auto" => return self.done(value, None),
            DeValue::Integer(n) => match u8::from_str_radix(n.as_str(), n.radix()) {
                Ok(n) if n <= MAX_IO => return self.done(value, Some(n)),
                _ => said(
                    format!("an I/O priority is 0 (most urgent) to {MAX_IO}"),
                    None,
                ),
            },
            DeValue::String(s) if s.parse::<u8>().is_ok_and(|n| n <= MAX_IO) => {
                said("a number has no quotes", Some(&format!("io = {s}")))
            }
            other => {
                let wanted = format!("a number from 0 to {MAX_IO} or \"auto\"");
                self.wrong_type(value, "io", &wanted, other);
                return None;
            }
        };
        self.fail(value, "io", p);
        None
    }
}
