//! What a request costs: no time of the disk counts twice.

use proptest::prelude::*;

use super::super::*;
use super::disk;
use crate::{MS, SEC};

#[test]
fn a_request_costs_what_the_one_before_left() {
    let mut c = disk(&[(REST, 50)]);
    assert_eq!(c.done(REST, SEC + 3 * MS, SEC + 8 * MS), 5 * MS);
    assert_eq!(c.groups[REST].left, -(5 * MS as i64));
    // sent while the first one was served, so it counts from its end
    assert_eq!(c.done(REST, SEC + 4 * MS, SEC + 10 * MS), 2 * MS);
    assert_eq!(c.groups[REST].left, -(7 * MS as i64));
    // another CPU has read the clock before, and is late
    assert_eq!(c.done(REST, SEC + 4 * MS, SEC + 9 * MS), 0);
    assert_eq!(c.done(REST, SEC + 4 * MS, SEC + 11 * MS), MS);
}

/// The time in which there is a request that was sent and is not done.
fn busy_time(requests: &[(u64, u64)]) -> u64 {
    let mut spans = requests.to_vec();
    spans.sort_unstable();
    let (mut sum, mut end) = (0, 0);
    for (sent, done) in spans {
        sum += done.saturating_sub(sent.max(end));
        end = end.max(done);
    }
    sum
}

proptest! {
    /// No time is counted twice: the costs add up to no more than the time in which the disk had a
    /// request, and to that time if the requests are done in the order in which they were sent.
    /// Each group is charged what its own cost.
    #[test]
    fn costs_are_the_busy_time(
        requests in prop::collection::vec((0usize..GROUPS, 0u64..50 * MS, 0u64..20 * MS), 1..60),
        in_order: bool,
    ) {
        let mut c = disk(&[]);
        let mut all: Vec<(usize, u64, u64)> = requests
            .iter()
            .map(|(group, sent, takes)| (*group, SEC + sent, SEC + sent + takes))
            .collect();
        if in_order {
            let mut sent: Vec<u64> = all.iter().map(|(_, sent, _)| *sent).collect();
            sent.sort_unstable();
            all.sort_by_key(|(_, _, done)| *done);
            all.iter_mut().zip(sent).for_each(|(one, sent)| one.1 = sent);
        }
        all.sort_by_key(|(_, _, done)| *done);
        let mut by_group = [0; GROUPS];
        for (group, sent, done) in &all {
            by_group[*group] += c.done(*group, *sent, *done);
        }
        let spans: Vec<(u64, u64)> = all.iter().map(|(_, sent, done)| (*sent, *done)).collect();
        let sum: u64 = by_group.iter().sum();
        prop_assert!(sum <= busy_time(&spans));
        if spans.is_sorted() {
            prop_assert_eq!(sum, busy_time(&spans));
        }
        for (group, cost) in c.groups.iter().zip(by_group) {
            prop_assert_eq!(group.left, -(cost as i64));
        }
    }

    /// Nor if CPUs report ends in another order than they read the clock.
    #[test]
    fn late_reports_count_nothing_twice(
        requests in prop::collection::vec((0u64..50 * MS, 0u64..20 * MS), 1..60),
    ) {
        let mut c = disk(&[]);
        let spans: Vec<(u64, u64)> = requests
            .iter()
            .map(|(sent, takes)| (SEC + sent, SEC + sent + takes))
            .collect();
        let sum: u64 = spans.iter().map(|(sent, done)| c.done(REST, *sent, *done)).sum();
        prop_assert!(sum <= busy_time(&spans), "{sum} of {}", busy_time(&spans));
    }
}
