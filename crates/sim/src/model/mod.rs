//! Models of what others do, to compare with: same programs, same numbers as [`crate::Simulation`].
//!
//! A model is exact and instant: no ticks, no cost of a switch or a migration, no late kick. That favours it
//! against ours, which is played with all of these.
//!
//! | file | what |
//! |---|---|
//! | `engine.rs` | what happens when: steps of tasks, alarms, CPUs that choose |
//! | `core.rs` | what a policy sees, and the interface of one |
//! | `edf.rs`, `cbs.rs` | global and partitioned EDF over constant bandwidth servers (SCHED_DEADLINE) |
//! | `fcbs.rs` | the same servers, passing on what jobs leave of their budgets (Kato's FCBS) |
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
