//! Interfaces whose packets are ordered: which have our qdisc, and that each gets back what it had.
//!
//! The kernel keeps a qdisc when the program that loaded it has died, and it goes on by the weights
//! it knew. So three things put an interface's own qdisc back, by the journal in /run/aplomb/net:
//!
//!  - the daemon, when it ends or is asked to;
//!  - the keeper, a child of the daemon that waits for the daemon's end, and survives a SIGKILL
//!    of it;
//!  - `aplomb restore` (systemd's ExecStopPost), and the next daemon.
//!
//! ```text
//! wanted --- interface appears ---> installed --- removed by request, or the daemon ends ---> as before
//!                                     \-- another program replaces the qdisc, or the interface
//!                                         goes away ---> left alone, and said
//! ```

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use aplomb_domain::Tree;
use aplomb_kernel::{LeafOrder, LinkRate, Qdisc};
use aplomb_net::journal::{self, Entry};
use aplomb_net::{interfaces, kind_of, segments, NetError, Qdiscs, Watch};
use rustix::pipe::{pipe_with, PipeFlags};
use tracing::{info, warn};

pub use settings::{set_the_same, sets_packets, NetSettings};

use crate::protocol::{Code, NetAsk, NetLeaf, NetLine, NetWanted, Refusal, MAX_OVERHEAD};

mod line;
mod settings;

/// Interfaces that may have our qdisc at a time. Each takes 4.5 MB of the kernel's memory.
const MAX_INTERFACES: usize = 16;

/// The interfaces.
pub struct Net {
    journal: std::path::PathBuf,
    watch: Option<Watch>,
    /// From the settings: installed as soon as the interface is there.
    wanted: Vec<NetWanted>,
    installed: BTreeMap<u32, Installed>,
    /// Of domains and their queues.
    settings: NetSettings,
    keeper: Option<Child>,
    /// Its standard input, and the other end. The kernel closes the files of a dead process in the
    /// order of their numbers, and takes a second for the scheduler: so these are opened before it.
    keepers: Option<(OwnedFd, OwnedFd)>,
}

struct Installed {
    qdisc: Qdisc,
    entry: Entry,
    wanted: NetWanted,
}

impl Installed {
    /// Lets packets be as large as the rate allows ([`segments`]), or as they were without one. If
    /// that fails, packets of other domains wait for longer.
    fn fit_packets(&mut self, journal: &Path) {
        if let Err(e) = self.try_to_fit_packets(journal) {
            warn!("{}: {e}", self.entry.name);
        }
    }

    fn try_to_fit_packets(&mut self, journal: &Path) -> Result<(), NetError> {
        let (qdiscs, index) = (Qdiscs::new()?, self.entry.index);
        let now = qdiscs.segments(index)?;
        let before = self.entry.segments.unwrap_or(now);
        let most = self
            .wanted
            .rate
            .map_or(before, |bits| segments::at_rate(bits / 8));
        let most = most.min(before);
        if most == now {
            return Ok(());
        }
        self.entry.segments = Some(before);
        journal::write(journal, &self.entry)?; // first, so that it can be put back
        qdiscs.set_segments(index, most)
    }
}

impl Net {
    /// Put back what an earlier daemon left. To be called before the scheduler is loaded.
    /// `wanted`: of the settings.
    pub fn start(wanted: &[NetWanted]) -> Self {
        let journal = Path::new(journal::DEFAULT);
        for e in journal::restore(journal, None) {
            warn!("{e}");
        }
        Self {
            journal: journal.into(),
            watch: Watch::new()
                .inspect_err(|e| warn!("changes of interfaces are not seen: {e}"))
                .ok(),
            wanted: wanted.to_vec(),
            installed: BTreeMap::new(),
            settings: NetSettings::default(),
            keeper: None,
            keepers: pipe_with(PipeFlags::CLOEXEC)
                .inspect_err(|e| warn!("no keeper of interfaces: {e}"))
                .ok(),
        }
    }

    /// Becomes readable when an interface or its qdisc changes.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// The daemon is ready: install what the settings want.
    pub fn attached(&mut self) {
        if !self.wanted.is_empty() {
            self.expect_notices();
            self.install_wanted();
        }
    }

