//! A reservation of C every T for a whole domain (bpf/layers/domain_server.bpf.h).

use std::cell::RefCell;
use std::rc::Rc;

use super::cgroups::{machine, start_in};
use super::domains::{domain, had, hogs, near};
use super::{reserve, MS, SEC};
use crate::workload::{Jobs, Periodic};
use crate::{CgroupError, CgroupId, Change, DomainChange, Simulation, Step, TaskId, ROOT};

const E2BIG: i32 = 7;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

fn reservation(sim: &mut Simulation, of: CgroupId, c: u64, t: u64) -> Result<(), CgroupError> {
    let (runtime, interval) = (c * MS, t * MS);
    sim.change_domain(of, DomainChange::Reservation { runtime, interval })
}

/// Start a task without a spec in `cgroup`, with `work` us of work every `period` ms.
fn periodic(
    sim: &mut Simulation,
    cgroup: CgroupId,
    work: u64,
    period: u64,
) -> (TaskId, Rc<RefCell<Jobs>>) {
    let first = sim.now() + 100 * MS;
    let (task, jobs) = Periodic::new(0, work * 1000, period * MS, first);
    (start_in(sim, cgroup, task), jobs)
}

fn missed(sim: &Simulation, jobs: &Rc<RefCell<Jobs>>) -> u64 {
    jobs.borrow().missed_at(sim.now())
}

/// Two tasks that need 9.6 ms in each 50 ms together, beside hogs. With a reserved fraction of the
/// same size they would sometimes miss their deadlines.
#[test]
fn the_tasks_of_a_domain_with_a_reservation_meet_their_deadlines() {
    for cpus in [1, 2, 4] {
        let mut sim = machine(cpus);
        let (a, b) = (
            domain(&mut sim, ROOT, "a", 1),
            domain(&mut sim, ROOT, "b", 1000),
        );
        reservation(&mut sim, a, 10, 50).unwrap();
        hogs(&mut sim, b, 10 * cpus);
        let (_, first) = periodic(&mut sim, a, 4_800, 50);
        let (_, second) = periodic(&mut sim, a, 4_800, 50);
        sim.run_until(10 * SEC);
        let found = (missed(&sim, &first), missed(&sim, &second));
        assert_eq!(found, (0, 0), "{cpus} CPUs");
    }
}

/// Its reservation, and its part of the time that is not reserved: 20 % and half of 80 %.
#[test]
fn a_domain_gets_its_reservation_and_its_share_of_the_rest() {
    let mut sim = machine(1);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    reservation(&mut sim, a, 20, 100).unwrap();
    let (reserved, other) = (hogs(&mut sim, a, 3), hogs(&mut sim, b, 3));
    sim.run_until(10 * SEC);
    near(had(&sim, &reserved, 10 * SEC), 600_000, 10_000);
    near(had(&sim, &other, 10 * SEC), 400_000, 10_000);
}

/// With weight 1 beside 10,000 its share of the rest is negligible.
#[test]
fn a_domain_gets_its_reservation_whatever_its_weight() {
    let mut sim = machine(1);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 1),
        domain(&mut sim, ROOT, "b", 10_000),
    );
    reservation(&mut sim, a, 20, 100).unwrap();
    let (reserved, _) = (hogs(&mut sim, a, 3), hogs(&mut sim, b, 3));
    sim.run_until(10 * SEC);
    near(had(&sim, &reserved, 10 * SEC), 200_000, 10_000);
}

#[test]
fn tasks_of_child_domains_use_the_reservation_and_tasks_that_move_away_do_not() {
    let mut sim = machine(1);
    let a = domain(&mut sim, ROOT, "a", 1);
    let b = domain(&mut sim, ROOT, "b", 10_000);
    reservation(&mut sim, a, 30, 100).unwrap();
    let below = domain(&mut sim, a, "below", 100);
    hogs(&mut sim, b, 3);
    let task = hogs(&mut sim, below, 1)[0];
    sim.run_until(10 * SEC);
    near(had(&sim, &[task], 10 * SEC), 300_000, 10_000);
    sim.move_process(task, b).unwrap();
    let before = sim.ran(task);
    sim.run_until(14 * SEC);
    near((sim.ran(task) - before) / 4000, 250_000, 10_000);
}

/// The server is the domain's: it stays when the last thread exits.
#[test]
fn the_server_outlives_the_threads() {
    let mut sim = machine(1);
    let a = domain(&mut sim, ROOT, "a", 1);
    let b = domain(&mut sim, ROOT, "b", 1000);
    reservation(&mut sim, a, 10, 50).unwrap();
    hogs(&mut sim, b, 5);
    for _ in 0..3 {
        let one = super::cgroups::script(vec![Step::Run(5 * MS), Step::Exit]);
        start_in(&mut sim, a, one);
        sim.run_until(sim.now() + 100 * MS);
    }
    let (_, jobs) = periodic(&mut sim, a, 9_600, 50);
    sim.run_until(sim.now() + 5 * SEC);
    assert_eq!(missed(&sim, &jobs), 0);
}

