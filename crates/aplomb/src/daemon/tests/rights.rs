//! The rights of clients.

use aplomb_kernel::{Part, ServerPolicy};

use super::super::testing::server;
use super::*;

#[test]
fn domains_are_everybodys_to_see_and_roots_to_tell() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let Answer::Domains(table) = ask(&mut state, USER, Ask::Domains {}) else {
        panic!()
    };
    assert_eq!((table.cpus, table.domains.len()), (1, 0));
    let look = || Ask::Look {
        domain: "media".parse().unwrap(),
    };
    assert_eq!(refusal(ask(&mut state, USER, look())), Code::Permission);
    // This test has no cgroup tree.
    assert_eq!(refusal(ask(&mut state, ROOT, look())), Code::Failed);
}

#[test]
fn memory_is_for_own_processes_and_where_it_is_protected() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let me = me();
    let memory = |pid, bytes| Ask::Memory { pid, bytes };
    let stranger = user(me.uid + 1, me.pid);
    for pid in [me.pid, 1] {
        let asked = ask(&mut state, stranger, memory(Some(pid), Some(1 << 20)));
        assert_eq!(refusal(asked), Code::Permission);
    }
    let Answer::Refused(refused) = ask(&mut state, me, memory(None, Some(1 << 20))) else {
        panic!()
    };
    assert_eq!(refused.code, Code::Failed);
    assert!(refused.message.contains("protect = true"), "{refused}");
}

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
    let stranger = user(me.uid + 1, me.pid);
    // Another user may control neither root's processes nor init.
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
    let by_root = if me.uid == 0 { flags::BY_ROOT } else { 0 };
    assert_eq!(
        row.flags,
        flags::INTERACTIVE | flags::STICKY | flags::REVOCABLE | by_root
    );
    assert!(matches!(
        ask(&mut state, me, Ask::Release { pid: me.pid }),
        Answer::Done(_)
    ));
    assert_eq!(fake.seen.borrow().reserved[1], (me.pid, None));
    // A client in another process namespace has no pid here.
    assert_eq!(
        refusal(ask(&mut state, user(me.uid, 0), reserve(None, 5, 100))),
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
        let wrong = Ask::Reserve(Wanted {
            runtime_ns,
            period_ns,
            ..Wanted::default()
        });
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

/// The requests that only root may make, each with a text that the refusal must contain.
fn privileged_requests() -> Vec<(Wanted, &'static str)> {
    let soft = Some(ServerPolicy::CbsSoft);
    let of = |inherit, keep, guaranteed, server| Wanted {
        pid: None,
        runtime_ns: 5_000_000,
        period_ns: 100_000_000,
        inherit,
        keep,
        guaranteed,
        server,
    };
    vec![
        (of(true, false, false, None), "flag I"),
        (of(false, true, false, None), "without flag R"),
        (of(false, false, true, None), "flag G"),
        (of(false, true, true, Some(ServerPolicy::Fcbs)), "flag G"),
        (of(false, false, false, soft), "cbs-soft"),
        (of(true, true, true, soft), "flag"),
    ]
}

#[test]
fn strong_flags_and_servers_are_roots() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let user = user(me().uid + 1000, me().pid);
    for (request, words) in privileged_requests() {
        let Answer::Refused(r) = ask(&mut state, user, Ask::Reserve(request.clone())) else {
            panic!("{request:?}")
        };
        assert_eq!(r.code, Code::Permission, "{request:?}");
        assert!(
            r.message.contains("only root") && r.message.contains(words),
            "{r}"
        );
    }
    assert!(
        fake.seen.borrow().reserved.is_empty(),
        "the kernel side was not asked"
    );
    for (request, _) in privileged_requests() {
        let pid = Some(me().pid);
        let answer = ask(&mut state, ROOT, Ask::Reserve(Wanted { pid, ..request }));
        assert!(matches!(answer, Answer::Reserved(_)), "{answer:?}");
    }
    let seen = fake.seen.borrow();
    for ((request, _), (_, row)) in privileged_requests().iter().zip(&seen.reserved) {
        let row = row.unwrap();
        let has = |flag| row.flags & flag != 0;
        assert_eq!(has(flags::INHERIT), request.inherit, "{request:?}");
        assert_eq!(has(flags::GUARANTEED), request.guaranteed, "{request:?}");
        let stays = request.keep || request.guaranteed;
        assert_eq!(
            has(flags::REVOCABLE),
            !stays,
            "{request:?}: a promise is never revoked"
        );
        assert_eq!(row.policy, request.server, "{request:?}");
    }
}

