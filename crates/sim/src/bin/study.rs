//! `aplomb-study`: the paper's figures that take many simulated runs (Kato, section 7.1), on all cores.
//!
//! A program of its own and no part of `aplomb`: it is for who works on the scheduler, not for who uses it, and it
//! builds without the kernel side. Its children are itself with `worker` (see `pool.rs`).

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aplomb_sim::machine::Scheduler;
use aplomb_sim::pool;
use aplomb_sim::scenario::Reserve;
use aplomb_sim::study::movies::{self, Show};
use aplomb_sim::study::schedulability::{Batch, Tally};
use aplomb_sim::worker::{self, Answer, Job};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

/// Sets of a job: so few that both cores end at about the same time, and progress is seen.
const BATCH: u64 = 5;

/// Studies in the simulator: our scheduler against models of others
#[derive(Parser)]
#[command(name = "aplomb-study", version)]
struct Cli {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    /// How many random task sets meet all deadlines (Figs. 21 to 23)
    #[command(
        after_help = "Example:\n  aplomb-study schedulability --range 50-100 --sets 1000 --length 60s --out fig22.json\n\nColumns test-* are analytic. A set is admitted and met, refused, or admitted and missed; only the first is success."
    )]
    Schedulability(Sets),
    /// Frames per second of several movies (Figs. 8 to 12, 15 to 18)
    #[command(
        after_help = "Examples:\n  aplomb-study movies --count 4,5,6 --trace crates/sim/traces/h264.csv --reserve 25ms/41ms\n  aplomb-study movies --count 12,13,14 --trace synthetic-raw --reserve 9ms/33ms"
    )]
    Movies(Movies),
    /// Answer jobs from standard input (what the others start)
    #[command(hide = true)]
    Worker,
}

