//! What is said over the Unix socket: one JSON object a line, request by request.
//!
//! Whoever can open the socket can send anything, so a line is bounded before it is parsed
//! ([`MAX_REQUEST`]), unknown fields are refused, and every number is checked by whoever uses it.
//! Who may ask for what is decided by the peer's credentials, never by anything in a request.

use serde::{Deserialize, Serialize};

mod domain;
mod names;

pub use aplomb_domain::{DomainPath, DomainPolicy, Max, Reservation};
pub use aplomb_spec::ServerPolicy;
pub use domain::{DomainLine, DomainTable, ParkLine};
pub use names::{Cpu, EventKind, Part, ServerState};

/// Version of the protocol; a request of another version is refused.
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
    /// What is asked.
    pub ask: Ask,
}

/// What can be asked. The comment says who may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// State, loads, interactive tasks, counters (anybody).
    Status {},
    /// The specs in force (anybody).
    Specs {},
    /// Past decisions, and those to come (anybody).
    Log {
        /// Go on with new ones.
        #[serde(default)]
        follow: bool,
        /// Only those about this process.
        #[serde(default)]
        pid: Option<i32>,
        /// Only those younger than this, ns.
        #[serde(default)]
        since_ns: Option<u64>,
    },
    /// A reservation (own processes within the limit; root: any).
    Reserve(Wanted),
    /// Take a process's reservation away (own processes; root: any).
    Release { pid: i32 },
    /// The domains, with what each has used so far (anybody).
    Domains {},
    /// Look at the attributes of a domain now and say whether they are in force (root). There is no
    /// question that changes a domain: whoever may change it writes its cgroup's files and
    /// attributes, by his own rights.
    Look { domain: DomainPath },
    /// Keep a thread off the CPU for so long from its next return to user mode on, ns; 0: let it go
    /// on (root).
    Park { tid: i32, for_ns: u64 },
    /// Read configuration of specs again (root).
    Reload {},
    /// End the daemon (root).
    Stop {},
}

/// A reservation as it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// None: the process that asks.
    #[serde(default)]
    pub pid: Option<i32>,
    /// C, ns.
    pub runtime_ns: u64,
    /// T, ns.
    pub period_ns: u64,
    /// Children keep it too (root only: each child would take as much again).
    #[serde(default)]
    pub inherit: bool,
    /// Never revoked (root only).
    #[serde(default)]
    pub keep: bool,
    /// Flag G: admitted only if there is room for all that is promised, and never revoked (root
    /// only).
    #[serde(default)]
    pub guaranteed: bool,
    /// What becomes of it when its budget is used up (cbs-soft: root only); None: the machine's.
    #[serde(default)]
    pub server: Option<ServerPolicy>,
}

/// One line of an answer. A request is answered by one line, except [`Ask::Log`]: any number of
/// [`Answer::Event`] and [`Answer::Notice`], then [`Answer::Done`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Status(Box<Status>),
    Specs(Vec<SpecLine>),
    Domains(DomainTable),
    Event(LogEvent),
    /// About the log itself (events that were dropped) or about the specs (what was skipped).
    Notice(String),
    Reserved(ReservedLine),
    /// Done; the text may be empty.
    Done(String),
    Refused(Refusal),
}

/// Why a request was refused; the client's exit code follows.
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
    /// The request makes no sense.
    Invalid,
    /// Not for this user.
    Permission,
    /// A limit is reached.
    Limit,
    /// It did not work.
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
    /// The scheduler runs the machine.
    pub attached: bool,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Version of the daemon.
    pub version: String,
    /// `uname -r`.
    pub kernel: String,
    /// Seconds since it was attached.
    pub attached_s: u64,
    /// Times it was loaded again because the kernel asked for it.
    pub restarts: u32,
    /// What becomes of a task that has used up its budget, unless its spec says otherwise.
    pub server: ServerPolicy,
    /// Thresholds, ppm of a CPU.
    pub r_lo_ppm: u64,
    pub r_hi_ppm: u64,
    pub r_max_ppm: u64,
    /// Specs in force, and the kernel's rows for them.
    pub specs: usize,
    pub matchers: usize,
    /// Errors in the files of specs, one line each: file, line, field. The specs that have them are
    /// skipped.
    #[serde(default)]
    pub spec_errors: Vec<String>,
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<TaskLine>,
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
    /// Where its reservation is now.
    pub cpu: i32,
    pub inherited: bool,
    pub revocable: bool,
    /// Its reservation is a promise (flag G, and admitted).
    pub guaranteed: bool,
    /// Of a guaranteed one: all its CPUs, in the order of its windows; empty for others.
    pub parts: Vec<Part>,
    /// Which of `parts` it is in now, from 0.
    pub window: u32,
    /// Times it went from one CPU of `parts` to the next.
    pub migrations: u64,
    pub server: ServerPolicy,
    pub threads: i32,
    /// Mean over four seconds, ppm of a CPU.
    pub use_ppm: u64,
    pub served_ns: u64,
    /// CPU time that it took of what others left of their budgets (fcbs).
    pub reclaimed_ns: u64,
    pub periods: u64,
    pub exhausted: u64,
    pub missed: u64,
}

/// Name shown for reservations asked by `aplomb run` and `aplomb set`.
pub const RUN_SPEC: &str = "(run)";

/// One spec in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpecLine {
    #[serde(flatten)]
    pub spec: aplomb_spec::Spec,
    /// Files that it is matched by now.
    pub files: Vec<String>,
    /// Rows of the kernel's table.
    pub rows: usize,
}

/// One decision.
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
    /// a, b, c of bpf/intf.h.
    pub numbers: [u64; 3],
}

/// The outcome of [`Ask::Reserve`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedLine {
    pub pid: i32,
    pub state: ServerState,
    pub cpu: i32,
    /// Of a guaranteed one: all its CPUs.
    pub parts: Vec<Part>,
    pub load_ppm: u64,
}

/// Read one request line (without its newline).
///
/// # Errors
/// Says in one sentence what is wrong with it.
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

/// A line as it goes over the socket.
pub fn to_line(message: &impl Serialize) -> Vec<u8> {
    // Only maps with keys that are no strings and failing Serialize impls can fail; there are none
    // here.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Body of the fuzz target `protocol`: whatever bytes come, a parse ends in a request that survives
/// a round trip, or in a refusal of bounded length.
///
/// # Panics
/// When that does not hold.
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
