//! Servers, FCBS and EDF-WMR in the scheduler (their theorems are tests of crates/policy).

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::cgroups::{script, start_in};
use super::{reserve, MS, SEC};
use crate::workload::{hog, Jobs, Periodic};
use crate::{CpuMask, Place, Reservation, ServerPolicy, Settings, Simulation, Step, TaskId, ROOT};

fn machine(cpus: usize, server: ServerPolicy) -> Simulation {
    Simulation::new(Settings {
        cpus,
        server,
        checked: true,
        ..Settings::default()
    })
}

/// A machine on which all of each CPU may be reserved.
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
fn a_hard_server_gets_no_more_than_its_budget_even_on_an_idle_machine() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus, ServerPolicy::CbsHard);
        sim.spec(7, reserve(6 * MS, 30 * MS));
        let id = sim.start(hog(7));
        sim.run_until(SEC);
        let ppm = share_ppm(&mut sim, id, 30);
        assert!((199_000..201_000).contains(&ppm), "{cpus} CPUs: {ppm}");
    }
}

/// A deferred server works for 3 ms at a time, 15 % of a CPU. A task that wakes up has the CPU
/// before it, however often that is.
#[test]
fn a_deferred_server_does_not_go_before_a_task_that_wakes_up() {
    for cpus in [1, 2] {
        let worst = |server| {
            let mut sim = machine(cpus, server);
            sim.spec(7, reserve(5 * MS, 50 * MS));
            for cpu in 0..cpus {
                // never at the same time as the other one, which would be a tie
                let (task, _) = Periodic::new(7, 3 * MS, 20 * MS, SEC + 7 * MS / 10);
                sim.start_with(100, CpuMask::only(cpu), Box::new(task));
            }
            for _ in 0..cpus {
                sim.start(hog(0));
            }
            let (_, jobs) = periodic(&mut sim, 0, MS / 20, 49 * MS / 3, SEC);
            sim.run_until(21 * SEC);
            let jobs = jobs.borrow();
            *jobs.response.iter().skip(10).max().unwrap()
        };
        let (redline, deferred) = (worst(ServerPolicy::Redline), worst(ServerPolicy::Deferred));
        println!("{cpus} CPUs: redline {redline} ns, deferred {deferred} ns");
        assert!(redline > 2 * MS, "{redline} ns: the test shows nothing");
        assert!(
            deferred <= 11 * MS / 10,
            "{deferred} ns: more than a turn of 1 ms"
        );
    }
}

/// Where it does not get the CPU as best-effort work, a deferred server has its time by right in
/// the rest of its period.
#[test]
fn a_deferred_server_has_its_time_beside_any_load() {
    for cpus in [1, 2] {
        let mut sim = machine(cpus, ServerPolicy::Deferred);
        sim.spec(7, reserve(5 * MS, 50 * MS));
        let (task, jobs) = Periodic::new(7, 5 * MS, 51 * MS, SEC);
        sim.start_with(2, CpuMask::first(cpus), Box::new(task));
        for _ in 0..50 * cpus {
            sim.start(hog(0));
        }
        sim.run_until(21 * SEC);
        let jobs = jobs.borrow();
        let (least, most) = (jobs.response.iter().min(), jobs.response.iter().max());
        println!("{cpus} CPUs: {least:?} to {most:?} ns");
        assert!(jobs.response.len() > 380);
        assert!(*most.unwrap() <= 16 * MS, "{most:?} ns");
    }
}

