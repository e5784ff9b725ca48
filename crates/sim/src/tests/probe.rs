//! Cgroup callbacks that are called before the scheduler's own, or instead of callbacks that it
//! lacks. They record their arguments, check that these are consistent, and refuse what a test
//! wants refused.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use crate::calls::recorded::record;
use crate::cgroups::CgroupStruct;
use crate::host::{CgroupInitArgs, CgroupOps, InitArgs};
use crate::kfuncs::{bpf_cgroup_ancestor, bpf_cgroup_from_id, scx_bpf_task_cgroup};
use crate::rng::Rng;
use crate::state::State;
use crate::task::{TaskId, TaskStruct};
use crate::CgroupId;

const NONE: CgroupOps = CgroupOps {
    init: None,
    exit: None,
    prep_move: None,
    moved: None,
    cancel_move: None,
    set_weight: None,
    set_bandwidth: None,
    set_idle: None,
};

/// The calls that are refused.
pub(crate) enum Refuse {
    None,
    /// `cgroup_init`, with this errno.
    Init(i32),
    /// `cgroup_prep_move` of this task, with this errno.
    Prep(TaskId, i32),
    /// At random, one in this number of the calls of both.
    Some(Rng, u64),
}

impl Refuse {
    fn init(&mut self) -> i32 {
        match self {
            Self::Init(errno) => *errno,
            Self::Some(rng, one_in) => -12 * i32::from(rng.below(*one_in) == 0),
            _ => 0,
        }
    }

    fn prep(&mut self, id: TaskId) -> i32 {
        match self {
            Self::Prep(of, errno) if *of == id => *errno,
            Self::Some(rng, one_in) => -i32::from(rng.below(*one_in) == 0),
            _ => 0,
        }
    }
}

/// The state of the probe.
struct Seen {
    /// The scheduler's own callbacks.
    own: CgroupOps,
    refuse: Refuse,
    /// Name and arguments of the recorded calls.
    calls: Vec<(&'static str, Vec<u64>)>,
    /// Weights of the cgroups that are initialised.
    cgroups: HashMap<CgroupId, u64>,
    /// The cgroup of each task.
    tasks: HashMap<TaskId, CgroupId>,
    /// The new cgroup of each task between cgroup_prep_move and cgroup_move.
    prepared: HashMap<TaskId, CgroupId>,
}

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Seen> = RefCell::new(fresh(NONE));
}

fn fresh(own: CgroupOps) -> Seen {
    Seen {
        own,
        refuse: Refuse::None,
        calls: Vec::new(),
        cgroups: HashMap::new(),
        tasks: HashMap::new(),
        prepared: HashMap::new(),
    }
}

fn seen<R>(f: impl FnOnce(&mut Seen) -> R) -> R {
    SEEN.with(|s| f(&mut s.borrow_mut()))
}

/// While it exists, the probe is in front of the scheduler in all new simulations of this thread.
pub(crate) struct Probe;

impl Probe {
    pub fn on() -> Self {
        ON.with(|on| on.set(true));
        seen(|s| *s = fresh(NONE));
        Self
    }

    pub fn on_if(wanted: bool) -> Option<Self> {
        wanted.then(Self::on)
    }

    pub fn refuse(&self, refuse: Refuse) {
        seen(|s| s.refuse = refuse);
    }

    /// The calls since this function was called last: name and arguments.
    pub fn calls(&self) -> Vec<(&'static str, Vec<u64>)> {
        seen(|s| std::mem::take(&mut s.calls))
    }

    /// The cgroup of a task, by the callbacks so far.
    pub fn cgroup_of(&self, id: TaskId) -> Option<CgroupId> {
        seen(|s| s.tasks.get(&id).copied())
    }

    /// The weight of a cgroup, by the callbacks so far.
    pub fn weight_of(&self, id: CgroupId) -> Option<u64> {
        seen(|s| s.cgroups.get(&id).copied())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        ON.with(|on| on.set(false));
    }
}

