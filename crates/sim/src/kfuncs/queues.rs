//! The kernel functions for dispatch queues: creation, insertion, dispatch, iteration and moves.

use std::ptr;

use super::with;
use crate::cost::Lock;
use crate::state::{Insertion, State};
use crate::task::{Place, TaskStruct};

const ENOENT: i32 = -2;
const EEXIST: i32 = -17;

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
    with(|s| {
        let on = s.settings.numbers.dsq_local_on;
        if id & on == on {
            let cpu = s.cpus.get((id & !on) as usize);
            return cpu.map_or(ENOENT, |c| c.local.borrow().len() as i32);
        }
        s.queues.borrow().len(id).map_or(ENOENT, |n| n as i32)
    })
}

fn insert(insertion: Insertion) -> bool {
    with(|s| s.insertion.replace(Some(insertion)).is_none())
}

#[no_mangle]
extern "C" fn scx_bpf_dsq_insert___v2___k(
    _p: *mut TaskStruct,
    queue: u64,
    slice: u64,
    flags: u64,
) -> bool {
    insert(Insertion {
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
    insert(Insertion {
        queue,
        slice,
        vtime,
        flags,
        ordered: true,
    })
}

#[no_mangle]
extern "C" fn scx_bpf_dsq_move_to_local___v2___k(queue: u64, _flags: u64) -> bool {
    with(|s| {
        let taken = s.move_to_local(queue, s.cpu.get());
        s.moved.set(s.moved.get() + u32::from(taken));
        taken
    })
}

/// `struct bpf_iter_scx_dsq`: six words that are opaque to the scheduler. These are the simulator's
/// fields in them.
#[repr(C)]
pub(crate) struct Iter {
    queue: u64,
    at: (u64, u64),
    /// The number of insertions before the iteration began, times 4, plus the two flags below.
    /// Tasks that are inserted later are skipped, as in the kernel.
    begun: u64,
    slice: u64,
    vtime: u64,
}

/// Flag in [`Iter::begun`]: `at` is valid, since the first step was made.
const STEPPED: u64 = 1;
/// Flag in [`Iter::begun`]: the iteration goes from the last task to the first.
const BACKWARDS: u64 = 2;

#[no_mangle]
extern "C" fn bpf_iter_scx_dsq_new(it: *mut Iter, queue: u64, flags: u64) -> i32 {
    // SAFETY: the caller's variable, six words long
    unsafe {
        it.write(Iter {
            queue,
            at: (0, 0),
            begun: with(|s| {
                let backwards = flags & s.settings.numbers.dsq_iter_rev != 0;
                s.queues.borrow().entered() * 4 + if backwards { BACKWARDS } else { 0 }
            }),
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
        s.pay_lock(Lock::Queue(it.queue));
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
                drop(queues);
                s.rival(&s.tasks[id]);
                return s.tasks[id].pointer();
            }
        }
    })
}

/// The first task of a queue, or null.
#[no_mangle]
extern "C" fn scx_bpf_dsq_peek(queue: u64) -> *mut TaskStruct {
    with(|s| {
        let first = s.queues.borrow().next(queue, None);
        first.map_or(ptr::null_mut(), |(_, id)| {
            s.rival(&s.tasks[id]);
            s.tasks[id].pointer()
        })
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
        s.rival(t);
        if t.place.get() != Place::Queue(it.queue) || t.seat.get().1 > it.begun / 4 {
            return false; // it runs, sleeps, is in another queue, or was put in again
        }
        s.pay_lock(Lock::Queue(it.queue));
        s.queues.borrow_mut().remove(it.queue, t.seat.get());
        let or = |new, old| if new == u64::MAX { old } else { new };
        let insertion = Insertion {
            queue,
            slice: or(it.slice, t.kernel.scx.slice.get()),
            vtime: or(it.vtime, t.kernel.scx.dsq_vtime.get()),
            flags,
            ordered,
        };
        s.deliver(id, t.kernel.cpu.get() as usize, insertion);
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

/// Move to a FIFO queue or a local queue.
#[no_mangle]
extern "C" fn scx_bpf_dsq_move(it: *mut Iter, p: *mut TaskStruct, queue: u64, flags: u64) -> bool {
    dsq_move(it, p, queue, flags, false)
}

/// Move all tasks of a queue to another queue.
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
