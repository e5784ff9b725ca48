//! Tests of the conversions between the structs of bpf/intf.h and their Rust types.

use super::*;

#[test]
fn servers_have_the_headers_numbers() {
    use raw::server_policy as p;
    let of = ServerPolicy::ALL.map(|policy| policy_number(Some(policy)));
    let header = [
        p::POLICY_REDLINE,
        p::POLICY_CBS_HARD,
        p::POLICY_CBS_SOFT,
        p::POLICY_FCBS,
        p::POLICY_DEFERRED,
    ];
    assert_eq!(of, header.map(|number| number.0));
    assert_eq!(of.len() + 1, p::NR_POLICIES.0 as usize);
    assert_eq!(policy_number(None), 0);
}

#[test]
fn rows_keep_their_server_on_the_way() {
    for policy in ServerPolicy::ALL.map(Some).into_iter().chain([None]) {
        let row = SpecRow {
            runtime_ns: 25_000_000,
            period_ns: 41_000_000,
            id: 7,
            flags: flags::INTERACTIVE | flags::GUARANTEED,
            protect_s: 0,
            io_priority: u32::MAX,
            policy,
        };
        assert_eq!(SpecRow::from_raw(&row.to_raw()), row);
    }
}

#[test]
fn parts_are_those_of_an_admitted_guarantee() {
    let mut s = raw::server_info {
        state: 1,
        cpu: 3,
        guaranteed: 1,
        migrations: 9,
        reclaimed_ns: 5,
        ..Default::default()
    };
    s.split.parts = 2;
    s.split.window = 1;
    s.split.cpu = [0, 3, 7, 7, 7, 7, 7, 7];
    s.split.runtime = [15, 10, 99, 99, 99, 99, 99, 99];
    let split = Server::from_raw(&s, 0).unwrap();
    let parts = [(0, 15), (3, 10)].map(|(cpu, runtime_ns)| Part { cpu, runtime_ns });
    assert_eq!(
        (split.guaranteed, split.parts, split.window),
        (true, parts.into(), 1)
    );
    assert_eq!((split.migrations, split.reclaimed_ns), (9, 5));
    s.split.parts = 99;
    assert_eq!(
        Server::from_raw(&s, 0).unwrap().parts.len(),
        8,
        "no more than there are"
    );
    s.state = 2;
    let rejected = Server::from_raw(&s, 0).unwrap();
    assert_eq!(
        (rejected.guaranteed, rejected.parts.len(), rejected.window),
        (false, 0, 0)
    );
    s.state = 1;
    s.guaranteed = 0;
    assert!(Server::from_raw(&s, 0).unwrap().parts.is_empty(), "by load");
}

#[test]
fn keys_survive_the_map() {
    let key = Matcher([2, 1234, 8 << 20, u64::MAX]);
    assert_eq!(Matcher::from_bytes(&key.bytes()), Some(key));
    assert_eq!(Matcher::from_bytes(&[0; 31]), None);
}

#[test]
fn use_is_the_mean_of_the_window() {
    let mut s = raw::server_info {
        state: 1,
        ..Default::default()
    };
    s.usage.second = 10;
    s.usage.ns = [400_000_000; 4];
    let at = |sample_no: u64| Server::from_raw(&s, sample_no).unwrap().use_ppm;
    assert_eq!(at(10), 400_000, "seconds 7, 8, 9; 10 is not over");
    assert_eq!(at(11), 400_000, "8, 9, 10");
    assert_eq!(at(13), 133_333, "two seconds have left the window");
    assert_eq!(at(60), 0);
    assert_eq!(at(0), 0);
}

#[test]
fn names_cannot_control_the_terminal() {
    assert_eq!(comm_text(b"a\x1b[2Jb\0ignored"), "a?[2Jb");
    assert_eq!(comm_text(b"0123456789abcdef"), "0123456789abcdef");
}

#[test]
fn a_message_about_hotplug_says_so() {
    let exit = ExitInfo {
        kind: 65,
        code: (1 << 48) | (1 << 32),
        restart: true,
        hotplug: true,
        reason: "unregistered from the main kernel".into(),
        msg: String::new(),
    };
    assert!(exit.to_string().contains("a CPU came or went"));
}
