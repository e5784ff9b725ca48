//! Tasks: the scheduler's part (`struct task_struct` of bpf/kernel/), and the simulator's.
//!
//! The scheduler writes to a task while the simulator works on it, so each field that changes is a
//! cell.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::num::NonZeroI32;
use std::ptr;

use crate::cgroups::CssSet;
use crate::queue::Seat;

/// Most CPUs of a simulation (`MAX_CPUS` of bpf/intf.h).
pub const MAX_CPUS: usize = 1024;
/// The policy of work that runs when no other does, or hardly (`SCHED_IDLE`).
pub const SCHED_IDLE: u8 = 5;
/// Kernel thread (`PF_KTHREAD`).
pub const PF_KTHREAD: u32 = 0x0020_0000;
/// The task exits (`PF_EXITING`).
pub(crate) const PF_EXITING: u32 = 0x0000_0004;

/// Number of a task in its simulation. Its pid is one more.
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

    /// Add `cpu`, or remove it.
    pub fn set(&mut self, cpu: usize, on: bool) {
        let bit = 1 << (cpu % 64);
        if on {
            self.0[cpu / 64] |= bit;
        } else {
            self.0[cpu / 64] &= !bit;
        }
    }

    /// Number of CPUs in it.
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The first CPU that is also in `other`, of a machine with `cpus` CPUs.
    pub fn first_common(&self, other: &Self, cpus: usize) -> Option<usize> {
        let words = cpus.div_ceil(64).min(self.0.len());
        (0..words).find_map(|i| {
            let both = self.0[i] & other.0[i];
            (both != 0).then(|| i * 64 + both.trailing_zeros() as usize)
        })
    }

    /// The CPUs in ascending order.
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

/// `struct task_struct`. A test compares the layout with the C header's.
#[repr(C)]
pub(crate) struct TaskStruct {
    pub cpu: Cell<u32>,
    pub flags: Cell<u32>,
    pub pid: NonZeroI32, // not 0, so that OnceCell<Task> needs no flag
    pub tgid: Cell<i32>,
    pub nr_cpus_allowed: Cell<i32>,
    pub policy: Cell<u8>,
    pub migration_disabled: Cell<u8>,
    pub session: Cell<u16>,
    pub cpus_ptr: Cell<*const CpuMask>,
    pub mm: *mut c_void,
    pub real_parent: Cell<*mut TaskStruct>,
    pub group_leader: Cell<*mut TaskStruct>,
    pub cgroups: Cell<*mut CssSet>,
    pub sum_exec_runtime: Cell<u64>,
    pub last_arrival: Cell<u64>,
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
            policy: Cell::new(0),
            migration_disabled: Cell::new(0),
            session: Cell::new(0),
            cpus_ptr: Cell::new(ptr::null()),
            mm: ptr::null_mut(),
            real_parent: Cell::new(ptr::null_mut()),
            group_leader: Cell::new(ptr::null_mut()),
            cgroups: Cell::new(ptr::null_mut()),
            sum_exec_runtime: Cell::new(0),
            last_arrival: Cell::new(0),
            scx: Entity::default(),
            bpf_storage: Cell::new(ptr::null_mut()),
            self_exec_id: Cell::new(0),
            comm: [0; 16],
        }
    }

    /// The idle task. Its pid, 0 in the kernel, is MAX here.
    pub fn swapper() -> Self {
        Self::new(NonZeroI32::MAX)
    }
}

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It sleeps.
    Asleep,
    /// It waits in this dispatch queue.
    Queue(u64),
    /// It waits in this CPU's local queue.
    Local(usize),
    /// It runs on this CPU.
    Running(usize),
    /// It has exited.
    Exited,
}

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Use this much CPU, ns.
    Run(u64),
    /// Sleep until this time, ns.
    SleepUntil(u64),
    /// Sleep until a [`Step::Wake`] of another task, as the reader of a pipe does. If there was
    /// such a step since the last wait, do not sleep.
    Wait,
    /// Wake a task from its current or its next [`Step::Wait`].
    Wake(TaskId),
    /// `sched_yield`
    Yield,
    /// Execute the program with this inode.
    Exec(u64),
    /// Start a child process; the number is the argument of [`Program::child`].
    Fork(u64),
    /// Start a thread of this process; the number is the argument of [`Program::child`].
    Thread(u64),
    /// Begin to exit (PF_EXITING). What the task runs after this frees its memory, and so on; it
    /// ends with [`Step::Exit`].
    BeginExit,
    /// Exit.
    Exit,
    /// Exit with all threads of the process (`exit_group`).
    ExitGroup,
}

