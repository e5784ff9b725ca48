//! The daemon as its clients see it: real sockets, a stand-in for the kernel side, peers of any
//! user.

mod connections;
mod rights;
mod whole;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use aplomb_kernel::{flags, EventKind, ExitInfo, Kernel, Matcher, SpecRow};

use super::clients::{
    account_of, Clients, MAX_BEHIND, MAX_CLIENTS, MAX_PER_USER, PATIENCE, ROOT_ONLY,
};
use super::history::History;
use super::poll::{Interest, Poll, Source};
use super::state::{Outcome, Peer, State};
use super::testing::{domain, event, Fake, Root};
use super::{Daemon, Loader, Next, Options};
use crate::exit::{code_of, Exit};
use crate::protocol::{to_line, Answer, Ask, Code, Request, Wanted, MAX_REQUEST, VERSION};

pub const ROOT: Peer = Peer {
    uid: 0,
    account: 0,
    pid: 1,
};
pub const USER: Peer = Peer {
    uid: 1000,
    account: 1000,
    pid: 1,
};

pub fn ask(state: &mut State, peer: Peer, ask: Ask) -> Answer {
    match state.handle(peer, ask) {
        Outcome::Answer(a) | Outcome::Reserved(a, _) | Outcome::Stop(a) => a,
        other => panic!("{other:?}"),
    }
}

pub fn refusal(answer: Answer) -> Code {
    match answer {
        Answer::Refused(r) => r.code,
        other => panic!("{other:?}"),
    }
}

pub fn reserve(pid: Option<i32>, runtime_ms: u64, period_ms: u64) -> Ask {
    Ask::Reserve(Wanted {
        pid,
        runtime_ns: runtime_ms * 1_000_000,
        period_ns: period_ms * 1_000_000,
        ..Wanted::default()
    })
}

/// A peer in a session of its own user.
pub fn user(uid: u32, pid: i32) -> Peer {
    Peer {
        uid,
        account: uid,
        pid,
    }
}

/// A peer that is this process, with its user.
pub fn me() -> Peer {
    user(
        rustix::process::getuid().as_raw(),
        std::process::id() as i32,
    )
}

pub fn send(client: &mut BufReader<UnixStream>, ask: Ask) {
    client
        .get_mut()
        .write_all(&to_line(&Request { v: VERSION, ask }))
        .unwrap();
}

pub fn answer(client: &mut BufReader<UnixStream>) -> Option<Answer> {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
}
