//! Faults that random changes of domains, affinity and CPUs have found, each cut down to what it took.

use super::cgroups::{machine, start_in};
use super::domains::{domain, hogs};
use super::{MS, SEC};
use crate::workload::hog;
use crate::{Bandwidth, Change, CpuMask, ROOT};

fn limit(quota: u64) -> Bandwidth {
    Bandwidth {
        period: 1_000_000,
        quota: Some(quota),
        burst: 0,
    }
}

/// One CPU, idle, for its only task is held back by a cpu.max. Moved to where it may run it has to run, though that is no
/// wake-up: it waited for the next period.
#[test]
fn who_is_moved_out_of_a_throttled_domain_runs_at_once() {
    let mut sim = machine(1);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    sim.set_cgroup_bandwidth(a, limit(10_000)).unwrap();
    let id = start_in(&mut sim, a, hog(0));
    sim.run_until(500 * MS);
    sim.move_process(id, b).unwrap();
    sim.run_until(510 * MS);
    assert!(sim.ran(id) > 19 * MS, "{}", sim.ran(id));
    sim.run_until(2 * SEC);
}

/// CPU 0 is the only one, so who is tied to it waits in its domain's queue. Then CPU 1 comes and CPU 0 leaves. Who chooses it
/// there would send it to CPU 0's local queue, from which the kernel takes it elsewhere; but it was rescued, and in DSQ_RESCUE
/// no CPU could take it, for ever.
#[test]
fn who_is_tied_to_a_cpu_that_left_is_not_rescued_to_where_nobody_takes_it() {
    let mut sim = machine(2);
    let (a, b) = (
        domain(&mut sim, ROOT, "a", 100),
        domain(&mut sim, ROOT, "b", 100),
    );
    sim.set_cgroup_bandwidth(a, limit(1_000)).unwrap();
    hogs(&mut sim, b, 2);
    hogs(&mut sim, a, 30);
    assert!(sim.change(Change::Offline(1)));
    sim.run_until(SEC);
    let tied = sim
        .start_in(a, 100, CpuMask::only(0), Box::new(hog(0)))
        .unwrap();
    sim.run_until(2 * SEC);
    assert!(sim.change(Change::Online(1)));
    assert!(sim.change(Change::Offline(0)));
    sim.run_until(40 * SEC);
    assert!(sim.ran(tied) > 0, "{:?}", sim.place(tied));
}

/// Then CPU 0 comes back, and all others have ended. CPUs are idle, one waits to be rescued, and none was woken for it.
#[test]
fn an_idle_cpu_is_woken_for_who_is_rescued() {
    let mut sim = machine(2);
    let a = domain(&mut sim, ROOT, "a", 100);
    sim.set_cgroup_bandwidth(a, limit(1_000)).unwrap();
    let mut others = hogs(&mut sim, a, 30);
    others.extend(hogs(&mut sim, ROOT, 2));
    assert!(sim.change(Change::Offline(1)));
    sim.run_until(SEC);
    let tied = sim
        .start_in(a, 100, CpuMask::only(0), Box::new(hog(0)))
        .unwrap();
    sim.run_until(2 * SEC);
    assert!(sim.change(Change::Online(1)));
    assert!(sim.change(Change::Offline(0)));
    sim.run_until(25 * SEC);
    sim.set_cgroup_bandwidth(a, Bandwidth::default()).unwrap();
    for id in others {
        sim.change(Change::Kill(id));
    }
    sim.run_until(26 * SEC);
    assert!(sim.change(Change::Online(0)));
    sim.run_until(40 * SEC);
    assert!(sim.ran(tied) > 0, "{:?}", sim.place(tied));
}
