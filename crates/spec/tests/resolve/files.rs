//! From a path to a file: links, stars, scripts, absent programs.

use aplomb_spec::{
    flags, limits, Absent, Device, DeviceOf, FileId, Key, Resolver, StatDevice, Via,
};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{keys, parse, Root, ELF};

#[test]
fn a_program_is_its_inode_and_device() {
    let root = Root::new();
    let inode = root.program("/usr/bin/mpv", ELF);
    let r = root.one("/usr/bin/mpv");
    assert_eq!(keys(&r), [Key::file(inode, root.device())]);
    assert_eq!(
        r.rows[0].grant.flags,
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
        ["/", "/etc/alternatives", "/usr/bin"].map(PathBuf::from),
        "a change of any link counts"
    );
    assert_eq!(
        r.above,
        ["/etc", "/etc/alternatives", "/usr", "/usr/bin"].map(PathBuf::from)
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
fn a_link_in_the_middle_is_watched() {
    let root = Root::new();
    root.program("/opt/app/r1/player", ELF);
    let new = root.program("/opt/app/r2/player", ELF);
    root.link("r1", "/opt/app/current");
    let r = root.one("/opt/app/current/player");
    assert_eq!(r.watch, ["/opt/app", "/opt/app/r1"].map(PathBuf::from));
    fs::remove_file(root.path("/opt/app/current")).unwrap();
    root.link("../app/r2", "/opt/app/current");
    let r = root.one("/opt/app/current/player");
    assert_eq!(keys(&r), [Key::file(new, root.device())]);
    assert_eq!(r.watch, ["/opt/app", "/opt/app/r2"].map(PathBuf::from));
    assert_eq!(
        r.above,
        ["/opt", "/opt/app", "/opt/app/r2"].map(PathBuf::from)
    );
}

#[test]
fn one_of_many_commands_is_matched_by_its_name() {
    let root = Root::new();
    let busybox = root.program("/bin/busybox", ELF);
    for name in ["vi", "gzip"] {
        root.link("busybox", &format!("/bin/{name}"));
    }
    let r = root.one("/bin/vi");
    assert_eq!(keys(&r), [Key::named(busybox, root.device(), "vi")]);
    assert_eq!(
        r.rows[0].grant.flags,
        flags::INTERACTIVE | flags::REVOCABLE,
        "any user can make such a link"
    );
    let set = root.resolver().set(&[parse("/bin/vi:iact:1:10:-")]);
    let message = &set.diagnostics[0].message;
    assert!(
        message.contains("one of the commands in /bin/busybox"),
        "{message}"
    );
    // the file itself is all of them
    let whole = root.one("/bin/busybox");
    assert_eq!(keys(&whole), [Key::file(busybox, root.device())]);
}

#[test]
fn what_others_can_replace_is_weak() {
    let root = Root::new();
    root.program("/opt/x/bin/x", ELF);
    root.link("x", "/opt/current");
    let path = "/opt/current/bin/x";
    let mode = |path: &str, bits| {
        fs::set_permissions(root.path(path), fs::Permissions::from_mode(bits)).unwrap();
    };
    assert_eq!(root.one(path).rows[0].weak, None);
    for (at, before) in [("/opt", 0o755), ("/opt/x", 0o755), ("/opt/x/bin/x", 0o755)] {
        mode(at, 0o757);
        let row = root.one(path).rows.remove(0);
        assert!(row.weak.unwrap().contains("other than root"), "{at}");
        assert_eq!(row.grant.flags, flags::INTERACTIVE | flags::REVOCABLE);
        mode(at, before);
    }
    assert_eq!(root.one(path).rows[0].weak, None);
}

#[test]
fn a_long_chain_of_links_is_checked_to_its_end() {
    let root = Root::new();
    root.program("/opt/x", ELF);
    root.link("/opt/x", "/open/0/x");
    root.link("/open/0/x", "/links/1/x");
    for i in 2..30 {
        root.link(&format!("/links/{}/x", i - 1), &format!("/links/{i}/x"));
    }
    assert_eq!(root.one("/links/29/x").rows[0].weak, None);
    fs::set_permissions(root.path("/open"), fs::Permissions::from_mode(0o777)).unwrap();
    let weak = root.one("/links/29/x").rows.remove(0).weak.unwrap();
    assert!(weak.ends_with("can write to /open"), "{weak}");
}

#[test]
fn the_owner_of_a_link_can_turn_it() {
    let root = Root::new();
    root.program("/usr/bin/x", ELF);
    root.link("/usr/bin/x", "/store/x");
    // A group may add names here, and replace its own.
    fs::set_permissions(root.path("/store"), fs::Permissions::from_mode(0o1775)).unwrap();
    assert_eq!(root.one("/store/x").rows[0].weak, None);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(root.path("/store/x"), Some(1000), None).unwrap();
        let weak = root.one("/store/x").rows.remove(0).weak.unwrap();
        assert!(weak.ends_with("can write to /store/x"), "{weak}");
    }
}

#[test]
fn a_second_name_is_no_second_command() {
    let root = Root::new();
    let dash = root.program("/bin/dash", ELF);
    root.link("dash", "/bin/sh");
    assert_eq!(keys(&root.one("/bin/sh")), [Key::file(dash, root.device())]);
    let vim = root.program("/bin/vim.basic", ELF);
    for name in ["vim", "view", "ex", "vi"] {
        root.link("vim.basic", &format!("/bin/{name}"));
    }
    assert_eq!(keys(&root.one("/bin/vim")), [Key::file(vim, root.device())]);
    assert_eq!(
        keys(&root.one("/bin/vi")),
        [Key::named(vim, root.device(), "vi")],
        "vi is the beginning of the file's name, but another word"
    );
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
        "and the resolver does not wait for its writer"
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
            .all(|row| row.grant.flags == flags::INTERACTIVE | flags::REVOCABLE),
        "any user can type it"
    );
    assert_eq!(
        r.rows[0].file.as_deref(),
        Some(Path::new("/usr/bin/python3.13"))
    );
    assert_eq!(keys(&root.one("/usr/bin/by-env")), [key("/usr/bin/by-env")]);
    // If a script's interpreter is a script itself, the innermost interpreter is what is executed.
    root.program("/usr/bin/outer", "#!/usr/bin/by-env\n");
    assert_eq!(keys(&root.one("/usr/bin/outer")), [key("/usr/bin/outer")]);
}

