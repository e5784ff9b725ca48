//! Directories: masks, drop-ins, precedence, and files that are refused.

use aplomb_spec::{load, Dirs, LoadOptions, ServerPolicy, Severity, SpecSet, Trust};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use tempfile::TempDir;

const VENDOR: &str = "usr/lib/aplomb/specs.d";
const ETC: &str = "etc/aplomb/specs.d";
const RUN: &str = "run/aplomb/specs.d";

struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        files.iter().for_each(|(p, t)| tree.put(p, t));
        tree
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn load(&self) -> SpecSet {
        load(
            &Dirs::under(self.0.path()),
            &LoadOptions {
                trust: Trust::AnyOwner,
            },
        )
    }

    /// Diagnostics with this severity, without the path of the tree.
    fn said(&self, set: &SpecSet, severity: Severity) -> Vec<String> {
        let base = format!("{}/", self.0.path().display());
        set.diagnostics
            .iter()
            .filter(|d| d.severity == severity)
            .map(|d| d.to_string().replace(&base, ""))
            .collect()
    }
}

fn spec(name: &str, ms: u32) -> String {
    format!("[[spec]]\nname = '{name}'\npath = '/usr/bin/{name}'\ncpu = '{ms}ms/30ms'\n")
}

fn at(dir: &str, file: &str) -> String {
    format!("{dir}/{file}")
}

fn runtime_ms(set: &SpecSet, name: &str) -> u64 {
    set.get(name)
        .unwrap_or_else(|| panic!("no {name}: {:?}", set.diagnostics))
        .runtime_ns
        / 1_000_000
}

#[test]
fn nothing_there_is_no_error() {
    let set = Tree::new(&[]).load();
    assert!(set.specs.is_empty() && set.diagnostics.is_empty());
}

#[test]
fn same_file_name_masks() {
    let t = Tree::new(&[]);
    t.put(&at(VENDOR, "a.toml"), &(spec("x", 1) + &spec("y", 1)));
    t.put(&at(ETC, "a.toml"), &spec("x", 2));
    let set = t.load();
    assert_eq!((set.specs.len(), runtime_ms(&set, "x")), (1, 2));
    assert_eq!(
        t.said(&set, Severity::Note),
        ["etc/aplomb/specs.d/a.toml: note: masks usr/lib/aplomb/specs.d/a.toml"]
    );
    t.put(&at(RUN, "a.toml"), &spec("x", 3));
    assert_eq!(runtime_ms(&t.load(), "x"), 3);
    t.put(&at(RUN, "a.toml"), "");
    assert!(t.load().specs.is_empty(), "an empty file masks");
    fs::remove_file(t.path(&at(RUN, "a.toml"))).unwrap();
    symlink("/dev/null", t.path(&at(RUN, "a.toml"))).unwrap();
    assert!(t.load().specs.is_empty(), "a link to /dev/null masks");
    assert!(!t.load().has_errors());
}

#[test]
fn stronger_places_win_the_matcher() {
    let t = Tree::new(&[("etc/aplomb/spec.tab", "/usr/bin/x:iact:4:30:-\n")]);
    t.put(&at(VENDOR, "a.toml"), &spec("x", 1));
    t.put(&at(ETC, "b.toml"), &spec("x", 2));
    let set = t.load();
    assert_eq!(
        (set.specs.len(), runtime_ms(&set, "x")),
        (1, 4),
        "spec.tab is stronger than /etc's files"
    );
    assert_eq!(
        t.said(&set, Severity::Note),
        [
            "etc/aplomb/specs.d/b.toml:1:1: note: this \"x\" replaces another (see usr/lib/aplomb/specs.d/a.toml:1:1)",
            "etc/aplomb/spec.tab:1:1: note: \"x\" takes path \"/usr/bin/x\" over from \"x\" (see etc/aplomb/specs.d/b.toml:1:1)",
        ]
    );
    t.put(&at(RUN, "c.toml"), &spec("x", 5));
    assert_eq!(runtime_ms(&t.load(), "x"), 5, "/run is the strongest");
}

#[test]
fn drop_ins_change_keys_by_name() {
    let t = Tree::new(&[]);
    t.put(&at(VENDOR, "a.toml"), &(spec("x", 1) + &spec("y", 1)));
    t.put(
        &at(VENDOR, "a.toml.d/10.conf"),
        "[[spec]]\nname = 'x'\ninherit = true\nio = 3\n",
    );
    t.put(
        &at(ETC, "a.toml.d/10.conf"),
        "[[spec]]\nname = 'x'\ncpu = '7ms/30ms'\n",
    );
    t.put(
        &at(ETC, "a.toml.d/05.conf"),
        "[[spec]]\nname = 'y'\npath = ['/opt/y']\nprotect = '1min'\n",
    );
    t.put(
        &at(RUN, "a.toml.d/01.conf"),
        "[[spec]]\nname = 'y'\nprotect = 'auto'\nio = 1\n",
    );
    let set = t.load();
    assert!(!set.has_errors(), "{:?}", set.diagnostics);
    let (x, y) = (set.get("x").unwrap(), set.get("y").unwrap());
    assert_eq!(
        (runtime_ms(&set, "x"), x.inherit, x.io),
        (7, false, None),
        "etc's 10.conf masks the vendor's"
    );
    assert_eq!(
        (y.protect_s, y.io, y.matchers.len()),
        (None, Some(1), 1),
        "the runtime's is laid on last"
    );
    assert_eq!(y.matchers[0].to_string(), "path \"/opt/y\"");
}

