//! Studies: the paper's figures that take many runs (Kato, section 7.1).
//!
//! | file | what |
//! |---|---|
//! | `taskset.rs` | random task sets |
//! | `analysis.rs` | tests that need no simulation |
//! | `edf_wm.rs` | the one of them that splits tasks over CPUs |
//! | `schedulability.rs` | Figs. 21 to 23: how many sets miss no deadline |
//! | `movies.rs` | Figs. 8 to 12 and 15 to 18: frames per second of several movies |

use crate::Settings;

/// All of each CPU may be promised, as in the paper; by default ours leaves a tenth to best-effort work.
fn settings(cpus: usize) -> Settings {
    Settings {
        cpus,
        r_lo_ppm: 1_000_000,
        r_hi_ppm: 1_000_000,
        r_max_ppm: 1_000_000,
        ..Settings::default()
    }
}

pub mod analysis;
mod edf_wm;
pub mod movies;
pub mod schedulability;
pub mod taskset;
