//! The interface of user space to aplomb's scheduler: load and attach it, set matchers, read state,
//! receive events.
//!
//! The kernel side is `bpf/main.bpf.c`, compiled into this crate by its build script. [`Scheduler`]
//! is the loaded kernel side. [`Kernel`] is a trait with the calls of the daemon, so that the
//! daemon can be tested without a kernel. [`facts`] reports what this kernel and machine can and
//! cannot do.
//!
//! Nothing is pinned: every map, program and link belongs to a file descriptor of this process.
//! When the process ends in any way, the kernel detaches the scheduler and uses its own again
//! (design.md, idea 5).
//!
//! Units everywhere: durations in ns, bandwidths and loads in ppm of one CPU, times
//! CLOCK_MONOTONIC.

use std::os::fd::BorrowedFd;

mod btf;
mod distribution;
mod domain;
pub mod facts;
#[cfg(target_feature = "crt-static")]
mod libelf;
mod scheduler;
mod types;

/// Rust twins of the structs and enums in bpf/intf.h, written by libbpf-cargo at build time.
#[allow(
    dead_code,
    non_camel_case_types,
    non_snake_case,
    unused_imports,
    clippy::all
)]
mod layout {
    include!(concat!(env!("OUT_DIR"), "/layout.skel.rs"));
}

pub use aplomb_protocol::{
    Cpu, DomainPolicy, EventKind, Max, Part, Reservation, ServerPolicy, ServerState,
};
pub use domain::{Domain, DomainChange, DomainSetting};
pub use scheduler::Scheduler;
pub use types::{
    comm_text, flags, limits, Event, ExitInfo, Matcher, Reserved, Server, Settings, SpecRow,
};

/// Why the scheduler could not be loaded or attached. Nothing is left behind in any case.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// sched_ext is not in this kernel.
    #[error("this kernel ({release}) has no sched_ext: aplomb needs Linux 6.12 or later, built with CONFIG_SCHED_CLASS_EXT (Debian: 6.16 or later, from backports)")]
    NoSchedExt { release: String },
    /// The kernel does not describe its types.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux is missing or empty): it must be built with CONFIG_DEBUG_INFO_BTF")]
    NoBtf,
    /// The kernel lacks numbers that the programs take from it.
    #[error("this kernel ({release}) has another sched_ext: its BTF lacks {}", .missing.join(", "))]
    OtherInterface {
        release: String,
        missing: Vec<String>,
    },
    /// The caller lacks privileges.
    #[error("loading a scheduler needs {0}: run aplomb as root")]
    NoCapability(String),
    /// sched_ext holds one scheduler at a time.
    #[error("another sched_ext scheduler is attached: {0}; stop it first")]
    Busy(String),
    /// More CPUs than the tables of the kernel side hold.
    #[error("this machine may have {found} CPUs; aplomb supports at most {limit}")]
    TooManyCpus { found: u32, limit: u32 },
    /// The kernel refused the programs (verifier, missing function); with libbpf's log.
    #[error("the kernel refused aplomb's programs: {source}{log}")]
    Refused {
        source: libbpf_rs::Error,
        log: String,
    },
    /// The scheduler was attached and the kernel ended it at once.
    #[error("the kernel ended the scheduler as it began: {0}")]
    Ended(ExitInfo),
}

