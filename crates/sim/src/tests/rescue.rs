//! No task waits until the kernel's watchdog ends the scheduler (bpf/tree/rescue.bpf.h), and kernel
//! threads do not wait for all other tasks.
//!
//! All machines here check the invariants, among them that no task waits for 30 s.

use super::domains::group;
use super::{machine, MS, SEC};
use crate::task::PF_KTHREAD;
use crate::workload::{hog, on_off};
use crate::{CgroupId, CpuMask, Simulation, TaskId, ROOT};

/// The weights of nice -20 and 19 in sched_ext.
const HEAVIEST: u32 = 8668;
const LIGHTEST: u32 = 1;

fn hogs_of(
    sim: &mut Simulation,
    group: CgroupId,
    weight: u32,
    on: CpuMask,
    n: usize,
) -> Vec<TaskId> {
    let start = |_| sim.start_in(group, weight, on, Box::new(hog(0))).unwrap();
    (0..n).map(start).collect()
}

/// By its weight, the task with nice 19 would run for 4 ms in 173 s beside 5 tasks, and for less
/// beside 40.
#[test]
fn nice_19_runs_beside_nice_minus_20() {
    for (cpus, many) in [(1, 5), (1, 40), (2, 40)] {
        for grouped in [false, true] {
            for pinned in [false, true] {
                let mut sim = machine(cpus);
                let all = CpuMask::first(cpus);
                let group = group(&mut sim, grouped);
                let heavy = hogs_of(&mut sim, group, HEAVIEST, all, many);
                let on = if pinned { CpuMask::only(0) } else { all };
                let light = hogs_of(&mut sim, group, LIGHTEST, on, 1)[0];
                println!("{many} on {cpus}, grouped {grouped}, pinned {pinned}");
                sim.run_until(20 * SEC);
                let before = sim.ran(light);
                sim.run_until(60 * SEC);
                let ran = sim.ran(light) - before;
                // 0.2 ms in 10 or 11 s, because the check is once a second
                assert!((MS / 2..20 * MS).contains(&ran), "{ran} ns");
                let of: Vec<_> = heavy.iter().map(|&id| sim.ran(id)).collect();
                let (least, most) = (of.iter().min().unwrap(), of.iter().max().unwrap());
                assert!(
                    most - least < 400 * MS,
                    "the others' shares are untouched: {of:?}"
                );
            }
        }
    }
}

/// A rescued task may wait in the middle of the kernel, and has to come out. So those that sleep
/// most of the time, and preempt the others at each wake-up, leave it its 0.2 ms.
#[test]
fn no_wake_up_preempts_a_rescued_task() {
    for grouped in [false, true] {
        let mut sim = machine(1);
        let all = CpuMask::first(1);
        let group = group(&mut sim, grouped);
        hogs_of(&mut sim, group, HEAVIEST, all, 5);
        for _ in 0..20 {
            let often = Box::new(on_off(0, MS / 50, MS));
            sim.start_in(group, HEAVIEST, all, often).unwrap();
        }
        let light = hogs_of(&mut sim, group, LIGHTEST, all, 1)[0];
        sim.run_until(20 * SEC);
        let before = sim.ran(light);
        sim.run_until(80 * SEC);
        let ran = sim.ran(light) - before;
        // 5 or 6 turns
        assert!((MS..2 * MS).contains(&ran), "grouped {grouped}: {ran} ns");
    }
}

/// Hundreds of tasks with low weights, beside tasks with nice 0 whose rounds take longer than the
/// time to a rescue.
#[test]
fn hundreds_of_tasks_of_all_weights_run() {
    let mut sim = machine(1);
    let all = CpuMask::first(1);
    let mut tasks = hogs_of(&mut sim, ROOT, HEAVIEST, all, 100);
    tasks.extend(hogs_of(&mut sim, ROOT, 100, all, 100));
    tasks.extend(hogs_of(&mut sim, ROOT, LIGHTEST, all, 300));
    sim.run_until(60 * SEC);
    let none = tasks.iter().filter(|&&id| sim.ran(id) == 0).count();
    assert_eq!(none, 0, "have not run at all");
}

/// A kernel thread that sometimes needs 30 ms, beside 50 hogs. If each of them ran for a slice
/// between two slices of the thread, the 30 ms would take 1.6 s.
#[test]
fn a_kernel_thread_does_not_wait_for_a_slice_of_each() {
    let worst = |kernel: bool| {
        let mut sim = machine(1);
        for _ in 0..50 {
            sim.start(hog(0));
        }
        let one = sim.start(on_off(0, 30 * MS, 970 * MS));
        if kernel {
            sim.state.tasks[one].kernel.flags.set(PF_KTHREAD);
        }
        sim.run_until(20 * SEC);
        sim.ran(one)
    };
    let (kernel, plain) = (worst(true), worst(false));
    // each of its rounds is a sleep of 970 ms and the time for its 30 ms of work
    assert!(kernel > 17 * 30 * MS, "{kernel}");
    assert!(
        plain < 13 * 30 * MS,
        "{plain}: no task waits, so the test shows nothing"
    );
}
