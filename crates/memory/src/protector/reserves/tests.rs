//! Reserves by amount, on folders that stand for cgroups.

use super::super::tests::{path, Fake, CHECK, MB, PI, STEP};
use super::*;
use std::time::Duration;

/// Two programs of user 7, each using 100 MB, which may have 150 MB together.
fn two(private_mb: [u64; 2]) -> (Fake, Protector) {
    let (fake, mut protector) = Fake::new(&["top/7/a", "top/7/b"]);
    protector.cap(&path("top"), Bytes(180 * MB));
    protector.cap(&path("top/7"), Bytes(150 * MB));
    for (domain, private) in ["top/7/a", "top/7/b"].into_iter().zip(private_mb) {
        protect(&fake, &mut protector, domain, private);
    }
    (fake, protector)
}

fn protect(fake: &Fake, protector: &mut Protector, domain: &str, private_mb: u64) {
    let domain = path(domain);
    let ours = [domain.parent().unwrap(), path("top")];
    protector.protect(&domain, &ours, PI, fake.start).unwrap();
    let private = Bytes(private_mb * MB);
    protector.set_private(&domain, private, fake.start).unwrap();
}

fn mb(fake: &Fake, domain: &str) -> u64 {
    fake.protection(domain).parse::<u64>().unwrap() / MB
}

#[test]
fn without_reserves_nothing_is_divided() {
    let (fake, mut protector) = two([0, 0]);
    assert_eq!(fake.protection("top/7/a"), "max");
    assert_eq!(mb(&fake, "top/7"), 150);
    assert_eq!(protector.deadline(), Some(fake.start + CHECK));
    assert!(protector.tick(fake.start + STEP).is_empty());
    assert_eq!(fake.protection("top/7/a"), "max");
}

#[test]
fn private_reserves_come_first_and_go_back() {
    // a draws 40 beyond its 60, b 100: what is left, 90, is divided in that proportion.
    let (fake, mut protector) = two([60, 0]);
    assert_eq!((mb(&fake, "top/7/a"), mb(&fake, "top/7/b")), (85, 64));
    assert_eq!((mb(&fake, "top/7"), mb(&fake, "top")), (150, 150));
    let table = protector.table(fake.start);
    assert_eq!(table[0].private, Bytes(60 * MB));
    assert!(matches!(table[1].protection, crate::Protection::Bytes(_)));
    // It is changed while the program runs.
    let a = path("top/7/a");
    protector
        .set_private(&a, Bytes(100 * MB), fake.start)
        .unwrap();
    assert_eq!((mb(&fake, "top/7/a"), mb(&fake, "top/7/b")), (100, 50));
    protector.set_private(&a, Bytes(0), fake.start).unwrap();
    assert_eq!(fake.protection("top/7/b"), "max");
    protector
        .set_private(&a, Bytes(9 * MB), fake.start)
        .unwrap();
    protector.release(&a).unwrap();
    assert_eq!(
        (fake.protection("top/7/a"), fake.protection("top/7/b")),
        ("0".into(), "max".into())
    );
    assert!(protector.end().complaints.is_empty());
    assert_eq!(
        (fake.protection("top/7/b"), fake.protection("top")),
        ("0".into(), "0".into())
    );
    protector
        .set_private(&a, Bytes(9 * MB), fake.start)
        .unwrap(); // not protected
    assert_eq!(fake.protection("top/7/a"), "0");
}

#[test]
fn what_a_program_draws_is_measured_soon_and_then_seldom() {
    let (fake, mut protector) = two([60, 0]);
    fake.put("cgroup/top/7/b/memory.current", &(10 * MB).to_string());
    let start = fake.start;
    let mut at = start + Duration::from_secs(1);
    // 60 and 40, 10, and of the 40 that are left as much as the room is: 16 each.
    assert!(protector.tick(at).is_empty());
    assert_eq!((mb(&fake, "top/7/a"), mb(&fake, "top/7/b")), (116, 26));
    let mut measured = 1;
    for domain in ["top/7/a", "top/7/b"] {
        protector
            .domains
            .get_mut(&path(domain))
            .unwrap()
            .set
            .set_pi(crate::working_set::MAX_PI, at);
    }
    while let Some(next) = protector.reserves.deadline() {
        assert!(next > at);
        at = next;
        protector.measure_if_due(at).unwrap();
        measured += 1;
    }
    assert_eq!(measured, 10);
    assert_eq!(at, start + Duration::from_secs(1023));
}

