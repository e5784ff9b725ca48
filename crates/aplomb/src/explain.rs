//! Decisions in words: what each event says, and for `log --why` what led to it.

use aplomb_kernel::EventKind;
use aplomb_spec::format_duration;
use serde_json::{json, Value};

use crate::config::percent;
use crate::protocol::{LogEvent, RUN_SPEC};

/// Names of an event's three numbers, for JSON; units are in the names.
pub fn number_names(kind: EventKind) -> [&'static str; 3] {
    match kind {
        EventKind::Matched => ["match_kind", "runtime_ns", "period_ns"],
        EventKind::Inherited => ["parent_pid", "runtime_ns", "period_ns"],
        EventKind::Admitted => ["r_load_ppm", "s_load_ppm", "bandwidth_ppm"],
        EventKind::Rejected => ["load_ppm", "r_hi_ppm", "bandwidth_ppm"],
        EventKind::Exhausted => ["times_last_second", "runtime_ns", "next_period_in_ns"],
        EventKind::Revoked => ["r_load_ppm", "r_max_ppm", "use_ppm"],
        EventKind::Reactivated => ["r_load_ppm", "r_lo_ppm", "bandwidth_ppm"],
        EventKind::Missed => ["late_ns", "budget_left_ns", "period_ns"],
        EventKind::Exited => ["served_ns", "periods", "missed"],
        EventKind::Moved => ["from_cpu", "to_cpu", "unused"],
        EventKind::Limit => ["limit", "unused", "unused"],
        EventKind::Lost => ["unused", "unused", "unused"],
        EventKind::Guaranteed => ["cpus", "promised_ppm", "bandwidth_ppm"],
    }
}

/// Where a guaranteed reservation is: on `cpu`, or from there on over several.
fn places(cpus: u64, cpu: i32) -> String {
    match cpus {
        0 | 1 => format!("on CPU {cpu}"),
        n => format!("in turn on {n} CPUs, from CPU {cpu} on"),
    }
}

/// A rejection because of a promise: a load of `a` would have left room for `c` more below the limit `b`, but
/// not on the demand bound (bpf/policy/wmr.h), neither on one CPU nor split over several.
fn cannot_promise(a: u64, b: u64, c: u64) -> bool {
    a + c < b
}

/// A server lost one of its CPUs but begins on the same one as before.
fn moved(from: u64, to: u64) -> String {
    if from == to {
        format!("was given other CPUs, from CPU {to} on")
    } else {
        format!("moved from CPU {from} to CPU {to}")
    }
}

/// When the next budget comes.
fn next_period(ns: u64) -> String {
    match ns {
        0 => "at once".into(),
        ns => format!("in {}", rough(ns)),
    }
}

/// An event as JSON, its numbers by name.
pub fn to_json(e: &LogEvent) -> Value {
    let mut object = json!({
        "time_ns": e.time_ns, "event": e.event, "cpu": e.cpu, "pid": e.pid, "comm": e.comm, "spec": e.spec,
    });
    for (name, number) in number_names(e.event).into_iter().zip(e.numbers) {
        if name != "unused" {
            object[name] = number.into();
        }
    }
    object
}

/// What happened, for one line of the log.
pub fn short(e: &LogEvent) -> String {
    let [a, b, c] = e.numbers;
    match e.event {
        EventKind::Matched if e.spec == RUN_SPEC => {
            format!("reservation of {} asked for", cpu_time(b, c))
        }
        EventKind::Matched => format!(
            "recognised by {} as \"{}\": {}",
            match_word(a),
            e.spec,
            cpu_time(b, c)
        ),
        EventKind::Inherited => format!("inherits {} from process {a}", cpu_time(b, c)),
        EventKind::Admitted => {
            format!(
                "admitted on CPU {} (load {}, expected {}, needs {})",
                e.cpu,
                percent(a),
                percent(b),
                percent(c)
            )
        }
        EventKind::Rejected if cannot_promise(a, b, c) => format!(
            "rejected: {} cannot be guaranteed, neither on one CPU nor on several in turn (load {}, limit {})",
            percent(c),
            percent(a),
            percent(b)
        ),
        EventKind::Rejected => {
            format!(
                "rejected: load {} + {} is not below {}",
                percent(a),
                percent(c),
                percent(b)
            )
        }
        EventKind::Exhausted => format!(
            "used its {} up {} in the last second; next period {}",
            format_duration(b),
            times(a),
            next_period(c)
        ),
        EventKind::Revoked => {
            format!(
                "revoked on CPU {}: load {} is above {}; it used {}",
                e.cpu,
                percent(a),
                percent(b),
                percent(c)
            )
        }
        EventKind::Reactivated => {
            format!(
                "reactivated on CPU {} (load {} is below {}, needs {})",
                e.cpu,
                percent(a),
                percent(b),
                percent(c)
            )
        }
        EventKind::Missed => format!(
            "missed a deadline by {} with {} of its budget left",
            rough(a),
            rough(b)
        ),
        EventKind::Exited => {
            format!(
                "ended: {} of CPU time by right, {b} periods, {} missed",
                rough(a),
                times_or_none(c)
            )
        }
        EventKind::Moved => format!("{}, where it may run", moved(a, b)),
        EventKind::Limit => {
            format!("stays best-effort: all {a} places for interactive tasks are taken")
        }
        EventKind::Lost => "events were lost".into(),
        EventKind::Guaranteed => format!(
            "guaranteed {} {} (promised there before: {})",
            percent(c),
            places(a, e.cpu),
            percent(b)
        ),
    }
}

