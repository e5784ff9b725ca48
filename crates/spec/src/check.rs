//! `aplomb spec check`: parses files and reports what is wrong (errors) or unwise (warnings).

use crate::device::DeviceOf;
use crate::diag::{Diagnostic, Place};
use crate::dirs::read_file;
use crate::limits::USUAL_R_MAX_PPM;
use crate::merge::{merge, Candidate};
use crate::model::{Class, Launch, Matcher, Spec};
use crate::resolve::Resolver;
use crate::{tab, toml_format};
use std::path::Path;

/// The result of a check.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// The specs that are valid.
    pub specs: Vec<Spec>,
    /// Errors, warnings and notes, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Is there an error? Warnings and notes do not count.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Checks one file, which may belong to any user. `*.toml` is TOML, `*.conf` is a drop-in, and any
/// other name means Redline's form. With a resolver, programs that this machine lacks are noted.
pub fn check_file<D: DeviceOf>(path: &Path, machine: Option<&Resolver<D>>) -> Checked {
    check_files(&[path], machine)
}

/// Checks several files as one set. So it also finds names and matchers that two specs define.
pub fn check_files<D: DeviceOf>(paths: &[&Path], machine: Option<&Resolver<D>>) -> Checked {
    let mut diagnostics = Vec::new();
    let mut all = Vec::new();
    for path in paths {
        let (candidates, found) = one(path);
        diagnostics.extend(found);
        diagnostics.extend(candidates.iter().flat_map(|c| lint(&c.spec)));
        all.extend(candidates);
    }
    let (specs, merged) = merge(all);
    diagnostics.extend(merged);
    if let Some(machine) = machine {
        diagnostics.extend(machine.set(&specs).diagnostics);
    }
    let order = |d: &Diagnostic| paths.iter().position(|p| **p == *d.place.file);
    diagnostics.sort_by_cached_key(|d| (order(d), d.place.clone()));
    Checked { specs, diagnostics }
}

fn one(path: &Path) -> (Vec<Candidate>, Vec<Diagnostic>) {
    let text = match read_file(path, |_, _| None) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let what = "an empty file only masks another";
            return (Vec::new(), vec![Diagnostic::note(&Place::file(path), what)]);
        }
        Err(what) => {
            return (
                Vec::new(),
                vec![Diagnostic::error(&Place::file(path), what)],
            )
        }
    };
    let nameless = match path.extension().and_then(|e| e.to_str()) {
        Some("toml") => false,
        Some("conf") => {
            // The spec that the drop-in changes is not known here, so only the drop-in's fields are
            // checked.
            let (_, diags) = toml_format::parse_raw(path, &text);
            return (Vec::new(), toml_format::sorted(diags, path));
        }
        _ => true,
    };
    let parse = if nameless {
        tab::parse
    } else {
        toml_format::parse
    };
    let (specs, diags) = parse(path, &text);
    (
        specs
            .into_iter()
            .map(|spec| Candidate { spec, nameless })
            .collect(),
        diags,
    )
}

/// Shells and interpreters: with a spec for one of these, every program that it runs is
/// interactive.
const INTERPRETERS: [&str; 27] = [
    "sh", "bash", "rbash", "dash", "zsh", "fish", "ksh", "mksh", "tcsh", "csh", "nu", "xonsh",
    "busybox", "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "lua", "luajit", "php",
    "java", "tclsh", "wish", "guile",
];

/// Warnings about a valid spec that is probably not what its author intended.
pub fn lint(spec: &Spec) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let mut warn = |field: &str, what: String, hint: Option<&str>| {
        out.push(
            Diagnostic::warning(&spec.origin, what)
                .field(field)
                .suggest(hint),
        );
    };
    if spec.class == Class::BestEffort {
        if spec.server.is_some() {
            let what = "a best-effort spec has no reservation, and so no server";
            warn("server", what.into(), None);
        }
        if spec.inherit || spec.revocable {
            let what = "a best-effort spec has nothing to inherit or revoke";
            warn(
                if spec.inherit { "inherit" } else { "revocable" },
                what.into(),
                None,
            );
        }
        return out;
    }
    let percent = spec.bandwidth_ppm() / 10_000;
    if spec.guaranteed && spec.bandwidth_ppm() > USUAL_R_MAX_PPM {
        let what = format!("{percent} % of a CPU is more than r-max unless that is set higher: it would be refused");
        warn("cpu", what, None);
    }
    if !spec.revocable && !spec.guaranteed && spec.bandwidth_ppm() > 500_000 {
        let what = format!(
            "\"{}\" takes {percent} % of a CPU and can never be revoked",
            spec.name
        );
        warn("revocable", what, Some("revocable = true"));
    }
    let shell = spec.matchers.iter().find_map(|m| match m {
        Matcher::Path(p) if is_interpreter(p) => Some(p),
        _ => None,
    });
    if let Some(path) = shell.filter(|_| spec.launch == Launch::Any) {
        let what = format!(
            "{path} runs other programs' work too, such as build jobs'; flag P keeps it apart"
        );
        warn("launch", what, Some("launch = \"interactive\""));
    }
    for matcher in &spec.matchers {
        if let Matcher::App(id) = matcher {
            if id.starts_with("snap.") && id.contains('-') {
                let what = format!("snapd leaves \"-\" in \"{id}\" as it is and the kernel side cuts there: it never fits");
                warn("app", what, None);
            }
        }
    }
    if !spec.revocable && spec.matchers.iter().any(Matcher::is_by_name) {
        let what = "what is found by argument, app or command is revocable all the same";
        warn("revocable", what.into(), Some("revocable = true"));
    }
    out
}

/// Is this an interpreter's path? Version numbers are ignored, as in `/usr/bin/python3.13`.
fn is_interpreter(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-*".contains(c));
    INTERPRETERS.contains(&name)
}
