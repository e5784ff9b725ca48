//! The kernel's part by itself: which callbacks in which order, and what tasks can do and have done to them.

use crate::calls::noted::{calls, STAND_IN};
use crate::kfuncs;
use crate::workload::{hog, on_off};
use crate::{Change, CpuMask, Place, Program, Settings, Simulation, Step, TaskId};

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;

fn machine(cpus: usize) -> Simulation {
    STAND_IN.with(|s| *s.borrow_mut() = Some(leave_to_the_kernel));
    Simulation::new(Settings {
        cpus,
        checked: true,
        traced: true,
        ..Settings::default()
    })
}

/// The least that a scheduler has to do when a CPU leaves: whatever waits in its queues is the kernel's to push
/// away.
pub(super) fn leave_to_the_kernel(cpu: usize, comes: bool) {
    const LOCAL_ON: u64 = 1 << 63 | 1 << 62;
    if comes {
        return;
    }
    for queue in [0x1_0000, 0x2_0000] {
        kfuncs::move_all(queue + cpu as u64, LOCAL_ON | cpu as u64);
    }
}

fn only(sim: &mut Simulation, id: TaskId, cpu: usize) -> bool {
    sim.change(Change::Affinity(id, CpuMask::only(cpu)))
}

/// A behaviour that is over after some steps.
fn script(steps: Vec<Step>) -> impl Program {
    let mut steps = steps.into_iter();
    move |_now: u64, _ran: u64| steps.next().unwrap_or(Step::Exit)
}

#[test]
fn a_wake_up_asks_for_a_cpu_and_queues() {
    let mut sim = machine(2);
    let hogs = [sim.start(hog(0)), sim.start(hog(0))];
    let pinned = CpuMask::only(0);
    sim.run_until(MS);
    let made = |sim: &mut Simulation, allowed| {
        let steps = vec![Step::SleepUntil(10 * MS), Step::Run(MS)];
        sim.start_with(100, allowed, Box::new(script(steps)))
    };
    let calls_of = |sim: &mut Simulation, id| -> Vec<&str> {
        let all = calls(|| sim.run_until(sim.now() + 100 * MS));
        let own = all
            .into_iter()
            .filter(|&(name, of)| of == id && name != "dispatch");
        own.map(|(name, _)| name).collect()
    };
    let free = made(&mut sim, CpuMask::first(2));
    assert_eq!(
        calls_of(&mut sim, free),
        ["select_cpu", "enqueue", "running", "stopping", "exit_task"]
    );
    let tied = made(&mut sim, pinned);
    let began = calls_of(&mut sim, tied);
    // it was enqueued when it was made, since its sleep was over then: new tasks are asked for no CPU twice
    assert_eq!(began, ["running", "stopping", "exit_task"]);
    assert!(hogs.iter().all(|&id| sim.ran(id) > 90 * MS));
}

#[test]
fn a_fork_is_announced_and_woken() {
    let mut sim = machine(1);
    let parent = script(vec![Step::Run(MS), Step::Fork(0), Step::Run(MS)]);
    let parent = sim.start(parent);
    let child = parent + 1;
    let all = calls(|| sim.run_until(SEC));
    let child: Vec<_> = all
        .iter()
        .filter(|c| c.1 == child && c.0 != "dispatch")
        .collect();
    let names: Vec<_> = child.iter().map(|c| c.0).collect();
    assert_eq!(
        names,
        [
            "init_task",
            "enable",
            "enqueue",
            "running",
            "stopping",
            "exit_task"
        ]
    );
}

#[test]
fn affinity_of_a_sleeper_is_only_told() {
    let mut sim = machine(2);
    let id = sim.start(script(vec![Step::SleepUntil(SEC), Step::Run(MS)]));
    let all = calls(|| assert!(only(&mut sim, id, 1)));
    assert_eq!(all, [("set_cpumask", id)]);
    sim.run_until(SEC + MS / 2);
    assert_eq!(sim.place(id), Place::Running(1));
}

#[test]
fn affinity_of_a_queued_task_queues_it_again_and_moves_it() {
    let mut sim = machine(2);
    let ids: Vec<_> = (0..3).map(|_| sim.start(hog(0))).collect();
    sim.run_until(10 * MS);
    let queued = |sim: &Simulation, id| matches!(sim.place(id), Place::Queue(_));
    let id = *ids.iter().find(|&&id| queued(&sim, id)).unwrap();
    let of_it = |all: Vec<(&'static str, usize)>| -> Vec<_> {
        all.into_iter().filter(|c| c.1 == id).map(|c| c.0).collect()
    };
    let first = of_it(calls(|| assert!(only(&mut sim, id, 0))));
    let second = of_it(calls(|| assert!(only(&mut sim, id, 1))));
    // on one of the two it was already
    let mut both = [first, second];
    both.sort_by_key(Vec::len);
    assert_eq!(both[1], ["set_cpumask", "enqueue", "enqueue"]);
    sim.run_until(SEC);
    assert!(only(&mut sim, id, 1));
    assert!(
        !sim.change(Change::Affinity(id, CpuMask::first(0))),
        "no CPU"
    );
}

