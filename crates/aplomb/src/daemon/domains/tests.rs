//! Domains, tested with a folder that stands for the cgroup tree and a stand-in for the kernel
//! side.

use super::*;
use crate::daemon::testing::Fake;
use aplomb_domain::testing::{create_cgroup_files, tree, InFiles};
use aplomb_domain::{DomainPolicy, CPU, EPHEMERAL, MEMORY, POLICY};
use aplomb_kernel::{Domain, DomainChange};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn path(text: &str) -> DomainPath {
    text.parse().unwrap()
}

/// The kernel side's domain for the folder `name` of `root`.
fn domain(root: &Path, name: &str) -> Domain {
    crate::daemon::testing::domain(fs::metadata(root.join(name)).unwrap().ino())
}

fn known_to(fake: &Fake, root: &Path, names: &[&str]) {
    fake.seen.borrow_mut().domains = names.iter().map(|n| domain(root, n)).collect();
}

fn changes(fake: &Fake) -> Vec<DomainChange> {
    let taken = std::mem::take(&mut fake.seen.borrow_mut().domain_changes);
    taken.into_iter().map(|(_, change)| change).collect()
}

fn mark(root: &Path, domain: &str, name: &str, value: &str) {
    let dir = root.join(domain);
    fs::write(dir.join(format!(".attribute.{name}")), value).unwrap();
    // inotify reports a changed attribute as a change of the directory, and so it does this.
    let mode = fs::metadata(&dir).unwrap().permissions();
    fs::set_permissions(&dir, mode).unwrap();
}

#[test]
fn attributes_reach_the_kernel_side_once() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a", "b"], InFiles::default());
    mark(root, "a", CPU, "25%");
    known_to(&fake, root, &["a", "b"]);
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    assert_eq!(changes(&fake), [DomainChange::Fraction(250_000)]);
    domains.scan(&mut fake);
    assert_eq!(changes(&fake), [], "it knows already");
    assert_eq!(domains.deadline(), None, "nothing wakes it up");
    // inotify reports the change of another attribute.
    mark(root, "a", POLICY, "mtr");
    domains.changed(&mut fake);
    assert_eq!(changes(&fake), [DomainChange::Policy(DomainPolicy::Mtr)]);
    // The other kind of reservation replaces the first.
    mark(root, "a", CPU, "10ms/100ms");
    domains.changed(&mut fake);
    let budget = DomainChange::Budget {
        runtime_ns: 10_000_000,
        period_ns: 100_000_000,
    };
    assert_eq!(changes(&fake), [DomainChange::Fraction(0), budget]);
    mark(root, "a", CPU, "none");
    domains.changed(&mut fake);
    let none = DomainChange::Budget {
        runtime_ns: 0,
        period_ns: 0,
    };
    assert_eq!(changes(&fake), [none]);
    // A kernel side that was loaded again gets all settings again.
    domains.kernel_reloaded(&mut fake);
    assert_eq!(changes(&fake), [DomainChange::Policy(DomainPolicy::Mtr)]);
}

#[test]
fn reservations_of_memory_are_handed_on_when_they_change() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a", "b"], InFiles::default());
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    assert_eq!(domains.take_memory(), None);
    mark(root, "a", MEMORY, "1M");
    domains.changed(&mut fake);
    let asked = domains.take_memory().unwrap();
    let cgid = fs::metadata(root.join("a")).unwrap().ino();
    let bytes = 1 << 20;
    assert_eq!(asked, [(path("a"), Asked { cgid, bytes })].into());
    mark(root, "a", POLICY, "mtr");
    domains.changed(&mut fake);
    assert_eq!(domains.take_memory(), None, "of memory nothing changed");
    fs::remove_dir_all(root.join("a")).unwrap();
    domains.changed(&mut fake);
    assert_eq!(domains.take_memory(), Some(BTreeMap::new()));
}

#[test]
fn domains_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &[], InFiles::default());
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    fs::create_dir_all(root.join("a/b")).unwrap();
    create_cgroup_files(&root.join("a/b"));
    mark(root, "a/b", CPU, "10%");
    known_to(&fake, root, &["a", "a/b"]);
    domains.changed(&mut fake);
    assert_eq!(changes(&fake), [DomainChange::Fraction(100_000)]);
    let table = domains.table(&fake).unwrap();
    let paths: Vec<_> = table.domains.iter().map(|d| d.path.as_str()).collect();
    assert_eq!(paths, ["a", "a/b"]);
    fs::remove_dir_all(root.join("a")).unwrap();
    domains.changed(&mut fake);
    assert_eq!(domains.known.len(), 1, "the root only");
    let paths = domains.table(&fake).unwrap().domains;
    assert!(paths.iter().all(|d| d.path.is_empty()));
}

