//! The I/O priority of threads (ioprio_set(2), ionice), as the class of interactive programs.
//!
//! The kernel gives each request the priority of the thread that sends it. The levels 5 to 7 of the
//! real-time class are for aplomb: a thread that has one of them belongs to an interactive program.
//! The levels 0 to 4 are for the administrator (`ionice -c 1` gives 4). A thread for which a
//! priority was chosen keeps it.
//!
//! A forked child has its parent's priority, and keeps it over exec. So what a shell starts has the
//! shell's, until [`take_back`] finds it.

use std::io;
use std::path::Path;

const CLASS_SHIFT: u16 = 13;
const CLASS_NONE: u16 = 0;
const CLASS_REAL_TIME: u16 = 1;
const CLASS_BEST_EFFORT: u16 = 2;
const LEVEL_MASK: u16 = 7;
/// The first level that is ours (`IO_LEVEL_INTERACTIVE` in bpf/disk/order.bpf.h).
const FIRST_LEVEL: u16 = 5;
/// `IOPRIO_WHO_PROCESS`: one thread.
const WHO_THREAD: libc::c_int = 1;

/// Class and level of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority(u16);

impl Priority {
    /// None was chosen: the kernel goes by the thread's nice value.
    pub const NONE: Self = Self(CLASS_NONE);

    /// That of an interactive program whose period is `period_ns`, ns. `chosen`: by its spec, 0
    /// (most urgent) to 7. Redline section 5: the shorter the period, the more urgent.
    #[must_use]
    pub fn interactive(period_ns: u64, chosen: Option<u32>) -> Self {
        let behind = match (chosen, period_ns) {
            (Some(0..=2), _) | (None, 0..=50_000_000) => 0,
            (Some(3..=5), _) | (None, ..=500_000_000) => 1,
            _ => 2,
        };
        Self(CLASS_REAL_TIME << CLASS_SHIFT | (FIRST_LEVEL + behind))
    }

    /// That of a soft real-time program whose requests are to be done within `deadline_ns`, ns. The
    /// sooner, the more urgent: schedulers of disks that know levels go by it.
    #[must_use]
    pub fn soft_real_time(deadline_ns: Option<u64>) -> Self {
        let level = match deadline_ns {
            Some(0..=10_000_000) => 0,
            Some(..=50_000_000) => 1,
            Some(..=100_000_000) => 2,
            Some(..=500_000_000) => 3,
            _ => 4,
        };
        Self(CLASS_REAL_TIME << CLASS_SHIFT | level)
    }

    /// That of all other programs, if none was chosen before.
    #[must_use]
    pub fn rest() -> Self {
        Self(CLASS_BEST_EFFORT << CLASS_SHIFT | 4)
    }

    /// True if it is one that [`Self::interactive`] gives.
    #[must_use]
    pub fn is_ours(self) -> bool {
        self.0 >> CLASS_SHIFT == CLASS_REAL_TIME && self.0 & LEVEL_MASK >= FIRST_LEVEL
    }

    fn is_chosen(self) -> bool {
        self.0 >> CLASS_SHIFT != CLASS_NONE
    }

    /// The priority of thread `tid`.
    ///
    /// # Errors
    /// There is no such thread.
    pub fn of(tid: i32) -> io::Result<Self> {
        // SAFETY: numbers only
        let got = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_THREAD, tid) };
        u16::try_from(got)
            .map(Self)
            .map_err(|_| io::Error::last_os_error())
    }

    /// Give it to thread `tid`.
    ///
    /// # Errors
    /// There is no such thread; the real-time class without privilege.
    pub fn give(self, tid: i32) -> io::Result<()> {
        // SAFETY: numbers only
        let set =
            unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_THREAD, tid, self.0 as libc::c_int) };
        if set == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }
}

/// The numbers that are the names of entries in `dir`.
fn numbers(dir: &Path) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Give `priority` to the threads of process `pid` for which none was chosen, or another one of
/// ours. Returns how many have it now. `proc`: where procfs is mounted.
pub fn give(proc: &Path, pid: i32, priority: Priority) -> usize {
    let mut given = 0;
    for tid in numbers(&proc.join(pid.to_string()).join("task")) {
        let Ok(now) = Priority::of(tid) else { continue };
        if now == priority {
            given += 1;
        } else if !now.is_chosen() || now.is_ours() {
            // It may have ended meanwhile.
            given += usize::from(priority.give(tid).is_ok());
        }
    }
    given
}

/// Take our priorities back from all threads of the processes that `from` is true for. Returns from
/// how many.
pub fn take_back(proc: &Path, from: impl Fn(i32) -> bool) -> usize {
    let mut taken = 0;
    for pid in numbers(proc).filter(|pid| from(*pid)) {
        for tid in numbers(&proc.join(pid.to_string()).join("task")) {
            if Priority::of(tid).is_ok_and(Priority::is_ours) {
                taken += usize::from(Priority::NONE.give(tid).is_ok());
            }
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_the_period_the_more_urgent() {
        let level = |ms: u64, chosen| Priority::interactive(ms * 1_000_000, chosen).0 & LEVEL_MASK;
        assert_eq!(
            [level(16, None), level(100, None), level(2000, None)],
            [5, 6, 7]
        );
        assert_eq!(
            [level(16, Some(7)), level(2000, Some(0)), level(16, Some(4))],
            [7, 5, 6]
        );
        assert!(Priority::interactive(1, None).is_ours());
        let urgent = |ms: u64| Priority::soft_real_time(Some(ms * 1_000_000)).0 & LEVEL_MASK;
        assert_eq!([urgent(5), urgent(40), urgent(1000)], [0, 1, 4]);
        assert!(!Priority::soft_real_time(None).is_ours() && !Priority::rest().is_ours());
        let ionice = Priority(CLASS_REAL_TIME << CLASS_SHIFT | 4);
        assert!(!ionice.is_ours() && ionice.is_chosen());
        assert!(!Priority::NONE.is_ours() && !Priority::NONE.is_chosen());
    }

    /// The kernel keeps a priority by thread, so this test uses threads of its own.
    #[test]
    fn a_thread_gets_it_and_loses_it() {
        let proc = Path::new("/proc");
        let pid = std::process::id() as i32;
        let (to, from) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: it returns a number
            to.send(unsafe { libc::gettid() }).unwrap();
            let _ = ended.recv();
        });
        let tid = from.recv().unwrap();
        let wanted = Priority::interactive(16_000_000, None);
        if wanted.give(tid).is_err() {
            return; // not root
        }
        assert_eq!(Priority::of(tid).unwrap(), wanted);
        take_back(proc, |_| false);
        assert_eq!(Priority::of(tid).unwrap(), wanted, "its process keeps it");
        assert!(take_back(proc, |p| p == pid) >= 1);
        assert_eq!(Priority::of(tid).unwrap(), Priority::NONE);
        // what an administrator has chosen stays
        let ionice = Priority(CLASS_REAL_TIME << CLASS_SHIFT | 4);
        ionice.give(tid).unwrap();
        assert!(give(proc, pid, wanted) >= 1);
        take_back(proc, |p| p == pid);
        assert_eq!(Priority::of(tid).unwrap(), ionice);
        drop(end);
        thread.join().unwrap();
        assert!(Priority::of(i32::MAX).is_err());
    }
}