/// A task that ran while no other was runnable has no debt to tasks that start later: from then on
/// it has half of the CPU, on its budget or not.
#[test]
fn a_task_that_ran_alone_has_no_debt_to_new_tasks() {
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
fn a_soft_server_runs_before_best_effort_work_without_a_limit() {
    let mut sim = machine(1, ServerPolicy::CbsSoft);
    sim.spec(7, reserve(6 * MS, 30 * MS));
    sim.start(hog(0));
    let id = sim.start(hog(7));
    sim.run_until(SEC);
    let ppm = share_ppm(&mut sim, id, 30);
    assert!((880_000..902_000).contains(&ppm), "{ppm}: all but a tenth");
}

/// Light tasks are packed on few CPUs, heavy tasks have CPUs of their own. By worst-fit for all
/// tasks the light ones would be on three CPUs, and no heavy one would fit.
#[test]
fn light_reservations_leave_room_for_heavy_ones() {
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

/// Two CPUs of which 95 % may be reserved, with four hogs.
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

/// Neither hogs nor guaranteed tasks that use their whole budgets prevent the next guarantee.
#[test]
fn a_guarantee_is_given_beside_busy_loops() {
    let mut sim = beside_loops();
    for ino in 1..=3 {
        sim.spec(ino, guaranteed(25 * MS, 41 * MS));
        let id = sim.start(hog(ino));
        sim.run_until(ino * 10 * SEC);
        assert_eq!(sim.server(id).map(|(state, _)| state), Some(1), "{ino}");
    }
}

/// Three for two CPUs, of which a third is split: as many fit on 16 CPUs as on 4, for each CPU.
#[test]
fn as_many_guarantees_fit_on_many_cpus() {
    for cpus in [4, 6, 8, 16] {
        let mut sim = whole_machine(cpus);
        for ino in 1..=cpus as u64 * 3 / 2 {
            sim.spec(ino, guaranteed(25 * MS, 41 * MS));
            let id = sim.start(hog(ino));
            sim.run_until(ino * 100 * MS);
            let state = sim.server(id).map(|(state, _)| state);
            assert_eq!(state, Some(1), "{ino} on {cpus} CPUs");
        }
    }
}

/// Guarantees of all that may be reserved, beside hogs that get the rest: no deadline is missed.
#[test]
fn best_effort_work_breaks_no_guarantee() {
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

/// The server policy of a spec takes precedence over the machine's.
#[test]
fn a_spec_may_name_its_server() {
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

/// A movie with some heavy frames, beside a movie that leaves half of its budget, and 20 hogs.
/// Returns the worst response time of the heavy movie, ns.
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

/// Frames of 8 ms, each tenth one of 16 ms.
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
fn a_heavy_frame_runs_on_the_budget_that_the_light_movie_leaves() {
    let (redline, light_redline) = heavy_beside_light(ServerPolicy::Redline);
    let (fcbs, light_fcbs) = heavy_beside_light(ServerPolicy::Fcbs);
    assert_eq!((light_redline, light_fcbs), (0, 0));
    assert!(
        redline > 40 * MS,
        "alone it waits for its next period: {redline}"
    );
    assert!(
        fcbs < 22 * MS,
        "16 ms of its work and 3 ms of the other movie's: {fcbs}"
    );
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
fn a_guarantee_that_does_not_fit_is_refused() {
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
fn the_guarantee_of_an_exited_task_is_available_again() {
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
        assert_eq!(sim.reported(13), round + 1, "guaranteed, task {id}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// A guaranteed task, split or not, misses no deadline beside best-effort tasks.
    #[test]
    fn a_guaranteed_task_misses_no_deadline(
        cpus in 2usize..5,
        hogs in 0usize..6,
        sets in prop::collection::vec(
            (100_000u64..1_000_000, 2_000u64..100_000, 0u64..50_000),
            3..14,
        ),
    ) {
        let mut sim = whole_machine(cpus);
        (0..hogs).for_each(|_| { sim.start(hog(0)); });
        let mut movies = Vec::new();
        for (ino, &(ppm, period_us, offset_us)) in (1..).zip(&sets) {
            let period = period_us * 1000;
            let runtime = period / 1000 * ppm / 1000;
            sim.spec(ino, guaranteed(runtime, period));
            // kicks take 1 us each; a job is preempted several times, and migrates up to 8 times
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

/// A program gets its server while it waits beside 12 hogs: it runs at once, not when its turn as a
/// best-effort task comes.
#[test]
fn a_task_that_waits_when_it_gets_its_server_runs_by_right() {
    let mut sim = machine(1, ServerPolicy::Fcbs);
    (0..12).for_each(|_| {
        sim.start(hog(0));
    });
    sim.run_until(SEC);
    let late = sim.start(hog(0));
    sim.run_until(SEC + MS / 2);
    assert_eq!(sim.ran(late), 0, "it waits for its turn");
    sim.reserve(late, reserve(5 * MS, 20 * MS));
    sim.run_until(SEC + 7 * MS);
    assert!(sim.ran(late) >= 5 * MS, "{}", sim.ran(late));
}

/// `aplomb set --clear` on a throttled program: only the governor can end its wait.
#[test]
fn a_throttled_task_runs_again_after_its_reservation_is_cleared() {
    let mut sim = machine(1, ServerPolicy::CbsHard);
    sim.spec(7, reserve(20 * MS, 8 * SEC));
    let id = sim.start(hog(7));
    sim.run_until(SEC);
    assert!(sim.ran(id) < 25 * MS, "throttled: {}", sim.ran(id));
    sim.clear_reservation(id);
    // from now on its slot, and the slot's timer, may belong to another task
    sim.spec(9, reserve(MS, 9 * SEC));
    sim.start(hog(9));
    sim.run_until(4 * SEC);
    assert!(
        sim.ran(id) > SEC,
        "it runs again within a second: {}",
        sim.ran(id)
    );
}

/// A task that exits may need long, for it frees its memory. Without SCX_OPS_ENQ_EXITING two of
/// them on a CPU take turns in its local queue, and no other task runs.
#[test]
fn tasks_that_exit_harm_no_deadline() {
    for spec in [0, 8] {
        let mut sim = machine(1, ServerPolicy::Fcbs);
        sim.spec(7, reserve(6 * MS, 30 * MS));
        sim.spec(8, reserve(3 * MS, 30 * MS));
        let (_, jobs) = periodic(&mut sim, 7, 5 * MS, 30 * MS, 0);
        let steps = [
            Step::Exec(spec),
            Step::Run(SEC / 4),
            Step::BeginExit,
            Step::Run(SEC / 4),
        ];
        let ends: Vec<_> = (0..4).map(|_| sim.start(script(steps.to_vec()))).collect();
        sim.run_until(5 * SEC);
        assert!(ends.iter().all(|&id| sim.place(id) == Place::Exited));
        assert_eq!(jobs.borrow().missed, 0);
    }
}
