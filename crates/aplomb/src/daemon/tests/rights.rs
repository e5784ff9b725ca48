//! Who may do what.

use super::*;

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
