//! `aplomb-sim play`: a scenario in the simulator, once or with many seeds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aplomb_sim::machine::Scheduler;
use aplomb_sim::pool;
use aplomb_sim::report::Report;
use aplomb_sim::scenario::{Options, Scenario, ScenarioError};
use aplomb_sim::worker::{Answer, Job};

use crate::progress::Progress;
use crate::{print, print_json, UsageError};

pub const EXAMPLES: &str = "\
Examples:
  aplomb-sim play scenarios/bomb.toml                 a table of what each task got
  aplomb-sim play scenarios/bomb.toml --svg bomb.svg  and a picture: which task ran when
  aplomb-sim play scenarios/bomb.toml --cpus 4 --json
  aplomb-sim play scenarios/movies.toml --scheduler eevdf   under a model of another scheduler
  aplomb-sim play scenarios/movies.toml --runs 20     with 20 seeds, on all cores";

#[derive(clap::Args)]
pub struct Args {
    /// The scenario (TOML): cpus, length, and a [[task]] for each kind of task
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// The scheduler: aplomb, or a model: global-edf-hard, global-edf-soft, global-edf-fcbs,
    /// partitioned-ff, partitioned-wf (both also with -hard), eevdf, wrr
    #[arg(long, value_name = "NAME", default_value = "aplomb")]
    scheduler: Scheduler,
    /// The server of reserved tasks, which says what becomes of a task when its budget is used up:
    /// redline, cbs-hard, cbs-soft, fcbs, deferred [default: fcbs]
    #[arg(long, value_name = "POLICY", value_parser = parse_server)]
    server: Option<Scheduler>,
    /// Seed of the random numbers, instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Play the scenario N times on all cores, each time with the next seed
    #[arg(long, value_name = "N", conflicts_with = "svg",
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    runs: Option<u64>,
    /// CPUs, instead of the scenario's
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// Draw which task ran when
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_server(text: &str) -> Result<Scheduler, String> {
    Scheduler::aplomb_with(text)
        .ok_or_else(|| "redline, cbs-hard, cbs-soft, fcbs or deferred".into())
}

pub fn play(args: &Args) -> Result<()> {
    let mut scenario = Scenario::read(&args.file).map_err(usage)?;
    if let Some(cpus) = args.cpus {
        scenario = scenario.with_cpus(&args.file, cpus).map_err(usage)?;
    }
    let scheduler = scheduler(args)?;
    match args.runs {
        Some(runs) => many(
            args,
            &args.file,
            scheduler,
            args.seed.unwrap_or(scenario.seed),
            runs,
        ),
        None => once(args, &scenario, scheduler),
    }
}

fn scheduler(args: &Args) -> Result<Scheduler, UsageError> {
    match (args.scheduler, args.server) {
        (named, None) => Ok(named),
        (Scheduler::Aplomb(_), Some(ours)) => Ok(ours),
        (model, Some(_)) => Err(UsageError(format!(
            "--server is for --scheduler aplomb; {model} has its own"
        ))),
    }
}

fn once(args: &Args, scenario: &Scenario, scheduler: Scheduler) -> Result<()> {
    let length = u128::from(scenario.length.0);
    let options = Options {
        scheduler,
        seed: args.seed,
        traced: args.svg.is_some(),
    };
    let mut progress = Progress::new();
    let report = scenario.play(options, |played| {
        progress.show(|| format!("{:3} %", u128::from(played) * 100 / length));
    });
    let took = progress.elapsed().as_secs_f64();
    drop(progress);
    if let Some(path) = &args.svg {
        std::fs::write(path, report.svg()).with_context(|| path.display().to_string())?;
    }
    if args.json {
        return print_json(&report);
    }
    print(&format!(
        "{}\n\n{} s on {} CPUs under {}, {} events ({:.0} thousand a second)\n",
        report.table().trim_end(),
        report.length_ns as f64 / 1e9,
        report.cpus,
        report.scheduler,
        report.events,
        report.events as f64 / took / 1e3
    ))
}

fn many(args: &Args, file: &Path, scheduler: Scheduler, seed: u64, runs: u64) -> Result<()> {
    let job = |n| Job::Scenario {
        path: file.into(),
        cpus: args.cpus,
        scheduler,
        seed: seed.wrapping_add(n),
    };
    let jobs: Vec<Job> = (0..runs).map(job).collect();
    let mut progress = Progress::new();
    let answers = pool::spread(&["worker"], &jobs, pool::cores(), |done| {
        progress.show_jobs(done, jobs.len());
    })?;
    drop(progress);
    let mut reports: Vec<Report> = Vec::new();
    for answer in answers {
        if let Answer::Scenario(report) = answer {
            reports.push(report.map_err(anyhow::Error::msg)?);
        }
    }
    if args.json {
        return print_json(&reports);
    }
    let table = |r: &Report| format!("seed {}\n{}\n", r.seed, r.table());
    print(&reports.iter().map(table).collect::<String>())
}

fn usage(error: ScenarioError) -> UsageError {
    UsageError(error.to_string())
}
