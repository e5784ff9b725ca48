//! A log on its way to a client.

use super::super::state::{clock_offset_ns, LogQuery, State};
use crate::protocol::{to_line, Answer};

/// The most events that a follower may be behind. A slower one gets a notice and is closed.
pub const MAX_BEHIND: u64 = 1000;
/// Bytes of a log that are copied into a connection's output at a time.
pub const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
pub struct Log {
    /// Number of the next event.
    pub next: u64,
    /// Number after the last event to send. None if the client follows new events.
    end: Option<u64>,
    /// Only events about this process.
    pub pid: Option<i32>,
    /// The client has received all events once. From then on [`MAX_BEHIND`] applies.
    caught_up: bool,
}

impl Log {
    pub fn new(query: LogQuery, state: &State) -> Self {
        Self {
            next: query.from,
            end: (!query.follow).then(|| state.history.end()),
            pid: query.pid,
            caught_up: false,
        }
    }

    pub fn is_too_slow(&self, state: &State) -> bool {
        self.caught_up && state.history.end().saturating_sub(self.next) > MAX_BEHIND
    }

    /// Put the next events into `output`, at most [`CHUNK`] bytes. Returns true if those were all.
    pub fn take(&mut self, state: &State, output: &mut Vec<u8>) -> bool {
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