    /// An interface or a qdisc has changed.
    pub fn changed(&mut self) {
        if let Some(watch) = &self.watch {
            watch.clear();
        }
        let Ok(qdiscs) = Qdiscs::new() else { return };
        let named = interfaces::all();
        let mut left = Vec::new();
        for (&index, installed) in &mut self.installed {
            let name = &mut installed.entry.name;
            if let Some(found) = named.iter().find(|i| i.index == index) {
                name.clone_from(&found.name);
            }
            match qdiscs.root(index) {
                Ok(Some(root)) if root.kind == kind_of(index) => {}
                Ok(None) => {
                    warn!("interface {name} is gone");
                    left.push((index, false));
                }
                Ok(Some(root)) => {
                    let kind = root.kind;
                    warn!("another program gave {name} the queueing discipline {kind}: it is left alone");
                    left.push((index, true));
                }
                Err(e) => warn!("{e}"),
            }
        }
        for (index, was_replaced) in left {
            if let Some(gone) = self.installed.remove(&index) {
                if was_replaced {
                    if let Err(e) = journal::put_segments_back(&qdiscs, &gone.entry) {
                        warn!("{e}");
                    }
                    self.wanted.retain(|w| w.interface != gone.entry.name);
                }
                journal::remove(&self.journal, index);
            }
        }
        self.install_wanted();
    }

    fn install_wanted(&mut self) {
        for wanted in self.wanted.clone() {
            let there = interfaces::find(&wanted.interface);
            if there.is_ok_and(|i| !self.installed.contains_key(&i.index)) {
                match self.install(&wanted) {
                    Ok(text) => info!("{text}"),
                    Err(e) => {
                        warn!("{}: {e}", wanted.interface);
                        // asked again when the daemon starts, not at each notice
                        self.wanted.retain(|w| w.interface != wanted.interface);
                    }
                }
            }
        }
    }

    fn expect_notices(&self) {
        if let Some(Err(e)) = self.watch.as_ref().map(Watch::expect) {
            warn!("changes of interfaces are not seen: {e}");
        }
    }

    /// Answer a question, or make a change. The caller has checked that the client may.
    ///
    /// # Errors
    /// A value is out of range, there is no such interface, or the kernel refuses.
    pub fn ask(&mut self, ask: &NetAsk) -> Result<String, Refusal> {
        match ask {
            NetAsk::List {} => Ok(String::new()),
            NetAsk::Install(wanted) => self.install(wanted),
            NetAsk::Set {
                interface,
                rate,
                overhead,
            } => self.set(interface, *rate, *overhead),
            NetAsk::Remove { interface } => self.remove(interface),
        }
    }

    fn install(&mut self, wanted: &NetWanted) -> Result<String, Refusal> {
        let link = link_of(wanted.rate, wanted.overhead)?;
        let found = interfaces::find(&wanted.interface).map_err(failed)?;
        let (name, index) = (found.name, found.index);
        let refuse = |code, why: &str| Err(Refusal::new(code, format!("{name}: {why}")));
        if self.installed.contains_key(&index) {
            return refuse(
                Code::Failed,
                "its packets are ordered already; change it with: aplomb net set",
            );
        }
        if self.installed.len() >= MAX_INTERFACES {
            return refuse(Code::Limit, "16 interfaces are ordered already");
        }
        let qdiscs = Qdiscs::new().map_err(failed)?;
        let before = qdiscs.root(index).map_err(failed)?;
        if let Some(root) = before.as_ref().filter(|r| !r.is_whole()) {
            let why = format!(
                "it has the queueing discipline {} with classes, which could not be put back; \
                 remove it first: tc qdisc del dev {name} root",
                root.kind
            );
            return refuse(Code::Failed, &why);
        }
        let kind = kind_of(index);
        let mut qdisc = Qdisc::load(index, &kind, order_of(wanted.leaf), link)
            .map_err(|e| Refusal::new(Code::Failed, e.to_string()))?;
        self.settings.apply(&mut qdisc, &NetSettings::default());
        if let Err(e) = count_received(&mut qdisc) {
            warn!("what arrives at {name} is not counted: {e:#}");
        }
        self.keep()
            .map_err(|e| Refusal::new(Code::Failed, format!("the keeper: {e}")))?;
        let before = before.filter(|root| root.was_set);
        let entry = Entry {
            name: name.clone(),
            index,
            options: before.as_ref().map_or(Vec::new(), |r| r.options.clone()),
            kind: before.map(|r| r.kind),
            daemon: std::process::id(),
            segments: None,
        };
        journal::write(&self.journal, &entry).map_err(failed)?;
        self.expect_notices();
        if let Err(e) = qdiscs.set_root(index, &kind, &[]) {
            journal::remove(&self.journal, index);
            return Err(failed(e));
        }
        let mut installed = Installed {
            qdisc,
            entry,
            wanted: NetWanted {
                interface: name.clone(),
                ..*wanted
            },
        };
        installed.fit_packets(&self.journal);
        self.installed.insert(index, installed);
        Ok(format!("the packets of {name} are ordered"))
    }

