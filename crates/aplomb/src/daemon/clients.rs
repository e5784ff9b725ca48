//! The socket's connections. All users may open some, so the cost of each is bounded: memory for
//! one request of 64 KiB and one answer, 30 seconds without progress, one of 64 places.
//!
//! The daemon waits for input only while a connection has no request in progress, and for output
//! only while it has an answer to send. So a connection never wakes the daemon in between. A log is
//! not copied into the connection: the connection keeps the number of its next event, and takes
//! events from the history whenever the socket has room.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::poll::{Interest, Poll, Source};
use super::state::{clock_offset_ns, LogQuery, Outcome, Peer, State};
use crate::protocol::{parse_request, to_line, Answer, Code, Refusal, MAX_REQUEST};

/// The most connections at a time. A further one gets a refusal and is closed.
pub const MAX_CLIENTS: usize = 64;
/// The places among these that only root gets, so that an administrator can always connect.
pub const ROOT_ONLY: usize = 4;
/// The most connections of one user. Root has no such limit.
pub const MAX_PER_USER: usize = 8;
/// Time in which a connection must make progress: send a whole request, or take a part of an
/// answer.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The most events that a follower may be behind. A slower one gets a notice and is closed.
pub const MAX_BEHIND: u64 = 1000;
/// Bytes of a log that are copied into a connection's output at a time.
const CHUNK: usize = 64 * 1024;

/// What the daemon does because of a request, beside the answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Watch for the exit of this process.
    Watch(i32),
    /// Read the specs again, then answer this connection.
    Reload(u32),
    Stop,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    peer: Peer,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of `output` that are sent.
    sent: usize,
    log: Option<Log>,
    /// None for a follower that has received all events.
    deadline: Option<Instant>,
    interest: Interest,
    /// Close when the output is sent.
    last: bool,
}

#[derive(Debug)]
struct Log {
    next: u64,
    /// Number after the last event to send. None if the client follows new events.
    end: Option<u64>,
    pid: Option<i32>,
    /// The client has received all events once. From then on [`MAX_BEHIND`] applies.
    caught_up: bool,
}

/// All connections.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: HashMap<u32, Client>,
    next_id: u32,
}

impl Clients {
    /// Accept all waiting connections.
    pub fn accept(&mut self, listener: &UnixListener, poll: &Poll) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let Ok(credentials) = rustix::net::sockopt::socket_peercred(&stream) else {
                        continue;
                    };
                    let peer = Peer {
                        uid: credentials.uid.as_raw(),
                        pid: credentials.pid.as_raw_pid(),
                    };
                    self.adopt(stream, peer, poll);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // WouldBlock: no more connections wait. Other errors (no descriptors left): the
                // rest waits until the daemon wakes up again.
                Err(_) => return,
            }
        }
    }

    /// Add one connection with a known peer.
    pub fn adopt(&mut self, stream: UnixStream, peer: Peer, poll: &Poll) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        if let Err(refusal) = self.admit(peer) {
            // A new socket has room for one line. If the write fails, the peer gets no reason.
            let _ = (&stream).write_all(&to_line(&Answer::Refused(refusal)));
            return;
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        if poll
            .add(&stream, Source::Client(id), Interest::Read)
            .is_err()
        {
            return;
        }
        let client = Client {
            stream,
            peer,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            log: None,
            deadline: Some(Instant::now() + PATIENCE),
            interest: Interest::Read,
            last: false,
        };
        self.by_id.insert(id, client);
    }

    fn admit(&self, peer: Peer) -> Result<(), Refusal> {
        let limit = |m: String| Err(Refusal::new(Code::Limit, m));
        let places = if peer.uid == 0 {
            MAX_CLIENTS
        } else {
            MAX_CLIENTS - ROOT_ONLY
        };
        if self.by_id.len() >= places {
            return limit(format!(
                "all {places} connections to the daemon are taken; try again later"
            ));
        }
        let own = self
            .by_id
            .values()
            .filter(|c| c.peer.uid == peer.uid)
            .count();
        if peer.uid != 0 && own >= MAX_PER_USER {
            return limit(format!(
                "you have {own} connections to the daemon, the limit for users"
            ));
        }
        Ok(())
    }

    /// A connection can be read or written.
    pub fn ready(&mut self, id: u32, poll: &Poll, state: &mut State) -> Option<Effect> {
        let client = self.by_id.get_mut(&id)?;
        let step = client.step(id, state);
        self.settle(id, poll, step)
    }

    /// Send the answer to a request that had an [`Effect`].
    pub fn answer(&mut self, id: u32, answer: &Answer, poll: &Poll, state: &mut State) {
        if let Some(client) = self.by_id.get_mut(&id) {
            client.output = to_line(answer);
            let step = client.step(id, state);
            self.settle(id, poll, step);
        }
    }

    /// Send new events to the clients that follow.
    pub fn new_events(&mut self, poll: &Poll, state: &mut State) {
        let following: Vec<u32> = self
            .by_id
            .iter()
            .filter(|(_, c)| c.log.is_some())
            .map(|(id, _)| *id)
            .collect();
        for id in following {
            self.ready_to_write(id, poll, state);
        }
    }

    /// Send lines about the whole machine to the followers. A connection whose output already has
    /// [`CHUNK`] bytes gets none, so that the output stays bounded.
    pub fn notify(&mut self, lines: &[String], poll: &Poll, state: &mut State) {
        for client in self.by_id.values_mut() {
            let wants = client.log.as_ref().is_some_and(|log| log.pid.is_none());
            if wants && client.output.len() < CHUNK {
                client.output.extend(notices(lines));
            }
        }
        self.new_events(poll, state);
    }

    fn ready_to_write(&mut self, id: u32, poll: &Poll, state: &mut State) {
        if let Some(client) = self.by_id.get_mut(&id) {
            let step = client.write(state).map(|()| None);
            self.settle(id, poll, step);
        }
    }

    /// Close the connections that made no progress in time.
    pub fn expire(&mut self, now: Instant) {
        self.by_id.retain(|_, c| c.deadline.is_none_or(|d| d > now));
    }

    /// The earliest time at which [`Clients::expire`] closes a connection.
    pub fn deadline(&self) -> Option<Instant> {
        self.by_id.values().filter_map(|c| c.deadline).min()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The daemon ends: send pending output as far as the sockets have room, and close all.
    pub fn close(&mut self, state: &mut State) {
        for client in self.by_id.values_mut() {
            let _ = client.write(state);
        }
        self.by_id.clear();
    }

    /// Wait for the events that the connection needs next, or close it.
    fn settle(
        &mut self,
        id: u32,
        poll: &Poll,
        step: Result<Option<Effect>, Disconnected>,
    ) -> Option<Effect> {
        let client = self.by_id.get_mut(&id)?;
        let interest = client.wants();
        let lost = interest != client.interest
            && poll
                .change(&client.stream, Source::Client(id), interest)
                .is_err();
        client.interest = interest;
        match step {
            Ok(effect) if !lost => effect,
            _ => {
                self.by_id.remove(&id);
                None
            }
        }
    }
}

