//! How many domains the cgroups of one user may have (bpf/tree/owner.bpf.h).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::cgroups::machine;
use super::domains::{had, hogs, near};
use crate::{Bandwidth, CgroupId, Simulation, ROOT};

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;
/// `EV_LIMIT`
const LIMIT: usize = 11;
/// `MAX_OWNED_DOMAINS`
const MOST: usize = 1024;

/// Creates `n` cgroups of `user` in `parent`. Returns them, and how many have no domain.
fn create(sim: &mut Simulation, parent: CgroupId, user: u32, n: usize) -> (Vec<CgroupId>, u64) {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let before = sim.reported(LIMIT);
    let all = (0..n)
        .map(|_| {
            let name = format!("c{}", NAMES.fetch_add(1, Ordering::Relaxed));
            sim.create_cgroup_as(parent, &name, user).unwrap()
        })
        .collect();
    (all, sim.reported(LIMIT) - before)
}

/// A directory of `user`'s, which root creates and gives away.
fn delegate(sim: &mut Simulation, name: &str, user: u32) -> CgroupId {
    let id = sim.create_cgroup(ROOT, name).unwrap();
    sim.chown_cgroup(id, user).unwrap();
    id
}

fn limit(sim: &mut Simulation, cgroup: CgroupId, ms: u64) {
    let limit = Bandwidth {
        quota: Some(ms * 1000),
        ..Bandwidth::default()
    };
    sim.set_cgroup_bandwidth(cgroup, limit).unwrap();
}

/// What a user has beyond its part belongs to the nearest ancestor's domain, and is held by that
/// one's limit. A container of root's that comes later has its own.
#[test]
fn a_user_has_a_part_of_the_domains_and_no_more() {
    let mut sim = machine(1);
    let top = delegate(&mut sim, "user", 1000);
    limit(&mut sim, top, 30);
    let (own, without) = create(&mut sim, top, 1000, MOST + 10);
    assert_eq!(without, 10);
    let beyond = *own.last().unwrap();
    let below = sim.create_cgroup_as(beyond, "below", 1000).unwrap();
    let container = sim.create_cgroup(ROOT, "container").unwrap();
    limit(&mut sim, container, 20);
    let users = hogs(&mut sim, below, 3);
    let containers = hogs(&mut sim, container, 3);
    sim.run_until(5 * SEC);
    near(had(&sim, &users, 5 * SEC), 300_000, 5_000);
    near(had(&sim, &containers, 5 * SEC), 200_000, 5_000);
}

/// Directories of subordinate ids, and of any other id, count for the user to which root has given
/// the tree. Other users have a part of their own, and root has no limit.
#[test]
fn all_that_is_below_a_users_directory_is_the_users() {
    let mut sim = machine(1);
    let top = delegate(&mut sim, "user", 1000);
    for id in 0..8 {
        let (_, without) = create(&mut sim, top, 100_000 + id, MOST / 8);
        assert_eq!(without, 0);
    }
    assert_eq!(create(&mut sim, top, 100_008, 1).1, 1);
    assert_eq!(create(&mut sim, top, 0, 1).1, 1);
    let other = delegate(&mut sim, "other", 1001);
    assert_eq!(create(&mut sim, other, 1001, MOST).1, 0);
    assert_eq!(create(&mut sim, other, 1001, 1).1, 1);
    let third = delegate(&mut sim, "third", 1002);
    assert_eq!(create(&mut sim, third, 1002, MOST).1, 0);
    let root = sim.create_cgroup(ROOT, "root").unwrap();
    let left = 4096 - 3 * MOST - 4;
    assert_eq!(create(&mut sim, root, 0, left + 3).1, 3);
}

/// A domain that ends gives its place back to the user for which it counted, also if its directory
/// has another owner by then.
#[test]
fn places_come_back_to_their_user() {
    let mut sim = machine(1);
    let top = delegate(&mut sim, "user", 1000);
    let (mut own, without) = create(&mut sim, top, 1000, MOST + 1);
    assert_eq!(without, 1);
    for (i, &id) in own.iter().enumerate() {
        sim.chown_cgroup(id, [0, 1000, 1001][i % 3]).unwrap();
    }
    sim.chown_cgroup(top, 0).unwrap();
    for id in own.drain(..) {
        sim.remove_cgroup(id).unwrap();
    }
    for user in [1000, 1001] {
        sim.chown_cgroup(top, user).unwrap();
        let (own, without) = create(&mut sim, top, user, MOST + 1);
        assert_eq!(without, 1, "of user {user}");
        own.into_iter()
            .for_each(|id| sim.remove_cgroup(id).unwrap());
    }
}

/// More users than rows: those of the last row share its part, the others have their own.
#[test]
fn users_beyond_the_table_share_one_row() {
    let mut sim = machine(1);
    for user in 1..=300 {
        let top = delegate(&mut sim, &format!("user{user}"), user);
        assert_eq!(create(&mut sim, top, user, 10).1, 0, "of user {user}");
    }
    let known = delegate(&mut sim, "known", 5);
    assert_eq!(create(&mut sim, known, 5, 200).1, 0);
    let shared = delegate(&mut sim, "shared", 301);
    let (_, without) = create(&mut sim, shared, 301, 600);
    assert_eq!(without, 600 - (MOST as u64 - 46 * 10));
}
