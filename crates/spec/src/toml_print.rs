//! Writes a spec as TOML. Defaults are left out, as a person would write it.

use crate::duration::format_duration;
use crate::model::{Class, Launch, Matcher, Spec};
use crate::size::format_size;

/// Writes a spec as one `[[spec]]` table. [`crate::toml_format::parse`] reads it back as the same
/// spec.
pub fn print(spec: &Spec) -> String {
    let mut out = format!("[[spec]]\nname = {}\n", quote(&spec.name));
    let mut put = |key: &str, value: String| out.push_str(&format!("{key} = {value}\n"));
    if !spec.description.is_empty() {
        put("description", quote(&spec.description));
    }
    let of =
        |f: fn(&Matcher) -> Option<String>| spec.matchers.iter().filter_map(f).collect::<Vec<_>>();
    let lists = [
        (
            "path",
            of(|m| {
                if let Matcher::Path(p) = m {
                    Some(quote(p))
                } else {
                    None
                }
            }),
        ),
        ("argument", of(argument)),
        (
            "app",
            of(|m| {
                if let Matcher::App(a) = m {
                    Some(quote(a))
                } else {
                    None
                }
            }),
        ),
        (
            "command",
            of(|m| {
                if let Matcher::Command(c) = m {
                    Some(quote(c))
                } else {
                    None
                }
            }),
        ),
        (
            "kernel-thread",
            of(|m| {
                if let Matcher::KernelThread(k) = m {
                    Some(quote(k))
                } else {
                    None
                }
            }),
        ),
    ];
    for (key, items) in lists {
        match items.as_slice() {
            [] => {}
            [one] => put(key, one.clone()),
            many => put(key, format!("[\n    {},\n]", many.join(",\n    "))),
        }
    }
    match spec.class {
        Class::Interactive => {
            let cpu = format!(
                "{}/{}",
                format_duration(spec.runtime_ns),
                format_duration(spec.period_ns)
            );
            put("cpu", quote(&cpu));
        }
        Class::BestEffort => put("class", quote("best-effort")),
    }
    if spec.inherit {
        put("inherit", "true".into());
    }
    if spec.revocable {
        put("revocable", "true".into());
    }
    if spec.guaranteed {
        put("guaranteed", "true".into());
    }
    if let Some(server) = spec.server {
        put("server", quote(server.name()));
    }
    if spec.launch == Launch::Interactive {
        put("launch", quote("interactive"));
    }
    if let Some(s) = spec.protect_s {
        put(
            "protect",
            quote(&format_duration(u64::from(s) * 1_000_000_000)),
        );
    }
    if let Some(bytes) = spec.memory {
        put("memory", quote(&format_size(bytes)));
    }
    if let Some(io) = spec.io {
        put("io", io.to_string());
    }
    if let Some(domain) = &spec.domain {
        put("domain", quote(domain));
    }
    out
}

fn argument(m: &Matcher) -> Option<String> {
    match m {
        Matcher::Argument { path, argument } => Some(format!(
            "{{ path = {}, argument = {} }}",
            quote(path),
            quote(argument)
        )),
        _ => None,
    }
}

/// A TOML basic string.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
