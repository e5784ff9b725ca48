//! Every decision has a text.

use super::*;

fn event(event: EventKind, time_ms: u64, numbers: [u64; 3]) -> LogEvent {
    LogEvent {
        time_ns: time_ms * 1_000_000,
        event,
        cpu: 1,
        pid: 812,
        comm: "mplayer".into(),
        spec: "mplayer".into(),
        numbers,
    }
}

#[test]
fn a_revocation_is_explained_by_what_led_to_it() {
    let mut story = Story::default();
    let sentence = |story: &mut Story, e| story.sentence("12:03:11", &e);
    let first = sentence(
        &mut story,
        event(EventKind::Matched, 0, [2, 5_000_000, 30_000_000]),
    );
    assert!(
        first
            .contains("its program file as \"mplayer\", which asks for 5ms/30ms (16.7 % of a CPU)"),
        "{first}"
    );
    sentence(
        &mut story,
        event(EventKind::Exhausted, 1000, [7, 5_000_000, 1]),
    );
    sentence(
        &mut story,
        event(EventKind::Exhausted, 6000, [16, 5_000_000, 1]),
    );
    sentence(
        &mut story,
        event(EventKind::Exhausted, 7000, [15, 5_000_000, 1]),
    );
    let last = sentence(
        &mut story,
        event(EventKind::Revoked, 8000, [930_000, 900_000, 160_000]),
    );
    assert_eq!(
        last,
        "at 12:03:11 mplayer (pid 812) was revoked: interactive tasks had used 93 % of CPU 1 over the last 4 s \
         (limit 90 %), and it had exhausted its reservation of 5ms/30ms (16.7 % of a CPU) 31 times"
    );
    // A later revocation is not explained by the same exhaustions.
    let again = sentence(
        &mut story,
        event(EventKind::Revoked, 8500, [930_000, 900_000, 160_000]),
    );
    assert!(again.ends_with("it used the most of it, 16 %"), "{again}");
}

#[test]
fn a_promise_is_told_with_its_places() {
    let mut story = Story::default();
    let mut sentence = |kind, numbers| story.sentence("12:03:11", &event(kind, 0, numbers));
    sentence(EventKind::Matched, [2, 25_000_000, 41_000_000]);
    assert_eq!(
        sentence(EventKind::Guaranteed, [1, 0, 609_756]),
        "at 12:03:11 mplayer (pid 812) was guaranteed its reservation of 25ms/41ms (61 % of a CPU) on CPU 1: \
         nothing was promised there before; it will not be revoked"
    );
    let split = sentence(EventKind::Guaranteed, [2, 609_757, 609_756]);
    assert!(
        split.ends_with(
            "in turn on 2 CPUs, from CPU 1 on: what was promised on CPU 1 before, 61 %, left room for it; it \
             will not be revoked"
        ),
        "{split}"
    );
    let numbers = [100_000, 900_000, 609_756];
    let refused = sentence(EventKind::Rejected, numbers);
    assert!(
        refused.contains("61 % can be guaranteed neither on one CPU nor on several in turn"),
        "{refused}"
    );
    let line = short(&event(EventKind::Rejected, 0, numbers));
    assert!(line.contains("cannot be guaranteed"), "{line}");
    let by_load = short(&event(EventKind::Rejected, 0, [700_000, 800_000, 166_666]));
    assert_eq!(by_load, "rejected: load 70 % + 16.7 % is not below 80 %");
    let line = short(&event(EventKind::Guaranteed, 0, [2, 609_757, 609_756]));
    assert_eq!(
        line,
        "guaranteed 61 % in turn on 2 CPUs, from CPU 1 on (promised there before: 61 %)"
    );
}

#[test]
fn moves_and_soft_servers_make_sense() {
    let line = |kind, numbers| short(&event(kind, 0, numbers));
    let at_once = line(EventKind::Exhausted, [3, 5_000_000, 0]);
    assert!(at_once.ends_with("next period at once"), "{at_once}");
    assert_eq!(
        line(EventKind::Moved, [0, 1, 0]),
        "moved from CPU 0 to CPU 1, where it may run"
    );
    let same = line(EventKind::Moved, [0, 0, 0]);
    assert!(
        same.starts_with("was given other CPUs, from CPU 0 on"),
        "{same}"
    );
}

