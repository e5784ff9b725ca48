//! Cgroups in the simulated kernel: the callbacks, in the order of kernel/sched/ext.c, and what is
//! refused.

use super::probe::{Probe, Refuse};
use crate::calls::recorded::calls;
use crate::kfuncs::{bpf_cgroup_ancestor, bpf_cgroup_from_id, scx_bpf_task_cgroup};
use crate::workload::hog;
use crate::{
    Bandwidth, CgroupError, CgroupId, CpuMask, Existing, Place, Program, Settings, Simulation,
    Step, TaskId, ROOT,
};

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;
/// `RUNTIME_INF`
const NO_LIMIT: u64 = u64::MAX;

fn settings(cpus: usize) -> Settings {
    Settings {
        cpus,
        checked: true,
        traced: true,
        ..Settings::default()
    }
}

pub(super) fn machine(cpus: usize) -> Simulation {
    Simulation::new(settings(cpus))
}

pub(super) fn script(steps: Vec<Step>) -> impl Program {
    let mut steps = steps.into_iter();
    move |_now: u64, _ran: u64| steps.next().unwrap_or(Step::Exit)
}

pub(super) fn start_in(
    sim: &mut Simulation,
    cgroup: CgroupId,
    program: impl Program + 'static,
) -> TaskId {
    let all = CpuMask::first(sim.state.settings.cpus);
    let started = sim.start_in(cgroup, 100, all, Box::new(program));
    started.unwrap()
}

