//! Requests to the kernel's routing netlink, and notices from it. rtnetlink(7), netlink(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::{DefaultNla, Emitable, Nla, NlaBuffer, NlasIterator};
use netlink_sys::{protocols::NETLINK_ROUTE, Socket, SocketAddr};

/// Bytes of struct nlmsghdr.
const HEADER: usize = 16;
/// Groups of notices: interfaces, qdiscs (RTNLGRP_LINK, RTNLGRP_TC).
const GROUPS: [u32; 2] = [1, 4];

/// A socket for requests.
pub struct Netlink(Socket);

/// One message: what follows the fixed part are attributes.
pub struct Message {
    /// The struct after the header, such as struct tcmsg.
    pub fixed: Vec<u8>,
    pub attributes: Vec<DefaultNla>,
}

impl Message {
    /// The value of the attribute of this kind.
    pub fn value(&self, kind: u16) -> Option<Vec<u8>> {
        let found = self.attributes.iter().find(|a| a.kind() == kind)?;
        let mut value = vec![0; found.value_len()];
        found.emit_value(&mut value);
        Some(value)
    }

    /// A 32-bit word of the fixed part, at this offset.
    pub fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.fixed.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }
}

impl Netlink {
    pub fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Send a request of `kind` (RTM_…) and return the messages of the answer, whose fixed part has
    /// `fixed` bytes.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn request(&self, kind: u16, flags: u16, message: &Message) -> io::Result<Vec<Message>> {
        let flags = flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        self.0.send(&encode(kind, flags, message), 0)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.0.recv_from_full()?;
            if decode(&bytes, message.fixed.len(), &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

fn encode(kind: u16, flags: u16, message: &Message) -> Vec<u8> {
    let attributes = message.attributes.as_slice();
    let start = HEADER + message.fixed.len(); // both are multiples of 4
    let length = start + attributes.buffer_len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&(length as u32).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]); // sequence and port: there is one request at a time
    bytes.extend_from_slice(&message.fixed);
    bytes.resize(length, 0);
    attributes.emit(&mut bytes[start..]);
    bytes
}

/// Take the messages out of `bytes`. Returns whether the answer ends here.
fn decode(mut bytes: &[u8], fixed: usize, answers: &mut Vec<Message>) -> io::Result<bool> {
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    while !bytes.is_empty() {
        let head = bytes.get(..HEADER).ok_or_else(short)?;
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = i32::from(u16::from_ne_bytes([head[4], head[5]]));
        let body = bytes.get(HEADER..length).ok_or_else(short)?;
        match kind {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let code = body.get(..4).ok_or_else(short)?;
                let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
                if code != 0 {
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
                return Ok(true);
            }
            _ => answers.push(Message {
                fixed: body.get(..fixed).ok_or_else(short)?.to_vec(),
                attributes: attributes(&body[fixed..]).ok_or_else(short)?,
            }),
        }
        let next = (length + 3) & !3;
        bytes = bytes.get(next..).unwrap_or_default();
    }
    Ok(false)
}

fn attributes(bytes: &[u8]) -> Option<Vec<DefaultNla>> {
    let mut all = Vec::new();
    for attribute in NlasIterator::new(bytes) {
        let attribute: NlaBuffer<&[u8]> = attribute.ok()?;
        all.push(DefaultNla::new(
            attribute.kind(),
            attribute.value().to_vec(),
        ));
    }
    Some(all)
}

/// Becomes readable when an interface or a qdisc changes.
pub struct Watch(Socket);

impl Watch {
    /// It reports nothing before [`Watch::expect`].
    ///
    /// # Errors
    /// No file descriptors left.
    pub fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        socket.bind_auto()?;
        Ok(Self(socket))
    }

    /// From now on, report.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn expect(&self) -> io::Result<()> {
        GROUPS
            .iter()
            .try_for_each(|group| self.0.add_membership(*group))
    }

    /// Forget what was reported until now. What changed has to be read anew: notices can be lost.
    pub fn clear(&self) {
        let mut buffer = Vec::with_capacity(4096);
        loop {
            buffer.clear();
            match self.0.recv(&mut buffer, 0) {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as self is borrowed
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let message = Message {
            fixed: vec![7; 20],
            attributes: vec![
                DefaultNla::new(1, b"fq\0".to_vec()),
                DefaultNla::new(2, vec![9; 8]),
            ],
        };
        let mut bytes = encode(36, 0, &message);
        bytes.extend_from_slice(&encode(libc::NLMSG_DONE as u16, 0, &message));
        let mut answers = Vec::new();
        assert!(decode(&bytes, 20, &mut answers).unwrap());
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].value(1), Some(b"fq\0".to_vec()));
        assert_eq!(answers[0].value(2), Some(vec![9; 8]));
        assert_eq!(answers[0].value(3), None);
        assert_eq!(answers[0].word(16), Some(0x0707_0707));
        assert_eq!(answers[0].word(20), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_it(bytes: Vec<u8>) {
            let _ = decode(&bytes, 20, &mut Vec::new());
        }
    }
}
