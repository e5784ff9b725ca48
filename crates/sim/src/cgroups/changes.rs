//! What is done to cgroups, and the callbacks that the kernel makes of it.
//!
//! After `scx_root_enable`, `scx_cgroup_init`, `scx_tg_online`, `scx_tg_offline`, `scx_cgroup_can_attach`,
//! `scx_cgroup_move_task`, `scx_group_set_weight`, `scx_group_set_bandwidth`, `scx_group_set_idle` of
//! kernel/sched/ext.c, their callers in kernel/sched/core.c, and kernel/cgroup/cgroup.c:
//!
//! ```text
//!   attach    init -> cgroup_init of all there are, parents first -> init_task of the tasks
//!   mkdir     cgroup_init, which may refuse
//!   rmdir     cgroup_exit, unless tasks or cgroups are in it
//!   move      of all threads cgroup_prep_move; one refuses: cgroup_cancel_move of those before it, no more
//!             thread by thread: [stopping] [quiescent] -> cgroup_move -> [runnable] [enqueue, or running]
//!   weight, bandwidth: if they change; idle: whenever it is written
//!   fork      init_task with the parent's cgroup
//!   exit      exit_task, then it is in the cgroup no more
//! ```

use std::ptr;

use super::{Bandwidth, Cgroup, CgroupError, CgroupId, Existing, Life, ROOT};
use crate::hotplug::SAVE;
use crate::state::State;
use crate::task::{Place, Task, TaskId};
use crate::{CpuMask, Program, Simulation};

/// `DEQUEUE_SAVE | DEQUEUE_MOVE`
const SAVE_AND_MOVE: u64 = SAVE | 4;

