//! FCBS under global EDF: an example of each rule, compared with soft CBS, and a property: no
//! reservation suffers.
//!
//! Times in examples are in ms after [`BEGIN`]. A task is (Q, P), and its only job (release, work).

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::rng::Rng;
use crate::workload::Arrivals;

type Example = [((u64, u64), (u64, u64))];

/// The completion time of each task's job.
fn done(server: Server, cpus: usize, tasks: &Example) -> Vec<u64> {
    let mut m = edf(cpus, Fit::Global, server);
    play(&mut m, tasks)
}

fn play(m: &mut impl Machine, tasks: &Example) -> Vec<u64> {
    play_on(m, tasks, |_| CpuMask::first(crate::MAX_CPUS))
}

/// Like [`play`], with the affinity `may`.
fn play_on(m: &mut impl Machine, tasks: &Example, may: impl Fn(u64) -> CpuMask) -> Vec<u64> {
    let mut times = Vec::new();
    for (ino, &((runtime, period), (release, work))) in (1..).zip(tasks) {
        m.reserve(ino, reservation(runtime * MS, period * MS));
        let mut steps = vec![
            Step::Run(work * MS),
            Step::SleepUntil(BEGIN + release * MS),
            Step::Exec(ino),
        ];
        let done = Rc::new(RefCell::new(0));
        times.push(Rc::clone(&done));
        let program = move |now: u64, _: u64| {
            steps.pop().unwrap_or_else(|| {
                *done.borrow_mut() = now.saturating_sub(BEGIN) / MS;
                Step::Wait
            })
        };
        m.start_with(100, may(ino), Box::new(program));
    }
    m.run_until(BEGIN + SEC);
    times.iter().map(|done| *done.borrow()).collect()
}

#[test]
fn rule_1_slack_goes_to_an_overrunning_job_before_the_waiting_one_with_the_next_deadline() {
    // when the second task leaves 3 ms with deadline 10, the first has used its 2 ms; the third has
    // deadline 12
    let tasks = [((2, 8), (0, 5)), ((5, 10), (0, 2)), ((2, 12), (0, 2))];
    assert_eq!(done(Server::Flexible, 1, &tasks), [7, 4, 9]);
    assert_eq!(done(Server::Soft, 1, &tasks), [9, 4, 6]);
}

#[test]
fn rule_1_the_earliest_of_several_overrunning_jobs_gets_slack_and_passes_on_the_rest() {
    let tasks = [
        ((1, 8), (0, 2)),
        ((1, 9), (0, 2)),
        ((5, 10), (0, 1)), // leaves 4 ms at 3; the first uses 1 ms of them, the second another
        ((1, 12), (0, 1)),
    ];
    assert_eq!(done(Server::Flexible, 1, &tasks), [4, 5, 3, 6]);
    assert_eq!(done(Server::Soft, 1, &tasks), [5, 6, 3, 4]);
}

#[test]
fn after_slack_a_job_has_its_own_budget_and_then_a_postponed_deadline() {
    let tasks = [
        ((2, 8), (0, 9)), // [0, 2), [4, 7) on slack, [9, 11) by 16, and [12, 14) by 24
        ((5, 10), (0, 2)),
        ((2, 12), (0, 2)), // [7, 9)
        ((1, 20), (0, 1)), // [11, 12)
    ];
    assert_eq!(done(Server::Flexible, 1, &tasks), [14, 4, 9, 12]);
}

#[test]
fn rule_2_slack_goes_to_the_waiting_job_with_the_earliest_deadline() {
    // 4 ms are left at 1; the second has 2 + 4, needs 4, and keeps its deadline
    let tasks = [((5, 10), (0, 1)), ((2, 12), (0, 4)), ((1, 14), (0, 1))];
    assert_eq!(done(Server::Flexible, 1, &tasks), [1, 5, 6]);
    assert_eq!(done(Server::Soft, 1, &tasks), [1, 6, 4]);
}

#[test]
fn rule_3_the_next_released_job_gets_the_slack_that_idle_time_leaves() {
    // 4 ms are left at 1, 2 of them at 3: enough for 1 + 2
    let tasks = [((5, 10), (0, 1)), ((1, 20), (3, 3)), ((1, 21), (3, 1))];
    assert_eq!(done(Server::Flexible, 1, &tasks), [1, 6, 7]);
    assert_eq!(done(Server::Soft, 1, &tasks), [1, 7, 5]);
    let late = [((5, 10), (0, 1)), ((1, 20), (4, 3)), ((1, 21), (4, 1))];
    assert_eq!(done(Server::Flexible, 1, &late), [1, 8, 7], "1 + 1 are not");
}

#[test]
fn rule_3_best_effort_work_counts_as_idle_time() {
    let mut m = edf(1, Fit::Global, Server::Flexible);
    start(&mut m, hog(0));
    let late = [((5, 10), (0, 1)), ((1, 20), (4, 3)), ((1, 21), (4, 1))];
    assert_eq!(play(&mut m, &late), [1, 8, 7]);
}

