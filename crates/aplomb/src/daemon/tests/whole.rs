//! Starts, changes of files, restarts, ends.

use super::*;

fn start(root: &Root, fakes: Vec<Fake>) -> anyhow::Result<Daemon> {
    start_with(root, fakes, None)
}

fn start_with(
    root: &Root,
    fakes: Vec<Fake>,
    tree: Option<aplomb_domain::Tree>,
) -> anyhow::Result<Daemon> {
    let mut fakes = fakes.into_iter();
    let load: Loader =
        Box::new(move |_| Ok(Box::new(fakes.next().expect("no more loads")) as Box<dyn Kernel>));
    let options = Options {
        config: Some(root.path("aplomb.toml")),
        socket: root.path("run/socket"),
        sources: root.sources(),
    };
    if !root.path("aplomb.toml").exists() {
        root.write("aplomb.toml", "");
    }
    Daemon::start(&options, load, tree)
}

#[test]
fn a_program_goes_into_the_domain_of_its_spec() {
    use aplomb_domain::testing::{tree, InFiles};
    let (root, fake) = (Root::new(), Fake::new());
    let spec = |domain: &str| {
        let text = "[[spec]]\nname = \"mplayer\"\ncpu = \"5ms/30ms\"\nrevocable = true\npath = \"/usr/bin/mplayer\"\n";
        let text = format!("{text}domain = \"{domain}\"\n");
        root.write("usr/lib/aplomb/specs.d/mplayer.toml", &text);
    };
    spec("media");
    let groups = root.path("cgroup");
    std::fs::create_dir(&groups).unwrap();
    let domains = tree(&groups, &["media"], InFiles::default());
    let mut daemon = start_with(&root, vec![fake.clone()], Some(domains)).unwrap();
    let me = std::process::id() as i32;
    let now = super::super::state::monotonic_ns();
    fake.happen(event(now, me)); // of spec 2, the first one
    handle_ready(&mut daemon);
    let procs = || std::fs::read_to_string(groups.join("media/cgroup.procs")).unwrap();
    assert_eq!(procs(), me.to_string());
    // An event that only says that a program inherits moves no process.
    std::fs::write(groups.join("media/cgroup.procs"), "").unwrap();
    let mut inherited = event(now, me);
    inherited.kind = EventKind::Inherited;
    fake.happen(inherited);
    handle_ready(&mut daemon);
    assert_eq!(procs(), "");
}

/// The inode of the kernel side's matcher.
fn inode(fake: &Fake) -> Option<u64> {
    let seen = fake.seen.borrow();
    seen.rows
        .iter()
        .find(|(Matcher(w), _)| w[0] == 2)
        .map(|(Matcher(w), _)| w[1])
}

/// Let the daemon handle the sources that are ready, and changed files.
fn handle_ready(daemon: &mut Daemon) -> Next {
    let ready = daemon.poll.wait(Some(Instant::now())).unwrap();
    for source in ready {
        if daemon.handle(source).unwrap() == Next::Stop {
            return Next::Stop;
        }
    }
    Next::Continue
}

#[test]
fn a_replaced_program_is_matched_by_its_new_inode() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut daemon = start(&root, vec![fake.clone()]).unwrap();
    let program = root.path("usr/bin/mplayer");
    let old = std::fs::metadata(&program).unwrap().ino();
    assert_eq!(inode(&fake), Some(old));
    assert!(fake.seen.borrow().attached);
    let rematched = fake.seen.borrow().rematched;
    root.write("usr/bin/mplayer.dpkg-new", "\x7fELF 2");
    std::fs::rename(root.path("usr/bin/mplayer.dpkg-new"), &program).unwrap();
    handle_ready(&mut daemon);
    let (_, changed) = daemon.settle.take().expect("it noticed");
    assert!(changed.programs && !changed.specs);
    daemon.files_changed(changed);
    let new = std::fs::metadata(&program).unwrap().ino();
    assert_ne!(new, old);
    assert_eq!(inode(&fake), Some(new));
    assert_eq!(
        fake.seen.borrow().rematched,
        rematched,
        "running processes keep what they have"
    );
    // No source is left that would wake the daemon.
    handle_ready(&mut daemon);
    assert!(daemon.settle.is_none() && daemon.clients.deadline().is_none());
}

