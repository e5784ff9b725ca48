//! `/etc/aplomb/aplomb.toml`. Every setting has a default. An unknown setting is an error with its
//! line.
//!
//! The thresholds are Redline's (section 6.1). bpf/state/state.bpf.h and the shipped
//! dist/aplomb.toml explain their trade-offs.

use std::ops::Range;
use std::path::{Path, PathBuf};

use aplomb_kernel::facts::Machine;
use aplomb_kernel::{limits, CpuCapacities, ServerPolicy, Settings};
use aplomb_spec::limits::MAX_GUARANTEED_PPM;
use serde::Deserialize;
use toml::Spanned;

use crate::protocol::NetWanted;

mod disk;
mod domains;
mod memory;
mod net;

pub use disk::{check_round, weight as check_disk_weight, DiskConfig};
pub use domains::WantedDomain;
pub use memory::MemoryConfig;

/// The configuration file, unless `--config` names another.
pub const PATH: &str = "/etc/aplomb/aplomb.toml";
/// Bytes of a configuration file.
const MAX_BYTES: u64 = 64 * 1024;

/// What an unprivileged user may reserve for their own processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserLimit {
    /// All reservations of the user together, ppm of one CPU.
    pub bandwidth_ppm: u64,
    /// Number of reservations.
    pub reservations: usize,
    /// Shortest period, ns. Shorter ones cost more than they give.
    pub min_period_ns: u64,
}

/// The daemon's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub kernel: Settings,
    pub user: UserLimit,
    pub memory: MemoryConfig,
    pub disk: DiskConfig,
    /// The domains to create at start, in the order of the file.
    pub domains: Vec<WantedDomain>,
    /// The interfaces whose packets to order.
    pub net: Vec<NetWanted>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            kernel: Settings::default(),
            user: UserLimit {
                bandwidth_ppm: 100_000,
                reservations: 8,
                min_period_ns: 10_000_000,
            },
            memory: MemoryConfig::default(),
            disk: DiskConfig::default(),
            domains: Vec::new(),
            net: Vec::new(),
        }
    }
}

/// What is wrong with a configuration, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: larger than {MAX_BYTES} bytes", .0.display())]
    TooLong(PathBuf),
    #[error("{}:{line}: {message}", path.display())]
    Wrong {
        path: PathBuf,
        line: usize,
        message: String,
    },
}

/// The content of the file, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    r_lo: Option<Spanned<String>>,
    r_hi: Option<Spanned<String>>,
    r_max: Option<Spanned<String>>,
    fork_window: Option<Spanned<String>>,
    cpu_capacities: Option<Spanned<String>>,
    server: Option<Spanned<String>>,
    owner_limit: Option<Spanned<String>>,
    seat_limit: Option<Spanned<String>>,
    user_limit: Option<Spanned<String>>,
    user_reservations: Option<Spanned<i64>>,
    user_min_period: Option<Spanned<String>>,
    #[serde(default)]
    memory: memory::File,
    #[serde(default)]
    disk: disk::File,
    #[serde(default)]
    domain: Vec<Spanned<domains::File>>,
    #[serde(default)]
    net: Vec<Spanned<net::File>>,
}

