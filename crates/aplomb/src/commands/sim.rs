//! `aplomb sim`: a scenario in the simulator.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aplomb_sim::scenario::{Scenario, ScenarioError};

use super::{line, print_json};
use crate::cli::SimArgs;
use crate::exit::{Exit, Failure};

/// Runs shorter than this say nothing on their way.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn sim(args: &SimArgs) -> Result<Exit> {
    let mut scenario = Scenario::read(&args.file).map_err(wrong)?;
    if let Some(cpus) = args.cpus {
        scenario = scenario.with_cpus(&args.file, cpus).map_err(wrong)?;
    }
    let (began, length) = (Instant::now(), scenario.length.0);
    let told = std::io::stderr().is_terminal();
    let report = scenario.play(args.svg.is_some(), |played| {
        if told && began.elapsed() > PATIENCE {
            eprint!("\r{:3} %", u128::from(played) * 100 / u128::from(length));
            let _ = std::io::stderr().flush();
        }
    });
    if told && began.elapsed() > PATIENCE {
        eprint!("\r     \r");
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, report.svg()).with_context(|| path.display().to_string())?;
    }
    if args.json {
        print_json(&report)?;
    } else {
        line(report.table().trim_end())?;
        let speed = report.events as f64 / began.elapsed().as_secs_f64();
        line(format_args!(
            "\n{} s on {} CPUs, {} events ({:.0} thousand a second)",
            report.length_ns as f64 / 1e9,
            report.cpus,
            report.events,
            speed / 1e3
        ))?;
    }
    Ok(Exit::Ok)
}

fn wrong(error: ScenarioError) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}
