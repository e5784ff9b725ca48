//! `aplomb-sim locality`: how often tasks change the cache, on a machine with several.

use std::fmt::Write;

use anyhow::Result;
use aplomb_sim::study::locality::{Load, Outcome};
use aplomb_sim::worker::{Answer, Job};
use serde::Serialize;

use crate::study::Output;

pub const EXAMPLES: &str = "\
Example:
  aplomb-sim locality --caches 2 --each 8 --loops 17,20

All tasks are in one domain. Each number of loops is played alone and beside tasks that run for
0.5 ms and sleep for 0.25, one for every two CPUs; and twice: the scheduler knows which CPUs share a
cache, or takes all for one. off: the loop that is furthest from the mean of all loops.";

#[derive(clap::Args)]
pub struct Args {
    /// Caches, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    caches: u16,
    /// CPUs that share a cache, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=16))]
    each: u16,
    /// Numbers of loops, 1 to 4,096
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "17,20,24,40",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    loops: Vec<u16>,
    /// Seconds of virtual time that count, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=100))]
    seconds: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct LocalityResult {
    study: &'static str,
    caches: u16,
    each: u16,
    seconds: u64,
    runs: Vec<Outcome>,
}

pub fn run(args: &Args) -> Result<()> {
    let half = usize::from(args.caches) * usize::from(args.each) / 2;
    let mut jobs = Vec::new();
    for sleepers in [0, half] {
        for &loops in &args.loops {
            for known in [true, false] {
                jobs.push(Job::Locality(Load {
                    caches: args.caches.into(),
                    each: args.each.into(),
                    loops: loops.into(),
                    sleepers,
                    known,
                    seconds: args.seconds,
                }));
            }
        }
    }
    let answers = args.output.spread(&jobs)?.into_iter();
    let runs = answers.filter_map(|answer| match answer {
        Answer::Locality(outcome) => Some(outcome),
        _ => None,
    });
    let result = LocalityResult {
        study: "locality",
        caches: args.caches,
        each: args.each,
        seconds: args.seconds,
        runs: runs.collect(),
    };
    args.output.write(&result, || table(&result.runs))
}

fn table(runs: &[Outcome]) -> String {
    let mut text =
        String::from("loops  sleepers  caches     changes/s  of turns     off  sleeper\n");
    for run in runs {
        let _ = writeln!(
            text,
            "{:>5}  {:>8}  {:<9}  {:>9.1}  {:>6.2} %  {:>4.1} %  {:>5.1} %",
            run.loops,
            run.sleepers,
            if run.known { "known" } else { "not known" },
            run.changes_per_s,
            run.changed_ppm as f64 / 1e4,
            run.off_percent,
            run.sleeper_ppm as f64 / 1e4,
        );
    }
    text
}
