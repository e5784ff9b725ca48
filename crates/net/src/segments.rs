//! How many segments a packet of an interface may have (gso_max_segs, ip-link(8)).
//!
//! TCP hands over up to 64 kB at once, which the interface or the kernel cuts into frames as they
//! leave. To a queueing discipline it is one packet: on a link of 1 Mbit a second two segments, the
//! fewest that TCP sends at once by itself, take 24 ms, and a packet of another domain waits for
//! them. So on a link that is slow a packet may have fewer. It counts for connections that are made
//! later: a socket keeps what the interface had when it was connected.

use netlink_packet_core::DefaultNla;

use crate::netlink::Message;
use crate::qdisc::kernel;
use crate::{NetError, Qdiscs};

const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const IFLA_GSO_MAX_SEGS: u16 = 40;
/// struct ifinfomsg, and the offset of its index.
const IFINFOMSG: usize = 16;
const INDEX: usize = 4;

/// A packet takes no longer than this on the link, ns, if it has more than one segment: a fifth of
/// what CoDel lets packets wait.
const LONGEST_NS: u64 = 1_000_000;
/// Bytes of a frame.
const FRAME: u64 = 1514;

/// The most segments at `rate`, bytes a second.
pub fn at_rate(rate: u64) -> u32 {
    let bytes = u128::from(rate) * u128::from(LONGEST_NS) / 1_000_000_000;
    let frames = u32::try_from(bytes / u128::from(FRAME));
    frames.unwrap_or(u32::MAX).max(1)
}

fn message(index: u32, attributes: Vec<DefaultNla>) -> Message {
    let mut fixed = vec![0; IFINFOMSG];
    fixed[INDEX..INDEX + 4].copy_from_slice(&index.to_ne_bytes());
    Message { fixed, attributes }
}

impl Qdiscs {
    /// The most segments of a packet of the interface with this index.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn segments(&self, index: u32) -> Result<u32, NetError> {
        let doing = || format!("reading the settings of interface {index}");
        let answers = self
            .0
            .request(RTM_GETLINK, 0, &message(index, Vec::new()))
            .map_err(|e| kernel(doing, e))?;
        let found = answers.iter().find(|m| m.word(INDEX) == Some(index));
        let value = found.and_then(|m| m.value(IFLA_GSO_MAX_SEGS));
        let bytes: Option<[u8; 4]> = value.and_then(|v| v.try_into().ok());
        let answer = || NetError::Answer { doing: doing() };
        bytes.map(u32::from_ne_bytes).ok_or_else(answer)
    }

    /// From now on a packet of the interface has at most so many segments.
    ///
    /// # Errors
    /// There is no such interface, or it cannot have so many.
    pub fn set_segments(&self, index: u32, most: u32) -> Result<(), NetError> {
        let doing = || format!("setting gso_max_segs of interface {index}");
        let value = DefaultNla::new(IFLA_GSO_MAX_SEGS, most.to_ne_bytes().to_vec());
        self.0
            .request(RTM_SETLINK, 0, &message(index, vec![value]))
            .map(drop)
            .map_err(|e| kernel(doing, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_links_have_small_packets() {
        assert_eq!(at_rate(125_000), 1); // 1 Mbit a second
        assert_eq!(at_rate(5_000_000), 3); // 40 Mbit
        assert_eq!(at_rate(125_000_000), 82); // 1 Gbit
        assert_eq!(at_rate(u64::MAX), u32::MAX);
    }

    #[test]
    fn the_kernel_tells_what_an_interface_has() {
        let qdiscs = Qdiscs::new().unwrap();
        assert!(qdiscs.segments(1).unwrap() >= 1, "lo");
        assert!(qdiscs.segments(0x7fff_fff0).is_err());
    }
}
