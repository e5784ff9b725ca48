//! The options of `aplomb run` and `aplomb set`.

use std::ffi::OsString;

use aplomb_kernel::ServerPolicy;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::Args;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// CPU time and period, such as 5ms/30ms [default: the command's own spec]
    #[arg(long, value_name = "C/T", value_parser = parse_cpu)]
    pub cpu: Option<Cpu>,
    /// Private reserve: at least so much of its memory stays resident, whatever its age (K, M, G)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<Reserve>,
    /// Class at disks: soft-real-time (root), with a deadline of its requests if it has one
    /// (soft-real-time:40ms); rest. A program with a reservation is interactive there
    #[arg(long, value_name = "CLASS[:DEADLINE]", value_parser = parse_io)]
    pub io: Option<Io>,
    #[command(flatten)]
    pub how: How,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// Options of a reservation.
#[derive(Debug, Args)]
pub struct How {
    /// R: may be revoked in overload; G (root): guaranteed, that is admitted only if there is room
    /// for all that is promised, split over several CPUs if it fits on none, never revoked; I
    /// (root): children keep it too
    #[arg(long, value_name = "IRG", default_value = "R", requires = "cpu", value_parser = parse_flags)]
    pub flags: Flags,
    /// What becomes of it when its budget is used up [default: the machine's]
    ///
    /// fcbs: it uses what others left of their budgets; redline: it goes on as best-effort work;
    /// cbs-hard: it stops until its next period; cbs-soft (root): it gets its next budget at once,
    /// for a later deadline; deferred: as redline, and each period begins with a fifth in which it
    /// is best-effort work
    #[arg(long, value_name = "NAME", requires = "cpu", value_parser = server_parser())]
    pub server: Option<ServerPolicy>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["cpu", "clear", "memory"]).multiple(true))]
pub struct SetArgs {
    /// Process id
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// CPU time and period, such as 5ms/30ms
    #[arg(long, value_name = "C/T", value_parser = parse_cpu)]
    pub cpu: Option<Cpu>,
    /// Private reserve of memory, such as 32M; none: no reserve
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<Reserve>,
    #[command(flatten)]
    pub how: How,
    /// Take the reservation of CPU time away
    #[arg(long, conflicts_with_all = ["cpu", "flags", "server"])]
    pub clear: bool,
}

/// A private reserve of memory, bytes; None for "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve(pub Option<u64>);

/// A class at disks that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// The deadline of its requests, ns.
    SoftRealTime(Option<u64>),
    Rest,
}

/// C every T, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    pub runtime_ns: u64,
    pub period_ns: u64,
}

/// Letters of `--flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    pub inherit: bool,
    pub revocable: bool,
    pub guaranteed: bool,
}

fn parse_cpu(text: &str) -> Result<Cpu, String> {
    let (c, t) = text
        .split_once('/')
        .ok_or("write runtime/period, such as 5ms/30ms")?;
    let cpu = Cpu {
        runtime_ns: parse_age(c)?,
        period_ns: parse_age(t)?,
    };
    if cpu.runtime_ns == 0 || cpu.runtime_ns > cpu.period_ns {
        return Err("the runtime is longer than 0 and at most the period".into());
    }
    Ok(cpu)
}

fn parse_io(text: &str) -> Result<Io, String> {
    let (class, deadline) = match text.split_once(':') {
        Some((class, deadline)) => (class, Some(parse_age(deadline)?)),
        None => (text, None),
    };
    match (class, deadline) {
        (_, Some(0)) => Err("a deadline is longer than 0".into()),
        ("soft-real-time", deadline) => Ok(Io::SoftRealTime(deadline)),
        ("rest", None) => Ok(Io::Rest),
        ("rest", Some(_)) => Err("only soft-real-time has a deadline".into()),
        _ => Err("the classes are soft-real-time and rest".into()),
    }
}

fn parse_memory(text: &str) -> Result<Reserve, String> {
    aplomb_domain::parse_memory(text).map(Reserve)
}

pub fn parse_age(text: &str) -> Result<u64, String> {
    aplomb_spec::parse_duration(text.trim())
}

