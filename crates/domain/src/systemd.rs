//! Domains where systemd is process 1. They are slices and scopes, created and changed through
//! systemd's D-Bus interface (org.freedesktop.systemd1), never by writing its cgroups.
//!
//! A domain "media/video" is the slice "media-video.slice", whose cgroup is
//! "media.slice/media-video.slice". A part that names a unit already (.slice, .scope, .service) is
//! used as it is. Slices contain no processes themselves, so a process that is moved into a slice
//! gets a scope there. Settings without a systemd property are in attributes of the directory,
//! which systemd neither knows nor touches.
//!
//! The system manager does not manage cgroups below a service or a scope. A user's own manager
//! keeps that user's units below user@UID.service, and the program of a delegated unit may create
//! any cgroups there. A unit's name does not depend on its place. If the system manager were asked
//! for the app.slice of a user's manager, it would change its own unit of that name. So it is not
//! asked, and only attributes can be set there.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use zbus::blocking::Connection;
use zbus::connection::Builder;
use zbus::proxy::CacheProperties;
use zbus::zvariant::{OwnedObjectPath, Value};

use crate::{
    parse_proc_cgroup, set_mark, Change, DomainError, DomainPath, Manager, Tree, EPHEMERAL,
    USUAL_WEIGHT,
};

/// How long systemd may take to create or remove a cgroup.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the bus may take to let a client in, and systemd to answer one call.
const BUS_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two checks whether systemd has done so.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of a unit's name.
const MAX_UNIT: usize = 255;
/// CPUQuotaPerSecUSec that means no limit.
const NO_QUOTA: u64 = u64::MAX;

type Properties<'a> = Vec<(&'a str, Value<'a>)>;
type Unit<'a> = (&'a str, Properties<'a>);

/// The methods of systemd's manager that this crate calls (org.freedesktop.systemd1(5)).
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1",
    gen_async = false,
    blocking_name = "SystemdManager"
)]
trait SystemdManager {
    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: Properties<'_>,
        others: &[Unit<'_>],
    ) -> zbus::Result<OwnedObjectPath>;

    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;

    fn set_unit_properties(
        &self,
        name: &str,
        runtime: bool,
        properties: Properties<'_>,
    ) -> zbus::Result<()>;

    fn attach_processes_to_unit(
        &self,
        name: &str,
        subcgroup: &str,
        pids: &[u32],
    ) -> zbus::Result<()>;
}

/// True where systemd is process 1 (sd_booted(3)).
pub fn is_booted() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// A connection to systemd.
pub struct Systemd<'a> {
    tree: &'a Tree,
    cpus: u32,
    manager: SystemdManager<'static>,
}

impl<'a> Systemd<'a> {
    /// Connect over the system bus. This may take 5 s, and so may each call of systemd later; the
    /// creation or removal of a unit may take 10 s more.
    ///
    /// # Errors
    /// The bus does not answer in time.
    pub fn connect(tree: &'a Tree, cpus: u32) -> Result<Self, DomainError> {
        let bus = Builder::system().map_err(refused)?;
        Self::on(&connect_within(bus, BUS_PATIENCE)?, tree, cpus)
    }

    fn on(bus: &Connection, tree: &'a Tree, cpus: u32) -> Result<Self, DomainError> {
        // No properties are read, so signals about their changes are not needed.
        let builder = SystemdManager::builder(bus).cache_properties(CacheProperties::No);
        let manager = builder.build().map_err(refused)?;
        Ok(Self {
            tree,
            cpus,
            manager,
        })
    }

    fn start(&self, unit: &str, properties: Properties<'_>) -> Result<(), DomainError> {
        let started = self
            .manager
            .start_transient_unit(unit, "fail", properties, &[]);
        started.map(drop).map_err(refused)
    }