#[test]
fn drop_ins_that_miss_are_reported() {
    let t = Tree::new(&[]);
    t.put(&at(VENDOR, "a.toml"), &spec("firefox", 1));
    t.put(
        &at(ETC, "a.toml.d/1.conf"),
        "[[spec]]\nname = 'firefix'\nio = 3\n[[spec]]\nio = 1\n",
    );
    t.put(&at(ETC, "b.toml.d/1.conf"), "");
    t.put(&at(ETC, "c.conf"), "");
    t.put(&at(ETC, "a.toml~"), "rubbish");
    let set = t.load();
    let base = t.path(&at(VENDOR, "a.toml")).display().to_string();
    assert_eq!(
        set.diagnostics
            .iter()
            .filter(|d| d.is_error())
            .map(|d| d.message.as_str())
            .collect::<Vec<_>>(),
        [
            format!("{base} has no spec \"firefix\"").as_str(),
            "a drop-in names the spec that it changes"
        ]
    );
    assert_eq!(
        set.diagnostics.iter().find_map(|d| d.suggestion.as_deref()),
        Some("firefox")
    );
    assert_eq!(
        t.said(&set, Severity::Warning),
        [
            "etc/aplomb/specs.d/c.conf: warning: not read: specs are in *.toml, \
             drop-ins in NAME.toml.d/*.conf",
            "etc/aplomb/specs.d/b.toml.d/1.conf: warning: this drop-in has no effect: there is no such file of specs",
        ]
    );
    assert_eq!(runtime_ms(&set, "firefox"), 1);
}

#[test]
fn a_drop_in_can_make_a_spec_wrong_and_is_named() {
    let t = Tree::new(&[]);
    t.put(
        &at(VENDOR, "a.toml"),
        "[[spec]]\nname='x'\ncommand='x'\ncpu='1ms/9ms'\nrevocable=true\n",
    );
    t.put(
        &at(ETC, "a.toml.d/1.conf"),
        "[[spec]]\nname='x'\nrevocable=false\n",
    );
    let set = t.load();
    assert!(set.specs.is_empty());
    assert!(t.said(&set, Severity::Error)[0]
        .starts_with("etc/aplomb/specs.d/a.toml.d/1.conf:3:11: field \"revocable\""));
}

#[test]
fn a_drop_in_can_guarantee_what_was_revocable() {
    let t = Tree::new(&[]);
    t.put(
        &at(VENDOR, "a.toml"),
        "[[spec]]\nname='x'\npath='/x'\ncpu='5ms/30ms'\nrevocable=true\n",
    );
    let drop_in = at(ETC, "a.toml.d/1.conf");
    t.put(
        &drop_in,
        "[[spec]]\nname='x'\nguaranteed=true\nserver='cbs-hard'\n",
    );
    let set = t.load();
    assert!(set.specs.is_empty());
    let said = &t.said(&set, Severity::Error)[0];
    assert!(said.contains("field \"revocable\"") && said.contains("\"revocable = false\""));
    t.put(
        &drop_in,
        "[[spec]]\nname='x'\nguaranteed=true\nserver='cbs-hard'\nrevocable=false\n",
    );
    let x = t.load().get("x").cloned().unwrap();
    assert!(x.guaranteed && !x.revocable);
    assert_eq!(x.server, Some(ServerPolicy::CbsHard));
}

#[test]
fn one_bad_file_does_not_cost_the_others() {
    let t = Tree::new(&[]);
    t.put(&at(VENDOR, "bad.toml"), "[[spec\n");
    t.put(&at(VENDOR, "good.toml"), &spec("x", 1));
    let set = t.load();
    assert!(set.has_errors());
    assert_eq!(runtime_ms(&set, "x"), 1);
}

