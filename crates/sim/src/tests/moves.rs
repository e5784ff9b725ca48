//! Tasks that are moved between cgroups, and their children: the callbacks, in the order of
//! kernel/sched/ext.c.

use super::cgroups::{machine, script, start_in};
use super::probe::{Probe, Refuse};
use crate::calls::recorded::calls;
use crate::workload::{hog, on_off};
use crate::{
    CgroupChange, CgroupError, CgroupId, Change, CpuMask, Place, Program, Simulation, Step, TaskId,
    ROOT,
};

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;
/// `DEQUEUE_SAVE | DEQUEUE_MOVE`
const SAVE_AND_MOVE: u64 = 6;

/// Start a process in `cgroup`: a leader and two threads, which sleep for a long time after 1 ms.
fn threads_in(sim: &mut Simulation, cgroup: CgroupId) -> [TaskId; 3] {
    struct Leader(Vec<Step>);
    impl Program for Leader {
        fn next(&mut self, _now: u64, _ran: u64) -> Step {
            self.0.pop().unwrap_or(Step::SleepUntil(1000 * SEC))
        }
        fn child(&mut self, _which: u64) -> Box<dyn Program> {
            Box::new(script(vec![Step::SleepUntil(1000 * SEC)]))
        }
    }
    let steps = vec![Step::Thread(0), Step::Thread(0), Step::Run(MS)];
    let leader = start_in(sim, cgroup, Leader(steps));
    sim.run_until(sim.now() + 10 * MS);
    [leader, leader + 1, leader + 2]
}

/// `scx_cgroup_can_attach`, then `sched_move_task` of a task that is on no run queue.
#[test]
fn a_move_of_a_sleeping_task_calls_prep_move_and_move_only() {
    let probe = Probe::on();
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let id = sim.start(script(vec![Step::SleepUntil(SEC), Step::Run(MS)]));
    let all = calls(|| sim.move_process(id, a).unwrap());
    assert_eq!(all, [("cgroup_prep_move", id), ("cgroup_move", id)]);
    probe.calls();
    // to its own cgroup: scx_cgroup_can_attach() skips tasks whose cgroup does not change
    assert_eq!(calls(|| sim.move_process(id, a).unwrap()), []);
    sim.run_until(SEC + MS / 2);
    assert_eq!((sim.place(id), sim.cgroup_of(id)), (Place::Running(0), a));
}

/// Two hogs on one CPU, after 10 ms. Returns the running one and the waiting one.
fn one_runs_one_waits(sim: &mut Simulation) -> (TaskId, TaskId) {
    let (a, b) = (sim.start(hog(0)), sim.start(hog(0)));
    sim.run_until(10 * MS);
    let (running, queued) = if sim.place(a) == Place::Running(0) {
        (a, b)
    } else {
        (b, a)
    };
    assert_eq!(sim.place(running), Place::Running(0));
    assert!(matches!(sim.place(queued), Place::Queue(_)));
    (running, queued)
}

/// `sched_move_task`: `dequeue_task_scx` (quiescent), `scx_cgroup_move_task`, `enqueue_task_scx`
/// (runnable, enqueue).
#[test]
fn a_waiting_task_that_is_moved_is_enqueued_again() {
    let probe = Probe::on();
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let (running, id) = one_runs_one_waits(&mut sim);
    probe.calls();
    let all = calls(|| sim.move_process(id, a).unwrap());
    let order = [
        "cgroup_prep_move",
        "quiescent",
        "cgroup_move",
        "runnable",
        "enqueue",
    ];
    assert_eq!(all, order.map(|name| (name, id)));
    let n = id as u64;
    let expected = [
        ("cgroup_prep_move", vec![n, 0, a as u64]),
        ("quiescent", vec![n, SAVE_AND_MOVE]),
        ("cgroup_move", vec![n, 0, a as u64]),
        ("runnable", vec![n, SAVE_AND_MOVE]),
    ];
    assert_eq!(probe.calls(), expected);
    assert!(matches!(sim.place(id), Place::Queue(_)));
    sim.run_until(SEC);
    assert!([running, id].iter().all(|&id| sim.ran(id) > 450 * MS));
}

