//! A task as the scheduler sees it (`struct task_struct` of bpf/kernel.bpf.h), and as the simulator does.

use std::ffi::c_void;
use std::ptr;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    pub weight: u32,
    pub flags: u32,
    pub slice: u64,
    pub dsq_vtime: u64,
}

/// `struct task_struct`; the layout is compared with the header's in the tests.
#[repr(C)]
pub(crate) struct TaskStruct {
    pub cpu: u32,
    pub flags: u32,
    pub pid: i32,
    pub tgid: i32,
    pub nr_cpus_allowed: i32,
    pub migration_disabled: u16,
    pub cpus_ptr: *const CpuMask,
    pub mm: *mut c_void,
    pub real_parent: *mut TaskStruct,
    pub group_leader: *mut TaskStruct,
    pub cgroups: *mut c_void,
    pub sum_exec_runtime: u64,
    pub scx: Entity,
    pub bpf_storage: *mut c_void,
    pub comm: [u8; 16],
}

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It sleeps.
    Asleep,
    /// Runnable, in this dispatch queue under this key.
    Queue(u64, (u64, u64)),
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
    /// Sleep until somebody wakes it.
    Wait,
    /// Execute the program with this inode.
    Exec(u64),
    /// Start a child, from the list of programs given to [`crate::Simulation::fork`].
    Fork(u64),
    /// End.
    Exit,
}

/// The behaviour of one task: asked for its next step whenever the last one is done.
pub trait Program {
    /// `now`: ns. `ran`: CPU time in all, ns.
    fn next(&mut self, now: u64, ran: u64) -> Step;

    /// A child's behaviour (after [`Step::Fork`]).
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

/// One task of a simulation. Boxed: the scheduler holds pointers to it.
pub(crate) struct Task {
    pub kernel: TaskStruct,
    pub allowed: CpuMask,
    pub place: Place,
    /// What is left of the current [`Step::Run`], ns.
    pub left: u64,
    /// A step that it asked for in its sleep, and takes when it runs.
    pub pending: Option<Step>,
    /// None while it is being asked.
    pub program: Option<Box<dyn Program>>,
    /// Memory that the scheduler keeps for it (task storage).
    pub storage: Box<[u64]>,
    /// Numbers its sleeps: a wake-up meant for an earlier one is void.
    pub naps: u64,
    /// Since when it waits, if it does, ns.
    pub waits_since: u64,
    pub migrations: u64,
}

impl Task {
    pub fn new(id: TaskId, weight: u32, allowed: CpuMask, program: Box<dyn Program>) -> Box<Self> {
        let mut task = Box::new(Self {
            kernel: TaskStruct {
                cpu: allowed.iter().next().unwrap_or(0) as u32,
                flags: 0,
                pid: id as i32 + 1,
                tgid: id as i32 + 1,
                nr_cpus_allowed: allowed.count() as i32,
                migration_disabled: 0,
                cpus_ptr: ptr::null(),
                mm: ptr::null_mut(),
                real_parent: ptr::null_mut(),
                group_leader: ptr::null_mut(),
                cgroups: ptr::null_mut(),
                sum_exec_runtime: 0,
                scx: Entity {
                    weight,
                    ..Entity::default()
                },
                bpf_storage: ptr::null_mut(),
                comm: [0; 16],
            },
            allowed,
            place: Place::Asleep,
            left: 0,
            pending: None,
            program: Some(program),
            storage: Box::default(),
            naps: 0,
            waits_since: 0,
            migrations: 0,
        });
        task.kernel.cpus_ptr = &task.allowed;
        let leader: *mut TaskStruct = &mut task.kernel;
        task.kernel.group_leader = leader;
        task
    }
}
