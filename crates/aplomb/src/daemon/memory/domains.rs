//! Puts the reservations of memory in the attributes of domains into force (Eclipse section 6.4):
//! memory.min of the domain and of those above it, through the journal of knobs.
//!
//! The domains of the top level may have together what programs can have of the machine's memory,
//! less the part that best-effort work keeps (`aplomb_memory::psap::floor`), less what the
//! protection of programs may take. They need no protection of programs: they are in force too if
//! that is off. Then the journal is opened for the first one.

use std::collections::BTreeMap;

use aplomb_domain::{DomainError, DomainPath, Tree};
use aplomb_memory::reservations::Account;
use aplomb_memory::Bytes;
use tracing::warn;

use super::domain::top;
use super::Memory;
use crate::daemon::errands::Errands;
use crate::domains::{is_managed, with_manager};
use crate::protocol::{DomainTable, MemoryAccount};

/// What a domain's attribute asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The cgroup's id: another cgroup may have taken the name of one that was removed.
    pub cgid: u64,
    pub bytes: u64,
}

/// The reservations of domains.
#[derive(Debug, Default)]
pub struct DomainReservations {
    /// Those in force, and the cgroup that has each.
    in_force: BTreeMap<DomainPath, u64>,
    /// Why the others are not.
    refused: BTreeMap<DomainPath, String>,
    /// The service manager was asked to give a domain its file memory.min.
    asked: bool,
}

impl DomainReservations {
    /// Why the attribute of a domain is not in force.
    pub fn refused(&self, path: &DomainPath) -> Option<&str> {
        self.refused.get(path).map(String::as_str)
    }
}

