//! The simulator: runs the scheduler's own source in virtual time, and takes the kernel's part.
//!
//! bpf/main.bpf.c and all its headers are compiled for the host (host/). `kfuncs.rs` has the kernel
//! functions that the scheduler calls. `run.rs` calls the scheduler's callbacks in the kernel's
//! order. The same workload and seed give the same trace, event by event.
//!
//! | file | what |
//! |---|---|
//! | `engine.rs` | a simulation, and the loop over its events: ticks, kicks, timers |
//! | `run.rs` | wake-ups, and how a CPU picks its next task |
//! | `steps.rs` | what tasks do: run, sleep, fork, exec, exit |
//! | `hotplug.rs` | CPUs that go offline and online |
//! | `change.rs` | changes from outside: affinity, weight, signals |
//! | `cgroups.rs`, `cgroups/` | the tree of cgroups, its changes and their callbacks |
//! | `calls.rs` | calls of the scheduler's callbacks |
//! | `cost.rs` | what the scheduler's own work costs: callbacks, and waiting for locks |
//! | `state.rs` | CPUs, tasks, queues, timers |
//! | `agenda.rs` | the event queue |
//! | `kfuncs.rs`, `kfuncs/` | the kernel functions that the scheduler calls |
//! | `numbers.rs` | the flags and queue ids of the simulated kernel |
//! | `queue.rs` | dispatch queues |
//! | `rival.rs` | other CPUs that act in the middle of a callback |
//! | `task.rs` | tasks, and the interface of their programs |
//! | `workload/`, `rng.rs` | programs of tasks, and random numbers from a seed |
//! | `machine.rs`, `model/` | any scheduler: aplomb, or models of others |
//! | `scenario.rs`, `scenario/`, `report.rs` | files that describe a run; its table and picture |
//! | `study/` | studies over many runs: schedulability, movies, machines of many CPUs |
//! | `pool.rs`, `worker.rs` | many runs on all cores, in processes |
//! | `invariants.rs` | what must hold after every event |
//! | `host/` | the scheduler compiled for the host: BPF helpers, maps, timers |
//! | `bin/aplomb-sim/` | the program |

mod agenda;
mod calls;
mod cgroups;
mod change;
mod cost;
mod engine;
mod host;
mod hotplug;
mod invariants;
mod kfuncs;
pub mod machine;
pub mod model;
mod numbers;
pub mod pool;
mod queue;
pub mod report;
mod rival;
pub mod rng;
mod run;
pub mod scenario;
mod state;
mod steps;
pub mod study;
mod task;
pub mod worker;
pub mod workload;

pub use cgroups::{
    Bandwidth, CgroupChange, CgroupError, CgroupId, DomainChange, DomainPolicy, Existing, ROOT,
};
pub use change::Change;
pub use cost::{Costs, Spent};
pub use engine::{Settings, Simulation, SlowCpus, Switch};
pub use host::{Reservation, ServerPolicy};
pub use numbers::Numbers;
pub use task::{CpuMask, Ends, Place, Program, Step, TaskId, MAX_CPUS, PF_KTHREAD, SCHED_IDLE};

/// A CPU may be idle for this long, ns, while a task waits that may run there. The CPU picks when a
/// kick arrives, which takes 1 us by default and up to 20 us in the tests of random changes.
pub const IDLE_BOUND_NS: u64 = 100_000;

#[cfg(test)]
mod tests;
