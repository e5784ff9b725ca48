//! Resolving in a fake root: links, stars, scripts, absent programs, devices, one row per key.

use aplomb_spec::{
    escape_app, flags, limits, load, tab, toml_format, Absent, Device, DeviceOf, Dirs, FileId, Key,
    LoadOptions, MountTable, Resolved, Resolver, ServerPolicy, Severity, Spec, StatDevice, Trust,
    Via,
};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Root(TempDir);

impl Root {
    fn new() -> Root {
        Root(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn program(&self, path: &str, text: &str) -> u64 {
        let file = self.path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        fs::metadata(&file).unwrap().ino()
    }

    fn link(&self, target: &str, path: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn resolver(&self) -> Resolver<StatDevice> {
        Resolver::with(self.0.path(), StatDevice).unwrap()
    }

    fn device(&self) -> u64 {
        let dev = fs::metadata(self.0.path()).unwrap().dev();
        u64::from(rustix::fs::major(dev)) << 20 | u64::from(rustix::fs::minor(dev))
    }

    fn one(&self, line: &str) -> Resolved {
        self.resolver()
            .spec(&parse(&format!("{line}:iact:1:10:-")))
            .remove(0)
    }
}

fn parse(line: &str) -> Spec {
    let (mut specs, diags) = tab::parse(Path::new("t"), line.as_bytes());
    assert_eq!(diags, []);
    specs.remove(0)
}

fn parse_toml(text: &str) -> Vec<Spec> {
    let (specs, diags) = toml_format::parse(Path::new("t"), text.as_bytes());
    assert_eq!(diags, []);
    specs
}

fn keys(r: &Resolved) -> Vec<Key> {
    r.rows.iter().map(|row| row.key).collect()
}

const ELF: &str = "\x7fELF";

#[test]
fn a_program_is_its_inode_and_device() {
    let root = Root::new();
    let inode = root.program("/usr/bin/mpv", ELF);
    let r = root.one("/usr/bin/mpv");
    assert_eq!(keys(&r), [Key::file(inode, root.device())]);
    assert_eq!(
        r.rows[0].gives.flags,
        flags::INTERACTIVE,
        "a file needs no R"
    );
    assert_eq!(
        (r.rows[0].via, r.rows[0].file.as_deref()),
        (Via::Exact, Some(Path::new("/usr/bin/mpv")))
    );
    assert_eq!((r.absent, r.watch), (None, vec![PathBuf::from("/usr/bin")]));
}

#[test]
fn links_are_followed_inside_the_root_only() {
    let root = Root::new();
    let inode = root.program("/usr/bin/vim.basic", ELF);
    root.link("usr/bin", "/bin");
    root.link("/etc/alternatives/vim", "/usr/bin/vim");
    root.link("/usr/bin/vim.basic", "/etc/alternatives/vim");
    let r = root.one("/bin/vim");
    assert_eq!(keys(&r), [Key::file(inode, root.device())]);
    assert_eq!(
        r.rows[0].file.as_deref(),
        Some(Path::new("/usr/bin/vim.basic"))
    );
    assert_eq!(
        r.watch,
        ["/etc/alternatives", "/usr/bin"].map(PathBuf::from),
        "a change of either link counts"
    );
    root.link("../../../../../../../../../../bin/sh", "/usr/bin/out");
    assert_eq!(
        root.one("/usr/bin/out").absent,
        Some(Absent::Missing),
        "the real /bin/sh is out of reach"
    );
    root.link("loop", "/usr/bin/loop");
    assert!(matches!(
        root.one("/usr/bin/loop").absent,
        Some(Absent::Unusable(_))
    ));
}

#[test]
fn what_is_absent_or_no_program() {
    let root = Root::new();
    root.program("/usr/bin/x", ELF);
    let r = root.one("/opt/none/of/it");
    assert_eq!(
        (r.absent, r.watch),
        (Some(Absent::Missing), vec![PathBuf::from("/")])
    );
    assert_eq!(root.one("/usr/bin/x/y").absent, Some(Absent::Missing));
    let why = |p: &str| match root.one(p).absent {
        Some(Absent::Unusable(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why("/usr/bin"), "it is no file");
    fs::set_permissions(root.path("/usr/bin/x"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(why("/usr/bin/x"), "it is not executable");
    let fifo = root.path("/usr/bin/fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert_eq!(
        why("/usr/bin/fifo"),
        "it is no file",
        "and nobody waits for its writer"
    );
}

#[test]
fn stars_stand_for_parts_of_names() {
    let root = Root::new();
    let esr = root.program("/usr/lib/firefox-esr/firefox", ELF);
    let plain = root.program("/usr/lib/firefox/firefox", ELF);
    root.program("/usr/lib/firefox/deeper/firefox", ELF);
    root.program("/usr/lib/.firefox/firefox", ELF);
    let r = root.one("/usr/lib/firefox*/firefox");
    let mut found = keys(&r);
    found.sort();
    let mut expected = [esr, plain].map(|i| Key::file(i, root.device()));
    expected.sort();
    assert_eq!(found, expected);
    assert!(r.rows.iter().all(|row| row.via == Via::Glob) && !r.truncated);
    assert_eq!(
        r.watch,
        ["/usr/lib", "/usr/lib/firefox", "/usr/lib/firefox-esr"].map(PathBuf::from)
    );
    assert_eq!(
        root.one("/usr/lib/none*/firefox").absent,
        Some(Absent::Missing)
    );
}

#[test]
fn other_signs_of_patterns_are_letters() {
    let root = Root::new();
    let inode = root.program("/opt/a[b]?/x1", ELF);
    root.program("/opt/ab1/x1", ELF);
    assert_eq!(
        keys(&root.one("/opt/a[b]?/x*")),
        [Key::file(inode, root.device())]
    );
}

#[test]
fn stars_are_bounded() {
    let root = Root::new();
    for i in 0..limits::MAX_GLOB_HITS + 1 {
        root.program(&format!("/opt/p{i}"), ELF);
    }
    let r = root.one("/opt/p*");
    assert_eq!((r.rows.len(), r.truncated), (limits::MAX_GLOB_HITS, true));
    let set = root.resolver().set(&[parse("/opt/p*:iact:1:10:-")]);
    assert!(
        set.diagnostics[0].message.contains("more than 64 files"),
        "{:?}",
        set.diagnostics
    );
    fs::remove_file(root.path("/opt/p0")).unwrap();
    assert!(!root.one("/opt/p*").truncated);
}

#[test]
fn scripts_are_arguments_of_their_interpreter() {
    let root = Root::new();
    let python = root.program("/usr/bin/python3.13", ELF);
    root.link("python3.13", "/usr/bin/python3");
    root.program("/usr/share/x/real", "#!/usr/bin/python3 -Es\n");
    root.link("/usr/share/x/real", "/usr/bin/typed");
    root.program("/usr/bin/by-env", "#!/usr/bin/env python3\n");
    let r = root.one("/usr/bin/typed");
    let key = |script| Key::argument(python, root.device(), script);
    assert_eq!(keys(&r), [key("/usr/bin/typed"), key("/usr/share/x/real")]);
    assert!(
        r.rows
            .iter()
            .all(|row| row.gives.flags == flags::INTERACTIVE | flags::REVOCABLE),
        "anybody can type it"
    );
    assert_eq!(
        r.rows[0].file.as_deref(),
        Some(Path::new("/usr/bin/python3.13"))
    );
    assert_eq!(keys(&root.one("/usr/bin/by-env")), [key("/usr/bin/by-env")]);
    // A script that runs scripts: the innermost interpreter is what executes.
    root.program("/usr/bin/outer", "#!/usr/bin/by-env\n");
    assert_eq!(keys(&root.one("/usr/bin/outer")), [key("/usr/bin/outer")]);
}

#[test]
fn broken_scripts_say_why() {
    let root = Root::new();
    root.program("/bin/a", "#!/usr/bin/nothing\n");
    root.program("/bin/b", "#!/bin/b\n");
    root.program("/bin/c", "#!\n");
    let why = |p: &str| format!("{:?}", root.one(p).absent.unwrap());
    assert!(
        why("/bin/a").contains("its interpreter \\\"/usr/bin/nothing\\\" is missing"),
        "{}",
        why("/bin/a")
    );
    assert!(why("/bin/b").contains("without end"));
    assert!(why("/bin/c").contains("line is empty"));
}

#[test]
fn names_have_their_keys() {
    let root = Root::new();
    let python = root.program("/usr/bin/python3", ELF);
    let spec = &parse_toml(
        "[[spec]]\nname='x'\ncpu='1ms/9ms'\nrevocable=true\nargument={path='/usr/bin/python3',argument='game.py'}\n\
         app='firefox-esr'\ncommand='wineserver'\nkernel-thread='kswapd*'",
    )[0];
    let r = root.resolver().spec(spec);
    let found: Vec<_> = r.iter().flat_map(keys).collect();
    assert_eq!(
        found,
        [
            Key::argument(python, root.device(), "game.py"),
            Key::app("firefox-esr"),
            Key::command("wineserver"),
            Key::kernel_thread("kswapd"),
        ]
    );
    assert_eq!(
        Key::app("firefox-esr").a,
        aplomb_spec::name_hash(escape_app("firefox-esr").as_bytes())
    );
}

#[test]
fn a_name_is_revocable_even_beside_a_path() {
    let root = Root::new();
    root.program("/usr/bin/x", ELF);
    let spec = &parse_toml(
        "[[spec]]\nname='x'\ncpu='1ms/9ms'\npath='/usr/bin/x'\ncommand='x'\nkernel-thread='k'",
    )[0];
    let r = root.resolver().spec(spec);
    let revocable: Vec<_> = r
        .iter()
        .map(|r| r.rows[0].gives.flags & flags::REVOCABLE != 0)
        .collect();
    assert_eq!(revocable, [false, true, false]);
}

/// Only one file is one program: what anybody's can pass for gets no promise, and says so.
#[test]
fn weak_rows_are_not_guaranteed() {
    let root = Root::new();
    root.program("/usr/bin/python3", ELF);
    root.program("/opt/real", ELF);
    root.program("/opt/script", "#!/usr/bin/python3\n");
    let specs = parse_toml(
        "[[spec]]\nname='x'\ncpu='25ms/41ms'\npath='/opt/*'\nguaranteed=true\nserver='cbs-soft'\n\
         [[spec]]\nname='soft'\ncpu='5ms/41ms'\npath='/opt/script'\nserver='cbs-soft'\n\
         [[spec]]\nname='hard'\ncpu='5ms/41ms'\nkernel-thread='k'\nguaranteed=true\nserver='cbs-hard'",
    );
    let gives = |i: usize| -> Vec<_> {
        let rows = root.resolver().spec(&specs[i]).remove(0).rows;
        rows.iter()
            .map(|r| (r.gives.flags, r.gives.server))
            .collect()
    };
    let (strong, weak) = (flags::GUARANTEED, flags::REVOCABLE);
    let i = flags::INTERACTIVE;
    assert_eq!(
        gives(0),
        [(i | strong, Some(ServerPolicy::CbsSoft)), (i | weak, None)],
        "the program, then the script"
    );
    assert_eq!(gives(1), [(i | weak, None)]);
    assert_eq!(gives(2), [(i | strong, Some(ServerPolicy::CbsHard))]);
    let set = root.resolver().set(&specs);
    let said: Vec<_> = set
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Warning && d.message.contains("pass for"))
        .map(|d| (d.place.line, d.field.clone().unwrap()))
        .collect();
    assert_eq!(
        said,
        [(1, "guaranteed".to_string()), (7, "server".to_string())]
    );
    // the same file on a file system that uses an inode's number twice
    let btrfs = Resolver::with(root.0.path(), Btrfs).unwrap();
    let file = &parse("/opt/real:iact:25:41:G");
    assert_eq!(btrfs.spec(file)[0].rows[0].gives.flags, i | weak);
    assert_eq!(
        root.resolver().spec(file)[0].rows[0].gives.flags,
        i | strong
    );
}

/// Every file on one btrfs.
struct Btrfs;

impl DeviceOf for Btrfs {
    fn device_of(&self, file: &FileId) -> Device {
        assert!(file.mount_id.is_some() || file.path.is_absolute());
        Device {
            number: 35,
            shared_inodes: true,
        }
    }
}

#[test]
fn the_superblocks_device_counts_and_shared_inodes_are_weak() {
    let root = Root::new();
    let inode = root.program("/usr/bin/x", ELF);
    let r = Resolver::with(root.0.path(), Btrfs)
        .unwrap()
        .spec(&parse("/usr/bin/x:iact:1:10:-"))
        .remove(0);
    assert_eq!(keys(&r), [Key::file(inode, 35)]);
    assert_eq!(r.rows[0].gives.flags & flags::REVOCABLE, flags::REVOCABLE);
    // With a table of mounts, by mount point: an overlay over the whole root.
    let line = format!(
        "77 1 0:123 / {} rw - overlay overlay rw",
        root.0.path().canonicalize().unwrap().display()
    );
    let mounts = MountTable::parse(&line);
    let r = Resolver::with(root.0.path(), mounts)
        .unwrap()
        .spec(&parse("/usr/bin/x:iact:1:10:-"))
        .remove(0);
    assert_eq!(keys(&r), [Key::file(inode, 123)]);
}

#[test]
fn this_machines_own_shell() {
    // /bin/sh on the real root: stat and mount table must agree but for overlayfs and btrfs.
    let r = Resolver::new(Path::new("/"))
        .unwrap()
        .spec(&parse("/bin/sh:iact:1:10:P"))
        .remove(0);
    let st = fs::metadata("/bin/sh").unwrap();
    assert_eq!((r.rows.len(), r.rows[0].key.a), (1, st.ino()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let (major, minor) = (r.rows[0].key.b >> 20, r.rows[0].key.b & 0xf_ffff);
    assert!(mounts
        .lines()
        .any(|l| l.split(' ').nth(2) == Some(&format!("{major}:{minor}"))));
}

#[test]
fn a_set_has_one_row_for_a_key() {
    let root = Root::new();
    let inode = root.program("/usr/bin/vim.basic", ELF);
    root.link("vim.basic", "/usr/bin/vim");
    root.link("vim.basic", "/usr/bin/vi");
    let specs = [
        parse("/usr/bin/vi:iact:1:10:-"),
        parse("/usr/bin/vim:iact:2:10:-"),
        parse("/usr/bin/vim*:iact:3:10:-"),
        parse("/usr/bin/gone:iact:3:10:-"),
    ];
    let set = root.resolver().set(&specs);
    assert_eq!(set.rows.len(), 1);
    assert_eq!(
        (set.rows[0].spec, set.rows[0].key),
        (1, Key::file(inode, root.device())),
        "later, and without stars"
    );
    let said: Vec<_> = set
        .diagnostics
        .iter()
        .map(|d| (d.severity, d.message.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            (
                Severity::Warning,
                "\"vim\" and \"vi\" both mean /usr/bin/vim.basic; the first holds"
            ),
            (
                Severity::Warning,
                "\"vim\" and \"vim\" both mean /usr/bin/vim.basic; the first holds"
            ),
            (Severity::Note, "\"gone\" is not on this machine"),
        ]
    );
    assert_eq!(set.watch, [PathBuf::from("/usr/bin")]);
}

#[test]
fn one_file_for_many_programs_is_only_noted_if_they_ask_the_same() {
    let root = Root::new();
    root.program("/bin/busybox", ELF);
    root.link("busybox", "/bin/ls");
    root.link("busybox", "/bin/cat");
    let severity = |b: &str| {
        let specs = [parse("/bin/ls:iact:1:10:P"), parse(b)];
        root.resolver().set(&specs).diagnostics[0].severity
    };
    assert_eq!(severity("/bin/cat:iact:1:10:P"), Severity::Note);
    assert_eq!(severity("/bin/cat:iact:1:10:-"), Severity::Warning);
}

#[test]
fn an_upgrade_gives_another_row() {
    let root = Root::new();
    let old = root.program("/usr/bin/x", ELF);
    let before = keys(&root.one("/usr/bin/x"));
    let new = root.program("/usr/bin/x.new", ELF);
    fs::rename(root.path("/usr/bin/x.new"), root.path("/usr/bin/x")).unwrap();
    let after = keys(&root.one("/usr/bin/x"));
    assert_eq!((before[0].a, after[0].a), (old, new));
    assert_ne!(old, new);
}

#[test]
fn rows_over_the_limit_are_refused() {
    let root = Root::new();
    for i in 0..limits::MAX_GLOB_HITS {
        root.program(&format!("/opt/a/{i}"), ELF);
    }
    // 64 files for each of two specs of scripts' names: more rows than matchers.
    let lists = |n: usize| {
        (0..n)
            .map(|i| format!("'x{i}'"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let text = |name: &str, n| {
        format!("[[spec]]\nname='{name}'\ncpu='1ms/9ms'\nrevocable=true\npath='/opt/a/*'\nargument=[{}]\n", lists(n))
    };
    let fits = parse_toml(&text("fits", 128));
    let set = root.resolver().set(&fits);
    assert_eq!((set.rows.len(), set.diagnostics.len()), (8192, 0));
    let set = root.resolver().set(&parse_toml(&text("over", 129)));
    assert_eq!(set.rows.len(), 8192);
    assert_eq!(
        set.diagnostics[0].message,
        "64 rows of \"over\" are over the limit of 8192"
    );
    assert!(set.diagnostics[0].is_error());
}

#[test]
fn from_directories_to_rows() {
    let root = Root::new();
    let inode = root.program("/usr/bin/mpv", ELF);
    let dir = root.path("/usr/lib/aplomb/specs.d");
    fs::create_dir_all(&dir).unwrap();
    fs::write(
        dir.join("p.toml"),
        "[[spec]]\nname='mpv'\npath='/usr/bin/mpv'\ncpu='5ms/30ms'\n",
    )
    .unwrap();
    let set = load(
        &Dirs::under(root.0.path()),
        &LoadOptions {
            trust: Trust::Anybody,
        },
    );
    let resolution = root.resolver().set(&set.specs);
    assert_eq!(
        resolution.rows.iter().map(|r| r.key).collect::<Vec<_>>(),
        [Key::file(inode, root.device())]
    );
}
