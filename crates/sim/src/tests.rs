//! The scheduler in the simulator: the checks of the lab (tests/lab) that must hold here too.

use std::rc::Rc;

use crate::workload::{hog, on_off, Periodic};
use crate::{CpuMask, Reservation, Settings, Simulation};

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;

fn machine(cpus: usize) -> Simulation {
    Simulation::new(Settings {
        cpus,
        checked: true,
        traced: true,
        ..Settings::default()
    })
}

fn reserve(runtime: u64, period: u64) -> Reservation {
    Reservation {
        runtime,
        period,
        ..Reservation::default()
    }
}

#[test]
fn two_tasks_of_the_same_weight_share_a_cpu_equally() {
    let mut sim = machine(1);
    let (a, b) = (sim.start(hog(0)), sim.start(hog(0)));
    sim.run_until(10 * SEC);
    let (a, b) = (sim.ran(a), sim.ran(b));
    assert_eq!(a + b, 10 * SEC, "the CPU is never idle");
    assert!(a.abs_diff(b) < 20 * MS, "{a} {b}");
}

#[test]
fn two_tasks_of_different_weights_share_a_cpu_by_weight() {
    let mut sim = machine(1);
    let all = CpuMask::first(1);
    let strong = sim.start_with(300, all, Box::new(hog(0)));
    let weak = sim.start_with(100, all, Box::new(hog(0)));
    sim.run_until(10 * SEC);
    let share = sim.ran(strong) as f64 / sim.ran(weak) as f64;
    assert!((2.9..3.1).contains(&share), "{share}");
}

#[test]
fn no_cpu_is_idle_while_tasks_wait() {
    let mut sim = machine(4);
    let hogs: Vec<_> = (0..7).map(|_| sim.start(hog(0))).collect();
    sim.run_until(10 * SEC);
    let ran: Vec<_> = hogs.iter().map(|&id| sim.ran(id)).collect();
    let sum: u64 = ran.iter().sum();
    assert!(sum > 40 * SEC - 10 * MS, "{sum}");
    assert!(
        ran.iter().all(|&r| r.abs_diff(40 * SEC / 7) < 300 * MS),
        "{ran:?}"
    );
}

/// As in the experiment `redline/wakeup`: 5 ms of work every 30 ms, 6 ms reserved, beside 20 hogs.
#[test]
fn a_reserved_task_misses_no_deadline() {
    let mut sim = machine(1);
    sim.spec(7, reserve(6 * MS, 30 * MS));
    for _ in 0..20 {
        sim.start(hog(0));
    }
    sim.run_until(SEC);
    let (task, jobs) = Periodic::new(7, 5 * MS, 30 * MS, SEC + 100 * MS);
    let id = sim.start(task);
    sim.run_until(61 * SEC);
    let jobs = jobs.borrow();
    assert_eq!(jobs.missed, 0);
    assert!(jobs.response.len() > 1900, "{}", jobs.response.len());
    let worst = jobs.response.iter().max().copied().unwrap_or(0);
    assert!(worst < 5 * MS + 100_000, "{worst}");
    assert_eq!(sim.server(id).map(|s| s.0), Some(1), "admitted");
}

/// On-off loads look interactive to schedulers that use heuristics.
#[test]
fn a_reserved_task_misses_no_deadline_among_on_off_loads() {
    let mut sim = machine(1);
    sim.spec(7, reserve(6 * MS, 30 * MS));
    for _ in 0..16 {
        sim.start(on_off(0, 11 * MS, 5 * MS));
    }
    let (task, jobs) = Periodic::new(7, 5 * MS, 30 * MS, SEC);
    sim.start(task);
    sim.run_until(30 * SEC);
    assert_eq!(jobs.borrow().missed, 0);
}

/// As the lab's check `budget-is-exact`: 20 % reserved, beside 20 hogs; it gets 20.0 to 20.5 %.
#[test]
fn a_budget_is_exact() {
    let mut sim = machine(1);
    sim.spec(7, reserve(6 * MS, 30 * MS));
    for _ in 0..20 {
        sim.start(hog(0));
    }
    let over = sim.start(hog(7));
    sim.run_until(10 * SEC);
    let before = sim.ran(over);
    sim.run_until(40 * SEC);
    let ppm = (sim.ran(over) - before) / (30 * SEC / 1_000_000);
    assert!((200_000..205_000).contains(&ppm), "{ppm}");
}

/// As the lab's check `no-task-starves`: four reservations of 96 % together that are not revocable,
/// and a best-effort task.
#[test]
fn best_effort_work_keeps_a_tenth() {
    let mut sim = machine(1);
    for ino in 1..=4 {
        sim.spec(ino, reserve(6 * MS, 25 * MS));
    }
    // they are admitted one after the other while they sleep; then all use their budgets
    for ino in 1..=4 {
        let begin = 20 * SEC;
        let mut begun = false;
        sim.start(move |now: u64, _ran: u64| {
            if !std::mem::replace(&mut begun, true) {
                crate::Step::Exec(ino)
            } else if now < begin {
                crate::Step::SleepUntil(begin)
            } else {
                crate::Step::Run(SEC)
            }
        });
        sim.run_until(4 * ino * SEC);
    }
    let plain = sim.start(hog(0));
    sim.run_until(25 * SEC);
    let before = sim.ran(plain);
    sim.run_until(55 * SEC);
    let ppm = (sim.ran(plain) - before) / (30 * SEC / 1_000_000);
    assert!((98_000..110_000).contains(&ppm), "{ppm}");
}

#[test]
fn the_same_workload_gives_the_same_trace() {
    let play = || {
        let mut sim = machine(3);
        sim.spec(7, reserve(6 * MS, 30 * MS));
        for _ in 0..5 {
            sim.start(on_off(0, 3 * MS, 2 * MS));
            sim.start(hog(7));
        }
        let (task, jobs) = Periodic::new(7, 4 * MS, 20 * MS, MS);
        sim.start(task);
        sim.run_until(3 * SEC);
        (sim.trace().to_vec(), Rc::clone(&jobs).borrow().clone())
    };
    assert!(play() == play());
}

mod accounts;
mod bombs;
mod caches;
mod capacity;
mod cgroups;
mod chaos;
mod chaos_domains;
mod cores;
mod domain_servers;
mod domains;
mod faults;
mod higher;
mod kernel;
mod leaves;
mod limits;
mod locks;
mod masks;
mod moves;
mod numbers;
mod owners;
mod pinned;
pub(crate) mod probe;
mod rescue;
mod reservations;
mod sessions;
mod unstarted;
mod waking;
mod yields;
