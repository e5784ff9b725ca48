//! The jobs of the pool's workers.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::machine::Scheduler;
use crate::pool;
use crate::report::Report;
use crate::scenario::{Options, Scenario};
use crate::study::hybrid;
use crate::study::locality;
use crate::study::movies::{self, Outcome};
use crate::study::scaling;
use crate::study::schedulability::{self, Tally};
use crate::study::shares;

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// Some task sets of one point of figures 21 to 23.
    Sets(schedulability::Batch),
    /// One run of several movies.
    Movies(movies::Show),
    /// One run of a machine of many CPUs.
    Scaling(scaling::Load),
    /// One run of a machine whose CPUs differ.
    Hybrid(hybrid::Load),
    /// One run of a machine with several caches.
    Locality(locality::Load),
    /// One run of two domains with weights.
    Shares(shares::Load),
    /// One run of a scenario file.
    Scenario {
        /// The file.
        path: PathBuf,
        /// CPUs, instead of the file's.
        cpus: Option<usize>,
        /// The scheduler.
        scheduler: Scheduler,
        /// The seed of random numbers.
        seed: u64,
    },
}

/// The result of a job, or an error message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// By column.
    Sets(Vec<Tally>),
    /// See [`Outcome`].
    Movies(Result<Outcome, String>),
    /// See [`scaling::Outcome`].
    Scaling(scaling::Outcome),
    /// See [`hybrid::Line`].
    Hybrid(hybrid::Line),
    /// See [`locality::Outcome`].
    Locality(locality::Outcome),
    /// See [`shares::Outcome`].
    Shares(shares::Outcome),
    /// See [`Report`].
    Scenario(Result<Report, String>),
}

/// Do a job.
pub fn work(job: Job) -> Answer {
    match job {
        Job::Sets(batch) => Answer::Sets(batch.play()),
        Job::Movies(show) => Answer::Movies(show.play().map_err(|e| e.to_string())),
        Job::Scaling(load) => Answer::Scaling(load.play()),
        Job::Hybrid(load) => Answer::Hybrid(load.play()),
        Job::Locality(load) => Answer::Locality(load.play()),
        Job::Shares(load) => Answer::Shares(load.play()),
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

/// Work as a worker until standard input ends.
///
/// # Errors
/// As [`pool::answer`].
pub fn run() -> io::Result<()> {
    pool::answer(work)
}
