//! The loaded scheduler: libbpf's objects behind [`Kernel`].

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Mutex;

use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    AsRawLibbpf, Iter, Link, MapCore, MapFlags, PrintLevel, ProgramInput, ProgramMut, RingBuffer,
    RingBufferBuilder,
};

use crate::btf::Types;
use crate::facts::Machine;
use crate::layout::types as raw;
use crate::types::{comm_text, event_number, policy_number, server_state};
use crate::{
    limits, Cpu, Domain, DomainChange, Event, EventKind, ExitInfo, Kernel, KernelError, LoadError,
    Matcher, Reserved, Server, Settings, SpecRow,
};

mod domains;
mod tick;

/// The skeleton of bpf/main.bpf.c, written by libbpf-cargo at build time.
#[allow(
    dead_code,
    non_camel_case_types,
    non_snake_case,
    unused_imports,
    clippy::all
)]
mod main_skel {
    include!(concat!(env!("OUT_DIR"), "/main.skel.rs"));
}
use main_skel::{MainSkel, MainSkelBuilder};

/// The loaded kernel side. [`Kernel::attach`] attaches it. Dropping it removes everything.
pub struct Scheduler {
    // In the order in which they must go: first the scheduler's link, then those of the tracing
    // programs.
    scheduler: Option<Link>,
    tracing: Vec<Link>,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<VecDeque<Event>>>,
    skel: MainSkel<'static>,
}

/// The messages of libbpf since the last [`quietly`] began. Shown only if the load fails.
static LIBBPF_LOG: Mutex<String> = Mutex::new(String::new());
/// Bytes of libbpf's log that are kept: the end, where the verifier's verdict is.
const LOG_BYTES: usize = 64 * 1024;

fn keep_log(_: PrintLevel, line: String) {
    let mut log = LIBBPF_LOG.lock().unwrap_or_else(|e| e.into_inner());
    log.push_str(&line);
    if log.len() > 2 * LOG_BYTES {
        let mut cut = log.len() - LOG_BYTES;
        while !log.is_char_boundary(cut) {
            cut += 1;
        }
        log.drain(..cut);
    }
}

/// Run `f` with libbpf's messages kept instead of printed; on failure return them.
fn quietly<T>(f: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, LoadError> {
    LIBBPF_LOG.lock().unwrap_or_else(|e| e.into_inner()).clear();
    libbpf_rs::set_print(Some((PrintLevel::Info, keep_log)));
    f().map_err(|source| {
        let log = LIBBPF_LOG.lock().unwrap_or_else(|e| e.into_inner());
        let log = if log.is_empty() {
            String::new()
        } else {
            format!("\n{}", log.trim_end())
        };
        LoadError::Refused { source, log }
    })
}

/// Run a syscall program on its arguments, which hold its answer then. `T`: a struct of bpf/intf.h
/// (integers only).
fn call<T>(program: &ProgramMut, args: &mut T, doing: &'static str) -> Result<(), KernelError> {
    // SAFETY: `args` outlives the call, is that long, and any bytes are valid in it.
    let context = unsafe {
        std::slice::from_raw_parts_mut(std::ptr::from_mut(args).cast::<u8>(), size_of::<T>())
    };
    let input = ProgramInput {
        context_in: Some(context),
        ..Default::default()
    };
    match program.test_run(input) {
        Ok(_) => Ok(()),
        Err(source) => Err(KernelError::Call { doing, source }),
    }
}

/// The types of the opened object.
fn own_types<'a>(open: &'a main_skel::OpenMainSkel) -> libbpf_rs::Result<Types<'a>> {
    // SAFETY: opened, and borrowed for as long as the types are
    let object = unsafe { open.open_object().as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(object)?;
    btf.map(Types::new)
        .ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT))
}

/// Enumerators that the programs take from the kernel and that `kernel` lacks. Needs no privilege.
pub(crate) fn missing_enumerators(kernel: &Types) -> Result<Vec<String>, LoadError> {
    let mut place = MaybeUninit::uninit();
    quietly(|| {
        let open = MainSkelBuilder::default().open(&mut place)?;
        let missing = kernel.missing_enumerators(&own_types(&open)?);
        Ok(missing)
    })
}

