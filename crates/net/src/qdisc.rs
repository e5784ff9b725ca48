//! The root qdisc of an interface. include/uapi/linux/rtnetlink.h, pkt_sched.h.

use std::io;

use netlink_packet_core::DefaultNla;

use crate::netlink::{Message, Netlink};
use crate::NetError;

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TC_H_ROOT: u32 = 0xffff_ffff;
/// Offsets in struct tcmsg, of 20 bytes.
const INDEX: usize = 4;
const HANDLE: usize = 8;
const PARENT: usize = 12;
const TCMSG: usize = 20;

/// The root qdisc of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Such as "fq_codel".
    pub kind: String,
    /// False: the kernel put it there by itself, and does so again when ours is removed.
    pub was_set: bool,
    /// Its options, as the kernel prints them and takes them.
    pub options: Vec<u8>,
}

impl Root {
    /// True if the options say all there is: it has no classes, each with options of its own, that
    /// would be lost if it were replaced.
    pub fn is_whole(&self) -> bool {
        const WITH_CLASSES: [&str; 11] = [
            "htb", "hfsc", "drr", "qfq", "ets", "prio", "multiq", "mqprio", "taprio", "cbs", "atm",
        ];
        !self.was_set || !WITH_CLASSES.contains(&self.kind.as_str()) && self.kind != "mq"
    }
}

/// The qdiscs of this network namespace.
pub struct Qdiscs(pub(crate) Netlink);

impl Qdiscs {
    /// # Errors
    /// No file descriptors left.
    pub fn new() -> Result<Self, NetError> {
        let doing = || "a netlink socket".into();
        Netlink::new().map(Self).map_err(|e| kernel(doing, e))
    }

    /// The root qdisc of the interface with this index. None: it has none ("noqueue").
    ///
    /// # Errors
    /// There is no such interface; the kernel refuses.
    pub fn root(&self, index: u32) -> Result<Option<Root>, NetError> {
        let doing = || format!("reading the qdiscs of interface {index}");
        let dump = libc::NLM_F_DUMP as u16;
        let answers = self
            .0
            .request(RTM_GETQDISC, dump, &message(index, 0, Vec::new()))
            .map_err(|e| kernel(doing, e))?;
        let at_root = answers
            .into_iter()
            .find(|m| m.word(INDEX) == Some(index) && m.word(PARENT) == Some(TC_H_ROOT));
        let Some(found) = at_root else {
            return Ok(None);
        };
        let kind = found
            .value(TCA_KIND)
            .and_then(|k| String::from_utf8(k).ok());
        let kind = kind.ok_or_else(|| NetError::Answer { doing: doing() })?;
        Ok(Some(Root {
            kind: kind.trim_end_matches('\0').into(),
            was_set: found.word(HANDLE) != Some(0),
            options: found.value(TCA_OPTIONS).unwrap_or_default(),
        }))
    }

    /// Make the interface's root a qdisc of this kind. What it had is removed.
    ///
    /// # Errors
    /// The kernel refuses; then the interface may have its default qdisc.
    pub fn set_root(&self, index: u32, kind: &str, options: &[u8]) -> Result<(), NetError> {
        let doing = || format!("giving interface {index} the qdisc {kind}");
        let mut attributes = vec![DefaultNla::new(TCA_KIND, [kind.as_bytes(), b"\0"].concat())];
        if !options.is_empty() {
            attributes.push(DefaultNla::new(TCA_OPTIONS, options.to_vec()));
        }
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        self.0
            .request(RTM_NEWQDISC, flags, &message(index, TC_H_ROOT, attributes))
            .map(drop)
            .map_err(|e| kernel(doing, e))
    }

    /// Remove the root qdisc; the kernel puts the default one in its place. Does nothing if none
    /// was set.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove_root(&self, index: u32) -> Result<(), NetError> {
        let doing = || format!("removing the qdisc of interface {index}");
        let gone = [libc::ENOENT, libc::ENODEV, libc::EINVAL];
        match self
            .0
            .request(RTM_DELQDISC, 0, &message(index, TC_H_ROOT, Vec::new()))
        {
            Err(e) if !e.raw_os_error().is_some_and(|c| gone.contains(&c)) => Err(kernel(doing, e)),
            _ => Ok(()),
        }
    }
}

pub(crate) fn kernel(doing: impl Fn() -> String, source: io::Error) -> NetError {
    NetError::Kernel {
        doing: doing(),
        source,
    }
}

fn message(index: u32, parent: u32, attributes: Vec<DefaultNla>) -> Message {
    let mut fixed = vec![0; TCMSG];
    fixed[INDEX..INDEX + 4].copy_from_slice(&index.to_ne_bytes());
    fixed[PARENT..PARENT + 4].copy_from_slice(&parent.to_ne_bytes());
    Message { fixed, attributes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_classes_cannot_be_put_back() {
        let root = |kind: &str, was_set| Root {
            kind: kind.into(),
            was_set,
            options: Vec::new(),
        };
        assert!(root("fq_codel", true).is_whole());
        assert!(root("mq", false).is_whole(), "the kernel makes it again");
        assert!(!root("mq", true).is_whole());
        assert!(!root("htb", true).is_whole());
    }
}