/// The callbacks with the probe in front of them, if there is one.
pub(crate) fn around(own: CgroupOps) -> CgroupOps {
    if !ON.with(Cell::get) {
        return own;
    }
    seen(|s| s.own = own);
    CgroupOps {
        init: Some(init),
        exit: Some(exit),
        prep_move: Some(prep_move),
        moved: Some(moved),
        cancel_move: Some(cancel_move),
        set_weight: Some(set_weight),
        set_bandwidth: Some(set_bandwidth),
        set_idle: Some(set_idle),
    }
}

/// `kn->id` and `level`, as a scheduler reads them.
fn read(cgroup: *mut CgroupStruct) -> (CgroupId, i32) {
    // SAFETY: the argument of a callback
    unsafe { ((*(*cgroup).kn.get()).id as CgroupId - 1, (*cgroup).level) }
}

fn id(cgroup: *mut CgroupStruct) -> CgroupId {
    read(cgroup).0
}

fn note(name: &'static str, arguments: &[u64]) {
    seen(|s| s.calls.push((name, arguments.to_vec())));
}

/// Record `runnable` or `quiescent` of a scheduler that lacks the callback, so that tests see the
/// kernel's whole order. Check that the task is in the cgroup that the callbacks so far give it:
/// its task group changes between `quiescent` and `runnable`.
pub(crate) fn lacking(name: &'static str, p: *mut TaskStruct, flags: u64) {
    if ON.with(Cell::get) {
        let task = State::id(p);
        record(name, task);
        note(name, &[task as u64, flags]);
        let cgroup = id(scx_bpf_task_cgroup(p));
        seen(|s| assert_eq!(s.tasks.get(&task), Some(&cgroup), "{name} of task {task}"));
    }
}

// The functions below are called from C, so a failed assertion prints its message and ends the
// process.

/// init_task of a task.
pub(crate) fn init_task(task: TaskId, args: &InitArgs) {
    if ON.with(Cell::get) {
        let cgroup = id(args.cgroup);
        note(
            "init_task",
            &[task as u64, cgroup as u64, u64::from(args.fork)],
        );
        seen(|s| {
            assert!(
                s.cgroups.contains_key(&cgroup),
                "task {task} is in cgroup {cgroup}"
            );
            s.tasks.insert(task, cgroup);
        });
    }
}

extern "C" fn init(cgroup: *mut CgroupStruct, args: *mut CgroupInitArgs) -> i32 {
    let (number, level) = read(cgroup);
    // SAFETY: the caller's variable
    let a = unsafe { &*args };
    let parent = bpf_cgroup_ancestor(cgroup, level - 1);
    let above = if parent.is_null() {
        u64::MAX
    } else {
        id(parent) as u64
    };
    let arguments = [
        number as u64,
        above,
        u64::from(a.weight),
        a.period,
        a.quota,
        a.burst,
    ];
    note("cgroup_init", &arguments);
    let status = seen(|s| {
        assert!(
            number == 0 || s.cgroups.contains_key(&(above as CgroupId)),
            "parents first"
        );
        let status = s.refuse.init();
        if status == 0 {
            let before = s.cgroups.insert(number, arguments[2]);
            assert_eq!(before, None, "cgroup {number} is initialised twice");
        }
        status
    });
    match seen(|s| s.own.init).filter(|_| status == 0) {
        // SAFETY: the arguments are passed on unchanged
        Some(own) => unsafe { own(cgroup, args) },
        None => status,
    }
}

extern "C" fn exit(cgroup: *mut CgroupStruct) {
    let number = id(cgroup);
    note("cgroup_exit", &[number as u64]);
    assert!(
        bpf_cgroup_from_id(number as u64 + 1).is_null(),
        "its directory is removed"
    );
    seen(|s| {
        assert!(
            s.cgroups.remove(&number).is_some(),
            "cgroup {number} was initialised"
        );
    });
    if let Some(own) = seen(|s| s.own.exit) {
        // SAFETY: the arguments are passed on unchanged
        unsafe { own(cgroup) };
    }
}

