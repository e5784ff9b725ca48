//! The daemon: loads specs and scheduler, keeps the specs current, and answers on the socket.
//!
//! Its loop is one thread with one epoll; what may have to wait is done by others (errands.rs). All
//! scheduling decisions are made in the kernel, so the daemon may sleep. It wakes up for a request,
//! an event, a changed file, the exit of a process with a reservation, and a signal. When it ends
//! in any way, its file descriptors are closed, and the kernel detaches the scheduler.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aplomb_domain::Tree;
use aplomb_kernel::{Event, EventKind, Kernel, LoadError, Settings};

use crate::config::Config;
use crate::domains::is_managed;
use crate::exit::{Exit, Failure};
use sd_notify::NotifyState;
use tracing::{info, warn};

mod boost;
mod budget;
mod clients;
mod descriptors;
mod disk;
mod domains;
pub mod ejections;
mod errands;
mod history;
mod library;
pub mod lock;
mod manager;
mod memory;
pub mod net;
mod oom;
mod poll;
mod reload;
mod reservations;
mod restart;
mod seats;
mod signals;
mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod watch;

pub use library::Sources;
pub use memory::restore;

use boost::Boost;
use budget::warn_about;
use clients::{Clients, Effect};
use disk::Disk;
use domains::Domains;
use ejections::Ejections;
use errands::Errands;
use library::Library;
use manager::{notify, Heartbeat};
use memory::Memory;
use net::Net;
use oom::Oom;
use poll::{Interest, Poll, Source};
use restart::load_patiently;
use seats::Seats;
use signals::{drain, Signals};
use state::State;

/// Events taken from the kernel before other sources are served: a flood must not lock clients out.
/// The start or exit of a protected program costs milliseconds, and a client waits for 30 s.
const EVENTS_PER_WAKEUP: usize = 64;
/// Time from a change of a file until the daemon reads the files, so that it reads them once for a
/// burst of changes.
const SETTLE: Duration = Duration::from_millis(300);

/// Options of the daemon.
#[derive(Debug, Clone)]
pub struct Options {
    /// The configuration file. None means the default path, where the file may be missing.
    pub config: Option<PathBuf>,
    pub socket: PathBuf,
    pub sources: Sources,
}

/// Loads the kernel side: [`aplomb_kernel::Scheduler::load`], or a stand-in in tests.
pub type Loader = Box<dyn FnMut(&Settings) -> Result<Box<dyn Kernel>, LoadError>>;

/// Run the daemon until a signal or a request stops it.
///
/// # Errors
///
/// The daemon could not start, or the kernel ended the scheduler. In both cases the stock scheduler
/// runs. [`crate::exit::code_of`] has the exit code.
pub fn run(options: &Options, load: Loader) -> Result<()> {
    let tree = Tree::system()
        .inspect_err(|e| warn!("no domains: {e}"))
        .ok();
    Daemon::start(options, load, tree)?.serve()
}

struct Daemon {
    poll: Poll,
    socket: lock::Socket,
    signals: Signals,
    watch: watch::Watch,
    /// Becomes ready when a file system is mounted or unmounted.
    _mounts: File,
    clients: Clients,
    state: State,
    load: Loader,
    /// The time at which to read changed files, and which ones changed.
    settle: Option<(Instant, watch::Changed)>,
    restarts: VecDeque<Instant>,
    /// The time of the last restart, and of the next one if it has to wait.
    restarted: Option<Instant>,
    restart_at: Option<Instant>,
    ejections: Ejections,
    heartbeat: Option<Heartbeat>,
    // The last field, so that the lock is released after everything else is dropped.
    _lock: lock::Lock,
}

/// What the daemon does next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Stop,
}

