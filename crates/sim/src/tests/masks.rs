//! Tasks that may run on several CPUs, but not on all (`taskset`, `cpuset.cpus`): each has what it
//! is due, wherever it was when it became runnable.

use super::cgroups::machine;
use super::domains::{domain, group, hogs};
use super::{MS, SEC};
use crate::workload::hog;
use crate::{CgroupId, Change, CpuMask, Simulation, TaskId, ROOT};

/// CPUs `from` to `to`.
fn mask(from: usize, to: usize) -> CpuMask {
    let mut mask = CpuMask::only(from);
    (from..=to).for_each(|cpu| mask.set(cpu, true));
    mask
}

fn loops(sim: &mut Simulation, group: CgroupId, n: usize, mask: CpuMask) -> Vec<TaskId> {
    (0..n)
        .map(|_| sim.start_in(group, 100, mask, Box::new(hog(0))).unwrap())
        .collect()
}

/// What each of `tasks` has of a CPU in the next `ns`, thousandths.
fn each(sim: &mut Simulation, tasks: &[TaskId], ns: u64) -> Vec<u64> {
    let before: Vec<_> = tasks.iter().map(|&t| sim.ran(t)).collect();
    let end = sim.now() + ns;
    sim.run_until(end);
    let ran = tasks.iter().zip(before).map(|(&t, b)| sim.ran(t) - b);
    ran.map(|ns_ran| ns_ran * 1_000 / ns).collect()
}

/// Each of `found` is within 5 % of `due`.
fn all_near(found: &[u64], due: u64) {
    let most = due / 20;
    assert!(
        found.iter().all(|f| f.abs_diff(due) <= most),
        "{found:?}, due are {due}"
    );
}

#[test]
fn tasks_in_a_mask_share_with_those_of_the_whole_machine() {
    // CPUs, first and last of the mask, loops there, free loops
    for (cpus, from, to, n, free) in [
        (8, 2, 5, 6, 8),
        (8, 4, 7, 4, 8),
        (8, 0, 6, 9, 7),
        (4, 1, 3, 3, 4),
        (4, 1, 2, 3, 4),
        (16, 3, 10, 8, 16),
    ] {
        for grouped in [false, true] {
            let mut sim = machine(cpus);
            let group = group(&mut sim, grouped);
            let others = hogs(&mut sim, group, free);
            let inside = loops(&mut sim, group, n, mask(from, to));
            sim.run_until(100 * MS);
            let had = each(&mut sim, &inside, 3 * SEC);
            let moves: u64 = inside.iter().map(|&t| sim.migrations(t)).sum();
            println!("{cpus} {from}-{to} {n} beside {free}, grouped {grouped}: {had:?} {moves}");
            all_near(&had, (1_000 * cpus / (n + others.len())) as u64);
        }
    }
}

/// A container with its own CPUs (`cpuset.cpus`), in a domain of its own: its loops have what the
/// domain has, in equal parts. It is due half of the machine.
#[test]
fn loops_of_a_container_with_cpus_of_its_own_are_even() {
    for (cpus, from, to, n) in [(8, 2, 5, 6), (8, 0, 4, 7), (16, 4, 11, 11)] {
        let mut sim = machine(cpus);
        let (a, b) = (
            domain(&mut sim, ROOT, "a", 100),
            domain(&mut sim, ROOT, "b", 100),
        );
        hogs(&mut sim, b, cpus);
        let inside = loops(&mut sim, a, n, mask(from, to));
        sim.run_until(100 * MS);
        let had = each(&mut sim, &inside, 3 * SEC);
        println!("{cpus} {from}-{to} {n}: {had:?}");
        let due = (cpus / 2).min(to - from + 1) * 1_000 / n;
        all_near(&had, due as u64);
    }
}

/// One domain's mask is half of the other's. Each is due half of the four CPUs: the second has the
/// two CPUs that it may use, and all loops of the first one have equal parts of the other two.
#[test]
fn a_cpu_that_another_domain_has_keeps_no_task_waiting() {
    let mut sim = machine(8);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    let wide = loops(&mut sim, a, 8, mask(0, 3));
    let narrow = loops(&mut sim, b, 8, mask(2, 3));
    sim.run_until(500 * MS);
    let (wide, narrow) = (
        each(&mut sim, &wide, 4 * SEC),
        each(&mut sim, &narrow, 4 * SEC),
    );
    println!("{wide:?} {narrow:?}");
    for had in [wide, narrow] {
        let sum: u64 = had.iter().sum();
        assert!(sum.abs_diff(2_000) < 100, "{sum}");
        all_near(&had, sum / 8);
    }
}

/// The mask changes while the loops run (`taskset -p`, a write to `cpuset.cpus`): from one CPU to
/// several, and to others.
#[test]
fn loops_follow_a_mask_that_changes() {
    for grouped in [false, true] {
        let mut sim = machine(8);
        let group = group(&mut sim, grouped);
        hogs(&mut sim, group, 8);
        let inside = loops(&mut sim, group, 8, CpuMask::only(1));
        sim.run_until(SEC);
        for masks in [(0, 6), (1, 7), (3, 6), (0, 5)] {
            for &id in &inside {
                assert!(sim.change(Change::Affinity(id, mask(masks.0, masks.1))));
            }
            let end = sim.now() + 100 * MS;
            sim.run_until(end);
            let had = each(&mut sim, &inside, 2 * SEC);
            println!("{masks:?}, grouped {grouped}: {had:?}");
            all_near(&had, 500);
        }
    }
}
