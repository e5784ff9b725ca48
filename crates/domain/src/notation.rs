//! The notation of a domain's settings: in commands and settings, in the kernel's files and in our
//! attributes.
//!
//! | setting | examples | unit |
//! |---|---|---|
//! | reservation (`cpu`) | `25%`, `10ms/100ms`, `none` | of the machine; of one CPU |
//! | reservation of memory (`memory`) | `200M`, `none` | bytes; K, M, G, T |
//! | limit (`max`) | `50%`, `20ms/100ms`, `none` | of the machine; over all CPUs in each period |
//! | policy | `sfq`, `mtr`, `wrr`, `fair`, `fifo`, `default` | |
//! | weight | `1` to `10000` | relative to the domain's siblings |

use std::fmt;
use std::str::FromStr;

use aplomb_spec::{
    format_duration, format_size, limits as spec_limits, parse_duration, parse_size, shorten,
};
use serde::{Deserialize, Serialize};

/// The whole machine, ppm.
pub const WHOLE_PPM: u32 = 1_000_000;
/// Smallest fraction that can be reserved or be a limit: 0.01 %, in ppm.
pub const MIN_PPM: u32 = 100;
/// The greatest weight, by the kernel's documentation of cpu.weight.
pub const MAX_WEIGHT: u32 = 10_000;
/// The default of cpu.weight.
pub const USUAL_WEIGHT: u32 = 100;
/// Shortest and longest period of cpu.max, and its smallest quota, ns (kernel/sched/core.c).
pub const MIN_MAX_NS: u64 = 1_000_000;
/// See [`MIN_MAX_NS`].
pub const MAX_MAX_PERIOD_NS: u64 = 1_000_000_000;
/// Period of a limit that is written as a percentage: the default period of cpu.max.
pub const USUAL_MAX_PERIOD_NS: u64 = 100_000_000;
/// CPUs that a limit may allow all of the time: the most that the kernel side supports.
const MAX_CPUS: u64 = 1024;
/// Bytes of a value. A longer value is refused before it is parsed.
const MAX_VALUE_BYTES: usize = 64;

/// Which policy orders the members of a domain (`enum domain_policy` of bpf/intf.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DomainPolicy {
    /// SFQ among child domains, fair among threads.
    #[default]
    Default = 0,
    /// Start-time fair queueing (QLinux section 3.2): shares by weight.
    Sfq = 1,
    /// Move-to-rear list scheduling (Eclipse section 4): shares, and short delays for members that
    /// sleep.
    Mtr = 2,
    /// Weighted round-robin, for comparison.
    Wrr = 3,
    /// Virtual time with nice weights, among threads.
    Fair = 4,
    /// First come, first served, among threads.
    Fifo = 5,
}

impl DomainPolicy {
    /// All policies, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::Sfq,
        Self::Mtr,
        Self::Wrr,
        Self::Fair,
        Self::Fifo,
    ];

    /// The name in attributes, commands and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Sfq => "sfq",
            Self::Mtr => "mtr",
            Self::Wrr => "wrr",
            Self::Fair => "fair",
            Self::Fifo => "fifo",
        }
    }

    /// The number in `enum domain_policy`.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The policy with this number in `enum domain_policy`.
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.number() == number)
    }
}

impl fmt::Display for DomainPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DomainPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|p| p.name() == text.trim());
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("\"{}\" is none of {names}", shorten(text))
        })
    }
}

/// CPU time that is reserved for a domain, on top of its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reservation {
    /// Of the whole machine, ppm: [`MIN_PPM`] to [`WHOLE_PPM`].
    Fraction(u32),
    /// C every T of one CPU, ns. The ranges are those of specs.
    Budget { runtime_ns: u64, period_ns: u64 },
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction(ppm) => write!(f, "{}", percent(*ppm)),
            Self::Budget {
                runtime_ns,
                period_ns,
            } => write!(f, "{}", pair(*runtime_ns, *period_ns)),
        }
    }
}