/// What is done to cgroups, for [`crate::Change::Cgroup`]; each as the function of its name does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupChange {
    /// A new cgroup in this one, "cgroup" and its number by name: [`Simulation::create_cgroup`]
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
    /// The cgroup that a task is in.
    pub fn cgroup_of(&self, t: &Task) -> &Cgroup {
        self.cgroups.member_of(t.kernel.cgroups.get())
    }

    /// The cgroup of a task's group: that which `scx_bpf_task_cgroup` gives.
    pub fn group_of(&self, t: &Task) -> &Cgroup {
        let moving = self.cgroups.moving_from(Self::id(t.pointer()));
        let from = moving.and_then(|id| self.cgroups.get(id));
        from.unwrap_or_else(|| self.cgroup_of(t))
    }

    /// A new task is in it from the start.
    pub fn join(&self, t: &Task, cgroup: &Cgroup) {
        t.kernel.cgroups.set(cgroup.css_set());
        cgroup.joined();
    }

    /// The callbacks for those that exist. `scx_cgroup_init()`
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

    /// What changes cgroups does so on some CPU, in the name of no task of ours.
    fn as_outsider(&self) {
        self.on(self.or_another(0));
        self.current.set(ptr::null_mut());
    }

    fn create_cgroup(&self, parent: CgroupId, name: &str) -> Result<CgroupId, CgroupError> {
        let c = self.cgroups.make(parent, name)?;
        if self.cgroups.enabled.get() {
            self.as_outsider();
            let status = self.ops_cgroup_init(c, c.weight.get(), c.bandwidth.get().words());
            if status != 0 {
                c.life.set(Life::Gone);
                return Err(refused("cgroup_init", status));
            }
        }
        self.cgroups.show(c);
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
        self.cgroups.hide(c);
        self.as_outsider();
        self.ops_cgroup_exit(c);
        Ok(())
    }

    /// One that has files to write to: all but the root.
    fn settable(&self, id: CgroupId) -> Result<&Cgroup, CgroupError> {
        if id == ROOT {
            return Err(CgroupError::Root);
        }
        self.cgroups.there(id)
    }

    fn weigh(&self, id: CgroupId, weight: u32) -> Result<(), CgroupError> {
        let c = self.settable(id)?;
        if !(1..=10_000).contains(&weight) {
            return Err(CgroupError::Weight(weight));
        }
        if c.idle.get() {
            return Err(CgroupError::Idle(id)); // sched_group_set_shares()
        }
        if self.cgroups.enabled.get() && c.weight.get() != weight {
            self.as_outsider();
            self.ops_cgroup_set_weight(c, weight);
        }
        c.weight.set(weight);
        Ok(())
    }

    fn limit(&self, id: CgroupId, bandwidth: Bandwidth) -> Result<(), CgroupError> {
        let c = self.settable(id)?;
        if !bandwidth.is_valid() {
            return Err(CgroupError::Bandwidth(bandwidth));
        }
        if self.cgroups.enabled.get() && c.bandwidth.get() != bandwidth {
            self.as_outsider();
            self.ops_cgroup_set_bandwidth(c, bandwidth.words());
        }
        c.bandwidth.set(bandwidth);
        Ok(())
    }

    fn idle_cgroup(&self, id: CgroupId, idle: bool) -> Result<(), CgroupError> {
        let c = self.settable(id)?;
        if self.cgroups.enabled.get() {
            self.as_outsider();
            self.ops_cgroup_set_idle(c, idle); // the kernel does not ask whether it changes
        }
        c.idle.set(idle);
        Ok(())
    }

    fn move_process(&self, id: TaskId, to: CgroupId) -> Result<(), CgroupError> {
        let process = self.tasks.get(id).ok_or(CgroupError::NoTask(id))?;
        let (tgid, alive) = (process.kernel.tgid.get(), |t: &&Task| {
            t.place.get() != Place::Gone
        });
        let of_it = |t: &&Task| t.kernel.tgid.get() == tgid;
        let threads: Vec<_> = self.tasks.iter().filter(of_it).filter(alive).collect();
        // a leader that has exited still stands for its threads
        let is_leader = process.kernel.pid.get() == tgid;
        if threads.is_empty() || !(is_leader || alive(&process)) {
            return Err(CgroupError::NoTask(id));
        }
        self.move_tasks(&threads, self.cgroups.there(to)?)
    }

    fn move_thread(&self, id: TaskId, to: CgroupId) -> Result<(), CgroupError> {
        let t = self.tasks.get(id).filter(|t| t.place.get() != Place::Gone);
        let t = t.ok_or(CgroupError::NoTask(id))?;
        self.move_tasks(&[t], self.cgroups.there(to)?)
    }

    /// `cgroup_migrate()`
    fn move_tasks(&self, tasks: &[&Task], to: &Cgroup) -> Result<(), CgroupError> {
        // by the cgroups where they are, in the order in which these are met (cgroup_migrate_add_task)
        let mut sources: Vec<CgroupId> = Vec::new();
        let mut moves = Vec::new();
        for &t in tasks {
            let from = self.cgroup_of(t);
            if from.id == to.id {
                continue; // nothing to do, and nobody is told
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
            self.as_outsider();
            let status = self.ops_cgroup_prep_move(t, from, to);
            if status != 0 {
                for &(_, t, from) in &moves[..n] {
                    self.ops_cgroup_cancel_move(t, from, to);
                }
                return Err(refused("cgroup_prep_move", status));
            }
        }
        // all are in the new cgroup before the first one's task group follows (cgroup_migrate_execute)
        for &(_, t, from) in &moves {
            from.left();
            to.joined();
            t.kernel.cgroups.set(to.css_set());
            let id = Self::id(t.pointer());
            self.cgroups.moving.borrow_mut().push((id, from.id));
        }
        for &(_, t, from) in &moves {
            self.as_outsider();
            self.change_group(t, from, to);
        }
        Ok(())
    }

    /// `sched_move_task()`
    fn change_group(&self, t: &Task, from: &Cgroup, to: &Cgroup) {
        self.changed(t, SAVE_AND_MOVE, || {
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
                self.create_cgroup(parent, &name).map(|_| ())
            }
            CgroupChange::Remove(id) => self.remove_cgroup(id),
            CgroupChange::MoveProcess(id, to) => self.move_process(id, to),
            CgroupChange::MoveThread(id, to) => self.move_thread(id, to),
            CgroupChange::Weight(id, weight) => self.weigh(id, weight),
            CgroupChange::Bandwidth(id, bandwidth) => self.limit(id, bandwidth),
            CgroupChange::Idle(id, idle) => self.idle_cgroup(id, idle),
        }
    }

    /// Those that exist when the scheduler is attached: 1 and up, in their order.
    pub fn existing_cgroups(&self, existing: &[Existing]) -> Result<(), CgroupError> {
        for e in existing {
            let id = self.create_cgroup(e.parent, e.name)?;
            self.weigh(id, e.weight)?;
            self.limit(id, e.bandwidth)?;
            self.idle_cgroup(id, e.idle)?;
        }
        Ok(())
    }
}