#[test]
fn every_event_has_words_and_names() {
    for kind in EventKind::ALL {
        let e = event(kind, 0, [1, 2, 3]);
        assert!(!short(&e).is_empty());
        assert!(Story::default()
            .sentence("12:00:00", &e)
            .starts_with("at 12:00:00 "));
        let json = to_json(&e);
        assert_eq!(json["event"], kind.name());
        assert!(json.get("unused").is_none());
    }
    assert_eq!(
        to_json(&event(EventKind::Revoked, 0, [930_000, 0, 0]))["r_load_ppm"],
        930_000
    );
}

#[test]
fn changes_of_domains_are_named() {
    let line = |numbers| short(&event(EventKind::Domain, 0, numbers));
    assert_eq!(line([4711, 1, 2]), "domain of cgroup 4711: policy mtr");
    let reserved = line([4711, 2, 250_000]);
    assert!(reserved.ends_with(": a reservation of 25 % of the machine"));
    assert!(line([4711, 4, 10_000_000]).ends_with("10.0 ms in each period"));
    assert!(line([4711, 4, 0]).ends_with("no reservation"));
    assert!(line([4711, 1, 99]).ends_with("an unknown policy"));
}

#[test]
fn durations_have_three_digits() {
    let all = [999, 4_973, 12_345_678, 999_000_000, 61_500_000_000].map(rough);
    assert_eq!(all, ["999 ns", "4.97 us", "12.3 ms", "999 ms", "61.5 s"]);
}

/// The same kind of event is about a process (for which the table was full) or about a cgroup
/// (which became no domain). An event about a cgroup has no pid.
#[test]
fn a_limit_says_whose_it_is() {
    let process = event(EventKind::Limit, 0, [4096, 5_000_000, 30_000_000]);
    assert!(short(&process).contains("4096 places for interactive tasks"));
    let cgroup = |limit| LogEvent {
        pid: 0,
        ..event(EventKind::Limit, 0, [limit, 77, 12])
    };
    assert_eq!(
        short(&cgroup(16)),
        "cgroup 77 is no domain of its own, but part of 12: it is too deep"
    );
    assert!(short(&cgroup(4096)).ends_with("all places are taken"));
    assert!(short(&cgroup(1024)).ends_with("its user has as many domains as one user may"));
    assert!(short(&cgroup(0)).ends_with("the cgroup above it is none either"));
}

#[test]
fn what_was_killed_is_explained_by_what_the_kernel_compared() {
    let kill =
        |mb: u64, class, adj: i64| event(EventKind::Killed, 0, [mb << 20, class, adj as u64]);
    let hog = kill(300, 1, 0);
    assert_eq!(
        short(&hog),
        "killed, because memory had run out: best-effort work, 300.0 MiB, oom_score_adj 0"
    );
    let why = |e: &LogEvent| Story::default().sentence("12:00:00", e);
    assert!(why(&hog).ends_with(
        "had 300.0 MiB, which counted in full (oom_score_adj 0); that was the most of all"
    ));
    let player = kill(500, 0, -372);
    assert!(why(&player)
        .contains("it was interactive and had 500.0 MiB, of which 37.2 % of the machine's memory"));
    assert!(why(&player).ends_with("no best-effort process had more that counted"));
    assert!(why(&kill(1, 1, 200)).contains("counted as if it had 20.0 % of the"));
    assert_eq!(to_json(&player)["oom_score_adj"], -372);
    let by_oomd = LogEvent {
        pid: 0,
        comm: "refox-812.scope".into(),
        ..event(
            EventKind::Killed,
            0,
            [killed::oomd_number("memory-pressure"), 0, 0],
        )
    };
    let text = "systemd-oomd killed the cgroup …refox-812.scope: tasks waited too long for memory";
    assert_eq!(short(&by_oomd), text);
    assert_eq!(why(&by_oomd), format!("at 12:00:00 {text}"));
    assert_eq!(killed::oomd_number("what else"), 2);
}
