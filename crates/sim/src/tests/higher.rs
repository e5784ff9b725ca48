//! Tasks whose CPU a task of a higher scheduling class takes (`state/idle.bpf.h`).

use super::cgroups::machine;
use super::domains::{group, hogs};
use super::{reserve, MS, SEC};
use crate::workload::Periodic;
use crate::{Change, CpuMask, Place, ROOT};

/// The CPU on which task `id` runs.
fn cpu_of(sim: &crate::Simulation, id: crate::TaskId) -> usize {
    match sim.place(id) {
        Place::Running(cpu) => cpu,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_goes_on_at_once_on_an_idle_cpu() {
    for grouped in [false, true] {
        let mut sim = machine(4);
        let group = group(&mut sim, grouped);
        let loops = hogs(&mut sim, group, 3);
        sim.run_until(SEC + MS / 2);
        let cpu = cpu_of(&sim, loops[0]);
        sim.plan(SEC + MS, Change::RealTime(cpu, 900 * MS));
        sim.run_until(2 * SEC);
        for id in loops {
            assert!(sim.ran(id) > 2 * SEC - MS / 10, "{}", sim.ran(id));
        }
    }
}

#[test]
fn a_reserved_task_goes_on_at_once_on_an_idle_cpu() {
    let mut sim = machine(4);
    sim.spec(1, reserve(6 * MS, 10 * MS));
    let (film, jobs) = Periodic::new(1, 5 * MS, 10 * MS, SEC);
    let id = sim
        .start_in(ROOT, 100, CpuMask::first(4), Box::new(film))
        .unwrap();
    sim.run_until(SEC + MS);
    for i in 0..50 {
        sim.plan(sim.now() + MS, Change::RealTime(cpu_of(&sim, id), 3 * MS));
        sim.run_until(SEC + (i + 1) * 10 * MS + MS);
    }
    let worst = *jobs.borrow().response.iter().max().unwrap();
    assert!(worst < 6 * MS, "{worst} ns");
}

/// With one CPU the task that was preempted goes on with its slice.
#[test]
fn a_task_keeps_its_place_where_no_other_cpu_is() {
    let mut sim = machine(1);
    let loops = hogs(&mut sim, ROOT, 3);
    sim.run_until(SEC + MS / 2);
    let runs = loops
        .into_iter()
        .find(|&id| matches!(sim.place(id), Place::Running(_)))
        .unwrap();
    sim.plan(SEC + MS, Change::RealTime(0, MS / 10));
    sim.run_until(SEC + MS + MS / 5);
    assert_eq!(sim.place(runs), Place::Running(0));
}

/// A thousand programs that leave a real-time class while they run do not all keep a place in the
/// local queue: what else waits has its turn.
#[test]
fn few_keep_a_place_in_the_local_queue() {
    let mut sim = machine(1);
    let (task, jobs) = Periodic::new(0, MS / 100, 50 * MS, SEC / 2);
    sim.start_in(ROOT, 100, CpuMask::first(1), Box::new(task))
        .unwrap();
    let storm = hogs(&mut sim, ROOT, 1000);
    sim.run_until(SEC);
    for &id in &storm {
        sim.plan(SEC + MS, Change::FromRealTime(id));
    }
    sim.run_until(3 * SEC);
    let jobs = jobs.borrow();
    let worst = *jobs.response.iter().max().unwrap();
    assert!(jobs.response.len() >= 49, "{}", jobs.response.len());
    assert!(worst < 50 * MS, "{worst} ns");
}
