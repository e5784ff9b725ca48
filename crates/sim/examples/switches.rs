//! `switches SCENARIO`: plays a scenario and prints every change of what runs: time in ns, CPU, and
//! the name of the task ("-": idle). For tests/lab/test_order.py, which compares it with the
//! kernel's trace.

use std::path::PathBuf;
use std::process::ExitCode;

use aplomb_sim::machine::Scheduler;
use aplomb_sim::scenario::{Options, Scenario};
use aplomb_sim::ServerPolicy;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: switches SCENARIO");
        return ExitCode::from(2);
    };
    match Scenario::read(&path) {
        Ok(scenario) => {
            let options = Options {
                scheduler: Scheduler::Aplomb(ServerPolicy::default()),
                seed: None,
                traced: true,
            };
            let report = scenario.play(options, |_| ());
            for s in &report.trace {
                let name = s.task.map_or("-", |id| &report.names[id]);
                println!("{} {} {name}", s.at, s.cpu);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
