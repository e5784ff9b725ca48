//! The short queue of the rest: a film waits for few others, whatever they send in one turn.

use proptest::prelude::*;

use super::super::*;
use super::{disk, reader, Model, State, Task};
use crate::{MS, SEC, US};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A film that needs less than its share waits for one request of each task of the rest that
    /// may wait for the disk at a time, however many there are. At first it waits for all.
    #[test]
    fn a_film_is_not_held(
        others in 1usize..40,
        service in 1u64..8,
        think in 20u64..200,
    ) {
        let mut tasks = vec![reader(SOFT_REAL_TIME, 5 * MS, think * MS)];
        tasks.extend(vec![reader(REST, service * MS, 0); others]);
        let mut m = Model::new(&[(SOFT_REAL_TIME, 40), (REST, 60)], tasks);
        m.run(SEC, 31 * SEC);
        let rate = m.served_ns[SOFT_REAL_TIME] / (5 * MS);
        let most_active = (QUEUE_NS / (service * MS)).max(LEAST_ACTIVE.into()) + 2;
        let wait = (others as u64).min(most_active) * service * MS + 2 * LOOK_NS;
        let at_first = others as u64 * service * MS;
        let least = (30 * SEC - at_first) / (think * MS + 5 * MS + wait);
        prop_assert!(rate >= least, "{rate} of {least} requests in 30 s");
        prop_assert!(m.longest_park <= 2 * SEC, "a task was parked for {} ns", m.longest_park);
    }

    /// Nor is it if each task of the rest sends many requests at a time: after a while so many wait
    /// that the disk serves a whole call of each in a short time, or two.
    #[test]
    fn a_film_is_not_held_by_large_calls(
        others in 3usize..12,
        service in 1u64..4,
        requests in 20u64..100,
        think in 20u64..200,
    ) {
        let mut film = reader(SOFT_REAL_TIME, 5 * MS, think * MS);
        film.state = State::Thinks { until: 2 * SEC };
        let large = Task { requests, ..reader(REST, service * MS, 0) };
        let mut tasks = vec![film];
        tasks.extend(vec![large; others]);
        let mut m = Model::new(&[(SOFT_REAL_TIME, 40), (REST, 60)], tasks);
        m.run(SEC, 12 * SEC); // the calls that are under way cannot be held
        let before = m.served_ns[SOFT_REAL_TIME];
        m.run(12 * SEC, 42 * SEC);
        let rate = (m.served_ns[SOFT_REAL_TIME] - before) / (5 * MS);
        let wait = u64::from(LEAST_ACTIVE) * service * MS + 2 * LOOK_NS;
        let least = 30 * SEC / (think * MS + 5 * MS + wait);
        prop_assert!(rate * 100 >= least * 95, "{rate} of {least} requests in 30 s");
        prop_assert!(m.idle_ns < SEC, "idle for {} ns", m.idle_ns);
    }
}

#[test]
fn a_turn_of_many_requests_is_a_long_one() {
    let mut c = disk(&[(INTERACTIVE, 40), (REST, 60)]);
    let now = SEC;
    let mut at = now;
    c.groups[REST].waiting = 40;
    for _ in 0..1000 {
        c.done(REST, at, at + MS);
        at += MS;
    }
    assert_eq!(c.turns + c.spent, 0, "no task stands at the gate");
    c.groups[REST].parked = 30;
    for _ in 0..200 {
        c.released(REST, 1);
        c.released(INTERACTIVE, 1);
        for _ in 0..5 {
            c.done(REST, at, at + MS);
            at += MS;
        }
    }
    assert!(c.turns < 64);
    c.groups[INTERACTIVE].seen = at;
    c.look(at + ANTICIPATE_NS);
    assert_eq!(c.groups[REST].most, 2, "two turns of 5 ms in 10 ms");
    for _ in 0..1000 {
        c.done(REST, at, at + MS);
        c.released(REST, 1);
        at += MS;
    }
    c.groups[INTERACTIVE].seen = at;
    c.look(at + ANTICIPATE_NS);
    assert_eq!(c.groups[REST].most, 10, "they are short again");
}

#[test]
fn the_rest_has_a_short_queue_while_others_use_the_disk() {
    let mut c = disk(&[(INTERACTIVE, 40), (REST, 60)]);
    c.service = MS;
    c.groups[REST].waiting = 30;
    assert_eq!(c.look(SEC), ALL, "it is alone");
    c.groups[INTERACTIVE].seen = SEC;
    // The other group wants nothing now, but will: ten requests take 10 ms.
    let now = SEC + ANTICIPATE_NS;
    assert_eq!(c.look(now), ALL & !(1 << REST));
    c.groups[REST].parked = 20;
    assert_eq!(
        c.look(now),
        ALL & !(1 << REST),
        "those at the gate are first"
    );
    c.groups[REST].parked = 23;
    assert_eq!(c.look(now), ALL);
    assert_eq!(c.admits(REST), 3);
    c.service = 50 * MS;
    c.look(now);
    assert_eq!(c.admits(REST), 0);
    assert_eq!(
        c.look(2 * SEC),
        ALL,
        "it has not used the disk for a second"
    );
    c.service = 10 * US;
    c.groups[INTERACTIVE].seen = 2 * SEC;
    c.look(2 * SEC + ANTICIPATE_NS);
    assert_eq!(c.groups[REST].most, 1000);
    assert_eq!(c.admits(REST), ACTIVE);
}
