//! The protector, tested with folders that stand for cgroups, debugfs and /sys.

use super::*;
use std::fs;

pub const MB: u64 = 1 << 20;
pub const PI: Duration = Duration::from_millis(1600);
pub const STEP: Duration = Duration::from_millis(900);
/// From a check to the next one.
pub const CHECK: Duration = Duration::from_millis(100);

pub fn path(text: &str) -> DomainPath {
    text.parse().unwrap()
}

pub struct Fake {
    dir: tempfile::TempDir,
    pub start: Instant,
}

impl Fake {
    /// A machine with ages and the cgroups `domains`, each of which uses 100 MB.
    pub fn new(domains: &[&str]) -> (Self, Protector) {
        let dir = tempfile::tempdir().unwrap();
        let fake = Self {
            dir,
            start: Instant::now(),
        };
        for part in ["cgroup", "debug", "lru_gen"] {
            fs::create_dir(fake.at(part)).unwrap();
        }
        fake.put("lru_gen/enabled", "0x0007\n");
        domains.iter().for_each(|domain| fake.make(domain));
        fake.ages(domains, 0);
        let protector = fake.protector();
        (fake, protector)
    }

    /// Create the cgroup of a domain, which uses 100 MB, and those above it.
    pub fn make(&self, domain: &str) {
        for path in std::iter::successors(Some(path(domain)), DomainPath::parent) {
            let dir = format!("cgroup/{}", path.parts().collect::<Vec<_>>().join("/"));
            if !path.is_root() && !self.at(&dir).join(KNOB).exists() {
                fs::create_dir_all(self.at(&dir)).unwrap();
                self.put(&format!("{dir}/memory.min"), "0\n");
                self.put(&format!("{dir}/memory.current"), &(100 * MB).to_string());
                self.put(&format!("{dir}/cpu.stat"), "usage_usec 1\n");
            }
        }
    }