fn names(all: &[(&'static str, usize)]) -> Vec<&'static str> {
    all.iter().map(|c| c.0).collect()
}

/// `scx_root_enable`: init; then `scx_cgroup_init` for each of `css_for_each_descendant_pre`; then
/// `scx_init_task`.
#[test]
fn attach_initialises_cgroups_parents_first_and_then_tasks() {
    let probe = Probe::on();
    let limit = Bandwidth {
        period: 50_000,
        quota: Some(20_000),
        burst: 5_000,
    };
    let tree = [
        Existing::new(ROOT, "system.slice"), // 1
        Existing::new(ROOT, "user.slice"),   // 2
        Existing {
            weight: 300,
            ..Existing::new(1, "a.service") // 3
        },
        Existing {
            bandwidth: limit,
            ..Existing::new(2, "b.scope") // 4
        },
        Existing::new(3, "inner"),     // 5
        Existing::new(1, "c.service"), // 6
    ];
    let mut sim = Simulation::attach(settings(2), &tree).unwrap();
    start_in(&mut sim, 5, hog(0));
    sim.start(hog(0));
    let init = |id, parent, weight| {
        (
            ("cgroup_init"),
            vec![id, parent, weight, 100_000, NO_LIMIT, 0],
        )
    };
    let expected = vec![
        init(0, u64::MAX, 100),
        init(1, 0, 100),
        init(3, 1, 300),
        init(5, 3, 100),
        init(6, 1, 100),
        init(2, 0, 100),
        ("cgroup_init", vec![4, 2, 100, 50_000, 20_000, 5_000]),
        ("init_task", vec![0, 5, 0]),
        ("init_task", vec![1, 0, 0]),
    ];
    let mut calls = probe.calls();
    calls.retain(|s| s.0 != "runnable"); // the tasks wake up
    assert_eq!(calls, expected);
}

#[test]
fn an_invalid_tree_is_refused() {
    let bad = |e: Existing| Simulation::attach(settings(1), &[e]).err();
    assert_eq!(bad(Existing::new(1, "a")), Some(CgroupError::NoCgroup(1)));
    assert_eq!(
        bad(Existing::new(ROOT, "a/b")),
        Some(CgroupError::Name(ROOT))
    );
    let heavy = Existing {
        weight: 10_001,
        ..Existing::new(ROOT, "a")
    };
    assert_eq!(bad(heavy), Some(CgroupError::Weight(10_001)));
}

/// `SCX_HAS_OP`: callbacks that the scheduler lacks are skipped, and nothing else changes.
#[test]
fn cgroups_work_without_cgroup_callbacks() {
    let mut sim = machine(1);
    if sim.state.cgroup_ops.init.is_some() {
        return; // the scheduler has them
    }
    let all = calls(|| {
        let a = sim.create_cgroup(ROOT, "a").unwrap();
        let id = start_in(&mut sim, ROOT, script(vec![Step::SleepUntil(SEC)]));
        sim.move_process(id, a).unwrap();
        sim.set_cgroup_weight(a, 7).unwrap();
        sim.set_cgroup_idle(a, true).unwrap();
        sim.move_process(id, ROOT).unwrap();
        sim.remove_cgroup(a).unwrap();
    });
    assert_eq!(names(&all), ["init_task", "enable"]);
}

/// `scx_tg_online` at mkdir, `scx_tg_offline` at rmdir, once each (`SCX_TG_INITED`).
#[test]
fn mkdir_calls_cgroup_init_and_rmdir_cgroup_exit() {
    let probe = Probe::on();
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let b = sim.create_cgroup(a, "b").unwrap();
    probe.calls();
    let c = sim.create_cgroup(b, "c").unwrap();
    assert_eq!(
        probe.calls(),
        [(
            "cgroup_init",
            vec![c as u64, b as u64, 100, 100_000, NO_LIMIT, 0]
        )]
    );
    let busy = |cgroup, tasks, children| {
        Err(CgroupError::Busy {
            cgroup,
            tasks,
            children,
        })
    };
    assert_eq!(sim.remove_cgroup(a), busy(a, 0, 1));
    let id = start_in(
        &mut sim,
        c,
        script(vec![Step::SleepUntil(5 * MS), Step::Run(MS)]),
    );
    assert_eq!(sim.remove_cgroup(c), busy(c, 1, 0));
    sim.run_until(10 * MS);
    assert_eq!(sim.place(id), Place::Exited);
    probe.calls();
    assert_eq!(sim.remove_cgroup(c), Ok(()));
    assert_eq!(sim.remove_cgroup(c), Err(CgroupError::NoCgroup(c)));
    assert_eq!(sim.remove_cgroup(b), Ok(()));
    assert_eq!(sim.remove_cgroup(ROOT), Err(CgroupError::Root));
    let exits = [
        ("cgroup_exit", vec![c as u64]),
        ("cgroup_exit", vec![b as u64]),
    ];
    assert_eq!(probe.calls(), exits);
    // the name may be used again, the number is not
    assert_eq!(sim.create_cgroup(a, "b"), Ok(c + 1));
    assert_eq!(sim.create_cgroup(a, "b"), Err(CgroupError::Name(a)));
    assert_eq!(sim.create_cgroup(b, "x"), Err(CgroupError::NoCgroup(b)));
}

/// If `scx_tg_online` fails, mkdir fails, and cgroup_exit is not called.
#[test]
fn a_cgroup_that_the_scheduler_refuses_is_not_created() {
    let probe = Probe::on();
    let mut sim = machine(1);
    probe.refuse(Refuse::Init(-12));
    assert_eq!(sim.create_cgroup(ROOT, "a"), Err(CgroupError::Refused(-12)));
    assert_eq!(names_of(&probe), ["cgroup_init", "cgroup_init"]);
    probe.refuse(Refuse::None);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    assert_eq!(sim.remove_cgroup(a - 1), Err(CgroupError::NoCgroup(a - 1)));
    assert_eq!(names_of(&probe), ["cgroup_init"]);
}

fn names_of(probe: &Probe) -> Vec<&'static str> {
    probe.calls().into_iter().map(|s| s.0).collect()
}

/// `scx_group_set_weight` and `scx_group_set_bandwidth` call the scheduler if the value changes,
/// `scx_group_set_idle` at every write. `sched_group_set_shares` refuses an idle cgroup's weight,
/// `tg_set_bandwidth` values out of range.
#[test]
fn settings_call_the_scheduler_when_they_change() {
    let probe = Probe::on();
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    probe.calls();
    let expect_calls = |probe: &Probe, expected: &[(&'static str, Vec<u64>)]| {
        assert_eq!(probe.calls(), expected);
    };
    let n = a as u64;
    sim.set_cgroup_weight(a, 100).unwrap();
    expect_calls(&probe, &[]);
    sim.set_cgroup_weight(a, 200).unwrap();
    sim.set_cgroup_weight(a, 200).unwrap();
    expect_calls(&probe, &[("cgroup_set_weight", vec![n, 200])]);
    for wrong in [0, 10_001] {
        let refused = sim.set_cgroup_weight(a, wrong);
        assert_eq!(refused, Err(CgroupError::Weight(wrong)));
    }
    assert_eq!(sim.set_cgroup_weight(ROOT, 5), Err(CgroupError::Root));

    let limit = Bandwidth {
        quota: Some(50_000),
        ..Bandwidth::default()
    };
    sim.set_cgroup_bandwidth(a, Bandwidth::default()).unwrap();
    sim.set_cgroup_bandwidth(a, limit).unwrap();
    sim.set_cgroup_bandwidth(a, limit).unwrap();
    let burst = Bandwidth {
        burst: 50_000,
        ..limit
    };
    sim.set_cgroup_bandwidth(a, burst).unwrap();
    expect_calls(
        &probe,
        &[
            ("cgroup_set_bandwidth", vec![n, 100_000, 50_000, 0]),
            ("cgroup_set_bandwidth", vec![n, 100_000, 50_000, 50_000]),
        ],
    );
    let wrong = [
        Bandwidth {
            period: 999,
            ..limit
        },
        Bandwidth {
            period: 1_000_001,
            ..limit
        },
        Bandwidth {
            quota: Some(999),
            ..limit
        },
        Bandwidth {
            quota: Some(1 << 44),
            ..limit
        },
        Bandwidth {
            burst: 50_001,
            ..limit
        },
    ];
    for wrong in wrong {
        let refused = sim.set_cgroup_bandwidth(a, wrong);
        assert_eq!(refused, Err(CgroupError::Bandwidth(wrong)));
    }

    sim.set_cgroup_idle(a, true).unwrap();
    sim.set_cgroup_idle(a, true).unwrap();
    assert_eq!(sim.set_cgroup_weight(a, 300), Err(CgroupError::Idle(a)));
    sim.set_cgroup_idle(a, false).unwrap();
    sim.set_cgroup_weight(a, 300).unwrap();
    let idle = |on| ("cgroup_set_idle", vec![n, on]);
    let weight = ("cgroup_set_weight", vec![n, 300]);
    expect_calls(&probe, &[idle(1), idle(1), idle(0), weight]);
}

/// `bpf_cgroup_ancestor`, `bpf_cgroup_from_id`, and `kn->id` and `level`, which the probe reads.
#[test]
fn kernel_functions_find_cgroups_by_number_and_ancestors_by_level() {
    let mut sim = machine(1);
    let a = sim.create_cgroup(ROOT, "a").unwrap();
    let b = sim.create_cgroup(a, "b").unwrap();
    let find = |id: CgroupId| bpf_cgroup_from_id(id as u64 + 1);
    assert!(!find(ROOT).is_null() && find(b + 1).is_null() && bpf_cgroup_from_id(0).is_null());
    for (level, expected) in [(0, ROOT), (1, a), (2, b)] {
        assert_eq!(bpf_cgroup_ancestor(find(b), level), find(expected));
    }
    assert!(bpf_cgroup_ancestor(find(b), 3).is_null());
    assert!(bpf_cgroup_ancestor(find(b), -1).is_null());
    let id = start_in(&mut sim, b, hog(0));
    let task = sim.state.tasks[id].pointer();
    assert_eq!(scx_bpf_task_cgroup(task), find(b));
    sim.move_process(id, a).unwrap();
    assert_eq!(scx_bpf_task_cgroup(task), find(a));
    sim.remove_cgroup(b).unwrap();
    assert!(find(b).is_null());
}