#[test]
fn only_what_came_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a", "a-b"], InFiles::default());
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    // This change is not reported by inotify, but look() finds it.
    fs::write(root.join("a").join(format!(".attribute.{CPU}")), "25%").unwrap();
    known_to(&fake, root, &["a"]);
    fs::create_dir_all(root.join("b/c")).unwrap();
    fs::create_dir(root.join("a/c")).unwrap();
    domains.changed(&mut fake);
    assert_eq!(changes(&fake), [], "a is as it was");
    let known: Vec<_> = domains.known.keys().map(DomainPath::to_string).collect();
    assert_eq!(known, ["/", "a", "a/c", "a-b", "b", "b/c"]);
    fs::remove_dir_all(root.join("a")).unwrap();
    domains.changed(&mut fake);
    assert_eq!(domains.known.len(), 4, "a-b is not below a");
}

#[test]
fn what_the_kernel_side_does_not_know_yet_is_tried_again_and_not_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a"], InFiles::default());
    mark(root, "a", CPU, "25%");
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    let refusal = domains.look(&path("a"), &mut fake).unwrap().unwrap_err();
    assert_eq!(refusal.code, Code::Failed);
    let mut looks = 0;
    while let Some(at) = domains.deadline() {
        domains.tick(at, &mut fake);
        looks += 1;
        assert!(looks <= LOOKS);
    }
    assert_eq!(looks, LOOKS);
    // A later look still succeeds.
    known_to(&fake, root, &["a"]);
    domains.look(&path("a"), &mut fake).unwrap().unwrap();
    assert_eq!(changes(&fake), [DomainChange::Fraction(250_000)]);
}

/// What is reserved below a domain is a part of what that domain has.
#[test]
fn a_refusal_below_a_domain_without_a_reservation_names_that_domain() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["vm", "vm/vcpu0"], InFiles::default());
    known_to(&fake, root, &["vm", "vm/vcpu0"]);
    mark(root, "vm/vcpu0", CPU, "40%");
    fake.seen.borrow_mut().room_ppm = Some(0);
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    let refusal = domains
        .look(&path("vm/vcpu0"), &mut fake)
        .unwrap()
        .unwrap_err();
    assert_eq!(refusal.code, Code::Limit);
    let why = "vm/vcpu0: nothing is reserved for vm, the domain above it";
    assert!(refusal.message.starts_with(why), "{refusal}");
}

#[test]
fn a_refusal_is_told_and_leaves_what_was() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a"], InFiles::default());
    known_to(&fake, root, &["a"]);
    mark(root, "a", CPU, "25%");
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    changes(&fake);
    fake.seen.borrow_mut().room_ppm = Some(300_000);
    mark(root, "a", CPU, "40%");
    let refusal = domains.look(&path("a"), &mut fake).unwrap().unwrap_err();
    assert_eq!(refusal.code, Code::Limit);
    assert!(refusal.message.contains("of at most 30%"), "{refusal}");
    assert_eq!(changes(&fake), [], "the old one stays in force");
    let line = &domains.table(&fake).unwrap().domains[0];
    assert!(line.refused.as_ref().unwrap().starts_with("a: "));
    fake.seen.borrow_mut().no_promise = true;
    mark(root, "a", CPU, "10ms/100ms");
    let refusal = domains.look(&path("a"), &mut fake).unwrap().unwrap_err();
    assert_eq!(refusal.code, Code::Limit);
    assert!(refusal.message.contains("promise"), "{refusal}");
    mark(root, "a", CPU, "soon");
    let refusal = domains.look(&path("a"), &mut fake).unwrap().unwrap_err();
    assert_eq!(refusal.code, Code::Invalid);
    assert!(refusal.message.contains(CPU), "{refusal}");
    let missing = domains.look(&path("x"), &mut fake).unwrap().unwrap_err();
    assert_eq!(missing.message, "there is no domain x");
}