/// Parses a reservation. "none" gives None.
///
/// # Errors
/// One sentence that says what is wrong with the text.
pub fn parse_reservation(text: &str) -> Result<Option<Reservation>, String> {
    match word(text)? {
        "none" => Ok(None),
        text if text.contains('%') => Ok(Some(Reservation::Fraction(parse_percent(text)?))),
        text => {
            let (runtime_ns, period_ns) = parse_pair(text, "25% or 10ms/100ms")?;
            let periods = spec_limits::MIN_PERIOD_NS..=spec_limits::MAX_PERIOD_NS;
            in_range("the period", period_ns, periods)?;
            in_range(
                "the runtime",
                runtime_ns,
                spec_limits::MIN_RUNTIME_NS..=period_ns,
            )?;
            Ok(Some(Reservation::Budget {
                runtime_ns,
                period_ns,
            }))
        }
    }
}

/// The most CPU time that a domain may use, as the user wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Of the whole machine, ppm: [`MIN_PPM`] to [`WHOLE_PPM`].
    Fraction(u32),
    /// A quota and a period, as in cpu.max.
    Max(Max),
}

/// cpu.max: CPU time over all CPUs in each period, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Max {
    pub quota_ns: u64,
    pub period_ns: u64,
}

impl Limit {
    /// The quota and period that this limit means on a machine of `cpus` CPUs.
    pub fn on(self, cpus: u32) -> Max {
        match self {
            Self::Max(max) => max,
            Self::Fraction(ppm) => {
                let all = u64::from(cpus.max(1)) * USUAL_MAX_PERIOD_NS;
                let quota = (u128::from(all) * u128::from(ppm) / u128::from(WHOLE_PPM)) as u64;
                // The kernel's files are in us.
                let quota_ns = (quota / 1000 * 1000).max(MIN_MAX_NS);
                Max {
                    quota_ns,
                    period_ns: USUAL_MAX_PERIOD_NS,
                }
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction(ppm) => write!(f, "{}", percent(*ppm)),
            Self::Max(max) => write!(f, "{max}"),
        }
    }
}

impl fmt::Display for Max {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", pair(self.quota_ns, self.period_ns))
    }
}

/// Parses a limit. "none" gives None.
///
/// # Errors
/// One sentence that says what is wrong with the text.
pub fn parse_limit(text: &str) -> Result<Option<Limit>, String> {
    match word(text)? {
        "none" | "max" => Ok(None),
        text if text.contains('%') => Ok(Some(Limit::Fraction(parse_percent(text)?))),
        text => {
            let (quota_ns, period_ns) = parse_pair(text, "50% or 20ms/100ms")?;
            in_range("the period", period_ns, MIN_MAX_NS..=MAX_MAX_PERIOD_NS)?;
            in_range("the quota", quota_ns, MIN_MAX_NS..=MAX_CPUS * period_ns)?;
            Ok(Some(Limit::Max(Max {
                quota_ns,
                period_ns,
            })))
        }
    }
}

/// Parses the file cpu.max: "max 100000" or "50000 100000", in us. None if there is no limit.
///
/// # Errors
/// One sentence that says what is wrong with the text.
pub fn parse_cpu_max(text: &str) -> Result<Option<Max>, String> {
    let wrong = || format!("\"{}\" is not what cpu.max holds", shorten(text));
    let (quota, period) = text.trim().split_once(' ').ok_or_else(wrong)?;
    let ns = |us: &str| {
        let us: u64 = us.parse().map_err(|_| wrong())?;
        us.checked_mul(1000).ok_or_else(wrong)
    };
    let period_ns = ns(period)?;
    if quota == "max" {
        return Ok(None);
    }
    Ok(Some(Max {
        quota_ns: ns(quota)?,
        period_ns,
    }))
}

/// The text to write into cpu.max.
pub fn print_cpu_max(max: Option<Max>) -> String {
    match max {
        None => "max".into(),
        Some(m) => format!("{} {}", m.quota_ns / 1000, m.period_ns / 1000),
    }
}