impl Daemon {
    fn start(options: &Options, mut load: Loader, tree: Option<Tree>) -> Result<Self> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        let mut config =
            Config::load(options.config.as_deref()).map_err(|e| usage(e.to_string()))?;
        let lock = lock::take(&options.socket)?;
        descriptors::raise();
        let library = Library::open(options.sources.clone())?;
        let signals = Signals::new().context("signal handlers")?;
        let poll = Poll::new()?;
        let socket = lock::listen(&options.socket, &lock)?;
        config.kernel.dirty = disk::limits(config.disk)?;
        config.kernel.order_disks = config.disk.order;
        config.kernel.count_disks = config.disk.account;
        let net = Net::start(&config.net);
        let boost = Boost::new();
        let kernel = load_patiently(&mut load, &config.kernel)?;
        // This one finds what children inherited by the domains, which the next may empty.
        let oom = Oom::start(config.memory, tree.as_ref());
        let memory = Memory::start(config.memory, tree.as_ref());
        let mut state = State {
            disk: Disk::start(config.disk),
            net,
            looking: Vec::new(),
            seats: Seats::system(),
            memory,
            oom,
            config,
            library,
            kernel,
            history: history::History::default(),
            reservations: reservations::Reservations::default(),
            domains: Domains::new(tree).context("inotify")?,
            attached: None,
            restarts: 0,
            release: aplomb_kernel::facts::Machine::here().release(),
        };
        let file = options.config.as_deref();
        let file = file.unwrap_or(Path::new(crate::config::PATH)).display();
        let tables = &state.config.domains;
        state.domains.create(tables, &file.to_string());
        poll.add(&signals.stop, Source::StopSignal, Interest::Read)?;
        poll.add(&signals.reload, Source::ReloadSignal, Interest::Read)?;
        poll.add(&socket.listener, Source::Listener, Interest::Read)?;
        if let Some(tree) = state.domains.tree().filter(|tree| tree.is_system()) {
            let errands = Errands::start(|| Tree::system().ok()).context("threads")?;
            poll.add(&errands, Source::Errands, Interest::Read)?;
            if is_managed(tree) {
                state.memory.use_errands(errands.clone());
            }
            state.domains.use_errands(errands);
        }
        let watch = watch::Watch::new().context("inotify")?;
        poll.add(&watch, Source::Files, Interest::Read)?;
        let mounts = watch::mounts().context("the mount table")?;
        poll.add(&mounts, Source::Mounts, Interest::Priority)?;
        if let Some(fd) = state.domains.watch_fd() {
            poll.add(fd, Source::Cgroups, Interest::Read)?;
        }
        if let Some(trigger) = state.memory.pressure() {
            poll.add(trigger, Source::Pressure, Interest::Priority)?;
        }
        if let Some(fd) = state.memory.knobs_fd() {
            poll.add(fd, Source::Knobs, Interest::Read)?;
        }
        if let Some(fd) = state.seats.fd() {
            poll.add(fd, Source::Seats, Interest::Read)?;
        }
        if let Some(fd) = state.net.fd() {
            poll.add(fd, Source::Interfaces, Interest::Read)?;
        }
        if let Some(trigger) = state.oom.trigger() {
            poll.add(trigger, Source::EarlyPressure, Interest::Priority)?;
        }
        if let Some(fd) = state.oom.oomd() {
            poll.add(fd, Source::Oomd, Interest::Read)?;
        }
        let mut daemon = Self {
            poll,
            socket,
            signals,
            watch,
            _mounts: mounts,
            clients: Clients::default(),
            state,
            load,
            settle: None,
            restarts: VecDeque::new(),
            restarted: None,
            restart_at: None,
            ejections: Ejections::read(&options.socket),
            heartbeat: Heartbeat::asked(),
            _lock: lock,
        };
        daemon.watch_files();
        // A file may have changed between its reading and the start of its watch.
        daemon.state.library.resolve_again()?;
        daemon.attach().inspect_err(|_| daemon.put_back())?;
        drop(boost);
        daemon
            .state
            .library
            .warn_of_unreachable_guarantees(daemon.state.config.kernel.r_max_ppm);
        info!("{}", daemon.state.library.summary());
        info!("ready: scheduler aplomb attached");
        notify(&[NotifyState::Ready]);
        Ok(daemon)
    }

    /// Write specs and settings into the loaded kernel side and attach it.
    fn attach(&mut self) -> Result<()> {
        let state = &mut self.state;
        state.apply_specs(false)?;
        state.seats.tell(&mut *state.kernel);
        state.kernel.attach()?;
        if state.config.disk.limit_dirty && !state.kernel.limits_dirty() {
            warn!("limit-dirty has no effect: this kernel has no function balance_dirty_pages_ratelimited_flags");
        }
        // Match the programs that were running before.
        state.kernel.rematch()?;
        state.attached = Some(Instant::now());
        state.domains.kernel_reloaded(&mut *state.kernel);
        state.disk.attached(&mut *state.kernel);
        state.net.attached();
        if let Some(fd) = state.kernel.event_fd() {
            self.poll.add(fd, Source::Events, Interest::Read)?;
        }
        Ok(())
    }

    /// Serve until a signal or a request stops it, or the kernel ends the scheduler. In each case
    /// what the daemon changed is put back.
    fn serve(mut self) -> Result<()> {
        let served = self.serve_until_stopped();
        notify(&[NotifyState::Stopping]);
        self.put_back();
        served.inspect(|()| info!("detached: the kernel's own scheduler runs"))
    }

    /// Detach the scheduler, put back all knobs and processes, and remove our domains.
    fn put_back(&mut self) {
        self.state.kernel.detach();
        self.clients.close(&mut self.state);
        self.state.oom.end(); // before its processes leave their domains
        self.state.memory.end(self.state.domains.tree());
        self.state.disk.end();
        self.state.net.end();
        self.state.domains.end();
    }

    fn serve_until_stopped(&mut self) -> Result<()> {
        loop {
            self.state.reserve_memory();
            self.state.set_packets();
            let settle = self.settle.map(|(at, _)| at);
            let (domains, memory) = (self.state.domains.deadline(), self.state.memory.deadline());
            let (oom, disk) = (self.state.oom.deadline(), self.state.disk.deadline());
            let deadline = [
                self.clients.deadline(),
                settle,
                domains,
                memory,
                oom,
                disk,
                self.restart_at,
                self.heartbeat.as_ref().map(Heartbeat::due),
            ]
            .into_iter()
            .flatten()
            .min();
            let ready = self.poll.wait(deadline)?;
            let mut next = Next::Continue;
            for source in ready {
                if self.handle(source)? == Next::Stop {
                    next = Next::Stop;
                }
            }
            if next == Next::Stop {
                self.ejections.forget();
                return Ok(());
            }
            let now = Instant::now();
            if let Some(heartbeat) = &mut self.heartbeat {
                heartbeat.tick(now);
            }
            self.clients.tick(now, &self.poll);
            self.clients
                .accept_again(now, &self.socket.listener, &self.poll);
            self.state.tick(now);
            if self.restart_at.is_some_and(|at| at <= now) {
                self.restart()?;
            }
            if let Some((_, changed)) = self.settle.take_if(|(at, _)| *at <= now) {
                self.files_changed(changed);
            }
        }
    }

    fn handle(&mut self, source: Source) -> Result<Next> {
        match source {
            Source::StopSignal => {
                drain(&mut self.signals.stop);
                return Ok(Next::Stop);
            }
            Source::ReloadSignal => self.hangup(),
            Source::Listener => {
                let (listener, kernel) = (&self.socket.listener, &*self.state.kernel);
                self.clients.accept(listener, &self.poll, kernel);
            }
            Source::Files => {
                let new = self.watch.read();
                self.read_files_soon(new);
            }
            // A directory of programs may lie in another file system now. (poll(2) itself marks the
            // change as seen.)
            Source::Mounts => self.read_files_soon(watch::Changed {
                programs: true,
                specs: false,
            }),
            Source::Cgroups => {
                let state = &mut self.state;
                state.domains.changed(&mut *state.kernel);
            }
            Source::Pressure => self.state.memory_short(),
            Source::Knobs => self.state.memory.knobs_changed(),
            Source::Seats => {
                let state = &mut self.state;
                state.seats.changed(&mut *state.kernel);
            }
            Source::Interfaces => self.state.net.changed(),
            Source::Events => return self.events().map(|()| Next::Continue),
            Source::EarlyPressure => self.state.oom.memory_is_short(),
            Source::Oomd => {
                self.state.record_killed();
                self.clients.new_events(&self.poll, &mut self.state);
            }
            Source::Errands => {
                let state = &mut self.state;
                let given = state.memory.was_given();
                state.domains.errands_done(given, &mut *state.kernel);
                for (id, answer) in self.state.take_looked() {
                    self.clients
                        .answer(id, &answer, &self.poll, &mut self.state);
                }
            }
            Source::Client(id) => match self.clients.ready(id, &self.poll, &mut self.state) {
                Some(Effect::Watch(pid)) => self.watch_process(pid),
                Some(Effect::Reload(id)) => {
                    let answer = self.reload();
                    self.clients
                        .answer(id, &answer, &self.poll, &mut self.state);
                }
                Some(Effect::Look(id, domain)) => self.state.await_look(id, domain),
                Some(Effect::Stop) => {
                    info!("a client asked the daemon to stop");
                    return Ok(Next::Stop);
                }
                None => {}
            },
            // The kernel side saw the exit too. Here only the table entry is freed.
            Source::Process(pid) => {
                if let Some(gone) = self.state.reservations.remove(pid) {
                    self.poll.remove(&gone.process);
                }
            }
        }
        Ok(Next::Continue)
    }

    fn watch_process(&mut self, pid: i32) {
        if let Some(r) = self.state.reservations.get(pid) {
            if let Err(e) = self
                .poll
                .add(&r.process, Source::Process(pid), Interest::Read)
            {
                // The next request for a reservation checks for exited processes.
                warn!("the end of process {pid} will not be seen at once: {e}");
            }
        }
    }

    /// Take the events of the kernel side, or handle its end.
    fn events(&mut self) -> Result<()> {
        let events = self.state.kernel.take_events(EVENTS_PER_WAKEUP);
        for event in &events {
            if event.kind == EventKind::Limit {
                warn_about(event.user, &limit_reached(event));
            }
            if event.kind == EventKind::Matched {
                if let Some(domain) = self.state.library.domain_of(event.spec_id) {
                    self.state.domains.recognised(event, domain);
                }
            }
            self.state.follow_memory(event);
            self.state.follow_oom(event);
            let state = &mut self.state;
            state.disk.follow(event, Instant::now(), &mut *state.kernel);
            if event.kind == EventKind::Exited {
                self.state.domains.retry_refused_soon(Instant::now());
            }
            self.state.history.push(*event);
        }
        if !events.is_empty() {
            self.clients.new_events(&self.poll, &mut self.state);
        }
        match self.state.kernel.exited() {
            Some(exit) if self.state.attached.is_some() => self.ended(&exit),
            _ => Ok(()),
        }
    }
}