#[test]
fn promises_and_servers_reach_the_kernel_for_files_only() {
    let (root, fake) = (Root::new(), Fake::new());
    let specs = "[[spec]]\nname = \"movie\"\ncpu = \"25ms/41ms\"\nguaranteed = true\nserver = \"cbs-soft\"\n\
                 path = [\"/usr/bin/movie\", \"/usr/bin/script\"]\n\
                 [[spec]]\nname = \"plain\"\ncpu = \"5ms/30ms\"\npath = \"/usr/bin/plain\"\n";
    root.write("usr/lib/aplomb/specs.d/movie.toml", specs);
    root.write("usr/bin/movie", "\x7fELF");
    root.write("usr/bin/plain", "\x7fELF");
    root.write("usr/bin/script", "#!/usr/bin/mplayer\n");
    let daemon = start(&root, vec![fake.clone()]).unwrap();
    let seen = fake.seen.borrow();
    let of = |name: &str, kind: u64| {
        let ours = |r: &SpecRow| daemon.state.library.name(r.id) == name;
        let mut rows = seen.rows.iter().filter(|(m, r)| m.0[0] == kind && ours(r));
        let (_, row) = rows.next().unwrap();
        let bits = row.flags & (flags::GUARANTEED | flags::REVOCABLE);
        (bits, row.policy)
    };
    let weak = (flags::REVOCABLE, None);
    assert_eq!(of("movie", 1), weak, "an argument");
    let lines = daemon.state.library.lines();
    let shown = lines.iter().find(|l| l.spec.name == "movie").unwrap();
    let why = "it is an argument of /usr/bin/mplayer";
    assert!(shown.weak.iter().any(|w| w == why), "{:?}", shown.weak);
    let plain = lines.iter().find(|l| l.spec.name == "plain").unwrap();
    assert!(plain.weak.is_empty(), "it has nothing to lose");
    if of("plain", 2) == weak {
        return; // the tests' folder is on btrfs, where a path is no better than a name
    }
    let soft = Some(aplomb_kernel::ServerPolicy::CbsSoft);
    assert_eq!(of("movie", 2), (flags::GUARANTEED, soft), "a file");
}

#[test]
fn a_changed_spec_is_taken_over_and_a_wrong_one_is_skipped() {
    let (root, fake) = (Root::new(), Fake::new());
    root.write("usr/bin/other", "\x7fELF");
    root.spec("other", "1ms/30ms", "/usr/bin/other");
    let mut daemon = start(&root, vec![fake.clone()]).unwrap();
    let runtimes = |fake: &Fake| {
        let mut all: Vec<_> = fake
            .seen
            .borrow()
            .rows
            .iter()
            .map(|r| r.1.runtime_ns)
            .collect();
        all.sort();
        all
    };
    root.spec("mplayer", "7ms/30ms", "/usr/bin/mplayer");
    handle_ready(&mut daemon);
    let (_, changed) = daemon.settle.take().unwrap();
    assert!(changed.specs);
    daemon.files_changed(changed);
    assert_eq!(runtimes(&fake), [1_000_000, 7_000_000]);
    root.spec("mplayer", "70ms/30ms", "/usr/bin/mplayer");
    let Answer::Done(report) = daemon.reload() else {
        panic!()
    };
    let error = "mplayer.toml:3:7: field \"cpu\": runtime 70ms exceeds period 30ms";
    assert!(report.contains(error), "{report}");
    assert_eq!(runtimes(&fake), [1_000_000], "the other spec holds");
    let Answer::Status(status) = ask(&mut daemon.state, USER, Ask::Status {}) else {
        panic!()
    };
    assert!(status.spec_errors[0].contains(error), "{status:?}");
    root.spec("mplayer", "8ms/30ms", "/usr/bin/mplayer");
    assert!(matches!(daemon.reload(), Answer::Done(r) if !r.contains("error")));
    assert_eq!(runtimes(&fake), [1_000_000, 8_000_000]);
}