fn parse_flags(text: &str) -> Result<Flags, String> {
    let mut flags = Flags {
        inherit: false,
        revocable: false,
        guaranteed: false,
    };
    for letter in text.chars() {
        match letter {
            'I' => flags.inherit = true,
            'R' => flags.revocable = true,
            'G' => flags.guaranteed = true,
            _ => return Err(format!("'{letter}' is not a flag; I, R and G are")),
        }
    }
    if flags.revocable && flags.guaranteed {
        return Err("what is guaranteed (G) is never revoked (R)".into());
    }
    Ok(flags)
}

/// The names of the servers, for completions too.
fn server_parser() -> impl TypedValueParser<Value = ServerPolicy> {
    PossibleValuesParser::new(ServerPolicy::ALL.map(ServerPolicy::name))
        .try_map(|name| ServerPolicy::named(&name).ok_or("no such server"))
}

#[cfg(test)]
mod tests {
    use crate::cli::{Cli, Command};
    use clap::Parser;

    use super::*;

    #[test]
    fn run_takes_the_rest_as_it_is() {
        let cli = Cli::try_parse_from([
            "aplomb", "run", "--cpu", "5ms/30ms", "--", "mpv", "--fs", "-x",
        ])
        .unwrap();
        let Command::Run(run) = cli.command else {
            panic!()
        };
        assert_eq!(
            run.cpu,
            Some(Cpu {
                runtime_ns: 5_000_000,
                period_ns: 30_000_000
            })
        );
        assert_eq!(run.command, ["mpv", "--fs", "-x"]);
        assert_eq!(
            run.how.flags,
            Flags {
                inherit: false,
                revocable: true,
                guaranteed: false
            }
        );
        assert_eq!(run.how.server, None);
    }

    #[test]
    fn promises_and_servers_are_asked_for() {
        for server in ServerPolicy::ALL {
            let cpu = ["aplomb", "set", "812", "--cpu", "25ms/41ms"];
            let how = ["--flags", "IG", "--server", server.name()];
            let cli = Cli::try_parse_from(cpu.iter().chain(&how)).unwrap();
            let Command::Set(set) = cli.command else {
                panic!()
            };
            let flags = Flags {
                inherit: true,
                revocable: false,
                guaranteed: true,
            };
            assert_eq!((set.how.flags, set.how.server), (flags, Some(server)));
        }
    }

    #[test]
    fn a_class_at_disks_may_have_a_deadline() {
        assert_eq!(parse_io("soft-real-time"), Ok(Io::SoftRealTime(None)));
        let deadline = Io::SoftRealTime(Some(40_000_000));
        assert_eq!(parse_io("soft-real-time:40ms"), Ok(deadline));
        assert_eq!(parse_io("rest"), Ok(Io::Rest));
        for wrong in [
            "rest:1s",
            "interactive",
            "soft-real-time:0",
            "soft-real-time:x",
        ] {
            assert!(parse_io(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_is_asked_for_alone_or_with_a_reservation() {
        let run = |args: &[&str]| {
            let all = ["aplomb", "run"].iter().chain(args).chain(&["--", "x"]);
            let Command::Run(run) = Cli::try_parse_from(all).unwrap().command else {
                panic!()
            };
            (run.memory, run.cpu.is_some())
        };
        let reserve = Some(Reserve(Some(32 << 20)));
        assert_eq!(run(&["--memory", "32M"]), (reserve, false));
        assert_eq!(
            run(&["--memory", "32M", "--cpu", "5ms/30ms"]),
            (reserve, true)
        );
        for (args, memory, cpu, clear) in [
            (
                &["--memory", "none"] as &[&str],
                Reserve(None),
                false,
                false,
            ),
            (
                &["--memory", "1G", "--cpu", "5ms/30ms"],
                Reserve(Some(1 << 30)),
                true,
                false,
            ),
            (
                &["--memory", "64K", "--clear"],
                Reserve(Some(64 << 10)),
                false,
                true,
            ),
        ] {
            let all = ["aplomb", "set", "812"].iter().chain(args);
            let Command::Set(set) = Cli::try_parse_from(all).unwrap().command else {
                panic!()
            };
            let found = (set.memory, set.cpu.is_some(), set.clear);
            assert_eq!(found, (Some(memory), cpu, clear), "{args:?}");
        }
    }
}
