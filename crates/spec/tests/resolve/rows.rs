//! From a spec to the rows of the kernel side's map: keys, devices, rows that any user's program
//! can match, and one row for each key.

use aplomb_spec::{
    escape_app, flags, limits, load, Device, DeviceOf, Dirs, FileId, Key, LoadOptions, MountTable,
    Resolver, ServerPolicy, Severity, Trust,
};
use std::fs;
use std::path::PathBuf;

use super::{keys, parse, parse_toml, Root, ELF};

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
        .map(|r| r.rows[0].grant.flags & flags::REVOCABLE != 0)
        .collect();
    assert_eq!(revocable, [false, true, false]);
}

/// Only a file identifies one program. A row that any user's program can match is not guaranteed,
/// and a warning says so.
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
    let grants = |i: usize| -> Vec<_> {
        let rows = root.resolver().spec(&specs[i]).remove(0).rows;
        rows.iter()
            .map(|r| (r.grant.flags, r.grant.server))
            .collect()
    };
    let (strong, weak) = (flags::GUARANTEED, flags::REVOCABLE);
    let i = flags::INTERACTIVE;
    assert_eq!(
        grants(0),
        [(i | strong, Some(ServerPolicy::CbsSoft)), (i | weak, None)],
        "the program, then the script"
    );
    assert_eq!(grants(1), [(i | weak, None)]);
    assert_eq!(grants(2), [(i | strong, Some(ServerPolicy::CbsHard))]);
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
    // The same file on a file system that uses an inode number more than once.
    let btrfs = Resolver::with(root.0.path(), Btrfs).unwrap();
    let file = &parse("/opt/real:iact:25:41:G");
    assert_eq!(btrfs.spec(file)[0].rows[0].grant.flags, i | weak);
    assert_eq!(
        root.resolver().spec(file)[0].rows[0].grant.flags,
        i | strong
    );
}

/// Stands for a machine on which every file is on one btrfs.
struct Btrfs;

impl DeviceOf for Btrfs {
    fn device_of(&self, file: &FileId) -> Device {
        assert!(file.mount_id.is_some() || file.path.is_absolute());
        Device {
            number: 35,
            shared_inodes: true,
            has_generations: false,
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
    assert_eq!(r.rows[0].grant.flags & flags::REVOCABLE, flags::REVOCABLE);
    // With a mount table, found by the mount point: an overlay over the whole root.
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
    root.program("/bin/dash", ELF);
    root.link("dash", "/bin/sh");
    let severity = |b: &str| {
        let specs = [parse("/bin/sh:iact:1:10:P"), parse(b)];
        root.resolver().set(&specs).diagnostics[0].severity
    };
    assert_eq!(severity("/bin/dash:iact:1:10:P"), Severity::Note);
    assert_eq!(severity("/bin/dash:iact:1:10:-"), Severity::Warning);
}

#[test]
fn rows_over_the_limit_are_refused() {
    let root = Root::new();
    for i in 0..limits::MAX_GLOB_HITS {
        root.program(&format!("/opt/a/{i}"), ELF);
    }
    // 64 files for each argument: more rows than matchers.
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
            trust: Trust::AnyOwner,
        },
    );
    let resolution = root.resolver().set(&set.specs);
    assert_eq!(
        resolution.rows.iter().map(|r| r.key).collect::<Vec<_>>(),
        [Key::file(inode, root.device())]
    );
}
