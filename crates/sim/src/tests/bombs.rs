//! Fork bombs that grow in one domain: the shares of the other domains do not change.
//!
//! `domains.rs` has a thousand tasks that exist from the start. Here each task comes by a fork: new
//! in its domain, runnable, and in no queue yet.

use super::cgroups::{machine, start_in};
use super::domains::{domain, had, hogs};
use super::{MS, SEC};
use crate::workload::Bomb;
use crate::{DomainChange, DomainPolicy, Program, Step, ROOT};

/// Tolerance of a share: 2 % of the machine.
const OFF: u64 = 20_000;
const SECONDS: u64 = 10;

/// `:(){ :|:& };:`: each task runs for a short time, forks two, and exits.
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

/// A bomb in a domain of weight 100 with this policy, beside hogs in domains of weight 100 and 200.
/// All domains have their shares in each second. Returns the number of tasks in the end.
fn bomb_beside_hogs(cpus: usize, policy: DomainPolicy, bomb: impl Program + 'static) -> usize {
    let mut sim = machine(cpus);
    let [a, b, c] = [("a", 100), ("b", 100), ("c", 200)]
        .map(|(name, weight)| domain(&mut sim, ROOT, name, weight));
    sim.change_domain(b, DomainChange::Policy(policy)).unwrap();
    let others = [
        (hogs(&mut sim, a, 2 * cpus), 250_000),
        (hogs(&mut sim, c, 2 * cpus), 500_000),
    ];
    // the domain uses its share before, so the others' shares do not change
    hogs(&mut sim, b, cpus);
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
fn a_growing_bomb_uses_no_more_than_its_domains_share() {
    for cpus in [1, 2] {
        for policy in [DomainPolicy::Default, DomainPolicy::Mtr, DomainPolicy::Wrr] {
            // a fork every 3 ms: the bomb grows until the end of the test
            let tasks = bomb_beside_hogs(cpus, policy, Bomb::new(0, 10_000, 3 * MS));
            println!("{cpus} CPUs, {policy:?}: {tasks}");
            assert!(tasks > 300 * cpus, "{tasks}");
        }
    }
}

#[test]
fn a_bomb_whose_tasks_exit_uses_no_more_than_its_domains_share() {
    for cpus in [1, 2] {
        for policy in [DomainPolicy::Default, DomainPolicy::Sfq] {
            let tasks = bomb_beside_hogs(cpus, policy, Shell(0));
            println!("{cpus} CPUs, {policy:?}: {tasks}");
            assert!(tasks > 600 * cpus, "{tasks}");
        }
    }
}
