//! `aplomb run` and `aplomb set`: reservations by request.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use aplomb_disk::Priority;
use aplomb_domain::{is_booted, Tree};
use aplomb_kernel::ServerState;

use super::{cpus, line, unexpected};
use crate::cli::{Cpu, How, Io, Reserve, RunArgs, SetArgs};
use crate::client::Client;
use crate::config::percent;
use crate::domains::with_manager;
use crate::exit::{Exit, Failure};
use crate::protocol::{Answer, Ask, Code, Refusal, ReservedLine, Wanted};
use tracing::warn;

pub fn run(socket: &Path, args: &RunArgs) -> Result<Exit> {
    let (program, rest) = args.command.split_first().ok_or_else(unexpected)?;
    let mut client = Client::connect(socket)?;
    if args.cpu.is_none() && args.io.is_none() {
        require_spec(&mut client, program)?;
    }
    if let Some(Reserve(bytes)) = args.memory {
        reserve_memory(&mut client, None, bytes)?;
    }
    if let Some(cpu) = args.cpu {
        let reserved = reserve(&mut client, None, cpu, &args.how)?;
        warn_unless_admitted(&reserved);
    }
    if let Some(io) = args.io {
        take_class(io)?;
    }
    drop(client);
    own_scope();
    let error = Command::new(program).args(rest).exec(); // returns only on failure
    let exit = match error.kind() {
        std::io::ErrorKind::NotFound => Exit::NotFound,
        _ => Exit::CannotExecute,
    };
    Err(Failure::new(exit, format!("{}: {error}", program.to_string_lossy())).into())
}

/// This thread has the class from now on, over the exec, and so has what the command starts.
fn take_class(io: Io) -> Result<()> {
    let priority = match io {
        Io::SoftRealTime(deadline) => Priority::soft_real_time(deadline),
        Io::Rest => Priority::rest(),
    };
    priority.give(0).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::new(
            Exit::Permission,
            "only root may use the class soft-real-time".to_owned(),
        )
        .into(),
        _ => anyhow::Error::from(e).context("ioprio_set"),
    })
}

/// Where systemd runs, a command of root gets a scope of its own. So it has its own share, and can
/// be listed and ended by itself. A user's command stays in the user's session, because the system
/// manager accepts no scopes from users.
fn own_scope() {
    if !rustix::process::getuid().is_root() || !is_booted() {
        return;
    }
    let scoped = Tree::system().and_then(|tree| with_manager(&tree, |m| m.scope()));
    if let Err(e) = scoped {
        warn!("the command has no scope of its own: {e}");
    }
}

pub fn set(socket: &Path, args: &SetArgs) -> Result<Exit> {
    let mut client = Client::connect(socket)?;
    if let Some(Reserve(bytes)) = args.memory {
        line(reserve_memory(&mut client, Some(args.pid), bytes)?)?;
    }
    let Some(cpu) = args.cpu else {
        if !args.clear {
            return Ok(Exit::Ok);
        }
        let Answer::Done(text) = client.call(Ask::Release { pid: args.pid })? else {
            return Err(unexpected());
        };
        line(text)?;
        return Ok(Exit::Ok);
    };
    let reserved = reserve(&mut client, Some(args.pid), cpu, &args.how)?;
    warn_unless_admitted(&reserved);
    if reserved.state == ServerState::Admitted {
        line(format!(
            "process {} has its reservation on CPU {}",
            reserved.pid,
            cpus(reserved.cpu, &reserved.parts)
        ))?;
    }
    Ok(Exit::Ok)
}

fn reserve(client: &mut Client, pid: Option<i32>, cpu: Cpu, how: &How) -> Result<ReservedLine> {
    let ask = Ask::Reserve(Wanted {
        pid,
        runtime_ns: cpu.runtime_ns,
        period_ns: cpu.period_ns,
        inherit: how.flags.inherit,
        keep: !how.flags.revocable,
        guaranteed: how.flags.guaranteed,
        server: how.server,
    });
    match client.call(ask)? {
        Answer::Reserved(reserved) => Ok(reserved),
        _ => Err(unexpected()),
    }
}

/// Ask for a private reserve of memory. Returns what the daemon says.
fn reserve_memory(client: &mut Client, pid: Option<i32>, bytes: Option<u64>) -> Result<String> {
    match client.call(Ask::Memory { pid, bytes })? {
        Answer::Done(text) => Ok(text),
        _ => Err(unexpected()),
    }
}

fn warn_unless_admitted(reserved: &ReservedLine) {
    if reserved.state != ServerState::Admitted {
        warn!(
            "the CPUs are taken (load {}): process {} runs as best-effort work until there is room",
            percent(reserved.load_ppm),
            reserved.pid
        );
    }
}

/// Without --cpu a command runs by its own spec, so it must have one.
fn require_spec(client: &mut Client, program: &OsStr) -> Result<()> {
    let Answer::Specs(specs) = client.call(Ask::Specs {})? else {
        return Err(unexpected());
    };
    let Some(file) = find_in_path(program) else {
        return Ok(());
    }; // not found: exec reports the error
    let file = std::fs::canonicalize(&file).unwrap_or(file);
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let known = specs.iter().any(|s| {
        s.files.iter().any(|f| Path::new(f) == file)
            // Matchers by name do not depend on the file.
            || s.spec.matchers.iter().any(|m| matches!(m, aplomb_spec::Matcher::Command(c) if *c == name))
    });
    if known {
        return Ok(());
    }
    let message = format!(
        "no spec is for {}; say what it needs: aplomb run --cpu 5ms/30ms -- {name} …",
        file.display()
    );
    Err(Failure::from(Refusal::new(Code::Invalid, message)).into())
}

/// The file that exec would find in PATH.
fn find_in_path(program: &OsStr) -> Option<PathBuf> {
    let executable = |p: &Path| {
        p.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if program.to_string_lossy().contains('/') {
        return Some(PathBuf::from(program)).filter(|p| executable(p));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|p| executable(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_exec_finds_them() {
        assert!(find_in_path("sh".as_ref()).unwrap().is_absolute());
        assert!(find_in_path("/bin/sh".as_ref()).is_some());
        assert!(
            find_in_path("/etc/passwd".as_ref()).is_none(),
            "not executable"
        );
        assert!(find_in_path("no-such-program-anywhere".as_ref()).is_none());
    }
}
