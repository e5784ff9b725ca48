//! The daemon's state without its sockets: checks the rights of each request and answers it.

use std::time::Instant;

use aplomb_domain::DomainPath;
use aplomb_kernel::{
    comm_text, flags, Event, Kernel, KernelError, Part, ServerPolicy, ServerState, SpecRow,
};
use aplomb_spec::limits;

use super::disk::Disk;
use super::domains::Domains;
use super::history::History;
use super::library::{Library, RUN_ID};
use super::memory::Memory;
use super::net::Net;
use super::oom::Oom;
use super::reservations::{find_process, is_alive, Reservation, Reservations};
use super::seats::Seats;
use crate::config::{percent, Config};
use crate::protocol::{
    Answer, Ask, Code, LogEvent, MemoryCounts, MemoryStatus, NetAsk, Refusal, ReservedLine, Status,
    TaskLine, Wanted,
};
use tracing::warn;

mod looks;
mod memory;

/// The client, as the kernel identifies it (SO_PEERCRED). Ids are those of the daemon's own
/// namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    /// The user to whose limits it counts. 0 for root.
    pub account: u32,
    /// 0 if the client is in a process namespace that the daemon does not see.
    pub pid: i32,
}

/// What the caller has to do for a request.
#[derive(Debug)]
pub enum Outcome {
    Answer(Answer),
    /// Answer, and watch for the exit of this process.
    Reserved(Answer, i32),
    /// Send the events of this query.
    Log(LogQuery),
    /// Answer, then end.
    Stop(Answer),
    /// Read the specs again, then answer.
    Reload,
    /// Answer when this domain was looked at.
    Look(DomainPath),
}

/// Which events a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogQuery {
    pub from: u64,
    pub follow: bool,
    pub pid: Option<i32>,
}

/// The state of the daemon.
pub struct State {
    pub config: Config,
    pub library: Library,
    pub kernel: Box<dyn Kernel>,
    pub history: History,
    pub reservations: Reservations,
    pub domains: Domains,
    pub memory: Memory,
    pub oom: Oom,
    pub disk: Disk,
    pub net: Net,
    pub seats: Seats,
    /// Connections that wait for a look at a domain.
    pub looking: Vec<(u32, DomainPath)>,
    /// When the scheduler was attached. None while it is not attached.
    pub attached: Option<Instant>,
    pub restarts: u32,
    /// `uname -r`.
    pub release: String,
}

fn memory_line(of: aplomb_kernel::MemoryCounts) -> MemoryCounts {
    MemoryCounts {
        class: of.class.into(),
        asked: of.asked,
        parked: of.parked,
        reclaimed: of.reclaimed,
        reclaimed_limit: of.reclaimed_limit,
        swapped_in: of.swapped_in,
    }
}

impl State {
    /// Answer a request.
    pub fn handle(&mut self, peer: Peer, ask: Ask) -> Outcome {
        let result = match ask {
            Ask::Status {} => self.status(),
            Ask::Specs {} => Ok(Outcome::Answer(Answer::Specs(self.library.lines()))),
            Ask::Log {
                follow,
                pid,
                since_ns,
            } => {
                let from = match since_ns {
                    Some(age) => self.history.since(monotonic_ns().saturating_sub(age)),
                    None => self.history.first(),
                };
                Ok(Outcome::Log(LogQuery { from, follow, pid }))
            }
            Ask::Reserve(wanted) => self.reserve(peer, &wanted),
            Ask::Release { pid } => self.release(peer, pid),
            Ask::Memory { pid, bytes } => self.reserve_privately(peer, pid, bytes),
            Ask::Domains {} => {
                let table = self.domains.table(&*self.kernel).map_err(failed);
                table.map(|mut table| {
                    self.memory.fill(&mut table);
                    Outcome::Answer(Answer::Domains(table))
                })
            }
            Ask::Look { domain } => {
                root(peer, "check domains through").and_then(|()| self.look(domain))
            }
            Ask::Park { tid, for_ns } => root(peer, "park threads through").and_then(|()| {
                self.kernel.park(tid, for_ns).map_err(failed)?;
                Ok(Outcome::Answer(Answer::Done(String::new())))
            }),
            Ask::Disks(change) => {
                let allowed = match change.is_question() {
                    true => Ok(()),
                    false => root(peer, "change the shares of disks through"),
                };
                allowed.and_then(|()| {
                    let said = self.disk.change(&change, &mut *self.kernel)?;
                    Ok(Outcome::Answer(Answer::Done(said)))
                })
            }
            Ask::Net(ask) => {
                let is_list = ask == NetAsk::List {};
                let allowed = match is_list {
                    true => Ok(()),
                    false => root(peer, "order the packets of interfaces through"),
                };
                allowed.and_then(|()| self.net.ask(&ask)).map(|text| {
                    Outcome::Answer(match is_list {
                        true => Answer::Net(self.net.lines()),
                        false => Answer::Done(text),
                    })
                })
            }
            Ask::Reload {} => root(peer, "reload").map(|()| Outcome::Reload),
            Ask::Stop {} => {
                root(peer, "stop").map(|()| Outcome::Stop(Answer::Done("aplomb stops".into())))
            }
        };
        result.unwrap_or_else(|refusal| Outcome::Answer(Answer::Refused(refusal)))
    }

