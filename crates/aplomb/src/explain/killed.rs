//! The texts of an event "killed": memory has run out.
//!
//! The kernel kills the process whose memory and `oom_score_adj` add up to the most
//! (crates/memory, oom.rs). systemd-oomd kills a cgroup; such an event has no process.

use crate::protocol::LogEvent;

/// Why systemd-oomd killed a cgroup: the first number of the event, by `aplomb`'s own count.
const BY_OOMD: [&str; 3] = [
    "memory and swap were used up",
    "tasks waited too long for memory",
    "its own reason",
];

/// The number of a reason that systemd-oomd gave.
pub fn oomd_number(reason: &str) -> u64 {
    match reason {
        "memory-used" => 0,
        "memory-pressure" => 1,
        _ => 2,
    }
}

/// The event as one line of the log.
pub fn short(e: &LogEvent) -> String {
    let [bytes, class, adj] = e.numbers;
    if e.pid <= 0 {
        return by_oomd(e);
    }
    format!(
        "killed, because memory had run out: {}, {}, oom_score_adj {}",
        class_word(class),
        mib(bytes),
        signed(adj)
    )
}

/// The event as part of a sentence, after the name of the process.
pub fn why(e: &LogEvent) -> String {
    let [bytes, class, adj] = e.numbers;
    let adj = signed(adj);
    let counted = match adj {
        0 => "which counted in full".into(),
        ..0 => format!("of which {} did not count", thousandths(adj)),
        _ => format!("and counted as if it had {} more", thousandths(adj)),
    };
    let because = if class == 0 {
        "no best-effort process had more that counted"
    } else {
        "that was the most of all"
    };
    format!(
        "was killed by the kernel, because memory had run out: it was {} and had {}, {counted} \
         (oom_score_adj {adj}); {because}",
        class_word(class),
        mib(bytes)
    )
}

/// The text of an event without a process.
pub fn by_oomd(e: &LogEvent) -> String {
    let reason = usize::try_from(e.numbers[0]).unwrap_or(usize::MAX);
    let reason = BY_OOMD.get(reason).unwrap_or(&BY_OOMD[2]);
    format!("systemd-oomd killed the cgroup …{}: {reason}", e.comm)
}

/// oom_score_adj, which is negative for most interactive processes.
pub fn signed(number: u64) -> i64 {
    number as i64
}

/// Steps of oom_score_adj as a part of memory.
fn thousandths(steps: i64) -> String {
    let steps = steps.unsigned_abs();
    format!(
        "{}.{} % of the machine's memory and swap",
        steps / 10,
        steps % 10
    )
}

fn class_word(class: u64) -> &'static str {
    match class {
        0 => "interactive",
        _ => "best-effort work",
    }
}

/// Bytes as text.
fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