#[test]
fn a_running_task_is_moved_off_a_cpu_that_it_may_no_longer_use() {
    let mut sim = machine(2);
    let id = sim.start(hog(0));
    sim.run_until(10 * MS);
    let Place::Running(cpu) = sim.place(id) else {
        panic!("it runs")
    };
    let all = calls(|| assert!(only(&mut sim, id, 1 - cpu)));
    let names: Vec<_> = all.iter().map(|c| c.0).collect();
    assert_eq!(
        names,
        ["stopping", "set_cpumask", "running", "stopping", "enqueue"]
    );
    sim.run_until(11 * MS);
    assert_eq!(sim.place(id), Place::Running(1 - cpu));
    assert_eq!(sim.migrations(id), 1);
    assert_eq!(sim.ran(id), 11 * MS, "at once");
}

#[test]
fn weight_counts_from_now_on() {
    let mut sim = machine(1);
    let ids = [sim.start(hog(0)), sim.start(hog(0))];
    sim.run_until(SEC);
    let before: Vec<_> = ids.iter().map(|&id| sim.ran(id)).collect();
    for id in ids {
        let runs = matches!(sim.place(id), Place::Running(_));
        let weight = if id == ids[0] { 300 } else { 100 };
        let all = calls(|| assert!(sim.change(Change::Weight(id, weight))));
        let names: Vec<_> = all.iter().map(|c| c.0).collect();
        assert_eq!(
            names,
            if runs {
                vec!["stopping", "running"]
            } else {
                vec!["enqueue"]
            }
        );
    }
    sim.run_until(11 * SEC);
    let ran = |i: usize| (sim.ran(ids[i]) - before[i]) as f64;
    let share = ran(0) / ran(1);
    assert!((2.9..3.1).contains(&share), "{share}");
}

#[test]
fn who_yields_lets_others_go_first() {
    let mut sim = machine(1);
    let yields = |_now: u64, ran: u64| {
        if ran % 2 == 0 {
            Step::Run(1)
        } else {
            Step::Run(MS)
        }
    };
    let mut turn = false;
    let polite = move |_now: u64, _ran: u64| {
        turn = !turn;
        if turn {
            Step::Run(MS)
        } else {
            Step::Yield
        }
    };
    let polite = sim.start(polite);
    let other = sim.start(yields);
    sim.run_until(SEC);
    // slices are 4 ms; it gives them up after one
    let turns = sim
        .trace()
        .iter()
        .filter(|s| s.task == Some(polite))
        .count();
    assert!(turns > 50, "{turns}");
    assert!(sim.ran(polite).abs_diff(sim.ran(other)) < 20 * MS);
}

#[test]
fn a_pipe_wakes_its_reader_and_forgets_nothing() {
    let mut sim = machine(1);
    // the reader waits twice, and is written to twice before it first does
    let reader = sim.start(script(vec![
        Step::SleepUntil(5 * MS),
        Step::Wait,
        Step::Wait,
        Step::Run(MS),
        Step::Wait,
        Step::Run(MS),
    ]));
    let wake = Step::Wake(reader);
    let steps = vec![
        Step::Run(MS),
        wake.clone(),
        wake.clone(),
        Step::SleepUntil(20 * MS),
        wake,
    ];
    sim.start(script(steps));
    sim.run_until(10 * MS);
    assert_eq!((sim.ran(reader), sim.place(reader)), (MS, Place::Asleep));
    sim.run_until(30 * MS);
    assert_eq!((sim.ran(reader), sim.place(reader)), (2 * MS, Place::Gone));
}

/// Executes a program with a spec, then starts threads like itself.
struct Threaded {
    steps: Vec<Step>,
}

impl Program for Threaded {
    fn next(&mut self, _now: u64, _ran: u64) -> Step {
        self.steps.pop().unwrap_or(Step::Run(SEC))
    }

    fn child(&mut self, _which: u64) -> Box<dyn Program> {
        Box::new(hog(0))
    }
}

fn threaded(last: Vec<Step>) -> Threaded {
    let first = [
        Step::Exec(7),
        Step::Run(MS),
        Step::Thread(0),
        Step::Thread(0),
    ];
    let mut steps: Vec<_> = first.into_iter().chain(last).collect();
    steps.reverse();
    Threaded { steps }
}

#[test]
fn threads_draw_on_one_server() {
    let mut sim = machine(1);
    sim.spec(7, super::reserve(6 * MS, 30 * MS));
    let leader = sim.start(threaded(vec![]));
    sim.run_until(SEC);
    for _ in 0..20 {
        sim.start(hog(0));
    }
    sim.run_until(2 * SEC);
    let before = sim.server(leader).unwrap().1;
    sim.run_until(32 * SEC);
    let (state, served) = sim.server(leader).unwrap();
    let threads: Vec<_> = (0..sim.tasks())
        .filter(|&id| sim.server(id).is_some())
        .collect();
    assert_eq!(threads.len(), 3);
    assert!(threads
        .iter()
        .all(|&id| sim.server(id) == Some((state, served))));
    let ppm = (served - before) / (30 * SEC / 1_000_000);
    assert!(
        (199_000..201_000).contains(&ppm),
        "all of them together: {ppm}"
    );
}

