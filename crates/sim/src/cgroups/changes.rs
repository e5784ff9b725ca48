//! Changes of cgroups, and the callbacks that they cause.
//!
//! As in `scx_root_enable`, `scx_cgroup_init`, `scx_tg_online`, `scx_tg_offline`,
//! `scx_cgroup_can_attach`, `scx_cgroup_move_task`, `scx_group_set_weight`,
//! `scx_group_set_bandwidth`, `scx_group_set_idle` of kernel/sched/ext.c, their callers in
//! kernel/sched/core.c, and kernel/cgroup/cgroup.c:
//!
//! ```text
//!   attach             init, cgroup_init of all cgroups (parents first), init_task of all tasks
//!   mkdir              cgroup_init, which may refuse
//!   rmdir              cgroup_exit, unless the cgroup has tasks or children
//!   move               cgroup_prep_move of all threads; if one refuses, cgroup_cancel_move of
//!                      those before it, and no thread moves
//!                      for each thread: [stopping] [quiescent] cgroup_move [runnable]
//!                      [enqueue or running]
//!   weight, bandwidth  a callback if the value changes
//!   idle               a callback at each write
//!   fork               init_task with the parent's cgroup
//!   exit               exit_task, then the task leaves the cgroup
//! ```

use std::ptr;

use super::{Bandwidth, Cgroup, CgroupError, CgroupId, Existing, Life, ROOT};
use crate::hotplug::SAVE;
use crate::state::State;
use crate::task::{Place, Task, TaskId};
use crate::{CpuMask, Program, Simulation};

/// `DEQUEUE_SAVE | DEQUEUE_MOVE`
const SAVE_AND_MOVE: u64 = SAVE | 4;

/// A change of cgroups, for [`crate::Change::Cgroup`]. Each has the effect of the function that
/// its documentation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupChange {
    /// [`Simulation::create_cgroup`] in this cgroup; the name is "cgroup" and the new number.
    Create(CgroupId),
    /// [`Simulation::remove_cgroup`]
    Remove(CgroupId),
    /// [`Simulation::move_process`]
    MoveProcess(TaskId, CgroupId),
    /// [`Simulation::move_thread`]
    MoveThread(TaskId, CgroupId),
    /// [`Simulation::set_cgroup_weight`]
    Weight(CgroupId, u32),
    /// [`Simulation::set_cgroup_bandwidth`]
    Bandwidth(CgroupId, Bandwidth),
    /// [`Simulation::set_cgroup_idle`]
    Idle(CgroupId, bool),
}

impl State {
    /// The cgroup of a task.
    pub fn cgroup_of(&self, t: &Task) -> &Cgroup {
        self.cgroups.member_of(t.kernel.cgroups.get())
    }

    /// The cgroup of a task's task group, which `scx_bpf_task_cgroup` returns. It differs from the
    /// task's cgroup while the task is being moved.
    pub fn group_of(&self, t: &Task) -> &Cgroup {
        let moving = self.cgroups.moving_from(Self::id(t.pointer()));
        let from = moving.and_then(|id| self.cgroups.get(id));
        from.unwrap_or_else(|| self.cgroup_of(t))
    }

    /// Put a new task into a cgroup.
    pub fn join(&self, t: &Task, cgroup: &Cgroup) {
        t.kernel.cgroups.set(cgroup.css_set());
        cgroup.joined();
    }

    /// Call cgroup_init for all cgroups that exist at attach. `scx_cgroup_init()`
    pub fn attach_cgroups(&self) {
        for c in self.cgroups.parents_first() {
            let status = self.ops_cgroup_init(c, c.weight.get(), c.bandwidth.get().words());
            assert_eq!(
                status, 0,
                "cgroup_init failed: the scheduler is not attached"
            );
        }
        self.cgroups.enabled.set(true);
    }

    /// Make an online CPU the current one. No task of the simulation is current then.
    fn without_current(&self) {
        self.enter_cpu(self.or_online(0));
        self.current.set(ptr::null_mut());
    }

