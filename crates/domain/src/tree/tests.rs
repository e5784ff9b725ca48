//! The tree, tested in folders that stand for cgroups.

use super::*;
use crate::testing::{create_cgroup_files, tree, InFiles};
use crate::{DomainPolicy, CPU, OWNERS_POLICY};
use std::fs;

fn path(text: &str) -> DomainPath {
    text.parse().unwrap()
}

#[test]
fn domains_are_made_with_the_cpu_controller() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a"], InFiles::default());
    assert!(!tree.create(&path("a")).unwrap(), "it was there");
    let control = |d: &str| fs::read_to_string(dir.path().join(d)).unwrap();
    assert_eq!(control("cgroup.subtree_control"), "+cpu");
    assert_eq!(control("a/cgroup.subtree_control"), "");
    assert!(tree.create(&path("a/b")).unwrap());
    assert_eq!(control("a/cgroup.subtree_control"), "+cpu");
    assert!(dir.path().join("a/b").is_dir());
    // If a part cannot be created, the parts that were created before it are removed. Here that is
    // a/c: no kernel creates its files, so a/c/d cannot be created.
    let e = tree.create(&path("a/c/d")).unwrap_err().to_string();
    assert!(e.contains("a/c/cgroup.subtree_control"), "{e}");
    assert!(!dir.path().join("a/c").exists());
}

/// The kernel would create the child, because the CPU controller is threaded, but would then let no
/// process in. So the tree refuses to create it.
#[test]
fn below_processes_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a", "b/x"], InFiles::default());
    let put = |d: &str, text: &str| fs::write(dir.path().join(d), text).unwrap();
    put("cgroup.procs", "1\n2\n"); // of the root, which has no cgroup.type
    put("cgroup.subtree_control", "cpu\n");
    for part in ["a", "b"] {
        put(&format!("{part}/cgroup.type"), "domain\n");
        put(&format!("{part}/cgroup.procs"), "812\n");
    }
    for new in ["a/y", "a/y/z", "b/x"] {
        let e = tree.create(&path(new)).unwrap_err().to_string();
        assert!(e.contains("processes of its own"), "{e}");
    }
    let control = fs::read_to_string(dir.path().join("a/cgroup.subtree_control")).unwrap();
    assert_eq!(control, "", "nothing was changed");
    put("b/cgroup.subtree_control", "cpu\n");
    assert!(!tree.create(&path("b/x")).unwrap(), "it is there");
    assert!(tree.create(&path("b/y")).is_err());
    put("a/cgroup.type", "threaded\n");
    assert!(tree.create(&path("a/y")).unwrap(), "threads may be beside");
}

#[test]
fn without_the_controller_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &[], InFiles::default());
    fs::write(dir.path().join("cgroup.controllers"), "memory cpuset\n").unwrap();
    let e = tree.create(&path("a")).unwrap_err();
    assert!(matches!(e, DomainError::NoController(_)), "{e}");
    assert!(!dir.path().join("a").exists());
}

#[test]
fn the_memory_controller_is_given_along_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a/b/c", "a/d"], InFiles::default());
    let file = |d: &str| dir.path().join(d).join("cgroup.subtree_control");
    let control = |d: &str| fs::read_to_string(file(d)).unwrap();
    assert!(tree.give_memory(&DomainPath::root()).unwrap());
    assert_eq!(control(""), "", "the root has no domain above");
    fs::write(file(""), "cpu memory\n").unwrap();
    assert!(tree.give_memory(&path("a/b")).unwrap());
    assert_eq!(control(""), "cpu memory\n", "it was there");
    assert_eq!(
        (control("a"), control("a/b")),
        ("+memory".into(), "".into())
    );
    let missing = tree.give_memory(&path("a/b/x"));
    assert!(matches!(missing, Err(DomainError::Missing(_))));
    assert_eq!(control("a/b"), "", "nothing is given to no domain");
    fs::write(dir.path().join("a/b/cgroup.type"), "domain\n").unwrap();
    fs::write(dir.path().join("a/b/cgroup.procs"), "812\n").unwrap();
    let e = tree.give_memory(&path("a/b/c")).unwrap_err().to_string();
    assert!(e.contains("a/b: it has processes of its own"), "{e}");
    fs::write(dir.path().join("cgroup.controllers"), "cpu cpuset\n").unwrap();
    assert!(!tree.give_memory(&path("a/d")).unwrap());
}

