//! `spec check`: errors, lints and notes, and their order.

use aplomb_spec::{check_file, check_files, Checked, Resolver, Severity, StatDevice};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

struct Files(TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn check(&self, name: &str, text: &str) -> Checked {
        check_file(&self.put(name, text), None::<&Resolver<StatDevice>>)
    }

    fn said(&self, c: &Checked) -> Vec<String> {
        let base = format!("{}/", self.0.path().display());
        c.diagnostics
            .iter()
            .map(|d| d.to_string().replace(&base, ""))
            .collect()
    }
}

#[test]
fn a_good_file_says_nothing() {
    let f = Files::new();
    let c = f.check(
        "a.toml",
        "[[spec]]\nname='x'\npath='/opt/x'\ncpu='5ms/30ms'\n",
    );
    assert_eq!((c.specs.len(), f.said(&c)), (1, vec![]));
    let c = f.check("a.tab", "/opt/x:iact:5:30:IR:-:-\n");
    assert_eq!((c.specs.len(), f.said(&c)), (1, vec![]));
}

#[test]
fn lints() {
    let f = Files::new();
    let c = f.check(
        "a.tab",
        "/opt/x:iact:16:30:I\n/bin/bash:iact:5:100:-\n/usr/bin/python3.13:iact:5:100:-\n/bin/zsh:iact:5:100:P\n\
         /opt/y:be:-:-:IR\n/opt/z:iact:15:30:-\n/opt/w:iact:29:30:R\n/opt/g:iact:25:41:G\n/opt/h:iact:28:30:G\n",
    );
    assert_eq!(
        f.said(&c),
        [
            "a.tab:1:1: warning: field \"revocable\": \"x\" takes 53 % of a CPU and can never be revoked; did you mean \"revocable = true\"?",
            "a.tab:2:1: warning: field \"launch\": /bin/bash runs other programs' work too, such as build jobs'; flag P keeps it apart; did you mean launch = \"interactive\"?",
            "a.tab:3:1: warning: field \"launch\": /usr/bin/python3.13 runs other programs' work too, such as build jobs'; flag P keeps it apart; did you mean launch = \"interactive\"?",
            "a.tab:5:1: warning: field \"inherit\": a best-effort spec has nothing to inherit or revoke",
            "a.tab:9:1: warning: field \"cpu\": 93 % of a CPU is more than r-max unless that is set higher: it would be refused",
        ]
    );
    assert!(!c.has_errors());
    let toml = "[[spec]]\nname='b'\npath='/opt/b'\nclass='best-effort'\nserver='fcbs'\n";
    let c = f.check("b.toml", toml);
    assert_eq!(
        f.said(&c),
        ["b.toml:1:1: warning: field \"server\": a best-effort spec has no reservation, and so no server"]
    );
    let toml = "[[spec]]\nname='s'\npath='/opt/s'\napp='snap.a-b.a-b'\ncpu='5ms/30ms'\n";
    assert_eq!(
        f.check("a.toml", toml)
            .diagnostics
            .iter()
            .map(|d| d.field.clone().unwrap())
            .collect::<Vec<_>>(),
        ["app", "revocable"]
    );
}

#[test]
fn files_together_are_a_set() {
    let f = Files::new();
    let a = f.put("a.toml", "[[spec]]\nname='x'\npath='/opt/x'\ncpu='5ms/30ms'\n[[spec]]\nname='b'\npath='o'\ncpu='1ms/3ms'\n");
    let b = f.put("b.toml", "[[spec]]\nname='y'\npath='/opt/x'\ncpu='40ms/30ms'\n[[spec]]\nname='z'\npath='/opt/x'\ncpu='4ms/30ms'\n");
    let c = check_files(&[&b, &a], None::<&Resolver<StatDevice>>);
    assert!(c.has_errors());
    assert_eq!(
        f.said(&c),
        [
            "b.toml:4:5: field \"cpu\": runtime 40ms exceeds period 30ms; did you mean \"30ms/40ms\"?",
            "a.toml:1:1: warning: \"x\" takes path \"/opt/x\" over from \"z\" (see b.toml:5:1)",
            "a.toml:7:6: field \"path\": a path must be absolute; did you mean \"/usr/bin/o\"?",
        ]
    );
}

#[test]
fn a_missing_program_is_a_note() {
    let f = Files::new();
    let path = f.put("a.tab", "/opt/x:iact:5:30:-\n");
    let machine = Resolver::with(f.0.path(), StatDevice).unwrap();
    let c = check_file(&path, Some(&machine));
    assert_eq!(
        f.said(&c),
        ["a.tab:1:1: note: \"x\" is not on this machine"]
    );
    assert_eq!(c.diagnostics[0].severity, Severity::Note);
}

#[test]
fn drop_ins_masks_and_missing_files() {
    let f = Files::new();
    assert_eq!(
        f.said(&f.check("x.conf", "[[spec]]\nname='x'\nio=9\n")),
        ["x.conf:3:4: field \"io\": an I/O priority is 0 (most urgent) to 7"]
    );
    assert!(
        f.check("y.conf", "[[spec]]\nname='x'\nio=1\n")
            .diagnostics
            .is_empty(),
        "it need not be complete"
    );
    assert_eq!(
        f.said(&f.check("e.toml", "")),
        ["e.toml: note: an empty file only masks another"]
    );
    let c = check_file(&f.0.path().join("none.toml"), None::<&Resolver<StatDevice>>);
    assert!(c.has_errors() && c.diagnostics[0].message.contains("No such file"));
}
