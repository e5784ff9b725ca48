//! `aplomb-sim scaling`: what machines of many CPUs get done, if the scheduler's work takes time.

use std::fmt::Write;

use anyhow::Result;
use aplomb_sim::study::scaling::{Load, Outcome, Place};
use aplomb_sim::worker::{Answer, Job};
use aplomb_sim::Costs;
use serde::Serialize;

use crate::study::Output;

pub const EXAMPLES: &str = "\
Example:
  aplomb-sim scaling --cpus 1,16,64,256 --line 300

Each CPU has four tasks that work for 0.1 ms, sleep as long, and wake up again: without domains, in
40 services at depth 3, and in one domain at depth 8. A CPU without a scheduler would do 10,000
cycles a second. A cost is 1 ms at most.";

#[derive(clap::Args)]
pub struct Args {
    /// CPUs of the simulated machines, 1 to 1,024
    #[arg(long, value_delimiter = ',', value_name = "LIST",
          default_value = "1,2,4,8,16,32,64,128,256",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Vec<u16>,
    /// Virtual time that each run plays; a quarter of it does not count
    #[arg(long, default_value = "100ms", value_name = "TIME",
          value_parser = aplomb_spec::parse_duration)]
    length: u64,
    /// What a callback of the scheduler takes, without locks, ns
    #[arg(long, default_value_t = 200, value_name = "NS",
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    call: u64,
    /// What the cache line of a lock takes that another CPU had, ns
    #[arg(long, default_value_t = 100, value_name = "NS",
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    line: u64,
    /// How long the lock of the tree of domains is held at least, ns
    #[arg(long, default_value_t = 50, value_name = "NS",
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    tree: u64,
    /// How much longer it is held for each round of a loop, ns
    #[arg(long, default_value_t = 30, value_name = "NS",
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    round: u64,
    /// How long the lock of a dispatch queue is held, ns
    #[arg(long, default_value_t = 150, value_name = "NS",
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    queue: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct ScalingResult {
    study: &'static str,
    length_ns: u64,
    costs_ns: Costs,
    runs: Vec<Outcome>,
}

pub fn run(args: &Args) -> Result<()> {
    let costs = Costs {
        call: args.call,
        line: args.line,
        tree: args.tree,
        round: args.round,
        queue: args.queue,
    };
    let load = |place, cpus: u16| {
        Job::Scaling(Load {
            cpus: cpus.into(),
            place,
            costs,
            length_ns: args.length,
        })
    };
    let places = Place::ALL.into_iter();
    let jobs: Vec<_> = places
        .flat_map(|place| args.cpus.iter().map(move |&cpus| load(place, cpus)))
        .collect();
    let answers = args.output.spread(&jobs)?.into_iter();
    let runs = answers.filter_map(|answer| match answer {
        Answer::Scaling(outcome) => Some(outcome),
        _ => None,
    });
    let result = ScalingResult {
        study: "scaling",
        length_ns: args.length,
        costs_ns: costs,
        runs: runs.collect(),
    };
    args.output.write(&result, || table(&result.runs))
}

fn table(runs: &[Outcome]) -> String {
    let mut text = String::from(
        "place     CPUs   cycles/s  per CPU  tree's lock/cycle  waiting  the scheduler's work\n",
    );
    for run in runs {
        let percent = |ppm: u64| ppm as f64 / 10_000.0;
        let _ = writeln!(
            text,
            "{:<8}  {:>4}  {:>9.0}  {:>7.0}  {:>17.2}  {:>5.1} %  {:>18.1} %",
            run.place.name(),
            run.cpus,
            run.cycles_per_s,
            run.cycles_per_s / run.cpus as f64,
            run.tree_locks_per_cycle,
            percent(run.waiting_ppm),
            percent(run.working_ppm),
        );
    }
    text
}