/// `ops_sanitize_err()`
fn refused(callback: &str, status: i32) -> CgroupError {
    assert!(
        (-4095..0).contains(&status),
        "{callback} returned {status}, which is no errno: the kernel would end the scheduler"
    );
    CgroupError::Refused(status)
}

impl Simulation {
    pub(super) fn cgroups_changed<T>(
        &mut self,
        done: Result<T, CgroupError>,
    ) -> Result<T, CgroupError> {
        self.check();
        done
    }

    /// A new cgroup in `parent`, with weight 100, no limit, not idle (`mkdir`). `name` is unique in `parent`,
    /// without '/'.
    ///
    /// # Errors
    /// No such parent, a name that is not possible, or the scheduler's `cgroup_init` refuses.
    pub fn create_cgroup(&mut self, parent: CgroupId, name: &str) -> Result<CgroupId, CgroupError> {
        let done = self.state.create_cgroup(parent, name);
        self.cgroups_changed(done)
    }

    /// Remove a cgroup (`rmdir`). Its number is not given again.
    ///
    /// # Errors
    /// It is the root, has gone, or has tasks or cgroups in it.
    pub fn remove_cgroup(&mut self, id: CgroupId) -> Result<(), CgroupError> {
        let done = self.state.remove_cgroup(id);
        self.cgroups_changed(done)
    }

    /// Move all threads of a task's process (`cgroup.procs`).
    ///
    /// # Errors
    /// No such cgroup or task, or the scheduler's `cgroup_prep_move` refuses: then nothing has moved.
    pub fn move_process(&mut self, id: TaskId, to: CgroupId) -> Result<(), CgroupError> {
        let done = self.state.move_process(id, to);
        self.cgroups_changed(done)
    }

    /// Move one thread (`cgroup.threads`).
    ///
    /// # Errors
    /// As [`Simulation::move_process`].
    pub fn move_thread(&mut self, id: TaskId, to: CgroupId) -> Result<(), CgroupError> {
        let done = self.state.move_thread(id, to);
        self.cgroups_changed(done)
    }

    /// Set `cpu.weight`, 1 to 10,000.
    ///
    /// # Errors
    /// No such cgroup, the root, an idle one, or a weight out of range.
    pub fn set_cgroup_weight(&mut self, id: CgroupId, weight: u32) -> Result<(), CgroupError> {
        let done = self.state.weigh(id, weight);
        self.cgroups_changed(done)
    }

    /// Set `cpu.max` and `cpu.max.burst`. The simulator tells the scheduler and enforces nothing, as the kernel
    /// does not for tasks under sched_ext.
    ///
    /// # Errors
    /// No such cgroup, the root, or numbers out of range ([`Bandwidth`]).
    pub fn set_cgroup_bandwidth(
        &mut self,
        id: CgroupId,
        bandwidth: Bandwidth,
    ) -> Result<(), CgroupError> {
        let done = self.state.limit(id, bandwidth);
        self.cgroups_changed(done)
    }

    /// Set `cpu.idle`.
    ///
    /// # Errors
    /// No such cgroup, or the root.
    pub fn set_cgroup_idle(&mut self, id: CgroupId, idle: bool) -> Result<(), CgroupError> {
        let done = self.state.idle_cgroup(id, idle);
        self.cgroups_changed(done)
    }

    /// The cgroup that a task is in, or was in when it exited.
    pub fn cgroup_of(&self, id: TaskId) -> CgroupId {
        self.state.cgroup_of(&self.state.tasks[id]).id()
    }

    /// As [`Simulation::start_with`], in a cgroup.
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
        let cgroup = self.state.cgroups.there(cgroup)?;
        self.state.current.set(ptr::null_mut());
        Ok(self.state.add(weight, &allowed, program, None, cgroup))
    }
}
