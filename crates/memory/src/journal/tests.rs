//! The knob journal, tested with files that stand for knobs.

use super::*;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::PathBuf;

/// A folder with a journal and knobs that read "0", each named as it is asked for.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("run/aplomb/knobs")
    }

    fn open(&self) -> Journal {
        Journal::open(&self.journal()).unwrap()
    }

    fn text(&self) -> String {
        let text = fs::read_to_string(self.journal()).unwrap();
        text.replace(self.0.path().to_str().unwrap(), "")
    }

    fn knob(&self, name: &str) -> PathBuf {
        let knob = self.0.path().join(name);
        if !knob.exists() {
            fs::create_dir_all(knob.parent().unwrap()).unwrap();
            fs::write(&knob, "0\n").unwrap();
        }
        knob
    }
}

fn value(knob: &Path) -> String {
    fs::read_to_string(knob).unwrap().trim().to_owned()
}

#[test]
fn a_killed_life_is_put_right_by_the_next() {
    let fake = Fake::new();
    let (a, b, c, d) = (
        fake.knob("a"),
        fake.knob("b"),
        fake.knob("c x"),
        fake.knob("d"),
    );
    let mut journal = fake.open();
    for knob in [&a, &b, &c, &d] {
        journal.set(knob, "max").unwrap();
    }
    journal.set(&c, "4096").unwrap();
    assert_eq!(value(&c), "4096");
    drop(journal); // as SIGKILL: nothing is put back
    let wanted = "/a 0 max\n/b 0 max\n/c\\040x 0 max\n/d 0 max\n/c\\040x 0 4096\n";
    assert_eq!(fake.text(), wanted);
    fs::write(&b, "77\n").unwrap();
    fs::remove_file(&d).unwrap();
    let mut journal = fake.open();
    assert_eq!((journal.len(), journal.old_value(&c)), (4, Some("0")));
    let report = journal.recover();
    assert_eq!(
        (value(&a), value(&b), value(&c)),
        ("0".into(), "77".into(), "0".into())
    );
    assert_eq!(report.restored, 2);
    let [MemoryError::Changed { path, now, ours }] = &report.complaints[..] else {
        panic!("{report:?}");
    };
    assert_eq!((path, now.as_str(), ours.as_str()), (&b, "77", "max"));
    assert_eq!((journal.len(), fake.text()), (0, String::new()));
}

/// SIGKILL after the line and before the write: the knob has the value that we set before.
#[test]
fn the_value_before_the_last_is_ours_too() {
    let fake = Fake::new();
    let knob = fake.knob("low");
    let path = knob.display();
    fs::create_dir_all(fake.journal().parent().unwrap()).unwrap();
    for (now, after) in [("max", "0"), ("4096", "0"), ("0", "0"), ("8192", "8192")] {
        fs::write(&knob, now).unwrap();
        let text = format!("{path} 0 8192\n{path} 0 max\n{path} 0 4096\n{path} 0 7");
        fs::write(fake.journal(), text).unwrap();
        fake.open().recover();
        assert_eq!(value(&knob), after, "{now}");
    }
}

#[test]
fn knobs_are_put_back_one_by_one() {
    let fake = Fake::new();
    let (a, b) = (fake.knob("a"), fake.knob("p/b"));
    let mut journal = fake.open();
    journal.set(&a, "max").unwrap();
    journal.set(&b, "max").unwrap();
    assert!(journal.restore(&a).unwrap());
    assert!(!journal.restore(&a).unwrap(), "it is back already");
    assert_eq!(value(&a), "0");
    assert_eq!(fake.text(), "/a 0 max\n/p/b 0 max\n/a 0 0\n");
    // The cgroup is removed, and another one of its name created.
    fs::write(&b, "5").unwrap();
    journal.forget(&fake.0.path().join("p")).unwrap();
    assert!(journal.is_empty());
    journal.set(&b, "6").unwrap();
    assert_eq!(journal.old_value(&b), Some("5"));
    journal.set(&b, "5").unwrap();
    assert!(journal.is_empty(), "the old value, by hand");
    drop(journal);
    assert!(fake.open().is_empty());
}

#[test]
fn nothing_is_written_without_need() {
    let fake = Fake::new();
    let knob = fake.knob("a");
    let mut journal = fake.open();
    journal.set(&knob, "0").unwrap();
    assert!(
        journal.is_empty() && fake.text().is_empty(),
        "it is so, but not by us"
    );
    journal.set(&knob, "max").unwrap();
    journal.set(&knob, "max").unwrap();
    assert_eq!(fake.text(), "/a 0 max\n");
    // Another program changes it. Its value is the one to put back.
    fs::write(&knob, "9\n").unwrap();
    journal.set(&knob, "max").unwrap();
    assert_eq!(journal.old_value(&knob), Some("9"));
    fs::write(&knob, "10\n").unwrap();
    let e = journal.restore(&knob).unwrap_err();
    assert!(
        e.to_string()
            .contains("reads \"10\" and we had set \"max\""),
        "{e}"
    );
    assert_eq!(value(&knob), "10");
    let e = journal.set(&fake.0.path().join("none"), "1").unwrap_err();
    assert!(e.is_vanished(), "{e}");
    assert!(journal.set(Path::new("a"), "1").is_err(), "not absolute");
}

