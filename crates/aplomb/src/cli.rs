//! The command line: commands, options, help.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub use self::disk::{DiskClass, DiskCommand};
pub use self::domain::{DomainCommand, DomainRun};
pub use self::net::{NetChange, NetCommand, SocketsOf};
pub use self::run::{Cpu, Flags, How, Io, Reserve, RunArgs, SetArgs};
use crate::exit::{code_of, Exit, HELP};
use crate::{commands, daemon};
use tracing::error;

mod disk;
mod domain;
mod net;
mod run;

use run::parse_age;

/// Keeps interactive applications responsive, whatever else the machine is doing.
///
/// aplomb is a scheduler for stock Linux kernels (sched_ext). Programs that have a specification,
/// such as "5 ms of CPU in every 30 ms", get that time by right; everything else shares what is
/// left.
#[derive(Debug, Parser)]
#[command(name = "aplomb", version, after_help = HELP, after_long_help = HELP, max_term_width = 100)]
pub struct Cli {
    /// The daemon's socket
    #[arg(long, global = true, value_name = "PATH", default_value = daemon::lock::SOCKET)]
    pub socket: PathBuf,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon: attach the scheduler and answer on the socket (root)
    #[command(
        after_help = "Examples:\n  sudo aplomb daemon                       until Ctrl-C; then everything is as before\n  sudo aplomb daemon --specs /opt/specs    with specs of your own, in a folder of root's"
    )]
    Daemon(DaemonArgs),
    /// Start a command with a reservation
    #[command(
        after_help = "Examples:\n  aplomb run --cpu 5ms/30ms -- mpv film.mkv    5 ms of CPU in every 30 ms\n  aplomb run -- mpv film.mkv                   by mpv's own spec; an error if it has none\n  aplomb run --memory 32M -- mpv film.mkv      likewise, and at least 32 MB of its memory stay\n  sudo aplomb run --cpu 25ms/41ms --flags G -- mpv film.mkv    a promise, on several CPUs if need be\n\nUsers may reserve within their limit (10 % of a CPU unless the administrator changed it), from a period\nof 10 ms on. The reservation ends with the command."
    )]
    Run(RunArgs),
    /// Give a running process a reservation of CPU time or of memory, or take it away
    #[command(
        after_help = "Examples:\n  aplomb set 812 --cpu 5ms/30ms\n  sudo aplomb set 812 --cpu 5ms/30ms --server cbs-hard    5 ms in every 30 ms and never more\n  aplomb set 812 --clear\n  aplomb set 812 --memory 64M    at least 64 MB of its memory stay; --memory none: no such reserve"
    )]
    Set(SetArgs),
    /// Show the scheduler's state, the load of each CPU and the interactive tasks
    #[command(after_help = "Examples:\n  aplomb status\n  aplomb status --json | jq .attached")]
    Status(JsonArgs),
    /// List, show, check, add and remove specifications
    #[command(subcommand)]
    Spec(SpecCommand),
    /// The domain tree: shares, reservations, limits and policies of cgroups
    #[command(subcommand)]
    Domain(DomainCommand),
    /// Disks: what they do, and for how long requests wait
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Network interfaces: their packets in the order of the domain tree
    #[command(subcommand)]
    Net(NetCommand),
    /// Show what the scheduler decided, and why
    #[command(
        after_help = "Examples:\n  aplomb log --since 10min\n  aplomb log --follow\n  aplomb log --why 812        the story of process 812, in words"
    )]
    Log(LogArgs),
    /// Report what this kernel and machine can and cannot do, and what to change
    #[command(
        after_help = "Examples:\n  aplomb doctor\n  aplomb doctor --json | jq .\n\nNeeds neither the daemon nor root. Exits with 3 if aplomb cannot run here."
    )]
    Doctor(JsonArgs),
    /// Until 0.2: names `aplomb-sim`, which plays scenarios now
    #[command(hide = true, disable_help_flag = true)]
    Sim {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Keep a thread off the CPU for a moment (root)
    #[command(
        after_help = "Examples:\n  sudo aplomb park 812 --for 50ms    at its next return to user mode, for at most 100 ms\n  sudo aplomb park 812 --for 0ms     it goes on\n\nFor tests and for a look at what a program does when it is held. Needs Linux 7.0 or newer."
    )]
    Park {
        /// The thread's id
        tid: i32,
        /// How long; a park of more than 100 ms is cut to that
        #[arg(long = "for", value_name = "TIME", value_parser = parse_age)]
        length_ns: u64,
    },
    /// Read the specs again (root); a daemon that watches them does it by itself
    #[command(after_help = "Example:\n  sudo aplomb reload")]
    Reload,
    /// End the daemon (root): the kernel's own scheduler goes on
    #[command(after_help = "Example:\n  sudo aplomb stop")]
    Stop,
    /// Put back what a daemon that was killed has left (root)
    #[command(
        after_help = "Example:\n  sudo aplomb restore\n\nSettings of the kernel that the daemon changed for memory, disks and networks get their old values, unless another\nprogram changed them since, and processes leave the daemon's memory domains. The next daemon does so, too, and\nsystemd whenever the daemon has ended (ExecStopPost). Fails while a daemon runs."
    )]
    Restore,
    /// Print shell completions
    #[command(
        after_help = "Example:\n  aplomb completions bash > /usr/share/bash-completion/completions/aplomb"
    )]
    Completions { shell: Shell },
    /// Print the manual page, or write the pages of all commands
    #[command(
        after_help = "Examples:\n  aplomb man | man -l -                       read the main page\n  sudo aplomb man /usr/local/share/man/man8   install the pages of all commands"
    )]
    Man {
        /// Write one page for each command into this folder instead
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// Stay in the foreground (it always does; for scripts that say so)
    #[arg(long)]
    pub foreground: bool,
    /// Configuration file [default: /etc/aplomb/aplomb.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read the vendor's specs from this folder instead of /usr/lib/aplomb/specs.d. Like all
    /// folders of specs it must be root's alone: so must be those on the way to it
    #[arg(long, value_name = "DIR")]
    pub specs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LogArgs {
    /// Go on with new events until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Explain the decisions about one process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "json")]
    pub why: Option<i32>,
    /// Only events about this process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Only events younger than this, such as 10min
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub since: Option<u64>,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Example:\n  aplomb spec check mine.toml && sudo aplomb spec add mine.toml\n  aplomb spec show mpv"
)]
pub enum SpecCommand {
    /// List the specs in force
    #[command(
        after_help = "Examples:\n  aplomb spec list\n  aplomb spec list --json | jq -r '.[].name'"
    )]
    List(JsonArgs),
    /// Show one, and what it means on this machine
    #[command(after_help = "Example:\n  aplomb spec show mpv")]
    Show {
        name: String,
        #[arg(long)]
        json: bool,
    },
    /// Check files of specs; needs neither daemon nor root
    #[command(
        after_help = "Examples:\n  aplomb spec check mine.toml\n  aplomb spec check /etc/aplomb/spec.tab"
    )]
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// Check a file of specs and put it into /etc/aplomb/specs.d (root)
    #[command(
        after_help = "Examples:\n  sudo aplomb spec add mine.toml\n  sudo aplomb spec add --runtime mine.toml     to try it"
    )]
    Add {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Until the next boot only (/run/aplomb/specs.d)
        #[arg(long)]
        runtime: bool,
    },
    /// Take a spec out of force (root): its file if `spec add` put it there, else by an override
    #[command(after_help = "Example:\n  sudo aplomb spec remove mpv")]
    Remove { name: String },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The whole program: parse the command line, run the command, and report a failure.
