//! `aplomb-sim movies`: frames per second of several movies at a time (Kato, Ishikawa and Rajkumar,
//! section 7.1, figures 8 to 12 and 15 to 18).

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use aplomb_sim::scenario::Reserve;
use aplomb_sim::study::movies::{Outcome, Show};
use aplomb_sim::worker::{Answer, Job};
use serde::Serialize;

use crate::study::Common;

pub const EXAMPLES: &str = "\
Examples:
  aplomb-sim movies --count 4,5,6 --trace crates/sim/traces/h264.csv --reserve 25ms/41ms
  aplomb-sim movies --count 12,13,14 --trace synthetic-raw --reserve 9ms/33ms";

const SCHEDULERS: [&str; 11] = [
    "aplomb-redline",
    "aplomb-cbs-hard",
    "aplomb-cbs-soft",
    "aplomb-fcbs",
    "global-edf-hard",
    "global-edf-soft",
    "global-edf-fcbs",
    "partitioned-ff",
    "partitioned-wf",
    "eevdf",
    "wrr",
];

#[derive(clap::Args)]
pub struct Args {
    /// Numbers of movies that play at the same time
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "4,5,6",
        value_name = "LIST"
    )]
    count: Vec<u64>,
    /// CPU time of each frame: a CSV file, synthetic-h264 or synthetic-raw
    #[arg(long, default_value = "synthetic-h264", value_name = "FILE")]
    trace: PathBuf,
    /// Scale the trace to this mean ...
    #[arg(long, value_name = "TIME", value_parser = aplomb_spec::parse_duration)]
    mean: Option<u64>,
    /// ... and this longest frame
    #[arg(long, value_name = "TIME", requires = "mean",
          value_parser = aplomb_spec::parse_duration)]
    peak: Option<u64>,
    /// Reservation of each movie; its period is also the period of the frames
    #[arg(long, default_value = "25ms/41ms", value_name = "C/T",
          value_parser = str::parse::<Reserve>)]
    reserve: Reserve,
    /// Drop frames that are more than N periods late [default: no frame is dropped]
    #[arg(long, value_name = "N")]
    drop_after: Option<u64>,
    /// Endless best-effort tasks beside the movies
    #[arg(long, default_value_t = 0, value_name = "N")]
    background: u64,
    /// Start all movies with their first frame and at the same time [default: each with another]
    #[arg(long)]
    together: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct MoviesResult {
    study: &'static str,
    cpus: u16,
    length_ns: u64,
    seed: u64,
    trace: PathBuf,
    runtime_ns: u64,
    period_ns: u64,
    shows: Vec<Outcome>,
}

pub fn run(args: &Args) -> Result<()> {
    let common = &args.common;
    let mut jobs = Vec::new();
    for &count in &args.count {
        for scheduler in common.schedulers(&SCHEDULERS)? {
            jobs.push(Job::Movies(Show {
                scheduler,
                cpus: common.cpus.into(),
                count,
                trace: args.trace.clone(),
                scale: args.mean.map(|mean| (mean, args.peak)),
                runtime_ns: args.reserve.runtime,
                period_ns: args.reserve.period,
                drop_after: args.drop_after,
                background: args.background,
                together: args.together,
                seed: common.seed,
                seconds: (common.length / 1_000_000_000) as usize,
            }));
        }
    }
    let mut shows = Vec::new();
    for answer in common.output.spread(&jobs)? {
        if let Answer::Movies(outcome) = answer {
            shows.push(outcome.map_err(anyhow::Error::msg)?);
        }
    }
    let result = MoviesResult {
        study: "movies",
        cpus: common.cpus,
        length_ns: common.length,
        seed: common.seed,
        trace: args.trace.clone(),
        runtime_ns: args.reserve.runtime,
        period_ns: args.reserve.period,
        shows,
    };
    common.output.write(&result, || table(&result))
}

fn table(result: &MoviesResult) -> String {
    let mut text = String::from(
        "movies  scheduler            admitted  worst second  mean fps  deviation    late  \
         dropped  migrations\n",
    );
    for s in &result.shows {
        let _ = writeln!(
            text,
            "{:>6}  {:<19}  {:>8}  {:>12}  {:>8.2}  {:>9.2}  {:>6}  {:>7}  {:>10}",
            s.count,
            s.scheduler.to_string(),
            s.admitted,
            s.worst_second,
            s.mean_fps,
            s.deviation_fps,
            s.late,
            s.dropped,
            s.migrations
        );
    }
    text
}
