//! Settings of packets in the attributes: weights and queues.

use super::*;
use aplomb_domain::{MAX_ALL_QUEUES, MAX_QUEUES, NET, NET_QUEUES};

fn queues(domains: &mut Domains) -> Option<usize> {
    domains.take_net_settings().map(|set| set.queues.len())
}

#[test]
fn settings_of_packets_are_handed_on_when_they_change() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a", "b"], InFiles::default());
    mark(root, "a", NET, "300");
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    assert_eq!(queues(&mut domains), Some(0), "found with a weight");
    assert_eq!(queues(&mut domains), None);
    mark(root, "b", NET_QUEUES, "voice number=1; bulk number=2");
    domains.changed(&mut fake);
    assert_eq!(queues(&mut domains), Some(2));
    mark(root, "b", POLICY, "mtr");
    domains.changed(&mut fake);
    assert_eq!(queues(&mut domains), None, "of packets nothing changed");
    fs::remove_dir_all(root.join("b")).unwrap();
    domains.changed(&mut fake);
    assert_eq!(queues(&mut domains), Some(0));
}

#[test]
fn a_wrong_attribute_of_queues_sets_none_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let tree = tree(root, &["a"], InFiles::default());
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    mark(root, "a", NET_QUEUES, "voice number=1; bulk number=x");
    domains.changed(&mut fake);
    assert_eq!(queues(&mut domains), None);
    let refusal = domains.verdict(&path("a")).unwrap().unwrap_err();
    let expected = "a: trusted.aplomb.net_queues: queue bulk: number: \"x\"";
    assert!(refusal.message.starts_with(expected), "{refusal:?}");
    mark(root, "", NET_QUEUES, "voice number=1");
    domains.scan(&mut fake);
    let refusal = domains.verdict(&DomainPath::root()).unwrap().unwrap_err();
    assert!(refusal.message.contains("root"), "{refusal:?}");
}

#[test]
fn queues_of_all_domains_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake) = (dir.path(), Fake::new());
    let full = MAX_ALL_QUEUES / MAX_QUEUES;
    let names: Vec<String> = (0..=full).map(|i| format!("d{i:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let tree = tree(root, &names, InFiles::default());
    let each: Vec<_> = (1..=MAX_QUEUES)
        .map(|n| format!("q{n} number={n}"))
        .collect();
    for name in &names[..full] {
        mark(root, name, NET_QUEUES, &each.join("; "));
    }
    let last = names[full];
    let mut domains = Domains::new(Some(tree)).unwrap();
    domains.scan(&mut fake);
    assert_eq!(queues(&mut domains), Some(MAX_ALL_QUEUES));
    mark(root, last, NET_QUEUES, "one number=1");
    domains.changed(&mut fake);
    let refusal = domains.verdict(&path(last)).unwrap().unwrap_err();
    assert!(refusal.message.contains("1024"), "{refusal:?}");
    assert_eq!(queues(&mut domains), None);
    mark(root, names[0], NET_QUEUES, "one number=1");
    mark(root, last, NET_QUEUES, "one number=1");
    domains.changed(&mut fake);
    assert!(domains.verdict(&path(last)).unwrap().is_ok());
    assert_eq!(queues(&mut domains), Some(MAX_ALL_QUEUES - 14));
}
