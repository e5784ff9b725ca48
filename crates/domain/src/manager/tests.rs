//! Changes through the cgroup file system.

use super::*;
use crate::testing::{tree, InFiles};
use std::fs;

fn changes(text: &[&str]) -> Vec<Change> {
    text.iter().map(|t| t.parse().unwrap()).collect()
}

#[test]
fn changes_go_where_they_belong() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a"], InFiles::default());
    let manager = Cgroupfs {
        tree: &tree,
        cpus: 4,
    };
    let a: DomainPath = "a".parse().unwrap();
    let all = changes(&[
        "weight=200",
        "max=50%",
        "idle=1",
        "cpu=25%",
        "memory=9M",
        "policy=mtr",
    ]);
    manager.set(&a, &all).unwrap();
    let file = |name: &str| fs::read_to_string(dir.path().join("a").join(name)).unwrap();
    assert_eq!(file("cpu.weight"), "200");
    assert_eq!(file("cpu.max"), "200000 100000", "of four CPUs");
    assert_eq!(file("cpu.idle"), "1");
    assert_eq!(file(".attribute.trusted.aplomb.cpu"), "25%");
    assert_eq!(file(".attribute.trusted.aplomb.memory"), "9M");
    assert_eq!(file(".attribute.trusted.aplomb.policy"), "mtr");
    let none = changes(&["cpu=none", "memory=none", "policy=default", "max=none"]);
    manager.set(&a, &none).unwrap();
    let marks = tree.marks(&tree.open(&a).unwrap());
    assert_eq!(marks, (Marks::default(), vec![]));
    assert_eq!(file("cpu.max"), "max");
    manager.move_pid(&a, 812).unwrap();
    assert_eq!(file("cgroup.procs"), "812");
}

#[test]
fn a_default_policy_is_one_whatever_the_owner_said() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a"], InFiles::default());
    let a = tree.open(&"a".parse().unwrap()).unwrap();
    tree.set_mark(&a, OWNERS_POLICY, Some("wrr")).unwrap();
    set_mark(&tree, &a, &"policy=default".parse().unwrap()).unwrap();
    assert_eq!(tree.marks(&a).0.policy, DomainPolicy::Default);
}

#[test]
fn an_owner_sets_the_policy_and_no_reservation() {
    let dir = tempfile::tempdir().unwrap();
    let refused = InFiles {
        refused: "trusted.",
    };
    let tree = tree(dir.path(), &["a"], refused);
    let a = tree.open(&"a".parse().unwrap()).unwrap();
    set_mark(&tree, &a, &"policy=wrr".parse().unwrap()).unwrap();
    assert_eq!(tree.marks(&a).0.policy, DomainPolicy::Wrr);
    for (change, attribute) in [("cpu=25%", CPU), ("memory=1M", MEMORY)] {
        let e = set_mark(&tree, &a, &change.parse().unwrap()).unwrap_err();
        assert!(
            e.is_permission() && e.to_string().contains(attribute),
            "{e}"
        );
    }
    // If root has set a policy, the owner's does not count, and the owner gets an error.
    let roots = dir.path().join("a/.attribute.trusted.aplomb.policy");
    fs::write(roots, "sfq").unwrap();
    let e = set_mark(&tree, &a, &"policy=mtr".parse().unwrap()).unwrap_err();
    assert!(e.is_permission(), "{e}");
}

#[test]
fn what_cannot_be_entered_is_not_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &[], InFiles::default());
    let manager = Cgroupfs {
        tree: &tree,
        cpus: 1,
    };
    let a: DomainPath = "a".parse().unwrap();
    // Without the kernel the new directory has no file cgroup.procs.
    assert!(manager.enter(&a, false).is_err());
    assert!(!dir.path().join("a").exists());
    assert!(manager.create(&a, false).unwrap());
    assert!(!manager.create(&a, true).unwrap(), "it was there");
    let marks = tree.marks(&tree.open(&a).unwrap()).0;
    assert!(!marks.ephemeral, "and it stays");
}
