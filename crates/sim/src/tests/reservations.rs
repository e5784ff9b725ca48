//! Server policies, FCBS and EDF-WMR in the scheduler itself (their theorems are in crates/policy).

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::cgroups::start_in;
use super::{reserve, MS, SEC};
use crate::workload::{hog, Jobs, Periodic};
use crate::{Reservation, ServerPolicy, Settings, Simulation, Step, TaskId, ROOT};

fn machine(cpus: usize, server: ServerPolicy) -> Simulation {
    Simulation::new(Settings {
        cpus,
        server,
        checked: true,
        ..Settings::default()
    })
}

/// All of each CPU may be promised.
fn whole_machine(cpus: usize) -> Simulation {
    Simulation::new(Settings {
        cpus,
        r_max_ppm: 1_000_000,
        r_hi_ppm: 1_000_000,
        checked: true,
        ..Settings::default()
    })
}

fn guaranteed(runtime: u64, period: u64) -> Reservation {
    Reservation {
        guaranteed: true,
        ..reserve(runtime, period)
    }
}

fn periodic(
    sim: &mut Simulation,
    ino: u64,
    work: u64,
    period: u64,
    first: u64,
) -> (TaskId, Rc<RefCell<Jobs>>) {
    let (task, jobs) = Periodic::new(ino, work, period, first);
    (sim.start(task), jobs)
}

fn share_ppm(sim: &mut Simulation, id: TaskId, seconds: u64) -> u64 {
    let (from, before) = (sim.now(), sim.ran(id));
    sim.run_until(from + seconds * SEC);
    (sim.ran(id) - before) / (seconds * SEC / 1_000_000)
}

#[test]
fn hard_is_never_more_even_on_an_idle_machine() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus, ServerPolicy::CbsHard);
        sim.spec(7, reserve(6 * MS, 30 * MS));
        let id = sim.start(hog(7));
        sim.run_until(SEC);
        let ppm = share_ppm(&mut sim, id, 30);
        assert!((199_000..201_000).contains(&ppm), "{cpus} CPUs: {ppm}");
    }
}

/// What it ran while nobody wanted the CPU is no debt to those who come: from then on it has its half, by right or not.
#[test]
fn who_ran_alone_owes_nothing_to_newcomers() {
    for domains in [false, true] {
        let mut sim = machine(1, ServerPolicy::Fcbs);
        sim.spec(7, reserve(5 * MS, 30 * MS));
        let mut group = |name| match domains {
            true => sim.create_cgroup(ROOT, name).unwrap(),
            false => ROOT,
        };
        let (a, b) = (group("a"), group("b"));
        let id = start_in(&mut sim, a, hog(7));
        sim.run_until(3 * SEC);
        start_in(&mut sim, b, hog(0));
        let before = sim.ran(id);
        sim.run_until(3 * SEC + 300 * MS);
        let ms = (sim.ran(id) - before) / MS;
        println!("domains: {domains}: {ms} of 300 ms");
        assert!((135..=165).contains(&ms), "domains: {domains}: {ms}");
    }
}

#[test]
fn soft_goes_before_best_effort_for_as_long_as_it_likes() {
    let mut sim = machine(1, ServerPolicy::CbsSoft);
    sim.spec(7, reserve(6 * MS, 30 * MS));
    sim.start(hog(0));
    let id = sim.start(hog(7));
    sim.run_until(SEC);
    let ppm = share_ppm(&mut sim, id, 30);
    assert!((880_000..902_000).contains(&ppm), "{ppm}: all but a tenth");
}

/// Light ones are packed, heavy ones have CPUs of their own; by worst-fit for all, the light ones would be on three
/// CPUs and neither heavy one would fit.
#[test]
fn light_ones_leave_room_for_heavy_ones() {
    let mut sim = whole_machine(3);
    let wanted = [(10, 40), (10, 50), (10, 100), (36, 40), (18, 20), (8, 20)];
    let mut started = Vec::new();
    for (ino, &(runtime, period)) in (1..).zip(&wanted) {
        sim.spec(ino, guaranteed(runtime * MS, period * MS));
        let work = runtime * MS - MS / 10; // kicks and timers take the rest
        let (id, jobs) = periodic(&mut sim, ino, work, period * MS, 100 * MS);
        sim.run_until(ino * MS);
        assert_eq!(sim.server(id).map(|(state, _)| state), Some(1), "{ino}");
        started.push((id, jobs));
    }
    sim.run_until(10 * SEC);
    for (id, jobs) in started {
        assert_eq!(
            jobs.borrow().missed,
            0,
            "{id}: {:?}",
            jobs.borrow().response.iter().max()
        );
    }
}