/// Make the callbacks those of this kernel. Callbacks that are younger than the oldest kernel that
/// we support are left out where the kernel does not know them, or it would refuse the whole
/// scheduler (6.17: cpu.max; 6.19: cpu.idle; the others need CONFIG_EXT_GROUP_SCHED). The flags get
/// the kernel's numbers: in an initialiser libbpf relocates nothing.
fn fit_callbacks(open: &mut main_skel::OpenMainSkel, kernel: &Types) -> libbpf_rs::Result<()> {
    let flags = kernel.ops_flags(&own_types(open)?, open.struct_ops.aplomb_ops().flags);
    let ops = open.struct_ops.aplomb_ops_mut();
    ops.flags = flags;
    macro_rules! unless_known {
        ($($member:ident: $program:ident),*) => {$(
            if !kernel.has_member("sched_ext_ops", stringify!($member)) {
                ops.$member = std::ptr::null_mut();
                open.progs.$program.set_autoload(false);
            }
        )*};
    }
    unless_known!(
        cgroup_init: aplomb_cgroup_init,
        cgroup_exit: aplomb_cgroup_exit,
        cgroup_move: aplomb_cgroup_move,
        cgroup_set_weight: aplomb_cgroup_set_weight,
        cgroup_set_bandwidth: aplomb_cgroup_set_bandwidth,
        cgroup_set_idle: aplomb_cgroup_set_idle
    );
    Ok(())
}

impl Scheduler {
    /// Load the programs and create the maps. Nothing is attached.
    ///
    /// # Errors
    /// See [`LoadError`]. Checked in this order: the kernel, the privileges, another scheduler.
    pub fn load(settings: &Settings) -> Result<Self, LoadError> {
        let kernel = Machine::here().require()?;
        #[cfg(target_feature = "crt-static")]
        crate::libelf::keep();
        // The skeleton borrows this for as long as it lives. A load leaks its few bytes; loads
        // happen at start and when the kernel asks for a restart.
        let place: &'static mut MaybeUninit<libbpf_rs::OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let skel = quietly(|| {
            let mut open = MainSkelBuilder::default().open(place)?;
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                rodata.r_lo_ppm = settings.r_lo_ppm;
                rodata.r_hi_ppm = settings.r_hi_ppm;
                rodata.r_max_ppm = settings.r_max_ppm;
                rodata.fork_window_ns = settings.fork_window_ns;
                rodata.tick_ns = tick::period_ns();
                rodata.server_policy = policy_number(Some(settings.server_policy));
            }
            fit_callbacks(&mut open, &kernel)?;
            let skel = open.load()?;
            skel.progs.find_symbols.test_run(ProgramInput::default())?;
            Ok(skel)
        })?;
        let inbox = Rc::new(RefCell::new(VecDeque::new()));
        let ring = quietly(|| {
            let sink = Rc::clone(&inbox);
            let mut builder = RingBufferBuilder::new();
            builder.add(&skel.maps.events, move |record| {
                if let Some(event) = Event::from_record(record) {
                    sink.borrow_mut().push_back(event);
                }
                0
            })?;
            builder.build()
        })?;
        Ok(Self {
            scheduler: None,
            tracing: Vec::new(),
            ring,
            inbox,
            skel,
        })
    }

    /// Set the number of matchers of each kind, so that the kernel side skips kinds without
    /// matchers.
    fn count_matchers(&mut self, counts: &BTreeMap<u64, u32>) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            for (kind, slot) in bss.nr_matchers.iter_mut().enumerate() {
                // SAFETY: `slot` is a valid place; the kernel reads it at the same time, whole
                // words.
                unsafe {
                    std::ptr::write_volatile(slot, counts.get(&(kind as u64)).copied().unwrap_or(0))
                };
            }
        }
    }
}

impl Kernel for Scheduler {
    fn attach(&mut self) -> Result<(), LoadError> {
        if self.scheduler.is_some() {
            return Ok(());
        }
        // Tracing first: a program executed between the two is then seen by at least one of them.
        let mut tracing = quietly(|| {
            Ok(vec![
                self.skel.progs.on_exec.attach()?,
                self.skel.progs.on_exit.attach()?,
            ])
        })?;
        // After on_exec. It needs tracefs; where that is not mounted, programs that are started
        // many at a time on 7.0 or later may go unmatched, which is no reason to do without all the
        // rest.
        tracing.extend(quietly(|| self.skel.progs.on_exec_left_out.attach()).ok());
        // Without it a parked task dies, or freezes, when its park ends.
        tracing.extend(quietly(|| self.skel.progs.on_freeze.attach()).ok());
        tracing.extend(quietly(|| self.skel.progs.on_kill.attach()).ok());
        let link = quietly(|| self.skel.maps.aplomb_ops.attach_struct_ops()).map_err(|e| {
            match Machine::here().running() {
                Some(other) => LoadError::Busy(other),
                None => e,
            }
        })?;
        // The kernel reports success even when it ended the scheduler while switching tasks over.
        if let Some(exit) = self.exited() {
            return Err(LoadError::Ended(exit));
        }
        self.tracing = tracing;
        self.scheduler = Some(link);
        Ok(())
    }

