//! `aplomb disk …`: its commands and options.

use std::time::Duration;

use clap::Subcommand;

use super::domain::over;

#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  aplomb disk ls")]
pub enum DiskCommand {
    /// Show the disks: I/O scheduler, how busy, what is read and written, how long requests take
    #[command(after_help = "Examples:
  aplomb disk ls --over 10s       over the next ten seconds
  aplomb domain ls --disk         which domain it is

Needs neither the daemon nor root. With --json: what each has done so far, and in that time.")]
    Ls {
        /// Look at them for so long (0.1s to 1min)
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = over)]
        over: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
