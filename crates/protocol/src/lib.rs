//! The protocol of the Unix socket: one JSON object a line. A client sends a request, and the
//! daemon answers it.
//!
//! Any user can open the socket and send any bytes. So a line is bounded before it is parsed
//! ([`MAX_REQUEST`]), unknown fields are refused, and the code that uses a number checks it first.
//! The peer's credentials alone decide what a client may ask for, never the content of a request.

use serde::{Deserialize, Serialize};

mod disk;
mod domain;
mod memory;
mod names;
mod net;

pub use aplomb_domain::{DomainPath, DomainPolicy, Max, Reservation};
pub use aplomb_spec::ServerPolicy;
pub use disk::{ClassTimes, DiskAccount, DiskChange, DiskTime, DiskTimes};
pub use domain::{DomainLine, DomainTable, MemoryAccount, ParkLine};
pub use memory::{MemoryCounts, MemoryLine, MemoryStatus, MemoryTable};
pub use names::{Cpu, EventKind, Part, ServerState};
pub use net::{
    NetAsk, NetCounts, NetDomain, NetLeaf, NetLine, NetQueue, NetReceived, NetWanted, MAX_OVERHEAD,
};

/// Version of the protocol. A request of another version is refused.
pub const VERSION: u32 = 1;
/// Bytes of one request line, with its newline.
pub const MAX_REQUEST: usize = 64 * 1024;
/// Bytes of one answer line that a client accepts.
pub const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub v: u32,
    /// The question.
    pub ask: Ask,
}

/// The questions. Each comment names the users that may ask it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// State, loads, interactive tasks, counters (all users).
    Status {},
    /// The specs in force (all users).
    Specs {},
    /// Past decisions, and new ones as they are made (all users).
    Log {
        /// Continue with new events.
        #[serde(default)]
        follow: bool,
        /// Only events about this process.
        #[serde(default)]
        pid: Option<i32>,
        /// Only events younger than this, ns.
        #[serde(default)]
        since_ns: Option<u64>,
    },
    /// Make a reservation (own processes within the limit; root: any).
    Reserve(Wanted),
    /// Remove a process's reservation (own processes; root: any).
    Release { pid: i32 },
    /// Give a process a private reserve of memory, or take it away (own processes within the limit;
    /// root: any). A process that is not interactive yet has it as soon as it is.
    Memory {
        /// None means the process that sends the request.
        #[serde(default)]
        pid: Option<i32>,
        /// Bytes. None: no reserve.
        bytes: Option<u64>,
    },
    /// The domains, with the CPU time that each has used so far (all users).
    Domains {},
    /// Read the attributes of a domain now and answer whether they are in force (root). No request
    /// changes a domain: a client that may change one writes the cgroup's files and attributes
    /// itself, with its own rights.
    Look { domain: DomainPath },
    /// Park a thread for `for_ns` from its next return to user mode on; 0 ends a park (root).
    Park { tid: i32, for_ns: u64 },
    /// How the time of disks is shared (all users), or a change of it (root).
    Disks(DiskChange),
    /// The interfaces whose packets are ordered (all users), or a change of them (root).
    Net(NetAsk),
    /// Read the specs again (root).
    Reload {},
    /// End the daemon (root).
    Stop {},
}

/// A requested reservation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// None means the process that sends the request.
    #[serde(default)]
    pub pid: Option<i32>,
    /// C, ns.
    pub runtime_ns: u64,
    /// T, ns.
    pub period_ns: u64,
    /// Children inherit it (root only, because each child takes as much again).
    #[serde(default)]
    pub inherit: bool,
    /// Never revoked (root only).
    #[serde(default)]
    pub keep: bool,
    /// Flag G: admitted only if it fits beside all that is promised, and never revoked (root only).
    #[serde(default)]
    pub guaranteed: bool,
    /// The server policy (cbs-soft: root only). None means the machine's.
    #[serde(default)]
    pub server: Option<ServerPolicy>,
}

/// One line of an answer. The answer to a request is one line, except for [`Ask::Log`]: its answer
/// is any number of [`Answer::Event`] and [`Answer::Notice`], then [`Answer::Done`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Status(Box<Status>),
    Specs(Vec<SpecLine>),
    Domains(DomainTable),
    Net(Vec<NetLine>),
    Event(LogEvent),
    /// A message about the log itself (dropped events) or about the specs (skipped ones).
    Notice(String),
    Reserved(ReservedLine),
    /// The request is done. The text may be empty.
    Done(String),
    Refused(Refusal),
}

/// Why a request was refused. The client's exit code follows from `code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: Code,
    pub message: String,
}

/// Kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Code {
    /// The request is not valid.
    Invalid,
    /// This user may not ask it.
    Permission,
    /// A limit is reached.
    Limit,
    /// The request is allowed, but failed.
    Failed,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// `aplomb status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// True while the scheduler is attached.
    pub attached: bool,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Version of the daemon.
    pub version: String,
    /// `uname -r`.
    pub kernel: String,
    /// Seconds since the scheduler was attached.
    pub attached_s: u64,
    /// How often the scheduler was loaded again because the kernel asked for it.
    pub restarts: u32,
    /// The server policy of tasks whose spec names none.
    pub server: ServerPolicy,
    /// Thresholds, ppm of a CPU.
    pub r_lo_ppm: u64,
    pub r_hi_ppm: u64,
    pub r_max_ppm: u64,
    /// Number of specs in force, and of their rows in the kernel's table.
    pub specs: usize,
    pub matchers: usize,
    /// Errors in the files of specs, one line each: file, line, field. A spec with an error is
    /// skipped.
    #[serde(default)]
    pub spec_errors: Vec<String>,
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<TaskLine>,
    #[serde(default)]
    pub memory: MemoryStatus,
    /// How often each kind of event happened since the load.
    pub counters: std::collections::BTreeMap<String, u64>,
}

/// One interactive task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskLine {
    pub pid: i32,
    pub comm: String,
    /// Name of the spec, or [`RUN_SPEC`].
    pub spec: String,
    pub runtime_ns: u64,
    pub period_ns: u64,
    pub state: ServerState,
    /// The CPU of its reservation now.
    pub cpu: i32,
    pub inherited: bool,
    pub revocable: bool,
    /// True if its reservation is guaranteed (flag G) and admitted.
    pub guaranteed: bool,
    /// All CPUs of a guaranteed reservation, in the order of its windows. Empty for others.
    pub parts: Vec<Part>,
    /// Index in `parts` of the current window.
    pub window: u32,
    /// How often it moved from one CPU of `parts` to the next.
    pub migrations: u64,
    pub server: ServerPolicy,
    pub threads: i32,
    /// Mean over four seconds, ppm of a CPU.
    pub use_ppm: u64,
    pub served_ns: u64,
    /// CPU time that it took from the slack of other servers (fcbs).
    pub reclaimed_ns: u64,
    pub periods: u64,
    pub exhausted: u64,
    pub missed: u64,
}

/// The spec name that is shown for reservations of `aplomb run` and `aplomb set`.
pub const RUN_SPEC: &str = "(run)";

/// One spec in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpecLine {
    #[serde(flatten)]
    pub spec: aplomb_spec::Spec,
    /// Files that its matchers stand for now.
    pub files: Vec<String>,
    /// Number of its rows in the kernel's table.
    pub rows: usize,
    /// Why it grants less than it says for some of its programs: another program can pass for them.
    #[serde(default)]
    pub weak: Vec<String>,
}

/// One decision of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEvent {
    /// Since 1970, ns.
    pub time_ns: u64,
    pub event: EventKind,
    pub cpu: i32,
    pub pid: i32,
    pub comm: String,
    /// Empty if the spec is no longer known.
    pub spec: String,
    /// The numbers a, b, c of `struct event` in bpf/intf.h.
    pub numbers: [u64; 3],
}

/// The outcome of [`Ask::Reserve`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedLine {
    pub pid: i32,
    pub state: ServerState,
    pub cpu: i32,
    /// All CPUs of a guaranteed reservation.
    pub parts: Vec<Part>,
    pub load_ppm: u64,
}

/// Parse one request line (without its newline).
///
/// # Errors
/// One sentence that says what is wrong with the request.
pub fn parse_request(line: &[u8]) -> Result<Ask, Refusal> {
    let invalid = |message: String| Refusal::new(Code::Invalid, message);
    if line.len() > MAX_REQUEST {
        return Err(invalid(format!(
            "a request has at most {MAX_REQUEST} bytes"
        )));
    }
    let request: Request =
        serde_json::from_slice(line).map_err(|e| invalid(format!("not a request: {e}")))?;
    if request.v != VERSION {
        return Err(invalid(format!(
            "protocol version {} is not spoken here, only {VERSION}: are `aplomb` and its daemon of one version?",
            request.v
        )));
    }
    Ok(request.ask)
}