impl Config {
    /// Read `path`. A file that does not exist means the defaults, unless it was asked for by name.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let file = path.unwrap_or(Path::new(PATH));
        let read = |source| ConfigError::Read {
            path: file.into(),
            source,
        };
        match std::fs::metadata(file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && path.is_none() => {
                return Ok(Self::default())
            }
            Err(e) => return Err(read(e)),
            Ok(m) if m.len() > MAX_BYTES => return Err(ConfigError::TooLong(file.into())),
            Ok(_) => {}
        }
        // The daemon does not start on a machine with more CPUs, or with an unknown number.
        let cpus = Machine::here().possible_cpus().unwrap_or(limits::MAX_CPUS);
        let cpus = cpus.min(limits::MAX_CPUS);
        Self::parse(file, &std::fs::read_to_string(file).map_err(read)?, cpus)
    }

    /// `cpus` is the number of the machine's possible CPUs.
    fn parse(path: &Path, text: &str, cpus: u32) -> Result<Self, ConfigError> {
        let wrong = |span: Option<Range<usize>>, message: String| ConfigError::Wrong {
            path: path.into(),
            line: line_of(text, span),
            message,
        };
        let file: File =
            toml::from_str(text).map_err(|e| wrong(e.span(), e.message().replace('\n', " ")))?;
        let mut config = Self::default();
        let kernel = &mut config.kernel;
        let at = |field: &str, span: Range<usize>, message: String| {
            wrong(Some(span), format!("field \"{field}\": {message}"))
        };
        for (field, value, place) in [
            ("r-lo", &file.r_lo, &mut kernel.r_lo_ppm),
            ("r-hi", &file.r_hi, &mut kernel.r_hi_ppm),
            ("r-max", &file.r_max, &mut kernel.r_max_ppm),
            (
                "owner-limit",
                &file.owner_limit,
                &mut kernel.owner_limit_ppm,
            ),
            ("seat-limit", &file.seat_limit, &mut kernel.seat_limit_ppm),
            (
                "user-limit",
                &file.user_limit,
                &mut config.user.bandwidth_ppm,
            ),
        ] {
            if let Some(v) = value {
                *place = parse_percent(v.get_ref()).map_err(|m| at(field, v.span(), m))?;
            }
        }
        let duration =
            |field, v: &Option<Spanned<String>>, range: Range<u64>, place: &mut u64| match v {
                None => Ok(()),
                Some(v) => match aplomb_spec::parse_duration(v.get_ref()) {
                    Ok(ns) if range.contains(&ns) => {
                        *place = ns;
                        Ok(())
                    }
                    Ok(_) => Err(at(
                        field,
                        v.span(),
                        format!(
                            "{} is not between {} and {}",
                            v.get_ref(),
                            aplomb_spec::format_duration(range.start),
                            aplomb_spec::format_duration(range.end - 1)
                        ),
                    )),
                    Err(m) => Err(at(field, v.span(), m)),
                },
            };
        duration(
            "fork-window",
            &file.fork_window,
            100_000..100_000_001,
            &mut kernel.fork_window_ns,
        )?;
        let period = 1_000_000..10_000_000_001;
        duration(
            "user-min-period",
            &file.user_min_period,
            period,
            &mut config.user.min_period_ns,
        )?;
        if let Some(v) = &file.server {
            kernel.server_policy = ServerPolicy::named(v.get_ref()).ok_or_else(|| {
                let names = ServerPolicy::ALL.map(ServerPolicy::name).join(", ");
                at(
                    "server",
                    v.span(),
                    format!("\"{}\" is none of {names}", v.get_ref()),
                )
            })?;
        }
        if let Some(v) = &file.cpu_capacities {
            kernel.cpu_capacities = CpuCapacities::parse(v.get_ref(), cpus)
                .map_err(|e| at("cpu-capacities", v.span(), e.to_string()))?;
        }
        if let Some(v) = &file.user_reservations {
            config.user.reservations = usize::try_from(*v.get_ref())
                .ok()
                .filter(|n| *n <= 1000)
                .ok_or_else(|| {
                    at(
                        "user-reservations",
                        v.span(),
                        format!("{} is not between 0 and 1000", v.get_ref()),
                    )
                })?;
        }
        config.memory = memory::read(file.memory, at)?;
        kernel.memory = config.memory.protect;
        kernel.programs_move = config.memory.protect && !aplomb_domain::is_booted();
        config.disk = disk::read(file.disk, config.memory.protect, at)?;
        config.net = net::read(file.net, at)?;
        config.domains = domains::read(file.domain, |field, span, message| {
            let line = line_of(text, Some(span.clone()));
            (line, at(field, span, message))
        })?;
        // r_max leaves best-effort work at least 5 %. The order of the thresholds keeps load
        // control from oscillating.
        if !(kernel.r_lo_ppm < kernel.r_hi_ppm
            && kernel.r_hi_ppm < kernel.r_max_ppm
            && kernel.r_max_ppm <= MAX_GUARANTEED_PPM)
        {
            let span = [&file.r_max, &file.r_hi, &file.r_lo]
                .into_iter()
                .flatten()
                .map(Spanned::span)
                .next();
            return Err(wrong(
                span,
                format!(
                    "it must hold r-lo < r-hi < r-max <= 95%, but they are {}, {} and {}",
                    percent(kernel.r_lo_ppm),
                    percent(kernel.r_hi_ppm),
                    percent(kernel.r_max_ppm)
                ),
            ));
        }
        Ok(config)
    }
}

/// The line (from 1) on which a span of `text` begins.
fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let start = span.map_or(0, |s| s.start.min(text.len()));
    text.as_bytes()[..start]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
        + 1
}

/// "12.5%" in ppm; from 0% to 100%.
fn parse_percent(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a percentage from 0% to 100%, such as \"10%\"");
    let number = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim_end();
    // Digits and one point only: no exponents, signs or infinities.
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(wrong());
    }
    let value: f64 = number.parse().map_err(|_| wrong())?;
    if value > 100.0 {
        return Err(wrong());
    }
    Ok((value * 10_000.0).round() as u64)
}