#[test]
fn one_users_reserve_is_safe_from_another_user() {
    let (fake, mut protector) = two([60, 0]);
    fake.make("top/8/c");
    fake.ages(&["top/7/a", "top/7/b", "top/8/c"], 0);
    protector.cap(&path("top/8"), Bytes(150 * MB));
    fake.put("cgroup/top/8/c/memory.current", &(900 * MB).to_string());
    protect(&fake, &mut protector, "top/8/c", 0);
    // 180 in all: 60 for a, and the other 120 by what users 7 and 8 draw: 90 and 150.
    assert_eq!((mb(&fake, "top/7"), mb(&fake, "top/8")), (105, 75));
    assert!(mb(&fake, "top/7/a") >= 60, "{}", mb(&fake, "top/7/a"));
    assert!(mb(&fake, "top/7/a") + mb(&fake, "top/7/b") <= 105);
}

#[test]
fn an_idle_program_keeps_its_private_reserve_alone() {
    let (fake, mut protector) = two([60, 0]);
    fake.runs("top/7/a", 1);
    assert!(protector.tick(fake.start + STEP).is_empty());
    assert!(protector.tick(fake.start + STEP + PI).is_empty());
    assert_eq!((mb(&fake, "top/7/a"), mb(&fake, "top/7/b")), (60, 0));
    assert!(
        !protector.keeps_nothing(&path("top/7/a")) && protector.keeps_nothing(&path("top/7/b"))
    );
    assert_eq!((mb(&fake, "top/7"), mb(&fake, "top")), (60, 60));
}

#[test]
fn the_spare_amount_is_there_where_the_kernel_shares_it() {
    let (fake, mut protector) = two([10, 0]);
    protector.share(Bytes(16 * MB), true);
    fake.ages(&["top/7/a", "top/7/b"], 70);
    for domain in ["top/7/a", "top/7/b"] {
        fake.runs(domain, 2);
    }
    assert!(protector.tick(fake.start + STEP).is_empty());
    // 30 young and 12.5 of headroom each.
    assert_eq!((mb(&fake, "top/7/a"), mb(&fake, "top/7/b")), (42, 42));
    assert_eq!(mb(&fake, "top/7"), 85 + 16);
    // None for programs that are idle.
    protector
        .set_private(&path("top/7/a"), Bytes(0), fake.start)
        .unwrap();
    assert!(protector.tick(fake.start + 2 * STEP).is_empty());
    assert!(protector.tick(fake.start + STEP + PI).is_empty());
    assert_eq!(fake.protection("top/7"), "0");
}

#[test]
fn among_many_programs_a_change_is_divided_with_the_next_measurement() {
    let (fake, mut protector) = two([60, 0]);
    assert_eq!(mb(&fake, "top/7/b"), 64);
    let many: Vec<String> = (0..DIVIDED_AT_ONCE)
        .map(|i| format!("top/7/p{i}"))
        .collect();
    for domain in &many {
        fake.make(domain);
        fake.put(&format!("cgroup/{domain}/memory.current"), "0");
        let ours = [path("top/7"), path("top")];
        let protected = protector.protect(&path(domain), &ours, PI, fake.start);
        protected.unwrap();
    }
    assert_eq!(mb(&fake, "top/7/b"), 64, "as it was divided last");
    let last = many.last().unwrap();
    assert_eq!(fake.protection(last), "max", "by age");
    let at = fake.start + FIRST_MEASURE;
    assert_eq!(protector.reserves.deadline(), Some(at));
    protector.measure_if_due(at).unwrap();
    assert!(!protector.reserves.stale && mb(&fake, last) < 64);
    // What is released goes back at once, and the others get more later.
    protector.release(&path("top/7/b")).unwrap();
    assert_eq!(mb(&fake, "top/7/b"), 0);
}

#[test]
fn reservations_of_domains_are_knobs_of_theirs_and_above() {
    let (fake, mut protector) = Fake::new(&["d/e", "f"]);
    let mut wanted = protector.reservations().clone();
    wanted
        .set(&path("d/e"), Some(Bytes(40 * MB)), Bytes(100 * MB))
        .unwrap();
    protector.reserve(wanted.clone()).unwrap();
    assert_eq!(
        (mb(&fake, "d/e"), mb(&fake, "d"), mb(&fake, "f")),
        (40, 40, 0)
    );
    // A program's protection by age adds nothing to it, and does not lower it.
    protector
        .protect(&path("d/e"), &[], PI, fake.start)
        .unwrap();
    assert_eq!(fake.protection("d/e"), "max");
    protector.release(&path("d/e")).unwrap();
    assert_eq!(mb(&fake, "d/e"), 40);
    wanted.set(&path("d/e"), None, Bytes(0)).unwrap();
    wanted
        .set(&path("f"), Some(Bytes(MB)), Bytes(100 * MB))
        .unwrap();
    protector.reserve(wanted).unwrap();
    assert_eq!(
        (fake.protection("d/e"), fake.protection("d"), mb(&fake, "f")),
        ("0".into(), "0".into(), 1)
    );
    assert_eq!(protector.end().restored, 1);
    assert_eq!(fake.protection("f"), "0");
}