/// memory.min of these domains changed: tell the service manager, where it owns the tree. After an
/// error the others are not tried: a manager that does not answer costs one time limit.
///
/// # Errors
/// The manager refuses, or does not answer.
pub(super) fn note(tree: &Tree, domains: &[DomainPath]) -> Result<(), String> {
    for path in domains.iter().filter(|_| is_managed(tree)) {
        match with_manager(tree, |m| m.note_memory(path)) {
            Ok(()) | Err(DomainError::Missing(_)) => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    Ok(())
}

/// Give a domain its file memory.min. Where the service manager has to do it, it is asked, and this
/// is an error until it has.
fn give(tree: &Tree, errands: Option<&Errands>, path: &DomainPath) -> Result<(), String> {
    let text = |e: DomainError| e.to_string();
    let Some(errands) = errands else {
        return with_manager(tree, |m| m.give_memory(path)).map_err(text);
    };
    if tree
        .open(path)
        .and_then(|dir| dir.memory_min())
        .map_err(text)?
        .is_some()
    {
        return Ok(());
    }
    let domain = path.clone();
    errands.add(0, move |tree| {
        with_manager(tree, |m| m.give_memory(&domain)).map_err(|e| e.to_string())
    })?;
    Err(ASKED.into())
}

/// Why a domain without the file memory.min has no reservation yet.
const ASKED: &str = "systemd was asked for its memory controller; it is in force when it has it";

impl Memory {
    /// Have the calls of the service manager made by `errands` from now on.
    pub fn use_errands(&mut self, errands: Errands) {
        self.errands = Some(errands);
    }

    /// The service manager has answered. True if a domain may have got its file memory.min.
    pub fn was_given(&mut self) -> bool {
        std::mem::take(&mut self.of_domains.asked)
    }

    /// The attributes of domains ask for these reservations, and for no others.
    pub fn reserve_domains(&mut self, tree: &Tree, asked: &BTreeMap<DomainPath, Asked>) {
        self.of_domains.refused.clear();
        if self.protector.is_none() {
            if asked.is_empty() || !tree.is_system() {
                return;
            }
            match self.open(tree) {
                Ok(protector) => self.protector = Some(protector),
                Err(e) => {
                    let why = format!("{e:#}");
                    let refused = asked.keys().map(|path| (path.clone(), why.clone()));
                    self.of_domains.refused.extend(refused);
                    return warn!("no memory is reserved for domains: {why}");
                }
            }
        }
        let most = self.most_of_domains();
        let (Some(protector), state) = (&mut self.protector, &mut self.of_domains) else {
            return;
        };
        let mut wanted = protector.reservations().clone();
        // What goes first, so that there is room for what comes.
        state.in_force.retain(|path, cgid| {
            let stays = asked.get(path).is_some_and(|a| a.cgid == *cgid);
            if !stays {
                let _ = wanted.set(path, None, most); // what takes less always fits
            }
            stays
        });
        let before = protector.reservations().clone();
        let mut changes = vec![wanted.clone()];
        // Those that shrink, then the others, each domain before those below it.
        let grows = |path: &DomainPath, a: &Asked| before.own(path).is_none_or(|b| a.bytes > b.0);
        let (more, less): (Vec<_>, Vec<_>) = asked.iter().partition(|(p, a)| grows(p, a));
        for (path, Asked { cgid, bytes }) in less.into_iter().chain(more) {
            if wanted.own(path) == Some(Bytes(*bytes)) {
                continue;
            }
            let set = match top().holds(path) {
                true => Err("it is made for one program, whose spec may have memory".into()),
                false => wanted
                    .set(path, Some(Bytes(*bytes)), most)
                    .map_err(|e| e.to_string()),
            };
            let given = set.and_then(|()| {
                give(tree, self.errands.as_ref(), path).inspect_err(|_| {
                    let _ = wanted.set(path, before.own(path), Bytes(u64::MAX));
                })
            });
            match given {
                Ok(()) => drop(state.in_force.insert(path.clone(), *cgid)),
                Err(why) => {
                    state.asked |= why == ASKED;
                    warn!("not in force: {path}: memory: {why}");
                    state.refused.insert(path.clone(), why);
                }
            }
        }
        changes.push(wanted);
        for change in changes {
            if let Err(e) = protector.reserve(change) {
                warn!("{e}");
            }
        }
        let after = protector.reservations();
        let both = before.needing().chain(after.needing());
        let changed = both.filter(|(path, _)| before.need(path) != after.need(path));
        let changed: Vec<DomainPath> = changed.map(|(path, _)| path.clone()).collect();
        if let Some(errands) = self.errands.as_ref().filter(|_| !changed.is_empty()) {
            if let Err(e) = errands.add(0, move |tree| note(tree, &changed)) {
                warn!("{e}");
            }
        }
    }

    /// The domains whose memory.min depends on reservations.
    pub(super) fn domains_that_need(&self) -> Vec<DomainPath> {
        let reservations = self
            .protector
            .iter()
            .flat_map(|p| p.reservations().needing());
        reservations.map(|(path, _)| path.clone()).collect()
    }

    /// The reservations of domains.
    pub fn of_domains(&self) -> &DomainReservations {
        &self.of_domains
    }

    /// What the domains of the top level may have together.
    fn most_of_domains(&self) -> Bytes {
        let programs = match self.config.protect {
            true => self.most_of(0).0,
            false => 0,
        };
        Bytes(self.room().0.saturating_sub(programs))
    }

    /// Write the reservations of memory into the table of domains.
    pub fn fill(&self, table: &mut DomainTable) {
        let none = aplomb_memory::Reservations::default();
        let reservations = self.protector.as_ref().map_or(&none, |p| p.reservations());
        let most = self.most_of_domains();
        for line in table.domains.iter_mut().filter(|line| !line.gone) {
            let Ok(path) = line.path.parse::<DomainPath>() else {
                continue; // just made, or removed
            };
            let Account {
                reserved,
                sum,
                limit,
            } = reservations.account(&path, most);
            line.memory = Some(MemoryAccount {
                reserved: reserved.map(|b| b.0),
                sum: sum.0,
                limit: limit.0,
            });
            if let Some(why) = self.of_domains.refused(&path) {
                let memory = format!("memory: {why}");
                line.refused = Some(match line.refused.take() {
                    Some(other) => format!("{other}; {memory}"),
                    None => memory,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::usable::Usable;
    use super::*;
    use crate::config::MemoryConfig;
    use crate::protocol::DomainLine;
    use aplomb_domain::testing::{tree, InFiles};
    use aplomb_memory::{Journal, Places, Protector};
    use std::fs;
    use std::path::Path;

    const MB: u64 = 1 << 20;

    fn path(text: &str) -> DomainPath {
        text.parse().unwrap()
    }

    /// A machine with 1000 MB for programs and these domains, in a folder.
    fn machine(root: &Path, protect: bool, names: &[&str]) -> (Tree, Memory) {
        let cgroups = root.join("cgroup");
        fs::create_dir(&cgroups).unwrap();
        let tree = tree(&cgroups, names, InFiles::default());
        for name in names {
            for file in ["memory.min", "memory.current"] {
                fs::write(cgroups.join(name).join(file), "0\n").unwrap();
            }
        }
        let config = MemoryConfig {
            protect,
            ..MemoryConfig::default()
        };
        let mut memory = Memory::start(config, None);
        (memory.usable, memory.floor) = (Usable::fixed(Bytes(1000 * MB)), Bytes(MB));
        let mut journal = Journal::open(&root.join("knobs")).unwrap();
        journal.recover();
        memory.protector = Some(Protector::new(Places::system(&cgroups), journal));
        (tree, memory)
    }

    fn asked(all: &[(&str, u64)]) -> BTreeMap<DomainPath, Asked> {
        let one = |(name, mb): &(&str, u64)| {
            let bytes = mb * MB;
            (path(name), Asked { cgid: 1, bytes })
        };
        all.iter().map(one).collect()
    }

    fn min(root: &Path, name: &str) -> u64 {
        let text = fs::read_to_string(root.join("cgroup").join(name).join("memory.min"));
        text.unwrap().trim().parse::<u64>().unwrap() / MB
    }

    fn account(memory: &Memory, name: &str) -> (Option<u64>, u64, u64, Option<String>) {
        let line = DomainLine {
            path: name.into(),
            refused: Some("no CPU time".into()),
            ..DomainLine::default()
        };
        let mut table = DomainTable {
            more: false,
            time_ns: 1,
            cpus: 1,
            domains: vec![line],
            disk_account: None,
        };
        memory.fill(&mut table);
        let line = &table.domains[0];
        let MemoryAccount {
            reserved,
            sum,
            limit,
        } = line.memory.unwrap();
        (
            reserved.map(|b| b / MB),
            sum / MB,
            limit / MB,
            line.refused.clone(),
        )
    }

    #[test]
    fn attributes_come_into_force_and_what_does_not_fit_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let (tree, mut memory) = machine(root, false, &["a", "a/b", "c"]);
        memory.reserve_domains(&tree, &asked(&[("a/b", 300), ("c", 600)]));
        assert_eq!(
            (min(root, "a/b"), min(root, "a"), min(root, "c")),
            (300, 300, 600)
        );
        let refused = Some("no CPU time".into());
        assert_eq!(account(&memory, "c"), (Some(600), 900, 999, refused));
        // It grows beyond what is left. The old reservation stays.
        memory.reserve_domains(&tree, &asked(&[("a/b", 400), ("c", 600)]));
        let why = memory.of_domains().refused(&path("a/b")).unwrap();
        assert!(
            why.contains("400.0 MiB of memory is more than the 399.0 MiB left"),
            "{why}"
        );
        assert_eq!(min(root, "a/b"), 300);
        let (reserved, _, _, refused) = account(&memory, "a/b");
        assert_eq!(reserved, Some(300));
        assert!(refused.unwrap().starts_with("no CPU time; memory: 400.0"));
        // What another domain gives up is there at once.
        memory.reserve_domains(&tree, &asked(&[("a/b", 400), ("c", 599)]));
        assert_eq!((min(root, "a/b"), min(root, "c")), (400, 599));
        assert_eq!(memory.of_domains().refused(&path("a/b")), None);
        // Another cgroup of the same name: its knob is turned anew.
        fs::write(root.join("cgroup/c/memory.min"), "0\n").unwrap();
        let mut all = asked(&[("a/b", 400), ("c", 599)]);
        all.get_mut(&path("c")).unwrap().cgid = 2;
        memory.reserve_domains(&tree, &all);
        assert_eq!(min(root, "c"), 599);
        memory.end(None);
        assert_eq!(
            (min(root, "a/b"), min(root, "a"), min(root, "c")),
            (0, 0, 0)
        );
    }

    #[test]
    fn programs_have_what_is_theirs_and_no_place_of_theirs_is_a_domain() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let (tree, mut memory) = machine(root, true, &["a", "aplomb", "aplomb/7"]);
        memory.reserve_domains(&tree, &asked(&[("a", 201), ("aplomb/7", 1)]));
        let why = |memory: &Memory, p| memory.of_domains().refused(&path(p)).map(str::to_owned);
        let of_a = why(&memory, "a").unwrap();
        assert!(
            of_a.contains("more than the 199.0 MiB left"),
            "80 % and the floor: {of_a}"
        );
        assert!(why(&memory, "aplomb/7")
            .unwrap()
            .contains("made for one program"));
        memory.reserve_domains(&tree, &asked(&[("a", 199), ("missing", 0)]));
        assert_eq!((min(root, "a"), why(&memory, "a")), (199, None));
        let missing = why(&memory, "missing").unwrap();
        assert!(missing.contains("no domain missing"), "{missing}");
        assert_eq!(account(&memory, "/").1, 199);
    }

    #[test]
    fn a_tree_of_a_test_turns_no_knob_of_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, _) = machine(dir.path(), false, &["a"]);
        let mut memory = Memory::start(MemoryConfig::default(), None);
        memory.reserve_domains(&tree, &asked(&[("a", 1)]));
        assert!(memory.protector.is_none());
    }
}