#[test]
fn a_reservation_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut sim = machine(1);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 1),
        domain(&mut sim, ROOT, "b", 1),
    );
    reservation(&mut sim, a, 50, 100).unwrap();
    let refused = |errno: i32| Err(CgroupError::Refused(-errno));
    assert_eq!(reservation(&mut sim, b, 42, 100), refused(E2BIG));
    assert_eq!(reservation(&mut sim, a, 91, 100), refused(E2BIG));
    assert_eq!(reservation(&mut sim, b, 46, 100), refused(ENOSPC));
    hogs(&mut sim, b, 3);
    let (_, jobs) = periodic(&mut sim, a, 48_000, 100);
    sim.run_until(5 * SEC);
    assert_eq!(missed(&sim, &jobs), 0, "it keeps its old reservation");
    reservation(&mut sim, b, 35, 100).unwrap();
}

/// Interactive tasks and domains share one table of servers (MAX_SERVERS, intf.h; slot 0 is not
/// used).
#[test]
fn a_full_table_of_servers_refuses_until_a_task_exits() {
    const PLACES: u64 = 4096 - 1;
    let mut sim = machine(1);
    let a = domain(&mut sim, ROOT, "a", 1);
    sim.spec(1, reserve(MS / 100, 10 * SEC));
    for i in 0..PLACES {
        let until = if i == 0 { 2 * SEC } else { 60 * SEC };
        let steps = [Step::Exec(1), Step::SleepUntil(until), Step::Exit];
        sim.start(super::cgroups::script(steps.to_vec()));
    }
    sim.run_until(SEC);
    let full = Err(CgroupError::Refused(-EMFILE));
    assert_eq!(reservation(&mut sim, a, 10, 100), full);
    assert_eq!(
        reservation(&mut sim, a, 10, 100),
        full,
        "nothing has changed"
    );
    sim.run_until(3 * SEC);
    reservation(&mut sim, a, 10, 100).unwrap();
}

#[test]
fn a_removed_reservation_is_available_again() {
    let mut sim = machine(1);
    let a = domain(&mut sim, ROOT, "a", 1);
    let b = domain(&mut sim, ROOT, "b", 1);
    reservation(&mut sim, a, 80, 100).unwrap();
    sim.change_domain(a, DomainChange::Fraction(0)).unwrap();
    reservation(&mut sim, b, 80, 100).unwrap();
    sim.remove_cgroup(b).unwrap();
    reservation(&mut sim, a, 80, 100).unwrap();
    reservation(&mut sim, a, 0, 0).unwrap();
    let c = domain(&mut sim, ROOT, "c", 1);
    reservation(&mut sim, c, 80, 100).unwrap();
}

/// A program with a spec has its own server, whether or not its domain has one.
#[test]
fn the_server_of_a_program_comes_before_that_of_its_domain() {
    let mut sim = machine(1);
    sim.spec(7, reserve(30 * MS, 100 * MS));
    let a = domain(&mut sim, ROOT, "a", 1);
    let b = domain(&mut sim, ROOT, "b", 10_000);
    reservation(&mut sim, a, 10, 100).unwrap();
    hogs(&mut sim, b, 3);
    let (task, jobs) = Periodic::new(7, 29 * MS, 100 * MS, 100 * MS);
    start_in(&mut sim, a, task);
    let plain = hogs(&mut sim, a, 1);
    sim.run_until(10 * SEC);
    assert_eq!(missed(&sim, &jobs), 0);
    near(had(&sim, &plain, 10 * SEC), 100_000, 12_000);
}

/// When the server's CPU goes offline, the governor moves the server to an online CPU.
#[test]
fn the_server_moves_when_its_cpu_goes_offline() {
    let mut sim = machine(2);
    let a = domain(&mut sim, ROOT, "a", 1);
    let b = domain(&mut sim, ROOT, "b", 10_000);
    reservation(&mut sim, a, 10, 50).unwrap();
    hogs(&mut sim, b, 6);
    for cpu in [0, 1] {
        assert!(sim.change(Change::Offline(cpu)));
        sim.run_until(sim.now() + 5 * SEC);
        let (_, jobs) = periodic(&mut sim, a, 9_600, 50);
        sim.run_until(sim.now() + 3 * SEC);
        assert_eq!(missed(&sim, &jobs), 0, "without CPU {cpu}");
        assert!(sim.change(Change::Online(cpu)));
        let tasks = sim.tasks();
        assert!(sim.change(Change::Kill(tasks - 1)));
        sim.run_until(sim.now() + SEC);
    }
}
