//! What programs can have of the machine's memory, as it changes.
//!
//! 1. **Why.** The caps are parts of what programs can have. Huge pages for a virtual machine, a
//!    driver or a RAM disk take some of it while the daemon runs. With caps that are larger than
//!    what is left, all that is left would be protected. The kernel could then reclaim nothing, and
//!    would kill a program while there is room in the swap.
//!
//! 2. **Model.** What programs can have was measured at the start ([`usable_memory`]). Since then
//!    it has changed as all memory less what others keep ([`KEPT`]) has. The figure of the start is
//!    not read again, and free pages are not counted. Both depend on the watermarks, which the
//!    daemon itself moves (memory/growth.rs): the kernel keeps up to the distance of two of them in
//!    lists of each CPU, where no counter shows them.
//!
//! 3. **When.** When a program comes, at each look, and when memory is short; at most once a
//!    second, and what is asked for too soon is done when that second is over. While nothing
//!    changes, nothing wakes the daemon for it. So a program that is large already is protected in
//!    full for some time after memory was taken: until the next look, or until programs wait for
//!    memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aplomb_domain::DomainPath;
use aplomb_memory::meminfo::field;
use aplomb_memory::{Bytes, MemoryError};
use tracing::{debug, warn};

use super::domain::top;
use super::machine::{usable_memory, Counters};
use super::Memory;

const PAUSE: Duration = Duration::from_secs(1);
/// A change of less than this part of all memory changes no cap: what the kernel needs for itself
/// changes with each process.
const LEAST_PART: u64 = 64;

/// Memory that is not reclaimed for a program, as /proc/meminfo names it: the kernel's own (stacks
/// are part of VmallocUsed), mlock's, huge pages, what the host of a virtual machine and graphics
/// drivers took. Besides these, zram's and zswap's pages ([`Counters::compressed`]). Pages of
/// drivers that the kernel does not count are missing. What interactive programs lock counts here,
/// too, although they are charged for it: of their own demand it takes as much from the caps.
const KEPT: [&str; 9] = [
    "SUnreclaim:",
    "PageTables:",
    "SecPageTables:",
    "Percpu:",
    "VmallocUsed:",
    "Unevictable:",
    "Hugetlb:",
    "Balloon:",
    "GPUActive:",
];

/// What was measured, bytes.
#[derive(Debug, Default)]
pub struct Usable {
    /// All that the machine had at the start.
    all: u64,
    /// What programs could have then, and what was not kept from them.
    first: u64,
    left: u64,
    /// What they can have now.
    now: u64,
    measured: Option<Instant>,
    /// It was asked for too soon, and is to be measured then.
    due: Option<Instant>,
}

impl Usable {
    /// Measure it for the first time. None: the counters are not what the kernel writes.
    pub fn first(counters: &Counters) -> Option<Self> {
        let first = usable_memory(&counters.info)?.0;
        Some(Self {
            all: field(&counters.info, "MemTotal:")?,
            first,
            left: left(counters)?,
            now: first,
            ..Self::default()
        })
    }

    #[cfg(test)]
    pub fn fixed(bytes: Bytes) -> Self {
        let measured = Some(Instant::now() + Duration::from_secs(3600));
        Self {
            now: bytes.0,
            measured,
            ..Self::default()
        }
    }

    /// What programs can have.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.now)
    }

    /// Measure it again. Returns whether it has changed.
    fn again(&mut self, counters: &Counters) -> bool {
        let Some(left) = left(counters) else {
            return false;
        };
        let now = self.first.saturating_add(left).saturating_sub(self.left);
        let changed = now.abs_diff(self.now) > self.all / LEAST_PART;
        if changed {
            self.now = now;
        }
        changed
    }

    /// When to measure it again, because that was asked for too soon.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// True once in [`PAUSE`]; else it is due when that is over.
    fn is_due(&mut self, now: Instant) -> bool {
        let next = self.measured.map(|at| at + PAUSE);
        self.due = next.filter(|next| now < *next);
        if self.due.is_none() {
            self.measured = Some(now);
        }
        self.due.is_none()
    }
}

/// All memory but what is kept, bytes. A kernel without one of the fields keeps nothing of that
/// kind, or does not say so.
fn left(counters: &Counters) -> Option<u64> {
    let info = &counters.info;
    let kept = KEPT.iter().filter_map(|name| field(info, name));
    let kept = kept.fold(counters.compressed(), u64::saturating_add);
    Some(field(info, "MemTotal:")?.saturating_sub(kept))
}

impl Memory {
    /// Measure again what programs can have. If that has changed, the caps do.
    pub(super) fn measure_again(&mut self, now: Instant) {
        if !self.usable.is_due(now) {
            return;
        }
        match Counters::read() {
            Ok(counters) => self.follow_memory(&counters, now),
            Err(e) => warn!("{e:#}"),
        }
    }

    fn follow_memory(&mut self, counters: &Counters, now: Instant) {
        if !self.usable.again(counters) {
            return;
        }
        debug!("programs can have {} bytes", self.usable.bytes().0);
        self.room_changed = true; // a demoted program may fit again
        if let Err(e) = self.cap_all() {
            warn!("{e}");
        }
        if let Some(units) = &mut self.units {
            units.round_after(Duration::ZERO, now);
        }
    }

    /// Cap all that is protected but systemd's units, which a round caps.
    fn cap_all(&mut self) -> Result<(), MemoryError> {
        let mut caps = BTreeMap::from([(top(), self.most_of(0))]);
        for kept in self.programs.by_pid().values() {
            if !self.is_unit(&kept.domain) {
                caps.insert(capped(&kept.domain), self.most_of(kept.uid));
            }
        }
        match &mut self.protector {
            Some(protector) => protector.cap_again(caps),
            None => Ok(()),
        }
    }
}

