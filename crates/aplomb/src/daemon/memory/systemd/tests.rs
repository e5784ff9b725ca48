//! Units in folders that stand for cgroups, on a machine without ages of pages.

use super::super::domain::Home;
use super::super::usable::Usable;
use super::*;
use aplomb_domain::testing::{tree, InFiles};
use aplomb_memory::{Journal, Places, Protector};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::config::MemoryConfig;
use crate::daemon::testing::Fake;

const MB: u64 = 1 << 20;
const MINE: &str = "user.slice/user-1000.slice";
const EDITOR: &str = "user.slice/user-1000.slice/user@1000.service/app.slice/app-editor-1.scope";
const FILM: &str = "user.slice/user-1000.slice/user@1000.service/app.slice/app-film-2.scope";
const OTHER: &str = "user.slice/user-7.slice/user@7.service/app.slice/app-film-3.scope";
const SERVICE: &str = "system.slice/music.service";

struct Machine {
    dir: tempfile::TempDir,
    tree: Tree,
    memory: Memory,
    now: Instant,
}

impl Machine {
    /// 1000 MB that programs can have; each unit uses 100 MB.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("cgroup")).unwrap();
        let units = [EDITOR, FILM, OTHER, SERVICE];
        let tree = tree(&at("cgroup"), &units, InFiles::default());
        let mut memory = Memory::start(MemoryConfig::default(), None);
        let mut journal = Journal::open(&at("run/knobs")).unwrap();
        journal.recover();
        let places = Places {
            cgroup: at("cgroup"),
            debugfs: at("debug"),
            lru_gen: at("lru_gen"),
        };
        memory.usable = Usable::fixed(Bytes(1000 * MB));
        memory.protector = Some(Protector::new(places, journal));
        memory.units = Some(Units::new().unwrap());
        let machine = Self {
            dir,
            tree,
            memory,
            now: Instant::now(),
        };
        for unit in units {
            let unit: DomainPath = unit.parse().unwrap();
            let all = std::iter::successors(Some(unit), DomainPath::parent);
            for domain in all.filter(|d| !d.is_root()) {
                machine.write(&domain.to_string(), "memory.min", "0");
                machine.uses(&domain.to_string(), 100);
            }
        }
        machine
    }

    fn write(&self, domain: &str, file: &str, text: &str) {
        std::fs::write(self.dir.path().join("cgroup").join(domain).join(file), text).unwrap();
    }

    fn uses(&self, domain: &str, mb: u64) {
        self.write(domain, "memory.current", &(mb * MB).to_string());
    }

    /// memory.min, MB. None: max.
    fn protected(&self, domain: &str) -> Option<u64> {
        let knob = self.dir.path().join("cgroup").join(domain);
        let text = std::fs::read_to_string(knob.join("memory.min")).unwrap();
        text.parse::<u64>().ok().map(|n| n / MB)
    }

    fn put(&mut self, pid: i32, unit: &str) {
        let unit = Unit::of(&unit.parse().unwrap()).unwrap();
        let home = Home {
            domain: unit.domain.clone(),
            ours: unit.above(),
            uid: 1000,
            unit: Some(unit),
        };
        let wanted = Wanted {
            named: None,
            pi: Duration::from_secs(1800),
            private: None,
            exact: true,
            own: true,
            revocable: true,
            inherit: true,
            starts_others: false,
        };
        self.memory.put(pid, home, &wanted).unwrap();
    }

    /// Let `seconds` pass, and do what is due.
    fn tick(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.memory
            .tick(Some(&self.tree), self.now, &mut Fake::new());
    }

    fn is_told(&self) -> bool {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let fd = self.memory.knobs_fd().unwrap();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&zero)).unwrap() == 1
    }

    fn is_due(&self) -> bool {
        let units = self.memory.units.as_ref().unwrap();
        units.deadline().is_some()
    }
}

#[test]
fn a_unit_is_protected_with_what_is_above_and_nothing_is_left() {
    let mut m = Machine::new();
    m.write("user.slice", "memory.min", &(MB.to_string())); // an administrator's
    m.put(1, EDITOR);
    m.put(2, FILM);
    assert_eq!(m.protected(EDITOR), None);
    let at_once = m.protected(MINE).unwrap();
    assert!((250..=500).contains(&at_once), "{at_once}");
    m.tick(60);
    for above in [MINE, "user.slice", FILM.rsplit_once('/').unwrap().0] {
        let most = m.protected(above).unwrap();
        assert!((250..=264).contains(&most), "{above}: {most}");
    }
    assert_eq!(m.protected(SERVICE), Some(0));
    m.put(3, SERVICE);
    m.tick(60);
    assert_eq!(m.protected("system.slice"), Some(100), "an eighth of all");
    m.uses(FILM, 400);
    m.put(4, OTHER);
    m.tick(60);
    assert_eq!(m.protected(MINE), Some(500), "the user's limit");
    let users = m.protected("user.slice").unwrap();
    assert!((624..=700).contains(&users), "{users}");
    m.memory.release(2);
    m.memory.release(4);
    m.tick(60);
    assert_eq!((m.protected(FILM), m.protected(EDITOR)), (Some(0), None));
    assert!(m.protected(MINE).unwrap() <= 132);
    assert_eq!(m.protected("user.slice/user-7.slice"), Some(0));
    m.memory.release(1);
    m.memory.release(3);
    m.tick(60);
    for domain in [EDITOR, FILM, OTHER, SERVICE, MINE, "system.slice"] {
        assert_eq!(m.protected(domain), Some(0), "{domain}");
    }
    assert_eq!(m.protected("user.slice"), Some(1));
    assert!(!m.is_due());
}

#[test]
fn what_systemd_writes_anew_is_protected_again() {
    let mut m = Machine::new();
    m.put(1, EDITOR);
    m.tick(60);
    m.memory.knobs_changed(); // by our own writes
    m.tick(60);
    assert!(!m.is_told() && !m.is_due(), "nothing changes");
    let before = m.protected(MINE);
    for knob in [EDITOR, MINE] {
        m.write(knob, "memory.min", "0");
    }
    assert!(m.is_told());
    m.memory.knobs_changed();
    assert!(!m.is_told());
    m.tick(0);
    m.tick(60);
    assert_eq!((m.protected(EDITOR), m.protected(MINE)), (None, before));
    m.memory.end(Some(&m.tree));
    assert_eq!((m.protected(EDITOR), m.protected(MINE)), (Some(0), Some(0)));
    assert!(m.memory.knobs_fd().is_none());
}

#[test]
fn a_unit_that_ends_is_forgotten_and_those_beside_it_go_on() {
    let mut m = Machine::new();
    m.put(1, EDITOR);
    m.put(2, FILM);
    m.tick(60);
    std::fs::remove_dir_all(m.dir.path().join("cgroup").join(FILM)).unwrap();
    m.memory.units.as_mut().unwrap().round_after(PAUSE, m.now);
    m.tick(60);
    assert_eq!(m.memory.units.as_ref().unwrap().protected.len(), 1);
    assert_eq!(m.protected(EDITOR), None);
    m.memory.release(2);
    m.tick(60);
    assert!(m.protected(MINE).unwrap() <= 132);
}
