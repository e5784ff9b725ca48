//! Why wmr.h differs from the paper: the paper's rules, on tasks that miss deadlines with them.

use super::machine::{Control, Machine, Task};
use super::{Member, Roster, Split};
use crate::edf::cpu::{Burst, When};
use crate::{MS, PPM, US};

fn part(q: u64, d: u64, p: u64) -> Member {
    Member {
        runtime: q,
        window: d,
        period: p,
        slot: 0,
    }
}

/// The paper's test, section 5.2: sum dbf(L) <= L, where "L is any value equal to the relative
/// deadline of any task".
fn paper_fits(members: &[Member]) -> bool {
    let dbf = |m: &Member, l: u64| match l.checked_sub(m.window) {
        Some(beyond) => (beyond / m.period + 1) * m.runtime,
        None => 0,
    };
    let demand = |l| members.iter().map(|m| dbf(m, l)).sum::<u64>();
    members.iter().all(|m| demand(m.window) <= m.window)
}

fn bandwidths(members: &[Member]) -> u64 {
    let ppm = members
        .iter()
        .map(|m| super::bandwidth(m.runtime, m.period));
    ppm.sum()
}

fn job(at: u64, work: u64) -> Burst {
    Burst {
        when: When::At(at),
        work,
    }
}

fn whole(cpu: i32, runtime: u64) -> Split {
    let mut split = Split {
        parts: 1,
        ..Split::default()
    };
    (split.cpu[0], split.runtime[0]) = (cpu, runtime);
    split
}

fn halves(first: u64, second: u64) -> Split {
    let mut split = Split {
        parts: 2,
        ..Split::default()
    };
    split.cpu[1] = 1;
    split.runtime[..2].copy_from_slice(&[first, second]);
    split
}

/// Two CPUs with a task of 14:25 each. A task of 17:20 is split over both, with 8.5 ms in each
/// window of 10. At 10 and at 25 ms the demand fits, and the bandwidths add up to 0.985 of a CPU.
/// But at 30 ms two windows and one whole task are due, which is 31 ms.
#[test]
fn checked_at_deadlines_only_the_staircase_admits_a_task_that_misses() {
    let period = 20 * MS;
    let run = |q: u64| {
        let wholes = [0, 1].map(|cpu| {
            Task::new(
                whole(cpu, 14 * MS),
                25 * MS,
                [job(0, 14 * MS), job(25 * MS, 14 * MS)],
            )
        });
        let split = Task::new(halves(q, q), period, [job(0, 2 * q), job(period, 2 * q)]);
        let mut machine = Machine::new(2, wholes.into_iter().chain([split]).collect());
        machine.run(60 * MS);
        machine.tasks.iter().map(|t| t.trace.left_over).max()
    };
    let q = 8_500 * US;
    let members = [part(14 * MS, 25 * MS, 25 * MS), part(q, period / 2, period)];
    assert!(paper_fits(&members) && bandwidths(&members) < PPM);
    assert_eq!(run(q), Some(MS), "31 ms of work in 30");

    let mut roster = Roster::default();
    roster.join(0, 14 * MS, 25 * MS, 25 * MS);
    let room = roster.room(period, period / 2, PPM);
    assert!(
        (7 * MS..=8 * MS).contains(&room),
        "8 would just do, not {room}"
    );
    assert_eq!(run(room), Some(0));
}

/// On a CPU with windows, a task that is not split must not use the wake rule of edf.h. That rule
/// keeps the task within its bandwidth until its deadline, in any interval. But admission assumes
/// that the task demands nothing in an interval shorter than its period.
///
/// A movie of 25:41 runs for 12 ms and sleeps. It then has 13 ms of budget left with 21.4 ms to go,
/// which is no more than its 61 %. But from 1 ms later on a window of 20.5 ms wants its 14 ms.
#[test]
fn beside_a_window_the_wake_rule_makes_others_miss() {
    let (period, q) = (41 * MS, 14 * MS);
    let run = |control| {
        let nap = Burst {
            when: When::After(7_600 * US),
            work: 13 * MS,
        };
        let mut movie = Task::new(whole(0, 25 * MS), period, [job(0, 12 * MS), nap]);
        movie.control = control;
        let split = Task::new(halves(q, 11 * MS), period, [job(20_600 * US, 25 * MS)]);
        let mut machine = Machine::new(2, vec![movie, split]);
        machine.run(100 * MS);
        machine.tasks.iter().map(|t| t.trace.left_over).max()
    };
    let mut roster = Roster::default();
    roster.join(0, 25 * MS, period, period);
    assert!(roster.room(period, period / 2, PPM) >= q, "it is let in");
    assert_eq!(run(Control::WakeRule), Some(5_500 * US));
    assert_eq!(run(Control::Windows), Some(0));
}
