//! Network interfaces: which queueing discipline (qdisc) each has, and how to replace it and put it
//! back.
//!
//! - [`interfaces`]: the interfaces of this network namespace, and their settings;
//! - [`Qdiscs`]: the root qdisc of an interface, over a netlink socket;
//! - [`journal`]: which qdisc an interface had, so that it comes back however we end;
//! - [`segments`]: how large a packet of a slow link may be;
//! - [`sockets`]: the priority of other processes' sockets.
//!
//! This crate contains no BPF. The qdisc itself is bpf/net/qdisc.bpf.c, which `aplomb-kernel`
//! loads.

mod error;
pub mod interfaces;
pub mod journal;
mod netlink;
mod qdisc;
pub mod segments;
pub mod sockets;

pub use error::NetError;
pub use netlink::Watch;
pub use qdisc::{Qdiscs, Root};

/// The names of our qdiscs begin with this; the index of the interface follows. The kernel allows
/// 15 characters.
pub const OURS: &str = "aplomb.";

/// The name of our qdisc for the interface with this index.
pub fn kind_of(index: u32) -> String {
    format!("{OURS}{index}")
}
