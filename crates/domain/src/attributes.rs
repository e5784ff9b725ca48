//! The settings of a domain for which the kernel has no file. They are kept in extended attributes
//! of the domain's directory.
//!
//! | attribute | value | may be set by |
//! |---|---|---|
//! | `trusted.aplomb.cpu` | `25%` or `10ms/100ms` | root |
//! | `trusted.aplomb.memory` | `200M` | root |
//! | `trusted.aplomb.io` | `20%` | root |
//! | `trusted.aplomb.net` | `300` | root |
//! | `trusted.aplomb.net_max` | `5Mbit` | root |
//! | `trusted.aplomb.net_queues` | `voice number=9 weight=300 priority=6` ([`Queues`]) | root |
//! | `trusted.aplomb.policy` | `sfq`, `mtr`, … | root |
//! | `user.aplomb.policy` | as above | the directory's owner |
//! | `trusted.aplomb.ephemeral` | `1` | root |
//!
//! Only root (CAP_SYS_ADMIN) may set the reservations, of CPU time, of memory and of disks, and the
//! weight and the queues of packets: the owner of a delegated cgroup must not be able to raise its
//! share. The owner may set the policy, because a policy only orders what is inside the domain. If
//! both policies are set, the trusted one counts.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{fgetxattr, fremovexattr, fsetxattr, XattrFlags};
use rustix::io::Errno;

use aplomb_spec::parse_rate;

use crate::{
    parse_disk, parse_memory, parse_reservation, parse_switch, parse_weight, DomainPolicy, Queues,
    Reservation, MAX_QUEUES_TEXT,
};

/// The reservation.
pub const CPU: &str = "trusted.aplomb.cpu";
/// The reservation of memory.
pub const MEMORY: &str = "trusted.aplomb.memory";
/// The reservation of the disks' time.
pub const IO: &str = "trusted.aplomb.io";
/// The weight of the domain's packets.
pub const NET: &str = "trusted.aplomb.net";
/// The ceiling of what the domain sends.
pub const NET_MAX: &str = "trusted.aplomb.net_max";
/// The domain's queues of packets.
pub const NET_QUEUES: &str = "trusted.aplomb.net_queues";
/// The policy, as root set it.
pub const POLICY: &str = "trusted.aplomb.policy";
/// The policy, as the directory's owner set it.
pub const OWNERS_POLICY: &str = "user.aplomb.policy";
/// "1": remove the domain when its last process has gone.
pub const EPHEMERAL: &str = "trusted.aplomb.ephemeral";

/// "1": the daemon made the domain for its settings. Also the next daemon removes it when it ends,
/// if this one is killed.
pub const CREATED: &str = "trusted.aplomb.created";

/// Bytes of a value. A longer value is refused.
fn max_value(name: &str) -> usize {
    match name {
        NET_QUEUES => MAX_QUEUES_TEXT,
        _ => 64,
    }
}

/// The store of the attributes: the directories themselves ([`Xattrs`]), or a stand-in in tests.
pub trait Attributes {
    /// The value of `name`. None if it is not set, or if this process may not read it.
    ///
    /// # Errors
    /// Failed system calls; a value of more than 64 bytes, or 2,048 of [`NET_QUEUES`] (E2BIG).
    fn get(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Set `name`, or remove it if `value` is None.
    ///
    /// # Errors
    /// Failed system calls; EPERM if this user may not set it.
    fn set(&self, dir: BorrowedFd<'_>, name: &str, value: Option<&str>) -> io::Result<()>;

    /// Called before a directory is removed. The kernel removes extended attributes with their
    /// directory; a store that keeps files in the directory removes them here.
    fn before_removal(&self, _dir: BorrowedFd<'_>) {}
}

/// Extended attributes of the directory itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Xattrs;

impl Attributes for Xattrs {
    fn get(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut value = [0u8; MAX_QUEUES_TEXT];
        match fgetxattr(dir, name, &mut value[..max_value(name)]) {
            Ok(n) => Ok(Some(value[..n].to_vec())),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(Errno::RANGE) => Err(Errno::TOOBIG.into()),
            Err(e) => Err(e.into()),
        }
    }

    fn set(&self, dir: BorrowedFd<'_>, name: &str, value: Option<&str>) -> io::Result<()> {
        let done = match value {
            Some(value) => fsetxattr(dir, name, value.as_bytes(), XattrFlags::empty()),
            None => match fremovexattr(dir, name) {
                Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
                done => done,
            },
        };
        Ok(done?)
    }
}

/// The values of one domain's attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    pub reservation: Option<Reservation>,
    /// The reservation of memory, bytes.
    pub memory: Option<u64>,
    /// The reservation of each disk's time, ppm.
    pub disk_ppm: Option<u32>,
    /// The weight of its packets.
    pub net_weight: Option<u32>,
    /// The ceiling of what it sends, bits a second.
    pub net_max: Option<u64>,
    pub net_queues: Queues,
    pub policy: DomainPolicy,
    pub ephemeral: bool,
}

/// An attribute with an invalid value. It counts as not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongMark {
    pub attribute: &'static str,
    pub message: String,
}

impl Marks {
    /// Read the attributes of `dir`. Returns the valid values, and the errors of the others.
    pub fn read(store: &dyn Attributes, dir: BorrowedFd<'_>) -> (Self, Vec<WrongMark>) {
        let mut wrong = Vec::new();
        let mut value = |attribute: &'static str| {
            let fail = |message: String| WrongMark { attribute, message };
            match store.get(dir, attribute) {
                Ok(None) => None,
                Ok(Some(bytes)) => Some(String::from_utf8_lossy(&bytes).into_owned()),
                Err(e) => {
                    wrong.push(fail(e.to_string()));
                    None
                }
            }
        };
        let names = [
            CPU,
            MEMORY,
            IO,
            NET,
            NET_MAX,
            NET_QUEUES,
            POLICY,
            OWNERS_POLICY,
            EPHEMERAL,
        ];
        let texts = names.map(&mut value);
        let (marks, more) = Self::parse(texts.each_ref().map(Option::as_deref));
        wrong.extend(more);
        (marks, wrong)
    }