#[test]
fn users_choose_among_the_servers_that_take_from_nobody() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    for server in ServerPolicy::ALL {
        let request = Ask::Reserve(Wanted {
            runtime_ns: 5_000_000,
            period_ns: 100_000_000,
            server: Some(server),
            ..Wanted::default()
        });
        let mine = matches!(ask(&mut state, me(), request), Answer::Reserved(_));
        assert_eq!(
            mine,
            server != ServerPolicy::CbsSoft || me().uid == 0,
            "{server}"
        );
    }
}

#[test]
fn no_process_is_promised_more_than_a_cpu_may_promise() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let mut promise = |runtime_ms: u64, guaranteed: bool| {
        let request = Ask::Reserve(Wanted {
            pid: Some(me().pid),
            runtime_ns: runtime_ms * 1_000_000,
            period_ns: 100_000_000,
            guaranteed,
            ..Wanted::default()
        });
        ask(&mut state, ROOT, request)
    };
    let Answer::Refused(r) = promise(91, true) else {
        panic!()
    };
    assert_eq!(r.code, Code::Limit);
    assert!(
        r.message.contains("91 %") && r.message.contains("r-max"),
        "{r}"
    );
    assert!(matches!(promise(90, true), Answer::Reserved(_)));
    assert!(
        matches!(promise(91, false), Answer::Reserved(_)),
        "by load there is no such limit"
    );
}

#[test]
fn a_guaranteed_client_learns_on_which_cpus() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let parts =
        [(0, 13_000_000), (1, 12_000_000)].map(|(cpu, runtime_ns)| Part { cpu, runtime_ns });
    fake.seen.borrow_mut().servers = vec![server(1, vec![]), server(me().pid, parts.to_vec())];
    let request = Ask::Reserve(Wanted {
        pid: Some(me().pid),
        runtime_ns: 25_000_000,
        period_ns: 41_000_000,
        guaranteed: true,
        ..Wanted::default()
    });
    let Answer::Reserved(line) = ask(&mut state, ROOT, request) else {
        panic!()
    };
    assert_eq!(line.parts, parts);
    let Answer::Status(status) = ask(&mut state, USER, Ask::Status {}) else {
        panic!()
    };
    let task = status.tasks.iter().find(|t| t.pid == me().pid).unwrap();
    assert!(task.guaranteed && !task.revocable);
    assert_eq!(
        (&task.parts[..], task.window, task.migrations),
        (&parts[..], 1, 7)
    );
    assert_eq!(task.reclaimed_ns, 4_000_000);
    assert_eq!(
        (task.server, status.server),
        (ServerPolicy::CbsHard, ServerPolicy::Fcbs)
    );
    let other = status.tasks.iter().find(|t| t.pid == 1).unwrap();
    assert!(!other.guaranteed && other.revocable);
    assert_eq!(other.server, ServerPolicy::Fcbs, "the machine's");
    assert_eq!(status.cpus[0].guaranteed_ppm, 610_000);
}

#[test]
fn a_full_table_and_a_users_limit_are_told_apart_from_failure() {
    let (root, fake) = (Root::new(), Fake::new());
    let mut state = root.state(&fake);
    let me = user(1000, me().pid);
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