    fn protector(&self) -> Protector {
        let mut journal = Journal::open(&self.at("run/knobs")).unwrap();
        assert!(journal.recover().complaints.is_empty());
        let places = Places {
            cgroup: self.at("cgroup"),
            debugfs: self.at("debug"),
            lru_gen: self.at("lru_gen"),
        };
        Protector::new(places, journal)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn put(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap().trim().to_owned()
    }

    pub fn protection(&self, domain: &str) -> String {
        self.get(&format!("cgroup/{domain}/memory.min"))
    }

    pub fn runs(&self, domain: &str, usage_us: u64) {
        let text = format!("usage_usec {usage_us}\n");
        self.put(&format!("cgroup/{domain}/cpu.stat"), &text);
    }

    /// Each domain has this much expired memory. The last cgroup takes the aging commands, which
    /// are appended to the file.
    pub fn ages(&self, domains: &[&str], expired_mb: u64) {
        let pages = expired_mb * MB / page_size().0;
        let mut text = String::new();
        for (domain, id) in domains.iter().zip(5..) {
            text += &format!("memcg {id:5} /{domain}\n node 0\n");
            text += &format!(" 6 5000 0 {pages}\n 7 1800 9 9\n 8 900 9 9\n 9 0 9 9\n");
        }
        self.put("debug/lru_gen", &(text + "memcg 9 /z\n"));
    }

    fn commands(&self) -> usize {
        self.get("debug/lru_gen").matches("+ 5 0 9").count()
    }
}

#[test]
fn a_domain_is_protected_by_age_and_put_back() {
    let (fake, mut protector) = Fake::new(&["media"]);
    let start = fake.start;
    assert_eq!(protector.mode(), Mode::Ages);
    assert_eq!(protector.deadline(), None);
    protector.protect(&path("media"), &[], PI, start).unwrap();
    assert_eq!(
        (fake.protection("media"), fake.commands()),
        ("max".into(), 0)
    );
    assert_eq!(protector.deadline(), Some(start + CHECK));
    // 40 MB of 100 are expired; the headroom is 1/8 of 100.
    fake.ages(&["media"], 40);
    assert!(protector.tick(start + STEP / 2).is_empty(), "a check");
    assert_eq!(fake.protection("media"), "max");
    fake.runs("media", 2);
    assert!(protector.tick(start + STEP).is_empty());
    let wanted = 60 * MB + 100 * MB / 8;
    assert_eq!(
        (fake.protection("media"), fake.commands()),
        (wanted.to_string(), 1)
    );
    let table = protector.table(start + STEP + Duration::from_millis(5));
    let line = Line {
        path: path("media"),
        pi_ms: 1600,
        usage: Bytes(100 * MB),
        private: Bytes(0),
        working_set: Some(Bytes(60 * MB)),
        protection: Protection::Bytes(Bytes(wanted)),
        looked_ms_ago: 5,
        limited_by: None,
    };
    assert_eq!(table, [line]);
    let json = serde_json::to_string(&table).unwrap();
    assert!(
        json.contains(r#""path":"media","pi_ms":1600,"usage":104857600"#),
        "{json}"
    );
    // It does not run any more.
    assert!(protector.tick(start + 2 * STEP).is_empty());
    assert_eq!(fake.commands(), 1, "no use, no aging");
    assert_eq!(protector.deadline(), Some(start + 2 * STEP + CHECK));
    assert!(protector.tick(start + STEP + PI).is_empty());
    assert_eq!(
        (fake.protection("media"), protector.deadline()),
        ("0".into(), None)
    );
    // It returns.
    protector.used(&path("media"), start + 10 * PI).unwrap();
    assert_eq!(
        (fake.protection("media"), fake.commands()),
        ("max".into(), 2)
    );
    protector.release(&path("media")).unwrap();
    assert_eq!(
        (fake.protection("media"), protector.deadline()),
        ("0".into(), None)
    );
}

#[test]
fn nothing_outlives_a_killed_protector() {
    let (fake, mut protector) = Fake::new(&["a", "b"]);
    for domain in ["a", "b"] {
        protector
            .protect(&path(domain), &[], PI, fake.start)
            .unwrap();
    }
    drop(protector);
    assert_eq!(fake.protection("a"), "max");
    let mut protector = fake.protector();
    assert_eq!(
        (fake.protection("a"), fake.protection("b")),
        ("0".into(), "0".into())
    );
    protector.protect(&path("a"), &[], PI, fake.start).unwrap();
    assert_eq!(protector.end().restored, 1);
    assert_eq!(
        (fake.protection("a"), protector.table(fake.start).len()),
        ("0".into(), 0)
    );
}

#[test]
fn ancestors_that_are_ours_protect_as_much_as_what_is_below() {
    let (fake, mut protector) = Fake::new(&["top/ours/a", "top/ours/b"]);
    let (a, b) = (path("top/ours/a"), path("top/ours/b"));
    let ours = [DomainPath::root(), path("top/ours"), path("elsewhere")];
    protector.protect(&a, &ours, PI, fake.start).unwrap();
    protector.protect(&b, &ours, PI, fake.start).unwrap();
    assert_eq!(
        (fake.protection("top"), fake.protection("top/ours")),
        ("0".into(), "max".into())
    );
    let table = protector.table(fake.start);
    assert_eq!(table[0].limited_by, Some(path("top")));
    fake.put("cgroup/top/memory.min", "200000000\n");
    assert_eq!(protector.table(fake.start)[0].limited_by, None);
    // Both have expired pages: the sum. One is withdrawn: the other's. Both: nothing.
    fake.ages(&["top/ours/a", "top/ours/b"], 50);
    fake.runs("top/ours/a", 2);
    fake.runs("top/ours/b", 2);
    assert!(protector.tick(fake.start + STEP).is_empty());
    let one = 50 * MB + 100 * MB / 8;
    let one = one.next_multiple_of(page_size().0);
    assert_eq!(fake.protection("top/ours/a"), one.to_string());
    assert_eq!(fake.protection("top/ours"), (2 * one).to_string());
    fake.runs("top/ours/b", 3);
    assert!(protector.tick(fake.start + 2 * STEP).is_empty());
    assert!(protector.tick(fake.start + STEP + PI).is_empty());
    assert_eq!(fake.protection("top/ours/a"), "0");
    assert_eq!(fake.protection("top/ours"), one.to_string());
    protector.release(&b).unwrap();
    assert_eq!(fake.protection("top/ours"), "0");
    // A domain above is protected for itself, too.
    fake.ages(&["top/ours", "top/ours/b"], 0);
    protector
        .protect(&path("top/ours"), &[], PI, fake.start)
        .unwrap();
    protector
        .protect(&b, &[path("top/ours")], PI, fake.start)
        .unwrap();
    protector.protect(&b, &[], PI, fake.start).unwrap();
    assert_eq!(fake.protection("top/ours"), "max");
}

#[test]
fn without_ages_a_use_is_what_counts() {
    for (file, text, why) in [
        ("lru_gen/enabled", Some("0x0000\n"), "it reads \"0x0000\""),
        ("lru_gen/enabled", None, "lru_gen/enabled: opening it"),
        ("debug/lru_gen", None, "debug/lru_gen: opening it"),
    ] {
        let (fake, mut protector) = Fake::new(&["media"]);
        let start = fake.start;
        fake.ages(&["media"], 40);
        match text {
            Some(text) => fake.put(file, text),
            None => fs::remove_file(fake.at(file)).unwrap(),
        }
        let Mode::Uses { why: said } = protector.mode() else {
            panic!("{why}");
        };
        assert!(said.contains(why), "{said}");
        protector.protect(&path("media"), &[], PI, start).unwrap();
        fake.runs("media", 2);
        assert!(protector.tick(start + STEP).is_empty());
        assert_eq!(fake.protection("media"), "max");
        assert!(protector.tick(start + 2 * STEP).is_empty());
        assert!(protector.tick(start + STEP + PI).is_empty());
        assert_eq!(fake.protection("media"), "0");
    }
}

#[test]
fn a_removed_cgroup_is_forgotten() {
    let (fake, mut protector) = Fake::new(&["p/a", "b"]);
    protector
        .protect(&path("p/a"), &[path("p")], PI, fake.start)
        .unwrap();
    protector.protect(&path("b"), &[], PI, fake.start).unwrap();
    fs::remove_dir_all(fake.at("cgroup/p/a")).unwrap();
    fs::remove_file(fake.at("cgroup/b/memory.min")).unwrap();
    fs::remove_file(fake.at("cgroup/b/memory.current")).unwrap();
    let complaints = protector.tick(fake.start + STEP);
    let [e] = &complaints[..] else {
        panic!("{complaints:?}");
    };
    assert!(
        e.to_string()
            .contains("b/memory.min: there is no such file: the domain above"),
        "{e}"
    );
    assert_eq!(
        (fake.protection("p"), protector.deadline()),
        ("0".into(), None)
    );
    for (domain, why) in [("p/a", "no such cgroup"), ("b", "memory controller")] {
        let e = protector
            .protect(&path(domain), &[], PI, fake.start)
            .unwrap_err();
        assert!(e.to_string().contains(why), "{e}");
    }
    protector.used(&path("p/a"), fake.start).unwrap();
    protector.release(&path("p/a")).unwrap();
}

#[test]
fn a_failed_look_is_reported_and_not_repeated_at_once() {
    let (fake, mut protector) = Fake::new(&["media"]);
    let start = fake.start;
    protector.protect(&path("media"), &[], PI, start).unwrap();
    fake.put("cgroup/media/memory.current", "much\n");
    let complaints = protector.tick(start + STEP);
    assert!(
        complaints[0].to_string().contains("\"much\""),
        "{complaints:?}"
    );
    assert_eq!(protector.deadline(), Some(start + STEP + CHECK));
    assert_eq!(fake.protection("media"), "max", "the protection stays");
    // Ages that cannot be read: all that is used counts as young.
    fake.put("cgroup/media/memory.current", "4096\n");
    fake.put("debug/lru_gen", "memcg 5 /media\n nonsense\n");
    fake.runs("media", 2);
    let complaints = protector.tick(start + 2 * STEP);
    assert!(
        complaints[0].to_string().contains("lru_gen:2: "),
        "{complaints:?}"
    );
    assert_eq!(fake.protection("media"), "max");
}

#[test]
fn ages_that_are_missing_for_one_domain_do_not_cost_another_its_own() {
    let (fake, mut protector) = Fake::new(&["a", "b"]);
    let start = fake.start;
    for domain in ["a", "b"] {
        protector.protect(&path(domain), &[], PI, start).unwrap();
        fake.runs(domain, 2);
    }
    fake.ages(&["a"], 40);
    let complaints = protector.tick(start + STEP);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    let complaint = complaints[0].to_string();
    assert!(
        complaint.ends_with("it does not list the cgroup /b"),
        "{complaint}"
    );
    assert_eq!(
        fake.protection("b"),
        "max",
        "all that it uses counts as young"
    );
    let wanted = 60 * MB + 100 * MB / 8;
    assert_eq!(fake.protection("a"), wanted.to_string());
}

#[test]
fn an_administrators_protection_stays() {
    let (fake, mut protector) = Fake::new(&["media"]);
    fake.put("cgroup/media/memory.min", "90000000\n");
    protector
        .protect(&path("media"), &[], PI, fake.start)
        .unwrap();
    assert_eq!(fake.protection("media"), "max");
    fake.ages(&["media"], 80);
    fake.runs("media", 2);
    assert!(protector.tick(fake.start + STEP).is_empty());
    assert_eq!(fake.protection("media"), "90000000");
}

#[test]
fn a_cap_holds_for_all_domains_below() {
    let (fake, mut protector) = Fake::new(&["ours/a", "ours/b"]);
    let ours = [path("ours")];
    protector.cap(&ours[0], Bytes(150 * MB));
    for domain in ["ours/a", "ours/b"] {
        protector
            .protect(&path(domain), &ours, PI, fake.start)
            .unwrap();
    }
    assert_eq!(fake.protection("ours/a"), "max");
    assert_eq!(fake.protection("ours"), (150 * MB).to_string());
    protector.end();
    assert_eq!(fake.protection("ours"), "0");
}