#[test]
fn what_is_not_a_file_is_refused_at_once() {
    let t = Tree::new(&[]);
    t.put(&at(ETC, "big.toml"), &"#\n".repeat((1 << 19) + 1));
    fs::create_dir(t.path(&at(ETC, "dir.toml"))).unwrap();
    let fifo = t.path(&at(ETC, "fifo.toml"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    symlink("/nowhere/at/all", t.path(&at(ETC, "gone.toml"))).unwrap();
    symlink("/dev/zero", t.path(&at(ETC, "zero.toml"))).unwrap();
    let said = t.said(&t.load(), Severity::Error);
    let named = |n: &str| {
        said.iter()
            .find(|d| d.contains(n))
            .unwrap_or_else(|| panic!("{n}: {said:?}"))
            .as_str()
    };
    assert!(named("big.toml").ends_with("the file is longer than 1048576 bytes"));
    for n in ["dir.toml", "fifo.toml", "zero.toml"] {
        assert!(named(n).ends_with("this is no file"), "{n}");
    }
    assert!(named("gone.toml").contains("cannot read the file"));
}

#[test]
fn exactly_the_longest_file_is_read() {
    let t = Tree::new(&[]);
    let text = spec("x", 1);
    t.put(
        &at(ETC, "a.toml"),
        &(text.clone() + &"#".repeat((1 << 20) - text.len())),
    );
    assert_eq!(runtime_ms(&t.load(), "x"), 1);
}

#[test]
fn files_that_others_can_write_are_not_believed() {
    let t = Tree::new(&[]);
    t.put(&at(ETC, "a.toml"), &spec("x", 1));
    let strict = || load(&Dirs::under(t.0.path()), &LoadOptions::default());
    let root = rustix::process::geteuid().is_root();
    let mode = |p: &str, m| fs::set_permissions(t.path(p), fs::Permissions::from_mode(m)).unwrap();
    mode(ETC, 0o755);
    mode(&at(ETC, "a.toml"), 0o644);
    assert_eq!(
        strict().has_errors(),
        !root,
        "refused unless it belongs to root"
    );
    for (path, bad) in [
        (at(ETC, "a.toml"), 0o664),
        (at(ETC, "a.toml"), 0o646),
        (ETC.to_string(), 0o777),
    ] {
        mode(&path, bad);
        let set = strict();
        assert!(set.specs.is_empty() && set.has_errors(), "{path} {bad:o}");
        mode(&path, if path == ETC { 0o755 } else { 0o644 });
    }
    if root {
        std::os::unix::fs::chown(t.path(&at(ETC, "a.toml")), Some(1000), None).unwrap();
        assert!(strict().diagnostics[0]
            .message
            .contains("does not belong to root"));
    }
}

/// Only root can give files away, so other users see one half of this.
#[test]
fn a_refused_file_changes_nothing() {
    let t = Tree::new(&[]);
    t.put(&at(VENDOR, "a.toml"), &spec("x", 1));
    t.put(&at(ETC, "a.toml"), &spec("x", 2));
    t.put("etc/aplomb/spec.tab", "/usr/bin/y:iact:4:30:-\n");
    let strict = || load(&Dirs::under(t.0.path()), &LoadOptions::default());
    let says = |set: &SpecSet, file: &str, why: &str| {
        let of_file = |d: &&aplomb_spec::Diagnostic| d.is_error() && d.place.file.ends_with(file);
        let said: Vec<_> = set.diagnostics.iter().filter(of_file).collect();
        assert!(
            said.len() == 1 && said[0].message.contains(why),
            "{file}: {:?}",
            set.diagnostics
        );
    };
    if !rustix::process::geteuid().is_root() {
        assert!(strict().specs.is_empty());
        return;
    }
    let give = |path: &str| std::os::unix::fs::chown(t.path(path), Some(1000), None).unwrap();
    assert_eq!((strict().specs.len(), runtime_ms(&strict(), "x")), (2, 2));
    give(&at(ETC, "a.toml"));
    let set = strict();
    says(&set, "etc/aplomb/specs.d/a.toml", "does not belong to root");
    assert_eq!(runtime_ms(&set, "x"), 1, "the vendor's file is not masked");
    give("etc/aplomb");
    let set = strict();
    says(&set, "etc/aplomb/spec.tab", "etc/aplomb: it does not");
    says(&set, ETC, "nothing is read from here");
    assert_eq!((set.specs.len(), runtime_ms(&set, "x")), (1, 1));
    fs::create_dir_all(t.path("run/aplomb")).unwrap();
    symlink(t.path(ETC), t.path(RUN)).unwrap();
    let set = strict();
    says(&set, RUN, "etc/aplomb: it does not");
    assert_eq!(runtime_ms(&set, "x"), 1);
}

#[test]
fn a_program_reads_the_specs_that_were_installed_with_it() {
    let t = Tree::new(&[]);
    t.put("opt/lib/aplomb/specs.d/a.toml", &spec("x", 1));
    let vendor_of = |program: &str| Dirs::for_program(Some(&t.path(program))).vendor;
    assert_eq!(
        vendor_of("opt/bin/aplomb"),
        t.path("opt/lib/aplomb/specs.d")
    );
    let default = Dirs::under("/".as_ref()).vendor;
    assert_eq!(vendor_of("opt/target/aplomb"), default, "not in bin/");
    assert_eq!(vendor_of("other/bin/aplomb"), default, "no specs there");
    assert_eq!(Dirs::for_program(None).vendor, default);
}
