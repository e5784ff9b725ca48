//! The specs that aplomb ships: they load without any diagnostic, cover the programs that they
//! should, and follow Redline's rules and values (section 3, Table 1).

use aplomb_spec::{
    check_files, load, Class, Dirs, Launch, LoadOptions, Matcher, Resolver, Severity, Spec,
    StatDevice, Trust,
};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

fn specs_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs")
}

fn shipped() -> Vec<Spec> {
    let dirs = Dirs {
        vendor: specs_dir(),
        ..Dirs::under(Path::new("/nowhere"))
    };
    let set = load(
        &dirs,
        &LoadOptions {
            trust: Trust::AnyOwner,
        },
    );
    assert_eq!(set.diagnostics, []);
    set.specs
}

fn find<'a>(specs: &'a [Spec], name: &str) -> &'a Spec {
    specs
        .iter()
        .find(|s| s.name == name)
        .unwrap_or_else(|| panic!("{name} is not shipped"))
}

#[test]
fn all_load_and_check_without_a_word() {
    let mut files: Vec<_> = std::fs::read_dir(specs_dir())
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    files.sort();
    assert!(files.len() >= 13, "{files:?}");
    let files: Vec<_> = files.iter().map(PathBuf::as_path).collect();
    let checked = check_files(&files, None::<&Resolver<StatDevice>>);
    assert_eq!(checked.diagnostics, []);
    assert_eq!(checked.specs.len(), shipped().len());
}

#[test]
fn at_least_a_hundred_programs() {
    let specs = shipped();
    let interactive = specs.iter().filter(|s| s.class == Class::Interactive);
    let names: HashSet<_> = interactive.map(|s| &s.name).collect();
    assert!(names.len() >= 120, "{}", names.len());
    let matchers: HashSet<_> = specs.iter().flat_map(|s| &s.matchers).collect();
    let all = specs.iter().map(|s| s.matchers.len()).sum::<usize>();
    assert_eq!(matchers.len(), all, "no program has two owners");
    assert!(specs.iter().all(|s| !s.description.is_empty()));
}

#[test]
fn redlines_table_1() {
    let specs = shipped();
    for (name, c, t) in [
        ("init", 2, 50),
        ("jbd2", 10, 100), // kjournald's successor
        ("xorg", 15, 30),
        ("kdeinit", 2, 30),
        ("kwin", 3, 30),
        ("kdesktop", 3, 30),
        ("bash", 5, 100),
        ("vim", 5, 100),
        ("mplayer", 5, 30),
        ("firefox", 6, 30),
    ] {
        let s = find(&specs, name);
        assert_eq!(
            (s.runtime_ns, s.period_ns),
            (c * 1_000_000, t * 1_000_000),
            "{name}"
        );
    }
    let mplayer = find(&specs, "mplayer");
    assert!(
        mplayer.inherit && mplayer.revocable && mplayer.launch == Launch::Any,
        "Redline's example is IR"
    );
}

#[test]
fn rules() {
    for s in shipped().iter().filter(|s| s.class == Class::Interactive) {
        let file = s.origin.file.file_stem().unwrap().to_str().unwrap();
        let (percent, period_ms) = (s.bandwidth_ppm() / 10_000, s.period_ns / 1_000_000);
        let by_name = s.matchers.iter().any(Matcher::is_by_name);
        assert!(!by_name || s.revocable, "{}: found by name, so R", s.name);
        assert!(percent <= 50, "{}: {percent} %", s.name);
        match file {
            // Rarely runs, but then for a long time at once: see kernel.toml.
            "kernel" if s.name == "khugepaged" => assert!(!s.inherit),
            "kernel" | "system" | "input-methods" => {
                assert!(
                    percent <= 10 && period_ms <= 100 && !s.inherit,
                    "{}",
                    s.name
                );
            }
            "admin" => assert!(percent <= 6 && period_ms >= 50, "{}", s.name),
            "players" | "display" | "calls-recording" => assert!(period_ms <= 50, "{}", s.name),
            "browsers" => assert!(s.inherit && s.revocable, "{}", s.name),
            "terminals" => assert!(!s.inherit, "{}: a build in it would inherit", s.name),
            _ => {}
        }
    }
}

#[test]
fn what_builds_are_started_from_has_no_application_id() {
    let specs = shipped();
    let of = |file: &str| {
        specs
            .iter()
            .filter(|s| s.origin.file.ends_with(file))
            .collect::<Vec<_>>()
    };
    let has_app = |s: &&Spec| s.matchers.iter().any(|m| matches!(m, Matcher::App(_)));
    assert!(!of("terminals.toml").iter().any(has_app));
    for name in [
        "vscode", "vscodium", "zed", "emacs", "vim", "neovim", "kate",
    ] {
        assert!(!has_app(&find(&specs, name)), "{name}");
    }
}

#[test]
fn an_ordinary_desktop_asks_for_a_plausible_sum() {
    let specs = shipped();
    let sum = |names: &[&str]| {
        names
            .iter()
            .map(|n| find(&specs, n).bandwidth_ppm())
            .sum::<u64>()
    };
    let gnome = [
        "init",
        "dbus",
        "logind",
        "gnome-shell",
        "xwayland",
        "pipewire",
        "wireplumber",
        "ibus",
        "jbd2",
        "kswapd",
        "gnome-terminal",
        "bash",
        "vim",
        "firefox",
        "mpv",
    ];
    // As in Redline: the sum is more than one CPU, but not by much. Admission looks at the load.
    let gnome = sum(&gnome);
    assert!((1_000_000..2_000_000).contains(&gnome), "{gnome} ppm");
    let table_1 = sum(&[
        "init", "jbd2", "xorg", "kdeinit", "kwin", "kdesktop", "bash", "vim", "mplayer", "firefox",
    ]);
    assert!(
        (1_350_000..1_400_000).contains(&table_1),
        "{table_1} ppm; Table 1 adds up to 137 %"
    );
}

#[test]
fn the_example_in_redlines_form() {
    let file = specs_dir().join("spec.tab.example");
    let checked = check_files(&[&file], None::<&Resolver<StatDevice>>);
    assert_eq!(checked.diagnostics, []);
    assert_eq!(checked.specs.len(), 12);
}

#[test]
fn nothing_that_this_machine_has_is_claimed_twice() {
    let specs = shipped();
    let resolution = Resolver::new(Path::new("/")).unwrap().set(&specs);
    let loud: Vec<_> = resolution
        .diagnostics
        .iter()
        .filter(|d| d.severity > Severity::Note && d.message.contains("both mean"))
        .map(|d| d.to_string())
        .collect();
    assert_eq!(loud, Vec::<String>::new());
    assert!(
        resolution.rows.iter().any(|r| specs[r.spec].name == "kill"),
        "every machine has kill"
    );
}
