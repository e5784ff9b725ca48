//! A task as the scheduler sees it (`struct task_struct` of bpf/kernel/kernel.bpf.h), and as the simulator does.
//!
//! The scheduler writes into it in the middle of our own work on it, so all that changes is in cells.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::num::NonZeroI32;
use std::ptr;

use crate::cgroups::CssSet;
use crate::queue::Seat;

/// CPUs that a simulation may have (`MAX_CPUS` of bpf/intf.h).
pub const MAX_CPUS: usize = 1024;
/// Kernel thread (`PF_KTHREAD`).
pub const PF_KTHREAD: u32 = 0x0020_0000;
/// In `scx.flags`: runnable.
pub(crate) const QUEUED: u32 = 1;

/// Number of a task in its simulation; also its pid, which is one more.
pub type TaskId = usize;

/// A set of CPUs (`cpumask_t`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CpuMask(pub [u64; MAX_CPUS / 64]);

impl CpuMask {
    /// The first `n` CPUs.
    pub fn first(n: usize) -> Self {
        let mut mask = Self([0; MAX_CPUS / 64]);
        (0..n).for_each(|cpu| mask.set(cpu, true));
        mask
    }

    /// One CPU.
    pub fn only(cpu: usize) -> Self {
        let mut mask = Self([0; MAX_CPUS / 64]);
        mask.set(cpu, true);
        mask
    }

    /// Is `cpu` in it?
    pub fn has(&self, cpu: usize) -> bool {
        cpu < MAX_CPUS && self.0[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    /// Put `cpu` in, or take it out.
    pub fn set(&mut self, cpu: usize, on: bool) {
        let bit = 1 << (cpu % 64);
        if on {
            self.0[cpu / 64] |= bit;
        } else {
            self.0[cpu / 64] &= !bit;
        }
    }

    /// How many?
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The first, of a machine's `cpus`, that is in `other` as well.
    pub fn first_common(&self, other: &Self, cpus: usize) -> Option<usize> {
        let words = cpus.div_ceil(64).min(self.0.len());
        (0..words).find_map(|i| {
            let both = self.0[i] & other.0[i];
            (both != 0).then(|| i * 64 + both.trailing_zeros() as usize)
        })
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    i * 64 + bit
                })
            })
        })
    }
}

/// `struct sched_ext_entity`
#[repr(C)]
#[derive(Default)]
pub(crate) struct Entity {
    pub weight: Cell<u32>,
    pub flags: Cell<u32>,
    pub slice: Cell<u64>,
    pub dsq_vtime: Cell<u64>,
    pub runnable_at: Cell<u64>,
}

/// `struct task_struct`; the layout is compared with the header's in the tests.
#[repr(C)]
pub(crate) struct TaskStruct {
    pub cpu: Cell<u32>,
    pub flags: Cell<u32>,
    pub pid: NonZeroI32, // so that an empty place for a task needs no flag
    pub tgid: Cell<i32>,
    pub nr_cpus_allowed: Cell<i32>,
    pub migration_disabled: Cell<u16>,
    pub cpus_ptr: Cell<*const CpuMask>,
    pub mm: *mut c_void,
    pub real_parent: Cell<*mut TaskStruct>,
    pub group_leader: Cell<*mut TaskStruct>,
    pub cgroups: Cell<*mut CssSet>,
    pub sum_exec_runtime: Cell<u64>,
    pub scx: Entity,
    pub bpf_storage: Cell<*mut c_void>,
    pub self_exec_id: Cell<u64>,
    pub comm: [u8; 16],
}

impl TaskStruct {
    fn new(pid: NonZeroI32) -> Self {
        Self {
            cpu: Cell::new(0),
            flags: Cell::new(0),
            pid,
            tgid: Cell::new(pid.get()),
            nr_cpus_allowed: Cell::new(0),
            migration_disabled: Cell::new(0),
            cpus_ptr: Cell::new(ptr::null()),
            mm: ptr::null_mut(),
            real_parent: Cell::new(ptr::null_mut()),
            group_leader: Cell::new(ptr::null_mut()),
            cgroups: Cell::new(ptr::null_mut()),
            sum_exec_runtime: Cell::new(0),
            scx: Entity::default(),
            bpf_storage: Cell::new(ptr::null_mut()),
            self_exec_id: Cell::new(0),
            comm: [0; 16],
        }
    }

