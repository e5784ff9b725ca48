//! Studies: figures that take many runs (Kato, Ishikawa and Rajkumar, section 7.1), and machines of
//! many CPUs.
//!
//! | file | what |
//! |---|---|
//! | `taskset.rs` | random task sets |
//! | `analysis.rs` | analytic tests of schedulability |
//! | `edf_wm.rs` | the analytic test of EDF-WM, which splits tasks over CPUs |
//! | `schedulability.rs` | figures 21 to 23: how many sets miss no deadline |
//! | `movies.rs` | figures 8 to 12 and 15 to 18: frames per second of several movies |
//! | `scaling.rs` | what 1 to 1,024 CPUs get done, if the scheduler's work takes time |
//! | `hybrid.rs` | what programs get on a machine of fast and slow CPUs |
//! | `locality.rs` | how often tasks change the cache, where there are several |
//! | `shares.rs` | what two domains have of 1 to 1,024 CPUs, by their weights |

use crate::Settings;

/// The settings of studies: all of each CPU may be reserved, as in the paper. (By default aplomb
/// keeps a tenth for best-effort work.)
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
pub mod hybrid;
pub mod locality;
pub mod movies;
pub mod scaling;
pub mod schedulability;
pub mod shares;
pub mod taskset;
