//! Several caches: tasks stay with their data for some choices, and have what they are due.

use super::domains::{domain, hogs};
use super::{MS, SEC};
use crate::workload::{hog, on_off};
use crate::{CgroupId, Change, CpuMask, Place, Settings, Simulation, TaskId, ROOT};

const CPUS: usize = 16;
const CACHE: usize = 8;

fn machine(cache: Option<usize>) -> (Simulation, CgroupId) {
    let mut sim = Simulation::new(Settings {
        cpus: CPUS,
        cache,
        checked: true,
        traced: true,
        ..Settings::default()
    });
    let group = domain(&mut sim, ROOT, "a", 100);
    (sim, group)
}

/// How often tasks of `ids` came to a CPU of another cache from `from` ns on.
fn changes(sim: &Simulation, ids: &[TaskId], from: u64) -> usize {
    let mut at = vec![None; sim.tasks()];
    let mut count = 0;
    for switch in sim.trace() {
        let Some(id) = switch.task.filter(|id| ids.contains(id)) else {
            continue;
        };
        let cache = switch.cpu / CACHE;
        let before = at[id].replace(cache);
        count += usize::from(switch.at >= from && before.is_some_and(|b| b != cache));
    }
    count
}

/// (changes of the cache in a second; what the loop that has least, and most, has, of the mean)
fn loops(count: usize, cache: Option<usize>) -> (usize, f64, f64) {
    const SECONDS: u64 = 4;
    let (mut sim, group) = machine(cache);
    let ids = hogs(&mut sim, group, count);
    sim.run_until(SEC);
    let before: Vec<_> = ids.iter().map(|&id| sim.ran(id)).collect();
    sim.run_until((1 + SECONDS) * SEC);
    let ran = |(&id, b): (&TaskId, &u64)| (sim.ran(id) - b) as f64;
    let had: Vec<_> = ids.iter().zip(&before).map(ran).collect();
    let mean = had.iter().sum::<f64>() / count as f64;
    let least = had.iter().copied().fold(f64::MAX, f64::min) / mean;
    let most = had.iter().copied().fold(0.0, f64::max) / mean;
    let changed = changes(&sim, &ids, SEC) / SECONDS as usize;
    (changed, least, most)
}

#[test]
fn loops_seldom_change_the_cache() {
    for (count, times) in [(17, 10), (20, 4), (24, 2), (40, 4)] {
        let (known, least, most) = loops(count, Some(CACHE));
        let (not_known, ..) = loops(count, None);
        println!("{count} loops: {known} changes a second, {not_known} before, {least} to {most}");
        assert!(known * times < not_known, "{known} {not_known}");
        assert!(least > 0.98 && most < 1.02, "{least} {most}");
    }
}

/// Tasks that run for 0.5 ms and sleep for 0.25, beside loops, have what they have without the
/// rule; so have loops beside tasks of 2 ms.
#[test]
fn tasks_that_sleep_have_what_they_had() {
    for (on, off) in [(500_000, 250_000), (2 * MS, MS), (3 * MS, MS)] {
        let had = |cache| {
            let (mut sim, group) = machine(cache);
            let loops = hogs(&mut sim, group, CPUS);
            let all = CpuMask::first(CPUS);
            let start = |_| {
                let program = Box::new(on_off(0, on, off));
                sim.start_in(group, 100, all, program).unwrap()
            };
            let sleepers: Vec<_> = (0..8).map(start).collect();
            sim.run_until(4 * SEC);
            let sum = |ids: &[TaskId]| ids.iter().map(|&id| sim.ran(id)).sum::<u64>() as f64;
            (sum(&sleepers), sum(&loops))
        };
        let (known, not_known) = (had(Some(CACHE)), had(None));
        println!("{on} {off}: {known:?} {not_known:?}");
        assert!((known.0 / not_known.0 - 1.0).abs() < 0.05);
        assert!((known.1 / not_known.1 - 1.0).abs() < 0.05);
    }
}

/// A loop of nice 0 loses its CPU as its turn begins, and all CPUs of its cache do other things.
/// Loops of nice -20 pass it over for no more CPU time than those of nice 0 would.
#[test]
fn heavy_loops_pass_a_task_over_for_as_long_as_others() {
    const HEAVIEST: u32 = 8876;
    let (mut sim, group) = machine(Some(CACHE));
    let all = CpuMask::first(CPUS);
    for _ in 0..CPUS {
        let program = Box::new(hog(0));
        sim.start_in(group, HEAVIEST, all, program).unwrap();
    }
    let task = sim.start_in(group, 100, all, Box::new(hog(0))).unwrap();
    let runs = |sim: &Simulation| match sim.place(task) {
        Place::Running(cpu) => cpu,
        _ => CPUS,
    };
    while runs(&sim) >= CACHE {
        sim.run_until(sim.now() + MS);
        assert!(sim.now() < 10 * SEC, "it never ran beside the first cache");
    }
    let from = sim.now();
    for cpu in 0..CACHE {
        sim.plan(from, Change::RealTime(cpu, 4 * SEC));
    }
    sim.run_until(from + MS);
    while runs(&sim) == CPUS {
        sim.run_until(sim.now() + MS);
        assert!(sim.now() < from + 4 * SEC, "it never ran again");
    }
    let waited = (sim.now() - from) / MS;
    println!("it waited for {waited} ms");
    assert!(waited <= 12, "{waited} ms");
}