fn check_move(name: &'static str, task: TaskId, from: *mut CgroupStruct, to: *mut CgroupStruct) {
    let (from, to) = (id(from), id(to));
    note(name, &[task as u64, from as u64, to as u64]);
    seen(|s| {
        assert_eq!(s.tasks.get(&task), Some(&from), "{name} of task {task}");
        assert!(from != to && s.cgroups.contains_key(&to), "{name} to {to}");
    });
}

extern "C" fn prep_move(p: *mut TaskStruct, from: *mut CgroupStruct, to: *mut CgroupStruct) -> i32 {
    let task = State::id(p);
    check_move("cgroup_prep_move", task, from, to);
    let status = seen(|s| s.refuse.prep(task));
    let status = match seen(|s| s.own.prep_move).filter(|_| status == 0) {
        // SAFETY: the arguments are passed on unchanged
        Some(own) => unsafe { own(p, from, to) },
        None => status,
    };
    seen(|s| {
        if status == 0 {
            let before = s.prepared.insert(task, id(to));
            assert_eq!(before, None, "task {task} is prepared twice");
        }
    });
    status
}

extern "C" fn moved(p: *mut TaskStruct, from: *mut CgroupStruct, to: *mut CgroupStruct) {
    let task = State::id(p);
    check_move("cgroup_move", task, from, to);
    assert_eq!(scx_bpf_task_cgroup(p), to, "the task group is the new one");
    seen(|s| {
        assert_eq!(
            s.prepared.remove(&task),
            Some(id(to)),
            "task {task} was prepared"
        );
        s.tasks.insert(task, id(to));
    });
    if let Some(own) = seen(|s| s.own.moved) {
        // SAFETY: the arguments are passed on unchanged
        unsafe { own(p, from, to) };
    }
}

extern "C" fn cancel_move(p: *mut TaskStruct, from: *mut CgroupStruct, to: *mut CgroupStruct) {
    let task = State::id(p);
    check_move("cgroup_cancel_move", task, from, to);
    seen(|s| {
        assert_eq!(
            s.prepared.remove(&task),
            Some(id(to)),
            "task {task} was prepared"
        );
    });
    if let Some(own) = seen(|s| s.own.cancel_move) {
        // SAFETY: the arguments are passed on unchanged
        unsafe { own(p, from, to) };
    }
}

extern "C" fn set_weight(cgroup: *mut CgroupStruct, weight: u32) {
    note("cgroup_set_weight", &[id(cgroup) as u64, u64::from(weight)]);
    seen(|s| {
        let before = s.cgroups.insert(id(cgroup), u64::from(weight));
        assert!(before.is_some_and(|b| b != u64::from(weight)), "it changes");
    });
    if let Some(own) = seen(|s| s.own.set_weight) {
        // SAFETY: the arguments are passed on unchanged
        unsafe { own(cgroup, weight) };
    }
}

extern "C" fn set_bandwidth(cgroup: *mut CgroupStruct, period: u64, quota: u64, burst: u64) {
    note(
        "cgroup_set_bandwidth",
        &[id(cgroup) as u64, period, quota, burst],
    );
    if let Some(own) = seen(|s| s.own.set_bandwidth) {
        // SAFETY: the arguments are passed on unchanged
        unsafe { own(cgroup, period, quota, burst) };
    }
}

extern "C" fn set_idle(cgroup: *mut CgroupStruct, idle: bool) {
    note("cgroup_set_idle", &[id(cgroup) as u64, u64::from(idle)]);
    if let Some(own) = seen(|s| s.own.set_idle) {
        // SAFETY: the arguments are passed on unchanged
        unsafe { own(cgroup, idle) };
    }
}