#[test]
fn a_domain_for_memory_has_no_cpu_controller() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a"], InFiles::default());
    let made = tree.create_for_memory(&path("a/x")).unwrap();
    assert_eq!(made, Some(vec![path("a/x")]));
    fs::write(dir.path().join("a/cgroup.procs"), "812\n9\n13").unwrap();
    let a = tree.open(&path("a")).unwrap();
    assert_eq!(tree.pids(&a).unwrap(), [812, 9], "the last line is cut off");
    fs::write(dir.path().join("a/cgroup.procs"), "").unwrap();
    assert!(dir.path().join("a/x").is_dir());
    let control = |d: &str| fs::read_to_string(dir.path().join(d).join("cgroup.subtree_control"));
    assert_eq!(control("").unwrap(), "+memory");
    assert_eq!(control("a").unwrap(), "+memory");
    let again = tree.create_for_memory(&path("a/x")).unwrap();
    assert_eq!(again, Some(vec![]), "it was there");
    fs::write(dir.path().join("cgroup.controllers"), "cpu\n").unwrap();
    assert_eq!(tree.create_for_memory(&path("a/y")).unwrap(), None);
    assert!(!dir.path().join("a/y").exists());
}

#[test]
fn links_lead_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    create_cgroup_files(outside.path());
    let tree = tree(dir.path(), &["a"], InFiles::default());
    std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("a/cpu.idle2")).unwrap();
    assert!(tree.open(&path("link")).is_err());
    assert!(tree.create(&path("link/x")).is_err());
    assert!(!outside.path().join("x").exists());
    let a = tree.open(&path("a")).unwrap();
    assert!(a.read("cpu.idle2").is_err());
    assert!(a.write("cpu.idle2", "x").is_err());
    let found: Vec<_> = tree.walk(&DomainPath::root()).unwrap().domains;
    let found: Vec<_> = found.iter().map(|f| f.path.to_string()).collect();
    assert_eq!(found, ["/", "a"]);
}

#[test]
fn what_is_there_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a"], InFiles::default());
    let a = tree.open(&path("a")).unwrap();
    fs::write(dir.path().join("a/cpu.max"), "50000 100000\n").unwrap();
    fs::write(dir.path().join("a/cpu.weight"), "200\n").unwrap();
    fs::write(
        dir.path().join("a/cgroup.events"),
        "populated 1\nfrozen 0\n",
    )
    .unwrap();
    fs::remove_file(dir.path().join("a/cpu.idle")).unwrap();
    let files = tree.files(&a).unwrap();
    let max = Max {
        quota_ns: 50_000_000,
        period_ns: 100_000_000,
    };
    let wanted = Files {
        weight: Some(200),
        idle: None,
        max: Some(Some(max)),
        populated: true,
    };
    assert_eq!(files, wanted);
    fs::write(dir.path().join("a/cpu.max"), "much\n").unwrap();
    let e = tree.files(&a).unwrap_err().to_string();
    assert!(e.contains("a/cpu.max: \"much\""), "{e}");
    let e = tree.open(&path("a/x")).unwrap_err().to_string();
    assert_eq!(e, "there is no domain a/x");
}

