//! Exit codes, as `aplomb --help` and the man page list them.

use std::process::ExitCode;

use aplomb_kernel::LoadError;

use crate::protocol::{Code, Refusal};

/// Exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Ok = 0,
    Failure = 1,
    /// Wrong use, wrong spec, wrong configuration.
    Usage = 2,
    /// This kernel cannot run aplomb.
    Unsupported = 3,
    /// Not allowed.
    Permission = 4,
    /// Another sched_ext scheduler is attached.
    Busy = 5,
    /// The daemon gave up: the kernel ended its scheduler several times in a row.
    GivenUp = 6,
    /// EX_UNAVAILABLE of sysexits.h: no daemon.
    NoDaemon = 69,
    /// EX_NOPERM of sysexits.h: refused by a limit.
    Limit = 77,
    /// The command was found, but cannot be executed (a shell's code).
    CannotExecute = 126,
    /// The command was not found (a shell's code).
    NotFound = 127,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The list of exit codes for `--help` and the man page.
pub const HELP: &str = "\
Exit codes:
  0    success
  1    failure
  2    wrong use, or an error in a spec or in the configuration
  3    this kernel cannot run aplomb (see `aplomb doctor`)
  4    not permitted
  5    another sched_ext scheduler is attached
  6    `daemon`: gave up, as the kernel ended its scheduler several times in a row
  69   no daemon answers
  77   refused by a limit
  126  `run`: the command cannot be executed
  127  `run`: the command was not found";

/// An error with an exit code. [`anyhow::Error`] carries it through `?`.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(r: Refusal) -> Self {
        let exit = match r.code {
            Code::Invalid => Exit::Usage,
            Code::Permission => Exit::Permission,
            Code::Limit => Exit::Limit,
            Code::Failed => Exit::Failure,
        };
        Self::new(exit, r.message)
    }
}

/// The exit code for an error.
pub fn code_of(error: &anyhow::Error) -> Exit {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.exit;
    }
    match error.downcast_ref::<LoadError>() {
        Some(
            LoadError::NoSchedExt { .. }
            | LoadError::NoBtf
            | LoadError::NoBpfQdiscs { .. }
            | LoadError::OtherInterface { .. }
            | LoadError::TooManyCpus { .. },
        ) => Exit::Unsupported,
        Some(LoadError::NoCapability(_)) => Exit::Permission,
        Some(LoadError::Busy(_)) => Exit::Busy,
        Some(
            LoadError::NoCpuList
            | LoadError::Refused { .. }
            | LoadError::NoMemory(_)
            | LoadError::Ended(_),
        )
        | None => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn context_does_not_hide_the_code() {
        let error = anyhow::Error::from(LoadError::Busy("bpfland".into())).context("starting");
        assert_eq!(code_of(&error), Exit::Busy);
        let error = Err::<(), _>(Failure::new(Exit::Limit, "x"))
            .context("y")
            .unwrap_err();
        assert_eq!(code_of(&error), Exit::Limit);
        assert_eq!(code_of(&anyhow::anyhow!("z")), Exit::Failure);
    }

    #[test]
    fn help_lists_every_code() {
        for exit in [
            Exit::Ok,
            Exit::Failure,
            Exit::Usage,
            Exit::Unsupported,
            Exit::Permission,
            Exit::Busy,
            Exit::GivenUp,
            Exit::NoDaemon,
            Exit::Limit,
            Exit::CannotExecute,
            Exit::NotFound,
        ] {
            assert!(HELP.contains(&format!("\n  {:<5}", exit as u8)), "{exit:?}");
        }
    }
}
