//! The daemon as its clients meet it: real sockets, a stand-in for the kernel side, peers of any user.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use aplomb_kernel::{flags, EventKind, ExitInfo, Kernel, Matcher};

use super::clients::{Clients, MAX_BEHIND, MAX_CLIENTS, MAX_PER_USER, PATIENCE, ROOT_ONLY};
use super::history::History;
use super::poll::{Poll, Source};
use super::state::{Outcome, Peer, State};
use super::testing::{event, Fake, Root};
use super::{Daemon, Loader, Options, Turn};
use crate::exit::{code_of, Exit};
use crate::protocol::{to_line, Answer, Ask, Code, Request, MAX_REQUEST, VERSION};

const ROOT: Peer = Peer { uid: 0, pid: 1 };
const USER: Peer = Peer { uid: 1000, pid: 1 };

fn ask(state: &mut State, peer: Peer, ask: Ask) -> Answer {
    match state.handle(peer, ask) {
        Outcome::Answer(a) | Outcome::Reserved(a, _) | Outcome::Stop(a) => a,
        other => panic!("{other:?}"),
    }
}

fn refusal(answer: Answer) -> Code {
    match answer {
        Answer::Refused(r) => r.code,
        other => panic!("{other:?}"),
    }
}

fn reserve(pid: Option<i32>, runtime_ms: u64, period_ms: u64) -> Ask {
    Ask::Reserve {
        pid,
        runtime_ns: runtime_ms * 1_000_000,
        period_ns: period_ms * 1_000_000,
        inherit: false,
        keep: false,
    }
}

/// This process, as a peer that owns it.
fn me() -> Peer {
    Peer {
        uid: rustix::process::getuid().as_raw(),
        pid: std::process::id() as i32,
    }
}

// ---- who may do what

#[test]
fn only_root_stops_and_reloads() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    assert_eq!(
        refusal(ask(&mut state, USER, Ask::Stop {})),
        Code::Permission
    );
    assert_eq!(
        refusal(ask(&mut state, USER, Ask::Reload {})),
        Code::Permission
    );
    assert!(matches!(state.handle(ROOT, Ask::Stop {}), Outcome::Stop(_)));
    assert!(matches!(
        state.handle(ROOT, Ask::Reload {}),
        Outcome::Reload
    ));
    assert!(
        matches!(ask(&mut state, USER, Ask::Status {}), Answer::Status(s) if s.attached && s.specs == 1)
    );
    assert!(
        matches!(ask(&mut state, USER, Ask::Specs {}), Answer::Specs(s) if s[0].spec.name == "mplayer")
    );
}

#[test]
fn users_reserve_for_their_own_processes_only() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let me = me();
    let stranger = Peer {
        uid: me.uid + 1,
        pid: me.pid,
    };
    // root's own processes are strangers to a stranger, as init is
    assert_eq!(
        refusal(ask(&mut state, stranger, reserve(Some(me.pid), 1, 100))),
        Code::Permission
    );
    assert_eq!(
        refusal(ask(&mut state, stranger, reserve(Some(1), 1, 100))),
        Code::Permission
    );
    assert_eq!(
        refusal(ask(&mut state, stranger, Ask::Release { pid: me.pid })),
        Code::Permission
    );
    assert!(
        fake.seen.borrow().reserved.is_empty(),
        "the kernel side was not asked"
    );
    assert!(
        matches!(state.handle(me, reserve(None, 5, 100)), Outcome::Reserved(Answer::Reserved(_), pid) if pid == me.pid)
    );
    let (pid, row) = fake.seen.borrow().reserved[0];
    let row = row.unwrap();
    assert_eq!(
        (pid, row.runtime_ns, row.period_ns),
        (me.pid, 5_000_000, 100_000_000)
    );
    assert_eq!(
        row.flags,
        flags::INTERACTIVE | flags::STICKY | flags::REVOCABLE
    );
    assert!(matches!(
        ask(&mut state, me, Ask::Release { pid: me.pid }),
        Answer::Done(_)
    ));
    assert_eq!(fake.seen.borrow().reserved[1], (me.pid, None));
    // in a namespace of its own
    assert_eq!(
        refusal(ask(
            &mut state,
            Peer {
                uid: me.uid,
                pid: 0
            },
            reserve(None, 5, 100)
        )),
        Code::Failed
    );
}