/// The peer closed the connection, or it broke.
struct Disconnected;

impl Client {
    fn wants(&self) -> Interest {
        if self.sent < self.output.len() {
            Interest::Write
        } else if self.log.is_some() {
            Interest::Hangup
        } else if self.input.contains(&b'\n') {
            // The next request is read already. It is handled after those of other connections.
            Interest::Write
        } else {
            Interest::Read
        }
    }

    /// Send pending output. If there is none, read and answer a request.
    fn step(&mut self, id: u32, state: &mut State) -> Result<Option<Effect>, Disconnected> {
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
            Outcome::Log(query) => {
                self.log = Some(Log::new(query, state));
                if query.pid.is_none() {
                    self.output = notices(&state.library.error_report());
                }
                self.write(state)?;
                return Ok(None);
            }
        };
        self.output = to_line(&answer);
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
    fn write(&mut self, state: &State) -> Result<(), Disconnected> {
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
fn notices(lines: &[String]) -> Vec<u8> {
    let lines = lines.iter();
    lines
        .flat_map(|line| to_line(&Answer::Notice(line.clone())))
        .collect()
}

impl Log {
    fn new(query: LogQuery, state: &State) -> Self {
        Self {
            next: query.from,
            end: (!query.follow).then(|| state.history.end()),
            pid: query.pid,
            caught_up: false,
        }
    }

    fn is_too_slow(&self, state: &State) -> bool {
        self.caught_up && state.history.end().saturating_sub(self.next) > MAX_BEHIND
    }

    /// Put the next events into `output`, at most [`CHUNK`] bytes. Returns true if those were all.
    fn take(&mut self, state: &State, output: &mut Vec<u8>) -> bool {
        let lost = state.history.first().saturating_sub(self.next);
        if lost > 0 {
            output.extend(to_line(&Answer::Notice(format!(
                "{lost} older events are no longer kept"
            ))));
            self.next = state.history.first();
        }
        let offset = clock_offset_ns();
        let end = self.end.unwrap_or(u64::MAX);
        while output.len() < CHUNK && self.next < end {
            let Some(event) = state.history.get(self.next) else {
                break;
            };
            if self.pid.is_none_or(|pid| event.pid == pid) {
                output.extend(to_line(&Answer::Event(state.line(event, offset))));
            }
            self.next += 1;
        }
        let all = self.next >= end.min(state.history.end());
        if all && self.end.is_some() {
            output.extend(to_line(&Answer::Done(String::new())));
        }
        self.caught_up |= all;
        all && self.end.is_some()
    }
}