    /// The idle task. (In the kernel its pid is 0.)
    pub fn swapper() -> Self {
        Self::new(NonZeroI32::MAX)
    }
}

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It sleeps.
    Asleep,
    /// Runnable, in this dispatch queue.
    Queue(u64),
    /// Runnable, in a CPU's local queue.
    Local(usize),
    /// It runs there.
    Running(usize),
    /// It has exited.
    Gone,
}

/// What a task does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Use this much CPU, ns.
    Run(u64),
    /// Sleep until then, ns.
    SleepUntil(u64),
    /// Sleep until somebody wakes it; not at all, if somebody has since the last time (a pipe's other end).
    Wait,
    /// Wake a task that waits, or will.
    Wake(TaskId),
    /// Let others go first (`sched_yield`).
    Yield,
    /// Execute the program with this inode.
    Exec(u64),
    /// Start a child process; the number is what [`Program::child`] is given.
    Fork(u64),
    /// Start a thread of this process, likewise.
    Thread(u64),
    /// End.
    Exit,
    /// End, and with it all threads of the process (`exit_group`).
    ExitGroup,
}

/// The behaviour of one task: asked for its next step whenever the last one is done.
pub trait Program {
    /// `now`: ns. `ran`: CPU time in all, ns.
    fn next(&mut self, now: u64, ran: u64) -> Step;

    /// The behaviour of a child (after [`Step::Fork`]) or a thread (after [`Step::Thread`]).
    fn child(&mut self, _which: u64) -> Box<dyn Program> {
        Box::new(Ends)
    }
}

/// Ends at once.
pub struct Ends;

impl Program for Ends {
    fn next(&mut self, _: u64, _: u64) -> Step {
        Step::Exit
    }
}

/// A closure is a behaviour.
impl<F: FnMut(u64, u64) -> Step> Program for F {
    fn next(&mut self, now: u64, ran: u64) -> Step {
        self(now, ran)
    }
}

/// One task of a simulation. What is looked at most often comes first; with 100,000 of them every line of
/// the cache that an event touches is a miss.
#[repr(C, align(64))]
pub(crate) struct Task {
    pub kernel: TaskStruct,
    pub place: Cell<Place>,
    /// Its seat in the dispatch queue that it is in.
    pub seat: Cell<Seat>,
    /// What is left of the current [`Step::Run`], ns.
    pub left: Cell<u64>,
    /// None while it is being asked, and once it has exited.
    pub program: Cell<Option<Box<dyn Program>>>,
    /// Numbers its sleeps: a wake-up meant for an earlier one is void.
    pub naps: Cell<u32>,
    /// Wake-ups that it has not waited for yet.
    pub wakes: Cell<u32>,
    /// A step that it asked for in its sleep, and takes when it runs.
    pub pending: Cell<Option<Step>>,
    /// Since when it waits, if it does, ns.
    pub waits_since: Cell<u64>,
    pub migrations: Cell<u64>,
    /// It sleeps until somebody wakes it.
    pub waits: Cell<bool>,
    /// Memory that the scheduler keeps for it (task storage).
    pub storage: OnceCell<Box<[Cell<u64>]>>,
}

const _: () = assert!(
    size_of::<OnceCell<Task>>() == 256,
    "four lines of the cache"
);

