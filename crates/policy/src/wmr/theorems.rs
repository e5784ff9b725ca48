//! Theorems about `wmr.h` over random task sets that its admission accepts, on the virtual CPUs of
//! `wmr/machine.rs`.
//!
//! 1. No job within its Q misses its deadline, whatever other tasks do.
//! 2. In each window each server gets Q', less the time that its task slept in the window, by the
//!    window's end, if the task wants that much.
//! 3. A task never runs on two CPUs at once, and in each window it runs on that window's CPU.
//! 4. The demand that admission assumes is never below the exact one, Q' (floor((L - D)/P) + 1).
//!    Where all windows are whole periods, admission is exact except for rounding: sum Q/P <= 1.

use super::machine::{place, Machine, Task};
use super::{bandwidth, least_ns, Member, Roster, Split, MEMBERS};
use crate::edf::plans::{good, hostile, on_time, periods, within, Plan, END};
use crate::{MS, PPM, SEC};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 192,
        rng_seed: RngSeed::Fixed(42),
        ..ProptestConfig::default()
    }
}

/// Bandwidths, ppm: most are too large for two on one CPU.
fn shares() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 400_000..900_000u64, 1 => 20_000..400_000u64]
}

type Request = (u64, Plan);

fn requests(plan: impl Strategy<Value = Plan>, most: usize) -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec((shares(), plan), 1..most)
}

fn runtime((share, plan): &Request) -> u64 {
    (plan.period * share / PPM).max(200_000)
}

/// Admits those `requests` that fit on `cpus` CPUs and runs them. The first `n` requests have jobs
/// within their Q, the others hostile bursts. Returns the machine, the admitted requests, and how
/// many of these were among the first `n`.
fn run(
    cpus: usize,
    requests: &[Request],
    n: usize,
    reclaim: bool,
) -> (Machine, Vec<Request>, usize) {
    let mut rosters = vec![Roster::default(); cpus];
    let (mut tasks, mut admitted, mut good) = (Vec::new(), Vec::new(), 0);
    for (i, request) in requests.iter().enumerate() {
        let (q, plan) = (runtime(request), &request.1);
        let Some(split) = place(&mut rosters, PPM, i as u64, q, plan.period) else {
            continue;
        };
        good += usize::from(i < n);
        let bursts = if i < n {
            plan.jobs(q)
        } else {
            plan.hostile_bursts(q)
        };
        tasks.push(Task::new(split, plan.period, bursts));
        admitted.push(request.clone());
    }
    let mut machine = Machine::new(cpus, tasks);
    machine.reclaim = reclaim;
    machine.run(END);
    (machine, admitted, good)
}

/// All periods that a spec may have: 1 ms to 10 s.
fn any_period() -> impl Strategy<Value = u64> {
    prop_oneof![2 => periods(), 1 => MS..=10 * SEC]
}