    /// Do what is due of domains and of memory.
    pub fn tick(&mut self, now: Instant) {
        self.domains.tick(now, &mut *self.kernel);
        self.look_at_children(now);
        let tree = self.domains.tree();
        self.memory.tick(tree, now, &mut *self.kernel);
        self.oom.tick(now, &self.memory);
        self.disk.tick(now, &mut *self.kernel);
    }

    /// Put the settings of domains' packets into force, if they changed.
    pub fn set_packets(&mut self) {
        if let Some(settings) = self.domains.take_net_settings() {
            self.net.set_domains(settings);
        }
    }

    fn status(&self) -> Result<Outcome, Refusal> {
        let mut tasks: Vec<TaskLine> = self
            .kernel
            .servers()
            .map_err(failed)?
            .into_iter()
            .map(|s| TaskLine {
                pid: s.pid,
                comm: s.comm,
                spec: self.library.name(s.spec.id).into(),
                runtime_ns: s.spec.runtime_ns,
                period_ns: s.spec.period_ns,
                state: s.state,
                cpu: s.cpu,
                inherited: s.inherited,
                revocable: s.spec.flags & flags::REVOCABLE != 0,
                guaranteed: s.guaranteed,
                parts: s.parts,
                window: s.window,
                migrations: s.migrations,
                server: s.spec.policy.unwrap_or(self.config.kernel.server_policy),
                threads: s.threads,
                use_ppm: s.use_ppm,
                served_ns: s.served_ns,
                reclaimed_ns: s.reclaimed_ns,
                periods: s.periods,
                exhausted: s.exhausted,
                missed: s.missed,
            })
            .collect();
        tasks.sort_by_key(|t| (t.cpu, t.pid));
        let counters = self.kernel.counters().map_err(failed)?;
        let memory = self.kernel.memory_counts().map_err(failed)?;
        Ok(Outcome::Answer(Answer::Status(Box::new(Status {
            attached: self.attached.is_some() && self.kernel.exited().is_none(),
            scheduler: "aplomb".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: self.release.clone(),
            attached_s: self.attached.map_or(0, |t| t.elapsed().as_secs()),
            restarts: self.restarts,
            server: self.config.kernel.server_policy,
            r_lo_ppm: self.config.kernel.r_lo_ppm,
            r_hi_ppm: self.config.kernel.r_hi_ppm,
            r_max_ppm: self.config.kernel.r_max_ppm,
            specs: self.library.len(),
            matchers: self.library.row_count(),
            spec_errors: self.library.error_report(),
            cpus: self.kernel.cpus(),
            tasks,
            memory: MemoryStatus {
                protected: self.memory.table(),
                counts: memory.into_iter().map(memory_line).collect(),
            },
            counters: counters
                .into_iter()
                .map(|(kind, n)| (kind.name().into(), n))
                .collect(),
        }))))
    }

