//! Examples of the paper's three rules (section 4.2) and of the loan, in numbers that can be
//! checked by hand.
//!
//! A is a server with 5 ms every 100 ms that completes its job early. All times are in ms from 0.

use super::{least_ns, Bank, Loan};
use crate::edf::cpu::{Burst, Cpu, Task, When};
use crate::edf::Policy;
use crate::{assert_layout, MS, US};

#[test]
fn layouts_and_constants_are_the_headers() {
    assert_layout!(
        policy_layout_fcbs_bank,
        Bank,
        slack,
        deadline,
        stamp,
        used,
        frozen,
        drawn
    );
    assert_layout!(policy_layout_fcbs_loan, Loan, lent, used);
    assert_eq!(least_ns(), 50 * US);
}

/// A bank to which A has lent 4 of its 5 ms at 1 ms.
fn lent() -> (Bank, Loan) {
    let (mut bank, mut loan) = (Bank::default(), Loan::default());
    bank.freeze(0, 100 * MS);
    bank.thaw(MS);
    bank.give(&mut loan, MS, 4 * MS, 100 * MS);
    (bank, loan)
}

/// A task with `q` ms every `p` ms, and jobs (`at`, `work`) in ms.
fn task(q: u64, p: u64, jobs: &[(u64, u64)]) -> Task {
    let burst = |&(at, work)| Burst {
        when: When::At(at * MS),
        work: work * MS,
    };
    Task::new(q * MS, p * MS, jobs.iter().map(burst)).policy(Policy::Fcbs)
}

fn run(tasks: Vec<Task>) -> Cpu {
    let mut cpu = Cpu::new(tasks);
    cpu.run(1_000 * MS);
    cpu
}

fn ms(intervals: &[(u64, u64)]) -> Vec<(u64, u64)> {
    intervals.iter().map(|i| (i.0 / MS, i.1 / MS)).collect()
}

/// "If there is a task whose server deadline is s_k > t + P_k, it has exhausted its budget at some
/// earlier point of time, and is now overrunning": that task runs on the slack, with the deadline
/// of the server that left it. When the slack is used up, the task is back on its own budget and
/// deadline.
#[test]
fn rule_1_slack_goes_to_the_overrunning_job() {
    // B has used up its 2 ms of 10 at 2 ms. A runs from 2 to 3 and leaves 4 ms, due at 100.
    let cpu = run(vec![task(5, 100, &[(0, 1)]), task(2, 10, &[(0, 7)])]);
    let b = &cpu.tasks[1];
    assert_eq!(ms(&b.trace.runs), [(0, 2), (10, 11)], "its own budget");
    assert_eq!(ms(&b.trace.draws), [(3, 7)], "A's");
    assert_eq!((b.server.start, b.server.deadline), (10 * MS, 20 * MS));
    assert_eq!(b.trace.bursts, [(0, 11 * MS)]);
}

#[test]
fn rule_1_at_the_deadline_of_the_lender() {
    // B draws on the slack with A's deadline, 100. C has 5:50 and arrives at 4 ms with an earlier
    // deadline, so C runs first.
    // slack.
    let cpu = run(vec![
        task(5, 100, &[(0, 1)]),
        task(2, 10, &[(0, 6)]),
        task(5, 50, &[(4, 5)]),
    ]);
    assert_eq!(ms(&cpu.tasks[2].trace.runs), [(4, 9)]);
    assert_eq!(ms(&cpu.tasks[1].trace.draws), [(3, 4), (9, 10)]);
    assert_eq!(ms(&cpu.tasks[1].trace.runs), [(0, 2), (10, 12)]);
}

/// "If there is no such task, we look for the next earliest-deadline task. We then add the
/// remaining budget to its budget. We do not assign the server deadline s_i."
#[test]
fn rule_2_else_to_the_next_by_deadline() {
    // B has 10:200 and needs 13 ms. When its own 10 ms are used up, it continues on A's 4 ms, with
    // its own deadline, 200.
    let cpu = run(vec![task(5, 100, &[(0, 1)]), task(10, 200, &[(0, 13)])]);
    assert_eq!(ms(&cpu.tasks[1].trace.runs), [(1, 11)]);
    assert_eq!(ms(&cpu.tasks[1].trace.draws), [(11, 14)]);
    assert_eq!(cpu.bank.deadline, 200 * MS);
}