    /// Move a process into the unit `place` if that is a scope or a service. If `place` is a slice,
    /// move it into a new scope in the slice.
    fn adopt(&self, place: &DomainPath, pid: i32) -> Result<DomainPath, DomainError> {
        check_systemd_manages(place)?;
        let pids = vec![u32::try_from(pid).unwrap_or(0)];
        let unit = place.name();
        if !place.is_root() && !unit.ends_with(".slice") {
            let attached = self.manager.attach_processes_to_unit(unit, "", &pids);
            attached.map_err(refused)?;
            return Ok(place.clone());
        }
        let slice = if place.is_root() { "-.slice" } else { unit };
        // The name has pid and time, because an earlier scope of that pid may still exist.
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let scope = format!("aplomb-{pid}-{}{:09}.scope", time.tv_sec, time.tv_nsec);
        self.start(
            &scope,
            vec![
                ("Description", Value::from("started in a domain by aplomb")),
                ("Slice", Value::from(slice)),
                ("PIDs", Value::from(pids)),
                ("CollectMode", Value::from("inactive-or-failed")),
            ],
        )?;
        let scope = place.child(&scope).map_err(|message| DomainError::Wrong {
            place: place.to_string(),
            message,
        })?;
        // systemd's job moves the process. A child that is started before would stay in the old
        // cgroup, so wait for the job.
        // systemd never moves a process that has ended.
        let is_there = || {
            let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup"));
            cgroup.is_ok_and(|text| parse_proc_cgroup(&text).is_ok_and(|now| scope.holds(&now)))
        };
        self.wait(&scope, || is_there() || has_ended(pid))?;
        if !is_there() {
            return Err(DomainError::Manager(format!("process {pid} has ended")));
        }
        Ok(scope)
    }