/// The behaviour of one task.
pub trait Program {
    /// The next step, when the last one is done. `now`: time, ns. `ran`: the task's CPU time, ns.
    fn next(&mut self, now: u64, ran: u64) -> Step;

    /// The behaviour of a child (after [`Step::Fork`]) or a thread (after [`Step::Thread`]).
    fn child(&mut self, _which: u64) -> Box<dyn Program> {
        Box::new(Ends)
    }
}

/// A task that exits at once.
pub struct Ends;

impl Program for Ends {
    fn next(&mut self, _: u64, _: u64) -> Step {
        Step::Exit
    }
}

/// A closure is a program.
impl<F: FnMut(u64, u64) -> Step> Program for F {
    fn next(&mut self, now: u64, ran: u64) -> Step {
        self(now, ran)
    }
}

/// One task of a simulation. The fields that are used most come first: with 100,000 tasks every
/// cache line that an event touches is a miss.
#[repr(C, align(64))]
pub(crate) struct Task {
    pub kernel: TaskStruct,
    pub place: Cell<Place>,
    /// Its seat in the dispatch queue of `place`.
    pub seat: Cell<Seat>,
    /// The rest of the current [`Step::Run`], ns.
    pub left: Cell<u64>,
    /// None while the program is asked for a step, and after the task's exit.
    pub program: Cell<Option<Box<dyn Program>>>,
    /// Number of sleeps so far. A planned wake-up from an earlier sleep is void.
    pub sleeps: Cell<u32>,
    /// Number of wake-ups that came while the task did not wait. Each ends one of its next
    /// [`Step::Wait`]s at once.
    pub pending_wakes: Cell<u32>,
    /// The step that ended the task's sleep. The task makes this step when it runs.
    pub pending: Cell<Option<Step>>,
    /// The time of its last enqueue, ns.
    pub waits_since: Cell<u64>,
    pub migrations: Cell<u32>,
    /// It sleeps in [`Step::Wait`].
    pub until_woken: Cell<bool>,
    /// The scheduler's task storage.
    pub storage: OnceCell<Box<[Cell<u64>]>>,
}

const _: () = assert!(
    size_of::<OnceCell<Task>>() == 256,
    "four lines of the cache"
);

impl Task {
    /// A new task, still asleep. `allowed` is from the simulation's [`Masks`].
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
            sleeps: Cell::new(0),
            pending_wakes: Cell::new(0),
            pending: Cell::new(None),
            waits_since: Cell::new(0),
            migrations: Cell::new(0),
            until_woken: Cell::new(false),
            storage: OnceCell::new(),
        }
    }

    /// The scheduler's pointer to the task.
    pub fn pointer(&self) -> *mut TaskStruct {
        ptr::from_ref(&self.kernel).cast_mut()
    }

    /// The CPUs on which the task may run.
    pub fn allowed(&self) -> &CpuMask {
        // SAFETY: one of the simulation's masks, which live as long as its tasks
        unsafe { &*self.kernel.cpus_ptr.get() }
    }

    pub fn allow(&self, allowed: &CpuMask) {
        self.kernel.cpus_ptr.set(allowed);
        self.kernel.nr_cpus_allowed.set(allowed.count() as i32);
    }

    /// It has begun to exit.
    pub fn is_exiting(&self) -> bool {
        self.kernel.flags.get() & PF_EXITING != 0
    }

    /// Runnable: it runs, or waits for a CPU.
    pub fn runnable(&self) -> bool {
        !matches!(self.place.get(), Place::Asleep | Place::Exited)
    }
}

/// The affinities of a simulation's tasks, each stored once. Most tasks have the same one, and a
/// pointer keeps tasks small.
#[derive(Default)]
pub(crate) struct Masks(RefCell<HashMap<CpuMask, Box<CpuMask>>>);

impl Masks {
    pub fn get(&self, mask: &CpuMask) -> &CpuMask {
        let mut known = self.0.borrow_mut();
        let kept: *const CpuMask = &**known.entry(*mask).or_insert_with(|| Box::new(*mask));
        // SAFETY: boxed, and dropped together with self
        unsafe { &*kept }
    }
}

/// All tasks, those that have exited included. The scheduler keeps their addresses, so they must
/// not move in memory. They are in blocks, each twice as large as the one before.
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

    /// Add a task.
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
