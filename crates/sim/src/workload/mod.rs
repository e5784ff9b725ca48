//! Behaviours of tasks. All that look at chance get it from a seed ([`crate::chance::Chance`]).
//!
//! | file | what |
//! |---|---|
//! | `jobs.rs` | tasks that release jobs: periodic, sporadic, in bursts |
//! | `movie.rs`, `trace.rs` | a movie player, and what its frames cost |
//! | `plain.rs` | endless, on-off, a fork bomb |
//! | `random.rs` | anything: runs, sleeps, forks, executes, ends |

mod jobs;
mod movie;
mod plain;
mod random;
mod trace;

pub use jobs::{Arrivals, Jobs, Noted, Periodic};
pub use movie::{Movie, Player, Shown};
pub use plain::{hog, on_off, Bomb};
pub use random::Random;
pub use trace::{Trace, TraceError};
