//! aplomb: a daemon that keeps a scheduler in the kernel informed, and the command line that talks to it.
//!
//! The binary is a thin shell around [`cli::main`]; the pieces are here so that tests, and the fuzz target
//! of [`protocol`], reach them.

pub mod cli;
mod client;
mod commands;
pub mod config;
pub mod daemon;
pub mod exit;
mod explain;
pub mod protocol;
mod say;
mod systemd;