#[test]
fn a_process_ends_with_its_threads() {
    let mut sim = machine(2);
    sim.spec(7, super::reserve(6 * MS, 30 * MS));
    let leader = sim.start(threaded(vec![Step::Run(100 * MS), Step::ExitGroup]));
    (0..3).for_each(|_| {
        sim.start(hog(0));
    });
    sim.run_until(50 * MS);
    let threads: Vec<_> = (0..sim.tasks())
        .filter(|&id| sim.server(id).is_some())
        .collect();
    assert_eq!(threads.len(), 3);
    sim.run_until(3 * SEC);
    assert!(
        threads.iter().all(|&id| sim.place(id) == Place::Gone),
        "{leader}"
    );
}

#[test]
fn a_signal_ends_a_task_wherever_it_is() {
    let mut sim = machine(1);
    let running = sim.start(hog(0));
    let asleep = sim.start(script(vec![Step::Run(1), Step::SleepUntil(100 * SEC)]));
    let waits = sim.start(script(vec![Step::Run(1), Step::Wait]));
    let queued = sim.start(hog(0));
    sim.run_until(10 * MS);
    let all = [running, asleep, waits, queued];
    let places: Vec<_> = all.iter().map(|&id| sim.place(id)).collect();
    assert_eq!(places[1..3], [Place::Asleep; 2]);
    let ran = sim.ran(running) + sim.ran(queued);
    assert!(all.iter().all(|&id| sim.change(Change::Kill(id))));
    sim.run_until(11 * MS);
    assert!(all.iter().all(|&id| sim.place(id) == Place::Gone));
    assert_eq!(sim.ran(running) + sim.ran(queued), ran, "no time is used");
    assert!(!sim.change(Change::Kill(running)));
}

#[test]
fn a_cpu_that_leaves_takes_nothing_with_it() {
    let mut sim = machine(3);
    let free: Vec<_> = (0..5).map(|_| sim.start(hog(0))).collect();
    let tied = sim.start_with(100, CpuMask::only(1), Box::new(hog(0)));
    let sleeper = sim.start_with(100, CpuMask::only(1), Box::new(on_off(0, MS, 100 * MS)));
    sim.run_until(SEC);
    assert!(sim.change(Change::Offline(1)));
    assert!(!sim.change(Change::Offline(1)), "it has gone");
    let before: Vec<_> = free.iter().map(|&id| sim.ran(id)).collect();
    sim.run_until(3 * SEC);
    let on_it = |sim: &Simulation, from| {
        let switches = sim.trace().iter().filter(|s| s.at > from && s.cpu == 1);
        switches.filter(|s| s.task.is_some()).count()
    };
    assert_eq!(on_it(&sim, SEC), 0);
    // two CPUs, six hogs and a little
    for (&id, before) in free.iter().zip(before) {
        let ran = sim.ran(id) - before;
        assert!(ran > 600 * MS && ran < 720 * MS, "{ran}");
    }
    assert!(sim.ran(tied) > SEC, "its affinity is wider now");
    assert!(sim.ran(sleeper) > 20 * MS);
    assert!(sim.change(Change::Online(1)));
    sim.run_until(4 * SEC);
    assert!(on_it(&sim, 3 * SEC) > 0);
    assert!(sim.change(Change::Offline(0)) && sim.change(Change::Offline(2)));
    assert!(!sim.change(Change::Offline(1)), "the last one");
    sim.run_until(5 * SEC);
}

#[test]
fn the_scheduler_is_told_of_cpus_before_its_tasks_move() {
    let mut sim = machine(2);
    let id = sim.start_with(100, CpuMask::only(1), Box::new(hog(0)));
    sim.run_until(10 * MS);
    let all = calls(|| assert!(sim.change(Change::Offline(1))));
    let names: Vec<_> = all.iter().map(|c| c.0).collect();
    let kernels = [
        "stopping",
        "enqueue",
        "cpu_offline",
        "running",
        "stopping",
        "set_cpumask",
        "enqueue",
    ];
    assert_eq!(names, kernels);
    sim.run_until(20 * MS);
    assert_eq!(sim.place(id), Place::Running(0));
    assert_eq!(
        calls(|| assert!(sim.change(Change::Online(1)))),
        [("cpu_online", 1)]
    );
}

#[test]
fn without_callbacks_for_cpus_the_scheduler_would_end() {
    let mut sim = machine(2);
    if sim.knows_hotplug() {
        return;
    }
    STAND_IN.with(|s| *s.borrow_mut() = None);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        sim.change(Change::Offline(1));
    }));
    let why = ended.unwrap_err();
    let why = why.downcast_ref::<String>().unwrap();
    assert!(why.contains("the kernel would end the scheduler"), "{why}");
}
