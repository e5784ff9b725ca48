//! The kernel functions that the scheduler calls, and the functions that host/scheduler.c calls, by
//! their C names. `kfuncs/queues.rs` has those for dispatch queues.

use std::cell::Cell;
use std::ptr;

use crate::agenda::Event;
use crate::cgroups::{Cgroup, CgroupStruct};
use crate::cost::Lock;
use crate::state::{State, Timer};
use crate::task::{CpuMask, Place, TaskStruct};

pub(crate) mod queues;

const EBUSY: i32 = -16;
const CACHE_LINE: usize = 64;

/// The beginning of `struct event` of bpf/intf.h.
#[repr(C)]
pub(crate) struct SchedulerEvent {
    pub time_ns: u64,
    pub kind: u32,
    pub cpu: i32,
    pub pid: i32,
    pub spec_id: u32,
    pub a: u64,
    pub b: u64,
    pub c: u64,
}

thread_local! {
    static HERE: Cell<*const State> = const { Cell::new(ptr::null()) };
}

/// Set the simulation on which the functions below work, for this thread.
pub(crate) fn enter(state: *const State) {
    HERE.with(|here| here.set(state));
}

fn with<R>(f: impl FnOnce(&State) -> R) -> R {
    HERE.with(|here| {
        // SAFETY: Simulation::attach sets HERE to a box that the simulation owns, and its drop sets
        // HERE to null. Only a simulation calls the scheduler.
        let state = unsafe { here.get().as_ref() };
        f(state.expect("the scheduler was called without a simulation"))
    })
}

fn cpu_number(cpu: i32) -> Option<usize> {
    let cpu = usize::try_from(cpu).ok()?;
    with(|s| (cpu < s.cpus.len()).then_some(cpu))
}

#[no_mangle]
extern "C" fn sim_now() -> u64 {
    with(|s| s.now.get())
}

#[no_mangle]
extern "C" fn scx_bpf_now() -> u64 {
    sim_now()
}

#[no_mangle]
extern "C" fn sim_jiffies() -> u64 {
    with(|s| s.now.get() / s.settings.tick_ns)
}

/// Callbacks run one at a time, so no lock is ever held by another CPU: only counted, and paid for
/// (cost.rs).
#[no_mangle]
extern "C" fn sim_lock(lock: *const std::ffi::c_void) {
    with(|s| {
        if crate::host::is_tree_lock(lock) {
            s.tree_locks.set(s.tree_locks.get() + 1);
            s.pay_lock(Lock::Tree);
        }
    });
}

#[no_mangle]
extern "C" fn sim_unlock(lock: *const std::ffi::c_void) {
    with(|s| {
        if crate::host::is_tree_lock(lock) {
            s.pay_rounds();
        }
    });
}

/// `word` changes atomically.
#[no_mangle]
extern "C" fn sim_atomic(word: *const std::ffi::c_void) {
    with(|s| s.pay_lock(Lock::Line(word as usize / CACHE_LINE)));
}

#[no_mangle]
extern "C" fn sim_cpu() -> u32 {
    with(|s| s.cpu.get() as u32)
}

#[no_mangle]
extern "C" fn sim_current() -> *mut TaskStruct {
    with(|s| ptr::from_ref(s.current()).cast_mut())
}

/// Add a timer. Returns its number, or -1: there is no memory for it.
#[no_mangle]
extern "C" fn sim_timer_new(address: usize) -> i32 {
    with(|s| {
        let refuse = s.timers_refused.get() < s.settings.timers_unmade;
        if refuse {
            s.timers_refused.set(s.timers_refused.get() + 1);
            return -1;
        }
        let mut timers = s.timers.borrow_mut();
        timers.push(Timer {
            address,
            armed: 0,
            cpu: 0,
        });
        timers.len() as i32 - 1
    })
}

/// Returns whether there was memory for it.
#[no_mangle]
extern "C" fn sim_timer_start(timer: u32, at: u64) -> bool {
    with(|s| {
        if !s.in_timer.get() && s.now.get() < s.settings.timers_fail_until {
            return false;
        }
        let armed = {
            let t = &mut s.timers.borrow_mut()[timer as usize];
            t.armed = t.armed.wrapping_add(1);
            t.cpu = s.cpu.get() as u32;
            t.armed
        };
        let at = at.max(s.now.get()) + s.settings.timer_late_ns;
        s.plan(at, Event::Timer(timer, armed));
        true
    })
}

#[no_mangle]
extern "C" fn sim_timer_cancel(timer: u32) {
    with(|s| {
        let t = &mut s.timers.borrow_mut()[timer as usize];
        t.armed = t.armed.wrapping_add(1);
    })
}

/// The scheduler reports a decision. The simulator counts decisions by type, and checks the numbers
/// of admissions.
#[no_mangle]
extern "C" fn sim_event(event: *const SchedulerEvent) {
    // SAFETY: from host_event_reserve(), a whole struct event
    let event = unsafe { event.read_unaligned() };
    with(|s| {
        s.reported.borrow_mut()[event.kind as usize] += 1;
        if s.settings.checked {
            crate::invariants::admission_fits(s, &event);
        }
    })
}

