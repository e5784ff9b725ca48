//! `aplomb-sim schedulability`: how many random task sets meet all deadlines (Kato, Ishikawa and
//! Rajkumar, section 7.1, figures 21 to 23).

use std::fmt::Write;

use anyhow::Result;
use aplomb_sim::machine::Scheduler;
use aplomb_sim::study::schedulability::{Batch, Tally};
use aplomb_sim::worker::{Answer, Job};
use serde::Serialize;

use crate::study::Common;

pub const EXAMPLES: &str = "\
Example:
  aplomb-sim schedulability --range 50-100 --sets 1000 --length 60s --out fig22.json

Columns test-* are analytic. A set is admitted and meets all deadlines, or is refused, or is
admitted and misses one. Only the first counts as success.";

const SCHEDULERS: [&str; 4] = [
    "aplomb",
    "global-edf-soft",
    "partitioned-ff",
    "partitioned-wf",
];
const RANGES: [(u64, u64); 3] = [(10, 100), (50, 100), (10, 50)];

/// Sets in one job: so few that all cores end at about the same time, and progress can be seen.
const BATCH: u64 = 5;

#[derive(clap::Args)]
pub struct Args {
    /// C/T of tasks, % (may be repeated) [default: 10-100, 50-100 and 10-50, as in the paper]
    #[arg(long, value_name = "FROM-TO", value_parser = parse_range)]
    range: Vec<(u64, u64)>,
    /// Workloads, % of all CPUs [default: 50 to 100 in steps of 5]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    workload: Vec<u64>,
    /// Task sets at each workload
    #[arg(long, default_value_t = 1000, value_name = "N")]
    sets: u64,
    /// Each task reserves this much more than it uses: what kicks and timers take on a real machine
    #[arg(long, default_value = "0ms", value_name = "TIME",
          value_parser = aplomb_spec::parse_duration)]
    margin: u64,
    #[command(flatten)]
    common: Common,
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let parsed = text
        .split_once('-')
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match parsed {
        Some((from, to)) if 1 <= from && from <= to && to <= 100 => Ok((from, to)),
        _ => Err("FROM-TO, of 1 to 100 %".into()),
    }
}

#[derive(Serialize)]
struct SetsResult {
    study: &'static str,
    cpus: u16,
    sets: u64,
    length_ns: u64,
    margin_ns: u64,
    seed: u64,
    columns: Vec<String>,
    points: Vec<Point>,
}

/// One workload of one range.
#[derive(Serialize)]
struct Point {
    range_percent: (u64, u64),
    workload_percent: u64,
    /// Share of sets that met all deadlines, by column.
    success: Vec<f64>,
    /// The results, by column.
    tallies: Vec<Tally>,
}

pub fn run(args: &Args) -> Result<()> {
    let common = &args.common;
    let schedulers = common.schedulers(&SCHEDULERS)?;
    let columns = Batch::columns(&schedulers);
    let mut points = points(args, columns.len());
    let (jobs, point_of) = jobs(args, &schedulers, &points);
    for (answer, at) in common.output.spread(&jobs)?.into_iter().zip(point_of) {
        if let Answer::Sets(tallies) = answer {
            let sums = points[at].tallies.iter_mut().zip(tallies);
            sums.for_each(|(sum, part)| sum.add(part));
        }
    }
    for point in &mut points {
        let share = |t: &Tally| t.met as f64 / args.sets.max(1) as f64;
        point.success = point.tallies.iter().map(share).collect();
    }
    let result = SetsResult {
        study: "schedulability",
        cpus: common.cpus,
        sets: args.sets,
        length_ns: common.length,
        margin_ns: args.margin,
        seed: common.seed,
        columns,
        points,
    };
    common.output.write(&result, || table(&result))
}

/// All points of the figure, still without results.
fn points(args: &Args, columns: usize) -> Vec<Point> {
    let ranges = if args.range.is_empty() {
        &RANGES[..]
    } else {
        &args.range
    };
    let workloads = if args.workload.is_empty() {
        (50..=100).step_by(5).collect()
    } else {
        args.workload.clone()
    };
    let pairs = ranges
        .iter()
        .flat_map(|&r| workloads.iter().map(move |&w| (r, w)));
    let point = |(range_percent, workload_percent)| Point {
        range_percent,
        workload_percent,
        success: Vec::new(),
        tallies: vec![Tally::default(); columns],
    };
    pairs.map(point).collect()
}

/// The jobs of all points, and for each job the index of its point.
fn jobs(args: &Args, schedulers: &[Scheduler], points: &[Point]) -> (Vec<Job>, Vec<usize>) {
    let (mut jobs, mut point_of) = (Vec::new(), Vec::new());
    for (at, point) in points.iter().enumerate() {
        let (from, to) = point.range_percent;
        for first in (0..args.sets).step_by(BATCH as usize) {
            point_of.push(at);
            jobs.push(Job::Sets(Batch {
                schedulers: schedulers.to_vec(),
                cpus: args.common.cpus.into(),
                range_ppm: (from * 10_000, to * 10_000),
                workload_ppm: point.workload_percent * 10_000,
                seed: args.common.seed + first,
                sets: BATCH.min(args.sets - first),
                length_ns: args.common.length,
                margin_ns: args.margin,
            }));
        }
    }
    (jobs, point_of)
}

/// Success, %, by workload; in brackets how many admitted sets missed a deadline.
fn table(result: &SetsResult) -> String {
    let mut text = String::new();
    let mut range = (0, 0);
    for point in &result.points {
        if point.range_percent != range {
            range = point.range_percent;
            let _ = write!(
                text,
                "\nC/T of tasks {} to {} %\nworkload",
                range.0, range.1
            );
            text.extend(result.columns.iter().map(|c| format!("  {c:>15}")));
            text.push('\n');
        }
        let _ = write!(text, "{:>6} %", point.workload_percent);
        for (success, tally) in point.success.iter().zip(&point.tallies) {
            let missed = match tally.missed.len() {
                0 => String::new(),
                n => format!(" ({n} missed)"),
            };
            let _ = write!(text, "  {:>15}", format!("{:.1}{missed}", success * 100.0));
        }
        text.push('\n');
    }
    text
}