/// A share of a CPU for people: "12.5 %".
pub fn percent(ppm: u64) -> String {
    let tenths = (ppm + 500) / 1000;
    if tenths % 10 == 0 {
        format!("{} %", tenths / 10)
    } else {
        format!("{}.{} %", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("aplomb.toml"), text, 14).map_err(|e| e.to_string())
    }

    #[test]
    fn an_empty_file_and_no_file_are_the_defaults() {
        assert_eq!(parse("").unwrap(), Config::default());
        assert!(matches!(
            Config::load(Some(Path::new("/nonexistent/aplomb.toml"))),
            Err(ConfigError::Read { .. })
        ));
    }

    #[test]
    fn the_shipped_file_says_the_defaults() {
        let text = include_str!("../../../dist/aplomb.toml");
        assert_eq!(parse(text).unwrap(), Config::default());
        // The file must also be valid if every commented-out setting is enabled.
        let all: String = text
            .lines()
            .map(|l| match l.strip_prefix("#") {
                Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => {
                    setting.to_owned() + "\n"
                }
                _ => l.to_owned() + "\n",
            })
            .collect();
        // An interface has no default: the table is an example.
        let example = NetWanted {
            interface: "eth0".into(),
            rate: Some(38_000_000),
            overhead: 0,
            leaf: Default::default(),
        };
        let with_example = Config {
            net: vec![example],
            ..Config::default()
        };
        assert_eq!(parse(&all).unwrap(), with_example);
        assert_eq!(
            all.lines()
                .filter(|l| l.contains(" = ") && !l.starts_with('#'))
                .count(),
            31,
            "{all}"
        );
    }

    #[test]
    fn settings_are_read() {
        let c = parse("r-lo = \"50%\"\nr-max = \"92.5 %\"\nuser-limit = \"25%\"\nuser-reservations = 2\nowner-limit = \"30%\"\nseat-limit = \"50%\"\nfork-window = \"2ms\"\nserver = \"cbs-hard\"").unwrap();
        assert_eq!(c.kernel.server_policy, ServerPolicy::CbsHard);
        assert_eq!((c.kernel.r_lo_ppm, c.kernel.r_max_ppm), (500_000, 925_000));
        assert_eq!((c.user.bandwidth_ppm, c.user.reservations), (250_000, 2));
        let owners = (c.kernel.owner_limit_ppm, c.kernel.seat_limit_ppm);
        assert_eq!(owners, (300_000, 500_000));
        assert_eq!(c.kernel.fork_window_ns, 2_000_000);
        let c = parse("cpu-capacities = \"0-5=1024,6-13=614\"").unwrap();
        let CpuCapacities::Listed(list) = c.kernel.cpu_capacities else {
            panic!("{:?}", c.kernel);
        };
        let sum: u16 = list.as_slice().iter().sum();
        assert_eq!(sum, 6 * 1024 + 8 * 614);
    }

    #[test]
    fn errors_name_file_line_and_field() {
        for (text, line, words) in [
            ("\n\nr-low = \"5%\"", 3, "r-low"),
            ("r-lo = \"5\"", 1, "\"r-lo\""),
            ("# x\nr-lo = \"-5%\"", 2, "\"r-lo\""),
            ("r-lo = \"inf%\"", 1, "\"r-lo\""),
            ("r-lo = 5", 1, "string"),
            ("\nuser-limit = \"101%\"", 2, "\"user-limit\""),
            ("owner-limit = \"200%\"", 1, "\"owner-limit\""),
            ("user-reservations = -1", 1, "\"user-reservations\""),
            ("user-min-period = \"1us\"", 1, "\"user-min-period\""),
            ("fork-window = \"soon\"", 1, "\"fork-window\""),
            (
                "\nserver = \"edf\"",
                2,
                "\"server\": \"edf\" is none of redline, cbs-hard, cbs-soft, fcbs, deferred",
            ),
            ("server = 4", 1, "string"),
            (
                "\ncpu-capacities = \"alike\"",
                2,
                "\"cpu-capacities\": \"alike\" is not CPUs",
            ),
            (
                "cpu-capacities = \"13-14=512\"",
                1,
                "\"cpu-capacities\": there is no CPU 14: this machine has 14",
            ),
            ("r-hi = \"80%\"\nr-max = \"70%\"", 2, "r-lo < r-hi < r-max"),
            ("r-max = \"99%\"", 1, "95%"),
            ("r-lo = \"1%\"\nr-lo = \"2%\"", 2, "duplicate"),
            ("[users]", 1, "users"),
            (
                "[[net]]\ninterface = \"a\"\noverhead = 300",
                3,
                "\"net.overhead\": it is not",
            ),
            (
                "[[net]]\ninterface = \"a\"\nleaf = \"lifo\"",
                3,
                "\"lifo\" is none of fair, codel",
            ),
            ("[disk]\n\naccount = true", 3, "\"disk.account\": it takes"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.starts_with(&format!("aplomb.toml:{line}: ")),
                "{text:?}: {error}"
            );
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_specs_are_checked_against_is_the_default() {
        let usual = aplomb_spec::limits::USUAL_R_MAX_PPM;
        assert_eq!(Config::default().kernel.r_max_ppm, usual);
    }

    #[test]
    fn percentages_for_people() {
        assert_eq!(
            (percent(930_000), percent(166_666), percent(0)),
            ("93 %".into(), "16.7 %".into(), "0 %".into())
        );
    }
}