#[no_mangle]
extern "C" fn sim_storage(p: *mut TaskStruct, size: usize) -> *mut u64 {
    with(|s| {
        let storage = &s.tasks[State::id(p)].storage;
        let words = storage.get_or_init(|| vec![Cell::new(0); size.div_ceil(8)].into());
        words.as_ptr().cast_mut().cast()
    })
}

#[no_mangle]
extern "C" fn task_owner(p: *mut TaskStruct) -> u32 {
    with(|s| s.user(State::id(p)))
}

#[no_mangle]
extern "C" fn scx_bpf_task_set_slice(p: *mut TaskStruct, slice: u64) -> bool {
    with(|s| s.tasks[State::id(p)].kernel.scx.slice.set(slice));
    true
}

#[no_mangle]
extern "C" fn scx_bpf_task_set_dsq_vtime(p: *mut TaskStruct, vtime: u64) -> bool {
    with(|s| s.tasks[State::id(p)].kernel.scx.dsq_vtime.set(vtime));
    true
}

#[no_mangle]
extern "C" fn scx_bpf_task_running(p: *const TaskStruct) -> bool {
    let id = State::id(p.cast_mut());
    with(|s| s.cpus.iter().any(|c| c.curr.get() == Some(id)))
}

#[no_mangle]
extern "C" fn scx_bpf_kick_cpu(cpu: i32, flags: u64) {
    let Some(cpu) = cpu_number(cpu) else { return };
    with(|s| {
        let at = s.now.get() + s.settings.kick_ns;
        let idle = s.cpus[cpu].curr.get().is_none();
        if flags & s.settings.numbers.kick_idle == 0 {
            let preempt = flags & s.settings.numbers.kick_preempt != 0;
            s.plan(at, Event::Kick(cpu as u32, preempt));
        } else if idle || cpu == s.cpu.get() {
            // if this CPU is picking, the kernel decides about the kick after the pick
            // (can_skip_idle_kick, kick_one_cpu_if_idle)
            s.plan(at, Event::KickIdle(cpu as u32));
        }
    })
}

#[no_mangle]
extern "C" fn scx_bpf_select_cpu_dfl(
    p: *mut TaskStruct,
    prev: i32,
    _flags: u64,
    idle: *mut bool,
) -> i32 {
    with(|s| {
        let allowed = s.tasks[State::id(p)].allowed();
        s.idle_searches.set(s.idle_searches.get() + 1);
        let found = s.claim_idle(allowed, usize::try_from(prev).ok());
        // SAFETY: `idle` is the caller's variable
        unsafe { *idle = found.is_some() };
        found.map_or(prev, |cpu| cpu as i32)
    })
}

/// `struct scx_bpf_select_cpu_and_args`
#[repr(C)]
struct SelectArgs {
    prev: i32,
    wake_flags: u64,
    flags: u64,
}

#[no_mangle]
extern "C" fn __scx_bpf_select_cpu_and(
    p: *mut TaskStruct,
    among: *const CpuMask,
    args: *const SelectArgs,
) -> i32 {
    // SAFETY: the caller's variable, and a mask that it made
    let (among, args) = unsafe { (&*among, &*args) };
    with(|s| {
        s.idle_searches.set(s.idle_searches.get() + 1);
        let mut allowed = *s.tasks[State::id(p)].allowed();
        for (word, other) in allowed.0.iter_mut().zip(among.0) {
            *word &= other;
        }
        let found = s.claim_idle(&allowed, usize::try_from(args.prev).ok());
        found.map_or(EBUSY, |cpu| cpu as i32)
    })
}

/// The masks that the scheduler makes live as long as the simulation.
#[no_mangle]
extern "C" fn bpf_cpumask_create() -> *mut CpuMask {
    with(|s| {
        let mut made = s.made_masks.borrow_mut();
        made.push(Box::new(CpuMask::first(0)));
        made.last_mut().map_or(ptr::null_mut(), |m| &raw mut **m)
    })
}

#[no_mangle]
extern "C" fn bpf_cpumask_set_cpu(cpu: u32, mask: *mut CpuMask) {
    // SAFETY: from bpf_cpumask_create()
    unsafe { (*mask).set(cpu as usize, true) }
}

#[no_mangle]
extern "C" fn bpf_cpumask_release(_mask: *mut CpuMask) {}

#[no_mangle]
extern "C" fn scx_bpf_pick_idle_cpu(allowed: *const CpuMask, _flags: u64) -> i32 {
    // SAFETY: a task's cpus_ptr
    let allowed = unsafe { &*allowed };
    with(|s| {
        s.idle_searches.set(s.idle_searches.get() + 1);
        s.claim_idle(allowed, None).map_or(EBUSY, |cpu| cpu as i32)
    })
}