/// /dev/null stands for a knob that shows another value than was written: the empty one.
#[test]
fn what_the_knob_shows_is_remembered() {
    let fake = Fake::new();
    let mut journal = fake.open();
    let knob = Path::new("/dev/null");
    journal.set(knob, "5000").unwrap();
    journal.set(knob, "5000").unwrap();
    // Here the shown value is the old one, so nothing is left to put back.
    assert_eq!(fake.text(), "/dev/null  5000\n/dev/null  \n");
    drop(journal);
    assert!(fake.open().is_empty());
}

#[test]
fn a_journal_of_others_is_refused() {
    let fake = Fake::new();
    let path = fake.journal();
    drop(fake.open());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o755);
    let first = fake.open();
    let e = Journal::open(&path).unwrap_err().to_string();
    assert!(e.contains("another process uses it"), "{e}");
    drop(first);
    fs::File::create(&path)
        .unwrap()
        .set_len((8 << 20) + 1)
        .unwrap();
    let e = Journal::open(&path).unwrap_err().to_string();
    assert!(
        e.contains("knobs: it has more than 8388608 bytes; remove it"),
        "{e}"
    );
    fs::remove_file(&path).unwrap();
    symlink(fake.knob("a"), &path).unwrap();
    assert!(Journal::open(&path).is_err(), "a link");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(Journal::open(&path).is_err(), "a directory");
    if rustix::process::geteuid().is_root() {
        fs::remove_dir(&path).unwrap();
        fs::write(&path, "").unwrap();
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        let e = Journal::open(&path).unwrap_err().to_string();
        assert!(e.contains("belongs to user 1234"), "{e}");
    }
}

#[test]
fn unparsable_lines_are_reported_and_the_others_count() {
    let fake = Fake::new();
    let knob = fake.knob("a");
    fs::write(&knob, "max").unwrap();
    fs::create_dir_all(fake.journal().parent().unwrap()).unwrap();
    fs::write(
        fake.journal(),
        format!("nonsense\n{} 0 max\n", knob.display()),
    )
    .unwrap();
    let report = fake.open().recover();
    assert_eq!((report.restored, value(&knob)), (1, "0".into()));
    let e = report.complaints[0].to_string();
    assert!(e.ends_with("knobs:1: not three words"), "{e}");
}

/// A knob that cannot be written stays in the journal, and the others are put back.
#[test]
fn failures_stop_nothing() {
    let fake = Fake::new();
    let (a, c) = (fake.knob("a"), fake.knob("c"));
    let mut journal = fake.open();
    journal.set(&a, "max").unwrap();
    journal.set(&c, "max").unwrap();
    fs::remove_file(&c).unwrap();
    symlink(&a, &c).unwrap();
    let report = journal.restore_all();
    assert_eq!(
        (report.restored, report.complaints.len()),
        (1, 1),
        "{report:?}"
    );
    assert_eq!((journal.len(), fake.text()), (1, "/c 0 max\n".into()));
}

#[test]
fn outdated_lines_are_dropped() {
    let fake = Fake::new();
    let knob = fake.knob("a");
    let mut journal = fake.open();
    for n in 1..=2000 {
        journal.set(&knob, &n.to_string()).unwrap();
    }
    let lines = fake.text().lines().count();
    assert!((900..1030).contains(&lines), "{lines}");
    drop(journal);
    fake.open().recover();
    assert_eq!(value(&knob), "0");
}

#[test]
fn the_number_of_knobs_has_a_limit() {
    let fake = Fake::new();
    let lines: String = (0..MAX_KNOBS).map(|n| format!("/x/{n} 0 1\n")).collect();
    fs::create_dir_all(fake.journal().parent().unwrap()).unwrap();
    fs::write(fake.journal(), lines).unwrap();
    let mut journal = fake.open();
    let e = journal.set(&fake.knob("a"), "1").unwrap_err().to_string();
    assert!(
        e.ends_with("a: 16384 knobs are changed, which is the limit"),
        "{e}"
    );
    assert_eq!(journal.recover().restored, 0, "all of them vanished");
    journal.set(&fake.knob("a"), "1").unwrap();
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]
    /// Wherever SIGKILL interrupts a change, the next life puts the knob back.
    #[test]
    fn a_kill_at_any_point_is_put_right(values in proptest::collection::vec(0u8..4, 1..8)) {
        let fake = Fake::new();
        let knob = fake.knob("low");
        let mut journal = fake.open();
        let state = || (fs::read(fake.journal()).unwrap(), value(&knob));
        let mut before = state();
        for value in &values {
            before = state();
            journal.set(&knob, &value.to_string()).unwrap();
        }
        let after = state();
        drop(journal);
        // The line comes before the knob, unless the old value returns.
        let last = if after.1 == "0" { &after.1 } else { &before.1 };
        let torn = (before.0.len()..=after.0.len()).map(|cut| (after.0[..cut].to_vec(), last));
        let whole = [(before.0.clone(), &before.1), (after.0.clone(), &after.1)];
        for (text, now) in torn.chain(whole) {
            fs::write(fake.journal(), &text).unwrap();
            fs::write(&knob, now).unwrap();
            let report = fake.open().recover();
            proptest::prop_assert!(report.complaints.is_empty(), "{report:?}");
            proptest::prop_assert_eq!(value(&knob), "0", "{}", String::from_utf8_lossy(&text));
        }
    }
}