#[test]
fn a_script_is_found_by_every_link_of_a_chain() {
    let root = Root::new();
    let python = root.program("/usr/bin/python3", ELF);
    root.program("/opt/game/run", "#!/usr/bin/env python3\n");
    root.link("usr/bin", "/bin");
    root.link("/opt/game/run", "/usr/bin/game-1.2");
    root.link("game-1.2", "/usr/bin/game-1");
    root.link("game-1", "/usr/bin/game");
    let names = [
        "/bin/game",
        "/usr/bin/game",
        "/usr/bin/game-1",
        "/usr/bin/game-1.2",
        "/opt/game/run",
    ];
    let key = |script| Key::argument(python, root.device(), script);
    assert_eq!(keys(&root.one("/bin/game")), names.map(key));
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
fn this_machines_own_shell() {
    // On /bin/sh of the real root, stat and the mount table must agree, except on overlayfs and
    // btrfs.
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

/// Stands for a machine on which every file is on an ext4.
struct Ext4;

impl DeviceOf for Ext4 {
    fn device_of(&self, file: &FileId) -> Device {
        Device {
            has_generations: true,
            ..StatDevice.device_of(file)
        }
    }
}

#[test]
fn a_later_file_of_the_same_number_has_another_row() {
    let root = Root::new();
    let path = root.path("/usr/bin/x");
    let row = || {
        let resolver = Resolver::with(root.0.path(), Ext4).unwrap();
        keys(&resolver.spec(&parse("/usr/bin/x:iact:1:10:-"))[0])[0]
    };
    let inode = root.program("/usr/bin/x", ELF);
    let before = row();
    assert_eq!((before.a, before.b), (inode, root.device()));
    if before.c == 0 {
        return; // this machine's folder for temporary files is on another file system
    }
    for _ in 0..100 {
        fs::remove_file(&path).unwrap();
        if root.program("/usr/bin/x", ELF) == inode {
            assert_eq!(row().a, before.a);
            assert_ne!(row().c, before.c);
            return;
        }
    }
}
