//! Fork bombs that grow inside one domain while others run: the others' shares are what they were.
//!
//! A thousand that are there from the start are in domains.rs. Here each comes as a fork does: new to its domain, awake,
//! and without a place in any queue.

use super::cgroups::{machine, start_in};
use super::domains::{domain, had, hogs};
use super::{MS, SEC};
use crate::workload::Bomb;
use crate::{DomainChange, DomainPolicy, Program, Step, ROOT};

/// 2 points of 100: the mark.
const OFF: u64 = 20_000;
const SECONDS: u64 = 10;

/// `:(){ :|:& };:`: each runs a little, forks two, and ends.
struct Shell(u64);

impl Shell {
    const RUN: u64 = 2 * MS;
}

impl Program for Shell {
    fn next(&mut self, _now: u64, _ran: u64) -> Step {
        self.0 += 1;
        match self.0 {
            1 => Step::Run(Self::RUN),
            2 | 3 => Step::Fork(0),
            _ => Step::Exit,
        }
    }

    fn child(&mut self, _which: u64) -> Box<dyn Program> {
        Box::new(Self(0))
    }
}

/// Beside hogs in domains of weight 100 and 200, a bomb in one of 100 with this order: from its start to its end
/// all have their shares in each second. Returns how many tasks there are in the end.
fn goes_off(cpus: usize, policy: DomainPolicy, bomb: impl Program + 'static) -> usize {
    let mut sim = machine(cpus);
    let [a, b, c] = [("a", 100), ("b", 100), ("c", 200)]
        .map(|(name, weight)| domain(&mut sim, ROOT, name, weight));
    sim.change_domain(b, DomainChange::Policy(policy)).unwrap();
    let others = [
        (hogs(&mut sim, a, 2 * cpus), 250_000),
        (hogs(&mut sim, c, 2 * cpus), 500_000),
    ];
    hogs(&mut sim, b, cpus); // it has its share before, so theirs is what it is then
    sim.run_until(SEC);
    start_in(&mut sim, b, bomb);
    let all = SEC * cpus as u64;
    let mut before = others.each_ref().map(|(tasks, _)| had(&sim, tasks, all));
    for second in 2..=1 + SECONDS {
        sim.run_until(second * SEC);
        for ((tasks, due), before) in others.iter().zip(&mut before) {
            let ran = had(&sim, tasks, all) - *before;
            assert!(
                ran.abs_diff(*due) <= OFF,
                "{cpus} CPUs, {policy:?}, {} tasks: {ran} ppm in second {second}, due are {due}",
                sim.tasks()
            );
            *before += ran;
        }
    }
    sim.tasks()
}

#[test]
fn a_growing_bomb_stays_in_its_domain() {
    for cpus in [1, 2] {
        for policy in [DomainPolicy::Default, DomainPolicy::Mtr, DomainPolicy::Wrr] {
            // a fork after each 3 ms: it grows all the time, and is not at its end when the test is
            let tasks = goes_off(cpus, policy, Bomb::new(0, 10_000, 3 * MS));
            println!("{cpus} CPUs, {policy:?}: {tasks}");
            assert!(tasks > 300 * cpus, "{tasks}");
        }
    }
}

#[test]
fn a_bomb_of_which_each_ends_stays_in_its_domain() {
    for cpus in [1, 2] {
        for policy in [DomainPolicy::Default, DomainPolicy::Sfq] {
            let tasks = goes_off(cpus, policy, Shell(0));
            println!("{cpus} CPUs, {policy:?}: {tasks}");
            assert!(tasks > 600 * cpus, "{tasks}");
        }
    }
}