/// A call to the loaded scheduler failed.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A system call failed.
    #[error("{doing}: {source}")]
    Call {
        doing: &'static str,
        source: libbpf_rs::Error,
    },
    /// More matchers than the map holds.
    #[error("{found} matchers, but the kernel's table holds {limit}")]
    TooManyMatchers { found: usize, limit: usize },
    /// A reservation for a process that does not exist (any more).
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// The table of interactive tasks is full.
    #[error("all {0} places for interactive tasks are taken")]
    Full(u32),
    /// A kernel thread, or a thread that ends.
    #[error("thread {0} never returns to user mode, so it cannot be parked")]
    NeverParks(i32),
    /// Parking needs task work for BPF.
    #[error("this kernel cannot park a thread: that takes Linux 7.0 or newer")]
    CannotPark,
    /// A reservation out of range.
    #[error("the kernel side refused the reservation's values")]
    Invalid,
    /// A cgroup that the kernel side does not know as a domain: it has gone, it has no CPU
    /// controller, or it is beyond a limit.
    #[error("the cgroup with id {0} is no domain of the kernel side")]
    NoDomain(u64),
    /// Reservations of domains add up to no more than a limit; ppm of the machine.
    #[error("{} are reserved there already, of at most {}", aplomb_domain::percent(*.taken_ppm), aplomb_domain::percent(*.limit_ppm))]
    DomainFull { taken_ppm: u32, limit_ppm: u32 },
    /// A domain's C every T fits on no CPU, and not on several in turn, beside what is promised
    /// there to others.
    #[error("no CPU can promise that much (r-max) beside what it has promised to others, nor can several in turn")]
    DomainUnpromised,
}

/// What the daemon asks of the scheduler. [`Scheduler`] does it; tests have a stand-in.
pub trait Kernel {
    /// Attach: from here on this scheduler runs the machine.
    ///
    /// # Errors
    /// See [`LoadError`]; the stock scheduler goes on.
    fn attach(&mut self) -> Result<(), LoadError>;

    /// Give the machine back to the kernel's own scheduler. Does nothing if not attached.
    fn detach(&mut self);

    /// Make the table of matchers hold exactly `rows`, adding before removing, so that a program
    /// that is matched before and after is matched throughout. Of rows with the same key the first
    /// one counts.
    ///
    /// # Errors
    ///
    /// [`KernelError::TooManyMatchers`] changes nothing. A failed system call may leave old rows in
    /// place.
    fn set_matchers(&mut self, rows: &[(Matcher, SpecRow)]) -> Result<(), KernelError>;

    /// Have the kernel side match all running processes again.
    ///
    /// # Errors
    /// Failed system calls.
    fn rematch(&mut self) -> Result<(), KernelError>;

    /// Give process `pid` (a thread group) the reservation `spec`. None removes its reservation.
    ///
    /// # Errors
    /// No such process, table full, values out of range.
    fn reserve(&mut self, pid: i32, spec: Option<SpecRow>) -> Result<Reserved, KernelError>;

    /// Park thread `tid` for `for_ns` from its next return to user mode on; 0 ends its park. The
    /// kernel side cuts a longer request to its bound (100 ms).
    ///
    /// # Errors
    /// No such thread; one that never returns to user mode; a kernel before 7.0.
    fn park(&mut self, tid: i32, for_ns: u64) -> Result<(), KernelError>;

    /// All interactive tasks now.
    ///
    /// # Errors
    /// Failed system calls.
    fn servers(&self) -> Result<Vec<Server>, KernelError>;

    /// All domains now, in the order of their slots, in which a parent can come after its children.
    /// Includes domains whose cgroup was removed while tasks of it still exist.
    ///
    /// # Errors
    /// Failed system calls.
    fn domains(&self) -> Result<Vec<Domain>, KernelError>;

    /// Change one thing about the domain of the cgroup with id `cgid` (the inode number of its
    /// directory).
    ///
    /// # Errors
    /// No such domain, values out of range, no room for the reservation.
    fn set_domain(&mut self, cgid: u64, change: DomainChange) -> Result<(), KernelError>;

    /// The CPUs on line, and their loads.
    fn cpus(&self) -> Vec<Cpu>;

    /// How often each kind of event happened since the load, summed over the CPUs.
    ///
    /// # Errors
    /// Failed system calls.
    fn counters(&self) -> Result<Vec<(EventKind, u64)>, KernelError>;

    /// Take at most `max` events from the ring buffer, oldest first.
    fn take_events(&mut self, max: usize) -> Vec<Event>;

    /// Becomes readable when there are events. None if no events can come.
    fn event_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Why the kernel ended the scheduler. None while it runs.
    fn exited(&self) -> Option<ExitInfo>;
}