/// Two CPUs of which 95 % may be promised, and four that never stop.
fn beside_loops() -> Simulation {
    let mut sim = Simulation::new(Settings {
        cpus: 2,
        r_max_ppm: 950_000,
        checked: true,
        ..Settings::default()
    });
    for _ in 0..4 {
        sim.start(hog(0));
    }
    sim
}

/// Neither loops nor promises that are used whole stand in the way of the next promise.
#[test]
fn a_promise_is_made_beside_busy_loops() {
    let mut sim = beside_loops();
    for ino in 1..=3 {
        sim.spec(ino, guaranteed(25 * MS, 41 * MS));
        let id = sim.start(hog(ino));
        sim.run_until(ino * 10 * SEC);
        assert_eq!(sim.server(id).map(|(state, _)| state), Some(1), "{ino}");
    }
}

/// Promises of all that may be promised, beside busy loops that have their turns: no deadline is missed.
#[test]
fn turns_of_best_effort_work_break_no_promise() {
    for seed in 0..20 {
        let mut sim = beside_loops();
        let mut all = Vec::new();
        for ino in 1..=3 {
            sim.spec(ino, guaranteed(25 * MS, 41 * MS));
            let first = SEC + ino * seed * 2 * MS;
            let (id, jobs) = periodic(&mut sim, ino, 25 * MS - MS / 10, 41 * MS, first);
            sim.run_until(ino * 10 * MS);
            assert_eq!(sim.server(id).map(|(state, _)| state), Some(1), "{ino}");
            all.push(jobs);
        }
        sim.run_until(20 * SEC);
        let missed: Vec<_> = all.iter().map(|jobs| jobs.borrow().missed).collect();
        assert_eq!(missed, [0; 3], "{seed}");
    }
}

/// A policy of its own goes before the machine's.
#[test]
fn a_spec_chooses_its_policy() {
    let mut sim = machine(1, ServerPolicy::Fcbs);
    let policy = Some(ServerPolicy::CbsHard);
    sim.spec(
        7,
        Reservation {
            policy,
            ..reserve(6 * MS, 30 * MS)
        },
    );
    let id = sim.start(hog(7));
    sim.run_until(SEC);
    let ppm = share_ppm(&mut sim, id, 10);
    assert!((199_000..201_000).contains(&ppm), "{ppm}");
}

/// A movie with a heavy frame now and then, beside one that leaves half of its budget, and 20 that never stop:
/// the worst response of the heavy one, ns.
fn heavy_beside_light(server: ServerPolicy) -> (u64, u64) {
    let mut sim = machine(1, server);
    sim.spec(7, reserve(10 * MS, 40 * MS));
    sim.spec(8, reserve(12 * MS, 40 * MS));
    for _ in 0..20 {
        sim.start(hog(0));
    }
    let (_, light) = periodic(&mut sim, 8, 3 * MS, 40 * MS, SEC + 10 * MS);
    let mut frame = 0u64;
    let mut heavy = Heavy::default();
    sim.start(move |now: u64, _ran: u64| heavy.next(now, &mut frame));
    sim.run_until(61 * SEC);
    let missed = light.borrow().missed;
    (HEAVY_WORST.with(|w| w.replace(0)), missed)
}

