//! Cgroups with the CPU controller: the tree, and the scheduler's view of it (`struct cgroup` of
//! bpf/kernel/). `cgroups/changes.rs` has the changes, and the callbacks that they cause.
//!
//! A cgroup here is a task group (`struct task_group`) of the kernel: one with the CPU controller.
//! The rule of cgroup v2 that only leaves of the tree have threads is not enforced, because
//! threaded cgroups and cgroup v1 have threads anywhere. When the controller is enabled for
//! existing cgroups, the scheduler sees them created and their tasks moved in; when it is disabled,
//! the tasks moved out and the cgroups removed.

mod changes;
mod domains;

pub use changes::CgroupChange;
pub use domains::{DomainChange, DomainPolicy};

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, CString};
use std::ptr;

use crate::TaskId;

/// Number of a cgroup in its simulation, in order of creation. It is not used again after the
/// cgroup's removal. `kn->id` is one more.
pub type CgroupId = usize;

/// The root cgroup, which always exists.
pub const ROOT: CgroupId = 0;

/// `cpu.max` and `cpu.max.burst`, us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// 1,000 to 1,000,000.
    pub period: u64,
    /// CPU time in each period, over all CPUs: 1,000 to 2^44 - 1. None: no limit ("max").
    pub quota: Option<u64>,
    /// Most quota of earlier periods that may be kept: at most `quota`. The sum of both is at most
    /// 2^44 - 1.
    pub burst: u64,
}

impl Default for Bandwidth {
    /// The default of a new cgroup: no limit, a period of 100 ms.
    fn default() -> Self {
        Self {
            period: 100_000,
            quota: None,
            burst: 0,
        }
    }
}

/// `max_bw_runtime_us`
const MOST_RUNTIME: u64 = (1 << 44) - 1;

impl Bandwidth {
    /// Arguments of the callbacks, us: period, quota (`RUNTIME_INF`: none), burst.
    fn words(self) -> [u64; 3] {
        [self.period, self.quota.unwrap_or(u64::MAX), self.burst]
    }

    /// `tg_set_bandwidth()`
    fn is_valid(self) -> bool {
        (1_000..=1_000_000).contains(&self.period)
            && self.burst <= u64::MAX / 1000
            && self.quota.is_none_or(|quota| {
                (1_000..=MOST_RUNTIME).contains(&quota)
                    && self.burst <= quota
                    && self.burst + quota <= MOST_RUNTIME
            })
    }
}

/// A cgroup that exists when the scheduler is attached ([`crate::Simulation::attach`]).
#[derive(Clone, Copy, Debug)]
pub struct Existing<'a> {
    /// [`ROOT`], or an earlier cgroup of the same list. The list's cgroups have the numbers 1, 2, …
    /// in order.
    pub parent: CgroupId,
    /// The name of its directory, unique in its parent, without '/'.
    pub name: &'a str,
    /// `cpu.weight`, 1 to 10,000.
    pub weight: u32,
    /// `cpu.max`
    pub bandwidth: Bandwidth,
    /// `cpu.idle`
    pub idle: bool,
    /// User id of the directory's owner.
    pub owner: u32,
}

impl<'a> Existing<'a> {
    /// A cgroup of root's with the default settings: weight 100, no limit, not idle.
    pub fn new(parent: CgroupId, name: &'a str) -> Self {
        Self {
            parent,
            name,
            weight: WEIGHT_DEFAULT,
            bandwidth: Bandwidth::default(),
            idle: false,
            owner: 0,
        }
    }
}

/// `CGROUP_WEIGHT_DFL`
const WEIGHT_DEFAULT: u32 = 100;

/// Why the kernel refuses a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CgroupError {
    /// ENODEV, ENOENT
    #[error("there is no cgroup {0}")]
    NoCgroup(CgroupId),
    /// ESRCH
    #[error("there is no task {0}, or it has exited")]
    NoTask(TaskId),
    /// EBUSY
    #[error(
        "cgroup {cgroup} has {tasks} tasks and {children} cgroups in it, so it cannot be removed"
    )]
    Busy {
        /// The cgroup that cannot be removed.
        cgroup: CgroupId,
        /// Tasks in it.
        tasks: u32,
        /// Its child cgroups.
        children: usize,
    },
    /// EEXIST, EINVAL
    #[error("the name is empty, has a '/' or is taken in cgroup {0}")]
    Name(CgroupId),
    /// The root has no such files.
    #[error("the root cgroup has no weight, bandwidth or idle flag, and cannot be removed")]
    Root,
    /// ERANGE
    #[error("a weight of {0} is not within 1 to 10000")]
    Weight(u32),
    /// EINVAL: an idle cgroup's weight is fixed.
    #[error("cgroup {0} is idle, so its weight cannot be set")]
    Idle(CgroupId),
    /// EINVAL
    #[error("{0:?} is out of range")]
    Bandwidth(Bandwidth),
    /// The scheduler's callback returned this errno (below 0).
    #[error("the scheduler refuses (errno {0})")]
    Refused(i32),
}

