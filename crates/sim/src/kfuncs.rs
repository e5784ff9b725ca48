//! The scheduler's kernel functions and the doors that host/ needs, by their C names, over [`State`].

use std::cell::Cell;
use std::ptr;

use crate::agenda::Happening;
use crate::cgroups::{Cgroup, CgroupStruct};
use crate::state::{Sent, State, Timer};
use crate::task::{CpuMask, Place, TaskStruct};

const KICK_IDLE: u64 = 1;
const KICK_PREEMPT: u64 = 2;
const ENOENT: i32 = -2;
const EEXIST: i32 = -17;
const EBUSY: i32 = -16;

/// `struct event`, its beginning.
#[repr(C)]
pub(crate) struct Event {
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

/// The simulation that this thread plays, for the functions below.
pub(crate) fn enter(state: *const State) {
    HERE.with(|here| here.set(state));
}

fn with<R>(f: impl FnOnce(&State) -> R) -> R {
    HERE.with(|here| {
        // SAFETY: set by Simulation::new to a box that it owns, and to null when it is dropped; the scheduler
        // is called by a simulation only.
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
extern "C" fn sim_cpu() -> u32 {
    with(|s| s.cpu.get() as u32)
}

#[no_mangle]
extern "C" fn sim_current() -> *mut TaskStruct {
    with(|s| ptr::from_ref(s.current()).cast_mut())
}

/// A new timer's number.
#[no_mangle]
extern "C" fn sim_timer_new(address: usize) -> u32 {
    with(|s| {
        let mut timers = s.timers.borrow_mut();
        timers.push(Timer {
            address,
            armed: 0,
            cpu: 0,
        });
        timers.len() as u32 - 1
    })
}

#[no_mangle]
extern "C" fn sim_timer_start(timer: u32, at: u64) {
    with(|s| {
        let armed = {
            let t = &mut s.timers.borrow_mut()[timer as usize];
            t.armed = t.armed.wrapping_add(1);
            t.cpu = s.cpu.get() as u32;
            t.armed
        };
        let at = at.max(s.now.get()) + s.settings.timer_late_ns;
        s.plan(at, Happening::Timer(timer, armed));
    })
}

#[no_mangle]
extern "C" fn sim_timer_cancel(timer: u32) {
    with(|s| {
        let t = &mut s.timers.borrow_mut()[timer as usize];
        t.armed = t.armed.wrapping_add(1);
    })
}

/// Of a `struct event` the simulator counts the type, and looks at what admission says it saw.
#[no_mangle]
extern "C" fn sim_event(event: *const Event) {
    // SAFETY: made by host_event_reserve(), of at least that length
    let event = unsafe { event.read_unaligned() };
    with(|s| {
        s.events.borrow_mut()[event.kind as usize] += 1;
        if s.settings.checked {
            crate::invariants::told(s, &event);
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
extern "C" fn scx_bpf_create_dsq(id: u64, _node: i32) -> i32 {
    with(|s| {
        if s.queues.borrow_mut().create(id) {
            0
        } else {
            EEXIST
        }
    })
}

#[no_mangle]
extern "C" fn scx_bpf_dsq_nr_queued(id: u64) -> i32 {
    with(|s| s.queues.borrow().len(id).map_or(ENOENT, |n| n as i32))
}

#[no_mangle]
extern "C" fn scx_bpf_kick_cpu(cpu: i32, flags: u64) {
    let Some(cpu) = cpu_number(cpu) else { return };
    with(|s| {
        let at = s.now.get() + s.settings.kick_ns;
        let idle = s.cpus[cpu].curr.get().is_none();
        if flags & KICK_IDLE == 0 {
            let preempt = flags & KICK_PREEMPT != 0;
            s.plan(at, Happening::Kick(cpu as u32, preempt));
        } else if idle || cpu == s.cpu.get() {
            // a CPU that is choosing is looked at when it has chosen (can_skip_idle_kick, kick_one_cpu_if_idle)
            s.plan(at, Happening::KickIdle(cpu as u32));
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
        let found = s.claim_idle(allowed, usize::try_from(prev).ok());
        // SAFETY: the caller's variable
        unsafe { *idle = found.is_some() };
        found.map_or(prev, |cpu| cpu as i32)
    })
}

#[no_mangle]
extern "C" fn scx_bpf_pick_idle_cpu(allowed: *const CpuMask, _flags: u64) -> i32 {
    // SAFETY: a task's cpus_ptr
    let allowed = unsafe { &*allowed };
    with(|s| s.claim_idle(allowed, None).map_or(EBUSY, |cpu| cpu as i32))
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
    // SAFETY: a mask that the simulator gave out
    unsafe { (*mask).has(cpu as usize) }
}

#[no_mangle]
extern "C" fn bpf_preempt_disable() {}

#[no_mangle]
extern "C" fn bpf_preempt_enable() {}

#[no_mangle]
extern "C" fn bpf_rcu_read_lock() {}

#[no_mangle]
extern "C" fn bpf_rcu_read_unlock() {}

#[no_mangle]
extern "C" fn bpf_task_from_pid(pid: i32) -> *mut TaskStruct {
    with(|s| {
        let id = usize::try_from(pid - 1).ok();
        let task = id.and_then(|id| s.tasks.get(id));
        let alive = task.filter(|t| t.place.get() != Place::Gone);
        alive.map_or(ptr::null_mut(), |t| t.pointer())
    })
}

#[no_mangle]
extern "C" fn bpf_task_release(_p: *mut TaskStruct) {}

/// The cgroup of the task that the callback under way is about. What is made of a wrong call is the kernel's
/// `scx_kf_allowed_on_arg_tasks`, as far as it can be known without noting each callback's task: it is not
/// allowed where no run queue is locked.
#[no_mangle]
pub(crate) extern "C" fn scx_bpf_task_cgroup(p: *mut TaskStruct) -> *mut CgroupStruct {
    with(|s| {
        assert!(
            !s.no_task_locked.get(),
            "scx_bpf_task_cgroup() in init_task, cgroup_prep_move or cgroup_cancel_move: the kernel would end the \
             scheduler"
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

/// None that is being made or removed: its directory is not active then (`kernfs_find_and_get_node_by_id`).
#[no_mangle]
pub(crate) extern "C" fn bpf_cgroup_from_id(id: u64) -> *mut CgroupStruct {
    with(|s| {
        let id = usize::try_from(id.wrapping_sub(1)).ok();
        let found = id.and_then(|id| s.cgroups.there(id).ok());
        found.map_or(ptr::null_mut(), Cgroup::pointer)
    })
}

#[no_mangle]
extern "C" fn bpf_cgroup_release(_cgroup: *mut CgroupStruct) {}

fn send(sent: Sent) -> bool {
    with(|s| s.sent.replace(Some(sent)).is_none())
}

#[no_mangle]
extern "C" fn scx_bpf_dsq_insert___v2___k(
    _p: *mut TaskStruct,
    queue: u64,
    slice: u64,
    flags: u64,
) -> bool {
    send(Sent {
        queue,
        slice,
        vtime: 0,
        flags,
        ordered: false,
    })
}

/// `struct scx_bpf_dsq_insert_vtime_args`
#[repr(C)]
struct InsertArgs {
    queue: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
}

#[no_mangle]
extern "C" fn __scx_bpf_dsq_insert_vtime(_p: *mut TaskStruct, args: *const InsertArgs) -> bool {
    // SAFETY: the caller's variable
    let InsertArgs {
        queue,
        slice,
        vtime,
        flags,
    } = unsafe { args.read() };
    send(Sent {
        queue,
        slice,
        vtime,
        flags,
        ordered: true,
    })
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
extern "C" fn scx_bpf_dsq_move_to_local___v2___k(queue: u64, _flags: u64) -> bool {
    with(|s| {
        let taken = s.take(queue, s.cpu.get());
        s.moved.set(s.moved.get() + u32::from(taken));
        taken
    })
}

/// `struct bpf_iter_scx_dsq`, as we use its words.
#[repr(C)]
pub(crate) struct Iter {
    queue: u64,
    at: (u64, u64),
    /// Four times the number of insertions before it began, which it does not go beyond; and the two bits below.
    begun: u64,
    slice: u64,
    vtime: u64,
}

/// In [`Iter::begun`]: it has taken its first step.
const STEPPED: u64 = 1;
/// In [`Iter::begun`]: it goes from the last to the first.
const BACKWARDS: u64 = 2;
/// `SCX_DSQ_ITER_REV`
const ITER_REV: u64 = 1 << 16;

#[no_mangle]
extern "C" fn bpf_iter_scx_dsq_new(it: *mut Iter, queue: u64, flags: u64) -> i32 {
    // SAFETY: the caller's variable, six words long
    unsafe {
        it.write(Iter {
            queue,
            at: (0, 0),
            begun: with(|s| s.queues.borrow().entered()) * 4
                + if flags & ITER_REV != 0 { BACKWARDS } else { 0 },
            slice: u64::MAX,
            vtime: u64::MAX,
        })
    };
    with(|s| s.queues.borrow().len(queue).map_or(ENOENT, |_| 0))
}

#[no_mangle]
extern "C" fn bpf_iter_scx_dsq_next(it: *mut Iter) -> *mut TaskStruct {
    // SAFETY: made by bpf_iter_scx_dsq_new()
    let it = unsafe { &mut *it };
    with(|s| {
        let queues = s.queues.borrow();
        loop {
            let from = (it.begun & STEPPED != 0).then_some(it.at);
            let next = if it.begun & BACKWARDS != 0 {
                queues.previous(it.queue, from)
            } else {
                queues.next(it.queue, from)
            };
            let Some((at, id)) = next else {
                return ptr::null_mut();
            };
            (it.at, it.begun) = (at, it.begun | STEPPED);
            if at.1 <= it.begun / 4 {
                return s.tasks[id].pointer();
            }
        }
    })
}

#[no_mangle]
extern "C" fn bpf_iter_scx_dsq_destroy(_it: *mut Iter) {}

#[no_mangle]
extern "C" fn scx_bpf_dsq_move_set_slice(it: *mut Iter, slice: u64) {
    // SAFETY: made by bpf_iter_scx_dsq_new()
    unsafe { (*it).slice = slice }
}

#[no_mangle]
extern "C" fn scx_bpf_dsq_move_set_vtime(it: *mut Iter, vtime: u64) {
    // SAFETY: as above
    unsafe { (*it).vtime = vtime }
}

fn dsq_move(it: *mut Iter, p: *mut TaskStruct, queue: u64, flags: u64, ordered: bool) -> bool {
    // SAFETY: as above
    let it = unsafe { &*it };
    let id = State::id(p);
    with(|s| {
        let t = &s.tasks[id];
        if t.place.get() != Place::Queue(it.queue) {
            return false; // it runs, or sleeps, or is elsewhere
        }
        s.queues.borrow_mut().remove(it.queue, t.seat.get());
        let or = |new, old| if new == u64::MAX { old } else { new };
        let sent = Sent {
            queue,
            slice: or(it.slice, t.kernel.scx.slice.get()),
            vtime: or(it.vtime, t.kernel.scx.dsq_vtime.get()),
            flags,
            ordered,
        };
        s.deliver(id, t.kernel.cpu.get() as usize, sent);
        s.moved.set(s.moved.get() + 1);
        true
    })
}

#[no_mangle]
extern "C" fn scx_bpf_dsq_move_vtime(
    it: *mut Iter,
    p: *mut TaskStruct,
    queue: u64,
    flags: u64,
) -> bool {
    dsq_move(it, p, queue, flags, true)
}

/// `scx_bpf_dsq_move`, to a first in, first out queue or a local one.
#[no_mangle]
extern "C" fn scx_bpf_dsq_move(it: *mut Iter, p: *mut TaskStruct, queue: u64, flags: u64) -> bool {
    dsq_move(it, p, queue, flags, false)
}

/// All tasks of a queue, for tests: to another queue.
#[cfg(test)]
pub(crate) fn move_all(from: u64, to: u64) {
    loop {
        let mut it = std::mem::MaybeUninit::uninit();
        if bpf_iter_scx_dsq_new(it.as_mut_ptr(), from, 0) != 0 {
            return;
        }
        let p = bpf_iter_scx_dsq_next(it.as_mut_ptr());
        if p.is_null() || !scx_bpf_dsq_move(it.as_mut_ptr(), p, to, 0) {
            return;
        }
    }
}