#[no_mangle]
extern "C" fn scx_bpf_test_and_clear_cpu_idle(cpu: i32) -> bool {
    let Some(cpu) = cpu_number(cpu) else {
        return false;
    };
    with(|s| s.claim_idle(&CpuMask::only(cpu), None).is_some())
}

#[no_mangle]
extern "C" fn scx_bpf_nr_cpu_ids() -> u32 {
    with(|s| s.cpus.len() as u32)
}

#[no_mangle]
extern "C" fn scx_bpf_get_online_cpumask() -> *const CpuMask {
    with(|s| s.online.as_ptr().cast_const())
}

#[no_mangle]
extern "C" fn scx_bpf_put_cpumask(_mask: *const CpuMask) {}

#[no_mangle]
extern "C" fn bpf_cpumask_test_cpu(cpu: u32, mask: *const CpuMask) -> bool {
    // SAFETY: a mask that the scheduler got from the simulator
    unsafe { (*mask).has(cpu as usize) }
}

/// The kernel goes on behind the CPU that it gave out last (by CPU; here for the machine).
#[no_mangle]
extern "C" fn bpf_cpumask_any_distribute(mask: *const CpuMask) -> u32 {
    // SAFETY: as above
    let mask = unsafe { &*mask };
    with(|s| {
        let last = s.distributed.get();
        let next = mask.iter().find(|&cpu| cpu > last).or(mask.iter().next());
        let Some(next) = next else {
            return s.cpus.len() as u32;
        };
        s.distributed.set(next);
        next as u32
    })
}

#[no_mangle]
extern "C" fn bpf_preempt_disable() {}

#[no_mangle]
extern "C" fn bpf_preempt_enable() {}

#[no_mangle]
extern "C" fn bpf_local_irq_save(_flags: *mut u64) {}

#[no_mangle]
extern "C" fn bpf_local_irq_restore(_flags: *mut u64) {}

/// The scheduler iterates over the threads of a process only after a signal (tree/recall.bpf.h).
/// Simulated tasks get no signals, so the iteration is empty.
#[no_mangle]
extern "C" fn bpf_iter_task_new(_it: *mut u64, _task: *mut TaskStruct, _flags: u32) -> i32 {
    0
}

#[no_mangle]
extern "C" fn bpf_iter_task_next(_it: *mut u64) -> *mut TaskStruct {
    std::ptr::null_mut()
}

#[no_mangle]
extern "C" fn bpf_iter_task_destroy(_it: *mut u64) {}

#[no_mangle]
extern "C" fn bpf_rcu_read_lock() {}

#[no_mangle]
extern "C" fn bpf_rcu_read_unlock() {}

#[no_mangle]
extern "C" fn bpf_task_from_pid(pid: i32) -> *mut TaskStruct {
    with(|s| {
        let id = usize::try_from(pid - 1).ok();
        let task = id.and_then(|id| s.tasks.get(id));
        let alive = task.filter(|t| t.place.get() != Place::Exited);
        alive.map_or(ptr::null_mut(), |t| t.pointer())
    })
}

#[no_mangle]
extern "C" fn bpf_task_release(_p: *mut TaskStruct) {}

/// The cgroup of the current callback's task. The kernel allows this call only for a task whose run
/// queue is locked (`scx_kf_allowed_on_arg_tasks`). The simulator checks that the callback is one
/// in which a run queue is locked, not that the task is the callback's.
#[no_mangle]
pub(crate) extern "C" fn scx_bpf_task_cgroup(p: *mut TaskStruct) -> *mut CgroupStruct {
    with(|s| {
        assert!(
            !s.no_task_locked.get(),
            "scx_bpf_task_cgroup() in init_task, cgroup_prep_move or cgroup_cancel_move: \
             the kernel would end the scheduler"
        );
        s.group_of(&s.tasks[State::id(p)]).pointer()
    })
}

#[no_mangle]
pub(crate) extern "C" fn bpf_cgroup_ancestor(
    cgroup: *mut CgroupStruct,
    level: i32,
) -> *mut CgroupStruct {
    with(|s| {
        let found = s.cgroups.ancestor(s.cgroups.of(cgroup), level);
        found.map_or(ptr::null_mut(), Cgroup::pointer)
    })
}

/// A cgroup by its number. A cgroup that is being created or removed is not found, because its
/// directory is not active then (`kernfs_find_and_get_node_by_id`).
#[no_mangle]
pub(crate) extern "C" fn bpf_cgroup_from_id(id: u64) -> *mut CgroupStruct {
    with(|s| {
        let id = usize::try_from(id.wrapping_sub(1)).ok();
        let found = id.and_then(|id| s.cgroups.online(id).ok());
        found.map_or(ptr::null_mut(), Cgroup::pointer)
    })
}

#[no_mangle]
extern "C" fn bpf_cgroup_release(_cgroup: *mut CgroupStruct) {}
