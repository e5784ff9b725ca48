//! Long runs of random changes, and the few changes that break an invariant. Not run by default.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::plan::{Plan, ALL, KINDS};
use crate::tests::SEC;

/// Run, and return the message of a violated invariant: its kind (the message without numbers, and
/// whether the task was in `DSQ_RESCUE`), and the whole message.
fn violation(plan: &Plan) -> Option<(String, String)> {
    let payload = catch_unwind(AssertUnwindSafe(|| plan.play())).err()?;
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.unwrap_or_else(|| format!("{:?}", payload.downcast_ref::<&str>()));
    let kind = text.split(|c: char| c.is_ascii_digit()).collect();
    let kind = if text.contains("Queue(2)") {
        format!("{kind} rescued")
    } else {
        kind
    };
    Some((kind, text))
}

/// Find fewer changes with the same violation: leave out one kind of change at a time, then half of
/// the changes, a quarter, and so on.
fn shrink(mut plan: Plan, how: &str) -> Plan {
    let same = |plan: &Plan| violation(plan).is_some_and(|(kind, _)| kind == how);
    for kind in 0..KINDS.len() {
        let mut less = plan.clone();
        less.changes
            .retain(|change| change.1 != kind || change.0 == 0);
        if less.changes.len() < plan.changes.len() && same(&less) {
            plan = less;
        }
    }
    let mut size = plan.changes.len().div_ceil(2);
    loop {
        let mut at = 0;
        let before = plan.changes.len();
        while at < plan.changes.len() {
            let mut less = plan.clone();
            less.changes.drain(at..(at + size).min(plan.changes.len()));
            if same(&less) {
                plan = less;
            } else {
                at += size;
            }
        }
        println!("    {} changes left", plan.changes.len());
        if size == 1 && plan.changes.len() == before {
            return plan;
        }
        size = (size / 2).max(1);
    }
}

/// Long runs:
/// `SEED=1 SEEDS=20 SECONDS=60 cargo test -p aplomb-sim --lib -- --ignored --nocapture search`
///
/// CPUS: number of CPUs; the default depends on the seed. ACTS: seconds with changes; there are
/// none after them. SHRINK=0: do not reduce the changes.
#[test]
#[ignore = "minutes"]
fn long_runs() {
    let given = |name: &str, or: u64| {
        let text = std::env::var(name).ok();
        text.map_or(or, |text| text.parse().expect(name))
    };
    let (first, length) = (given("SEED", 1), given("SECONDS", 60) * SEC);
    let mut found = 0;
    for seed in first..first + given("SEEDS", 1) {
        let cpus = given("CPUS", 1 + seed % 4) as usize;
        let mut plan = Plan::new(seed, cpus, given("ACTS", length / SEC) * SEC, ALL);
        plan.length = length;
        let begun = std::time::Instant::now();
        let Some((how, text)) = violation(&plan) else {
            println!("seed {seed}, {cpus} CPUs: ok, {:?}", begun.elapsed());
            continue;
        };
        println!("seed {seed}, {cpus} CPUs: {text}");
        found += 1;
        if given("SHRINK", 1) == 1 {
            let least = shrink(plan, &how);
            println!("{:#?}", violation(&least).map(|(_, text)| text));
            for (at, kind, change) in &least.changes {
                println!("    {at} ns, {}: {change:?}", KINDS[*kind].0);
            }
        }
    }
    assert_eq!(found, 0, "seeds that break an invariant");
}