/// `struct kernfs_iattrs`
#[repr(C)]
pub(crate) struct KernfsIattrs {
    pub uid: Cell<u32>,
}

/// `struct kernfs_node`
#[repr(C)]
pub(crate) struct KernfsNode {
    pub name: *const c_char,
    pub id: u64,
    pub iattr: Cell<*const KernfsIattrs>,
}

/// `CGROUP_LEVELS`: how many of a cgroup's ancestors the scheduler sees.
const LEVELS: usize = 17;

/// `struct cgroup`
#[repr(C)]
pub(crate) struct CgroupStruct {
    pub kn: Cell<*const KernfsNode>,
    pub level: i32,
    /// `subsys`: the controllers' states of the cgroup. The simulated kernel has none.
    pub controllers: [*const (); 1],
    /// By level, itself included.
    pub ancestors: [Cell<*const CgroupStruct>; LEVELS],
}

/// `struct css_set`: the cgroup of its tasks. Each cgroup has one, since there is one hierarchy.
#[repr(C)]
pub(crate) struct CssSet {
    pub dfl_cgrp: Cell<*const CgroupStruct>,
}

/// The state of a cgroup's directory. Only an online cgroup is found by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Creating,
    Online,
    Removed,
}

pub(crate) struct Cgroup {
    kernel: CgroupStruct,
    css_set: CssSet,
    node: KernfsNode,
    attributes: KernfsIattrs,
    name: CString,
    id: CgroupId,
    parent: Option<CgroupId>,
    /// Online children, in order of creation.
    children: RefCell<Vec<CgroupId>>,
    /// Number of its tasks that have not exited.
    tasks: Cell<u32>,
    life: Cell<Life>,
    weight: Cell<u32>,
    bandwidth: Cell<Bandwidth>,
    idle: Cell<bool>,
}

impl Cgroup {
    fn new(id: CgroupId, parent: Option<&Cgroup>, name: CString, owner: u32) -> Box<Self> {
        let new = Box::new(Self {
            kernel: CgroupStruct {
                kn: Cell::new(ptr::null()),
                level: parent.map_or(0, |p| p.kernel.level + 1),
                controllers: [ptr::null()],
                ancestors: parent.map_or_else(Default::default, |p| p.kernel.ancestors.clone()),
            },
            css_set: CssSet {
                dfl_cgrp: Cell::new(ptr::null()),
            },
            node: KernfsNode {
                name: name.as_ptr(),
                id: id as u64 + 1,
                iattr: Cell::new(ptr::null()),
            },
            attributes: KernfsIattrs {
                uid: Cell::new(owner),
            },
            name,
            id,
            parent: parent.map(|p| p.id),
            children: RefCell::default(),
            tasks: Cell::new(0),
            life: Cell::new(Life::Creating),
            weight: Cell::new(WEIGHT_DEFAULT),
            bandwidth: Cell::default(),
            idle: Cell::new(false),
        });
        new.kernel.kn.set(&new.node);
        // __kernfs_new_node: a directory of root's has no attributes until it is changed
        if owner != 0 {
            new.node.iattr.set(&new.attributes);
        }
        if let Some(own) = new.kernel.ancestors.get(new.kernel.level as usize) {
            own.set(&new.kernel);
        }
        new.css_set.dfl_cgrp.set(&new.kernel);
        new
    }

    /// The scheduler's pointer to the cgroup.
    pub fn pointer(&self) -> *mut CgroupStruct {
        ptr::from_ref(&self.kernel).cast_mut()
    }

    /// The value of the field `cgroups` of the cgroup's tasks.
    pub fn css_set(&self) -> *mut CssSet {
        ptr::from_ref(&self.css_set).cast_mut()
    }

    pub fn id(&self) -> CgroupId {
        self.id
    }

    /// The number of the cgroup's directory, by which user space names the cgroup.
    pub fn number(&self) -> u64 {
        self.node.id
    }

    pub fn is_online(&self) -> bool {
        self.life.get() == Life::Online
    }

    /// `kernfs_setattr()`: another owner of the directory.
    fn chown(&self, owner: u32) {
        self.attributes.uid.set(owner);
        self.node.iattr.set(&self.attributes);
    }

    /// Number of its tasks that have not exited.
    pub fn tasks(&self) -> u32 {
        self.tasks.get()
    }

    /// Count one more task.
    pub fn joined(&self) {
        self.tasks.set(self.tasks.get() + 1);
    }

    /// Count one task less.
    pub fn left(&self) {
        self.tasks.set(self.tasks.get() - 1);
    }
}