    fn detach(&mut self) {
        if let Some(link) = self.scheduler.take() {
            // Waits until every task is back with the stock scheduler. Where the kernel cannot
            // detach (or already has), closing the link does it.
            let _ = link.detach();
        }
        self.tracing.clear();
    }

    fn set_matchers(&mut self, rows: &[(Matcher, SpecRow)]) -> Result<(), KernelError> {
        let mut wanted: BTreeMap<Matcher, SpecRow> = BTreeMap::new();
        for (key, row) in rows {
            wanted.entry(*key).or_insert(*row);
        }
        let limit = limits::MAX_SPECS as usize;
        if wanted.len() > limit {
            return Err(KernelError::TooManyMatchers {
                found: wanted.len(),
                limit,
            });
        }
        let mut counts = BTreeMap::new();
        for key in wanted.keys() {
            *counts.entry(key.0[0]).or_insert(0) += 1;
        }
        let failed = |doing| move |source| KernelError::Call { doing, source };
        let old: HashSet<Matcher> = self
            .skel
            .maps
            .matchers
            .keys()
            .filter_map(|k| Matcher::from_bytes(&k))
            .collect();
        // No kind may count as empty while it has rows: the kernel side would not ask for it. So
        // until the stale rows are gone, every kind counts.
        self.count_matchers(&(0..16).map(|kind| (kind, 1)).collect());
        let map = &self.skel.maps.matchers;
        // The table may be too full for old and new rows together; then stale ones make room first.
        let crowded = old.union(&wanted.keys().copied().collect()).count() > limit;
        let stale = || old.iter().filter(|k| !wanted.contains_key(k));
        let remove = || {
            stale().try_for_each(|k| map.delete(&k.bytes()).map_err(failed("removing a matcher")))
        };
        if crowded {
            remove()?;
        }
        for (key, row) in &wanted {
            map.update(&key.bytes(), bytes_of(&row.to_raw()), MapFlags::ANY)
                .map_err(failed("adding a matcher"))?;
        }
        if !crowded {
            remove()?;
        }
        self.count_matchers(&counts);
        Ok(())
    }