/// Parses a reservation of memory, in bytes. "none" gives None.
///
/// # Errors
/// No size, or one that is out of range.
pub fn parse_memory(text: &str) -> Result<Option<u64>, String> {
    let text = word(text)?;
    if text == "none" {
        return Ok(None);
    }
    let bytes = parse_size(text)?;
    let (min, max) = (spec_limits::MIN_MEMORY, spec_limits::MAX_MEMORY);
    if (min..=max).contains(&bytes) {
        return Ok(Some(bytes));
    }
    let (min, max) = (format_size(min), format_size(max));
    Err(format!("{} is not between {min} and {max}", shorten(text)))
}

/// The most that domains may reserve of a disk's time together, ppm (`CELLO_LIMIT_PPM` of
/// bpf/policy/cello.h).
pub const MAX_DISK_PPM: u32 = 800_000;

/// Parses a reservation of each disk's time, in ppm. "none" gives None.
///
/// # Errors
/// No percentage, or more than [`MAX_DISK_PPM`].
pub fn parse_disk(text: &str) -> Result<Option<u32>, String> {
    let text = word(text)?;
    if text == "none" {
        return Ok(None);
    }
    let ppm = parse_percent(text)?;
    if ppm <= MAX_DISK_PPM {
        return Ok(Some(ppm));
    }
    let most = percent(MAX_DISK_PPM);
    Err(format!(
        "{} is more than the {most} that domains may have",
        shorten(text)
    ))
}

/// Parses a weight.
///
/// # Errors
/// Not a whole number from 1 to [`MAX_WEIGHT`].
pub fn parse_weight(text: &str) -> Result<u32, String> {
    let weight = digits(word(text)?).and_then(|w| u32::try_from(w).ok());
    weight
        .filter(|w| (1..=MAX_WEIGHT).contains(w))
        .ok_or_else(|| format!("\"{}\" is no weight from 1 to {MAX_WEIGHT}", shorten(text)))
}

/// Parses "0" or "1".
///
/// # Errors
/// Anything else.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("\"{}\" is neither 0 nor 1", shorten(other))),
    }
}

/// "12.5%" in ppm, exact to 0.0001 %.
fn parse_percent(text: &str) -> Result<u32, String> {
    let wrong = || {
        let text = shorten(text);
        format!("\"{text}\" is not a percentage from 0.01% to 100%, such as 25%")
    };
    let number = text.strip_suffix('%').ok_or_else(wrong)?.trim_end();
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if part.len() > 4 {
        return Err(wrong());
    }
    let part = digits(part).ok_or_else(wrong)? * 10u64.pow(4 - part.len() as u32);
    let whole = digits(whole).filter(|w| *w <= 100).ok_or_else(wrong)?;
    u32::try_from(whole * 10_000 + part)
        .ok()
        .filter(|ppm| (MIN_PPM..=WHOLE_PPM).contains(ppm))
        .ok_or_else(wrong)
}

/// A share of the machine, as [`parse_percent`] reads it: "12.5%".
pub fn percent(ppm: u32) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn parse_pair(text: &str, such_as: &str) -> Result<(u64, u64), String> {
    let (a, b) = text
        .split_once('/')
        .ok_or_else(|| format!("\"{}\" is none of {such_as}, none", shorten(text)))?;
    Ok((parse_duration(a)?, parse_duration(b)?))
}

fn pair(a: u64, b: u64) -> String {
    format!("{}/{}", format_duration(a), format_duration(b))
}

fn in_range(what: &str, ns: u64, range: std::ops::RangeInclusive<u64>) -> Result<(), String> {
    if range.contains(&ns) {
        return Ok(());
    }
    let (min, max) = (
        format_duration(*range.start()),
        format_duration(*range.end()),
    );
    Err(format!(
        "{what} {} is not between {min} and {max}",
        format_duration(ns)
    ))
}

/// Digits only: no signs, exponents, spaces.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

fn word(text: &str) -> Result<&str, String> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_VALUE_BYTES {
        return Err(format!("a value has 1 to {MAX_VALUE_BYTES} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