#[test]
fn values_out_of_range_do_not_reach_the_kernel() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let values = [
        (0, 0),
        (1, 0),
        (0, 1),
        (u64::MAX, u64::MAX),
        (31_000_000, 30_000_000),
        (99_999, 30_000_000),
        (500_000, 999_999),
        (1, 10_000_000_001),
    ];
    for (runtime_ns, period_ns) in values {
        let wrong = Ask::Reserve {
            pid: None,
            runtime_ns,
            period_ns,
            inherit: false,
            keep: false,
        };
        assert_eq!(
            refusal(ask(&mut state, me(), wrong)),
            Code::Invalid,
            "{runtime_ns}/{period_ns}"
        );
    }
    for pid in [-1, 0, i32::MIN, i32::MAX] {
        assert_eq!(
            refusal(ask(&mut state, ROOT, reserve(Some(pid), 5, 30))),
            Code::Failed,
            "{pid}"
        );
    }
    assert!(fake.seen.borrow().reserved.is_empty());
}

#[test]
fn strong_flags_are_roots() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    for (inherit, keep) in [(true, false), (false, true)] {
        let wish = |pid| Ask::Reserve {
            pid,
            runtime_ns: 5_000_000,
            period_ns: 100_000_000,
            inherit,
            keep,
        };
        assert_eq!(refusal(ask(&mut state, USER, wish(None))), Code::Permission);
        assert!(matches!(
            ask(&mut state, ROOT, wish(Some(me().pid))),
            Answer::Reserved(_)
        ));
    }
    let flags = |i: usize| fake.seen.borrow().reserved[i].1.unwrap().flags;
    assert_ne!(flags(0) & flags::INHERIT, 0);
    assert_eq!(flags(1) & flags::REVOCABLE, 0);
}

#[test]
fn a_full_table_and_a_users_limit_are_told_apart_from_failure() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let me = Peer { uid: 1000, ..me() };
    if rustix::process::getuid().as_raw() == 1000 {
        assert_eq!(
            refusal(ask(&mut state, me, reserve(None, 50, 100))),
            Code::Limit
        );
    }
    fake.seen.borrow_mut().full = true;
    assert_eq!(
        refusal(ask(&mut state, ROOT, reserve(Some(me.pid), 5, 30))),
        Code::Limit
    );
    assert_eq!(state.reservations.iter().count(), 0);
}

// ---- connections

/// Connections over a state, without a listener: the peers are whoever the test says.
struct Bench {
    _root: Root,
    state: State,
    clients: Clients,
    poll: Poll,
}

impl Bench {
    fn new() -> Self {
        let (root, fake) = (Root::new(), Fake::new());
        let state = root.state(&fake);
        Self {
            _root: root,
            state,
            clients: Clients::default(),
            poll: Poll::new().unwrap(),
        }
    }

    fn connect(&mut self, peer: Peer) -> BufReader<UnixStream> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.clients.adopt(ours, peer, &self.poll);
        theirs
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        BufReader::new(theirs)
    }

    /// Handle what is ready until nothing is.
    fn turn(&mut self) -> Vec<super::clients::Wish> {
        let mut wishes = Vec::new();
        loop {
            let ready = self.poll.wait(Some(Instant::now())).unwrap();
            if ready.is_empty() {
                return wishes;
            }
            for source in ready {
                let Source::Client(id) = source else {
                    panic!("{source:?}")
                };
                wishes.extend(self.clients.ready(id, &self.poll, &mut self.state));
            }
        }
    }

    fn events(&mut self, times: std::ops::Range<u64>, pid: i32) {
        for t in times {
            self.state.history.push(event(t, pid));
        }
        self.clients.new_events(&self.poll, &mut self.state);
    }
}

fn send(client: &mut BufReader<UnixStream>, ask: Ask) {
    client
        .get_mut()
        .write_all(&to_line(&Request { v: VERSION, ask }))
        .unwrap();
}

