//! What all programs of one user have together (bpf/reserved/owner.bpf.h). There are no seats, so
//! that is three fifths of the CPUs.

use super::{machine, reserve, MS, SEC};
use crate::workload::{hog, Periodic};
use crate::{Change, Reservation, ServerPolicy, Simulation, TaskId};

/// Inodes of programs with 5 % by load, and with 5 % guaranteed
const LOOP: u64 = 7;
const PROMISED: u64 = 8;
/// A use of three fifths is no less than the limit.
const FIT: usize = 11;

fn machine_with_specs() -> Simulation {
    let mut sim = machine(1);
    sim.spec(LOOP, reserve(5 * MS, 100 * MS));
    sim.spec(
        PROMISED,
        Reservation {
            guaranteed: true,
            ..reserve(5 * MS, 100 * MS)
        },
    );
    sim
}

fn loops(sim: &mut Simulation, ino: u64, user: u32, n: usize) -> Vec<TaskId> {
    let start = |_| {
        let id = sim.start(hog(ino));
        sim.set_user(id, user);
        id
    };
    (0..n).map(start).collect()
}

fn admitted(sim: &Simulation, ids: &[TaskId]) -> usize {
    let is_admitted = |&&id: &&TaskId| sim.server(id).map(|s| s.0) == Some(1);
    ids.iter().filter(is_admitted).count()
}

fn advance(sim: &mut Simulation, time: u64) {
    sim.run_until(sim.now() + time);
}

#[test]
fn promises_to_a_users_programs_fill_the_account() {
    let mut sim = machine_with_specs();
    let first = loops(&mut sim, PROMISED, 1000, 20);
    let other = loops(&mut sim, PROMISED, 1001, 2);
    advance(&mut sim, 3 * SEC);
    assert_eq!(admitted(&sim, &first), FIT);
    assert_eq!(admitted(&sim, &other), 2, "another user has its own");
    let root = loops(&mut sim, PROMISED, 0, 4);
    advance(&mut sim, SEC);
    assert_eq!(admitted(&sim, &root), 4, "root has no limit");
}

/// The governor's second stops when the last server has gone. What the user's programs had used
/// until then stayed in the account, however long ago that was.
#[test]
fn what_programs_used_before_a_pause_takes_no_room() {
    let mut sim = machine_with_specs();
    let users = loops(&mut sim, LOOP, 1000, 20);
    advance(&mut sim, 5 * SEC);
    assert_eq!(admitted(&sim, &users), FIT);
    for id in users {
        sim.change(Change::Kill(id));
    }
    advance(&mut sim, 6 * SEC);
    let promised = loops(&mut sim, PROMISED, 1000, 20);
    advance(&mut sim, 100 * MS);
    assert_eq!(admitted(&sim, &promised), FIT);
}

/// A loop with server cbs-soft goes before best-effort work until the governor revokes it. A
/// reservation of another user holds meanwhile.
#[test]
fn a_loop_of_cbs_soft_takes_nothing_from_another_users_reservation() {
    let mut sim = machine_with_specs();
    sim.spec(9, reserve(5 * MS, 30 * MS));
    let policy = Some(ServerPolicy::CbsSoft);
    sim.spec(
        10,
        Reservation {
            policy,
            ..reserve(5 * MS, 100 * MS)
        },
    );
    let (film, jobs) = Periodic::new(9, 4500 * MS / 1000, 30 * MS, 100 * MS);
    let film = sim.start(film);
    sim.set_user(film, 1001);
    advance(&mut sim, SEC);
    let soft = loops(&mut sim, 10, 1000, 1);
    advance(&mut sim, 4 * SEC);
    assert_eq!(admitted(&sim, &soft), 0, "revoked");
    advance(&mut sim, 10 * SEC); // it is tried again now and then
    assert_eq!(jobs.borrow().missed, 0);
}