/// As above, with `put_prev_task_scx`, `set_next_task_scx` and `resched_curr`. A running task is
/// put into the local queue without enqueue (`do_enqueue_task`, sticky_cpu), and goes on.
#[test]
fn a_running_task_that_is_moved_stops_and_goes_on() {
    let probe = Probe::on();
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let (id, _) = one_runs_one_waits(&mut sim);
    let before = sim.trace().len();
    let all = calls(|| sim.move_process(id, a).unwrap());
    let order = [
        "cgroup_prep_move",
        "stopping",
        "quiescent",
        "cgroup_move",
        "runnable",
        "running",
    ];
    assert_eq!(all, order.map(|name| (name, id)));
    assert_eq!(probe.cgroup_of(id), Some(a));
    assert!(sim.state.cpus[0].resched.get(), "the CPU picks again");
    sim.run_until(10 * MS + 1);
    assert_eq!(sim.place(id), Place::Running(0), "its slice is not over");
    assert_eq!(sim.trace().len(), before);
}

/// First all threads are prepared, then all are in the new cgroup, then each is moved
/// (`cgroup_migrate_execute`).
#[test]
fn a_process_moves_with_its_threads() {
    let probe = Probe::on();
    let mut sim = machine(2);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let b = sim.create_cgroup(ROOT, "b").unwrap();
    let [leader, first, second] = threads_in(&mut sim, a);
    let all = calls(|| sim.move_process(second, b).unwrap());
    let both = ["cgroup_prep_move", "cgroup_move"];
    let order: Vec<_> = both
        .iter()
        .flat_map(|&name| [leader, first, second].map(|id| (name, id)))
        .collect();
    assert_eq!(all, order);
    // one thread alone, then the other two
    sim.move_thread(first, a).unwrap();
    assert_eq!(
        [leader, first, second].map(|id| sim.cgroup_of(id)),
        [b, a, b]
    );
    probe.calls();
    sim.move_process(leader, a).unwrap();
    let moved: Vec<_> = probe
        .calls()
        .into_iter()
        .map(|s| (s.0, s.1[0] as usize))
        .collect();
    assert_eq!(
        moved,
        [
            ("cgroup_prep_move", leader),
            ("cgroup_prep_move", second),
            ("cgroup_move", leader),
            ("cgroup_move", second)
        ]
    );
    // from two cgroups: cgroup by cgroup, in the order of their first threads
    // (cgroup_migrate_add_task)
    sim.move_thread(first, b).unwrap();
    let c = sim.create_cgroup(b, "c").unwrap();
    probe.calls();
    sim.move_process(leader, c).unwrap();
    let prepared: Vec<_> = probe
        .calls()
        .into_iter()
        .filter(|s| s.0 == "cgroup_prep_move")
        .collect();
    let order: Vec<_> = prepared.iter().map(|s| s.1[0] as usize).collect();
    assert_eq!(order, [leader, second, first]);
}

/// `scx_cgroup_can_attach`, its error path.
#[test]
fn a_refused_move_is_cancelled_for_the_threads_before() {
    let probe = Probe::on();
    let mut sim = machine(2);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let ids = threads_in(&mut sim, ROOT);
    let [leader, first, second] = ids;
    probe.refuse(Refuse::Prep(second, -11));
    let all = calls(|| {
        assert_eq!(sim.move_process(leader, a), Err(CgroupError::Refused(-11)));
    });
    let order = [
        ("cgroup_prep_move", leader),
        ("cgroup_prep_move", first),
        ("cgroup_prep_move", second),
        ("cgroup_cancel_move", leader),
        ("cgroup_cancel_move", first),
    ];
    assert_eq!(all, order);
    assert_eq!(ids.map(|id| sim.cgroup_of(id)), [ROOT; 3]);
    probe.refuse(Refuse::None);
    sim.move_process(leader, a).unwrap();
    assert_eq!(ids.map(|id| sim.cgroup_of(id)), [a; 3]);
}

/// `ops_sanitize_err`
#[test]
fn a_status_that_is_not_an_errno_ends_the_scheduler() {
    let probe = Probe::on();
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let id = sim.start(hog(0));
    probe.refuse(Refuse::Prep(id, 1));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = sim.move_process(id, a);
    }));
    let why = ended.unwrap_err();
    let why = why.downcast_ref::<String>().unwrap();
    assert!(why.contains("cgroup_prep_move returned 1"), "{why}");
}

