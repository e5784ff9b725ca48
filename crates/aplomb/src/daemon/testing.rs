//! A stand-in for the kernel side, and other helpers of several tests.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use aplomb_domain::DomainPolicy;
use aplomb_kernel::{
    flags, Cpu, DiskCounts, DiskShares, Domain, DomainChange, Event, EventKind, ExitInfo, Kernel,
    KernelError, LoadError, Matcher, MemoryCounts, OrderedDisk, Owner, Part, Reserved, Server,
    ServerPolicy, ServerState, Shortage, SpecRow,
};
use aplomb_spec::{Dirs, LoadOptions, Trust};

use super::disk::Disk;
use super::domains::Domains;
use super::history::History;
use super::library::{Library, Sources};
use super::memory::Memory;
use super::net::Net;
use super::oom::Oom;
use super::reservations::Reservations;
use super::state::State;
use crate::config::Config;

/// The calls that a [`Fake`] received, and the answers that it gives.
#[derive(Debug, Default)]
pub struct Seen {
    pub rows: Vec<(Matcher, SpecRow)>,
    pub rematched: usize,
    pub looked_back: usize,
    pub reserved: Vec<(i32, Option<SpecRow>)>,
    /// Parked threads, and the length of each park, ns.
    pub parked: Vec<(i32, u64)>,
    pub demoted: Vec<(i32, Option<Shortage>)>,
    /// To which user each process belongs.
    pub owners: HashMap<i32, Owner>,
    pub growth_ppm: u32,
    pub memory_counts: Vec<MemoryCounts>,
    pub attached: bool,
    pub events: VecDeque<Event>,
    pub exit: Option<ExitInfo>,
    pub servers: Vec<Server>,
    pub full: bool,
    pub domains: Vec<Domain>,
    pub domain_changes: Vec<(u64, DomainChange)>,
    /// Fractions above this are refused.
    pub room_ppm: Option<u32>,
    pub watched: bool,
    pub counted: bool,
    pub disks_told: usize,
    pub disk_counts: Option<DiskCounts>,
    pub disk_wanted_ns: u64,
    pub seat_users: Option<Vec<u32>>,
    /// If true, every guaranteed reservation of a domain is refused.
    pub no_promise: bool,
}

/// A domain below the root.
pub fn domain(cgid: u64) -> Domain {
    Domain {
        cgid,
        slot: 1,
        parent: 0,
        depth: 1,
        children: 0,
        weight: 200,
        idle: false,
        policy: DomainPolicy::Default,
        reservation: None,
        disk_ppm: None,
        max: None,
        burst_ns: 0,
        share_ppm: 400_000,
        ran_ns: 7,
        throttled_ns: 0,
        throttled: 0,
        parks: Vec::new(),
        is_throttled: false,
        waiting: 0,
        gone: false,
    }
}

/// A kernel side that only records the calls.
#[derive(Debug, Clone)]
pub struct Fake {
    pub seen: Rc<RefCell<Seen>>,
    /// Readable while there are events.
    bell: Rc<(UnixStream, UnixStream)>,
}

impl Fake {
    pub fn new() -> Self {
        let bell = UnixStream::pair().unwrap();
        bell.0.set_nonblocking(true).unwrap();
        Self {
            seen: Rc::default(),
            bell: Rc::new(bell),
        }
    }

    pub fn happen(&self, event: Event) {
        self.seen.borrow_mut().events.push_back(event);
        self.ring();
    }

    pub fn end(&self, exit: ExitInfo) {
        self.seen.borrow_mut().exit = Some(exit);
        self.ring();
    }

    fn ring(&self) {
        (&self.bell.1).write_all(b"x").unwrap();
    }
}

impl Kernel for Fake {
    fn attach(&mut self) -> Result<(), LoadError> {
        self.seen.borrow_mut().attached = true;
        Ok(())
    }

    fn detach(&mut self) {
        self.seen.borrow_mut().attached = false;
    }