/// The line that is sent over the socket for `message`.
pub fn to_line(message: &impl Serialize) -> Vec<u8> {
    // Serializing fails only for maps with other keys than strings and for failing Serialize
    // impls. The protocol has neither.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Body of the fuzz target `protocol`: parsing any bytes gives a request that survives a round
/// trip, or a refusal of bounded length.
///
/// # Panics
/// If that does not hold.
pub fn fuzz_protocol(data: &[u8]) {
    for line in data.split(|b| *b == b'\n') {
        match parse_request(line) {
            Ok(ask) => {
                let again = to_line(&Request {
                    v: VERSION,
                    ask: ask.clone(),
                });
                assert_eq!(parse_request(again.trim_ascii_end()), Ok(ask));
            }
            Err(refusal) => assert!(
                refusal.message.len() <= 2 * MAX_REQUEST,
                "a refusal repeats too much"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let refusal = parse_request(line.as_bytes()).unwrap_err();
        assert_eq!(refusal.code, Code::Invalid);
        refusal.message
    }

    #[test]
    fn requests_survive_the_wire() {
        for ask in [
            Ask::Status {},
            Ask::Log {
                follow: true,
                pid: Some(812),
                since_ns: None,
            },
            Ask::Reserve(Wanted {
                pid: None,
                runtime_ns: 5_000_000,
                period_ns: 30_000_000,
                inherit: false,
                keep: true,
                guaranteed: true,
                server: Some(ServerPolicy::CbsHard),
            }),
            Ask::Release { pid: 1 },
            Ask::Memory {
                pid: Some(812),
                bytes: Some(32 << 20),
            },
            Ask::Disks(DiskChange::default()),
            Ask::Domains {},
            Ask::Look {
                domain: "user.slice/media".parse().unwrap(),
            },
            Ask::Stop {},
        ] {
            let line = to_line(&Request {
                v: VERSION,
                ask: ask.clone(),
            });
            assert_eq!(line.last(), Some(&b'\n'));
            assert_eq!(parse_request(line.trim_ascii_end()), Ok(ask));
        }
    }

    #[test]
    fn what_is_left_out_is_none() {
        let ask = parse_request(br#"{"v":1,"ask":{"log":{}}}"#).unwrap();
        assert_eq!(
            ask,
            Ask::Log {
                follow: false,
                pid: None,
                since_ns: None
            }
        );
        let line = br#"{"v":1,"ask":{"reserve":{"runtime_ns":5000000,"period_ns":30000000}}}"#;
        assert_eq!(
            parse_request(line),
            Ok(Ask::Reserve(Wanted {
                runtime_ns: 5_000_000,
                period_ns: 30_000_000,
                ..Wanted::default()
            }))
        );
    }

    #[test]
    fn unknown_fields_versions_and_questions_are_refused() {
        assert!(refused(r#"{"v":1,"ask":{"status":{}},"uid":0}"#).contains("uid"));
        assert!(refused(r#"{"v":1,"ask":{"log":{"everything":true}}}"#).contains("everything"));
        assert!(refused(r#"{"v":1,"ask":{"release":{"pid":1,"force":true}}}"#).contains("force"));
        assert!(refused(r#"{"v":1,"ask":{"shutdown":{}}}"#).contains("shutdown"));
        assert!(refused(r#"{"v":2,"ask":{"status":{}}}"#).contains("version 2"));
        assert!(refused(r#"{"ask":{"status":{}}}"#).contains('v'));
        assert!(refused(r#"{"v":1,"ask":{"release":{"pid":99999999999}}}"#).contains("99999999999"));
        assert!(refused(r#"{"v":1,"ask":{"look":{"domain":"a/../b"}}}"#).contains("\"..\""));
        assert!(refused(r#"{"v":1,"ask":{"look":{"domain":"a","weight":9}}}"#).contains("weight"));
        let reserve = |more: &str| {
            format!(r#"{{"v":1,"ask":{{"reserve":{{"runtime_ns":1,"period_ns":1,{more}}}}}}}"#)
        };
        assert!(refused(&reserve(r#""server":"edf""#)).contains("edf"));
        assert!(refused(&reserve(r#""server":4"#)).contains('4'));
        assert!(refused(&reserve(r#""guaranteed":"yes""#)).contains("yes"));
        assert!(refused(&reserve(r#""parts":[]"#)).contains("parts"));
        refused("");
        refused("\u{0}");
        refused(&format!("{{\"v\":1,\"ask\":{}", "[".repeat(60_000)));
    }

    #[test]
    fn a_long_line_is_refused_before_it_is_parsed() {
        let line = format!(
            r#"{{"v":1,"ask":{{"status":{{}}}}}}{}"#,
            " ".repeat(MAX_REQUEST)
        );
        assert!(refused(&line).contains("65536"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_the_parser(data: Vec<u8>) {
            fuzz_protocol(&data);
        }

        #[test]
        fn near_misses_do_not_either(cut in 0usize..60, insert: Vec<u8>) {
            let line = br#"{"v":1,"ask":{"reserve":{"runtime_ns":5000000,"period_ns":30000000}}}"#;
            let mut data = line[..cut].to_vec();
            data.extend(&insert);
            data.extend(&line[cut..]);
            fuzz_protocol(&data);
        }
    }
}
