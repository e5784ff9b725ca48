//! The daemon's own pages stay in memory.
//!
//! A program that starts waits until the daemon has moved it into a domain of its own, for 100 ms
//! at most (bpf/memory/start.bpf.h). What it touches before that is never protected. While memory
//! is short, pages of the daemon that it did not use for some seconds were in swap. In the lab it
//! waited for 344 of them, 2.5 ms each. Meanwhile a program of 170 MB touched 140 MB of that
//! outside its domain.
//!
//! So pages that the daemon touches are locked from then on (mlockall(2), MCL_ONFAULT). Trade: what
//! the daemon uses once, it keeps, some 20 MB.

use rustix::mm::{mlockall, MlockAllFlags};
use tracing::warn;

/// Lock what the daemon has touched, and what it touches from now on.
pub fn stay() {
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(e) = mlockall(all) {
        warn!("memory: the daemon's own pages may be in swap when it needs them: {e}");
    }
}