    fn set_matchers(&mut self, rows: &[(Matcher, SpecRow)]) -> Result<(), KernelError> {
        self.seen.borrow_mut().rows = rows.to_vec();
        Ok(())
    }

    fn rematch(&mut self) -> Result<(), KernelError> {
        self.seen.borrow_mut().rematched += 1;
        Ok(())
    }

    fn look_back(&mut self) -> Result<(), KernelError> {
        self.seen.borrow_mut().looked_back += 1;
        Ok(())
    }

    fn reserve(&mut self, pid: i32, spec: Option<SpecRow>) -> Result<Reserved, KernelError> {
        let mut seen = self.seen.borrow_mut();
        if seen.full {
            return Err(KernelError::Full(4096));
        }
        seen.reserved.push((pid, spec));
        Ok(Reserved {
            state: spec.map(|_| ServerState::Admitted),
            cpu: 0,
            load_ppm: 0,
        })
    }

    fn owner(&self, pid: i32) -> Result<Owner, KernelError> {
        let owner = self.seen.borrow().owners.get(&pid).copied();
        owner.ok_or(KernelError::NoProcess(pid))
    }

    fn demote(&mut self, pid: i32, short: Option<Shortage>) -> Result<(), KernelError> {
        self.seen.borrow_mut().demoted.push((pid, short));
        Ok(())
    }

    fn park(&mut self, tid: i32, for_ns: u64) -> Result<(), KernelError> {
        self.seen.borrow_mut().parked.push((tid, for_ns));
        Ok(())
    }

    fn set_growth_buffer(&mut self, ppm: u32) {
        self.seen.borrow_mut().growth_ppm = ppm;
    }

    fn set_seat_users(&mut self, users: Option<&[u32]>) {
        self.seen.borrow_mut().seat_users = users.map(<[u32]>::to_vec);
    }

    fn servers(&self) -> Result<Vec<Server>, KernelError> {
        Ok(self.seen.borrow().servers.clone())
    }

    fn domains(&self) -> Result<Vec<Domain>, KernelError> {
        Ok(self.seen.borrow().domains.clone())
    }

    fn set_domain(&mut self, cgid: u64, change: DomainChange) -> Result<(), KernelError> {
        let mut seen = self.seen.borrow_mut();
        if !seen.domains.iter().any(|d| d.cgid == cgid) {
            return Err(KernelError::NoDomain(cgid));
        }
        if let (DomainChange::Fraction(ppm), Some(limit_ppm)) = (change, seen.room_ppm) {
            if ppm > limit_ppm {
                return Err(KernelError::DomainFull {
                    taken_ppm: 0,
                    limit_ppm,
                });
            }
        }
        if seen.no_promise && matches!(change, DomainChange::Budget { .. }) {
            return Err(KernelError::DomainUnpromised);
        }
        seen.domain_changes.push((cgid, change));
        Ok(())
    }

    fn cpus(&self) -> Vec<Cpu> {
        vec![Cpu {
            cpu: 0,
            r_load_ppm: 310_000,
            s_load_ppm: 320_000,
            guaranteed_ppm: 610_000,
        }]
    }

    fn counters(&self) -> Result<Vec<(EventKind, u64)>, KernelError> {
        Ok(EventKind::ALL.map(|k| (k, 0)).to_vec())
    }

    fn limits_dirty(&self) -> bool {
        true
    }

    fn orders_disks(&self) -> bool {
        true
    }

    fn order_disks(&mut self, _: &[OrderedDisk], _: DiskShares) -> Result<(), KernelError> {
        self.seen.borrow_mut().disks_told += 1;
        Ok(())
    }

    fn count_disks(&mut self) -> Result<(), KernelError> {
        self.seen.borrow_mut().counted = true;
        Ok(())
    }

    fn disk_counts(&self) -> Result<Option<DiskCounts>, KernelError> {
        Ok(self.seen.borrow().disk_counts.clone())
    }

    fn watch_disks(&mut self, on: bool) -> Result<(), KernelError> {
        self.seen.borrow_mut().watched = on;
        Ok(())
    }

