//! Why edf.h differs from the paper: each test undoes one change to Listing 1 and shows the theorem
//! that fails then.
//!
//! The paper's rules are implemented only here. In each test the header meets the deadlines of the
//! same task set.

use super::cpu::{Burst, Cpu, Rules, Task, When, HEADER};
use super::{Change, Server};
use crate::{MS, SEC};

/// Listing 1 with line 16 as printed: `budget = max(budget + C, C)`.
fn paper_assign(s: &mut Server, now: u64) -> Change {
    let had_budget = s.budget > 0;
    if had_budget && (now < s.deadline || s.slept == 0) {
        return Change::Kept;
    }
    let budget = (s.budget + s.runtime as i64).max(s.runtime as i64);
    s.start = now.max(s.deadline);
    s.deadline = s.start + s.period;
    s.budget = budget;
    s.slept = 0;
    if had_budget {
        Change::Renewed
    } else {
        Change::Exhausted
    }
}

/// A wake-up in Listing 1: the server only records that the task slept. The assignment follows.
fn paper_wake(s: &mut Server, _: u64) {
    s.sleep();
}

const PAPER_BUDGET: Rules = Rules {
    wake: paper_wake,
    assign: paper_assign,
};
const PAPER_WAKE: Rules = Rules {
    wake: paper_wake,
    ..HEADER
};

fn at(ms: u64, work_ms: u64) -> Burst {
    Burst {
        when: When::At(ms * MS),
        work: work_ms * MS,
    }
}

/// The time at which the last burst of the last task was done, ms.
fn done(rules: Rules, tasks: Vec<Task>) -> u64 {
    let mut cpu = Cpu::new(tasks);
    cpu.rules = rules;
    cpu.run(60 * SEC);
    let last = cpu.tasks.last().and_then(|t| t.trace.bursts.last());
    last.expect("its work ends within a minute").1 / MS
}

/// A player with 5 ms every 30 ms. It needs 1 ms a frame; after 30 s it decodes something large.
fn saver() -> Task {
    let frames = (0..1000).map(|n| at(30 * n, 1));
    Task::new(5 * MS, 30 * MS, frames.chain([at(30_000, 5_000)]))
}

#[test]
fn with_max_a_sleeper_saves_budget_without_end() {
    let budget_after_30_s = |rules| {
        let mut cpu = Cpu::new(vec![saver()]);
        cpu.rules = rules;
        cpu.run(30 * SEC);
        cpu.tasks[0].server.budget / MS as i64
    };
    assert_eq!(
        budget_after_30_s(PAPER_BUDGET),
        4_000,
        "4 ms of each of 1,000 frames"
    );
    assert_eq!(budget_after_30_s(HEADER), 4);
}

#[test]
fn and_then_it_holds_the_cpu_against_the_deadlines_of_others() {
    // The second task gets 50 ms every 100 from the moment at which the saver wants all of the CPU.
    let tasks = || vec![saver(), Task::new(50 * MS, 100 * MS, [at(30_000, 50)])];
    let met = done(HEADER, tasks());
    assert!(met <= 30_100, "{met}");
    let missed = done(PAPER_BUDGET, tasks());
    assert!(missed > 34_000, "four seconds late, not {missed}");
}

#[test]
fn with_max_an_overrun_is_forgiven() {
    let bandwidth_ppm = |rules| {
        let hog = Burst {
            when: When::At(0),
            work: 1 << 60,
        };
        let mut cpu = Cpu::new(vec![Task::new(5 * MS, 30 * MS, [hog])]);
        cpu.rules = rules;
        cpu.timer_late = 4 * MS; // a tick
        cpu.run(30 * SEC);
        let runs = cpu.tasks[0].trace.runs.iter();
        runs.map(|r| r.1 - r.0).sum::<u64>() * 1_000_000 / (30 * SEC)
    };
    let (ours, paper) = (bandwidth_ppm(HEADER), bandwidth_ppm(PAPER_BUDGET));
    assert!((166_000..168_000).contains(&ours), "5/30, not {ours}");
    assert_eq!(paper, 300_000, "9/30");
}

/// Without the wake rule: task A (50:100) wakes up when 49 ms of its period and of its budget are
/// left. It runs for these 49 ms and for the next 50 ms of budget, so it has all of the CPU for 99
/// ms. The job of task B (80:160) arrives when A wakes up, and only 61 ms before its deadline are
/// left to it.
#[test]
fn without_the_wake_rule_a_late_wake_up_takes_the_time_of_others() {
    let tasks = || {
        let a = Task::new(50 * MS, 100 * MS, [at(200, 1), at(251, 10_000)]);
        vec![a, Task::new(80 * MS, 160 * MS, [at(0, 1), at(251, 80)])]
    };
    let deadline = 251 + 160;
    assert_eq!(done(HEADER, tasks()), deadline - 30);
    assert_eq!(done(PAPER_WAKE, tasks()), deadline + 19);
}
