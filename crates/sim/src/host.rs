//! The interface to host/scheduler.c: its functions, and the structures that both sides use.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use crate::cgroups::CgroupStruct;
use crate::task::{CpuMask, TaskStruct};

/// `struct scx_init_task_args`
#[repr(C)]
pub(crate) struct InitArgs {
    pub fork: bool,
    pub cgroup: *mut CgroupStruct,
}

/// `struct scx_cgroup_init_args`
#[repr(C)]
pub(crate) struct CgroupInitArgs {
    pub weight: u32,
    pub period: u64,
    pub quota: u64,
    pub burst: u64,
}

/// `struct host_cgroup_ops`: the scheduler's cgroup callbacks. None: the scheduler lacks this one.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CgroupOps {
    pub init: Option<unsafe extern "C" fn(*mut CgroupStruct, *mut CgroupInitArgs) -> i32>,
    pub exit: Option<unsafe extern "C" fn(*mut CgroupStruct)>,
    pub prep_move: Option<PrepMove>,
    pub moved: Option<Move>,
    pub cancel_move: Option<Move>,
    pub set_weight: Option<unsafe extern "C" fn(*mut CgroupStruct, u32)>,
    pub set_bandwidth: Option<unsafe extern "C" fn(*mut CgroupStruct, u64, u64, u64)>,
    pub set_idle: Option<unsafe extern "C" fn(*mut CgroupStruct, bool)>,
}

type PrepMove = unsafe extern "C" fn(*mut TaskStruct, *mut CgroupStruct, *mut CgroupStruct) -> i32;
type Move = unsafe extern "C" fn(*mut TaskStruct, *mut CgroupStruct, *mut CgroupStruct);

/// `struct scx_exit_task_args`
#[repr(C)]
pub(crate) struct ExitArgs {
    pub cancelled: bool,
}

/// `struct super_block`, `inode` and `file` of an executable.
#[repr(C)]
pub(crate) struct Program {
    device: u32,
    ino: u64,
    links: u32,
    generation: u32,
    super_block: *const u32,
    inode: *const u64,
}

impl Program {
    pub fn new(ino: u64) -> Self {
        Self {
            device: 1,
            ino,
            links: 1,
            generation: 0,
            super_block: ptr::null(),
            inode: ptr::null(),
        }
    }
}

/// `struct linux_binprm`
#[repr(C)]
pub(crate) struct Binprm {
    file: *const *const u64,
}

impl Binprm {
    /// `program` must not move in memory while the result is used.
    pub fn new(program: &mut Program) -> Self {
        program.super_block = &program.device;
        program.inode = &program.ino;
        Self {
            file: &program.inode,
        }
    }
}

/// `struct spec`
#[repr(C)]
struct Spec {
    runtime_ns: u64,
    period_ns: u64,
    id: u32,
    flags: u32,
    protect_s: u32,
    io_priority: u32,
    policy: u32,
    pad: u32,
}
const INTERACTIVE: u32 = 1;
const INHERIT: u32 = 2;
const REVOCABLE: u32 = 4;
const GUARANTEED: u32 = 32;

/// The server policy: what becomes of a task whose budget is used up (`enum server_policy` of
/// bpf/policy/edf.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerPolicy {
    /// The task runs as best-effort work until its next period.
    Redline = 1,
    /// The task does not run until its next period.
    CbsHard = 2,
    /// The task gets its next budget at once, with a later deadline.
    CbsSoft = 3,
    /// Like Redline, but the task also runs on slack, the budget that other servers did not use.
    #[default]
    Fcbs = 4,
    /// Like Redline, and the task is best-effort work for the first part of each period, too.
    Deferred = 5,
}