fn answer(client: &mut BufReader<UnixStream>) -> Option<Answer> {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
}

#[test]
fn a_connection_answers_one_request_after_the_other() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    for _ in 0..3 {
        send(&mut client, Ask::Status {});
        send(&mut client, Ask::Specs {});
        bench.turn();
        assert!(matches!(answer(&mut client), Some(Answer::Status(_))));
        // the second one came in the same piece
        bench.turn();
        assert!(matches!(answer(&mut client), Some(Answer::Specs(_))));
    }
}

#[test]
fn a_request_may_come_in_pieces() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    for byte in to_line(&Request {
        v: VERSION,
        ask: Ask::Status {},
    }) {
        client.get_mut().write_all(&[byte]).unwrap();
        bench.turn();
    }
    assert!(matches!(answer(&mut client), Some(Answer::Status(_))));
}

#[test]
fn a_line_too_long_is_refused_and_the_connection_closed() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    client.get_ref().set_nonblocking(true).unwrap();
    let mut sent = 0;
    while sent < 4 * MAX_REQUEST {
        match client.get_mut().write(&[b' '; 4096]) {
            Ok(n) => sent += n,
            Err(_) => {
                bench.turn();
                if bench.clients.len() == 0 {
                    break;
                }
            }
        }
    }
    bench.turn();
    assert_eq!(bench.clients.len(), 0, "closed after {sent} bytes");
    client.get_ref().set_nonblocking(false).unwrap();
    let Some(Answer::Refused(r)) = answer(&mut client) else {
        panic!()
    };
    assert!(r.message.contains("65536"), "{r}");
}

#[test]
fn nonsense_is_refused_and_the_connection_closed() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    client.get_mut().write_all(b"GET / HTTP/1.1\n").unwrap();
    bench.turn();
    assert_eq!(refusal(answer(&mut client).unwrap()), Code::Invalid);
    assert_eq!(bench.clients.len(), 0);
}

#[test]
fn a_user_and_all_users_have_so_many_connections() {
    let mut bench = Bench::new();
    let mut held = Vec::new();
    for _ in 0..MAX_PER_USER {
        held.push(bench.connect(USER));
    }
    assert_eq!(
        refusal(answer(&mut bench.connect(USER)).unwrap()),
        Code::Limit
    );
    let others = (1001..)
        .take(MAX_CLIENTS)
        .flat_map(|uid| [Peer { uid, pid: 1 }; 4]);
    for peer in others.take(MAX_CLIENTS - ROOT_ONLY - MAX_PER_USER) {
        held.push(bench.connect(peer));
    }
    assert_eq!(
        refusal(answer(&mut bench.connect(Peer { uid: 5000, pid: 1 })).unwrap()),
        Code::Limit
    );
    for _ in 0..ROOT_ONLY {
        held.push(bench.connect(ROOT));
    }
    assert_eq!(bench.clients.len(), MAX_CLIENTS);
    assert_eq!(
        refusal(answer(&mut bench.connect(ROOT)).unwrap()),
        Code::Limit
    );
    held.remove(0);
    bench.turn();
    held.push(bench.connect(ROOT));
    assert_eq!(
        bench.clients.len(),
        MAX_CLIENTS,
        "a place that is left is free again"
    );
}

#[test]
fn an_incomplete_request_has_thirty_seconds() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    client.get_mut().write_all(br#"{"v":1,"#).unwrap();
    bench.turn();
    let now = Instant::now();
    let deadline = bench.clients.deadline().unwrap();
    assert!(deadline <= now + PATIENCE);
    bench.clients.expire(deadline - Duration::from_millis(1));
    assert_eq!(bench.clients.len(), 1);
    bench.clients.expire(deadline);
    assert_eq!(bench.clients.len(), 0);
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "closed");
    assert!(
        bench.clients.deadline().is_none(),
        "nothing wakes the daemon now"
    );
}