/// Tells the story of one process: feed it its events in order, and it says each in a sentence, with what
/// led to it.
#[derive(Debug, Default)]
pub struct Story {
    /// C and T, once known.
    cpu: Option<(u64, u64)>,
    /// Exhaustions: time and how many in the second before.
    exhausted: Vec<(u64, u64)>,
}

/// Redline's observation window: what load control looks at.
const WINDOW_NS: u64 = 4_000_000_000;

impl Story {
    /// The sentence for the next event. `at`: its time as text.
    pub fn tell(&mut self, at: &str, e: &LogEvent) -> String {
        let [a, b, c] = e.numbers;
        let who = format!("{} (pid {})", e.comm, e.pid);
        if matches!(e.event, EventKind::Matched | EventKind::Inherited) {
            self.cpu = Some((b, c));
        }
        if e.event == EventKind::Exhausted {
            self.exhausted.push((e.time_ns, a));
        }
        let reservation = self.cpu.map_or("its reservation".into(), |(c, t)| {
            format!("its reservation of {}", cpu_time(c, t))
        });
        let what = match e.event {
            EventKind::Matched if e.spec == RUN_SPEC => {
                format!("was given a request for {} by `aplomb run` or `aplomb set`", cpu_time(b, c))
            }
            EventKind::Matched => {
                format!("was recognised by {} as \"{}\", which asks for {}", match_word(a), e.spec, cpu_time(b, c))
            }
            EventKind::Inherited => format!("took over {} from process {a}, which started it", cpu_time(b, c)),
            EventKind::Admitted => format!(
                "was admitted on CPU {}: interactive tasks used {} of it and were expected to use {}, so there was \
                 room for its {}",
                e.cpu,
                percent(a),
                percent(b),
                percent(c)
            ),
            EventKind::Rejected if cannot_promise(a, b, c) => format!(
                "was rejected: {} can be guaranteed neither on one CPU nor on several in turn, beside what is \
                 promised and used already ({} where it was, of at most {}); it runs as best-effort work until \
                 there is room",
                percent(c),
                percent(a),
                percent(b)
            ),
            EventKind::Rejected => format!(
                "was rejected: with its {}, the least loaded CPU ({}) would not have stayed below {}; it runs as \
                 best-effort work until there is room",
                percent(c),
                percent(a),
                percent(b)
            ),
            EventKind::Exhausted if c == 0 => format!(
                "used up {reservation} {} within a second; each time its next period began at once",
                times(a)
            ),
            EventKind::Exhausted => format!(
                "used up {reservation} {} within a second; each time it had to wait for its next period, the last \
                 time {}",
                times(a),
                rough(c)
            ),
            EventKind::Revoked => {
                let recent: u64 =
                    self.exhausted.iter().filter(|(t, _)| t + WINDOW_NS >= e.time_ns).map(|(_, n)| n).sum();
                let why = if recent > 0 {
                    format!("it had exhausted {reservation} {}", times(recent))
                } else {
                    format!("it used the most of it, {}", percent(c))
                };
                format!(
                    "was revoked: interactive tasks had used {} of CPU {} over the last 4 s (limit {}), and {why}",
                    percent(a),
                    e.cpu,
                    percent(b)
                )
            }
            EventKind::Reactivated => format!(
                "got {reservation} back on CPU {}: interactive tasks used {} there, less than {}",
                e.cpu,
                percent(a),
                percent(b)
            ),
            EventKind::Missed => format!(
                "missed a deadline by {} although {} of its budget was left: CPU {} was overloaded, or ran \
                 real-time tasks or interrupts",
                rough(a),
                rough(b),
                e.cpu
            ),
            EventKind::Exited => format!(
                "ended, after {} of CPU time by right of its reservation in {b} periods, of which it missed {}",
                rough(a),
                times_or_none(c)
            ),
            EventKind::Moved => format!("{}, because it may no longer run where it was", moved(a, b)),
            EventKind::Limit => {
                format!("stayed best-effort work: all {a} places for interactive tasks were taken")
            }
            EventKind::Guaranteed => format!(
                "was guaranteed {reservation} {}: {}; it will not be revoked",
                places(a, e.cpu),
                match b {
                    0 => "nothing was promised there before".into(),
                    b => format!("what was promised on CPU {} before, {}, left room for it", e.cpu, percent(b)),
                }
            ),
            EventKind::Lost => return format!("at {at} events were lost: the buffer was full"),
        };
        if e.event == EventKind::Revoked {
            self.exhausted.clear();
        }
        format!("at {at} {who} {what}")
    }
}