    fn create_cgroup(
        &self,
        parent: CgroupId,
        name: &str,
        owner: u32,
    ) -> Result<CgroupId, CgroupError> {
        let c = self.cgroups.create(parent, name, owner)?;
        if self.cgroups.enabled.get() {
            self.without_current();
            let status = self.ops_cgroup_init(c, c.weight.get(), c.bandwidth.get().words());
            if status != 0 {
                c.life.set(Life::Removed);
                return Err(refused("cgroup_init", status));
            }
        }
        self.cgroups.link(c);
        Ok(c.id)
    }

    fn remove_cgroup(&self, id: CgroupId) -> Result<(), CgroupError> {
        let c = self.settable(id)?;
        let (tasks, children) = (c.tasks.get(), c.children.borrow().len());
        if tasks > 0 || children > 0 {
            return Err(CgroupError::Busy {
                cgroup: id,
                tasks,
                children,
            });
        }
        self.cgroups.unlink(c);
        self.without_current();
        self.ops_cgroup_exit(c);
        Ok(())
    }

    /// An online cgroup that has settings. The root has none.
    fn settable(&self, id: CgroupId) -> Result<&Cgroup, CgroupError> {
        if id == ROOT {
            return Err(CgroupError::Root);
        }
        self.cgroups.online(id)
    }

    fn write_weight(&self, id: CgroupId, weight: u32) -> Result<(), CgroupError> {
        let c = self.settable(id)?;
        if !(1..=10_000).contains(&weight) {
            return Err(CgroupError::Weight(weight));
        }
        if c.idle.get() {
            return Err(CgroupError::Idle(id)); // sched_group_set_shares()
        }
        if self.cgroups.enabled.get() && c.weight.get() != weight {
            self.without_current();
            self.ops_cgroup_set_weight(c, weight);
        }
        c.weight.set(weight);
        Ok(())
    }

    fn write_bandwidth(&self, id: CgroupId, bandwidth: Bandwidth) -> Result<(), CgroupError> {
        let c = self.settable(id)?;
        if !bandwidth.is_valid() {
            return Err(CgroupError::Bandwidth(bandwidth));
        }
        if self.cgroups.enabled.get() && c.bandwidth.get() != bandwidth {
            self.without_current();
            self.ops_cgroup_set_bandwidth(c, bandwidth.words());
        }
        c.bandwidth.set(bandwidth);
        Ok(())
    }

    fn write_idle(&self, id: CgroupId, idle: bool) -> Result<(), CgroupError> {
        let c = self.settable(id)?;
        if self.cgroups.enabled.get() {
            self.without_current();
            // the kernel does not check whether the value changes
            self.ops_cgroup_set_idle(c, idle);
        }
        c.idle.set(idle);
        Ok(())
    }

    fn move_process(&self, id: TaskId, to: CgroupId) -> Result<(), CgroupError> {
        let process = self.tasks.get(id).ok_or(CgroupError::NoTask(id))?;
        let (tgid, alive) = (process.kernel.tgid.get(), |t: &&Task| {
            t.place.get() != Place::Exited
        });
        let of_it = |t: &&Task| t.kernel.tgid.get() == tgid;
        let threads: Vec<_> = self.tasks.iter().filter(of_it).filter(alive).collect();
        // the pid of a leader that has exited still names its process
        let is_leader = process.kernel.pid.get() == tgid;
        if threads.is_empty() || !(is_leader || alive(&process)) {
            return Err(CgroupError::NoTask(id));
        }
        self.move_tasks(&threads, self.cgroups.online(to)?)
    }

    fn move_thread(&self, id: TaskId, to: CgroupId) -> Result<(), CgroupError> {
        let t = self
            .tasks
            .get(id)
            .filter(|t| t.place.get() != Place::Exited);
        let t = t.ok_or(CgroupError::NoTask(id))?;
        self.move_tasks(&[t], self.cgroups.online(to)?)
    }

