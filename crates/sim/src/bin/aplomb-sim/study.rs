//! What the studies share: options, the pool of workers, JSON.

use std::path::PathBuf;

use anyhow::{Context, Result};
use aplomb_sim::machine::Scheduler;
use aplomb_sim::pool;
use aplomb_sim::worker::{Answer, Job};
use serde::Serialize;

use crate::progress::Progress;

#[derive(clap::Args)]
pub struct Common {
    /// Schedulers to compare, such as aplomb,aplomb-fcbs,global-edf-soft,partitioned-ff,eevdf,wrr
    /// [default: all that the study is about]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub schedulers: Vec<Scheduler>,
    /// CPUs of the simulated machine
    #[arg(long, default_value_t = 4, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cpus: u16,
    /// Virtual time that each run plays
    #[arg(long, default_value = "60s", value_name = "TIME",
          value_parser = aplomb_spec::parse_duration)]
    pub length: u64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

/// How a study runs, and where its result goes.
#[derive(clap::Args)]
pub struct Output {
    /// Processes at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write the JSON to this file, too
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl Common {
    /// The schedulers that were asked for, or those of the study.
    pub fn schedulers(&self, default: &[&str]) -> Result<Vec<Scheduler>> {
        if !self.schedulers.is_empty() {
            return Ok(self.schedulers.clone());
        }
        default.iter().map(|name| Ok(name.parse()?)).collect()
    }
}

impl Output {
    /// Do the jobs in workers. The answers come in the order of the jobs.
    pub fn spread(&self, jobs: &[Job]) -> Result<Vec<Answer>> {
        let mut progress = Progress::new();
        let workers = self.jobs.unwrap_or_else(pool::cores);
        Ok(pool::spread(&["worker"], jobs, workers, |done| {
            progress.show_jobs(done, jobs.len());
        })?)
    }

    /// Write the result: as JSON where that was asked for, otherwise as the table.
    pub fn write(&self, result: &impl Serialize, table: impl FnOnce() -> String) -> Result<()> {
        if let Some(path) = &self.out {
            let text = serde_json::to_string_pretty(result)? + "\n";
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        if self.json {
            crate::print_json(result)
        } else {
            crate::print(&table())
        }
    }
}
