//! `aplomb-sim hybrid`: what programs get on a machine whose CPUs differ.

use std::fmt::Write;

use anyhow::Result;
use aplomb_sim::study::hybrid::{Case, Line, Load};
use aplomb_sim::worker::{Answer, Job};
use serde::Serialize;

use crate::study::Output;

pub const EXAMPLES: &str = "\
Example:
  aplomb-sim hybrid --fast 6 --slow 8 --capacity 600

Each case is played twice: the scheduler knows the capacities, or takes all CPUs for alike. frames:
programs with a reservation, two for each fast CPU and one for each slow one, beside loops.
guaranteed: the same, flag G. keys: ordinary programs that wake up, beside background work. loops: those that are left when others
end. response: of the time that the work takes on a fast CPU.";

#[derive(clap::Args)]
pub struct Args {
    /// Fast CPUs, 1 to 512
    #[arg(long, value_name = "N", default_value_t = 6,
          value_parser = clap::value_parser!(u16).range(1..=512))]
    fast: u16,
    /// Slow CPUs, 1 to 512
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=512))]
    slow: u16,
    /// What a slow CPU does, in 1024ths of what a fast one does: 64 to 1,024
    #[arg(long, value_name = "N", default_value_t = 600,
          value_parser = clap::value_parser!(u16).range(64..=1024))]
    capacity: u16,
    /// Seconds of virtual time that count, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=100))]
    seconds: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct HybridResult {
    study: &'static str,
    fast: u16,
    slow: u16,
    capacity: u16,
    seconds: u64,
    runs: Vec<Line>,
}

pub fn run(args: &Args) -> Result<()> {
    let mut jobs = Vec::new();
    for case in Case::ALL {
        for known in [true, false] {
            jobs.push(Job::Hybrid(Load {
                fast: args.fast.into(),
                slow: args.slow.into(),
                capacity: args.capacity,
                known,
                case,
                seconds: args.seconds,
            }));
        }
    }
    let answers = args.output.spread(&jobs)?.into_iter();
    let runs = answers.filter_map(|answer| match answer {
        Answer::Hybrid(line) => Some(line),
        _ => None,
    });
    let result = HybridResult {
        study: "hybrid",
        fast: args.fast,
        slow: args.slow,
        capacity: args.capacity,
        seconds: args.seconds,
        runs: runs.collect(),
    };
    args.output.write(&result, || table(&result.runs))
}

fn table(runs: &[Line]) -> String {
    let mut text = String::from("case        CPUs      jobs  missed  response    work\n");
    for run in runs {
        let o = &run.outcome;
        let kind = if run.known { "known" } else { "alike" };
        let _ = write!(text, "{:<10}  {kind:<5}  ", run.case.name());
        let _ = if run.case == Case::Loops {
            writeln!(text, "{:>35.1} %", o.work_ppm as f64 / 10_000.0)
        } else {
            writeln!(text, "{:>7}  {:>6}  {:>8.2}", o.jobs, o.missed, o.response)
        };
    }
    text
}