/// By the rules as printed, the second task would get the bonus with its own deadline of 11, and
/// the third task would miss its deadline of 12 by far.
#[test]
fn rule_3_a_job_with_an_earlier_deadline_gets_no_bonus() {
    let tasks = [((10, 100), (0, 1)), ((1, 10), (1, 20)), ((8, 10), (2, 8))];
    assert_eq!(done(Server::Flexible, 1, &tasks)[2], 10);
}

/// The overrunning job is on the other CPU. With slack it is not preempted by the jobs that are
/// released at 4.
#[test]
fn slack_goes_to_jobs_on_other_cpus() {
    let tasks = [
        ((2, 20), (0, 10)),
        ((9, 10), (0, 3)), // leaves 6 at 3
        ((4, 15), (4, 4)),
        ((4, 15), (4, 4)),
    ];
    assert_eq!(done(Server::Flexible, 2, &tasks), [10, 3, 8, 12]);
    assert_eq!(done(Server::Soft, 2, &tasks), [14, 3, 8, 8]);
}

/// 6 ms of slack with deadline 20 are left on CPU 0. On CPU 1 are an overrunning job with deadline
/// 16 and a waiting one with deadline 18. Either these jobs would get a later deadline, or the
/// slack an earlier one. So the next job, with deadline 30, gets the slack.
#[test]
fn jobs_with_earlier_deadlines_get_no_slack() {
    let tasks = [
        ((2, 8), (0, 6)),
        ((2, 18), (0, 2)),
        ((9, 20), (0, 3)),
        ((1, 30), (0, 3)),
        ((1, 31), (0, 1)),
    ];
    let mut m = edf(2, Fit::Global, Server::Flexible);
    let done = play_on(&mut m, &tasks, |ino| CpuMask::only((ino <= 2).into()));
    assert_eq!(done, [8, 6, 3, 6, 7]);
}

/// A task that runs and sleeps for random times, whatever it reserved.
fn mischief(ino: u64, seed: u64) -> impl crate::Program {
    let mut rng = Rng::new(seed);
    let (run, sleep) = (1 + rng.below(40 * MS), 1 + rng.below(40 * MS));
    let mut begun = false;
    move |now: u64, _: u64| {
        if !std::mem::replace(&mut begun, true) {
            Step::Exec(ino)
        } else if rng.below(2) == 0 {
            Step::Run(1 + rng.below(run))
        } else {
            Step::SleepUntil(now + 1 + rng.below(sleep))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// On one CPU that is reserved wholly, beside tasks with random behaviour: jobs within Q and at
    /// least P apart meet their deadlines. A task that never sleeps, if there is one, has k Q after
    /// k P.
    #[test]
    fn each_task_gets_q_in_every_p(seed: u64, fine in 1u64..4, wild in 1u64..4, endless: bool) {
        let mut rng = Rng::new(seed);
        let mut m = edf(1, Fit::Global, Server::Flexible);
        let each = 1_000_000 / (fine + wild + u64::from(endless)); // ppm
        let reserve = |m: &mut Model<Edf>, rng: &mut Rng, ino| {
            let period = MS * (2 + rng.below(60));
            let runtime = period / 1_000_000 * each;
            m.reserve(ino, reservation(runtime, period));
            (runtime, period)
        };
        let mut noted = Vec::new();
        for ino in 1..=fine {
            let (runtime, period) = reserve(&mut m, &mut rng, ino);
            let extra = rng.below(2) * rng.below(period);
            let own = Rng::new(seed ^ ino);
            let arrivals = Arrivals { extra, rng: own, ..Arrivals::periodic(period) };
            let work = runtime - rng.below(2) * rng.below(runtime);
            let (task, jobs) = Periodic::arriving(ino, work, BEGIN, arrivals);
            start(&mut m, task);
            noted.push(jobs);
        }
        let (runtime, period) = reserve(&mut m, &mut rng, 100);
        let awake = endless.then(|| greedy(&mut m, 100, runtime, period));
        m.run_until(MS); // the tasks exec as best-effort work, so before reserved tasks run
        for ino in fine + 1..=fine + wild {
            reserve(&mut m, &mut rng, ino);
            start(&mut m, mischief(ino, rng.next_u64()));
        }
        for k in 1..=3 * SEC / period {
            m.run_until(BEGIN + k * period);
            let ran = awake.map_or(u64::MAX, |id| m.ran(id));
            prop_assert!(ran >= k * runtime, "{ran} of {k} times {runtime}");
        }
        for (ino, jobs) in noted.iter().enumerate() {
            prop_assert!(!jobs.borrow().late(BEGIN + 3 * SEC / period * period), "{ino} missed");
        }
    }
}
