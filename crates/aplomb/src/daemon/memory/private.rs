//! The private reserves of programs, and the limits of each user (Kato section 6).
//!
//! A reserve comes from the program's spec or from a request (`aplomb run --memory`, `aplomb set
//! --memory`: Kato's set_memsize). It counts for the user that runs the program, and a user's
//! reserves together are at most what that user's programs are protected for. So a hostile user
//! takes nothing from others by asking for more, or by starting more programs.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use aplomb_domain::DomainPath;
use aplomb_memory::psap::{admit, Full};
use aplomb_memory::Bytes;
use aplomb_spec::format_size;
use aplomb_spec::limits::{MAX_MEMORY, MIN_MEMORY};
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use tracing::warn;

use super::Memory;
use crate::daemon::reservations::is_alive;
use crate::protocol::{Code, Refusal};

/// Private reserves at a time. With them, amounts are divided at each change of a program.
const MAX_PRIVATE: usize = 256;
/// Those that one user other than root may have: a quarter of all, so that no user takes the last
/// one.
const MAX_OF_USER: usize = MAX_PRIVATE / 4;

/// The private reserve of one process.
#[derive(Debug)]
struct Private {
    bytes: Bytes,
    uid: u32,
    /// By request, which goes before the spec's.
    asked: bool,
    /// Of the process: readable when it has exited.
    process: OwnedFd,
}

/// All of them, by process id.
#[derive(Debug, Default)]
pub struct PrivateReserves(BTreeMap<i32, Private>);

impl PrivateReserves {
    /// May process `pid` of user `uid` have `bytes`? `of_user` and `of_all`: what reserves may have
    /// together.
    fn allow(
        &mut self,
        pid: i32,
        uid: u32,
        bytes: Bytes,
        of_user: Bytes,
        of_all: Bytes,
    ) -> Result<(), Refusal> {
        self.0.retain(|_, p| is_alive(&p.process));
        let refuse = |message: String| Err(Refusal::new(Code::Limit, message));
        let others = || self.0.iter().filter(|(p, _)| **p != pid).map(|(_, p)| p);
        let users = || others().filter(|p| p.uid == uid);
        if others().count() >= MAX_PRIVATE {
            return refuse(format!("all {MAX_PRIVATE} private reserves are taken"));
        }
        if uid != 0 && users().count() >= MAX_OF_USER {
            return refuse(format!(
                "user {uid} has {MAX_OF_USER} private reserves, the limit for users"
            ));
        }
        let sum = |of: &mut dyn Iterator<Item = &Private>| {
            Bytes(of.fold(0u64, |sum, p| sum.saturating_add(p.bytes.0)))
        };
        let of_users = admit(bytes, sum(&mut users()), of_user);
        let of_all = admit(bytes, sum(&mut others()), of_all);
        for (admitted, whose, limit) in [
            (of_users, format!("user {uid}'s programs"), "user-limit"),
            (of_all, "all programs".into(), "limit"),
        ] {
            let limit = if uid == 0 { "limit" } else { limit };
            if let Err(Full { taken, most }) = admitted {
                return refuse(format!(
                    "{} of memory is more than the {} left of the {} that {whose} may have reserved ({limit} under [memory])",
                    bytes,
                    Bytes(most.0.saturating_sub(taken.0)),
                    most,
                ));
            }
        }
        Ok(())
    }
}

impl Memory {
    /// Give a process of user `uid` a private reserve, or take it away. A process that is not
    /// interactive yet has it as soon as it is.
    ///
    /// # Errors
    /// The memory of programs is not protected; the size or a limit.
    pub fn request(
        &mut self,
        pid: i32,
        uid: u32,
        bytes: Option<u64>,
        process: OwnedFd,
    ) -> Result<String, Refusal> {
        if !self.config.protect || self.protector.is_none() {
            let message =
                "the memory of programs is not protected: it needs protect = true under [memory] \
                           in /etc/aplomb/aplomb.toml when the daemon starts";
            return Err(Refusal::new(Code::Failed, message));
        }
        let text = match bytes {
            None => {
                self.private.0.remove(&pid);
                format!("process {pid} has no private reserve of memory any more")
            }
            Some(bytes) if !(MIN_MEMORY..=MAX_MEMORY).contains(&bytes) => {
                let (min, max) = (format_size(MIN_MEMORY), format_size(MAX_MEMORY));
                let message = format!("{} is not between {min} and {max}", format_size(bytes));
                return Err(Refusal::new(Code::Invalid, message));
            }
            Some(bytes) => {
                let (of_user, of_all) = (self.most_of(uid), self.most_of(0));
                self.private
                    .allow(pid, uid, Bytes(bytes), of_user, of_all)?;
                let private = Private {
                    bytes: Bytes(bytes),
                    uid,
                    asked: true,
                    process,
                };
                self.private.0.insert(pid, private);
                let when = match self.programs.get(pid).is_some() {
                    true => "",
                    false => " as soon as it is interactive",
                };
                let size = format_size(bytes);
                format!("process {pid} keeps {size} of its memory{when}, whatever its age")
            }
        };
        if let Some(domain) = self.programs.get(pid).map(|kept| kept.domain.clone()) {
            self.reserve_privately(&domain);
        }
        Ok(text)
    }

