//! Turns decisions into text: a line for each event, and for `log --why` a sentence with its cause.

use aplomb_kernel::{DomainPolicy, DomainSetting, EventKind};
use aplomb_spec::format_duration;
use serde_json::{json, Value};

use crate::config::percent;
use crate::protocol::{LogEvent, RUN_SPEC};

/// Names of an event's three numbers in JSON. Each name has the unit.
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
        EventKind::Domain => ["cgroup_id", "setting", "value"],
        EventKind::Parked => ["reason", "parked_ns", "times"],
        EventKind::Returned => ["slept_ns", "unused", "unused"],
        EventKind::Demoted => ["needs_bytes", "all_need_bytes", "limit_bytes"],
        EventKind::Killed => ["bytes", "class", "oom_score_adj"],
        EventKind::Disk => ["group", "unused", "unused"],
        EventKind::Owner => ["expected_ppm", "limit_ppm", "uid"],
        EventKind::Elsewhere => ["thread", "may_run_on_cpu", "unused"],
        EventKind::Swapped => ["waited_ns", "times", "while_short_ns"],
    }
}

/// The CPUs of a guaranteed reservation: `cpu` alone, or several that begin with it.
fn places(cpus: u64, cpu: i32) -> String {
    match cpus {
        0 | 1 => format!("on CPU {cpu}"),
        n => format!("in turn on {n} CPUs, from CPU {cpu} on"),
    }
}

/// True if a guaranteed reservation was rejected. Such an event is told from others by its numbers:
/// beside the load `a` there is room for `c` more below the limit `b`. So the demand bound
/// (bpf/policy/wmr.h) refused it, on one CPU and split over several.
fn cannot_promise(a: u64, b: u64, c: u64) -> bool {
    a + c < b
}

/// The text for a server that moved. If `from` is `to`, it lost another of its CPUs, and begins on
/// the same CPU as before.
fn moved(from: u64, to: u64) -> String {
    if from == to {
        format!("was given other CPUs, from CPU {to} on")
    } else {
        format!("moved from CPU {from} to CPU {to}")
    }
}

/// The text that says when the next budget comes.
fn next_period(ns: u64) -> String {
    match ns {
        0 => "at once".into(),
        ns => format!("in {}", rough(ns)),
    }
}

/// An event as JSON, with named numbers.
pub fn to_json(e: &LogEvent) -> Value {
    let mut object = json!({
        "time_ns": e.time_ns, "event": e.event, "cpu": e.cpu, "pid": e.pid, "comm": e.comm, "spec": e.spec,
    });
    for (name, number) in number_names(e.event).into_iter().zip(e.numbers) {
        match name {
            "unused" => {}
            "oom_score_adj" => object[name] = killed::signed(number).into(),
            name => object[name] = number.into(),
        }
    }
    object
}

/// Why a cgroup has no domain: which of `enum limits` was reached.
fn full(limit: u64) -> &'static str {
    use aplomb_kernel::limits::{MAX_DEPTH, MAX_DOMAINS, MAX_OWNED_DOMAINS};
    match u32::try_from(limit).unwrap_or_default() {
        MAX_DEPTH => "it is too deep",
        MAX_DOMAINS => "all places are taken",
        MAX_OWNED_DOMAINS => "its user has as many domains as one user may",
        _ => "the cgroup above it is none either",
    }
}

/// The event as one line of the log.
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
        EventKind::Limit if e.pid <= 0 => {
            format!("cgroup {b} is no domain of its own, but part of {c}: {}", full(a))
        }
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
        EventKind::Domain => domain_change(a, b, c),
        EventKind::Parked => parked(a, b, c),
        EventKind::Returned => format!("runs again after {}: its memory is protected again", rough(a)),
        EventKind::Demoted => format!(
            "demoted: it needs {} of memory, and of {} that are needed at most {} are protected",
            mebibytes(a),
            mebibytes(b),
            mebibytes(c)
        ),
        EventKind::Killed => killed::short(e),
        EventKind::Disk => disk(a),
        EventKind::Owner => format!(
            "no reservation: all programs of {} together use {} of at most {}",
            user(c),
            percent(a),
            percent(b)
        ),
        EventKind::Elsewhere => format!(
            "thread {a} is tied to CPU {b} and runs as best-effort work: the reservation is on CPU {}",
            e.cpu
        ),
        EventKind::Swapped => swapped(a, b, c),
    }
}

/// The text for tasks of a domain that were parked `times` times, for `ns` in all.
fn parked(reason: u64, ns: u64, times: u64) -> String {
    let why = match reason {
        0 => "cpu.max",
        1 => "a request",
        3 => "the memory reserve, which they took too fast,",
        5 => "dirty pages, of which they had too many,",
        4 => "their start, until they had a domain,",
        6 => "a disk, whose turn was others',",
        _ => "memory that is short",
    };
    format!(
        "tasks of its domain were parked by {why} {times} times, {} in all",
        rough(ns)
    )
}

