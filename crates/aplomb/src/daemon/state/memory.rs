//! What the state does for memory: programs are protected, demoted, or keep what they reserved; and
//! what the kernel kills is reported.

use std::time::{Duration, Instant};

use aplomb_kernel::{flags, Event, EventKind};
use tracing::warn;

use super::{monotonic_ns, Outcome, Peer, State, Target};
use crate::daemon::memory::Wanted;
use crate::explain::killed;
use crate::protocol::{Answer, Refusal};

impl State {
    /// Protect the memory of a program that becomes interactive, and no longer that of one that
    /// ceases to be. Demote some if interactive programs wait for memory.
    pub fn follow_memory(&mut self, event: &Event) {
        self.change_protection(event);
        if event.kind == EventKind::Matched && self.config.kernel.programs_move {
            // It has waited for its domain. It may have exited.
            let _ = self.kernel.park(event.pid, 0);
        }
    }

    fn change_protection(&mut self, event: &Event) {
        if let Some(ns) = event.waited_for_reserve() {
            let (waited, now) = (Duration::from_nanos(ns), Instant::now());
            return self.memory.parked(waited, now, &mut *self.kernel);
        }
        if let Some(ns) = event.waited_for_swap() {
            let (waited, now) = (Duration::from_nanos(ns), Instant::now());
            return self.memory.waited(waited, now, &mut *self.kernel);
        }
        match event.kind {
            EventKind::Matched => self.protect_memory(event, true),
            EventKind::Admitted | EventKind::Guaranteed | EventKind::Reactivated
                if !self.memory.look_later(event, Instant::now()) =>
            {
                self.protect_memory(event, false);
            }
            EventKind::Returned => self.memory.returned(event.pid),
            EventKind::Rejected | EventKind::Revoked | EventKind::Owner | EventKind::Limit => {
                self.memory.release(event.pid);
            }
            EventKind::Exited => self.memory.exited(event.pid),
            _ => {}
        }
    }

    /// Protect the memory of the process of `event`. `own`: see [`Wanted`].
    fn protect_memory(&mut self, event: &Event, own: bool) {
        let Some(tree) = self.domains.tree() else {
            return;
        };
        let wanted = Wanted {
            named: self.library.domain_of(event.spec_id),
            pi: self.library.protect_of(event.spec_id),
            private: self.library.memory_of(event.spec_id),
            exact: self.library.is_exact(event.spec_id),
            own,
            revocable: self.library.is_revocable(event.spec_id),
            inherit: self.library.has(event.spec_id, flags::INHERIT),
            starts_others: self.library.has(event.spec_id, flags::PARENT),
        };
        self.memory.protect(tree, event, &wanted);
        if own {
            self.memory.starts(Instant::now(), &mut *self.kernel);
        }
    }

    /// Look at the children that have waited for it until `now`.
    pub(super) fn look_at_children(&mut self, now: Instant) {
        while let Some(event) = self.memory.child_to_look_at(now) {
            self.protect_memory(&event, false);
        }
    }

    /// Tasks of the machine wait for memory.
    pub fn memory_short(&mut self) {
        self.memory.short(&mut *self.kernel);
    }

    /// Put the reservations of memory of domains into force, if they changed.
    pub fn reserve_memory(&mut self) {
        let asked = self.domains.take_memory();
        if let (Some(asked), Some(tree)) = (asked, self.domains.tree()) {
            self.memory.reserve_domains(tree, &asked);
        }
    }

    pub(super) fn reserve_privately(
        &mut self,
        peer: Peer,
        pid: Option<i32>,
        bytes: Option<u64>,
    ) -> Result<Outcome, Refusal> {
        let Target { pid, fd, owner } = self.own_process(peer, pid)?;
        // The reserve counts for the process's user, as the protection does. Only root may ask for
        // a process whose ids differ, and then it counts for root.
        let uid = owner.unwrap_or(peer.uid);
        let done = self.memory.request(pid, uid, bytes, fd)?;
        Ok(Outcome::Answer(Answer::Done(done)))
    }

    /// Lower the score of a process that becomes interactive, and report what the kernel kills.
    pub fn follow_oom(&mut self, event: &Event) {
        self.oom.follow(event);
        if event.kind == EventKind::Killed {
            let e = self.line(event, 0);
            warn!("process {} ({}) {}", e.pid, e.comm, killed::why(&e));
        }
    }

    /// systemd-oomd has killed.
    pub fn record_killed(&mut self) {
        for killed in self.oom.take_killed() {
            warn!("systemd-oomd killed {}: {}", killed.cgroup, killed.reason);
            self.history.push(killed.event(monotonic_ns()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::{event, Fake, Root};

    #[test]
    fn a_program_that_waits_for_its_domain_goes_on_also_if_it_gets_none() {
        let (root, fake) = (Root::new(), Fake::new());
        let mut state = root.state(&fake); // without a cgroup tree
        let parked = || fake.seen.borrow().parked.clone();
        state.follow_memory(&event(1, 812));
        assert_eq!(parked(), [], "no program waits");
        state.config.kernel.programs_move = true;
        state.follow_memory(&event(1, 812));
        let mut other = event(1, 813);
        other.kind = EventKind::Admitted;
        state.follow_memory(&other);
        assert_eq!(parked(), [(812, 0)]);
    }
}
