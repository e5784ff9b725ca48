//! Specifications of applications: how to recognise a program and how much CPU it needs how often.
//!
//! Two file formats mean the same thing: Redline's line `path:type:C:T:flags:pi:io` ([`tab`],
//! Redline section 3) and TOML ([`toml_format`]). [`load`] reads the directories (vendor, `/etc`,
//! `/run`, drop-ins), [`Resolver`] turns matchers into the rows of the kernel's map (`struct
//! match_key` in `bpf/intf.h`), and [`check_file`] tells an author what is wrong and what is
//! unwise. No BPF and no privilege is needed here.
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

// An error is the end of a spec, never in a hot path: its size does not matter.
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
mod raw;
mod resolve;
mod script;
pub mod tab;
pub mod toml_format;
mod toml_print;
mod toml_values;

pub use check::{check_file, check_files, lint, Checked};
pub use device::{Device, DeviceOf, FileId, MountTable, StatDevice};
pub use diag::{shorten, Diagnostic, Place, Severity};
pub use dirs::{load, Dirs, LoadOptions, SpecSet, Trust};
pub use duration::{format_duration, parse_duration};
pub use fields::{check_domain, Problem};
pub use key::{escape_app, name_hash, Key, MatchKind};
pub use model::{flags, Class, Launch, Matcher, ServerPolicy, Spec, IO_AUTO};
pub use resolve::{
    resolve, Absent, Grant, Resolution, ResolveError, Resolved, Resolver, Row, RowOfSet, Via,
};

/// Numbers that bound what a specification or a set of them may be.
pub mod limits {
    /// Shortest runtime C: 100 us, in ns. Below it enforcing the budget costs more than it gives.
    pub const MIN_RUNTIME_NS: u64 = 100_000;
    /// Shortest period T: 1 ms, in ns.
    pub const MIN_PERIOD_NS: u64 = 1_000_000;
    /// Longest period (and so runtime): 10 s, in ns.
    pub const MAX_PERIOD_NS: u64 = 10_000_000_000;
    /// Most that a guaranteed reservation takes of each CPU that it is on, ppm: 95 %, the highest
    /// that r-max may be set to. The rest is best-effort work's.
    pub const MAX_GUARANTEED_PPM: u64 = 950_000;
    /// What r-max is unless it is set, ppm: above it a guaranteed reservation needs a higher r-max.
    pub const USUAL_R_MAX_PPM: u64 = 900_000;
    /// Longest memory protection period: 7 days, in s.
    pub const MAX_PROTECT_S: u32 = 7 * 24 * 3600;
    /// Highest number of an I/O priority (0 is the most urgent).
    pub const MAX_IO: u8 = 7;
    /// Bytes of one spec file; a longer one is refused.
    pub const MAX_FILE_BYTES: u64 = 1 << 20;
    /// Files in one directory of specs, and drop-ins of one file; more are refused.
    pub const MAX_FILES: usize = 4096;
    /// Matchers of a set, and rows for the kernel (`MAX_SPECS` in bpf/intf.h); what is over is
    /// refused.
    pub const MAX_MATCHERS: usize = 8192;
    /// Bytes of a spec's name.
    pub const MAX_NAME_BYTES: usize = 64;
    /// Bytes of a description.
    pub const MAX_DESCRIPTION_BYTES: usize = 200;
    /// Bytes of a path (PATH_MAX without its NUL).
    pub const MAX_PATH_BYTES: usize = 4095;
    /// Stars in one path, and files that it may stand for; further hits are left out and reported.
    pub const MAX_STARS: usize = 4;
    /// See [`MAX_STARS`].
    pub const MAX_GLOB_HITS: usize = 64;
    /// Bytes of a command's or kernel thread's name (TASK_COMM_LEN without its NUL).
    pub const MAX_COMM_BYTES: usize = 15;
    /// Bytes of an argument (the kernel side looks at `ARG_BYTES` = 256 with the NUL).
    pub const MAX_ARGUMENT_BYTES: usize = 255;
    /// Bytes of an application id after escaping (`CGROUP_BYTES` = 128 with the NUL).
    pub const MAX_APP_BYTES: usize = 127;
    /// Levels of a domain below the root (`MAX_DEPTH` in bpf/intf.h), and bytes of its path: those
    /// of a path below the cgroup file system's.
    pub const MAX_DOMAIN_DEPTH: usize = 16;
    /// See [`MAX_DOMAIN_DEPTH`].
    pub const MAX_DOMAIN_BYTES: usize = 3072;
    /// Bytes of one part of a domain's path (NAME_MAX).
    pub const MAX_DOMAIN_PART_BYTES: usize = 255;
    /// Diagnostics of one file; the rest is counted only.
    pub const MAX_DIAGNOSTICS: usize = 100;
}
