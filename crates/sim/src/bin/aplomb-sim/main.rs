//! `aplomb-sim`: plays scenarios, and the papers' studies over many runs, in virtual time.
//!
//! A program of its own: the daemon, which runs as root, does not contain it. It needs neither root
//! nor the kernel side.
//!
//! | file | what |
//! |---|---|
//! | `play.rs` | one scenario, once or with many seeds |
//! | `sets.rs` | schedulability of random task sets |
//! | `movies.rs` | frames per second of several movies |
//! | `scaling.rs` | what machines of many CPUs get done |
//! | `hybrid.rs` | what programs get on CPUs that differ |
//! | `locality.rs` | how often tasks change the cache |
//! | `shares.rs` | what two domains have of many CPUs |
//! | `study.rs` | what the studies share: options, the pool of workers, JSON |
//! | `progress.rs` | the line that shows how far a long command is |
//! | `docs.rs` | completions and the manual page |

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::Result;
use aplomb_sim::worker;
use clap::{CommandFactory, Parser, Subcommand};

mod docs;
mod hybrid;
mod locality;
mod movies;
mod play;
mod progress;
mod scaling;
mod sets;
mod shares;
mod study;

/// Plays workloads in virtual time: under aplomb's own scheduler source, and under models of others
///
/// The simulator takes the kernel's part. It runs the same scheduler source that the daemon loads
/// into the kernel. The same scenario and seed give the same result, event by event.
#[derive(Parser)]
#[command(
    name = "aplomb-sim",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  aplomb-sim play scenarios/bomb.toml --svg bomb.svg\n  \
                  aplomb-sim schedulability --sets 100 --length 10s\n  \
                  aplomb-sim movies --count 4,5,6\n\n\
                  Exit codes:\n  0  success\n  1  failure\n  \
                  2  wrong use, or an error in a scenario"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play a scenario: what each task got, and a picture of which task ran when
    #[command(after_help = play::EXAMPLES)]
    Play(play::Args),
    /// Count the random task sets that meet all deadlines (Kato and others, figures 21 to 23)
    #[command(after_help = sets::EXAMPLES)]
    Schedulability(sets::Args),
    /// Count the frames per second of several movies (Kato and others, figures 8 to 12, 15 to 18)
    #[command(after_help = movies::EXAMPLES)]
    Movies(movies::Args),
    /// Count what machines of 1 to 1,024 CPUs get done, if the scheduler's own work takes time
    #[command(after_help = scaling::EXAMPLES)]
    Scaling(scaling::Args),
    /// Measure what programs get on a machine of fast and slow CPUs
    #[command(after_help = hybrid::EXAMPLES)]
    Hybrid(hybrid::Args),
    /// Count how often tasks change the cache on a machine with several
    #[command(after_help = locality::EXAMPLES)]
    Locality(locality::Args),
    /// Measure what two domains with weights have of machines of 1 to 1,024 CPUs
    #[command(after_help = shares::EXAMPLES)]
    Shares(shares::Args),
    /// Print shell completions
    #[command(after_help = docs::COMPLETIONS_EXAMPLES)]
    Completions { shell: clap_complete::Shell },
    /// Print the manual page
    #[command(after_help = docs::MAN_EXAMPLES)]
    Man(docs::ManArgs),
    /// Answer jobs from standard input (the other commands start this one)
    #[command(hide = true)]
    Worker,
}

/// A mistake in the command line or in a scenario: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(String);

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Play(args) => play::play(&args),
        Command::Schedulability(args) => sets::run(&args),
        Command::Movies(args) => movies::run(&args),
        Command::Scaling(args) => scaling::run(&args),
        Command::Hybrid(args) => hybrid::run(&args),
        Command::Locality(args) => locality::run(&args),
        Command::Shares(args) => shares::run(&args),
        Command::Completions { shell } => docs::completions(shell),
        Command::Man(args) => docs::man(&args),
        Command::Worker => worker::run().map_err(anyhow::Error::from),
    };
    result.map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}

/// Print an error, and return the exit code that it means.
fn report(error: &anyhow::Error) -> ExitCode {
    let io = error.downcast_ref::<std::io::Error>();
    if io.is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS; // the reader of the output has ended (`aplomb-sim … | head`)
    }
    eprintln!("error: {error:#}");
    ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
}

/// The definition of the command line, for completions and the manual page.
fn command() -> clap::Command {
    Cli::command()
}

/// Print text to standard output. Unlike `print!` it returns the error if the reader has ended.
fn print(text: &str) -> Result<()> {
    use std::io::Write;
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        let all = command();
        for sub in all.get_subcommands().filter(|s| !s.is_hide_set()) {
            let name = sub.get_name();
            assert!(sub.get_about().is_some(), "{name}");
            let help = sub
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                help.contains("Example") && help.contains("  aplomb-sim "),
                "{name}: {help}"
            );
        }
    }
}