#[test]
fn rule_2_keeps_the_slack_of_an_earlier_deadline() {
    let (mut bank, _) = lent();
    bank.freeze(MS, 30 * MS);
    assert_eq!(
        bank.slack(9 * MS),
        4 * MS,
        "the slack does not shrink while the task runs"
    );
    assert_eq!(
        bank.deadline,
        100 * MS,
        "and slack never gets an earlier deadline"
    );
    bank.thaw(9 * MS);
    bank.freeze(9 * MS, 150 * MS);
    assert_eq!((bank.deadline, bank.slack(20 * MS)), (150 * MS, 4 * MS));
}

/// Why slack takes over the deadline of a task that runs before it. A leaves 9 ms due at 100. Y
/// then runs for 90 ms, which uses up that time. If the slack still were 9 ms due at 100, W would
/// run on it from 91 to 100, and Z would wait and miss its deadline.
#[test]
fn rule_2_slack_ages_while_later_deadlines_go_first() {
    let y = task(90, 300, &[(0, 90)]);
    let (w, z) = (task(1, 10, &[(90, 20)]), task(5, 10, &[(91, 5)]));
    let cpu = run(vec![task(10, 100, &[(0, 1)]), y, w, z]);
    assert_eq!(ms(&cpu.tasks[1].trace.runs), [(1, 90), (96, 97)]);
    assert_eq!(ms(&cpu.tasks[3].trace.runs), [(91, 96)]);
    assert_eq!(ms(&cpu.tasks[2].trace.draws), [(97, 100), (101, 107)]);
}

/// "Otherwise, we preserve the remaining budget as a bonus B, decreased by the same amount of time
/// as consumed by an idle task until a new job is released."
#[test]
fn rule_3_else_idle_time_eats_it() {
    // B has 10:200, arrives at 3 ms, when 2 of A's 4 ms are gone, and needs 14 ms.
    let cpu = run(vec![task(5, 100, &[(0, 1)]), task(10, 200, &[(3, 14)])]);
    assert_eq!(ms(&cpu.tasks[1].trace.runs)[0], (3, 13));
    assert_eq!(ms(&cpu.tasks[1].trace.draws), [(13, 15)]);
    // B arrives at 6 ms, when nothing is left.
    let cpu = run(vec![task(5, 100, &[(0, 1)]), task(10, 200, &[(6, 14)])]);
    assert_eq!(ms(&cpu.tasks[1].trace.draws), []);
}

#[test]
fn what_an_overrunner_does_not_need_goes_on_to_others() {
    let cpu = run(vec![
        task(5, 100, &[(0, 1)]),
        task(2, 10, &[(0, 3)]),
        task(2, 20, &[(0, 6)]),
    ]);
    // B runs 0..2, C 2..4, A 4..5. Of A's 4 ms B then uses 1, and C the other 3.
    assert_eq!(ms(&cpu.tasks[1].trace.draws), [(5, 6)]);
    assert_eq!(ms(&cpu.tasks[2].trace.draws), [(6, 9)]);
}

#[test]
fn other_policies_neither_lend_nor_draw() {
    let nothing_drawn = |a, b| {
        let a = task(5, 100, &[(0, 1)]).policy(a);
        let b = task(2, 10, &[(0, 7)]).policy(b);
        run(vec![a, b]).tasks[1].trace.draws.is_empty()
    };
    for policy in [Policy::Redline, Policy::CbsHard, Policy::CbsSoft] {
        assert!(nothing_drawn(policy, Policy::Fcbs));
        assert!(nothing_drawn(Policy::Fcbs, policy));
    }
    assert!(!nothing_drawn(Policy::Fcbs, Policy::Fcbs));
}

#[test]
fn the_loan_is_given_back_to_a_task_that_wakes_up_early() {
    let (mut bank, mut loan) = lent();
    assert_eq!(
        bank.take_back(&mut loan, 3 * MS),
        4 * MS,
        "what melted, too"
    );
    assert_eq!((bank.slack, loan.lent), (0, 0));
    assert_eq!(bank.take_back(&mut loan, 3 * MS), 0, "once");
}

#[test]
fn but_not_what_an_overrunner_used() {
    let (mut bank, mut loan) = lent();
    bank.draw(MS);
    bank.thaw(2 * MS);
    assert_eq!(bank.slack(2 * MS), 3 * MS);
    assert_eq!(bank.take_back(&mut loan, 2 * MS), 3 * MS);
    assert_eq!(bank.used, MS);
}

