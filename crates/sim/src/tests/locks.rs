//! How often the lock of the domain tree is taken, which all CPUs share.

use super::cgroups::machine;
use super::domains::{domain, hogs};
use super::{MS, SEC};
use crate::workload::on_off;
use crate::{Bandwidth, CgroupId, Change, CpuMask, Simulation, ROOT};

/// 40 services, three levels deep.
fn services(sim: &mut Simulation) -> Vec<CgroupId> {
    let slice = domain(sim, ROOT, "system", 100);
    let inner = domain(sim, slice, "inner", 100);
    (0..40)
        .map(|i| domain(sim, inner, &format!("s{i}"), 100))
        .collect()
}

/// While a CPU is idle no task waits, so none is charged.
#[test]
fn a_sleep_and_a_wake_up_take_no_lock_while_cpus_are_idle() {
    for cpus in [2, 8, 64] {
        let mut sim = machine(cpus);
        let of = services(&mut sim);
        for i in 0..cpus / 2 {
            let often = Box::new(on_off(0, MS / 4, MS / 4 + i as u64));
            sim.start_in(of[i % 40], 100, CpuMask::first(cpus), often)
                .unwrap();
        }
        sim.run_until(SEC / 2);
        let (locks, events) = (sim.tree_locks(), sim.events());
        sim.run_until(SEC);
        let events = sim.events() - events;
        assert!(
            events > 900 * cpus as u64,
            "they sleep and wake up: {events}"
        );
        assert_eq!(sim.tree_locks() - locks, 0, "{cpus} CPUs");
    }
}

/// For the choice, with the charge of the task that stops and its count.
#[test]
fn a_slice_takes_one_lock() {
    for cpus in [2, 8, 64] {
        let mut sim = machine(cpus);
        let of = services(&mut sim);
        for i in 0..2 * cpus {
            hogs(&mut sim, of[i % 40], 1);
        }
        sim.run_until(SEC / 2);
        let locks = sim.tree_locks();
        sim.run_until(SEC);
        let slices = 125 * cpus as u64;
        let each = (sim.tree_locks() - locks) as f64 / slices as f64;
        assert!((0.9..1.1).contains(&each), "{cpus} CPUs: {each}");
    }
}

/// A task with a mask that wakes up asks without the lock whether it goes before the loop of
/// another domain. What is left are the slices on four CPUs: 10.75 for each cycle; one more with
/// the lock.
#[test]
fn the_wake_up_of_a_task_with_a_mask_takes_no_lock() {
    let mut sim = machine(4);
    let loops = domain(&mut sim, ROOT, "loops", 100);
    let masked = domain(&mut sim, ROOT, "masked", 100);
    hogs(&mut sim, loops, 4);
    let often = Box::new(on_off(0, MS, 20 * MS));
    sim.start_in(masked, 100, CpuMask::only(1), often).unwrap();
    sim.run_until(SEC);
    let locks = sim.tree_locks();
    sim.run_until(22 * SEC);
    let each = (sim.tree_locks() - locks) as f64 / 1000.0;
    assert!((9.5..11.5).contains(&each), "{each} for each cycle");
}

/// With others of its domain in the queue already, a task that wakes up joins them without the
/// lock: the choice of the next task is all that a sleep and a wake-up need.
#[test]
fn a_sleep_and_a_wake_up_take_one_lock_where_others_wait() {
    let mut sim = machine(2);
    let of = domain(&mut sim, ROOT, "of", 100);
    for i in 0..16 {
        let often = Box::new(on_off(0, MS, MS + i));
        sim.start_in(of, 100, CpuMask::first(2), often).unwrap();
    }
    sim.run_until(SEC / 2);
    let locks = sim.tree_locks();
    sim.run_until(SEC + SEC / 2);
    let each = (sim.tree_locks() - locks) as f64 / 2000.0;
    assert!((0.9..1.2).contains(&each), "{each} for each turn of 1 ms");
}

/// What a domain ran alone is its CPU time, and that of the domains above it, also when it has
/// gone.
#[test]
fn time_that_was_run_alone_is_shown() {
    let mut sim = machine(4);
    let above = domain(&mut sim, ROOT, "above", 100);
    let (a, b) = (
        domain(&mut sim, above, "a", 100),
        domain(&mut sim, above, "b", 100),
    );
    hogs(&mut sim, b, 1);
    let short = hogs(&mut sim, a, 1)[0];
    sim.run_until(SEC);
    let near = |shown: u64, due: u64| {
        assert!(shown.abs_diff(due) <= 10 * MS, "{shown} ns, due are {due}");
    };
    near(sim.domain_ran(a).unwrap(), SEC);
    near(sim.domain_ran(above).unwrap(), 2 * SEC);
    sim.change(Change::Kill(short));
    sim.run_until(SEC + MS);
    sim.remove_cgroup(a).unwrap();
    sim.run_until(2 * SEC);
    near(sim.domain_ran(above).unwrap(), 3 * SEC);
    near(sim.domain_ran(ROOT).unwrap(), 3 * SEC);
}

/// A loop runs alone when its domain gets a limit: the limit holds from then on.
#[test]
fn a_limit_that_comes_later_holds_for_a_task_that_runs_alone() {
    let mut sim = machine(2);
    let a = domain(&mut sim, ROOT, "a", 100);
    let id = hogs(&mut sim, a, 1)[0];
    sim.run_until(SEC);
    let limit = Bandwidth {
        quota: Some(20_000),
        ..Bandwidth::default()
    };
    sim.set_cgroup_bandwidth(a, limit).unwrap();
    sim.run_until(2 * SEC);
    let before = sim.ran(id);
    sim.run_until(12 * SEC);
    let ran = (sim.ran(id) - before) / MS;
    assert!((1_960..=2_040).contains(&ran), "{ran} ms of 10 s");
}
