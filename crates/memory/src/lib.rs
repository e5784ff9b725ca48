//! Memory: keeps the working sets of interactive programs resident, by age.
//!
//! A page of a protected domain is given up only after it has not been used for the domain's
//! protection period pi (Redline section 4). The parts, from the kernel's files up:
//!
//! - [`ages`]: how long ago pages were used, from the generations of the multi-generational LRU;
//! - [`cgroup`]: usage and counters of a memory cgroup;
//! - [`journal`]: the knobs that we turned, with their old values, so that none outlives us;
//! - [`knob`]: what the path of a knob names: a file, a process's setting, an attribute;
//! - [`psap`]: the policy of reserves by amount: how a cap is divided among programs;
//! - [`reservations`]: which reservations of domains are in force;
//! - [`oom`]: the policy of which process the kernel kills when memory has run out;
//! - [`working_set`]: the policy: how much of a domain to protect, and when to look again;
//! - [`demotion`]: which program goes when the working sets of all do not fit;
//! - [`pressure`]: whether tasks wait for memory;
//! - [`shared`]: file pages that are charged to others;
//! - `sums`: what the domains above have to be protected for;
//! - [`protector`]: applies the policy to all protected domains.
//!
//! This crate contains no BPF. It reads and writes files of the kernel below folders that the
//! caller names, so its tests use folders of their own.

pub mod ages;
pub mod cgroup;
pub mod demotion;
mod error;
mod file;
mod fuzzing;
pub mod journal;
pub mod knob;
pub mod meminfo;
pub mod oom;
mod places;
pub mod pressure;
pub mod protector;
pub mod psap;
pub mod reservations;
pub mod shared;
mod sums;
#[cfg(test)]
mod testing;
pub mod working_set;

pub use ages::Ages;
pub use cgroup::{Bytes, Pages};
pub use error::MemoryError;
pub use fuzzing::fuzz_memory;
pub use journal::{Journal, Report};
pub use places::{Mode, Places};
pub use protector::{Line, Protector};
pub use reservations::Reservations;
pub use working_set::{Decision, Observation, Protection, WorkingSet};
