//! The commands, each in a file.

use std::io::Write;

use anyhow::Result;
use aplomb_kernel::{Kernel, Part, Scheduler};
use aplomb_spec::{Dirs, LoadOptions};
use serde::Serialize;

use crate::cli::{Cli, Command, DaemonArgs, DiskCommand, SpecCommand};
use crate::client::Client;
use crate::daemon::{self, Options, Sources};
use crate::exit::{Exit, Failure};
use crate::protocol::{Answer, Ask};

mod disk;
mod docs;
mod doctor;
mod domain;
mod log;
mod memory;
mod net;
mod run;
mod spec;
mod status;
mod table;

/// Run the command.
///
/// # Errors
/// The failure of the command. [`crate::exit::code_of`] has its exit code.
pub fn run(cli: Cli) -> Result<Exit> {
    let socket = cli.socket.as_path();
    match cli.command {
        Command::Daemon(args) => start_daemon(socket, &args),
        Command::Run(args) => run::run(socket, &args),
        Command::Set(args) => run::set(socket, &args),
        Command::Status(args) => status::status(socket, args.json),
        Command::Spec(SpecCommand::List(args)) => spec::list(socket, args.json),
        Command::Spec(SpecCommand::Show { name, json }) => spec::show(socket, &name, json),
        Command::Spec(SpecCommand::Check { files, json }) => spec::check(&files, json),
        Command::Spec(SpecCommand::Add { file, runtime }) => spec::add(socket, &file, runtime),
        Command::Spec(SpecCommand::Remove { name }) => spec::remove(socket, &name),
        Command::Domain(command) => domain::domain(socket, &command),
        Command::Disk(DiskCommand::Ls { over, json }) => disk::list_all(socket, over, json),
        Command::Disk(command) => send(socket, disk::ask(&command)),
        Command::Net(command) => net::net(socket, command),
        Command::Log(args) => log::log(socket, &args),
        Command::Doctor(args) => doctor::doctor(args.json),
        Command::Sim { args } => Err(moved(&args).into()),
        Command::Park { tid, length_ns } => send(
            socket,
            Ask::Park {
                tid,
                for_ns: length_ns,
            },
        ),
        Command::Reload => reload(socket),
        Command::Stop => send(socket, Ask::Stop {}),
        Command::Restore => restore(),
        Command::Completions { shell } => docs::completions(shell),
        Command::Man { dir } => docs::man(dir.as_deref()),
    }
}

fn start_daemon(socket: &std::path::Path, args: &DaemonArgs) -> Result<Exit> {
    let mut dirs = Dirs::system();
    if let Some(specs) = &args.specs {
        dirs.vendor = std::path::absolute(specs)?;
    }
    let options = Options {
        config: args.config.clone(),
        socket: socket.into(),
        sources: Sources {
            dirs,
            options: LoadOptions::default(),
            root: "/".into(),
        },
    };
    let load = |settings: &_| Scheduler::load(settings).map(|s| Box::new(s) as Box<dyn Kernel>);
    daemon::run(&options, Box::new(load))?;
    Ok(Exit::Ok)
}

/// `aplomb sim ARGS` of 0.1 is `aplomb-sim play ARGS` now. This message stays for one release.
fn moved(args: &[String]) -> Failure {
    let command = ["aplomb-sim play", &args.join(" ")].join(" ");
    let message = format!(
        "the simulator is a program of its own now: {}",
        command.trim_end()
    );
    Failure::new(Exit::Usage, message)
}

/// Send a request whose answer is one sentence, and print it.
fn send(socket: &std::path::Path, ask: Ask) -> Result<Exit> {
    if let Answer::Done(text) = Client::connect(socket)?.call(ask)? {
        line(text)?;
    }
    Ok(Exit::Ok)
}

/// Put back what a killed daemon has left.
fn restore() -> Result<Exit> {
    let complaints = daemon::restore()?;
    for complaint in &complaints {
        tracing::warn!("{complaint}");
    }
    for complaint in daemon::net::restore(None) {
        tracing::warn!("{complaint}");
    }
    Ok(Exit::Ok)
}

/// Have the daemon read the specs again. The exit code is 2 if a spec has an error; the other specs
/// are in force.
fn reload(socket: &std::path::Path) -> Result<Exit> {
    let mut client = Client::connect(socket)?;
    if let Answer::Done(text) = client.call(Ask::Reload {})? {
        line(text)?;
    }
    match client.call(Ask::Status {})? {
        Answer::Status(status) if status.spec_errors.is_empty() => Ok(Exit::Ok),
        Answer::Status(_) => Ok(Exit::Usage),
        _ => Err(unexpected()),
    }
}

/// Print a line. Unlike println! it returns the error if the reader has ended.
fn line(text: impl std::fmt::Display) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")
}

fn print_json(value: &impl Serialize) -> Result<()> {
    Ok(line(serde_json::to_string_pretty(value)?)?)
}

/// The CPUs of a reservation: "1", "0+1" if it is split, "-" if it never had one.
fn cpus(cpu: i32, parts: &[Part]) -> String {
    match parts {
        [] if cpu < 0 => "-".into(),
        [] => cpu.to_string(),
        _ => parts
            .iter()
            .map(|p| p.cpu.to_string())
            .collect::<Vec<_>>()
            .join("+"),
    }
}

/// The error for a line that is not understood, because the daemon has another version.
fn unexpected() -> anyhow::Error {
    anyhow::anyhow!(crate::client::UNEXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_name_of_the_simulator_leads_to_the_new_program() {
        let failure = moved(&["bomb.toml".into(), "--json".into()]);
        assert_eq!(failure.exit, Exit::Usage);
        assert!(
            failure
                .message
                .ends_with("aplomb-sim play bomb.toml --json"),
            "{failure}"
        );
    }
}