#[test]
fn a_log_has_what_is_kept_and_an_end() {
    let mut bench = Bench::new();
    bench.events(0..5, 812);
    bench.events(5..7, 900);
    let mut client = bench.connect(USER);
    send(
        &mut client,
        Ask::Log {
            follow: false,
            pid: Some(812),
            since_ns: None,
        },
    );
    bench.turn();
    for _ in 0..5 {
        let Some(Answer::Event(e)) = answer(&mut client) else {
            panic!()
        };
        assert_eq!(
            (e.pid, e.event, e.comm.as_str(), e.spec.as_str()),
            (812, EventKind::Matched, "mplayer", "mplayer")
        );
    }
    assert!(matches!(answer(&mut client), Some(Answer::Done(_))));
}

#[test]
fn a_follower_gets_new_events_and_costs_nothing_in_between() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    send(
        &mut client,
        Ask::Log {
            follow: true,
            pid: None,
            since_ns: None,
        },
    );
    bench.turn();
    assert!(
        bench.clients.deadline().is_none(),
        "no time-out while it has everything"
    );
    bench.events(0..3, 812);
    for _ in 0..3 {
        assert!(matches!(answer(&mut client), Some(Answer::Event(_))));
    }
    assert!(bench.clients.deadline().is_none());
    drop(client);
    bench.turn();
    assert_eq!(bench.clients.len(), 0);
}

#[test]
fn a_log_longer_than_the_sockets_buffer_comes_whole() {
    let mut bench = Bench::new();
    bench.events(0..20_000, 812);
    let mut client = bench.connect(USER);
    send(
        &mut client,
        Ask::Log {
            follow: false,
            pid: None,
            since_ns: None,
        },
    );
    bench.turn();
    let reader = std::thread::spawn(move || {
        let mut events = 0;
        while let Some(Answer::Event(_)) = answer(&mut client) {
            events += 1;
        }
        events
    });
    while bench.clients.len() > 0 && !reader.is_finished() {
        bench.turn();
    }
    assert_eq!(reader.join().unwrap(), 20_000);
}

#[test]
fn a_slow_follower_is_told_and_dropped() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    send(
        &mut client,
        Ask::Log {
            follow: true,
            pid: None,
            since_ns: None,
        },
    );
    bench.turn();
    // more than the socket's buffer and the allowance hold, in bites, and nobody reads
    let mut t = 0;
    while bench.clients.len() > 0 && t < 50_000 {
        bench.events(t..t + 100, 812);
        t += 100;
        bench.clients.expire(Instant::now());
        if bench.clients.deadline().is_some() && t > 10_000 {
            break;
        }
    }
    let reader = std::thread::spawn(move || {
        let mut last = None;
        while let Some(a) = answer(&mut client) {
            last = Some(a);
        }
        last
    });
    while bench.clients.len() > 0 {
        bench.turn();
    }
    let Some(Answer::Notice(text)) = reader.join().unwrap() else {
        panic!("no notice")
    };
    assert!(text.contains(&MAX_BEHIND.to_string()), "{text}");
}

#[test]
fn lost_history_is_told() {
    let mut bench = Bench::new();
    bench.state.history = History::with_capacity(2000);
    bench.events(0..2000, 812);
    let mut client = bench.connect(USER);
    send(
        &mut client,
        Ask::Log {
            follow: false,
            pid: None,
            since_ns: None,
        },
    );
    // until the socket is full; what is not sent yet is overwritten then
    let ready = bench.poll.wait(Some(Instant::now())).unwrap();
    let Source::Client(id) = ready[0] else {
        panic!()
    };
    bench.clients.ready(id, &bench.poll, &mut bench.state);
    for t in 2000..4000 {
        bench.state.history.push(event(t, 812));
    }
    let reader = std::thread::spawn(move || {
        let (mut events, mut notice) = (0, None);
        loop {
            match answer(&mut client) {
                Some(Answer::Event(_)) => events += 1,
                Some(Answer::Notice(text)) => notice = Some(text),
                _ => return (events, notice),
            }
        }
    });
    while !reader.is_finished() {
        bench.turn();
    }
    let (events, notice) = reader.join().unwrap();
    assert!(events < 2000, "{events}");
    assert_eq!(
        notice,
        Some(format!("{} older events are no longer kept", 2000 - events))
    );
}

