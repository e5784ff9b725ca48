//! Models of other schedulers, for comparison: they run the same programs as [`crate::Simulation`],
//! and report the same numbers.
//!
//! A model is exact and instant: it has no ticks, no cost of a switch or a migration, and no late
//! kicks. That favours it against aplomb, which is simulated with ticks and late kicks.
//!
//! | file | what |
//! |---|---|
//! | `engine.rs` | the loop over events: steps of tasks, alarms, picks |
//! | `core.rs` | the state that a policy sees, and the interface of policies |
//! | `edf.rs`, `cbs.rs` | global and partitioned EDF over CBS (SCHED_DEADLINE) |
//! | `fcbs.rs` | slack of these servers that other tasks use (Kato's FCBS) |
//! | `eevdf.rs` | Linux's fair class since 6.12 |
//! | `wrr.rs` | weighted round-robin |

mod cbs;
mod core;
mod edf;
mod eevdf;
mod engine;
mod fcbs;
mod wrr;

pub use cbs::Server;
pub use edf::{Edf, Fit, WHOLE_PPM};
pub use eevdf::Eevdf;
pub use engine::Model;
pub use wrr::Wrr;

#[cfg(test)]
mod tests;
