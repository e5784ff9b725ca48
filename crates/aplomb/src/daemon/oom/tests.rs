//! Values of real processes. Theirs are raised first, so that none is lowered below what an
//! unprivileged process may write.

use super::*;
use std::process::{Child, Command};

const MEMINFO_TEXT: &str = "MemTotal: 1024000 kB\nMemAvailable: 1024000 kB\nSwapTotal: 0 kB\n";
/// Own value of the processes of these tests.
const BASE: i16 = 900;

/// A process that sleeps, with its own value.
struct Sleeper(Child);

impl Sleeper {
    fn new(adj: i16) -> Self {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let sleeper = Self(child);
        std::fs::write(sleeper.file(), adj.to_string()).unwrap();
        sleeper
    }

    fn file(&self) -> String {
        format!("/proc/{}/{KNOB}", self.0.id())
    }

    fn adj(&self) -> i16 {
        let text = std::fs::read_to_string(self.file()).unwrap();
        text.trim().parse().unwrap()
    }

    /// As it is now, but in a cgroup of ours and with `size`.
    fn seen(&self, mb: u64) -> Seen {
        let pid = self.0.id() as i32;
        let stat = procfs::process::Process::new(pid).unwrap().stat().unwrap();
        Seen {
            size: Bytes(mb << 20),
            cgroup: "aplomb/0/sleep-1".parse().unwrap(),
            adj: self.adj(),
            start: stat.starttime,
            uid: 1000,
            pid,
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn on(dir: &Path) -> On {
    let config = MemoryConfig {
        protect: true,
        ..MemoryConfig::default()
    };
    // A child that another test forks has the lock of a journal that is closed here, until it
    // execs.
    let open = || On::new(config, dir, &dir.join("run/oom"));
    for _ in 0..200 {
        if let Ok(on) = open() {
            return on;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    open().unwrap()
}

#[test]
fn a_process_has_a_discount_while_memory_is_short() {
    let dir = tempfile::tempdir().unwrap();
    let mut on = on(dir.path());
    let (player, other) = (Sleeper::new(BASE), Sleeper::new(BASE));
    on.apply(&[player.seen(92)], MEMINFO_TEXT).unwrap();
    let unit = oom::unit(Bytes(1_024_000 << 10), cgroup::page_size());
    let units = (Bytes(100 << 20).0).div_ceil(unit.0) as i16; // 8 MB are headroom
    assert_eq!((player.adj(), other.adj()), (BASE - units, BASE));
    // It grows, and another one comes.
    on.apply(&[player.seen(192), other.seen(0)], MEMINFO_TEXT)
        .unwrap();
    assert!(player.adj() < BASE - units && other.adj() < BASE);
    // One is interactive no longer.
    on.apply(&[player.seen(192)], MEMINFO_TEXT).unwrap();
    assert_eq!(other.adj(), BASE);
    on.calm();
    assert_eq!(player.adj(), BASE);
    assert!(on.given.is_empty() && on.journal.is_empty() && on.range.is_none());
}

#[test]
fn raising_a_value_gains_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut on = on(dir.path());
    let player = Sleeper::new(BASE);
    on.apply(&[player.seen(300)], MEMINFO_TEXT).unwrap();
    let ours = player.adj();
    // Unprivileged, it may do this. The end must not leave it there.
    for raised in [ours + 1, ours + 50] {
        std::fs::write(player.file(), raised.to_string()).unwrap();
        on.apply(&[player.seen(300)], MEMINFO_TEXT).unwrap();
        assert_eq!(player.adj(), ours);
    }
    std::fs::write(player.file(), (ours + 1).to_string()).unwrap();
    on.forget(player.seen(0).pid);
    assert_eq!(player.adj(), BASE);
    // Above its own value, it is its own choice, and it stays.
    on.apply(&[player.seen(300)], MEMINFO_TEXT).unwrap();
    std::fs::write(player.file(), "1000").unwrap();
    on.apply(&[player.seen(300)], MEMINFO_TEXT).unwrap();
    assert_eq!(player.adj(), ours + 100);
    on.calm();
    assert_eq!(player.adj(), 1000);
}

#[test]
fn the_next_daemon_puts_back_what_a_killed_one_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = on(dir.path());
    let player = Sleeper::new(BASE);
    first.apply(&[player.seen(300)], MEMINFO_TEXT).unwrap();
    let ours = player.adj();
    drop(first); // as SIGKILL
    assert_eq!(player.adj(), ours);
    let mut second = on(dir.path());
    second.recover();
    assert_eq!(player.adj(), BASE);
    assert!(second.journal.is_empty() && second.range.is_none());
}

#[test]
fn another_process_with_that_id_keeps_its_value() {
    let dir = tempfile::tempdir().unwrap();
    let process = Sleeper::new(500);
    let mut seen = process.seen(300);
    seen.start += 1; // one that started at another time had this id
    let mut first = on(dir.path());
    first.give(&seen, BASE, 500);
    assert!(first.given.is_empty() && process.adj() == 500);
    drop(first);
    let journal = dir.path().join("run/oom");
    let line = format!("{} {BASE} 500\n", seen.knob().display());
    std::fs::write(journal, line).unwrap();
    on(dir.path()).recover();
    assert_eq!(process.adj(), 500);
}

#[test]
fn strays_are_set_back_and_others_are_not() {
    let stray = Sleeper::new(700);
    let (above, below, earlier) = (Sleeper::new(BASE), Sleeper::new(600), Sleeper::new(701));
    let since = stray.seen(0).start;
    let mut range = Range::since(since);
    range.include(since, BASE, 650);
    let pids: Vec<i32> = [&stray, &above, &below]
        .iter()
        .map(|s| s.0.id() as i32)
        .collect();
    let known = |pid: i32| !pids.contains(&pid); // of this machine's other processes none
    assert_eq!(strays::sweep(range, known, |_| None), 0);
    assert_eq!(strays::sweep(range, known, |_| Some(BASE)), 1);
    assert_eq!((stray.adj(), above.adj(), below.adj()), (BASE, BASE, 600));
    assert_eq!(earlier.adj(), 701, "it is known");
    let mut later = Range::since(since + 1_000_000);
    later.include(since + 1_000_000, BASE, 650);
    let of_it = |pid: i32| pid != earlier.0.id() as i32;
    assert_eq!(strays::sweep(later, of_it, |_| Some(BASE)), 0);
    assert!(strays::now_ticks() >= since);
}

#[test]
fn strays_are_looked_for_where_they_can_be() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| -> DomainPath {
        std::fs::create_dir_all(root.path().join(name)).unwrap();
        name.parse().unwrap()
    };
    let given = BTreeMap::from([(at("player"), 100)]);
    let mut range = Range::since(0);
    range.include(0, 200, -50);
    let base = |name: &str| strays::base_in(root.path(), &at(name), &given, range);
    assert_eq!(base("player/below"), Some(100), "as the program there");
    assert_eq!(base("aplomb/0/x-1"), Some(200));
    if rustix::process::geteuid().is_root() {
        assert_eq!(base("system.slice/x.service"), None);
        at("user");
        std::os::unix::fs::chown(root.path().join("user"), Some(1000), None).unwrap();
        assert_eq!(base("user"), Some(200));
    }
}

#[test]
fn one_user_does_not_take_all_places() {
    let dir = tempfile::tempdir().unwrap();
    let mut on = on(dir.path());
    let tracked = |uid| Tracked { start: 1, uid };
    on.tracked = (1..=MAX_OF_USER as i32)
        .map(|pid| (pid, tracked(1000)))
        .collect();
    assert!(on.is_full(9999, 1000) && !on.is_full(1, 1000));
    assert!(!on.is_full(9999, 1001) && !on.is_full(9999, 0));
    on.tracked = (1..=MAX_PROCESSES as i32)
        .map(|pid| (pid, tracked(0)))
        .collect();
    assert!(on.is_full(9999, 0) && on.is_full(9999, 1001));
}

#[test]
fn nothing_is_due_while_memory_is_there() {
    let mut oom = Oom::start(MemoryConfig::default(), None);
    oom.memory_is_short();
    assert_eq!((oom.deadline(), oom.trigger().is_some()), (None, false));
    let dir = tempfile::tempdir().unwrap();
    let mut oom = Oom {
        on: Some(on(dir.path())),
    };
    assert_eq!(oom.deadline(), None);
    let memory = Memory::start(MemoryConfig::default(), None);
    oom.memory_is_short();
    let first = oom.deadline().unwrap();
    assert!(first <= Instant::now());
    oom.tick(Instant::now(), &memory);
    let calm = oom.deadline().unwrap();
    assert_eq!(calm, first + CALM);
    oom.memory_is_short();
    let next = oom.deadline().unwrap();
    assert!(next > first, "refreshes have a distance");
    oom.tick(next, &memory);
    oom.tick(Instant::now() + CALM * 2, &memory);
    assert_eq!(oom.deadline(), None);
}