    /// Parse the values of [`CPU`], [`MEMORY`], [`IO`], [`NET`], [`NET_MAX`], [`NET_QUEUES`],
    /// [`POLICY`], [`OWNERS_POLICY`] and [`EPHEMERAL`].
    pub fn parse(values: [Option<&str>; 9]) -> (Self, Vec<WrongMark>) {
        let [cpu, memory, io, net, net_max, queues, policy, owners, ephemeral] = values;
        let mut wrong = Vec::new();
        let mut marks = Self::default();
        let mut fail = |attribute, message| wrong.push(WrongMark { attribute, message });
        match cpu.map_or(Ok(None), parse_reservation) {
            Ok(reservation) => marks.reservation = reservation,
            Err(message) => fail(CPU, message),
        }
        match memory.map_or(Ok(None), parse_memory) {
            Ok(bytes) => marks.memory = bytes,
            Err(message) => fail(MEMORY, message),
        }
        match io.map_or(Ok(None), parse_disk) {
            Ok(ppm) => marks.disk_ppm = ppm,
            Err(message) => fail(IO, message),
        }
        match net.map(parse_weight).transpose() {
            Ok(weight) => marks.net_weight = weight,
            Err(message) => fail(NET, message),
        }
        match net_max.map(parse_rate).transpose() {
            Ok(rate) => marks.net_max = rate,
            Err(message) => fail(NET_MAX, message),
        }
        match queues.map(str::parse).transpose() {
            Ok(queues) => marks.net_queues = queues.unwrap_or_default(),
            Err(message) => fail(NET_QUEUES, message),
        }
        // The owner's policy counts only if root's is not set or is invalid.
        for (attribute, value) in [(OWNERS_POLICY, owners), (POLICY, policy)] {
            match value.map(str::parse) {
                None => {}
                Some(Ok(policy)) => marks.policy = policy,
                Some(Err(message)) => fail(attribute, message),
            }
        }
        match ephemeral.map_or(Ok(false), parse_switch) {
            Ok(yes) => marks.ephemeral = yes,
            Err(message) => fail(EPHEMERAL, message),
        }
        (marks, wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn root_goes_before_the_owner() {
        let policy = |root, owner| {
            Marks::parse([None, None, None, None, None, None, root, owner, None])
                .0
                .policy
        };
        assert_eq!(policy(None, Some("mtr")), DomainPolicy::Mtr);
        assert_eq!(policy(Some("sfq"), Some("mtr")), DomainPolicy::Sfq);
        assert_eq!(policy(Some("nonsense"), Some("mtr")), DomainPolicy::Mtr);
        assert_eq!(policy(None, None), DomainPolicy::Default);
    }

    #[test]
    fn what_is_wrong_is_named_and_the_rest_counts() {
        let values = [
            Some("200%"),
            Some("1"),
            Some("81%"),
            Some("0"),
            Some("fast"),
            Some("voice number=17"),
            Some("mtr\n"),
            None,
            Some("yes"),
        ];
        let (marks, wrong) = Marks::parse(values);
        assert_eq!(marks.policy, DomainPolicy::Mtr);
        assert_eq!((marks.reservation, marks.ephemeral), (None, false));
        assert_eq!((marks.memory, marks.disk_ppm), (None, None));
        let names: Vec<_> = wrong.iter().map(|w| w.attribute).collect();
        let expected = [CPU, MEMORY, IO, NET, NET_MAX, NET_QUEUES, EPHEMERAL];
        assert_eq!(names, expected);
        assert!(marks.net_queues.is_empty());
        assert!(wrong[0].message.contains("200%"), "{wrong:?}");
    }

    #[test]
    fn real_attributes_come_and_go() {
        // The test uses user.* because trusted.* needs root. The directory is below target/ because
        // old kernels support neither on tmpfs (/dev/shm).
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let dir = tempfile::tempdir_in(here.join("../../target")).unwrap();
        let fd = std::fs::File::open(dir.path()).unwrap();
        let fd = fd.as_fd();
        let name = "user.aplomb.test";
        assert_eq!(Xattrs.get(fd, name).unwrap(), None);
        Xattrs.set(fd, name, None).unwrap();
        Xattrs.set(fd, name, Some("25%")).unwrap();
        Xattrs.set(fd, name, Some("26%")).unwrap();
        assert_eq!(Xattrs.get(fd, name).unwrap(), Some(b"26%".to_vec()));
        Xattrs.set(fd, name, Some(&"x".repeat(65))).unwrap();
        assert!(Xattrs.get(fd, name).is_err(), "too long");
        Xattrs.set(fd, name, None).unwrap();
        assert_eq!(Xattrs.get(fd, name).unwrap(), None);
    }
}