#[test]
fn a_bad_spec_does_not_keep_the_daemon_from_starting() {
    let (root, fake) = (Root::new(), Fake::new());
    // One file with a wrong value, a syntax error, and a valid spec between them.
    root.write("usr/bin/good", "\x7fELF");
    let text = "[[spec]]\nname = \"bad\"\npath = \"/usr/bin/bad\"\ncpu = \"40ms/30ms\"\n\
                [[spec]]\nname = \"good\"\npath = \"/usr/bin/good\"\ncpu = \"2ms/30ms\"\n\
                [[spec]]\nname = \"worse\n";
    root.write("etc/aplomb/specs.d/mine.toml", text);
    root.write("etc/aplomb/spec.tab", "/usr/bin/x:iact:5:30:Q\n");
    let mut daemon = start(&root, vec![fake.clone()]).unwrap();
    assert!(fake.seen.borrow().attached);
    let mut names: Vec<_> = daemon
        .state
        .library
        .lines()
        .into_iter()
        .map(|l| l.spec.name)
        .collect();
    names.sort();
    assert_eq!(names, ["good", "mplayer"]);
    let report = daemon.state.library.error_report();
    for place in [
        "mine.toml:4:7: field \"cpu\"",
        "mine.toml:10:",
        "spec.tab:1:22: field \"flags\"",
    ] {
        assert!(
            report.iter().any(|l| l.contains(place)),
            "{place}: {report:?}"
        );
    }
    // A log begins with the report of errors. A follower gets the report again when the specs are
    // read again.
    let (ours, theirs) = UnixStream::pair().unwrap();
    daemon.clients.adopt(ours, USER, &daemon.poll);
    let mut client = BufReader::new(theirs);
    send(
        &mut client,
        Ask::Log {
            follow: true,
            pid: None,
            since_ns: None,
        },
    );
    handle_ready(&mut daemon);
    let notices = |client: &mut BufReader<UnixStream>| {
        report
            .iter()
            .all(|l| matches!(answer(client), Some(Answer::Notice(n)) if n == *l))
    };
    assert!(notices(&mut client));
    daemon.reload();
    assert!(notices(&mut client));
}

#[test]
fn a_wrong_configuration_changes_nothing_and_has_its_exit_code() {
    let (root, fake) = (Root::new(), Fake::new());
    root.write("aplomb.toml", "r-low = \"5%\"");
    let error = start(&root, vec![fake.clone()]).map(drop).unwrap_err();
    assert_eq!(code_of(&error), Exit::Usage);
    assert!(error.to_string().contains("aplomb.toml:1: "), "{error}");
    assert!(!fake.seen.borrow().attached);
    assert!(!root.path("run/socket").exists());
}

#[test]
fn a_second_daemon_is_refused() {
    let (root, fake) = (Root::new(), Fake::new());
    let first = start(&root, vec![fake.clone()]).unwrap();
    let error = start(&root, vec![fake.clone()]).map(drop).unwrap_err();
    assert!(error.to_string().contains("already running"), "{error}");
    assert!(
        root.path("run/socket").exists(),
        "the first one's socket stays"
    );
    drop(first);
    start(&root, vec![fake]).unwrap();
}

#[test]
fn it_stops_when_told_and_leaves_nothing() {
    let (root, fake) = (Root::new(), Fake::new());
    let daemon = start(&root, vec![fake.clone()]).unwrap();
    let mut client = BufReader::new(UnixStream::connect(root.path("run/socket")).unwrap());
    send(&mut client, Ask::Stop {});
    let privileged = rustix::process::getuid().is_root();
    if !privileged {
        return; // the peer credentials are real here, and only root may stop the daemon
    }
    daemon.serve().unwrap();
    assert!(matches!(answer(&mut client), Some(Answer::Done(_))));
    assert!(!fake.seen.borrow().attached);
    assert!(!root.path("run/socket").exists());
}

fn hotplug() -> ExitInfo {
    ExitInfo {
        kind: 65,
        code: 1 << 48 | 1 << 32,
        restart: true,
        hotplug: true,
        reason: "hotplug".into(),
        msg: String::new(),
    }
}

