//! `aplomb-sim shares`: what two domains have of machines of many CPUs, by their weights.

use std::fmt::Write;

use anyhow::Result;
use aplomb_sim::study::shares::{Kind, Load, Outcome};
use aplomb_sim::worker::{Answer, Job};
use serde::Serialize;

use crate::study::Output;

pub const EXAMPLES: &str = "\
Example:
  aplomb-sim shares --cpus 16,256 --ratios 1,9

Each domain has more tasks than its share: one loop for each CPU, or two tasks for each CPU that run
for 3 ms and sleep for 1 ms. The first second does not count. A point is a percent of all CPUs.";

#[derive(clap::Args)]
pub struct Args {
    /// CPUs of the simulated machines, 1 to 1,024
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "4,16,64,256",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Vec<u16>,
    /// Weights of the second domain, of the first one's: 1 to 100
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1,2,4,9",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    ratios: Vec<u32>,
    /// Seconds of virtual time that count, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=100))]
    seconds: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct SharesResult {
    study: &'static str,
    seconds: u64,
    runs: Vec<Outcome>,
}

pub fn run(args: &Args) -> Result<()> {
    let mut jobs = Vec::new();
    for kind in Kind::ALL {
        for &cpus in &args.cpus {
            for &ratio in &args.ratios {
                jobs.push(Job::Shares(Load {
                    cpus: cpus.into(),
                    kind,
                    ratio,
                    seconds: args.seconds,
                }));
            }
        }
    }
    let answers = args.output.spread(&jobs)?.into_iter();
    let runs = answers.filter_map(|answer| match answer {
        Answer::Shares(outcome) => Some(outcome),
        _ => None,
    });
    let result = SharesResult {
        study: "shares",
        seconds: args.seconds,
        runs: runs.collect(),
    };
    args.output.write(&result, || table(&result.runs))
}

fn table(runs: &[Outcome]) -> String {
    let mut text = String::from("tasks     CPUs  weights  off in a second  off in all  used\n");
    for run in runs {
        let _ = writeln!(
            text,
            "{:<8}  {:>4}  1:{:<5}  {:>8.3} points  {:>+10.3}  {:>6.2} %",
            run.kind.name(),
            run.cpus,
            run.ratio,
            run.second_off,
            run.off,
            run.used_ppm as f64 / 10_000.0,
        );
    }
    text
}
