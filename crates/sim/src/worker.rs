//! What a worker of the pool can be asked to do.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::machine::Scheduler;
use crate::pool;
use crate::report::Report;
use crate::scenario::{Options, Scenario};
use crate::study::movies::{self, Outcome};
use crate::study::schedulability::{self, Tally};

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// Some task sets of one point of Figs. 21 to 23.
    Sets(schedulability::Batch),
    /// One playing of some movies.
    Movies(movies::Show),
    /// One playing of a scenario file.
    Scenario {
        /// The file.
        path: PathBuf,
        /// CPUs, instead of the file's.
        cpus: Option<usize>,
        /// Who schedules.
        scheduler: Scheduler,
        /// For what is random.
        seed: u64,
    },
}

/// What came of it; a message, if it failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// By column.
    Sets(Vec<Tally>),
    /// See [`Outcome`].
    Movies(Result<Outcome, String>),
    /// The table's numbers.
    Scenario(Result<Report, String>),
}

/// Do one.
pub fn work(job: Job) -> Answer {
    match job {
        Job::Sets(batch) => Answer::Sets(batch.play()),
        Job::Movies(show) => Answer::Movies(show.play().map_err(|e| e.to_string())),
        Job::Scenario {
            path,
            cpus,
            scheduler,
            seed,
        } => {
            let options = Options {
                scheduler,
                seed: Some(seed),
                traced: false,
            };
            let read = Scenario::read(&path).and_then(|s| match cpus {
                Some(cpus) => s.with_cpus(&path, cpus),
                None => Ok(s),
            });
            let report = read.map(|scenario| scenario.play(options, |_| {}));
            Answer::Scenario(report.map_err(|e| e.to_string()))
        }
    }
}

/// Be a worker, until standard input ends.
///
/// # Errors
/// As [`pool::answer`].
pub fn run() -> io::Result<()> {
    pool::answer(work)
}