/// Checks theorems 2 and 3 for one task.
fn got_its_own(task: &Task) -> Result<(), TestCaseError> {
    prop_assert_eq!(
        task.trace.left_over,
        0,
        "budget left at the end of a window"
    );
    for &(start, deadline, budget) in &task.wanting {
        let ran = within(&task.trace.runs, start, deadline);
        let slept = within(&task.trace.sleeps, start, deadline);
        prop_assert!(
            ran + slept >= budget,
            "{} of {} from {} to {}, slept {}",
            ran,
            budget,
            start,
            deadline,
            slept
        );
    }
    let mut places = [&task.trace.runs[..], &task.trace.draws].concat();
    places.sort();
    for pair in places.windows(2) {
        prop_assert!(pair[0].1 <= pair[1].0, "at two places at once: {:?}", pair);
    }
    let parts = task.split.parts as usize;
    prop_assert!(task
        .cpus
        .iter()
        .all(|c| task.split.cpu[..parts].contains(c)));
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// Theorem 1, and also 2 and 3. Some tasks do their jobs, others sleep and overrun at random.
    /// With `reclaim`, what tasks leave of their budgets is lent to others (fcbs.h).
    #[test]
    fn an_admitted_task_misses_no_deadline(cpus in 2usize..5, jobs in requests(good(), 7), hostile_bursts in requests(hostile(), 4),
                                            reclaim: bool) {
        let n = jobs.len();
        let mut requests = jobs;
        requests.extend(hostile_bursts);
        let (machine, admitted, good) = run(cpus, &requests, n, reclaim);
        for (task, request) in machine.tasks.iter().zip(&admitted).take(good) {
            on_time(&task.trace, &request.1, &request.1.jobs(runtime(request)), machine.now)?;
        }
        for task in &machine.tasks {
            got_its_own(task)?;
        }
        let used: u64 = machine.banks.iter().map(|b| b.used).sum();
        prop_assert!(used + machine.returned <= machine.lent);
    }

    /// Theorem 4: at any length the assumed demand is at least the staircase of the guarantee, and
    /// at most the straight line on top of it.
    #[test]
    fn the_demand_of_admission_is_an_upper_bound(period in any_period(), n in 1u64..9, share in 1..=PPM, length in 0..100 * PPM,
                                         near in prop::option::of(-2i64..3)) {
        let window = period / n;
        let runtime = (window * share / PPM).max(1);
        let mut length = period * length / PPM;
        if let Some(ns) = near { // near a step
            length = (length / period * period + window).saturating_add_signed(ns);
        }
        let m = Member { runtime, window, period, slot: 0 };
        let exact = if length < window { 0 } else { ((length - window) / period + 1) * runtime };
        prop_assert!(m.demand(length) >= exact, "{} of {exact}", m.demand(length));
        let line = if length < window { 0 } else {
            u128::from(runtime) * u128::from(period + length - window) / u128::from(period)
        };
        let rounding = runtime / (period / 1000) * 2 + 2; // 1 us of the period, and whole ns
        prop_assert!(u128::from(m.demand(length)) <= line + u128::from(rounding), "{} above {line}", m.demand(length));
    }

    /// If each guarantee is within the room, the exact demand is within the time at every step.
    #[test]
    fn room_is_never_too_much(offers in prop::collection::vec((any_period(), 1u64..9, 1..=PPM), 1..MEMBERS),
                              most in prop_oneof![Just(PPM), PPM / 2..PPM]) {
        let mut roster = Roster::default();
        for (slot, &(period, n, part)) in offers.iter().enumerate() {
            let room = roster.room(period, period / n, most);
            prop_assert!(room <= period / n);
            // often all of the room
            roster.join(slot as u64, room * (2 * part).min(PPM) / PPM, period / n, period);
        }
        let members = &roster.member[..roster.members as usize];
        let demand = |l: u64| -> u64 {
            let due = members.iter().filter(|m| m.window <= l);
            due.map(|m| ((l - m.window) / m.period + 1) * m.runtime).sum()
        };
        for m in members {
            for l in (0..60).map(|k| m.window + k * m.period) {
                prop_assert!(demand(l) <= l / 1000 * most / 1000 + 1000, "{} in {l} ns", demand(l));
            }
        }
        prop_assert!(roster.promised() <= most + offers.len() as u64);
    }

    /// Whole periods: a task that fits by bandwidth is admitted, except for rounding of up to 1 ppm
    /// for each task.
    #[test]
    fn whole_periods_fill_the_cpu(
        members in prop::collection::vec((any_period(), 1..PPM), 1..MEMBERS),
        period in any_period(),
    ) {
        let mut roster = Roster::default();
        let sum: u64 = members.iter().map(|m| m.1).sum();
        for (slot, &(period, weight)) in members.iter().enumerate() {
            roster.join(slot as u64, period * weight / sum * 9 / 10, period, period);
        }
        let room = bandwidth(roster.room(period, period, PPM), period);
        prop_assert!(room + MEMBERS as u64 + PPM * 1000 / period >= PPM / 10, "{room} ppm of a tenth");
    }

    /// Placement: the parts add up to the whole, each is on another CPU, and none exceeds its
    /// offer.
    #[test]
    fn offers_make_a_whole(
        rooms in prop::collection::vec(0..20 * MS, 2..12),
        n in 2usize..=8,
        runtime in 1..100 * MS,
    ) {
        let mut split = Split::default();
        for (cpu, &room) in rooms.iter().enumerate() {
            split.offer(n as u32, cpu as i32, room);
        }
        let mut sorted: Vec<u64> = rooms.iter().copied().filter(|&r| r >= least_ns()).collect();
        sorted.sort_by(|a, b| b.cmp(a));
        sorted.truncate(n);
        prop_assert_eq!(&split.runtime[..split.parts as usize], &sorted[..]);
        let enough = sorted.len() == n && sorted.iter().sum::<u64>() >= runtime;
        prop_assert_eq!(split.complete(n as u32, runtime), enough);
        if enough {
            let mut cpus = split.cpu[..n].to_vec();
            prop_assert!(split.runtime[..n].iter().zip(&cpus).all(|(&r, &c)| r <= rooms[c as usize]));
            prop_assert_eq!(split.runtime[..n].iter().sum::<u64>(), runtime);
            cpus.sort();
            cpus.dedup();
            prop_assert_eq!(cpus.len(), n);
        }
    }
}