    fn reserve(&mut self, peer: Peer, wanted: &Wanted) -> Result<Outcome, Refusal> {
        let (runtime_ns, period_ns) = (wanted.runtime_ns, wanted.period_ns);
        let invalid = |m: String| Err(Refusal::new(Code::Invalid, m));
        let text = aplomb_spec::format_duration;
        if !(limits::MIN_PERIOD_NS..=limits::MAX_PERIOD_NS).contains(&period_ns) {
            let (min, max) = (text(limits::MIN_PERIOD_NS), text(limits::MAX_PERIOD_NS));
            return invalid(format!(
                "the period {} is not between {min} and {max}",
                text(period_ns)
            ));
        }
        if !(limits::MIN_RUNTIME_NS..=period_ns).contains(&runtime_ns) {
            let min = text(limits::MIN_RUNTIME_NS);
            return invalid(format!(
                "the runtime {} is not between {min} and the period {}",
                text(runtime_ns),
                text(period_ns)
            ));
        }
        if let Some(why) = privileged_part(wanted).filter(|_| peer.uid != 0) {
            return Err(Refusal::new(
                Code::Permission,
                format!("only root may ask for {why}"),
            ));
        }
        let r_max_ppm = self.config.kernel.r_max_ppm;
        if wanted.guaranteed && runtime_ns * 1_000_000 > period_ns * r_max_ppm {
            let share = percent(runtime_ns * 1_000_000 / period_ns);
            return Err(Refusal::new(
                Code::Limit,
                format!(
                    "{share} of a CPU cannot be guaranteed: of each, at most {} may be promised (r-max)",
                    percent(r_max_ppm)
                ),
            ));
        }
        let target = self.own_process(peer, wanted.pid)?;
        let mut flags = flags::INTERACTIVE | flags::STICKY;
        for (set, flag) in [
            (wanted.inherit, flags::INHERIT),
            (wanted.guaranteed, flags::GUARANTEED),
            (!wanted.keep && !wanted.guaranteed, flags::REVOCABLE),
            (peer.uid == 0, flags::BY_ROOT),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let row = SpecRow {
            runtime_ns,
            period_ns,
            id: RUN_ID,
            flags,
            protect_s: aplomb_memory::working_set::DEFAULT_PI.as_secs() as u32,
            io_priority: u32::MAX,
            policy: wanted.server,
        };
        self.reservations.remove_ended();
        self.reservations
            .allow(peer.account, target.pid, &row, &self.config.user)?;
        let reserved = self.kernel.reserve(target.pid, Some(row)).map_err(failed)?;
        if !is_alive(&target.fd) {
            // The process exited in between, and another process may have its id by now.
            let _ = self.kernel.reserve(target.pid, None);
            return Err(Refusal::new(
                Code::Failed,
                format!("process {} has ended", target.pid),
            ));
        }
        if wanted.pid.is_some() {
            self.join_threads();
        }
        let line = ReservedLine {
            pid: target.pid,
            state: reserved.state.unwrap_or(ServerState::Rejected),
            cpu: reserved.cpu,
            parts: if wanted.guaranteed {
                self.parts_of(target.pid)?
            } else {
                Vec::new()
            },
            load_ppm: reserved.load_ppm,
        };
        self.reservations.insert(
            target.pid,
            Reservation {
                account: peer.account,
                row,
                process: target.fd,
            },
        );
        Ok(Outcome::Reserved(Answer::Reserved(line), target.pid))
    }

    /// The CPUs on which process `pid` has guaranteed parts.
    fn parts_of(&self, pid: i32) -> Result<Vec<Part>, Refusal> {
        let servers = self.kernel.servers().map_err(failed)?;
        let parts = servers.into_iter().find(|s| s.pid == pid).map(|s| s.parts);
        Ok(parts.unwrap_or_default())
    }

    fn release(&mut self, peer: Peer, pid: i32) -> Result<Outcome, Refusal> {
        let target = self.own_process(peer, Some(pid))?;
        self.kernel.reserve(target.pid, None).map_err(failed)?;
        self.reservations.remove(target.pid);
        // The process may have a spec, which applies again now.
        self.join_threads();
        Ok(Outcome::Answer(Answer::Done(format!(
            "process {pid} has no reservation by request any more"
        ))))
    }

    /// The process that a request is about, if the peer may control it.
    fn own_process(&self, peer: Peer, pid: Option<i32>) -> Result<Target, Refusal> {
        let pid = pid.unwrap_or(peer.pid);
        if pid <= 0 {
            return Err(Refusal::new(
                Code::Failed,
                "your process is in a namespace that the daemon does not see",
            ));
        }
        let process = find_process(pid)?;
        if peer.uid != 0 && process.owner != Some(peer.uid) {
            return Err(Refusal::new(
                Code::Permission,
                format!("process {pid} is not yours"),
            ));
        }
        Ok(Target {
            pid,
            fd: process.fd,
            owner: process.owner,
        })
    }

    /// Have the kernel side match all processes again, so that the other threads of a process join
    /// its server.
    fn join_threads(&mut self) {
        if let Err(e) = self.kernel.rematch() {
            warn!("{e}");
        }
    }

    /// Write the rows of the library into the kernel side. With `rematch`, apply them to running
    /// processes too.
    ///
    /// # Errors
    /// See [`Kernel::set_matchers`].
    pub fn apply_specs(&mut self, rematch: bool) -> Result<(), KernelError> {
        self.kernel.set_matchers(&self.library.rows())?;
        if rematch {
            self.kernel.rematch()?;
        }
        Ok(())
    }

    /// After a restart of the kernel side, make all reservations again. Returns how many were lost.
    pub fn reserve_again(&mut self) -> usize {
        self.reservations.remove_ended();
        let all: Vec<(i32, SpecRow)> = self
            .reservations
            .iter()
            .map(|(pid, r)| (pid, r.row))
            .collect();
        let mut lost = 0;
        for (pid, row) in all {
            if self.kernel.reserve(pid, Some(row)).is_err() {
                self.reservations.remove(pid);
                lost += 1;
            }
        }
        self.join_threads();
        lost
    }

    /// An event as it is sent to clients. `offset_ns`: real time minus CLOCK_MONOTONIC.
    pub fn line(&self, event: &Event, offset_ns: u64) -> LogEvent {
        LogEvent {
            time_ns: event.time_ns.wrapping_add(offset_ns),
            event: event.kind,
            cpu: event.cpu,
            pid: event.pid,
            comm: comm_text(&event.comm),
            spec: self.library.name(event.spec_id).into(),
            numbers: [event.a, event.b, event.c],
        }
    }
}

struct Target {
    pid: i32,
    fd: std::os::fd::OwnedFd,
    /// The user of all its ids; None if they differ.
    owner: Option<u32>,
}

/// The part of a request that could take CPU time from all other users, so that only root may ask
/// for it.
fn privileged_part(wanted: &Wanted) -> Option<&'static str> {
    let soft = wanted.server == Some(ServerPolicy::CbsSoft);
    [
        (
            wanted.inherit,
            "flag I: each child would take as much again",
        ),
        (
            wanted.guaranteed,
            "flag G: no other program can have what is guaranteed",
        ),
        (
            wanted.keep,
            "a reservation without flag R: it could never be revoked",
        ),
        (
            soft,
            "the server cbs-soft: it goes before best-effort work beyond its budget too",
        ),
    ]
    .into_iter()
    .find_map(|(asked, why)| asked.then_some(why))
}

fn root(peer: Peer, what: &str) -> Result<(), Refusal> {
    if peer.uid == 0 {
        return Ok(());
    }
    Err(Refusal::new(
        Code::Permission,
        format!("only root may {what} the daemon"),
    ))
}

fn failed(error: KernelError) -> Refusal {
    Refusal::new(code_of(&error), error.to_string())
}

/// The code of a refusal for an error of the kernel side.
pub(super) fn code_of(error: &KernelError) -> Code {
    match error {
        KernelError::Full(_) | KernelError::DomainFull { .. } | KernelError::DomainUnpromised => {
            Code::Limit
        }
        KernelError::Invalid => Code::Invalid,
        _ => Code::Failed,
    }
}

/// CLOCK_MONOTONIC now, ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(rustix::time::ClockId::Monotonic)
}

/// Real time minus CLOCK_MONOTONIC now, ns.
pub fn clock_offset_ns() -> u64 {
    clock_ns(rustix::time::ClockId::Realtime).wrapping_sub(monotonic_ns())
}

fn clock_ns(clock: rustix::time::ClockId) -> u64 {
    let t = rustix::time::clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