    /// Process `pid` of user `uid` was matched by a spec with this private reserve.
    pub(super) fn private_of_spec(&mut self, pid: i32, uid: u32, bytes: Option<u64>) {
        if self.private.0.get(&pid).is_some_and(|p| p.asked) {
            return;
        }
        self.private.0.remove(&pid);
        let Some(bytes) = bytes.map(Bytes) else {
            return;
        };
        let id = Pid::from_raw(pid).filter(|_| pid > 0);
        let Some(Ok(process)) = id.map(|id| pidfd_open(id, PidfdFlags::empty())) else {
            return; // it has exited
        };
        let (of_user, of_all) = (self.most_of(uid), self.most_of(0));
        if let Err(e) = self.private.allow(pid, uid, bytes, of_user, of_all) {
            return warn!("process {pid} has no private reserve: {e}");
        }
        let private = Private {
            bytes,
            uid,
            asked: false,
            process,
        };
        self.private.0.insert(pid, private);
    }

    /// Process `pid` has exited.
    pub fn exited(&mut self, pid: i32) {
        self.private.0.remove(&pid);
        self.release(pid);
    }

    /// Put the private reserves of a domain's programs into force.
    pub(super) fn reserve_privately(&mut self, domain: &DomainPath) {
        // There are far fewer reserves than programs.
        let of = |pid: i32| self.programs.get(pid).map(|kept| &kept.domain);
        let reserves = self.private.0.iter();
        let of_domain = reserves.filter(|(pid, _)| of(**pid) == Some(domain));
        let sum = of_domain.fold(0u64, |sum, (_, p)| sum.saturating_add(p.bytes.0));
        let set = self
            .protector
            .as_mut()
            .map(|p| p.set_private(domain, Bytes(sum), Instant::now()));
        if let Some(Err(e)) = set {
            warn!("{e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_process() -> OwnedFd {
        pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap()
    }

    fn add(all: &mut PrivateReserves, pid: i32, uid: u32, bytes: u64) -> Result<(), String> {
        let (of_user, of_all) = (if uid == 0 { 800 } else { 500 }, 800);
        let allowed = all.allow(pid, uid, Bytes(bytes), Bytes(of_user), Bytes(of_all));
        allowed.map_err(|e| e.message)?;
        let private = Private {
            bytes: Bytes(bytes),
            uid,
            asked: true,
            process: this_process(),
        };
        all.0.insert(pid, private);
        Ok(())
    }

    #[test]
    fn a_user_has_a_limit_and_all_have_one() {
        let mut all = PrivateReserves::default();
        assert_eq!(add(&mut all, 1, 7, 300), Ok(()));
        assert_eq!(add(&mut all, 2, 7, 200), Ok(()));
        let e = add(&mut all, 3, 7, 1).unwrap_err();
        assert!(
            e.contains("user 7's programs") && e.contains("user-limit"),
            "{e}"
        );
        assert_eq!(add(&mut all, 2, 7, 150), Ok(()), "its own is replaced");
        assert_eq!(add(&mut all, 4, 8, 300), Ok(()));
        let e = add(&mut all, 5, 0, 51).unwrap_err();
        assert!(e.contains("all programs may have reserved (limit"), "{e}");
        assert_eq!(add(&mut all, 5, 0, 50), Ok(()));
    }

    #[test]
    fn a_user_has_a_quarter_of_the_places_and_the_dead_none() {
        let mut all = PrivateReserves::default();
        for pid in 1..=MAX_OF_USER as i32 {
            add(&mut all, pid, 7, 1).unwrap();
        }
        let e = add(&mut all, 1000, 7, 1).unwrap_err();
        assert!(
            e.contains("64 private reserves, the limit for users"),
            "{e}"
        );
        assert_eq!(add(&mut all, 1000, 8, 1), Ok(()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        all.0.get_mut(&1).unwrap().process = process;
        assert_eq!(add(&mut all, 1001, 7, 1), Ok(()), "one has exited");
        assert!(!all.0.contains_key(&1));
    }
}