thread_local! {
    static HEAVY_WORST: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Frames of 8 ms, each tenth of 16.
#[derive(Default)]
struct Heavy {
    begun: bool,
    busy: bool,
}

impl Heavy {
    fn next(&mut self, now: u64, frame: &mut u64) -> Step {
        if !std::mem::replace(&mut self.begun, true) {
            return Step::Exec(7);
        }
        let release = SEC + *frame * 40 * MS;
        if std::mem::take(&mut self.busy) {
            let response = now - release;
            HEAVY_WORST.with(|w| w.set(w.get().max(response)));
            *frame += 1;
            return Step::SleepUntil(SEC + *frame * 40 * MS);
        }
        if now < release {
            return Step::SleepUntil(release);
        }
        self.busy = true;
        Step::Run(if *frame % 10 == 9 { 16 * MS } else { 8 * MS })
    }
}

#[test]
fn a_heavy_frame_has_what_the_light_movie_left() {
    let (redline, light_redline) = heavy_beside_light(ServerPolicy::Redline);
    let (fcbs, light_fcbs) = heavy_beside_light(ServerPolicy::Fcbs);
    assert_eq!((light_redline, light_fcbs), (0, 0));
    assert!(
        redline > 40 * MS,
        "alone it waits for its next period: {redline}"
    );
    assert!(fcbs < 22 * MS, "16 ms of work and 3 of the other's: {fcbs}");
}

#[test]
fn the_third_movie_is_split_over_two_cpus() {
    let mut sim = whole_machine(2);
    sim.spec(7, guaranteed(25 * MS, 41 * MS));
    for _ in 0..4 {
        sim.start(hog(0));
    }
    sim.run_until(MS);
    let movies: Vec<_> = (0..3)
        .map(|i| periodic(&mut sim, 7, 24_900_000, 41 * MS, SEC + i * 7 * MS))
        .collect();
    sim.run_until(61 * SEC);
    for (id, jobs) in &movies {
        assert_eq!(sim.server(*id).map(|s| s.0), Some(1), "admitted");
        assert!(jobs.borrow().response.len() > 1400);
        assert_eq!(jobs.borrow().missed, 0);
    }
    let migrations: Vec<_> = movies.iter().map(|(id, _)| sim.migrations(*id)).collect();
    assert!(migrations[0] < 100 && migrations[1] < 100, "{migrations:?}");
    assert!(migrations[2] > 2000, "twice in each period: {migrations:?}");
}

#[test]
fn a_guarantee_that_fits_nowhere_is_refused() {
    let mut sim = whole_machine(2);
    sim.spec(7, guaranteed(25 * MS, 41 * MS));
    let movies: Vec<_> = (0..4)
        .map(|_| periodic(&mut sim, 7, 24 * MS, 41 * MS, SEC).0)
        .collect();
    sim.run_until(SEC);
    let admitted = movies
        .iter()
        .filter(|&&id| sim.server(id).map(|s| s.0) == Some(1));
    assert_eq!(admitted.count(), 3);
}

#[test]
fn what_is_promised_comes_back() {
    let mut sim = whole_machine(1);
    sim.spec(7, guaranteed(30 * MS, 40 * MS));
    for round in 0..50 {
        let mut step = 0;
        let id = sim.start(move |_: u64, _: u64| {
            step += 1;
            [Step::Exec(7), Step::Run(MS), Step::Exit][step - 1].clone()
        });
        let end = sim.now() + 10 * MS;
        sim.run_until(end);
        assert_eq!(sim.told(13), round + 1, "guaranteed, task {id}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Whatever was admitted as guaranteed misses nothing, among best-effort tasks, split or not.
    #[test]
    fn what_is_guaranteed_misses_nothing(
        cpus in 2usize..5,
        hogs in 0usize..6,
        sets in prop::collection::vec((100_000u64..1_000_000, 2_000u64..100_000, 0u64..50_000), 3..14),
    ) {
        let mut sim = whole_machine(cpus);
        (0..hogs).for_each(|_| { sim.start(hog(0)); });
        let mut movies = Vec::new();
        for (ino, &(ppm, period_us, offset_us)) in (1..).zip(&sets) {
            let period = period_us * 1000;
            let runtime = period / 1000 * ppm / 1000;
            sim.spec(ino, guaranteed(runtime, period));
            // kicks take 1 us each; a job is preempted a few times, and changes its CPU up to 8 times
            let work = runtime - 30_000;
            movies.push(periodic(&mut sim, ino, work, period, 100 * MS + offset_us * 1000));
        }
        sim.run_until(4 * SEC);
        for (id, jobs) in &movies {
            if sim.server(*id).map(|s| s.0) == Some(1) {
                prop_assert_eq!(jobs.borrow().missed, 0, "task {} of {:?}", id, sets);
            }
        }
    }
}

/// `aplomb set --clear` on a program that is throttled: nobody is left to end its wait but the governor.
#[test]
fn a_throttled_task_outlives_its_server() {
    let mut sim = machine(1, ServerPolicy::CbsHard);
    sim.spec(7, reserve(20 * MS, 8 * SEC));
    let id = sim.start(hog(7));
    sim.run_until(SEC);
    assert!(sim.ran(id) < 25 * MS, "throttled: {}", sim.ran(id));
    sim.take_away(id);
    // its slot, and with it its timer, are another's from now on
    sim.spec(9, reserve(MS, 9 * SEC));
    sim.start(hog(9));
    sim.run_until(4 * SEC);
    assert!(sim.ran(id) > SEC, "free within a second: {}", sim.ran(id));
}