/// "5ms/30ms (16.7 % of a CPU)", or "no reservation" for a spec that gives none.
fn cpu_time(runtime: u64, period: u64) -> String {
    if period == 0 || runtime == 0 {
        return "no reservation".into();
    }
    let share = percent((u128::from(runtime) * 1_000_000 / u128::from(period)) as u64);
    format!(
        "{}/{} ({share} of a CPU)",
        format_duration(runtime),
        format_duration(period)
    )
}

fn match_word(kind: u64) -> &'static str {
    match kind {
        1 => "an argument",
        2 => "its program file",
        3 => "its application id",
        4 => "its command name",
        5 => "its kernel thread's name",
        _ => "request",
    }
}

fn times(n: u64) -> String {
    if n == 1 {
        "once".into()
    } else {
        format!("{n} times")
    }
}

fn times_or_none(n: u64) -> String {
    if n == 0 {
        "none".into()
    } else {
        n.to_string()
    }
}

/// A duration to three digits: "4.97 ms".
pub fn rough(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
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
        let tell = |story: &mut Story, e| story.tell("12:03:11", &e);
        let first = tell(
            &mut story,
            event(EventKind::Matched, 0, [2, 5_000_000, 30_000_000]),
        );
        assert!(
            first.contains(
                "its program file as \"mplayer\", which asks for 5ms/30ms (16.7 % of a CPU)"
            ),
            "{first}"
        );
        tell(
            &mut story,
            event(EventKind::Exhausted, 1000, [7, 5_000_000, 1]),
        );
        tell(
            &mut story,
            event(EventKind::Exhausted, 6000, [16, 5_000_000, 1]),
        );
        tell(
            &mut story,
            event(EventKind::Exhausted, 7000, [15, 5_000_000, 1]),
        );
        let last = tell(
            &mut story,
            event(EventKind::Revoked, 8000, [930_000, 900_000, 160_000]),
        );
        assert_eq!(
            last,
            "at 12:03:11 mplayer (pid 812) was revoked: interactive tasks had used 93 % of CPU 1 over the last 4 s \
             (limit 90 %), and it had exhausted its reservation of 5ms/30ms (16.7 % of a CPU) 31 times"
        );
        // a later one is not blamed on the same exhaustions
        let again = tell(
            &mut story,
            event(EventKind::Revoked, 8500, [930_000, 900_000, 160_000]),
        );
        assert!(again.ends_with("it used the most of it, 16 %"), "{again}");
    }

    #[test]
    fn a_promise_is_told_with_its_places() {
        let mut story = Story::default();
        let mut tell = |kind, numbers| story.tell("12:03:11", &event(kind, 0, numbers));
        tell(EventKind::Matched, [2, 25_000_000, 41_000_000]);
        assert_eq!(
            tell(EventKind::Guaranteed, [1, 0, 609_756]),
            "at 12:03:11 mplayer (pid 812) was guaranteed its reservation of 25ms/41ms (61 % of a CPU) on CPU 1: \
             nothing was promised there before; it will not be revoked"
        );
        let split = tell(EventKind::Guaranteed, [2, 609_757, 609_756]);
        assert!(
            split.ends_with(
                "in turn on 2 CPUs, from CPU 1 on: what was promised on CPU 1 before, 61 %, left room for it; it \
                 will not be revoked"
            ),
            "{split}"
        );
        let numbers = [100_000, 900_000, 609_756];
        let refused = tell(EventKind::Rejected, numbers);
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
                .tell("12:00:00", &e)
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
    fn durations_have_three_digits() {
        let all = [999, 4_973, 12_345_678, 999_000_000, 61_500_000_000].map(rough);
        assert_eq!(all, ["999 ns", "4.97 us", "12.3 ms", "999 ms", "61.5 s"]);
    }
}