/// The domain whose cap counts for a program in `domain`: its user's below ours; elsewhere, itself.
fn capped(domain: &DomainPath) -> DomainPath {
    let mut at = domain.clone();
    while let Some(above) = at.parent() {
        if above == top() {
            return at;
        }
        at = above;
    }
    domain.clone()
}

#[cfg(test)]
mod tests {
    use super::super::programs::Kept;
    use super::*;
    use crate::config::MemoryConfig;
    use aplomb_memory::{Journal, Places, Protector};

    /// A machine of 1,000 MB: `free` are free, `huge` are huge pages, 100 are the kernel's, and
    /// programs have the rest.
    fn info(free: u64, huge: u64) -> Counters {
        let mb = |name: &str, mb: u64| format!("{name}: {} kB\n", mb << 10);
        let info = [
            mb("MemTotal", 1000),
            mb("MemAvailable", free),
            mb("Active(anon)", 200),
            mb("Inactive(anon)", 700 - free - huge),
            mb("SUnreclaim", 80),
            mb("Unevictable", 20),
            mb("Hugetlb", huge),
        ];
        Counters {
            info: info.concat(),
            stat: "nr_free_pages 7\nnr_zspages 0\n".into(),
        }
    }

    #[test]
    fn what_compressed_pages_take_is_missing() {
        let mut usable = Usable::first(&info(300, 0)).unwrap();
        let first = usable.bytes().0;
        let mut filled = info(10, 0);
        filled.stat = "nr_zspages 51200\n".into();
        let bytes = 51200 * rustix::param::page_size() as u64;
        assert!(usable.again(&filled));
        assert_eq!(usable.bytes().0, first - bytes);
        filled.stat = "nr_free_pages 7\n".into();
        assert!(usable.again(&filled), "a kernel without zsmalloc");
        assert_eq!(usable.bytes().0, first);
    }

    #[test]
    fn what_huge_pages_take_is_missing_until_they_go() {
        let mut usable = Usable::first(&info(300, 0)).unwrap();
        let first = usable.bytes().0 >> 20;
        assert!(!usable.again(&info(10, 0)), "programs use what was free");
        assert!(usable.again(&info(10, 144)));
        assert_eq!(usable.bytes().0 >> 20, first - 144);
        assert!(!usable.again(&info(10, 150)), "too little for a change");
        assert!(usable.again(&info(10, 0)));
        assert_eq!(usable.bytes().0 >> 20, first);
        let mut grown = info(10, 0);
        grown.info = grown.info.replace("MemTotal: 1024000", "MemTotal: 1536000");
        assert!(usable.again(&grown));
        assert_eq!(usable.bytes().0 >> 20, first + 500);
        let wrong = Counters {
            info: "MemTotal: what\n".into(),
            ..Counters::default()
        };
        assert!(!usable.again(&wrong) && Usable::first(&wrong).is_none());
    }

    #[test]
    fn the_caps_follow_what_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = dir.path().join("cgroup");
        let min = |domain: &str| {
            let text = std::fs::read_to_string(cgroup.join(domain).join("memory.min")).unwrap();
            text.trim().parse::<u64>().unwrap() >> 20
        };
        for domain in ["aplomb", "aplomb/1000", "aplomb/1000/x-7"] {
            std::fs::create_dir_all(cgroup.join(domain)).unwrap();
            for file in ["memory.min", "memory.current"] {
                std::fs::write(cgroup.join(domain).join(file), "0").unwrap();
            }
        }
        let places = Places {
            cgroup: cgroup.clone(),
            debugfs: dir.path().into(),
            lru_gen: dir.path().into(),
        };
        let mut journal = Journal::open(&dir.path().join("knobs")).unwrap();
        journal.recover();
        let mut memory = Memory::start(MemoryConfig::default(), None);
        memory.protector = Some(Protector::new(places, journal));
        memory.usable = Usable::first(&info(300, 0)).unwrap();
        memory.usable.measured = Some(Instant::now() + Duration::from_secs(3600));
        let (ours, now) = (["aplomb", "aplomb/1000"], Instant::now());
        let ours = ours.map(|path| path.parse::<DomainPath>().unwrap());
        let domain: DomainPath = "aplomb/1000/x-7".parse().unwrap();
        let protector = memory.protector.as_mut().unwrap();
        let period = Duration::from_secs(60);
        protector.protect(&domain, &ours, period, now).unwrap();
        let kept = Kept {
            domain,
            uid: 1000,
            spared: false,
        };
        memory.programs.insert(7, kept);
        memory.follow_memory(&info(10, 144), now); // 900 - 144 are left
        assert_eq!((min("aplomb"), min("aplomb/1000")), (604, 378));
        memory.room_changed = false;
        memory.follow_memory(&info(10, 0), now);
        assert_eq!((min("aplomb"), min("aplomb/1000")), (720, 450));
        assert!(memory.room_changed, "a demoted program may fit again");
    }

    #[test]
    fn it_is_measured_once_a_second() {
        let (mut usable, now) = (Usable::default(), Instant::now());
        assert!(usable.is_due(now) && usable.due().is_none());
        assert!(!usable.is_due(now + PAUSE / 2));
        assert_eq!(usable.due(), Some(now + PAUSE));
        assert!(usable.is_due(now + PAUSE) && usable.due().is_none());
    }

    #[test]
    fn a_user_is_capped_below_ours_and_another_domain_itself() {
        let capped = |path: &str| capped(&path.parse().unwrap()).to_string();
        assert_eq!(capped("aplomb/1000/hog-7"), "aplomb/1000");
        assert_eq!(capped("aplomb/1000"), "aplomb/1000");
        assert_eq!(capped("media/films"), "media/films");
    }
}