/// All cgroups, those that were removed included. The scheduler may keep their addresses, so none
/// moves in memory.
pub(crate) struct Cgroups {
    #[allow(clippy::vec_box)] // a cgroup must not move when the vector grows
    all: RefCell<Vec<Box<Cgroup>>>,
    /// The scheduler has been attached, so changes call its callbacks (`scx_cgroup_enabled`).
    enabled: Cell<bool>,
    /// Tasks that are being moved, with their old cgroups. Their `css_set` is already the new
    /// cgroup's; their task group is still the old cgroup's.
    moving: RefCell<Vec<(TaskId, CgroupId)>>,
}

impl Cgroups {
    /// A tree that has only the root.
    pub fn new() -> Self {
        let root = Cgroup::new(ROOT, None, CString::default(), 0);
        root.life.set(Life::Online);
        Self {
            all: RefCell::new(vec![root]),
            enabled: Cell::new(false),
            moving: RefCell::default(),
        }
    }

    /// A cgroup, even if it has been removed.
    pub fn get(&self, id: CgroupId) -> Option<&Cgroup> {
        let all = self.all.borrow();
        let found: *const Cgroup = &**all.get(id)?;
        // SAFETY: boxed, and dropped together with self
        Some(unsafe { &*found })
    }

    pub fn root(&self) -> &Cgroup {
        self.get(ROOT).expect("the root always exists")
    }

    /// A cgroup that is online.
    pub fn online(&self, id: CgroupId) -> Result<&Cgroup, CgroupError> {
        let found = self.get(id).filter(|c| c.is_online());
        found.ok_or(CgroupError::NoCgroup(id))
    }

    /// The cgroup behind the scheduler's pointer.
    pub fn of(&self, kernel: *const CgroupStruct) -> &Cgroup {
        // SAFETY: the scheduler has pointers to cgroups of this simulation only, and the
        // simulation keeps all its cgroups until it ends
        let id = unsafe { (*(*kernel).kn.get()).id } - 1;
        self.get(id as CgroupId)
            .expect("a cgroup of this simulation")
    }

    /// The cgroup to which a task's field `cgroups` points.
    pub fn member_of(&self, css_set: *const CssSet) -> &Cgroup {
        // SAFETY: from Cgroup::css_set(); it lives as long as the simulation
        self.of(unsafe { (*css_set).dfl_cgrp.get() })
    }

    /// The ancestor of `of` at `level` (the root has level 0), or `of` itself if it has that level.
    /// `bpf_cgroup_ancestor()`
    pub fn ancestor(&self, of: &Cgroup, level: i32) -> Option<&Cgroup> {
        let mut at = self.get(of.id)?;
        if !(0..=at.kernel.level).contains(&level) {
            return None;
        }
        while at.kernel.level > level {
            at = self.get(at.parent?)?;
        }
        Some(at)
    }

    /// The old cgroup of a task that is being moved, to which its task group still belongs. None:
    /// the task is not being moved.
    pub fn moving_from(&self, id: TaskId) -> Option<CgroupId> {
        let moving = self.moving.borrow();
        moving.iter().find(|m| m.0 == id).map(|m| m.1)
    }

    /// All online cgroups, parents before children, children in order of creation.
    /// `css_for_each_descendant_pre()`
    fn parents_first(&self) -> Vec<&Cgroup> {
        let mut order = Vec::new();
        let mut to_do = vec![ROOT];
        while let Some(c) = to_do.pop().and_then(|id| self.get(id)) {
            to_do.extend(c.children.borrow().iter().rev());
            order.push(c);
        }
        order
    }

    /// All cgroups, those that were removed included.
    pub fn iter(&self) -> impl Iterator<Item = &Cgroup> {
        (0..).map_while(|id| self.get(id))
    }

    /// Create a cgroup that is not yet in the tree.
    fn create(&self, parent: CgroupId, name: &str, owner: u32) -> Result<&Cgroup, CgroupError> {
        let above = self.online(parent)?;
        let wrong = CgroupError::Name(parent);
        let taken = |id: &CgroupId| {
            self.get(*id)
                .is_some_and(|c| c.name.as_bytes() == name.as_bytes())
        };
        if name.is_empty()
            || name.contains(['/', '\n'])
            || above.children.borrow().iter().any(taken)
        {
            return Err(wrong);
        }
        let name = CString::new(name).map_err(|_| wrong)?;
        let id = self.all.borrow().len();
        let new = Cgroup::new(id, Some(above), name, owner);
        self.all.borrow_mut().push(new);
        self.get(id).ok_or(CgroupError::NoCgroup(id))
    }

    /// Add a cgroup to the tree.
    fn link(&self, c: &Cgroup) {
        c.life.set(Life::Online);
        if let Some(parent) = c.parent.and_then(|id| self.get(id)) {
            parent.children.borrow_mut().push(c.id);
        }
    }

    /// Remove a cgroup from the tree.
    fn unlink(&self, c: &Cgroup) {
        c.life.set(Life::Removed);
        if let Some(parent) = c.parent.and_then(|id| self.get(id)) {
            parent.children.borrow_mut().retain(|&id| id != c.id);
        }
    }
}
