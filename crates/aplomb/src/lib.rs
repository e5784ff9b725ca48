//! aplomb: a daemon that configures a scheduler in the kernel, and the command line that talks to
//! the daemon.
//!
//! The binary only calls [`cli::main`]. The code is in a library so that tests can use it.

pub mod cli;
mod client;
mod commands;
pub mod config;
pub mod daemon;
mod domains;
pub mod exit;
mod explain;
mod log;

use aplomb_protocol as protocol;