#[test]
fn a_walk_finds_all_with_their_marks() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["b/y", "a", "b/x"], InFiles::default());
    let b = tree.open(&path("b")).unwrap();
    tree.set_mark(&b, CPU, Some("25%")).unwrap();
    tree.set_mark(&b, OWNERS_POLICY, Some("nonsense")).unwrap();
    let walk = tree.walk(&DomainPath::root()).unwrap();
    let paths: Vec<_> = walk.domains.iter().map(|f| f.path.to_string()).collect();
    assert_eq!(paths, ["/", "a", "b", "b/x", "b/y"]);
    assert!(!walk.truncated);
    let found = &walk.domains[2];
    assert_eq!(found.cgid, b.cgid().unwrap());
    assert!(found.marks.reservation.is_some());
    assert_eq!(found.marks.policy, DomainPolicy::Default);
    assert_eq!(found.wrong[0].attribute, OWNERS_POLICY);
    assert_eq!(tree.walk(&path("b")).unwrap().domains.len(), 3);
    assert!(tree.walk(&path("c")).is_err());
}

#[test]
fn what_is_too_deep_is_left_out_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &[&["d"; 16].join("/")], InFiles::default());
    assert!(!tree.walk(&DomainPath::root()).unwrap().truncated);
    fs::create_dir(dir.path().join(["d"; 17].join("/"))).unwrap();
    let walk = tree.walk(&DomainPath::root()).unwrap();
    assert!(walk.truncated);
    assert_eq!(walk.domains.len(), 17);
}

#[test]
fn a_walk_leaves_out_what_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a/b", "c/d/e", "f"], InFiles::default());
    let walk = tree.walk_as(&DomainPath::root(), |dir| match dir.path.name() {
        "a" => Enter::No,
        "d" => Enter::Alone,
        _ => Enter::Below,
    });
    let walk = walk.unwrap();
    let found: Vec<_> = walk.domains.iter().map(|f| f.path.to_string()).collect();
    assert_eq!(found, ["/", "c", "c/d", "f"]);
    assert!(!walk.truncated, "no limit was reached");
}

/// Give folders to a user, as a delegation does. False if this test may not.
fn delegate(root: &std::path::Path, names: &[&str], uid: u32) -> bool {
    let mut names = names.iter().map(|n| root.join(n));
    names.all(|at| std::os::unix::fs::chown(at, Some(uid), None).is_ok())
}

#[test]
fn one_users_directories_hide_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a/own", "b/own", "c"], InFiles::default());
    if !delegate(dir.path(), &["a", "a/own"], 1000) || !delegate(dir.path(), &["b"], 1001) {
        return;
    }
    // More than the descriptors that a process may have. A subordinate user made some.
    for n in 0..MAX_OWNED + 500 {
        fs::create_dir(dir.path().join(format!("a/own/{n}"))).unwrap();
        if n % 2 == 0 {
            assert!(delegate(
                dir.path(),
                &[&format!("a/own/{n}")],
                100_000 + n as u32
            ));
        }
    }
    let walk = tree.walk(&DomainPath::root()).unwrap();
    assert!(walk.truncated && walk.cut.iter().eq(&[1000]));
    let of = |owner| walk.domains.iter().filter(|f| f.owner == owner).count();
    assert_eq!((of(1000), of(1001), of(0)), (MAX_OWNED, 2, 2));
    let c = walk.domains.iter().any(|f| f.path.to_string() == "c");
    assert!(c, "it comes after them");
    assert_eq!(tree.open(&path("a/own/2")).unwrap().owner(), 1000);
}

#[test]
fn removal_has_its_reasons() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &["a/b"], InFiles::default());
    let events = |text: &str| fs::write(dir.path().join("a/b/cgroup.events"), text).unwrap();
    events("populated 1\n");
    for full in ["a", "a/b"] {
        let e = tree.remove(&path(full)).unwrap_err().to_string();
        assert!(e.contains("processes or domains below"), "{e}");
    }
    events("populated 0\n");
    tree.remove(&path("a/b")).unwrap();
    tree.remove(&path("a")).unwrap();
    assert!(!dir.path().join("a").exists());
    let again = tree.remove(&path("a"));
    assert!(matches!(again, Err(DomainError::Missing(_))));
    assert!(tree.remove(&DomainPath::root()).is_err());
}