#[test]
fn a_restart_keeps_matchers_and_reservations() {
    let (root, first, second) = (Root::new(), Fake::new(), Fake::new());
    let mut daemon = start(&root, vec![first.clone(), second.clone()]).unwrap();
    let outcome = daemon.state.handle(ROOT, reserve(Some(me().pid), 5, 30));
    assert!(matches!(outcome, Outcome::Reserved(..)));
    first.end(hotplug());
    assert_eq!(handle_ready(&mut daemon), Next::Continue);
    let seen = second.seen.borrow();
    assert!(seen.attached && seen.rows.len() == 1 && seen.rematched > 0);
    assert_eq!(seen.reserved.len(), 1);
    assert_eq!(seen.reserved[0].0, me().pid);
    assert_eq!(daemon.state.restarts, 1);
    drop(seen);
    second.happen(event(1, 812));
    handle_ready(&mut daemon);
    assert_eq!(
        daemon.state.history.end(),
        1,
        "events of the new one arrive"
    );
    assert_eq!(Rc::strong_count(&first.seen), 1, "the old one is gone");
}

#[test]
fn restarts_without_end_end_the_daemon() {
    let root = Root::new();
    let fakes: Vec<Fake> = (0..4).map(|_| Fake::new()).collect();
    let mut daemon = start(&root, fakes).unwrap();
    let exit = ExitInfo {
        hotplug: false,
        ..hotplug()
    };
    for _ in 0..3 {
        daemon.restarted = None;
        daemon.ended(&exit).unwrap();
    }
    let error = daemon.ended(&exit).unwrap_err();
    assert!(
        error.to_string().contains("more than 3 restarts"),
        "{error}"
    );
    assert_eq!(code_of(&error), Exit::Failure);
}

#[test]
fn a_row_of_cpus_costs_few_restarts_and_no_daemon() {
    let root = Root::new();
    let fakes: Vec<Fake> = (0..3).map(|_| Fake::new()).collect();
    let mut daemon = start(&root, fakes.clone()).unwrap();
    daemon.ended(&hotplug()).unwrap();
    assert!(fakes[1].seen.borrow().attached, "the first at once");
    for _ in 0..10 {
        daemon.ended(&hotplug()).unwrap();
    }
    assert!(daemon.restart_at.is_some() && daemon.state.attached.is_none());
    assert!(
        !fakes[2].seen.borrow().attached,
        "the others together, later"
    );
    daemon.restart().unwrap();
    assert!(fakes[2].seen.borrow().attached);
    assert_eq!((daemon.state.restarts, daemon.restart_at), (2, None));
}

#[test]
fn an_error_of_the_kernel_side_is_told_with_its_reason() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut daemon = start(&root, vec![fake.clone()]).unwrap();
    fake.end(ExitInfo {
        kind: 1026,
        code: 0,
        restart: false,
        hotplug: false,
        reason: "runnable task stall".into(),
        msg: "x[1] failed to run for 30 s".into(),
    });
    let source = daemon.poll.wait(None).unwrap();
    assert_eq!(source, [Source::Events]);
    let error = daemon.handle(Source::Events).unwrap_err().to_string();
    assert!(
        error.contains("runnable task stall") && error.contains("failed to run"),
        "{error}"
    );
}

#[test]
fn a_reservation_ends_with_its_process() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut daemon = start(&root, vec![fake]).unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let pid = child.id() as i32;
    let Outcome::Reserved(_, watched) = daemon.state.handle(ROOT, reserve(Some(pid), 5, 30)) else {
        panic!()
    };
    daemon.watch_process(watched);
    assert_eq!(handle_ready(&mut daemon), Next::Continue);
    assert!(daemon.state.reservations.get(pid).is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let ready = daemon
        .poll
        .wait(Some(Instant::now() + Duration::from_secs(5)))
        .unwrap();
    assert_eq!(ready, [Source::Process(pid)]);
    daemon.handle(ready[0]).unwrap();
    assert!(daemon.state.reservations.get(pid).is_none());
    assert_eq!(daemon.poll.wait(Some(Instant::now())).unwrap(), []);
}
