//! The simulated kernel: the order of callbacks, the steps of tasks, and changes from outside.

use crate::calls::recorded::{calls, STAND_IN};
use crate::kfuncs;
use crate::workload::{hog, on_off};
use crate::{Change, CpuMask, Place, Program, Settings, Simulation, Step, TaskId, SCHED_IDLE};

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

/// The least that a scheduler has to do when a CPU goes offline: it gives the tasks in the CPU's
/// queues to the kernel, which migrates them.
pub(super) fn leave_to_the_kernel(cpu: usize, comes: bool) {
    let local = crate::Numbers::default().dsq_local_on;
    if comes {
        return;
    }
    for queue in [0x1_0000, 0x2_0000] {
        kfuncs::queues::move_all(queue + cpu as u64, local | cpu as u64);
    }
}

fn only(sim: &mut Simulation, id: TaskId, cpu: usize) -> bool {
    sim.change(Change::Affinity(id, CpuMask::only(cpu)))
}

/// A program that makes these steps, then exits.
fn script(steps: Vec<Step>) -> impl Program {
    let mut steps = steps.into_iter();
    move |_now: u64, _ran: u64| steps.next().unwrap_or(Step::Exit)
}

#[test]
fn a_wake_up_calls_select_cpu_then_enqueue() {
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
    let pinned = made(&mut sim, pinned);
    let began = calls_of(&mut sim, pinned);
    // it was enqueued when it was started, because its sleep was over then; select_cpu is called
    // once
    assert_eq!(began, ["running", "stopping", "exit_task"]);
    assert!(hogs.iter().all(|&id| sim.ran(id) > 90 * MS));
}

#[test]
fn a_fork_calls_init_task_and_enable_and_wakes_the_child() {
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
fn a_new_affinity_of_a_sleeping_task_calls_set_cpumask_only() {
    let mut sim = machine(2);
    let id = sim.start(script(vec![Step::SleepUntil(SEC), Step::Run(MS)]));
    let all = calls(|| assert!(only(&mut sim, id, 1)));
    assert_eq!(all, [("set_cpumask", id)]);
    sim.run_until(SEC + MS / 2);
    assert_eq!(sim.place(id), Place::Running(1));
}

#[test]
fn a_new_affinity_of_a_waiting_task_enqueues_it_again_and_migrates_it() {
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
    // the task was on one of the two CPUs already, so one of the changes did not migrate it
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
fn a_running_task_leaves_a_cpu_that_it_may_no_longer_use() {
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
fn a_new_weight_counts_from_then_on() {
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

/// As under EEVDF: 3 where nice 0 has 1024. With sched_ext's least weight it would be a percent.
#[test]
fn a_task_of_sched_idle_has_a_three_hundredth() {
    let mut sim = machine(1);
    let ids = [sim.start(hog(0)), sim.start(hog(0))];
    assert!(sim.change(Change::Weight(ids[0], 1)));
    assert!(sim.change(Change::Policy(ids[0], SCHED_IDLE)));
    sim.run_until(60 * SEC);
    let ppm = sim.ran(ids[0]) / 60_000;
    assert!((2_500..3_200).contains(&ppm), "{ppm}");
}

#[test]
fn a_task_that_yields_lets_others_go_first() {
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
    // slices are 4 ms; the task gives up each after 1 ms
    let turns = sim
        .trace()
        .iter()
        .filter(|s| s.task == Some(polite))
        .count();
    assert!(turns > 50, "{turns}");
    assert!(sim.ran(polite).abs_diff(sim.ran(other)) < 20 * MS);
}

#[test]
fn a_pipe_wakes_its_reader_and_loses_no_wake_up() {
    let mut sim = machine(1);
    // the reader waits twice; both writes come before its first wait
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
    assert_eq!(
        (sim.ran(reader), sim.place(reader)),
        (2 * MS, Place::Exited)
    );
}

/// A task that executes a program with a spec, then starts threads like itself.
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
fn threads_of_a_process_share_one_server() {
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
        threads.iter().all(|&id| sim.place(id) == Place::Exited),
        "{leader}"
    );
}

#[test]
fn a_signal_ends_a_sleeping_a_waiting_and_a_running_task() {
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
    assert!(all.iter().all(|&id| sim.place(id) == Place::Exited));
    assert_eq!(sim.ran(running) + sim.ran(queued), ran, "no time is used");
    assert!(!sim.change(Change::Kill(running)));
}

#[test]
fn all_tasks_of_a_cpu_that_goes_offline_run_on_other_cpus() {
    let mut sim = machine(3);
    let free: Vec<_> = (0..5).map(|_| sim.start(hog(0))).collect();
    let pinned = sim.start_with(100, CpuMask::only(1), Box::new(hog(0)));
    let sleeper = sim.start_with(100, CpuMask::only(1), Box::new(on_off(0, MS, 100 * MS)));
    sim.run_until(SEC);
    assert!(sim.change(Change::Offline(1)));
    assert!(!sim.change(Change::Offline(1)), "it is offline");
    let before: Vec<_> = free.iter().map(|&id| sim.ran(id)).collect();
    sim.run_until(3 * SEC);
    let on_it = |sim: &Simulation, from| {
        let switches = sim.trace().iter().filter(|s| s.at > from && s.cpu == 1);
        switches.filter(|s| s.task.is_some()).count()
    };
    assert_eq!(on_it(&sim, SEC), 0);
    // six hogs and a task that uses little share two CPUs
    for (&id, before) in free.iter().zip(before) {
        let ran = sim.ran(id) - before;
        assert!(ran > 600 * MS && ran < 720 * MS, "{ran}");
    }
    assert!(sim.ran(pinned) > SEC, "its affinity is wider now");
    assert!(sim.ran(sleeper) > 20 * MS);
    assert!(sim.change(Change::Online(1)));
    sim.run_until(4 * SEC);
    assert!(on_it(&sim, 3 * SEC) > 0);
    assert!(sim.change(Change::Offline(0)) && sim.change(Change::Offline(2)));
    assert!(!sim.change(Change::Offline(1)), "the last one");
    sim.run_until(5 * SEC);
}

#[test]
fn cpu_offline_is_called_before_the_tasks_migrate() {
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
fn hotplug_without_hotplug_callbacks_ends_the_scheduler() {
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