/// The reservation of a program (`struct spec` of bpf/intf.h).
#[derive(Clone, Copy, Debug, Default)]
pub struct Reservation {
    /// C, ns.
    pub runtime: u64,
    /// T, ns, at least `runtime`.
    pub period: u64,
    /// A forked child gets the reservation, too (flag I).
    pub inherit: bool,
    /// The reservation may be revoked (flag R).
    pub revocable: bool,
    /// The reservation is guaranteed: admitted by what is promised, and split over several CPUs if
    /// no single CPU has room (flag G).
    pub guaranteed: bool,
    /// The server policy; None: the machine's ([`crate::Settings::server`]).
    pub policy: Option<ServerPolicy>,
}

extern "C" {
    pub(crate) fn aplomb_init() -> i32;
    pub(crate) fn make_timers(unused: *mut c_void) -> i32;
    pub(crate) fn aplomb_init_task(p: *mut TaskStruct, args: *mut InitArgs) -> i32;
    pub(crate) fn aplomb_exit_task(p: *mut TaskStruct, args: *mut ExitArgs);
    pub(crate) fn aplomb_enable(p: *mut TaskStruct);
    pub(crate) fn aplomb_select_cpu(p: *mut TaskStruct, prev_cpu: i32, wake_flags: u64) -> i32;
    pub(crate) fn aplomb_enqueue(p: *mut TaskStruct, flags: u64);
    pub(crate) fn aplomb_dispatch(cpu: i32, prev: *mut TaskStruct);
    pub(crate) fn aplomb_running(p: *mut TaskStruct);
    pub(crate) fn aplomb_stopping(p: *mut TaskStruct, runnable: bool);
    pub(crate) fn aplomb_set_cpumask(p: *mut TaskStruct, mask: *const CpuMask);
    pub(crate) fn host_runnable(p: *mut TaskStruct, flags: u64);
    pub(crate) fn host_quiescent(p: *mut TaskStruct, flags: u64);
    pub(crate) fn host_yield(p: *mut TaskStruct);
    pub(crate) fn host_tick(p: *mut TaskStruct);
    pub(crate) fn host_set_weight(p: *mut TaskStruct, weight: u32);
    pub(crate) fn host_cpu(cpu: i32, comes: bool);
    pub(crate) fn host_timer_fire(timer: usize);
    pub(crate) fn host_exec(p: *mut TaskStruct, binprm: *mut Binprm);
    pub(crate) fn host_exit(p: *mut TaskStruct);
    #[cfg(test)]
    pub(crate) fn host_exit_flags(kind: i32, code: i64) -> u32;
    fn host_data_size() -> usize;
    fn host_data_save(saved: *mut u8);
    fn host_reset(saved: *const u8);
    fn host_settings(lo_ppm: u64, hi_ppm: u64, max_ppm: u64, policy: u32, tick: u64);
    fn host_cores(threads: u32, cache: u32);
    fn host_capacities(slow_from: u32, capacity: u32);
    fn host_spec(ino: u64, spec: *const Spec) -> i32;
    fn host_server(p: *mut TaskStruct) -> *const c_void;
    fn host_load_ppm(cpu: u32) -> u64;
    fn host_has() -> u32;
    fn host_reserve(pid: i32, spec: *const Spec) -> i32;
    fn host_cpu_view(cpu: u32, view: *mut CpuView);
    fn host_throttled(p: *mut TaskStruct) -> bool;
    static sim_rounds: u64;
    fn host_tree_lock() -> *const c_void;
    fn host_wait(p: *mut TaskStruct, wait: *mut Wait);
    static host_cgroup_ops: CgroupOps;
    static host_layout: [usize; 30];
}

/// Which of the optional callbacks the scheduler has.
#[derive(Clone, Copy)]
pub(crate) struct Has {
    pub runnable: bool,
    pub quiescent: bool,
    pub yields: bool,
    pub set_weight: bool,
    pub cpu_online: bool,
    pub cpu_offline: bool,
    /// SCX_OPS_ENQ_LAST: the last runnable task of a CPU is enqueued, unless dispatch gives it a
    /// slice.
    pub enq_last: bool,
    /// SCX_OPS_ENQ_EXITING: tasks that exit are enqueued like others.
    pub enq_exiting: bool,
    pub tick: bool,
}

