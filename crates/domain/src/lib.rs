//! Domains: cgroup v2 directories, with their shares, reservations and policies.
//!
//! The cgroup tree is the only tree. Settings for which the kernel has a file (weight, limit,
//! idleness) are in that file. The others (reservation, policy, ephemeral) are in extended
//! attributes of the directory: so they stay with the cgroup, and a unit or a container manager can
//! set them too.
//!
//! This crate contains no BPF. The daemon reads the attributes and passes them to the kernel side.

mod attributes;
mod change;
mod error;
mod manager;
mod mount;
mod notation;
pub mod oomd;
mod path;
mod queues;
mod systemd;
#[doc(hidden)]
pub mod testing;
pub mod tree;

pub use attributes::*;
pub use change::{fuzz_domain, Change, CHANGES};
pub use error::DomainError;
pub use manager::{set_mark, Cgroupfs, Manager};
pub use mount::find_mount;
pub use notation::*;
pub use path::{parse_proc_cgroup, DomainPath};
pub use queues::*;
pub use systemd::{is_booted, place as unit_place, Systemd};
pub use tree::{Directory, Enter, Files, Found, Tree, Walk, MAX_OWNED};