    /// See that the keeper runs: it waits until its standard input ends, which it does when this
    /// process is gone in whatever way.
    fn keep(&mut self) -> std::io::Result<()> {
        let runs = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        let Some((input, _)) = &self.keepers else {
            return Ok(());
        };
        if !self.keeper.as_mut().is_some_and(runs) {
            let mut command = Command::new("/proc/self/exe");
            let daemon = std::process::id().to_string();
            command.args(["net", "keeper", &daemon]);
            command.stdin(input.try_clone()?);
            command.stdout(Stdio::null()).process_group(0); // Ctrl-C is for the daemon
            self.keeper = Some(command.spawn()?);
        }
        Ok(())
    }

    fn installed(&mut self, name: &str) -> Result<&mut Installed, Refusal> {
        let found = interfaces::find(name).map_err(failed)?;
        self.installed.get_mut(&found.index).ok_or_else(|| {
            let why = format!("the packets of {name} are not ordered: aplomb net install {name}");
            Refusal::new(Code::Failed, why)
        })
    }

    fn set(
        &mut self,
        name: &str,
        rate: Option<u64>,
        overhead: Option<u32>,
    ) -> Result<String, Refusal> {
        let installed = self.installed(name)?;
        let overhead = overhead.unwrap_or(installed.wanted.overhead);
        installed.qdisc.set_link(link_of(rate, overhead)?);
        installed.wanted.rate = rate;
        installed.wanted.overhead = overhead;
        let journal = self.journal.clone();
        self.installed(name)?.fit_packets(&journal);
        Ok(String::new())
    }

    fn remove(&mut self, name: &str) -> Result<String, Refusal> {
        let index = self.installed(name)?.entry.index;
        self.wanted.retain(|w| w.interface != name);
        self.put_back(index).map_err(failed)?;
        Ok(format!("{name} has its own queueing discipline again"))
    }

    /// Give an interface back what it had.
    fn put_back(&mut self, index: u32) -> Result<(), NetError> {
        let Some(installed) = self.installed.remove(&index) else {
            return Ok(());
        };
        journal::put_back(&Qdiscs::new()?, &installed.entry)?;
        journal::remove(&self.journal, index);
        Ok(())
    }

    /// The daemon ends: all interfaces get back what they had.
    pub fn end(&mut self) {
        let all: Vec<u32> = self.installed.keys().copied().collect();
        for index in all {
            if let Err(e) = self.put_back(index) {
                warn!("{e}");
            }
        }
        self.keepers = None;
        if let Some(mut keeper) = self.keeper.take() {
            let _ = keeper.wait();
        }
    }

    /// From now on these are the settings of domains; all others have the default.
    pub fn set_domains(&mut self, settings: NetSettings) {
        let before = std::mem::replace(&mut self.settings, settings);
        for installed in self.installed.values_mut() {
            self.settings.apply(&mut installed.qdisc, &before);
        }
    }

    /// The interfaces, for people.
    pub fn lines(&self) -> Vec<NetLine> {
        let all = self.installed.values();
        all.map(|installed| line::line(installed, &self.settings))
            .collect()
    }
}

fn count_received(qdisc: &mut Qdisc) -> anyhow::Result<()> {
    let root = std::fs::File::open(Tree::system()?.root())?;
    Ok(qdisc.count_received(root.as_fd())?)
}

fn order_of(leaf: NetLeaf) -> LeafOrder {
    LeafOrder {
        by_flow: leaf == NetLeaf::Fair,
        drop_old: leaf != NetLeaf::Fifo,
    }
}

fn link_of(rate: Option<u64>, overhead: u32) -> Result<LinkRate, Refusal> {
    let invalid = |m| Err(Refusal::new(Code::Invalid, m));
    if rate.is_some_and(|r| !aplomb_spec::RATES.contains(&r)) {
        return invalid("the rate is not between 8kbit and 1000Gbit".into());
    }
    if overhead > MAX_OVERHEAD {
        return invalid(format!("the overhead is more than {MAX_OVERHEAD} bytes"));
    }
    Ok(LinkRate {
        rate: rate.unwrap_or(0) / 8,
        overhead,
    })
}

fn failed(e: NetError) -> Refusal {
    Refusal::new(Code::Failed, e.to_string())
}

/// Put back what a killed daemon has left, or only the one with this process id. Returns what went
/// wrong.
pub fn restore(of: Option<u32>) -> Vec<NetError> {
    journal::restore(Path::new(journal::DEFAULT), of)
}

#[cfg(test)]
mod tests;
