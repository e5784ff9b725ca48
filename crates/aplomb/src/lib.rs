//! aplomb: a daemon that keeps a scheduler in the kernel informed, and the command line that talks
//! to it.
//!
//! The binary is a thin shell around [`cli::main`]; the pieces are here so that tests reach them.

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
