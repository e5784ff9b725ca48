//! One connection: its requests, and the answers on their way.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::super::poll::Interest;
use super::super::state::{Outcome, Peer, State};
use super::log::{Log, MAX_BEHIND};
use super::{Effect, PATIENCE};
use crate::protocol::{
    parse_request, to_line, Answer, Code, DomainLine, DomainTable, Refusal, MAX_REQUEST,
};

/// Domains of a table that are made into text at a time. A line has some 600 bytes, and a long path
/// 3 KB, so a connection's output has at most 250 KB.
const PART: usize = 64;

#[derive(Debug)]
pub struct Client {
    pub stream: UnixStream,
    pub peer: Peer,
    input: Vec<u8>,
    pub output: Vec<u8>,
    /// Bytes of `output` that are sent.
    sent: usize,
    pub log: Option<Log>,
    /// What is left to send of a table of domains.
    table: Option<Table>,
    /// None for a follower that has received all events.
    pub deadline: Option<Instant>,
    /// The next request is handled at this time: the user's earlier ones cost much (work.rs).
    pub held_until: Option<Instant>,
    pub interest: Interest,
    /// Close when the output is sent.
    last: bool,
}

/// The peer closed the connection, or it broke.
pub struct Disconnected;

/// A table of domains on its way: as it was at one moment, and sent in parts.
#[derive(Debug)]
struct Table {
    /// The table without its domains.
    head: DomainTable,
    lines: std::vec::IntoIter<DomainLine>,
}

impl Table {
    fn new(mut table: DomainTable) -> Self {
        let lines = std::mem::take(&mut table.domains).into_iter();
        Self { head: table, lines }
    }

    /// The next part, as a line of an answer.
    fn next(&mut self) -> Vec<u8> {
        let mut part = self.head.clone();
        part.domains = self.lines.by_ref().take(PART).collect();
        part.more = self.lines.len() > 0;
        to_line(&Answer::Domains(part))
    }
}

impl Client {
    pub fn new(stream: UnixStream, peer: Peer) -> Self {
        Self {
            stream,
            peer,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            log: None,
            table: None,
            deadline: Some(Instant::now() + PATIENCE),
            held_until: None,
            interest: Interest::Read,
            last: false,
        }
    }

    /// What the daemon has to wait for.
    pub fn wants(&self) -> Interest {
        if self.sent < self.output.len() {
            Interest::Write
        } else if self.log.is_some() || self.held_until.is_some() {
            Interest::Hangup
        } else if self.input.contains(&b'\n') {
            // The next request is read already. It is handled after those of other connections.
            Interest::Write
        } else {
            Interest::Read
        }
    }

    /// Handle no request before `at`.
    pub fn hold(&mut self, at: Instant) {
        self.held_until = Some(at);
        self.deadline = Some(at + PATIENCE);
    }

    /// True if the next step handles a request, and sends no rest of an answer.
    pub fn is_idle(&self) -> bool {
        self.sent >= self.output.len() && self.log.is_none() && self.table.is_none()
    }

    /// Send pending output. If there is none, read and answer a request.
    pub fn step(&mut self, id: u32, state: &mut State) -> Result<Option<Effect>, Disconnected> {
        if self.interest == Interest::Hangup {
            return Err(Disconnected);
        }
        self.write(state)?;
        if self.sent < self.output.len() || self.log.is_some() {
            return Ok(None);
        }
        self.read()?;
        let Some(end) = self.input.iter().position(|b| *b == b'\n') else {
            if self.input.len() >= MAX_REQUEST {
                return self.refuse(
                    Refusal::new(
                        Code::Invalid,
                        format!("a request has at most {MAX_REQUEST} bytes"),
                    ),
                    state,
                );
            }
            return Ok(None);
        };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let ask = match parse_request(&line[..end]) {
            Ok(ask) => ask,
            Err(refusal) => return self.refuse(refusal, state),
        };
        let (answer, effect) = match state.handle(self.peer, ask) {
            Outcome::Answer(answer) => (answer, None),
            Outcome::Reserved(answer, pid) => (answer, Some(Effect::Watch(pid))),
            Outcome::Stop(answer) => (answer, Some(Effect::Stop)),
            Outcome::Reload => return Ok(Some(Effect::Reload(id))),
            Outcome::Look(domain) => return Ok(Some(Effect::Look(id, domain))),
            Outcome::Log(query) => {
                self.log = Some(Log::new(query, state));
                if query.pid.is_none() {
                    self.output = notices(&state.library.error_report());
                }
                self.write(state)?;
                return Ok(None);
            }
        };
        self.output = match answer {
            Answer::Domains(table) => self.table.insert(Table::new(table)).next(),
            answer => to_line(&answer),
        };
        // If the client disconnects before its answer, the effect of its request still happens.
        match self.write(state) {
            Err(Disconnected) if effect.is_none() => Err(Disconnected),
            _ => Ok(effect),
        }
    }

    /// Send a refusal, then close the connection: after an invalid line, later lines cannot be
    /// trusted.
    fn refuse(
        &mut self,
        refusal: Refusal,
        state: &mut State,
    ) -> Result<Option<Effect>, Disconnected> {
        self.output = to_line(&Answer::Refused(refusal));
        self.last = true;
        self.write(state).map(|()| None)
    }

    /// Read available input, up to one request.
    fn read(&mut self) -> Result<(), Disconnected> {
        let mut chunk = [0; 16 * 1024];
        while self.input.len() < MAX_REQUEST && !self.input.contains(&b'\n') {
            let room = chunk.len().min(MAX_REQUEST - self.input.len());
            match self.stream.read(&mut chunk[..room]) {
                Ok(0) => return Err(Disconnected),
                Ok(n) => self.input.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Disconnected),
            }
        }
        Ok(())
    }

    /// Send output and log as far as the socket has room.
    pub fn write(&mut self, state: &State) -> Result<(), Disconnected> {
        let now = Instant::now();
        if let Some(log) = &self.log {
            if log.is_too_slow(state) && !self.last {
                let behind = state.history.end() - log.next;
                self.log = None;
                self.last = true;
                self.output.drain(..self.sent);
                self.sent = 0;
                let notice = format!("closed: {behind} events behind, more than {MAX_BEHIND}");
                self.output.extend(to_line(&Answer::Notice(notice)));
            }
        }
        loop {
            while self.sent < self.output.len() {
                match self.stream.write(&self.output[self.sent..]) {
                    Ok(0) => return Err(Disconnected),
                    Ok(n) => {
                        self.sent += n;
                        self.deadline = Some(now + PATIENCE);
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(_) => return Err(Disconnected),
                }
            }
            if !self.output.is_empty() {
                self.output = Vec::new();
                self.sent = 0;
                self.deadline = Some(now + PATIENCE);
            }
            if self.last {
                return Err(Disconnected);
            }
            if let Some(table) = self.table.as_mut().filter(|t| t.lines.len() > 0) {
                self.output = table.next();
                continue;
            }
            self.table = None;
            let Some(log) = &mut self.log else {
                return Ok(());
            };
            if log.take(state, &mut self.output) {
                self.log = None;
            } else if self.output.is_empty() {
                self.deadline = None; // the client has all events, and may wait for ever
                return Ok(());
            } else if self.deadline.is_none() {
                self.deadline = Some(now + PATIENCE);
            }
        }
    }
}

/// Notices with these texts, as lines of a log.
pub fn notices(lines: &[String]) -> Vec<u8> {
    let lines = lines.iter();
    lines
        .flat_map(|line| to_line(&Answer::Notice(line.clone())))
        .collect()
}