    /// `cgroup_migrate()`
    fn move_tasks(&self, tasks: &[&Task], to: &Cgroup) -> Result<(), CgroupError> {
        // grouped by their cgroups, in the order of each cgroup's first task
        // (cgroup_migrate_add_task)
        let mut sources: Vec<CgroupId> = Vec::new();
        let mut moves = Vec::new();
        for &t in tasks {
            let from = self.cgroup_of(t);
            if from.id == to.id {
                continue; // no callback
            }
            let known = sources.iter().position(|&id| id == from.id);
            let rank = known.unwrap_or_else(|| {
                sources.push(from.id);
                sources.len() - 1
            });
            moves.push((rank, t, from));
        }
        moves.sort_by_key(|m| m.0);
        for (n, &(_, t, from)) in moves.iter().enumerate() {
            self.without_current();
            let status = self.ops_cgroup_prep_move(t, from, to);
            if status != 0 {
                for &(_, t, from) in &moves[..n] {
                    self.ops_cgroup_cancel_move(t, from, to);
                }
                return Err(refused("cgroup_prep_move", status));
            }
        }
        // all tasks are in the new cgroup before the first task group changes
        // (cgroup_migrate_execute)
        for &(_, t, from) in &moves {
            from.left();
            to.joined();
            t.kernel.cgroups.set(to.css_set());
            let id = Self::id(t.pointer());
            self.cgroups.moving.borrow_mut().push((id, from.id));
        }
        for &(_, t, from) in &moves {
            self.without_current();
            self.change_group(t, from, to);
        }
        Ok(())
    }

    /// `sched_move_task()`
    fn change_group(&self, t: &Task, from: &Cgroup, to: &Cgroup) {
        self.sched_change(t, SAVE_AND_MOVE, || {
            let id = Self::id(t.pointer());
            self.cgroups.moving.borrow_mut().retain(|m| m.0 != id);
            self.ops_cgroup_move(t, from, to);
        });
        if let Place::Running(cpu) = t.place.get() {
            self.resched(cpu);
        }
    }

    pub fn change_cgroup(&self, change: &CgroupChange) -> Result<(), CgroupError> {
        match *change {
            CgroupChange::Create(parent) => {
                let name = format!("cgroup{}", self.cgroups.iter().count());
                self.create_cgroup(parent, &name, 0).map(|_| ())
            }
            CgroupChange::Remove(id) => self.remove_cgroup(id),
            CgroupChange::MoveProcess(id, to) => self.move_process(id, to),
            CgroupChange::MoveThread(id, to) => self.move_thread(id, to),
            CgroupChange::Weight(id, weight) => self.write_weight(id, weight),
            CgroupChange::Bandwidth(id, bandwidth) => self.write_bandwidth(id, bandwidth),
            CgroupChange::Idle(id, idle) => self.write_idle(id, idle),
        }
    }

    /// Create the cgroups that exist at attach. They get the numbers 1, 2, … in their order.
    pub fn existing_cgroups(&self, existing: &[Existing]) -> Result<(), CgroupError> {
        for e in existing {
            let id = self.create_cgroup(e.parent, e.name, e.owner)?;
            self.write_weight(id, e.weight)?;
            self.write_bandwidth(id, e.bandwidth)?;
            self.write_idle(id, e.idle)?;
        }
        Ok(())
    }
}

/// `ops_sanitize_err()`
fn refused(callback: &str, status: i32) -> CgroupError {
    assert!(
        (-4095..0).contains(&status),
        "{callback} returned {status}, which is not an errno: the kernel would end the scheduler"
    );
    CgroupError::Refused(status)
}

impl Simulation {
    pub(super) fn check_after<T>(
        &mut self,
        done: Result<T, CgroupError>,
    ) -> Result<T, CgroupError> {
        self.check();
        done
    }

    /// Create a cgroup of root's in `parent` (`mkdir`), with weight 100, no limit, not idle. `name`
    /// is unique in `parent`, without '/'.
    ///
    /// # Errors
    /// No such parent, an invalid name, or the scheduler's `cgroup_init` refuses.
    pub fn create_cgroup(&mut self, parent: CgroupId, name: &str) -> Result<CgroupId, CgroupError> {
        self.create_cgroup_as(parent, name, 0)
    }

