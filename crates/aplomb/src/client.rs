//! The client side of the socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result};

use crate::daemon::ejections::given_up;
use crate::exit::{Exit, Failure};
use crate::protocol::{to_line, Answer, Ask, DomainTable, Request, MAX_ANSWER, VERSION};

/// What a client says of an answer to another question.
pub const UNEXPECTED: &str =
    "the daemon gave an answer to another question; are it and this command of one version?";

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connect.
    ///
    /// # Errors
    /// [`Exit::NoDaemon`] if no daemon listens.
    pub fn connect(socket: &Path) -> Result<Self> {
        match UnixStream::connect(socket) {
            Ok(stream) => Ok(Self {
                stream: BufReader::new(stream),
            }),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Err(Failure::new(
                Exit::Permission,
                format!("{}: permission denied", socket.display()),
            )
            .into()),
            Err(_) => {
                let at = socket.display();
                let start = "start it: systemctl start aplomb, or sudo aplomb daemon";
                let message = match given_up(socket) {
                    Some(why) => format!("{why}; no daemon answers at {at}; {start}"),
                    None => format!("no daemon answers at {at}; {start}"),
                };
                Err(Failure::new(Exit::NoDaemon, message).into())
            }
        }
    }

    /// Send a request.
    ///
    /// # Errors
    /// The connection broke.
    pub fn ask(&mut self, ask: Ask) -> Result<()> {
        let sent = self
            .stream
            .get_mut()
            .write_all(&to_line(&Request { v: VERSION, ask }));
        // A daemon without a free place sends a refusal and closes before it reads the request. So
        // the write may fail although the refusal can still be read.
        match sent {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("sending to the daemon"),
            _ => Ok(()),
        }
    }

    /// The next line of the answer. None at its end.
    ///
    /// # Errors
    /// A refusal, as a [`Failure`]; a broken connection; a line that is no answer.
    pub fn next(&mut self) -> Result<Option<Answer>> {
        let mut line = Vec::new();
        let limit = MAX_ANSWER as u64;
        match (&mut self.stream).take(limit).read_until(b'\n', &mut line) {
            Ok(_) if line.is_empty() => return Ok(None),
            Ok(_) if line.last() != Some(&b'\n') => anyhow::bail!("the daemon's answer breaks off"),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(e) => return Err(e).context("hearing from the daemon"),
        }
        match serde_json::from_slice(&line).context(
            "the daemon's answer is not understood; are it and this command of one version?",
        )? {
            Answer::Refused(refusal) => Err(Failure::from(refusal).into()),
            answer => Ok(Some(answer)),
        }
    }

    /// The table of domains, put together from its parts.
    ///
    /// # Errors
    /// As [`Client::call`]; an answer to another question.
    pub fn domains(&mut self) -> Result<DomainTable> {
        let mut line = self.call(Ask::Domains {})?;
        let mut whole: Option<DomainTable> = None;
        loop {
            let Answer::Domains(part) = line else {
                anyhow::bail!(UNEXPECTED);
            };
            let more = part.more;
            let table = match &mut whole {
                None => whole.insert(part),
                Some(table) => {
                    table.domains.extend(part.domains);
                    table
                }
            };
            table.more = false;
            if !more {
                return whole.context("no table");
            }
            line = self.next()?.context("the daemon's table breaks off")?;
        }
    }

    /// Send a request and return the one line of its answer.
    ///
    /// # Errors
    /// As [`Client::next`]; no answer.
    pub fn call(&mut self, ask: Ask) -> Result<Answer> {
        self.ask(ask)?;
        self.next()?
            .context("the daemon closed the connection without an answer")
    }
}
