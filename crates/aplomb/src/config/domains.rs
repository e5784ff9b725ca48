//! `[[domain]]` tables of the settings: domains that the daemon creates when it starts.
//!
//! ```toml
//! [[domain]]
//! path = "media"
//! weight = 300
//! cpu = "25%"
//! memory = "200M"
//! io = "20%"
//! net-weight = 300
//! net-max = "5Mbit"
//! policy = "mtr"
//! max = "50%"
//! ```

use std::ops::Range;

use aplomb_domain::{
    parse_disk, parse_limit, parse_memory, parse_reservation, Change, DomainPath, MAX_WEIGHT,
};
use aplomb_spec::parse_rate;
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;

/// The most tables that a file may have.
const MAX_DOMAIN_TABLES: usize = 256;

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedDomain {
    /// The line of the table in the file, from 1.
    pub line: usize,
    pub path: DomainPath,
    pub changes: Vec<Change>,
}

/// The table as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    path: Spanned<String>,
    weight: Option<Spanned<i64>>,
    cpu: Option<Spanned<String>>,
    memory: Option<Spanned<String>>,
    io: Option<Spanned<String>>,
    net_weight: Option<Spanned<i64>>,
    net_max: Option<Spanned<String>>,
    policy: Option<Spanned<String>>,
    max: Option<Spanned<String>>,
    idle: Option<Spanned<bool>>,
}