pub fn main() -> ExitCode {
    crate::log::init();
    let cli = Cli::parse(); // ends the program with 2 on wrong use, with 0 on --help
    match commands::run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The reader of our output may have ended (`aplomb log | head`).
            if error
                .downcast_ref::<std::io::Error>()
                .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            {
                return Exit::Ok.into();
            }
            error!("{error:#}");
            code_of(&error).into()
        }
    }
}

/// The clap command, for completions and man pages.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn wrong_use_is_refused() {
        for args in [
            &["run"] as &[&str],
            &["run", "--cpu", "30ms/5ms", "--", "x"],
            &["run", "--cpu", "5ms", "--", "x"],
            &["run", "--cpu", "5/30", "--", "x"],
            &["run", "--cpu", "0ms/30ms", "--", "x"],
            &["run", "--flags", "X", "--cpu", "5ms/30ms", "--", "x"],
            &["run", "--flags", "GR", "--cpu", "5ms/30ms", "--", "x"],
            &["run", "--server", "edf", "--cpu", "5ms/30ms", "--", "x"],
            &["run", "--server", "fcbs", "--", "x"],
            &["set", "812", "--clear", "--server", "fcbs"],
            &["set", "812", "--clear", "--flags", "G"],
            &["set", "812"],
            &["set", "812", "--memory", "32"],
            &["set", "812", "--memory", "lots"],
            &["run", "--memory", "32M"],
            &["set", "0", "--clear"],
            &["set", "812", "--clear", "--cpu", "5ms/30ms"],
            &["log", "--since", "yesterday"],
            &["spec", "check"],
        ] {
            assert!(
                Cli::try_parse_from(["aplomb"].iter().chain(args)).is_err(),
                "{args:?}"
            );
        }
    }

    #[test]
    fn the_old_name_of_the_simulator_takes_any_arguments() {
        for args in [
            &["sim"] as &[&str],
            &["sim", "--help"],
            &["sim", "a.toml", "--runs", "3"],
        ] {
            let cli = Cli::try_parse_from(["aplomb"].iter().chain(args)).unwrap();
            assert!(matches!(cli.command, Command::Sim { args: given } if given == args[1..]));
        }
    }

    #[test]
    fn every_command_has_help() {
        helps(&command());
    }

    /// Every command below `group` has help with an example.
    fn helps(group: &clap::Command) {
        let shown = |s: &&clap::Command| s.get_name() != "help" && !s.is_hide_set();
        for sub in group.get_subcommands().filter(shown) {
            let name = format!("{} {}", group.get_name(), sub.get_name());
            assert!(sub.get_about().is_some(), "{name}");
            let help = sub.get_after_help().map(ToString::to_string);
            let words = help.unwrap_or_default();
            assert!(
                words.contains("Example")
                    && (words.contains("  aplomb ") || words.contains("  sudo aplomb ")),
                "{name}"
            );
            helps(sub);
        }
    }
}