#[test]
fn impossible_moves_are_refused() {
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let id = sim.start(script(vec![Step::Run(MS)]));
    assert_eq!(sim.move_process(id, 9), Err(CgroupError::NoCgroup(9)));
    assert_eq!(sim.move_process(9, a), Err(CgroupError::NoTask(9)));
    sim.run_until(10 * MS);
    assert_eq!(sim.move_process(id, a), Err(CgroupError::NoTask(id)));
    assert_eq!(sim.move_thread(id, a), Err(CgroupError::NoTask(id)));
    sim.remove_cgroup(a).unwrap();
    let other = sim.start(hog(0));
    assert_eq!(sim.move_thread(other, a), Err(CgroupError::NoCgroup(a)));
    assert!(!sim.change(Change::Cgroup(CgroupChange::MoveProcess(other, a))));
    let nowhere = sim.start_in(a, 100, CpuMask::first(1), Box::new(hog(0)));
    assert_eq!(nowhere, Err(CgroupError::NoCgroup(a)));
}

/// `scx_fork`: init_task gets the child's cgroup, which is its parent's at the time of the fork. An
/// exec changes nothing. `finish_task_switch`: `sched_ext_dead` (exit_task), then
/// `cgroup_task_dead`.
#[test]
fn a_child_is_in_its_parents_cgroup_until_its_exit() {
    let probe = Probe::on();
    let mut sim = machine(1);
    sim.spec(7, super::reserve(6 * MS, 30 * MS));
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let b = sim.create_cgroup(a, "b").unwrap();
    let steps = vec![
        Step::Run(MS),
        Step::Fork(0),
        Step::Exec(7),
        Step::Run(30 * MS),
        Step::Thread(0),
        Step::Run(30 * MS),
        Step::Fork(0),
        Step::Run(30 * MS),
        Step::ExitGroup,
    ];
    let parent = start_in(&mut sim, a, script(steps));
    sim.run_until(20 * MS);
    sim.move_process(parent, b).unwrap();
    sim.run_until(SEC);
    let mut calls = probe.calls();
    calls.retain(|s| s.0 == "init_task");
    let [a, b, p] = [a, b, parent].map(|n| n as u64);
    let born = [
        ("init_task", vec![p, a, 0]),
        ("init_task", vec![p + 1, a, 1]),
        ("init_task", vec![p + 2, b, 1]),
        ("init_task", vec![p + 3, b, 1]),
    ];
    assert_eq!(calls, born);
    assert!((0..sim.tasks()).all(|id| sim.place(id) == Place::Exited));
    sim.remove_cgroup(b as usize).unwrap();
    sim.remove_cgroup(a as usize).unwrap();
}

/// The pid of a leader that has exited names its process. Threads that have exited are not moved
/// (`cgroup_migrate_add_task` skips PF_EXITING).
#[test]
fn exited_threads_are_not_moved() {
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let [leader, first, second] = threads_in(&mut sim, ROOT);
    assert!(sim.change(Change::Kill(leader)) && sim.change(Change::Kill(second)));
    sim.run_until(sim.now() + 10 * MS);
    assert_eq!(
        sim.move_process(second, a),
        Err(CgroupError::NoTask(second))
    );
    sim.move_process(leader, a).unwrap();
    assert_eq!(
        [leader, first, second].map(|id| sim.cgroup_of(id)),
        [ROOT, a, ROOT]
    );
}

#[test]
fn a_reserved_task_keeps_its_server_budget_and_deadlines_when_it_is_moved() {
    let mut sim = machine(1);
    sim.spec(7, super::reserve(6 * MS, 30 * MS));
    (0..5).for_each(|_| {
        sim.start(hog(0));
    });
    sim.start(on_off(0, 3 * MS, 2 * MS));
    let (task, jobs) = crate::workload::Periodic::new(7, 5 * MS, 30 * MS, SEC);
    let id = sim.start(task);
    let cgroups = [
        ROOT,
        sim.create_cgroup(ROOT, "a").unwrap(),
        sim.create_cgroup(1, "b").unwrap(),
    ];
    for n in 0..2_000u64 {
        let at = SEC + n * 5 * MS + n % 97 * 50_000;
        sim.plan(
            at,
            Change::Cgroup(CgroupChange::MoveProcess(id, cgroups[n as usize % 3])),
        );
    }
    sim.run_until(11 * SEC);
    assert_eq!(jobs.borrow().missed, 0);
    assert!(jobs.borrow().response.len() > 320);
}