/// The text for a program that waited for pages in swap `times` times, for `ns` in all.
fn swapped(ns: u64, times: u64, short_ns: u64) -> String {
    let short = match short_ns {
        0 => String::new(),
        _ => format!(", {} of it while memory was short", rough(short_ns)),
    };
    format!(
        "waited for pages in swap {times} times, {} in all{short}",
        rough(ns)
    )
}

/// The text for disks that are watched since a task of `group` waits for one.
fn disk(group: u64) -> String {
    let whose = match group {
        0 => "a soft real-time program",
        1 => "an interactive program",
        _ => "a program of a domain with a share of the disks",
    };
    format!("{whose} waits for a disk: the disks are watched from now on")
}

/// The text for a changed setting of the domain of cgroup `cgid`.
fn domain_change(cgid: u64, setting: u64, value: u64) -> String {
    let what = match DomainSetting::numbered(setting) {
        Some(DomainSetting::Policy) => {
            let policy = u32::try_from(value).ok().and_then(DomainPolicy::numbered);
            policy.map_or("an unknown policy".into(), |p| format!("policy {p}"))
        }
        Some(DomainSetting::Fraction | DomainSetting::Reservation) if value == 0 => {
            "no reservation".into()
        }
        Some(DomainSetting::Disk) if value == 0 => "no share of the disks".into(),
        Some(DomainSetting::Disk) => {
            let share = u32::try_from(value).unwrap_or(u32::MAX);
            format!("{} of each disk's time", aplomb_domain::percent(share))
        }
        Some(DomainSetting::Fraction) => {
            format!("a reservation of {} of the machine", percent(value))
        }
        Some(DomainSetting::Reservation) => {
            format!("a reservation of {} in each period", rough(value))
        }
        None => format!("setting {setting}, of a newer kernel side"),
    };
    format!("domain of cgroup {cgid}: {what}")
}

/// Explains the events of one process. The caller passes the events in order, and gets for each a
/// sentence that also says what led to it.
#[derive(Debug, Default)]
pub struct Story {
    /// C and T, once known.
    cpu: Option<(u64, u64)>,
    /// Exhaustions: the time of the event, and their number in the second before it.
    exhausted: Vec<(u64, u64)>,
}

/// Redline's observation window: load control uses the load in it.
const WINDOW_NS: u64 = 4_000_000_000;

impl Story {
    /// The sentence for the next event. `at`: its time as text.
    pub fn sentence(&mut self, at: &str, e: &LogEvent) -> String {
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
            EventKind::Domain => return format!("at {at} {}", domain_change(a, b, c)),
            EventKind::Parked => return format!("at {at} {}", parked(a, b, c)),
            EventKind::Returned => {
                format!("ran again after {}: its memory is protected again", rough(a))
            }
            EventKind::Demoted => format!(
                "was demoted, because interactive programs waited for memory: they need {}, at most {} are \
                 protected, and it needs the most, {}; it is best-effort work until there is room",
                mebibytes(b),
                mebibytes(c),
                mebibytes(a)
            ),
            EventKind::Disk => return format!("at {at} {}", disk(a)),
            EventKind::Owner => format!(
                "has no reservation: all programs of {} together use {}, or will, and may use {}; it runs as \
                 best-effort work until there is room",
                user(c),
                percent(a),
                percent(b)
            ),
            EventKind::Elsewhere => format!(
                "has its reservation on CPU {}, and its thread {a} may only run on others, such as CPU {b}; so the \
                 thread runs as best-effort work, without a right to be in time. A reservation is for one CPU: \
                 let the thread run there (taskset), or give each such thread a program of its own",
                e.cpu
            ),
            EventKind::Swapped => swapped(a, b, c),
            EventKind::Killed if e.pid <= 0 => return format!("at {at} {}", killed::by_oomd(e)),
            EventKind::Killed => killed::why(e),
            EventKind::Lost => return format!("at {at} events were lost: the buffer was full"),
        };
        if matches!(e.event, EventKind::Revoked | EventKind::Owner) {
            self.exhausted.clear();
        }
        format!("at {at} {who} {what}")
    }
}

/// The owner of an account (bpf/reserved/owner.bpf.h).
fn user(uid: u64) -> String {
    match u32::try_from(uid) {
        Ok(u32::MAX) | Err(_) => "several users".into(),
        Ok(uid) => format!("user {uid}"),
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

/// Memory, rounded up: "312 MiB".
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
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

pub mod killed;

#[cfg(test)]
mod tests;