#[derive(Args)]
struct Common {
    /// Who schedules: aplomb, aplomb-fcbs, ..., global-edf-soft, global-edf-fcbs, partitioned-ff, eevdf, wrr [default: all that suit]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    schedulers: Vec<Scheduler>,
    /// CPUs of the machine that is played
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: u16,
    /// How long each run is played
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = aplomb_spec::parse_duration)]
    length: u64,
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Processes at a time [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write JSON there, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct Sets {
    /// C/T of tasks, % (may be repeated) [default: 10-100, 50-100 and 10-50, the paper's]
    #[arg(long, value_name = "FROM-TO", value_parser = range)]
    range: Vec<(u64, u64)>,
    /// Workloads, % of all CPUs [default: 50 to 100 in steps of 5]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    workload: Vec<u64>,
    /// Task sets at each workload
    #[arg(long, default_value_t = 1000, value_name = "N")]
    sets: u64,
    /// Each task reserves so much more than it uses: what kicks and timers take on a real machine
    #[arg(long, default_value = "0ms", value_name = "TIME", value_parser = aplomb_spec::parse_duration)]
    margin: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Movies {
    /// Numbers of movies
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
    #[arg(long, value_name = "TIME", requires = "mean", value_parser = aplomb_spec::parse_duration)]
    peak: Option<u64>,
    /// What each movie reserves; the period is also that of its frames
    #[arg(long, default_value = "25ms/41ms", value_name = "C/T", value_parser = str::parse::<Reserve>)]
    reserve: Reserve,
    /// Drop frames that are more than so many periods late [default: none is dropped]
    #[arg(long, value_name = "N")]
    drop_after: Option<u64>,
    /// Endless best-effort tasks beside the movies
    #[arg(long, default_value_t = 0, value_name = "N")]
    background: u64,
    /// All movies begin with the first frame at the same time, not each somewhere
    #[arg(long)]
    together: bool,
    #[command(flatten)]
    common: Common,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let parsed = text
        .split_once('-')
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match parsed {
        Some((from, to)) if 1 <= from && from <= to && to <= 100 => Ok((from, to)),
        _ => Err("FROM-TO, of 1 to 100 %".into()),
    }
}

fn main() -> Result<()> {
    match Cli::parse().study {
        Study::Worker => Ok(worker::run()?),
        Study::Schedulability(args) => schedulability(&args),
        Study::Movies(args) => play_movies(&args),
    }
}

impl Common {
    fn schedulers(&self, default: &[&str]) -> Result<Vec<Scheduler>> {
        if !self.schedulers.is_empty() {
            return Ok(self.schedulers.clone());
        }
        default.iter().map(|name| Ok(name.parse()?)).collect()
    }

    /// Have the jobs done, saying on standard error how far they are.
    fn spread(&self, jobs: &[Job]) -> Result<Vec<Answer>> {
        let (began, mut said) = (Instant::now(), Instant::now());
        let terminal = std::io::stderr().is_terminal();
        let every = Duration::from_secs(if terminal { 1 } else { 30 });
        let workers = self.jobs.unwrap_or_else(pool::cores);
        let answers = pool::spread(&["worker"], jobs, workers, |done| {
            if said.elapsed() >= every || done == jobs.len() {
                said = Instant::now();
                let gone = began.elapsed().as_secs_f64();
                let left = gone / done as f64 * (jobs.len() - done) as f64;
                let (start, end) = if terminal { ("\r", "") } else { ("", "\n") };
                eprint!(
                    "{start}{done} of {} jobs, {gone:.0} s, about {left:.0} s left   {end}",
                    jobs.len()
                );
                let _ = std::io::stderr().flush();
            }
        });
        if terminal {
            eprintln!();
        }
        Ok(answers?)
    }

    /// The result as JSON, where it was asked for; true: not as a table.
    fn write(&self, result: &impl Serialize) -> Result<bool> {
        let text = serde_json::to_string_pretty(result)? + "\n";
        if let Some(path) = &self.out {
            std::fs::write(path, &text).with_context(|| path.display().to_string())?;
        }
        if self.json {
            std::io::stdout().lock().write_all(text.as_bytes())?;
        }
        Ok(self.json)
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
    /// By column.
    tallies: Vec<Tally>,
}

fn schedulability(args: &Sets) -> Result<()> {
    let common = &args.common;
    let schedulers = common.schedulers(&[
        "aplomb",
        "global-edf-soft",
        "partitioned-ff",
        "partitioned-wf",
    ])?;
    let or = |given: &[(u64, u64)], default: &[(u64, u64)]| {
        if given.is_empty() { default } else { given }.to_vec()
    };
    let ranges = or(&args.range, &[(10, 100), (50, 100), (10, 50)]);
    let workloads = if args.workload.is_empty() {
        (50..=100).step_by(5).collect()
    } else {
        args.workload.clone()
    };
    let mut jobs = Vec::new();
    let mut point_of = Vec::new();
    let mut points = Vec::new();
    let columns = Batch::columns(&schedulers);
    for &range in &ranges {
        for &workload in &workloads {
            for first in (0..args.sets).step_by(BATCH as usize) {
                point_of.push(points.len());
                jobs.push(Job::Sets(Batch {
                    schedulers: schedulers.clone(),
                    cpus: common.cpus.into(),
                    range_ppm: (range.0 * 10_000, range.1 * 10_000),
                    workload_ppm: workload * 10_000,
                    seed: common.seed + first,
                    sets: BATCH.min(args.sets - first),
                    length_ns: common.length,
                    margin_ns: args.margin,
                }));
            }
            points.push(Point {
                range_percent: range,
                workload_percent: workload,
                success: Vec::new(),
                tallies: vec![Tally::default(); columns.len()],
            });
        }
    }
    for (answer, at) in common.spread(&jobs)?.into_iter().zip(point_of) {
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
    if !common.write(&result)? {
        print!("{}", sets_table(&result));
    }
    Ok(())
}

/// Success, %, by workload; after a + how many admitted sets missed.
fn sets_table(result: &SetsResult) -> String {
    let mut text = String::new();
    let mut range = (0, 0);
    for point in &result.points {
        if point.range_percent != range {
            range = point.range_percent;
            text += &format!("\nC/T of tasks {} to {} %\nworkload", range.0, range.1);
            let heads = result.columns.iter().map(|c| format!("  {c:>15}"));
            text.extend(heads);
            text.push('\n');
        }
        text += &format!("{:>6} %", point.workload_percent);
        for (success, tally) in point.success.iter().zip(&point.tallies) {
            let missed = match tally.missed.len() {
                0 => String::new(),
                n => format!(" ({n} missed)"),
            };
            text += &format!("  {:>15}", format!("{:.1}{missed}", success * 100.0));
        }
        text.push('\n');
    }
    text
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
    shows: Vec<movies::Outcome>,
}

fn play_movies(args: &Movies) -> Result<()> {
    let common = &args.common;
    let schedulers = common.schedulers(&[
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
    ])?;
    let mut jobs = Vec::new();
    for &count in &args.count {
        for &scheduler in &schedulers {
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
    for answer in common.spread(&jobs)? {
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
    if !common.write(&result)? {
        print!("{}", movies_table(&result));
    }
    Ok(())
}

fn movies_table(result: &MoviesResult) -> String {
    let mut text = String::from(
        "movies  scheduler            admitted  worst second  mean fps  deviation    late  dropped  migrations\n",
    );
    for s in &result.shows {
        text += &format!(
            "{:>6}  {:<19}  {:>8}  {:>12}  {:>8.2}  {:>9.2}  {:>6}  {:>7}  {:>10}\n",
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
