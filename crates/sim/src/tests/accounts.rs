//! What all programs of one user have together (bpf/reserved/owner.bpf.h). There are no seats, so
//! that is three fifths of the CPUs.

use super::{machine, reserve, MS, SEC};
use crate::workload::{hog, Periodic};
use crate::{Change, Reservation, ServerPolicy, Simulation, TaskId};

/// Inodes of programs with 5 % by load, and with 5 % guaranteed
const LOOP: u64 = 7;
const PROMISED: u64 = 8;
/// `EV_REACTIVATED`
const REACTIVATED: usize = 7;
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

/// A machine where `ino` is a program with 5 % and server cbs-soft.
fn machine_with_soft(ino: u64) -> Simulation {
    let mut sim = machine_with_specs();
    sim.spec(
        ino,
        Reservation {
            policy: Some(ServerPolicy::CbsSoft),
            ..reserve(5 * MS, 100 * MS)
        },
    );
    sim
}

/// Parts of a second, in thousandths, that the task runs in each of the next `seconds`: the least.
fn worst_second(sim: &mut Simulation, id: TaskId, seconds: u64) -> u64 {
    let one = |_| {
        let before = sim.ran(id);
        advance(sim, SEC);
        (sim.ran(id) - before) * 1000 / SEC
    };
    (0..seconds).map(one).min().unwrap_or(0)
}

/// A loop with server cbs-soft is revoked and tried again for ever. It had nine tenths for three
/// seconds each time. But the account's limit holds in each second: three fifths here, beside the
/// budget, and the loop shares the rest.
#[test]
fn a_loop_of_cbs_soft_leaves_other_users_their_part_in_each_second() {
    let mut sim = machine_with_soft(10);
    let other = sim.start(hog(0));
    sim.set_user(other, 1001);
    advance(&mut sim, SEC);
    let soft = loops(&mut sim, 10, 1000, 1);
    let worst = worst_second(&mut sim, other, 40);
    println!(
        "worst second {worst}, reactivated {}",
        sim.reported(REACTIVATED)
    );
    assert!(sim.ran(soft[0]) > 10 * SEC, "it has its share");
    assert!(worst >= 240, "{worst}");
    assert!(sim.reported(REACTIVATED) >= 3, "it is tried again");
}

/// A user that starts such a loop anew each second gains nothing by that, whatever was revoked.
#[test]
fn nor_do_new_ones_of_them_take_more() {
    let mut sim = machine_with_soft(10);
    let other = sim.start(hog(0));
    sim.set_user(other, 1001);
    advance(&mut sim, SEC);
    let mut worst = 1000;
    for _ in 0..30 {
        let soft = loops(&mut sim, 10, 1000, 3);
        worst = worst.min(worst_second(&mut sim, other, 1));
        for id in soft {
            sim.change(Change::Kill(id));
        }
    }
    println!("worst second {worst}");
    assert!(worst >= 90, "{worst}: it and three loops share two fifths");
}

/// A loop with server cbs-soft goes before best-effort work until the governor revokes it. A
/// reservation of another user holds meanwhile.
#[test]
fn a_loop_of_cbs_soft_takes_nothing_from_another_users_reservation() {
    let mut sim = machine_with_soft(10);
    sim.spec(9, reserve(5 * MS, 30 * MS));
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
