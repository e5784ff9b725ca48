//! `aplomb sim`: a scenario in the simulator, once or with many seeds.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aplomb_sim::machine::Scheduler;
use aplomb_sim::pool;
use aplomb_sim::report::Report;
use aplomb_sim::scenario::{Options, Scenario, ScenarioError};
use aplomb_sim::worker::{self, Answer, Job};

use super::{line, print_json};
use crate::cli::SimArgs;
use crate::exit::{Exit, Failure};

/// Runs shorter than this say nothing on their way.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn sim(args: &SimArgs) -> Result<Exit> {
    let Some(file) = &args.file else {
        worker::run()?;
        return Ok(Exit::Ok);
    };
    let mut scenario = Scenario::read(file).map_err(wrong)?;
    if let Some(cpus) = args.cpus {
        scenario = scenario.with_cpus(file, cpus).map_err(wrong)?;
    }
    let scheduler = scheduler(args)?;
    match args.runs {
        Some(runs) => many(
            args,
            file,
            scheduler,
            args.seed.unwrap_or(scenario.seed),
            runs,
        ),
        None => once(args, &scenario, scheduler),
    }
}

fn scheduler(args: &SimArgs) -> Result<Scheduler> {
    match (args.scheduler, args.server) {
        (named, None) => Ok(named),
        (Scheduler::Aplomb(_), Some(ours)) => Ok(ours),
        (other, Some(_)) => Err(Failure::new(
            Exit::Usage,
            format!("--server is for --scheduler aplomb; {other} has its own"),
        )
        .into()),
    }
}

fn once(args: &SimArgs, scenario: &Scenario, scheduler: Scheduler) -> Result<Exit> {
    let (began, length) = (Instant::now(), scenario.length.0);
    let options = Options {
        scheduler,
        seed: args.seed,
        traced: args.svg.is_some(),
    };
    let mut progress = Progress::new(began);
    let report = scenario.play(options, |played| {
        progress.tell(|| format!("{:3} %", u128::from(played) * 100 / u128::from(length)));
    });
    drop(progress);
    if let Some(path) = &args.svg {
        std::fs::write(path, report.svg()).with_context(|| path.display().to_string())?;
    }
    if args.json {
        print_json(&report)?;
    } else {
        line(report.table().trim_end())?;
        let speed = report.events as f64 / began.elapsed().as_secs_f64();
        line(format_args!(
            "\n{} s on {} CPUs under {}, {} events ({:.0} thousand a second)",
            report.length_ns as f64 / 1e9,
            report.cpus,
            report.scheduler,
            report.events,
            speed / 1e3
        ))?;
    }
    Ok(Exit::Ok)
}

fn many(args: &SimArgs, file: &Path, scheduler: Scheduler, seed: u64, runs: u64) -> Result<Exit> {
    let job = |n| Job::Scenario {
        path: file.into(),
        cpus: args.cpus,
        scheduler,
        seed: seed.wrapping_add(n),
    };
    let jobs: Vec<Job> = (0..runs).map(job).collect();
    let mut progress = Progress::new(Instant::now());
    let answers = pool::spread(&["sim", "--worker"], &jobs, pool::cores(), |done| {
        progress.tell(|| format!("{done} of {runs} runs"));
    })?;
    drop(progress);
    let mut reports: Vec<Report> = Vec::new();
    for answer in answers {
        if let Answer::Scenario(report) = answer {
            reports.push(report.map_err(anyhow::Error::msg)?);
        }
    }
    if args.json {
        print_json(&reports)?;
        return Ok(Exit::Ok);
    }
    for report in &reports {
        line(format_args!("seed {}\n{}", report.seed, report.table()))?;
    }
    Ok(Exit::Ok)
}

/// A line on standard error, if a person reads it, that is taken back in the end.
struct Progress {
    began: Instant,
    told: bool,
}

impl Progress {
    fn new(began: Instant) -> Self {
        Self { began, told: false }
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.began.elapsed() > PATIENCE && std::io::stderr().is_terminal() {
            self.told = true;
            eprint!("\r{}", what());
            let _ = std::io::stderr().flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told {
            eprint!("\r{:30}\r", "");
        }
    }
}

fn wrong(error: ScenarioError) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}
