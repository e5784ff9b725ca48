//! Sharing: weighted round-robin and EEVDF.

use super::*;
use crate::model::{Eevdf, Wrr};
use crate::workload::on_off;

fn shares<P: Policy>(mut m: Model<P>, cpus: usize, weights: &[u32]) -> Vec<f64> {
    let all = CpuMask::first(cpus);
    let ids: Vec<_> = weights
        .iter()
        .map(|&w| m.start_with(w, all, Box::new(hog(0))))
        .collect();
    m.run_until(30 * SEC);
    let ran = ids.iter().map(|&id| m.ran(id) as f64 / (30 * SEC) as f64);
    ran.collect()
}

fn near(got: &[f64], want: &[f64], by: f64) {
    let close = got.iter().zip(want).all(|(g, w)| (g - w).abs() < by);
    assert!(close, "{got:?}, not {want:?}");
}

#[test]
fn one_cpu_is_shared_by_weight() {
    let weights = [300, 200, 100];
    let want = [3.0 / 6.0, 2.0 / 6.0, 1.0 / 6.0];
    near(
        &shares(machine(1, Wrr::default()), 1, &weights),
        &want,
        0.002,
    );
    near(
        &shares(machine(1, Eevdf::new(1)), 1, &weights),
        &want,
        0.001,
    );
}

#[test]
fn several_cpus_are_shared_among_equals() {
    let weights = [100; 6];
    near(
        &shares(machine(4, Wrr::default()), 4, &weights),
        &[4.0 / 6.0; 6],
        0.01,
    );
    near(
        &shares(machine(4, Eevdf::new(4)), 4, &weights),
        &[4.0 / 6.0; 6],
        0.05,
    );
    near(
        &shares(machine(4, Eevdf::new(4)), 4, &[100; 8]),
        &[0.5; 8],
        0.001,
    );
}

#[test]
fn extreme_weights_are_kept() {
    let got = shares(machine(1, Eevdf::new(1)), 1, &[8668, 1]);
    near(&got, &[8668.0 / 8669.0, 1.0 / 8669.0], 0.001);
    assert!(got[1] > 0.0);
}

/// A round of round-robin is the sum of the others' quanta.
#[test]
fn a_task_waits_for_a_whole_round_of_round_robin() {
    let mut m = machine(1, Wrr::default());
    (0..5).for_each(|_| {
        m.start(hog(0));
    });
    let (_, jobs) = periodic(&mut m, 1, MS, MS, 200 * MS);
    m.run_until(10 * SEC);
    let worst = jobs.borrow().response.iter().max().copied();
    assert!((45 * MS..=51 * MS).contains(&worst.unwrap()), "{worst:?}");
}

/// A request is served by its virtual deadline and one slice more (Stoica). For the first slice of
/// a task that wakes up among five tasks of its weight that is 7 slices of 0.75 ms.
#[test]
fn a_light_task_waits_for_few_slices_of_eevdf() {
    let mut m = machine(1, Eevdf::new(1));
    (0..5).for_each(|_| {
        m.start(hog(0));
    });
    let (_, jobs) = periodic(&mut m, 1, 700_000, MS, 40 * MS);
    m.run_until(10 * SEC);
    let worst = jobs.borrow().response.iter().max().copied();
    assert!(worst.unwrap() <= 7 * 750_000, "{worst:?}");
}

/// Lag is kept over a sleep, so that a long sleep does not give a claim to the whole machine.
#[test]
fn a_sleep_saves_no_more_than_two_slices() {
    let mut m = machine(1, Eevdf::new(1));
    let other = m.start(hog(0));
    let mut woken = false;
    let sleeper = m.start(move |now: u64, _: u64| {
        if std::mem::replace(&mut woken, true) && now >= 5 * SEC {
            Step::Run(SEC)
        } else {
            Step::SleepUntil(5 * SEC)
        }
    });
    m.run_until(5 * SEC);
    assert_eq!(m.ran(other), 5 * SEC);
    m.run_until(5 * SEC + 100 * MS);
    let (a, b) = (m.ran(other) - 5 * SEC, m.ran(sleeper));
    assert!(a.abs_diff(b) < 4 * MS, "{a} {b}");
}

/// They also get no less than they ask for, if that is less than their share.
#[test]
fn on_off_tasks_get_no_more_than_their_share_of_eevdf() {
    let mut m = machine(1, Eevdf::new(1));
    let hogs: Vec<_> = (0..3).map(|_| m.start(hog(0))).collect();
    let cheat = m.start(on_off(0, 700_000, 1_000));
    let light = m.start(on_off(0, MS, 19 * MS));
    m.run_until(30 * SEC);
    let share = |id| m.ran(id) as f64 / (30 * SEC) as f64;
    assert!(share(cheat) < share(hogs[0]) * 1.05, "{}", share(cheat));
    assert!(share(light) > 0.04, "{}", share(light));
}

#[test]
fn an_idle_cpu_pulls_a_task() {
    let mut m = machine(2, Eevdf::new(2));
    // three tasks on two CPUs, of which one exits
    let (a, b) = (m.start(hog(0)), m.start(hog(0)));
    let mut left = 10;
    m.start(move |_: u64, _: u64| {
        left -= 1;
        if left > 0 {
            Step::Run(10 * MS)
        } else {
            Step::Exit
        }
    });
    m.run_until(SEC);
    assert_eq!(m.ran(a) + m.ran(b), 2 * SEC - 90 * MS);
}
