//! What a worker of the pool can be asked to do.

use std::io;

use serde::{Deserialize, Serialize};

use crate::pool;
use crate::study::movies::{self, Outcome};
use crate::study::schedulability::{self, Tally};

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// Some task sets of one point of Figs. 21 to 23.
    Sets(schedulability::Batch),
    /// One playing of some movies.
    Movies(movies::Show),
}

/// What came of it; a message, if it failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// By column.
    Sets(Vec<Tally>),
    /// See [`Outcome`].
    Movies(Result<Outcome, String>),
}

/// Do one.
pub fn work(job: Job) -> Answer {
    match job {
        Job::Sets(batch) => Answer::Sets(batch.play()),
        Job::Movies(show) => Answer::Movies(show.play().map_err(|e| e.to_string())),
    }
}

/// Be a worker, until standard input ends.
///
/// # Errors
/// As [`pool::answer`].
pub fn run() -> io::Result<()> {
    pool::answer(work)
}