/// `aplomb set`. None: `--clear`.
pub(crate) fn reserve(pid: i32, asked: Option<Reservation>) {
    let spec = row(REQUESTED, asked.unwrap_or_default());
    // SAFETY: host_reserve() looks the task up by its pid, and copies the spec
    let status = unsafe { host_reserve(pid, &spec) };
    assert_eq!(status, 0, "no such task");
}

pub(crate) fn has() -> Has {
    // SAFETY: host_has() only looks at addresses of functions
    let bits = unsafe { host_has() };
    let has = |bit: u32| bits >> bit & 1 == 1;
    Has {
        runnable: has(0),
        quiescent: has(1),
        yields: has(2),
        set_weight: has(3),
        cpu_online: has(4),
        cpu_offline: has(5),
        enq_last: has(6),
        enq_exiting: has(8),
        tick: has(7),
    }
}

pub(crate) fn cgroup_ops() -> CgroupOps {
    // SAFETY: a constant
    let ops = unsafe { host_cgroup_ops };
    #[cfg(test)]
    let ops = crate::tests::probe::around(ops);
    ops
}

/// `struct host_wait`: how a task waits by what the scheduler knows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    /// `enum right`; 0: none.
    pub right: u32,
    /// Not 0: its place in the queue is its deadline.
    pub by_deadline: u32,
    /// Not 0: it is counted in its domain's queue.
    pub counted: u32,
}

pub(crate) fn wait(p: &TaskStruct) -> Wait {
    let mut wait = Wait::default();
    // SAFETY: `p` is a task of the simulation, and host_wait() only reads its context
    unsafe { host_wait(ptr::from_ref(p).cast_mut(), &mut wait) };
    wait
}

/// Is this the lock of the domain tree?
pub(crate) fn is_tree_lock(lock: *const c_void) -> bool {
    // SAFETY: host_tree_lock() returns an address
    lock == unsafe { host_tree_lock() }
}

/// Rounds of all loops of the scheduler so far.
pub(crate) fn rounds() -> u64 {
    // SAFETY: a counter that only the scheduler changes, in the thread of this simulation
    unsafe { sim_rounds }
}

/// Is a task's domain, or one above it, throttled (its `cpu.max` used up)?
pub(crate) fn throttled(p: &TaskStruct) -> bool {
    // SAFETY: host_throttled() reads the scheduler's task storage
    unsafe { host_throttled(ptr::from_ref(p).cast_mut()) }
}

/// `struct host_cpu_view`: the scheduler's state of a CPU.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct CpuView {
    /// Virtual time of the machine's queue, and of this CPU's queue of pinned tasks.
    pub fair_now: u64,
    pub pinned_now: u64,
    /// The running task's CPU time when it began to run.
    pub exec_start: u64,
    /// 1: the running task uses its server's budget. 0: it does not, and the fields below are 0.
    pub by_right: u32,
    pub period: u64,
    pub runtime: u64,
    /// The rest of the budget, ns; below 0: overrun.
    pub budget: i64,
}

pub(crate) fn cpu_view(cpu: usize) -> CpuView {
    let mut view = CpuView::default();
    // SAFETY: host_cpu_view() fills in `view`; a test compares the layouts
    unsafe { host_cpu_view(cpu as u32, &mut view) };
    view
}

/// Set all variables of the scheduler to their values at load time.
pub(crate) fn reset() {
    static LOADED: OnceLock<Vec<u8>> = OnceLock::new();
    // SAFETY: the caller holds PLAYING, so no simulation uses the variables; the buffer has their
    // size
    unsafe {
        let loaded = LOADED.get_or_init(|| {
            let mut saved = vec![0; host_data_size()];
            host_data_save(saved.as_mut_ptr());
            saved
        });
        host_reset(loaded.as_ptr());
    }
}