#[test]
fn a_promise_is_tried_again_when_a_programs_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a"], InFiles::default());
    known_to(&fake, root, &["a"]);
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.retry_refused_soon(Instant::now());
    assert_eq!(domains.deadline(), None, "no look is due");
    fake.seen.borrow_mut().no_promise = true;
    mark(root, "a", CPU, "10ms/100ms");
    domains.scan(&mut fake);
    assert_eq!((changes(&fake), domains.deadline()), (vec![], None));
    let now = Instant::now();
    domains.retry_refused_soon(now);
    domains.retry_refused_soon(now + FIRST_LOOK / 2);
    assert_eq!(
        domains.deadline(),
        Some(now + FIRST_LOOK),
        "one look for all"
    );
    domains.tick(now + FIRST_LOOK, &mut fake);
    assert_eq!((changes(&fake), domains.deadline()), (vec![], None));
    fake.seen.borrow_mut().no_promise = false;
    domains.retry_refused_soon(now);
    domains.tick(now + FIRST_LOOK, &mut fake);
    assert_eq!(changes(&fake).len(), 1);
    assert!(domains.table(&fake).unwrap().domains[0].refused.is_none());
    domains.retry_refused_soon(now);
    assert_eq!(domains.deadline(), None);
}

/// Processes exit all the time, and any user can make processes exit. This must not cost the
/// domains that the kernel side does not know yet any of their looks.
#[test]
fn programs_that_end_take_no_look_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a", "b"], InFiles::default());
    known_to(&fake, root, &["a"]);
    fake.seen.borrow_mut().no_promise = true;
    mark(root, "a", CPU, "10ms/100ms");
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    let now = Instant::now();
    domains.retry_refused_soon(now);
    mark(root, "b", CPU, "25%");
    domains.look(&path("b"), &mut fake).unwrap().unwrap_err();
    domains.tick(now + FIRST_LOOK, &mut fake); // retries the refused domain
    let mut looks = 0;
    while let Some(at) = domains.deadline() {
        domains.tick(at, &mut fake);
        looks += 1;
        assert!(looks <= LOOKS);
    }
    assert_eq!(looks, LOOKS);
}

#[test]
fn the_room_of_one_that_went_is_free_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a/b", "c"], InFiles::default());
    known_to(&fake, root, &["a", "a/b", "c"]);
    let cgids: Vec<u64> = fake.seen.borrow().domains.iter().map(|d| d.cgid).collect();
    mark(root, "a", CPU, "25%");
    mark(root, "a/b", CPU, "10%");
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    changes(&fake);
    mark(root, "c", CPU, "30%");
    fs::remove_dir_all(root.join("a")).unwrap();
    domains.look(&path("c"), &mut fake).unwrap().unwrap();
    let taken = std::mem::take(&mut fake.seen.borrow_mut().domain_changes);
    // The inner domain gives its reservation back first; then there is room for the other one.
    let none = DomainChange::Fraction(0);
    let freed = [(cgids[1], none), (cgids[0], none)];
    assert!(taken.iter().filter(|c| c.1 == none).eq(&freed), "{taken:?}");
    assert_eq!(taken.len(), 3);
}

#[test]
fn an_ephemeral_domain_ends_with_its_last_process_and_not_before_its_first() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a"], InFiles::default());
    let mut domains = Domains::new(Some(tree)).unwrap();
    mark(root, "a", EPHEMERAL, "1");
    domains.scan(&mut fake);
    assert!(root.join("a").exists(), "it had no process yet");
    fs::write(root.join("a/cgroup.events"), "populated 1\n").unwrap();
    domains.changed(&mut fake);
    fs::write(root.join("a/cpu.stat"), "usage_usec 12\n").unwrap();
    domains.changed(&mut fake);
    assert!(domains.known.contains_key(&path("a")));
    fs::write(root.join("a/cgroup.events"), "populated 0\n").unwrap();
    domains.changed(&mut fake);
    assert!(!root.join("a").exists());
    assert!(!domains.known.contains_key(&path("a")));
}

#[test]
fn an_ephemeral_domain_waits_for_those_below() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a/b"], InFiles::default());
    for domain in ["a", "a/b"] {
        mark(root, domain, EPHEMERAL, "1");
        fs::write(root.join(domain).join("cpu.stat"), "usage_usec 12\n").unwrap();
    }
    fs::write(root.join("a/b/cgroup.events"), "populated 1\n").unwrap();
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    assert!(root.join("a/b").exists());
    fs::write(root.join("a/b/cgroup.events"), "populated 0\n").unwrap();
    domains.changed(&mut fake);
    assert!(!root.join("a/b").exists());
    domains.changed(&mut fake);
    assert!(!root.join("a").exists(), "b was the last in it");
}