    fn disk_wanted_ns(&self) -> u64 {
        self.seen.borrow().disk_wanted_ns
    }

    fn memory_counts(&self) -> Result<Vec<MemoryCounts>, KernelError> {
        Ok(self.seen.borrow().memory_counts.clone())
    }

    fn take_events(&mut self, max: usize) -> Vec<Event> {
        let mut seen = self.seen.borrow_mut();
        let n = seen.events.len().min(max);
        if n == seen.events.len() {
            while matches!((&self.bell.0).read(&mut [0; 4096]), Ok(n) if n > 0) {}
        }
        seen.events.drain(..n).collect()
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.0.as_fd())
    }

    fn exited(&self) -> Option<ExitInfo> {
        self.seen.borrow().exit.clone()
    }
}

/// An event about a process.
pub fn event(time_ns: u64, pid: i32) -> Event {
    Event {
        time_ns,
        kind: EventKind::Matched,
        cpu: 0,
        pid,
        spec_id: 2,
        user: 0,
        a: 2,
        b: 5_000_000,
        c: 30_000_000,
        comm: *b"mplayer\0\0\0\0\0\0\0\0\0",
    }
}

/// A server with 25 ms every 41 ms, guaranteed if it has parts.
pub fn server(pid: i32, parts: Vec<Part>) -> Server {
    let guaranteed = !parts.is_empty();
    Server {
        pid,
        comm: "movie".into(),
        spec: SpecRow {
            runtime_ns: 25_000_000,
            period_ns: 41_000_000,
            id: 1,
            flags: flags::INTERACTIVE
                | if guaranteed {
                    flags::GUARANTEED
                } else {
                    flags::REVOCABLE
                },
            protect_s: 0,
            io_priority: u32::MAX,
            policy: guaranteed.then_some(ServerPolicy::CbsHard),
        },
        state: ServerState::Admitted,
        cpu: 0,
        guaranteed,
        parts,
        window: u32::from(guaranteed),
        migrations: 7,
        inherited: false,
        threads: 1,
        use_ppm: 0,
        served_ns: 0,
        reclaimed_ns: 4_000_000,
        periods: 0,
        exhausted: 0,
        missed: 0,
    }
}

/// Specs and programs below a temporary folder: `usr/bin/mplayer` with a spec of 5 ms every 30 ms.
pub struct Root {
    pub dir: tempfile::TempDir,
}

impl Root {
    pub fn new() -> Self {
        let root = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        root.write("usr/bin/mplayer", "\x7fELF");
        root.spec("mplayer", "5ms/30ms", "/usr/bin/mplayer");
        root
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn spec(&self, name: &str, cpu: &str, program: &str) {
        let text = format!("[[spec]]\nname = \"{name}\"\ncpu = \"{cpu}\"\nrevocable = true\npath = \"{program}\"\n");
        self.write(&format!("usr/lib/aplomb/specs.d/{name}.toml"), &text);
    }

    pub fn sources(&self) -> Sources {
        let root: &Path = self.dir.path();
        Sources {
            dirs: Dirs::under(root),
            options: LoadOptions {
                trust: Trust::AnyOwner,
            },
            root: root.into(),
        }
    }

    /// A daemon's state over these files.
    pub fn state(&self, fake: &Fake) -> State {
        State {
            memory: Memory::start(crate::config::MemoryConfig::default(), None),
            oom: Oom::start(crate::config::MemoryConfig::default(), None),
            disk: Disk::default(),
            net: Net::start(&[]),
            seats: super::seats::Seats::system(),
            config: Config::default(),
            library: Library::open(self.sources()).unwrap(),
            kernel: Box::new(fake.clone()),
            history: History::default(),
            reservations: Reservations::default(),
            domains: Domains::new(None).unwrap(),
            looking: Vec::new(),
            attached: Some(Instant::now()),
            restarts: 0,
            release: "7.3.4".into(),
        }
    }
}