    /// As [`Simulation::create_cgroup`], by the user with this id. The directory is that user's.
    ///
    /// # Errors
    /// As [`Simulation::create_cgroup`].
    pub fn create_cgroup_as(
        &mut self,
        parent: CgroupId,
        name: &str,
        user: u32,
    ) -> Result<CgroupId, CgroupError> {
        let done = self.state.create_cgroup(parent, name, user);
        self.check_after(done)
    }

    /// Give a cgroup's directory to the user with this id (`chown`).
    ///
    /// # Errors
    /// No such cgroup.
    pub fn chown_cgroup(&mut self, id: CgroupId, user: u32) -> Result<(), CgroupError> {
        let done = self.state.cgroups.online(id).map(|c| c.chown(user));
        self.check_after(done)
    }

    /// Remove a cgroup (`rmdir`). Its number is not used again.
    ///
    /// # Errors
    /// The cgroup is the root, does not exist, or has tasks or children.
    pub fn remove_cgroup(&mut self, id: CgroupId) -> Result<(), CgroupError> {
        let done = self.state.remove_cgroup(id);
        self.check_after(done)
    }

    /// Move all threads of a task's process (`cgroup.procs`).
    ///
    /// # Errors
    /// No such cgroup or task, or the scheduler's `cgroup_prep_move` refuses; then no thread moves.
    pub fn move_process(&mut self, id: TaskId, to: CgroupId) -> Result<(), CgroupError> {
        let done = self.state.move_process(id, to);
        self.check_after(done)
    }

    /// Move one thread (`cgroup.threads`).
    ///
    /// # Errors
    /// As [`Simulation::move_process`].
    pub fn move_thread(&mut self, id: TaskId, to: CgroupId) -> Result<(), CgroupError> {
        let done = self.state.move_thread(id, to);
        self.check_after(done)
    }

    /// Set `cpu.weight`, 1 to 10,000.
    ///
    /// # Errors
    /// No such cgroup, the root, an idle one, or a weight out of range.
    pub fn set_cgroup_weight(&mut self, id: CgroupId, weight: u32) -> Result<(), CgroupError> {
        let done = self.state.write_weight(id, weight);
        self.check_after(done)
    }

    /// Set `cpu.max` and `cpu.max.burst`. As in the kernel, the scheduler has to enforce them.
    ///
    /// # Errors
    /// No such cgroup, the root, or numbers out of range ([`Bandwidth`]).
    pub fn set_cgroup_bandwidth(
        &mut self,
        id: CgroupId,
        bandwidth: Bandwidth,
    ) -> Result<(), CgroupError> {
        let done = self.state.write_bandwidth(id, bandwidth);
        self.check_after(done)
    }

    /// Set `cpu.idle`.
    ///
    /// # Errors
    /// No such cgroup, or the root.
    pub fn set_cgroup_idle(&mut self, id: CgroupId, idle: bool) -> Result<(), CgroupError> {
        let done = self.state.write_idle(id, idle);
        self.check_after(done)
    }

    /// The cgroup of a task. For a task that has exited, its cgroup at the exit.
    pub fn cgroup_of(&self, id: TaskId) -> CgroupId {
        self.state.cgroup_of(&self.state.tasks[id]).id()
    }

    /// Like [`Simulation::start_with`], but the task starts in `cgroup`.
    ///
    /// # Errors
    /// No such cgroup.
    pub fn start_in(
        &mut self,
        cgroup: CgroupId,
        weight: u32,
        allowed: CpuMask,
        program: Box<dyn Program>,
    ) -> Result<TaskId, CgroupError> {
        let cgroup = self.state.cgroups.online(cgroup)?;
        self.state.current.set(ptr::null_mut());
        Ok(self.state.add(weight, &allowed, program, None, cgroup))
    }
}
