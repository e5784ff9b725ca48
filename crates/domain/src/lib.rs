//! Domains: cgroup v2 directories, with their shares, reservations and policies.
//!
//! The cgroup tree is the only tree there is. What the kernel has a file for (weight, limit,
//! idleness) is in that file; what it has none for (reservation, policy, ephemeral) is in extended
//! attributes of the directory, so that it stays with the cgroup and a unit or a container manager
//! can set it too.
//!
//! No BPF here: the daemon reads the attributes and tells the kernel side.

mod attributes;
mod change;
mod error;
mod manager;
mod mount;
mod notation;
mod path;
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
pub use systemd::{is_booted, Systemd};
pub use tree::{Directory, Files, Found, Tree, Walk};
