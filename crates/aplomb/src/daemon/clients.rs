//! The socket's connections. All users may open some, so the cost of each is bounded: memory for
//! one request of 64 KiB and one answer, 30 seconds without progress, one of 64 places, and a part
//! of the daemon's time (budget.rs). All that one user has counts together, also under the ids of
//! that user's containers (bpf/kernel/owner.bpf.h).
//!
//! The daemon waits for input only while a connection has no request in progress, and for output
//! only while it has an answer to send. So a connection never wakes the daemon in between. A log is
//! not copied into the connection: the connection keeps the number of its next event, and takes
//! events from the history whenever the socket has room.

use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use aplomb_domain::DomainPath;
use aplomb_kernel::Kernel;
use tracing::warn;

use super::budget::Work;
use super::poll::{Interest, Poll, Source};
use super::state::{Peer, State};
use crate::protocol::{to_line, Answer, Code, Refusal};

mod connection;
mod log;

use connection::{notices, Client, Disconnected};
#[cfg(test)]
pub use log::MAX_BEHIND;

use log::CHUNK;

/// The most connections at a time. A further one gets a refusal and is closed.
pub const MAX_CLIENTS: usize = 64;
/// The places among these that only root gets, so that an administrator can always connect.
pub const ROOT_ONLY: usize = 4;
/// The most connections of one user. Root has no such limit.
pub const MAX_PER_USER: usize = 8;
/// Time in which a connection must make progress: send a whole request, or take a part of an
/// answer.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// After an error, the time until the next connection is accepted: while no file descriptor is
/// free, a waiting connection would wake the daemon all the time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the daemon does because of a request, beside the answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Watch for the exit of this process.
    Watch(i32),
    /// Read the specs again, then answer this connection.
    Reload(u32),
    /// Answer this connection when this domain was looked at.
    Look(u32, DomainPath),
    Stop,
}

/// All connections.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: HashMap<u32, Client>,
    next_id: u32,
    work: Work,
    /// No connection is accepted until then.
    accept_at: Option<Instant>,
}

impl Clients {
    /// Accept all waiting connections.
    pub fn accept(&mut self, listener: &UnixListener, poll: &Poll, kernel: &dyn Kernel) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let Ok(credentials) = rustix::net::sockopt::socket_peercred(&stream) else {
                        continue;
                    };
                    let (uid, pid) = (credentials.uid.as_raw(), credentials.pid.as_raw_pid());
                    let account = account_of(uid, pid, kernel);
                    self.adopt(stream, Peer { uid, account, pid }, poll);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => {
                    warn!("connections wait: {e}");
                    return self.accept_later(listener, poll);
                }
            }
        }
    }

    /// Accept no connection for [`ACCEPT_PAUSE`].
    pub(super) fn accept_later(&mut self, listener: &UnixListener, poll: &Poll) {
        if poll
            .change(listener, Source::Listener, Interest::Hangup)
            .is_ok()
        {
            self.accept_at = Some(Instant::now() + ACCEPT_PAUSE);
        }
    }

    /// Accept connections again if the pause is over.
    pub fn accept_again(&mut self, now: Instant, listener: &UnixListener, poll: &Poll) {
        if self.accept_at.take_if(|at| *at <= now).is_some()
            && poll
                .change(listener, Source::Listener, Interest::Read)
                .is_err()
        {
            self.accept_at = Some(now + ACCEPT_PAUSE);
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
        self.by_id.insert(id, Client::new(stream, peer));
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
            .filter(|c| c.peer.account == peer.account)
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
        let (account, begin) = (client.peer.account, Instant::now());
        let step = match self.work.ready(account, begin) {
            Err(at) if client.is_idle() && client.interest != Interest::Hangup => {
                client.hold(at);
                Ok(None)
            }
            _ => client.step(id, state),
        };
        self.work.did(account, begin.elapsed(), begin);
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

    /// Close the connections that made no progress in time. Go on with those that were held.
    pub fn tick(&mut self, now: Instant, poll: &Poll) {
        self.by_id.retain(|_, c| c.deadline.is_none_or(|d| d > now));
        let held = self.by_id.iter_mut();
        let due: Vec<u32> = held
            .filter_map(|(id, c)| c.held_until.take_if(|at| *at <= now).map(|_| *id))
            .collect();
        for id in due {
            self.settle(id, poll, Ok(None));
        }
    }

    /// The earliest time at which [`Clients::tick`] or [`Clients::accept_again`] has work.
    pub fn deadline(&self) -> Option<Instant> {
        let all = self.by_id.values();
        all.flat_map(|c| [c.deadline, c.held_until])
            .chain([self.accept_at])
            .flatten()
            .min()
    }

    /// The daemon has worked for an account for this long.
    #[cfg(test)]
    pub fn worked(&mut self, account: u32, cost: Duration) {
        self.work.did(account, cost, Instant::now());
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

/// To which user's account a peer counts. Its process may have ended, and another one may have its
/// id: then the user id must be the same.
pub(super) fn account_of(uid: u32, pid: i32, kernel: &dyn Kernel) -> u32 {
    if uid == 0 {
        return 0;
    }
    let owner = kernel.owner(pid).ok().filter(|o| o.uid == uid);
    owner.map(|o| o.account).filter(|a| *a != 0).unwrap_or(uid)
}
