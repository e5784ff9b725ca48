//! What must hold for every model, whatever the tasks do; checked on the trace.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::machine::Scheduler;
use crate::rng::Rng;
use crate::workload::Random;
use crate::Switch;

const MODELS: [&str; 9] = [
    "global-edf-hard",
    "global-edf-soft",
    "global-edf-fcbs",
    "partitioned-ff",
    "partitioned-ff-hard",
    "partitioned-wf",
    "partitioned-wf-hard",
    "eevdf",
    "wrr",
];

fn play(name: &str, seed: u64, cpus: usize, pinned: bool) -> (Vec<Switch>, Vec<u64>) {
    let scheduler: Scheduler = name.parse().unwrap();
    let mut m = scheduler.machine(Settings {
        cpus,
        traced: true,
        ..Settings::default()
    });
    let mut rng = Rng::new(seed);
    for ino in 1..=4 {
        let period = 5 * MS + rng.below(100 * MS);
        m.reserve(
            ino,
            reservation(period / 20 + rng.below(period / 2), period),
        );
    }
    let forks = Rc::new(Cell::new(30));
    for _ in 0..8 {
        let mut allowed = CpuMask::first(cpus);
        if pinned && rng.below(3) == 0 {
            allowed = CpuMask::only(rng.below(cpus as u64) as usize);
        }
        let weight = 1 + rng.below(1000) as u32;
        let life = Random::new(rng.next_u64(), 6, &forks);
        m.start_with(weight, allowed, Box::new(life));
    }
    m.run_until(3 * SEC);
    let tasks = 8 + 30 - forks.get() as usize;
    (m.trace().to_vec(), (0..tasks).map(|id| m.ran(id)).collect())
}

/// All runs, by task and time: (task, from, to).
fn pieces(trace: &[Switch], cpus: usize) -> Vec<(TaskId, u64, u64)> {
    let mut open: Vec<Option<(TaskId, u64)>> = vec![None; cpus];
    let mut pieces = Vec::new();
    for s in trace {
        if let Some((id, from)) = open[s.cpu].take() {
            pieces.push((id, from, s.at));
        }
        open[s.cpu] = s.task.map(|id| (id, s.at));
    }
    pieces.extend(
        open.into_iter()
            .flatten()
            .map(|(id, from)| (id, from, 3 * SEC)),
    );
    pieces.sort_unstable();
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// No task runs on two CPUs at a time, and its CPU time is the sum of its runs.
    #[test]
    fn traces_are_possible(model in 0..MODELS.len(), seed: u64, cpus in 1usize..6, pinned: bool) {
        let (trace, ran) = play(MODELS[model], seed, cpus, pinned);
        let pieces = pieces(&trace, cpus);
        for pair in pieces.windows(2) {
            prop_assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
        }
        for (id, &ran) in ran.iter().enumerate() {
            let seen: u64 = pieces.iter().filter(|p| p.0 == id).map(|p| p.2 - p.1).sum();
            prop_assert_eq!(seen, ran, "task {}", id);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace(model in 0..MODELS.len(), seed: u64) {
        prop_assert!(play(MODELS[model], seed, 3, true) == play(MODELS[model], seed, 3, true));
    }
}

/// Work conservation: as many CPUs run as there are hogs, up to all, while other tasks start and
/// exit.
#[test]
fn no_cpu_idles_while_tasks_wait() {
    for name in MODELS {
        let scheduler: Scheduler = name.parse().unwrap();
        let mut m = scheduler.machine(Settings {
            cpus: 4,
            ..Settings::default()
        });
        let forks = Rc::new(Cell::new(0));
        let mut ids: Vec<_> = (0..6)
            .map(|seed| {
                m.start_with(
                    100,
                    CpuMask::first(4),
                    Box::new(Random::new(seed, 0, &forks)),
                )
            })
            .collect();
        ids.extend((0..5).map(|_| m.start_with(50, CpuMask::first(4), Box::new(hog(0)))));
        m.run_until(10 * SEC);
        let sum: u64 = ids.iter().map(|&id| m.ran(id)).sum();
        assert_eq!(sum, 40 * SEC, "{name}");
    }
}
