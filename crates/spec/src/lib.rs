//! Specifications of applications: how to recognise a program, and how much CPU time it needs how
//! often.
//!
//! There are two file formats with the same meaning: Redline's line `path:type:C:T:flags:pi:io`
//! ([`tab`], Redline section 3), and TOML ([`toml_format`]). [`load`] reads the directories
//! (vendor, `/etc`, `/run`, drop-ins). [`Resolver`] converts matchers to rows of the kernel side's
//! map (`struct match_key` in `bpf/intf.h`). [`check_file`] tells an author what is wrong or
//! unwise. This crate needs neither BPF nor privileges.
//!
//! ```no_run
//! use aplomb_spec::{load, Dirs, LoadOptions, Resolver};
//! let set = load(&Dirs::system(), &LoadOptions::default());
//! for d in &set.diagnostics {
//!     eprintln!("{d}");
//! }
//! let resolution = Resolver::new("/".as_ref())?.set(&set.specs);
//! for row in &resolution.rows {
//!     let spec = &set.specs[row.spec];
//!     println!("{}: {:?} {} ns every {} ns", spec.name, row.key, spec.runtime_ns, spec.period_ns);
//! }
//! # Ok::<(), aplomb_spec::ResolveError>(())
//! ```

// An error ends the parsing of a spec and is never in a hot path, so its size does not matter.
#![allow(clippy::result_large_err)]

mod check;
mod device;
mod diag;
mod dirs;
mod duration;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod lookup;
mod merge;
mod model;
mod rate;
mod raw;
mod resolve;
mod script;
mod size;
pub mod tab;
pub mod toml_format;
mod toml_print;
mod toml_values;
mod trust;

pub use check::{check_file, check_files, lint, Checked};
pub use device::{Device, DeviceOf, FileId, MountTable, StatDevice};
pub use diag::{shorten, Diagnostic, Place, Severity};
pub use dirs::{load, Dirs, LoadOptions, SpecSet, Trust};
pub use duration::{format_duration, parse_duration};
pub use fields::{check_domain, Problem};
pub use key::{escape_app, name_hash, Key, MatchKind};
pub use model::{flags, Class, Launch, Matcher, ServerPolicy, Spec, IO_AUTO};
pub use rate::{format_rate, parse_rate, RATES};
pub use resolve::{
    resolve, Absent, Grant, Resolution, ResolveError, Resolved, Resolver, Row, RowOfSet, Via,
};
pub use size::{format_size, parse_size};

/// Limits of a specification, or of a set of specifications.
pub mod limits {
    /// Shortest runtime C: 100 us, in ns. Below it, enforcing the budget costs more than the budget
    /// is worth.
    pub const MIN_RUNTIME_NS: u64 = 100_000;
    /// Shortest period T: 1 ms, in ns.
    pub const MIN_PERIOD_NS: u64 = 1_000_000;
    /// Longest period (and so runtime): 10 s, in ns.
    pub const MAX_PERIOD_NS: u64 = 10_000_000_000;
    /// Most that a guaranteed reservation may use of each of its CPUs, ppm: 95 %, the highest value
    /// of r-max. Best-effort work keeps the rest.
    pub const MAX_GUARANTEED_PPM: u64 = 950_000;
    /// Default of r-max, ppm. A guaranteed reservation above it needs a higher r-max.
    pub const USUAL_R_MAX_PPM: u64 = 900_000;
    /// Longest memory protection period: 7 days, in s.
    pub const MAX_PROTECT_S: u32 = 7 * 24 * 3600;
    /// Longest memory protection period in periods of the reservation.
    pub const MAX_PERIODS: u32 = 1_000_000;
    /// Least private reserve of a program: 64 KB, one page of the largest page size.
    pub const MIN_MEMORY: u64 = 64 << 10;
    /// Greatest private reserve, and greatest reservation of a domain: 64 TB.
    pub const MAX_MEMORY: u64 = 64 << 40;
    /// Largest I/O priority number (0 is the most urgent).
    pub const MAX_IO: u8 = 7;
    /// Most bytes of a spec file; a longer file is refused.
    pub const MAX_FILE_BYTES: u64 = 1 << 20;
    /// Most files in a directory of specs, and most drop-ins of one file; if there are more, all
    /// are refused.
    pub const MAX_FILES: usize = 4096;
    /// Most matchers of a set, and most rows for the kernel side (`MAX_SPECS` in bpf/intf.h).
    /// Matchers and rows beyond this are refused.
    pub const MAX_MATCHERS: usize = 8192;
    /// Most bytes of a spec's name.
    pub const MAX_NAME_BYTES: usize = 64;
    /// Most bytes of a description.
    pub const MAX_DESCRIPTION_BYTES: usize = 200;
    /// Most bytes of a path (PATH_MAX without its NUL).
    pub const MAX_PATH_BYTES: usize = 4095;
    /// Most stars in one path.
    pub const MAX_STARS: usize = 4;
    /// Most files that one path with stars may stand for. Further files are left out and reported.
    pub const MAX_GLOB_HITS: usize = 64;
    /// Most bytes of a command's or kernel thread's name (TASK_COMM_LEN without its NUL).
    pub const MAX_COMM_BYTES: usize = 15;
    /// Most bytes of an argument (the kernel side compares `ARG_BYTES` = 256, including the NUL).
    pub const MAX_ARGUMENT_BYTES: usize = 255;
    /// Most bytes of an application id after escaping (`CGROUP_BYTES` = 128, including the NUL).
    pub const MAX_APP_BYTES: usize = 127;
    /// Most levels of a domain below the root (`MAX_DEPTH` in bpf/intf.h).
    pub const MAX_DOMAIN_DEPTH: usize = 16;
    /// Most bytes of a domain's path below the root of the cgroup file system.
    pub const MAX_DOMAIN_BYTES: usize = 3072;
    /// Most bytes of one part of a domain's path (NAME_MAX).
    pub const MAX_DOMAIN_PART_BYTES: usize = 255;
    /// Most diagnostics of one file. Further ones are only counted.
    pub const MAX_DIAGNOSTICS: usize = 100;
}