pub(crate) fn settings(s: &crate::Settings) {
    // SAFETY: host_settings() only sets variables; the number of CPUs is that of the simulation
    // that kfuncs::enter() was told
    unsafe {
        host_settings(
            s.r_lo_ppm,
            s.r_hi_ppm,
            s.r_max_ppm,
            s.server as u32,
            s.tick_ns,
        );
        host_cores(s.threads as u32, s.cache.unwrap_or(s.cpus) as u32);
        if let Some(slow) = s.slow.filter(|slow| slow.known) {
            host_capacities(slow.from as u32, slow.capacity.into());
        }
    }
}

pub(crate) fn spec(ino: u64, asked: Reservation) {
    let spec = row(ino as u32, asked);
    // SAFETY: host_spec() copies the spec
    let status = unsafe { host_spec(ino, &spec) };
    assert_eq!(status, 0, "too many specs for a simulation");
}

/// The number of the spec of reservations by request, as the daemon's.
const REQUESTED: u32 = 1;

fn row(id: u32, asked: Reservation) -> Spec {
    let given = [
        (true, INTERACTIVE),
        (asked.inherit, INHERIT),
        (asked.revocable, REVOCABLE),
        (asked.guaranteed, GUARANTEED),
    ];
    Spec {
        runtime_ns: asked.runtime,
        period_ns: asked.period,
        id,
        flags: given.iter().filter(|g| g.0).map(|g| g.1).sum(),
        protect_s: 0,
        io_priority: 0,
        policy: asked.policy.map_or(0, |p| p as u32),
        pad: 0,
    }
}

/// A task's server: its state, and the ns that the task ran on its own budget.
pub(crate) fn server(p: *mut TaskStruct) -> Option<(u32, u64)> {
    // SAFETY: `p` is a live task. The result is null or a `struct server_info`, to which the
    // offsets belong.
    unsafe {
        let info = host_server(p).cast::<u8>();
        (!info.is_null()).then(|| {
            let served = info.add(host_layout[14]).cast::<u64>().read_unaligned();
            let state = info.add(host_layout[15]).cast::<u32>().read_unaligned();
            (state, served)
        })
    }
}

pub(crate) fn load_ppm(cpu: usize) -> u64 {
    // SAFETY: host_load_ppm() only reads a variable
    unsafe { host_load_ppm(cpu as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::{CssSet, KernfsIattrs, KernfsNode};
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_have_the_layout_of_the_c_headers() {
        // SAFETY: a constant
        let theirs = unsafe { host_layout };
        let ours = [
            size_of::<TaskStruct>(),
            offset_of!(TaskStruct, flags),
            offset_of!(TaskStruct, pid),
            offset_of!(TaskStruct, nr_cpus_allowed),
            offset_of!(TaskStruct, cpus_ptr),
            offset_of!(TaskStruct, mm),
            offset_of!(TaskStruct, cgroups),
            offset_of!(TaskStruct, sum_exec_runtime),
            offset_of!(TaskStruct, last_arrival),
            offset_of!(TaskStruct, scx),
            offset_of!(TaskStruct, bpf_storage),
            offset_of!(TaskStruct, self_exec_id),
            offset_of!(TaskStruct, comm),
        ];
        assert_eq!(theirs[..ours.len()], ours);
        let ours = [
            size_of::<CgroupStruct>(),
            offset_of!(CgroupStruct, level),
            offset_of!(CgroupStruct, ancestors),
            size_of::<KernfsNode>(),
            offset_of!(KernfsNode, id),
            offset_of!(KernfsNode, iattr),
            size_of::<KernfsIattrs>(),
            size_of::<CssSet>(),
            size_of::<InitArgs>(),
            offset_of!(InitArgs, cgroup),
            size_of::<CgroupInitArgs>(),
            offset_of!(CgroupInitArgs, burst),
            size_of::<CgroupOps>(),
        ];
        assert_eq!(theirs[theirs.len() - ours.len()..], ours);
    }
}