/// Check the tables. `at` makes an error from field, place and message, and finds the line of a
/// place.
pub(super) fn read(
    files: Vec<Spanned<File>>,
    at: impl Fn(&str, Range<usize>, String) -> (usize, ConfigError),
) -> Result<Vec<WantedDomain>, ConfigError> {
    let mut tables: Vec<WantedDomain> = Vec::new();
    for file in files {
        let span = file.span();
        let f = file.into_inner();
        let wrong = |field, span, message| at(field, span, message).1;
        let line = at("domain", span.clone(), String::new()).0;
        if tables.len() >= MAX_DOMAIN_TABLES {
            let message = format!("more than {MAX_DOMAIN_TABLES} tables");
            return Err(wrong("domain", span, message));
        }
        let path: DomainPath = f
            .path
            .get_ref()
            .parse()
            .map_err(|m| wrong("path", f.path.span(), m))?;
        if path.is_root() {
            let message = "the root is there already, and has no weight and no limit";
            return Err(wrong("path", f.path.span(), message.into()));
        }
        if let Some(first) = tables.iter().find(|t| t.path == path) {
            let message = format!("{path} is in line {} already", first.line);
            return Err(wrong("path", f.path.span(), message));
        }
        let mut changes = Vec::new();
        if let Some(idle) = &f.idle {
            // Before the weight, because an idle cgroup takes no weight.
            changes.push(Change::Idle(*idle.get_ref()));
        }
        if let Some(weight) = &f.weight {
            let number = u32::try_from(*weight.get_ref()).ok();
            let number = number.filter(|w| (1..=MAX_WEIGHT).contains(w));
            let message = || format!("{} is not between 1 and {MAX_WEIGHT}", weight.get_ref());
            let number = number.ok_or_else(|| wrong("weight", weight.span(), message()))?;
            if f.idle.as_ref().is_some_and(|i| *i.get_ref()) {
                let message = "an idle domain has no weight";
                return Err(wrong("weight", weight.span(), message.into()));
            }
            changes.push(Change::Weight(number));
        }
        if let Some(max) = &f.max {
            let limit = parse_limit(max.get_ref()).map_err(|m| wrong("max", max.span(), m))?;
            changes.push(Change::Max(limit));
        }
        if let Some(policy) = &f.policy {
            let parsed = policy.get_ref().parse();
            changes.push(Change::Policy(
                parsed.map_err(|m| wrong("policy", policy.span(), m))?,
            ));
        }
        if let Some(cpu) = &f.cpu {
            let parsed = parse_reservation(cpu.get_ref());
            changes.push(Change::Cpu(
                parsed.map_err(|m| wrong("cpu", cpu.span(), m))?,
            ));
        }
        if let Some(memory) = &f.memory {
            let parsed = parse_memory(memory.get_ref());
            changes.push(Change::Memory(
                parsed.map_err(|m| wrong("memory", memory.span(), m))?,
            ));
        }
        if let Some(io) = &f.io {
            let parsed = parse_disk(io.get_ref());
            changes.push(Change::Io(parsed.map_err(|m| wrong("io", io.span(), m))?));
        }
        if let Some(weight) = &f.net_weight {
            let number = u32::try_from(*weight.get_ref()).ok();
            let number = number.filter(|w| (1..=MAX_WEIGHT).contains(w));
            let message = || format!("{} is not between 1 and {MAX_WEIGHT}", weight.get_ref());
            let number = number.ok_or_else(|| wrong("net-weight", weight.span(), message()))?;
            changes.push(Change::NetWeight(Some(number)));
        }
        if let Some(max) = &f.net_max {
            let parsed = parse_rate(max.get_ref());
            let bits = parsed.map_err(|m| wrong("net-max", max.span(), m))?;
            changes.push(Change::NetMax(Some(bits)));
        }
        tables.push(WantedDomain {
            line,
            path,
            changes,
        });
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use std::path::Path;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("aplomb.toml"), text, 1).map_err(|e| e.to_string())
    }

    #[test]
    fn a_tree_is_read_in_its_order() {
        let config = parse(
            "r-max = \"90%\"\n\n[[domain]]\npath = \"media\"\nweight = 300\ncpu = \"25%\"\npolicy = \"mtr\"\n\
             max = \"50%\"\nmemory = \"200M\"\n[[domain]]\npath = \"build\"\nidle = true\n",
        )
        .unwrap();
        let shown: Vec<_> = config
            .domains
            .iter()
            .map(|d| {
                let changes: Vec<_> = d.changes.iter().map(ToString::to_string).collect();
                (d.line, d.path.to_string(), changes.join(" "))
            })
            .collect();
        let media = "weight=300 max=50% policy=mtr cpu=25% memory=200M".to_owned();
        assert_eq!(
            shown,
            [
                (3, "media".into(), media),
                (10, "build".into(), "idle=1".into())
            ]
        );
    }

    #[test]
    fn errors_name_file_line_and_field() {
        for (fields, line, words) in [
            ("weight = 1", 1, "missing field `path`"),
            ("path = \"../x\"", 2, "\"path\": a domain is a path without"),
            ("path = \"/\"", 2, "\"path\": the root"),
            (
                "path = \"a\"\nweight = 0",
                3,
                "\"weight\": 0 is not between",
            ),
            ("path = \"a\"\nweight = -1", 3, "\"weight\""),
            (
                "path = \"a\"\nidle = true\nweight = 5",
                4,
                "\"weight\": an idle",
            ),
            ("path = \"a\"\ncpu = \"200%\"", 3, "\"cpu\": \"200%\""),
            ("path = \"a\"\npolicy = \"edf\"", 3, "\"policy\": \"edf\""),
            ("path = \"a\"\nmax = \"soon\"", 3, "\"max\": \"soon\""),
            (
                "path = \"a\"\nmemory = \"1\"",
                3,
                "\"memory\": 1 is not between",
            ),
            ("path = \"a\"\nmem = \"1G\"", 3, "unknown field `mem`"),
            (
                "path = \"a\"\n[[domain]]\npath = \"/a\"",
                4,
                "\"path\": a is in line 1",
            ),
        ] {
            let error = parse(&format!("[[domain]]\n{fields}\n")).unwrap_err();
            let start = format!("aplomb.toml:{line}: ");
            assert!(
                error.starts_with(&start) && error.contains(words),
                "{fields}: {error}"
            );
        }
        let many = (0..257).map(|i| format!("[[domain]]\npath = \"d{i}\"\n"));
        let error = parse(&many.collect::<String>()).unwrap_err();
        assert!(error.contains("more than 256 tables"), "{error}");
    }
}