/// The text for a reached limit of the kernel side: one for processes, two for cgroups.
fn limit_reached(event: &Event) -> String {
    use aplomb_kernel::limits::{
        MAX_DEPTH, MAX_DOMAINS, MAX_OWNED, MAX_OWNED_DOMAINS, MAX_SERVERS,
    };
    let pid = event.pid;
    if pid <= 0 {
        let why = match u32::try_from(event.a).unwrap_or_default() {
            MAX_DEPTH => format!("it is more than {MAX_DEPTH} levels below the root"),
            MAX_DOMAINS => format!("all {MAX_DOMAINS} places for domains are taken"),
            MAX_OWNED_DOMAINS => {
                format!("its user has {MAX_OWNED_DOMAINS} domains, the most of one user")
            }
            _ => "the cgroup above it is none either".into(),
        };
        let cgroup = event.b;
        return format!(
            "cgroup {cgroup} is no domain of its own, its tasks are its ancestor's: {why}"
        );
    }
    if event.a == u64::from(MAX_OWNED) {
        return format!(
            "all {MAX_OWNED} places for interactive tasks of one user are taken: process {pid} stays best-effort"
        );
    }
    format!(
        "all {MAX_SERVERS} places for interactive tasks are taken: process {pid} stays best-effort"
    )
}