#[test]
fn it_is_given_back_while_another_task_runs_on_it() {
    let (mut bank, mut loan) = lent();
    bank.draw(MS);
    assert_eq!(bank.take_back(&mut loan, 3 * MS), 2 * MS);
    assert_eq!(bank.slack(3 * MS), 0);
    // What overrunners used is taken from both lenders, so neither has to wait for the other.
    let (mut bank, mut a) = lent();
    let mut b = Loan::default();
    bank.give(&mut b, MS, 6 * MS, 50 * MS);
    bank.draw(MS);
    bank.thaw(6 * MS);
    assert_eq!(
        (
            bank.take_back(&mut a, 6 * MS),
            bank.take_back(&mut b, 6 * MS)
        ),
        (0, MS)
    );
}

#[test]
fn a_player_that_sleeps_in_its_frame_has_its_budget_when_it_wakes() {
    // The player decodes for 2 ms, waits 3 ms for the display, and decodes for 3 ms more. It gets
    // all of its 5 ms, because no task used the slack.
    let burst = |when, work| Burst {
        when,
        work: work * MS,
    };
    let frame = [burst(When::At(0), 2), burst(When::After(3 * MS), 3)];
    let player = Task::new(5 * MS, 50 * MS, frame).policy(Policy::Fcbs);
    let cpu = run(vec![player]);
    assert_eq!(ms(&cpu.tasks[0].trace.runs), [(0, 2), (5, 8)]);
    // Beside an overrunner that draws on the slack meanwhile, the player gets the rest a period
    // later.
    let player = Task::new(5 * MS, 50 * MS, frame).policy(Policy::Fcbs);
    let cpu = run(vec![
        player,
        task(1, 100, &[(0, 20)]),
        task(2, 40, &[(0, 4)]),
    ]);
    let player = &cpu.tasks[0].trace;
    assert_eq!(ms(&player.runs), [(2, 4), (7, 8), (50, 52)]);
}

/// Other tasks run for 5 ms, then the player runs for 1 of its 4 ms and sleeps for 1 ms. At 7 ms it
/// has 3 ms left with 13 ms to go, which is more than 4:20, so a new period begins. In the old
/// period it ran for 1 ms and slept for 1 ms; in the new one it gets 4 ms by 27.
#[test]
fn a_period_that_the_wake_rule_ends_is_followed_by_a_whole_one() {
    let burst = |when, work| Burst {
        when,
        work: work * MS,
    };
    let bursts = [burst(When::At(0), 1), burst(When::After(MS), 4)];
    let player = Task::new(4 * MS, 20 * MS, bursts).policy(Policy::Fcbs);
    let cpu = run(vec![player, task(5, 8, &[(0, 5), (8, 5)])]);
    let player = &cpu.tasks[0];
    assert_eq!(ms(&player.trace.runs), [(5, 6), (7, 8), (13, 16)]);
    assert_eq!(player.server.deadline, 47 * MS, "27, and the next");
}

#[test]
fn slack_is_worth_nothing_after_its_deadline() {
    let (mut bank, _) = lent();
    bank.freeze(MS, 20 * MS);
    assert_eq!(bank.slack(100 * MS - 1), 4 * MS);
    assert_eq!(bank.slack(100 * MS), 0);
    bank.thaw(100 * MS);
    assert_eq!(bank.slack, 0);
    // A late job has nothing to lend.
    let (mut bank, mut loan) = (Bank::default(), Loan::default());
    bank.give(&mut loan, 30 * MS, MS, 20 * MS);
    assert_eq!(bank.slack(30 * MS), 0);
    bank.freeze(30 * MS, 80 * MS);
    assert_eq!(bank.slack(30 * MS), 0, "nor does it become valid again");
}

#[test]
fn a_sliver_is_not_worth_a_switch() {
    let (bank, _) = lent();
    assert_eq!(bank.slack(5 * MS - 50 * US), 50 * US);
    assert_eq!(bank.slack(5 * MS - 50 * US + 1), 0);
}

/// Another CPU's clock may be some ns behind.
#[test]
fn time_that_goes_back_melts_nothing() {
    let (mut bank, mut loan) = lent();
    bank.draw(2 * MS);
    bank.thaw(2 * MS - 500);
    assert_eq!((bank.stamp, bank.slack(2 * MS - 500)), (2 * MS, 3 * MS));
    bank.give(&mut loan, 2 * MS - 500, MS, 100 * MS);
    assert_eq!(bank.slack(2 * MS), 4 * MS);
}