impl Task {
    /// A task that has never run. `allowed` is one of a simulation's [`Masks`].
    pub fn new(id: TaskId, weight: u32, allowed: &CpuMask, program: Box<dyn Program>) -> Self {
        Self {
            kernel: TaskStruct {
                cpu: Cell::new(allowed.iter().next().unwrap_or(0) as u32),
                nr_cpus_allowed: Cell::new(allowed.count() as i32),
                cpus_ptr: Cell::new(allowed),
                scx: Entity {
                    weight: Cell::new(weight),
                    ..Entity::default()
                },
                ..TaskStruct::new(NonZeroI32::new(id as i32 + 1).expect("fewer than 2^31 tasks"))
            },
            place: Cell::new(Place::Asleep),
            seat: Cell::new((0, 0)),
            left: Cell::new(0),
            program: Cell::new(Some(program)),
            naps: Cell::new(0),
            wakes: Cell::new(0),
            pending: Cell::new(None),
            waits_since: Cell::new(0),
            migrations: Cell::new(0),
            waits: Cell::new(false),
            storage: OnceCell::new(),
        }
    }

    /// The scheduler's pointer to it.
    pub fn pointer(&self) -> *mut TaskStruct {
        ptr::from_ref(&self.kernel).cast_mut()
    }

    /// CPUs that it may run on.
    pub fn allowed(&self) -> &CpuMask {
        // SAFETY: one of the simulation's masks, which live as long as its tasks
        unsafe { &*self.kernel.cpus_ptr.get() }
    }

    pub fn allow(&self, allowed: &CpuMask) {
        self.kernel.cpus_ptr.set(allowed);
        self.kernel.nr_cpus_allowed.set(allowed.count() as i32);
    }

    /// Runnable: it runs, or waits for a CPU.
    pub fn runnable(&self) -> bool {
        !matches!(self.place.get(), Place::Asleep | Place::Gone)
    }
}

/// The sets of CPUs that tasks of a simulation may run on, each once: tasks are smaller for it, and most
/// have the same.
#[derive(Default)]
pub(crate) struct Masks(RefCell<HashMap<CpuMask, Box<CpuMask>>>);

impl Masks {
    pub fn get(&self, mask: &CpuMask) -> &CpuMask {
        let mut known = self.0.borrow_mut();
        let kept: *const CpuMask = &**known.entry(*mask).or_insert_with(|| Box::new(*mask));
        // SAFETY: boxed, and dropped with self only
        unsafe { &*kept }
    }
}

/// All tasks ever. They never move, since the scheduler keeps their addresses: blocks, each twice as large as
/// the one before.
pub(crate) struct Tasks {
    blocks: [OnceCell<Box<[OnceCell<Task>]>>; 26],
    len: Cell<usize>,
}

const FIRST_BLOCK: usize = 64;

impl Tasks {
    pub fn new() -> Self {
        Self {
            blocks: [const { OnceCell::new() }; 26],
            len: Cell::new(0),
        }
    }

    pub fn len(&self) -> usize {
        self.len.get()
    }

    fn at(id: TaskId) -> (usize, usize) {
        let block = ((id + FIRST_BLOCK) / FIRST_BLOCK).ilog2();
        (block as usize, id + FIRST_BLOCK - (FIRST_BLOCK << block))
    }

    pub fn get(&self, id: TaskId) -> Option<&Task> {
        let (block, at) = Self::at(id);
        self.blocks.get(block)?.get()?.get(at)?.get()
    }

    /// Add the next one.
    pub fn add(&self, make: impl FnOnce(TaskId) -> Task) -> &Task {
        let id = self.len.get();
        self.len.set(id + 1);
        let (block, at) = Self::at(id);
        let block = self.blocks[block].get_or_init(|| {
            let cells = (0..FIRST_BLOCK << block).map(|_| OnceCell::new());
            cells.collect()
        });
        block[at].get_or_init(|| make(id))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        let blocks = self.blocks.iter().map_while(OnceCell::get);
        blocks.flat_map(|block| block.iter().map_while(OnceCell::get))
    }
}

impl std::ops::Index<TaskId> for Tasks {
    type Output = Task;

    fn index(&self, id: TaskId) -> &Task {
        self.get(id).expect("a task of this simulation")
    }
}