// ---- the whole daemon

fn start(root: &Root, fakes: Vec<Fake>) -> anyhow::Result<Daemon> {
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
    Daemon::start(&options, load)
}

/// The inode that the kernel side has a matcher for.
fn inode(fake: &Fake) -> Option<u64> {
    let seen = fake.seen.borrow();
    seen.rows
        .iter()
        .find(|(Matcher(w), _)| w[0] == 2)
        .map(|(Matcher(w), _)| w[1])
}

/// Let the daemon handle what is ready, and what has settled.
fn turn(daemon: &mut Daemon) -> Turn {
    let ready = daemon.poll.wait(Some(Instant::now())).unwrap();
    for source in ready {
        if daemon.handle(source).unwrap() == Turn::Stop {
            return Turn::Stop;
        }
    }
    Turn::On
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
    turn(&mut daemon);
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
    // nothing is left that would wake it
    turn(&mut daemon);
    assert!(daemon.settle.is_none() && daemon.clients.deadline().is_none());
}

#[test]
fn a_changed_spec_is_taken_over_and_a_wrong_one_is_not() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut daemon = start(&root, vec![fake.clone()]).unwrap();
    let runtime = |fake: &Fake| fake.seen.borrow().rows[0].1.runtime_ns;
    root.spec("mplayer", "7ms/30ms", "/usr/bin/mplayer");
    turn(&mut daemon);
    let (_, changed) = daemon.settle.take().unwrap();
    assert!(changed.specs);
    daemon.files_changed(changed);
    assert_eq!(runtime(&fake), 7_000_000);
    root.spec("mplayer", "70ms/30ms", "/usr/bin/mplayer");
    let Answer::Refused(r) = daemon.reload() else {
        panic!()
    };
    assert!(
        r.message.contains("mplayer.toml") && r.message.contains("70ms"),
        "{r}"
    );
    assert_eq!(runtime(&fake), 7_000_000, "the old one stays in force");
}

#[test]
fn a_wrong_start_changes_nothing_and_says_which_exit_code() {
    let (root, fake) = (Root::new(), Fake::new());
    root.write("aplomb.toml", "r-low = \"5%\"");
    let error = start(&root, vec![fake.clone()]).map(drop).unwrap_err();
    assert_eq!(code_of(&error), Exit::Usage);
    assert!(error.to_string().contains("aplomb.toml:1: "), "{error}");
    root.write("aplomb.toml", "");
    root.spec("bad", "40ms/30ms", "/usr/bin/mplayer");
    let error = start(&root, vec![fake.clone()]).map(drop).unwrap_err();
    assert_eq!(code_of(&error), Exit::Usage);
    assert!(error.to_string().contains("bad.toml"), "{error}");
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
        return; // peer credentials are real here: only root gets further
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
    assert_eq!(turn(&mut daemon), Turn::On);
    let seen = second.seen.borrow();
    assert!(seen.attached && seen.rows.len() == 1 && seen.rematched > 0);
    assert_eq!(seen.reserved.len(), 1);
    assert_eq!(seen.reserved[0].0, me().pid);
    assert_eq!(daemon.state.restarts, 1);
    drop(seen);
    second.happen(event(1, 812));
    turn(&mut daemon);
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
    let mut daemon = start(&root, fakes.clone()).unwrap();
    for fake in &fakes[..3] {
        daemon.ended(&hotplug()).unwrap();
        let _ = fake;
    }
    let error = daemon.ended(&hotplug()).unwrap_err();
    assert!(
        error.to_string().contains("more than 3 restarts"),
        "{error}"
    );
    assert_eq!(code_of(&error), Exit::Failure);
}

#[test]
fn an_error_of_the_kernel_side_is_told_with_its_reason() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut daemon = start(&root, vec![fake.clone()]).unwrap();
    fake.end(ExitInfo {
        kind: 1026,
        code: 0,
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
    assert_eq!(turn(&mut daemon), Turn::On);
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
