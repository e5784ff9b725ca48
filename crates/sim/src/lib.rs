//! The simulator: plays the kernel's part, in virtual time, for the scheduler's own source.
//!
//! bpf/main.bpf.c and all that it includes is compiled for the host (host/), its kernel functions are
//! `kfuncs.rs`, and `run.rs` calls its callbacks in the kernel's order. The same workload gives the same
//! trace, event by event.
//!
//! | file | what |
//! |---|---|
//! | `engine.rs` | a simulation, and the loop over what happens: ticks, kicks, timers |
//! | `run.rs` | which callback when: wake-ups, choices, what tasks do |
//! | `hotplug.rs` | CPUs that leave and come |
//! | `change.rs` | affinity, weight and signals from outside |
//! | `cgroups.rs`, `cgroups/` | the tree of cgroups; what is done to it, and which callbacks that makes |
//! | `calls.rs` | the scheduler's callbacks |
//! | `state.rs` | CPUs, tasks, queues, timers |
//! | `agenda.rs` | what will happen |
//! | `kfuncs.rs` | the kernel functions that the scheduler calls |
//! | `queue.rs` | dispatch queues |
//! | `task.rs` | tasks, and what a workload is |
//! | `workload/`, `chance.rs` | workloads, and chance from a seed |
//! | `machine.rs`, `model/` | any scheduler: ours, or models of what others do |
//! | `scenario.rs`, `scenario/`, `report.rs` | files that describe a machine and its tasks; table and picture of what happened |
//! | `study/`, `bin/study.rs` | studies over many runs: schedulability, movies |
//! | `pool.rs`, `worker.rs` | many runs on the machine's cores, in processes |
//! | `invariants.rs` | what must hold after every event |
//! | `host/` | BPF helpers, maps and timers for the host's compiler |

mod agenda;
mod calls;
mod cgroups;
pub mod chance;
mod change;
mod engine;
mod host;
mod hotplug;
mod invariants;
mod kfuncs;
pub mod machine;
pub mod model;
pub mod pool;
mod queue;
pub mod report;
mod run;
pub mod scenario;
mod state;
pub mod study;
mod task;
pub mod worker;
pub mod workload;

pub use cgroups::{
    Bandwidth, CgroupChange, CgroupError, CgroupId, DomainChange, DomainPolicy, Existing, ROOT,
};
pub use change::Change;
pub use engine::{Settings, Simulation, Switch};
pub use host::{Reservation, ServerPolicy};
pub use task::{CpuMask, Ends, Place, Program, Step, TaskId, MAX_CPUS, PF_KTHREAD};

/// A CPU may be idle for so long although a task waits that may run there, ns: the way of a kick, and back.
pub const IDLE_BOUND_NS: u64 = 100_000;

#[cfg(test)]
mod tests;
