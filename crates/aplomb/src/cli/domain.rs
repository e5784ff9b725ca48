//! `aplomb domain …`: its commands and options.

use std::ffi::OsString;
use std::time::Duration;

use aplomb_domain::{Change, DomainPath};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
#[command(
    after_help = "A domain is a cgroup, named by its path below the cgroup root. Changes:
  cpu=25%          reserve a quarter of the machine; cpu=10ms/100ms: of one CPU; cpu=none
  io=20%           of each disk's time, while others want it; io=none
  memory=200M      as much of its memory stays while others want it; memory=none
  weight=200       share, relative to the domains beside it (1 to 10000; 100 unless set)
  max=50%          at most half of the machine; max=20ms/100ms: CPU time in each period; max=none
  policy=mtr       how its members are ordered: default, sfq, mtr, wrr, fair, fifo
  idle=1           runs only when no domain beside it has work

Example:
  sudo aplomb domain create media weight=300 cpu=25%
  sudo aplomb domain run media -- mpv film.mkv
  aplomb domain ls"
)]
pub enum DomainCommand {
    /// Show the tree: weight, policy, reservations, limit, share asked and share received
    #[command(after_help = "Examples:
  aplomb domain ls --over 10s     received: over the next ten seconds
  aplomb domain ls --memory       what each has of memory, and what was taken from it
  aplomb domain ls --disk         what each had the disks read and write, and of their time")]
    Ls {
        /// Look at what each receives for so long (0.1s to 1min)
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = over)]
        over: Duration,
        /// Show memory: in use, protected, taken by the kernel, parks for it
        #[arg(long)]
        memory: bool,
        /// Show disks: read, written, what is still to be written, parks for it
        #[arg(long, conflicts_with = "memory")]
        disk: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one domain
    #[command(after_help = "Example:\n  aplomb domain show user.slice")]
    Show {
        domain: DomainPath,
        /// Look at what it receives for so long (0.1s to 1min)
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = over)]
        over: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a domain and its missing parents
    #[command(
        after_help = "Examples:\n  sudo aplomb domain create media\n  sudo aplomb domain create media/video weight=300 policy=mtr"
    )]
    Create {
        domain: DomainPath,
        /// Its settings: see `aplomb domain --help`
        #[arg(value_name = "KEY=VALUE")]
        changes: Vec<Change>,
        /// Let the daemon remove the domain when its last process has exited
        #[arg(long)]
        ephemeral: bool,
    },
    /// Remove a domain that has neither processes nor domains below
    #[command(after_help = "Example:\n  sudo aplomb domain remove media/video")]
    Remove { domain: DomainPath },
    /// Change a domain
    #[command(
        after_help = "Examples:\n  sudo aplomb domain set media weight=200 cpu=25%\n  sudo aplomb domain set media cpu=none\n  sudo aplomb domain set media memory=200M"
    )]
    Set {
        domain: DomainPath,
        /// See `aplomb domain --help`
        #[arg(value_name = "KEY=VALUE", required = true)]
        changes: Vec<Change>,
    },
    /// Move processes, each with all its threads, into a domain
    #[command(after_help = "Example:\n  sudo aplomb domain move media 812 813")]
    Move {
        domain: DomainPath,
        #[arg(value_name = "PID", required = true, value_parser = clap::value_parser!(i32).range(1..))]
        pids: Vec<i32>,
    },
    /// Start a command in a domain, which is created if it is missing
    #[command(after_help = "Example:\n  sudo aplomb domain run --ephemeral build -- make -j8")]
    Run(DomainRun),
}

#[derive(Debug, Args)]
pub struct DomainRun {
    pub domain: DomainPath,
    /// If the domain is created, let the daemon remove it when its last process has exited
    #[arg(long)]
    pub ephemeral: bool,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

pub fn over(text: &str) -> Result<Duration, String> {
    let ns = aplomb_spec::parse_duration(text)?;
    if (100_000_000..=60_000_000_000).contains(&ns) {
        return Ok(Duration::from_nanos(ns));
    }
    Err("from 0.1s to 1min".into())
}

#[cfg(test)]
mod tests {
    use crate::cli::{Cli, Command};
    use clap::Parser;

    use super::*;

    fn parse(args: &[&str]) -> Result<DomainCommand, String> {
        let all = ["aplomb", "domain"].iter().chain(args);
        match Cli::try_parse_from(all).map_err(|e| e.to_string())?.command {
            Command::Domain(command) => Ok(command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_are_checked_where_they_are_written() {
        let DomainCommand::Set { domain, changes } =
            parse(&["set", "media", "weight=200", "cpu=25%"]).unwrap()
        else {
            panic!()
        };
        assert_eq!(domain.to_string(), "media");
        assert_eq!(changes.len(), 2);
        for (args, words) in [
            (&["set", "media"] as &[&str], "KEY=VALUE"),
            (&["set", "../x", "weight=1"], "\"..\""),
            (&["set", "media", "weight=0"], "no weight"),
            (
                &["set", "media", "mem=1"],
                "none of cpu, memory, io, net.weight, net.max, weight",
            ),
            (&["move", "media", "0"], "0"),
            (&["run", "media"], "COMMAND"),
            (&["ls", "--over", "1h"], "0.1s to 1min"),
        ] {
            let e = parse(args).unwrap_err();
            assert!(e.contains(words), "{args:?}: {e}");
        }
    }

    #[test]
    fn run_takes_the_rest_as_it_is() {
        let args = ["run", "--ephemeral", "build", "--", "make", "-j8"];
        let DomainCommand::Run(run) = parse(&args).unwrap() else {
            panic!()
        };
        assert!(run.ephemeral);
        assert_eq!(run.command, ["make", "-j8"]);
    }
}
