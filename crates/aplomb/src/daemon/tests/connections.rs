//! Connections: their limits, and logs over them.

use super::*;

/// Connections without a listener. The test chooses the credentials of each peer.
struct Bench {
    _root: Root,
    fake: Fake,
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
            fake,
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

    /// Handle the ready connections until none is ready.
    fn handle_ready(&mut self) -> Vec<crate::daemon::clients::Effect> {
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

#[test]
fn a_connection_answers_one_request_after_the_other() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    for _ in 0..3 {
        send(&mut client, Ask::Status {});
        send(&mut client, Ask::Specs {});
        bench.handle_ready();
        assert!(matches!(answer(&mut client), Some(Answer::Status(_))));
        // The second request arrived together with the first.
        bench.handle_ready();
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
        bench.handle_ready();
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
                bench.handle_ready();
                if bench.clients.len() == 0 {
                    break;
                }
            }
        }
    }
    bench.handle_ready();
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
    bench.handle_ready();
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
    let others = (1001..).take(MAX_CLIENTS).flat_map(|uid| [user(uid, 1); 4]);
    for peer in others.take(MAX_CLIENTS - ROOT_ONLY - MAX_PER_USER) {
        held.push(bench.connect(peer));
    }
    assert_eq!(
        refusal(answer(&mut bench.connect(user(5000, 1))).unwrap()),
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
    bench.handle_ready();
    held.push(bench.connect(ROOT));
    assert_eq!(
        bench.clients.len(),
        MAX_CLIENTS,
        "a place that is left is free again"
    );
}

#[test]
fn the_ids_of_a_users_containers_count_as_that_user() {
    let mut bench = Bench::new();
    let held: Vec<_> = (0..MAX_PER_USER as u32)
        .map(|n| {
            bench.connect(Peer {
                uid: 100_000 + n,
                ..USER
            })
        })
        .collect();
    assert_eq!(
        refusal(answer(&mut bench.connect(USER)).unwrap()),
        Code::Limit
    );
    drop(held);
    let fake = Fake::new();
    let owner = |uid, account| aplomb_kernel::Owner { uid, account };
    let owners = [(5, owner(100_007, 1000)), (6, owner(1001, 0))];
    fake.seen.borrow_mut().owners.extend(owners);
    assert_eq!(account_of(100_007, 5, &fake), 1000);
    assert_eq!(account_of(0, 5, &fake), 0, "root");
    assert_eq!(
        account_of(1002, 5, &fake),
        1002,
        "process 5 is another's by now"
    );
    assert_eq!(account_of(1001, 6, &fake), 1001, "no user is root by that");
    assert_eq!(account_of(1003, 7, &fake), 1003, "it has ended");
}

#[test]
fn a_user_whose_requests_cost_much_waits_and_others_do_not() {
    let mut bench = Bench::new();
    let (mut dear, mut other) = (bench.connect(USER), bench.connect(user(1001, 1)));
    bench
        .clients
        .worked(USER.account, Duration::from_millis(400));
    send(&mut dear, Ask::Status {});
    send(&mut other, Ask::Status {});
    bench.handle_ready();
    assert!(matches!(answer(&mut other), Some(Answer::Status(_))));
    bench.handle_ready();
    let now = Instant::now();
    let at = bench.clients.deadline().unwrap();
    assert!(at > now && at < now + PATIENCE, "its turn comes");
    bench.clients.tick(at, &bench.poll);
    assert_eq!(bench.poll.wait(Some(now)).unwrap().len(), 1);
}

#[test]
fn a_long_table_is_sent_in_parts() {
    let mut bench = Bench::new();
    let domains = (1..=1000).map(domain);
    bench.fake.seen.borrow_mut().domains = domains.collect();
    let mut client = bench.connect(USER);
    send(&mut client, Ask::Domains {});
    let (mut found, mut parts) = (Vec::new(), 0);
    loop {
        bench.handle_ready();
        let Some(Answer::Domains(part)) = answer(&mut client) else {
            panic!()
        };
        parts += 1;
        found.extend(part.domains.iter().map(|d| d.cgid));
        if !part.more {
            break;
        }
    }
    assert!(parts >= 10, "{parts}");
    assert_eq!(found, (1..=1000).collect::<Vec<u64>>());
    send(&mut client, Ask::Status {});
    bench.handle_ready();
    assert!(matches!(answer(&mut client), Some(Answer::Status(_))));
}

#[test]
fn a_connection_that_cannot_be_accepted_does_not_wake_the_daemon_all_the_time() {
    let mut bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    bench
        .poll
        .add(&listener, Source::Listener, Interest::Read)
        .unwrap();
    let _waits = UnixStream::connect(&path).unwrap();
    bench.clients.accept_later(&listener, &bench.poll);
    assert_eq!(bench.poll.wait(Some(Instant::now())).unwrap(), []);
    let at = bench.clients.deadline().unwrap();
    bench.clients.accept_again(at, &listener, &bench.poll);
    let ready = bench.poll.wait(Some(Instant::now())).unwrap();
    assert_eq!(ready, [Source::Listener]);
    bench.clients.accept(&listener, &bench.poll, &Fake::new());
    assert_eq!(bench.clients.len(), 1);
}

#[test]
fn an_incomplete_request_has_thirty_seconds() {
    let mut bench = Bench::new();
    let mut client = bench.connect(USER);
    client.get_mut().write_all(br#"{"v":1,"#).unwrap();
    bench.handle_ready();
    let now = Instant::now();
    let deadline = bench.clients.deadline().unwrap();
    assert!(deadline <= now + PATIENCE);
    bench
        .clients
        .tick(deadline - Duration::from_millis(1), &bench.poll);
    assert_eq!(bench.clients.len(), 1);
    bench.clients.tick(deadline, &bench.poll);
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
    bench.handle_ready();
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
    bench.handle_ready();
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
    bench.handle_ready();
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
    bench.handle_ready();
    let reader = std::thread::spawn(move || {
        let mut events = 0;
        while let Some(Answer::Event(_)) = answer(&mut client) {
            events += 1;
        }
        events
    });
    while bench.clients.len() > 0 && !reader.is_finished() {
        bench.handle_ready();
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
    bench.handle_ready();
    // The client does not read. Events are added, 100 at a time, until there are more than the
    // socket's buffer and MAX_BEHIND allow.
    let mut t = 0;
    while bench.clients.len() > 0 && t < 50_000 {
        bench.events(t..t + 100, 812);
        t += 100;
        bench.clients.tick(Instant::now(), &bench.poll);
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
        bench.handle_ready();
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
    // Fill the socket. Events that are not sent yet are overwritten in the history then.
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
        bench.handle_ready();
    }
    let (events, notice) = reader.join().unwrap();
    assert!(events < 2000, "{events}");
    assert_eq!(
        notice,
        Some(format!("{} older events are no longer kept", 2000 - events))
    );
}
