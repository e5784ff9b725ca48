//! Values of the TOML form, and suggestions for wrong ones.

use crate::diag::{nearest, shorten};
use crate::duration::parse_duration;
use crate::fields::{self, Problem};
use crate::limits::{MAX_MEMORY, MAX_PERIODS, MAX_PROTECT_S, MIN_MEMORY};
use crate::model::ServerPolicy;
use crate::raw::Protect;
use crate::size::{format_size, parse_size};
use crate::toml_format::KEYS;
use toml::de::DeValue;

/// Parses `C/T`, both with units, to ns.
///
/// # Errors
///
/// The text has another form, a duration is invalid, or C and T are out of range.
pub fn cpu(text: &str) -> Result<(u64, u64), Problem> {
    let Some((c, t)) = text.split_once('/') else {
        return Err(said("cpu is written runtime/period", Some("5ms/30ms")));
    };
    let unit = t
        .trim()
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let runtime = parse_duration(c).map_err(|m| {
        let hint = format!("{}{unit}/{}", c.trim(), t.trim());
        let fits = !unit.is_empty() && parse_duration(&format!("{c}{unit}")).is_ok();
        said(m, Some(hint.as_str()).filter(|_| fits))
    })?;
    let period = parse_duration(t).map_err(|m| said(m, None))?;
    let write = |c, t| {
        format!(
            "{}/{}",
            crate::format_duration(c),
            crate::format_duration(t)
        )
    };
    fields::check_cpu(runtime, period, write)?;
    Ok((runtime, period))
}

/// Parses a protection period: a time in whole seconds, or a number of periods of the reservation
/// ("10T"). None for "auto", the machine's setting.
///
/// # Errors
///
/// The text has another form, or is out of range.
pub fn protect(text: &str) -> Result<Option<Protect>, Problem> {
    if text == "auto" {
        return Ok(None);
    }
    if let Some(count) = text.strip_suffix('T') {
        let periods = count.parse().ok().filter(|n| (1..=MAX_PERIODS).contains(n));
        return match periods.filter(|_| count.bytes().all(|b| b.is_ascii_digit())) {
            Some(n) => Ok(Some(Protect::Periods(n))),
            None => {
                let what = format!("protect is 1T to {MAX_PERIODS}T in periods");
                Err(said(what, Some("10T")))
            }
        };
    }
    let ns = parse_duration(text).map_err(|m| said(m, None))?;
    let seconds = u32::try_from(ns / 1_000_000_000).unwrap_or(u32::MAX);
    if ns % 1_000_000_000 != 0 || !(1..=MAX_PROTECT_S).contains(&seconds) {
        let what = format!("protect is 1 to {MAX_PROTECT_S} whole seconds");
        return Err(said(what, None));
    }
    Ok(Some(Protect::Seconds(seconds)))
}

/// Parses a server policy's name. None for "auto", the machine's setting.
///
/// # Errors
///
/// There is no policy with this name.
pub fn server(text: &str) -> Result<Option<ServerPolicy>, Problem> {
    let names = ServerPolicy::ALL.map(ServerPolicy::name);
    match ServerPolicy::named(text) {
        None if text == "auto" => Ok(None),
        None => {
            let what = format!(
                "\"{}\" is no server ({}, auto)",
                shorten(text),
                names.join(", ")
            );
            Err(said(what, nearest(text, names.into_iter().chain(["auto"]))))
        }
        some => Ok(some),
    }
}

/// Parses a private reserve. None for "none".
///
/// # Errors
///
/// The text is no size, or the size is out of range.
pub fn memory(text: &str) -> Result<Option<u64>, Problem> {
    if text == "none" {
        return Ok(None);
    }
    let bytes = parse_size(text).map_err(|m| said(m, None))?;
    if (MIN_MEMORY..=MAX_MEMORY).contains(&bytes) {
        return Ok(Some(bytes));
    }
    let (min, max) = (format_size(MIN_MEMORY), format_size(MAX_MEMORY));
    Err(said(format!("{text} is not between {min} and {max}"), None))
}

/// The key that an unknown key was probably meant to be.
pub fn known_as(key: &str) -> Option<&'static str> {
    match key {
        "comm" | "cmd" | "name-of-command" => Some("command"),
        "exe" | "executable" | "file" | "paths" => Some("path"),
        "args" | "arg" | "argv" => Some("argument"),
        "kthread" => Some("kernel-thread"),
        "parent" => Some("launch"),
        "type" => Some("class"),
        "runtime" | "period" | "reservation" => Some("cpu"),
        "pi" => Some("protect"),
        "reserve" | "mem" | "memory-reserve" => Some("memory"),
        "cgroup" | "slice" => Some("domain"),
        "guarantee" | "promised" => Some("guaranteed"),
        "policy" | "server-policy" => Some("server"),
        other => nearest(other, KEYS),
    }
}

pub fn said(message: impl Into<String>, suggestion: Option<&str>) -> Problem {
    Problem {
        message: message.into(),
        suggestion: suggestion.map(str::to_string),
    }
}

pub fn type_of(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
