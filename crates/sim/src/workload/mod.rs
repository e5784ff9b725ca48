//! Programs of tasks. Random numbers are from a seed ([`crate::rng::Rng`]).
//!
//! | file | what |
//! |---|---|
//! | `jobs.rs` | tasks that release jobs: periodic, sporadic, in bursts |
//! | `movie.rs`, `trace.rs` | a movie player, and the CPU time of its frames |
//! | `plain.rs` | endless tasks, on-off tasks, a fork bomb |
//! | `random.rs` | tasks that run, sleep, fork, exec and exit at random |

mod jobs;
mod movie;
mod plain;
mod random;
mod trace;

pub use jobs::{Arrivals, JobLog, Jobs, Periodic};
pub use movie::{Movie, Player, Shown};
pub use plain::{hog, on_off, Bomb};
pub use random::Random;
pub use trace::{Trace, TraceError};