    fn rematch(&mut self) -> Result<(), KernelError> {
        let failed = |source| KernelError::Call {
            doing: "matching the running processes",
            source,
        };
        let link = self.skel.progs.rematch.attach().map_err(failed)?;
        let mut walk = Iter::new(&link).map_err(failed)?;
        let mut out = [0; 4096];
        loop {
            match walk.read(&mut out) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e.into())),
            }
        }
    }

    fn reserve(&mut self, pid: i32, spec: Option<SpecRow>) -> Result<Reserved, KernelError> {
        let mut args = raw::reserve_args {
            pid,
            spec: spec.map(SpecRow::to_raw).unwrap_or_default(),
            ..Default::default()
        };
        call(
            &self.skel.progs.reserve,
            &mut args,
            "asking for a reservation",
        )?;
        match -args.result {
            0 => Ok(Reserved {
                state: server_state(args.state),
                cpu: args.cpu,
                load_ppm: args.load_ppm,
            }),
            libc::ESRCH => Err(KernelError::NoProcess(pid)),
            libc::ENOSPC => Err(KernelError::Full(limits::MAX_SERVERS)),
            _ => Err(KernelError::Invalid),
        }
    }

    fn park(&mut self, tid: i32, for_ns: u64) -> Result<(), KernelError> {
        let mut args = raw::park_args {
            pid: tid,
            for_ns,
            ..Default::default()
        };
        call(
            &self.skel.progs.park_request,
            &mut args,
            "asking for a park",
        )?;
        match -args.result {
            0 => Ok(()),
            libc::ESRCH => Err(KernelError::NoProcess(tid)),
            libc::EOPNOTSUPP => Err(KernelError::CannotPark),
            libc::EINVAL => Err(KernelError::NeverParks(tid)),
            _ => Err(KernelError::Full(limits::MAX_SERVERS)),
        }
    }

    fn servers(&self) -> Result<Vec<Server>, KernelError> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else {
            return Ok(Vec::new());
        };
        // SAFETY: valid places that the kernel writes, whole words.
        let (used, sample_no) = unsafe {
            (
                std::ptr::read_volatile(&raw const bss.nr_slots),
                std::ptr::read_volatile(&raw const bss.sample_no),
            )
        };
        let mut servers = Vec::new();
        for slot in 1..used.min(limits::MAX_SERVERS) {
            let value = self
                .skel
                .maps
                .servers
                .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
                .map_err(|source| KernelError::Call {
                    doing: "reading the table of interactive tasks",
                    source,
                })?;
            let Some(value) = value.filter(|v| v.len() >= size_of::<raw::server_info>()) else {
                continue;
            };
            // SAFETY: long enough, and every bit pattern is a valid `server_info` (integers only).
            let info =
                unsafe { std::ptr::read_unaligned(value.as_ptr().cast::<raw::server_info>()) };
            servers.extend(Server::from_raw(&info, u64::from(sample_no)));
        }
        Ok(servers)
    }

    fn domains(&self) -> Result<Vec<Domain>, KernelError> {
        self.read_domains()
    }

    fn set_domain(&mut self, cgid: u64, change: DomainChange) -> Result<(), KernelError> {
        self.change_domain(cgid, change)
    }

    fn cpus(&self) -> Vec<Cpu> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else {
            return Vec::new();
        };
        (0..)
            .zip(&bss.cpus)
            .filter_map(|(cpu, c)| {
                // SAFETY: valid places that the kernel writes, whole words.
                unsafe {
                    (std::ptr::read_volatile(&raw const c.online) != 0).then(|| Cpu {
                        cpu,
                        r_load_ppm: std::ptr::read_volatile(&raw const c.reserved.load.r_ppm),
                        s_load_ppm: std::ptr::read_volatile(&raw const c.reserved.load.s_ppm),
                        guaranteed_ppm: std::ptr::read_volatile(&raw const c.reserved.promised_ppm)
                            .into(),
                    })
                }
            })
            .collect()
    }

    fn counters(&self) -> Result<Vec<(EventKind, u64)>, KernelError> {
        EventKind::ALL
            .into_iter()
            .map(|kind| {
                let per_cpu = self
                    .skel
                    .maps
                    .stats
                    .lookup_percpu(&event_number(kind).to_ne_bytes(), MapFlags::ANY)
                    .map_err(|source| KernelError::Call {
                        doing: "reading the counters",
                        source,
                    })?
                    .unwrap_or_default();
                let words = per_cpu.iter().filter_map(|v| v.as_slice().try_into().ok());
                Ok((kind, words.map(u64::from_ne_bytes).sum()))
            })
            .collect()
    }

    fn take_events(&mut self, max: usize) -> Vec<Event> {
        // libbpf takes from the kernel only what is asked for, so a flood waits there, bounded.
        self.ring.consume_raw_n(max);
        self.inbox.borrow_mut().drain(..).collect()
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.ring.epoll_fd();
        // SAFETY: open for as long as `ring` lives, which the borrow of self covers.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    fn exited(&self) -> Option<ExitInfo> {
        let bss = self.skel.maps.bss_data.as_deref()?;
        // SAFETY: a valid place; once `kind` is set the kernel side does not write it again.
        let exit = unsafe { std::ptr::read_volatile(&raw const bss.exit_info) };
        let has = |flag: raw::exit_flags| exit.flags & flag.0 != 0;
        (exit.kind != 0).then(|| ExitInfo {
            kind: exit.kind,
            code: exit.exit_code,
            restart: has(raw::exit_flags::EXIT_RESTART),
            hotplug: has(raw::exit_flags::EXIT_HOTPLUG),
            reason: comm_text(&exit.reason.map(|c| c as u8)),
            msg: comm_text(&exit.msg.map(|c| c as u8)),
        })
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.detach();
    }
}

/// The bytes of a struct of integers without padding, as the maps take them.
fn bytes_of(row: &raw::spec) -> &[u8] {
    // SAFETY: `spec` has no padding (libbpf-cargo would have made it explicit).
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(row).cast::<u8>(), size_of::<raw::spec>())
    }
}