#[test]
fn more_than_can_be_watched_is_looked_through() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a", "b"], InFiles::default());
    let mut domains = Domains::watching(Some(tree), 2).unwrap();
    domains.scan(&mut fake);
    let at = domains.deadline().expect("it will look again");
    known_to(&fake, root, &["b"]);
    mark(root, "b", CPU, "25%");
    domains.changed(&mut fake);
    assert_eq!(changes(&fake), [], "b is not watched");
    domains.tick(at, &mut fake);
    assert_eq!(changes(&fake), [DomainChange::Fraction(250_000)]);
    assert!(domains.deadline().is_some());
}

#[test]
fn a_flood_of_changes_is_seen_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a"], InFiles::default());
    let mut watch = Watch::new(9).unwrap();
    let dir_of_a = tree.open(&path("a")).unwrap();
    let added = watch.watcher().directory(&dir_of_a).unwrap();
    assert!(!watch.learn(&added, &path("a")).unwrap());
    for n in 0..1000 {
        fs::create_dir(dir.path().join(format!("a/b{n}"))).unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..1000 {
        let part = watch.read();
        assert!(part.len() <= 256);
        if part.is_empty() {
            break;
        }
        seen.extend(part);
    }
    let created = seen.iter().filter(|s| matches!(s, Seen::Created(_)));
    assert_eq!(created.count(), 1000, "none is lost");
}

mod packets;
mod users;

/// Delegate folders to a user. False if this test may not.
fn delegate(root: &Path, names: &[&str], uid: u32) -> bool {
    let mut names = names.iter().map(|n| root.join(n));
    names.all(|at| std::os::unix::fs::chown(at, Some(uid), None).is_ok())
}

#[test]
fn one_users_many_cgroups_take_no_reservation_from_another_domain() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a", "z", "u"], InFiles::default());
    if !delegate(root, &["a"], 1000) || !delegate(root, &["u"], 1001) {
        return;
    }
    mark(root, "z", CPU, "25%");
    known_to(&fake, root, &["z"]);
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    assert_eq!(changes(&fake), [DomainChange::Fraction(250_000)]);
    for n in 0..aplomb_domain::MAX_OWNED + 200 {
        fs::create_dir(root.join(format!("a/{n}"))).unwrap();
    }
    domains.scan(&mut fake);
    assert_eq!(changes(&fake), [], "it keeps its reservation");
    let of = |owner| domains.known.values().filter(|k| k.owner == owner).count();
    assert_eq!(of(1000), aplomb_domain::MAX_OWNED);
    assert_eq!((of(0), of(1001)), (2, 1));
    // A known one that the next walk leaves out is not taken for gone, and a removed one is.
    fs::remove_dir_all(root.join("a/7")).unwrap();
    fs::remove_dir_all(root.join("z")).unwrap();
    domains.scan(&mut fake);
    assert_eq!(changes(&fake), [DomainChange::Fraction(0)]);
    assert!(!domains.known.contains_key(&path("a/7")));
    let of = |owner| domains.known.values().filter(|k| k.owner == owner).count();
    assert_eq!(
        of(1000),
        aplomb_domain::MAX_OWNED,
        "another one has its place"
    );
    fs::remove_dir_all(root.join("a")).unwrap();
    domains.scan(&mut fake);
    assert!(domains.owners.is_empty_but_for(&[0, 1001]));
}

#[test]
fn a_user_changes_a_policy_so_many_times_a_second() {
    use aplomb_domain::OWNERS_POLICY;
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a", "b"], InFiles::default());
    if !delegate(root, &["a"], 1000) {
        return;
    }
    known_to(&fake, root, &["a", "b"]);
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    let begin = Instant::now();
    let mut told = 0;
    for n in 0..200 {
        mark(root, "a", OWNERS_POLICY, ["mtr", "wrr"][n % 2]);
        domains.changed(&mut fake);
        told += changes(&fake).len();
    }
    let allowed = 20 + begin.elapsed().as_millis() as usize / 100 + 1;
    assert!(told <= allowed, "{told} of {allowed}");
    // Root is not held up by that, and the user's last word counts in the end.
    mark(root, "b", POLICY, "mtr");
    mark(root, "a", OWNERS_POLICY, "fifo");
    domains.changed(&mut fake);
    assert_eq!(changes(&fake), [DomainChange::Policy(DomainPolicy::Mtr)]);
    let at = domains.deadline().expect("it will look again");
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
    domains.tick(at, &mut fake);
    assert_eq!(changes(&fake), [DomainChange::Policy(DomainPolicy::Fifo)]);
    assert_eq!(domains.deadline(), None);
}