    fn wait(&self, what: &DomainPath, done: impl Fn() -> bool) -> Result<(), DomainError> {
        let begin = Instant::now();
        while !done() {
            if begin.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let message = format!("{what} is not as asked after {seconds} s");
                return Err(DomainError::Manager(message));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Manager for Systemd<'_> {
    fn place(&self, path: &DomainPath) -> Result<DomainPath, DomainError> {
        place(path)
    }

    fn create(&self, path: &DomainPath, ephemeral: bool) -> Result<bool, DomainError> {
        let place = place(path)?;
        if self.tree.open(&place).is_ok() {
            return Ok(false);
        }
        check_systemd_manages(&place)?;
        if !place.name().ends_with(".slice") {
            return Err(DomainError::Manager(format!(
                "{place} is no slice: scopes and services are made by starting something in them"
            )));
        }
        // Setting a weight, even the default one, makes systemd enable the CPU controller.
        let weight = Value::from(u64::from(USUAL_WEIGHT));
        self.start(
            place.name(),
            vec![
                ("Description", Value::from("a domain made by aplomb")),
                ("CPUWeight", weight),
            ],
        )?;
        self.wait(&place, || self.tree.open(&place).is_ok())?;
        if ephemeral {
            let marked = self.tree.open(&place);
            let marked = marked.and_then(|dir| self.tree.set_mark(&dir, EPHEMERAL, Some("1")));
            if let Err(e) = marked {
                let _ = self.remove(path);
                return Err(e);
            }
        }
        Ok(true)
    }

    fn remove(&self, path: &DomainPath) -> Result<(), DomainError> {
        let place = place(path)?;
        let dir = self.tree.open(&place)?;
        check_systemd_manages(&place)?;
        // Stopping a slice would end all processes in it.
        if place.is_root() || self.tree.files(&dir)?.populated || !dir.children()?.is_empty() {
            return Err(DomainError::State {
                path: self.tree.root().join(place.to_string()),
                why: "it has processes or domains below; move or end them first",
            });
        }
        drop(dir);
        self.manager
            .stop_unit(place.name(), "fail")
            .map_err(refused)?;
        self.wait(&place, || self.tree.open(&place).is_err())
    }

    fn set(&self, path: &DomainPath, changes: &[Change]) -> Result<(), DomainError> {
        let place = place(path)?;
        let dir = self.tree.open(&place)?;
        let properties = properties(changes, self.cpus);
        if !properties.is_empty() {
            check_systemd_manages(&place)?; // before anything is changed
            let unit = if place.is_root() {
                "-.slice"
            } else {
                place.name()
            };
            let set = self.manager.set_unit_properties(unit, true, properties);
            set.map_err(refused)?;
        }
        // The daemon can then write memory.min as soon as it reads the attribute.
        if changes.iter().any(|c| matches!(c, Change::Memory(Some(_)))) {
            self.give_memory(&place)?;
        }
        changes
            .iter()
            .try_for_each(|change| set_mark(self.tree, &dir, change))
    }

    fn move_pid(&self, path: &DomainPath, pid: i32) -> Result<(), DomainError> {
        let place = place(path)?;
        self.tree.open(&place)?;
        self.adopt(&place, pid).map(drop)
    }

    fn enter(&self, path: &DomainPath, ephemeral: bool) -> Result<DomainPath, DomainError> {
        let made = self.create(path, ephemeral)?;
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let entered = self.adopt(&place(path)?, pid);
        if entered.is_err() && made {
            let _ = self.remove(path);
        }
        entered
    }

    fn give_memory(&self, path: &DomainPath) -> Result<(), DomainError> {
        let dir = self.tree.open(path)?;
        check_systemd_manages(path)?;
        if dir.memory_min()?.is_some() {
            return Ok(());
        }
        let accounting = vec![("MemoryAccounting", Value::from(true))];
        let set = self
            .manager
            .set_unit_properties(path.name(), true, accounting);
        set.map_err(refused)?;
        self.wait(path, || dir.memory_min().is_ok_and(|min| min.is_some()))
    }

    fn note_memory(&self, path: &DomainPath) -> Result<(), DomainError> {
        let Some(min) = self.tree.open(path)?.memory_min()? else {
            return Ok(());
        };
        check_systemd_manages(path)?;
        let min = vec![("MemoryMin", Value::from(min))];
        let set = self.manager.set_unit_properties(path.name(), true, min);
        set.map_err(refused)
    }

    fn scope(&self) -> Result<(), DomainError> {
        let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let now = parse_proc_cgroup(&text).map_err(|message| DomainError::Wrong {
            place: "/proc/self/cgroup".into(),
            message,
        })?;
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        self.adopt(&slice_of(&now), pid).map(drop)
    }
}

/// Connect to a bus. The handshake has no time limit of its own, and neither have calls.
fn connect_within(bus: Builder<'_>, patience: Duration) -> Result<Connection, DomainError> {
    let late = || {
        let seconds = patience.as_secs();
        let message = format!("the bus did not let this program in within {seconds} s");
        DomainError::Manager(message)
    };
    let connecting = async {
        let bus = bus.method_timeout(patience).build().await;
        bus.map(Connection::from).map_err(refused)
    };
    async_io::block_on(futures_lite::future::or(connecting, async {
        async_io::Timer::after(patience).await;
        Err(late())
    }))
}

/// True if a process has exited, also while its parent has not waited for it yet.
fn has_ended(pid: i32) -> bool {
    // "PID (NAME) STATE …"; the name may contain any characters.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_none_or(|s| s.starts_with(['Z', 'X']))
}

/// The slice of the system manager that a process is in. The system manager's slices end where a
/// session or a user's manager begins.
fn slice_of(now: &DomainPath) -> DomainPath {
    let mut slice = DomainPath::root();
    for part in now.parts().take_while(|p| p.ends_with(".slice")) {
        slice = slice.child(part).unwrap_or(slice);
    }
    slice
}

/// The properties of a unit that make `changes`. A later change of the same kind replaces an
/// earlier one.
fn properties(changes: &[Change], cpus: u32) -> Properties<'static> {
    let mut all: HashMap<&'static str, u64> = HashMap::new();
    for change in changes {
        match *change {
            Change::Weight(weight) => drop(all.insert("CPUWeight", weight.into())),
            // CPUWeight=0 means "idle" (systemd 252 and later).
            Change::Idle(true) => drop(all.insert("CPUWeight", 0)),
            Change::Idle(false) => drop(all.insert("CPUWeight", USUAL_WEIGHT.into())),
            Change::Max(None) => drop(all.insert("CPUQuotaPerSecUSec", NO_QUOTA)),
            Change::Max(Some(limit)) => {
                let max = limit.on(cpus);
                let a_second = u128::from(max.quota_ns) * 1_000_000 / u128::from(max.period_ns);
                all.insert("CPUQuotaPerSecUSec", a_second as u64);
                all.insert("CPUQuotaPeriodUSec", max.period_ns / 1000);
            }
            Change::Cpu(_)
            | Change::Memory(_)
            | Change::Io(_)
            | Change::NetWeight(_)
            | Change::NetMax(_)
            | Change::Policy(_) => {}
        }
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_unstable();
    all.into_iter()
        .map(|(name, n)| (name, Value::from(n)))
        .collect()
}

/// The cgroup path of a domain's unit. Pure: no call over D-Bus.
///
/// # Errors
/// A part is too long for the name of a unit.
pub fn place(path: &DomainPath) -> Result<DomainPath, DomainError> {
    let wrong = |message: String| DomainError::Wrong {
        place: path.to_string(),
        message,
    };
    let mut place = DomainPath::root();
    // The prefix of the names of slices below. None below a service or a scope, where names are
    // used as they are.
    let mut prefix = Some(String::new());
    for part in path.parts() {
        let unit = match &prefix {
            Some(prefix) if suffix(part).is_none() => format!("{prefix}{}.slice", escape(part)),
            _ => part.to_owned(),
        };
        if unit.len() > MAX_UNIT {
            return Err(wrong(format!("a unit's name has at most {MAX_UNIT} bytes")));
        }
        let slice = prefix.and(unit.strip_suffix(".slice"));
        prefix = slice.map(|name| format!("{name}-"));
        place = place.child(&unit).map_err(wrong)?;
    }
    Ok(place)
}

/// Returns an error if `place` is below a service or a scope, where the system manager has no
/// units.
fn check_systemd_manages(place: &DomainPath) -> Result<(), DomainError> {
    let parts: Vec<&str> = place.parts().collect();
    let outer = parts.iter().position(|part| !part.ends_with(".slice"));
    let Some(outer) = outer.filter(|i| i + 1 < parts.len()) else {
        return Ok(());
    };
    let (unit, below) = (parts[outer], &parts[outer + 1..]);
    let user = unit.strip_prefix("user@");
    let message = match user.and_then(|u| u.strip_suffix(".service")) {
        Some(uid) => {
            // The same holds below a unit of a user's manager.
            let end = below.iter().position(|part| !part.ends_with(".slice"));
            let unit = below[end.unwrap_or(below.len() - 1)];
            format!(
                "{place} belongs to the manager of user {uid}, not to the system's: that user can change it \
                 (systemctl --user set-property {unit} CPUWeight=200) or start what runs there (systemd-run --user)"
            )
        }
        None => format!(
            "{place} is inside {unit}, where systemd has no units: change it with the program \
             that runs there, or write its files, such as cpu.weight, by hand"
        ),
    };
    let others =
        "nothing was changed; cpu= and policy= can be set there, without weight=, max=, idle= or memory=";
    Err(DomainError::Manager(format!("{message} ({others})")))
}

/// The suffix of a unit's name, which says its kind.
fn suffix(part: &str) -> Option<&'static str> {
    [".slice", ".scope", ".service"]
        .into_iter()
        .find(|s| part.len() > s.len() && part.ends_with(s))
}

/// Escapes as systemd-escape(1) does: characters that a unit's name cannot have, and "-", which
/// separates slices, become \xHH.
fn escape(part: &str) -> String {
    let mut out = String::new();
    for (i, b) in part.bytes().enumerate() {
        if b.is_ascii_alphanumeric() || b == b':' || b == b'_' || (b == b'.' && i > 0) {
            out.push(char::from(b));
        } else {
            out += &format!("\\x{b:02x}");
        }
    }
    out
}

fn refused(error: zbus::Error) -> DomainError {
    DomainError::Manager(match error {
        zbus::Error::MethodError(name, text, _) => text.unwrap_or_else(|| name.to_string()),
        e => e.to_string(),
    })
}

#[cfg(test)]
mod tests;
