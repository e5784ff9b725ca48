//! Demotes programs when the working sets of all interactive programs do not fit, and lets them
//! come back. Theory: `aplomb_memory::demotion`.
//!
//! The kernel wakes the daemon when tasks wait for memory (`aplomb_memory::pressure`), at most once
//! in two seconds. The kernel side does so when interactive tasks were parked for memory, at most
//! once a second for each domain, or waited for pages in swap, at most once a second for each
//! program. The daemon tests whether there is room again when a program ends, and at each look, so
//! nothing wakes it for that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aplomb_domain::DomainPath;
use aplomb_kernel::{Kernel, KernelError, Shortage};
use aplomb_memory::demotion::{self, Caps, Demotion, Program};
use aplomb_memory::Protector;
use tracing::{debug, warn};

use super::programs::Kept;
use super::Memory;

impl Memory {
    /// Tasks of the machine wait for memory. If those of interactive programs do, and these need
    /// more than their cap, demote some.
    pub fn short(&mut self, kernel: &mut dyn Kernel) {
        self.measure_again(Instant::now());
        let Some(protector) = &self.protector else {
            return;
        };
        let programs = demands(protector, self.programs.by_pid());
        let demotions = demotion::demote(&programs, self.caps());
        let wait = |p: &Program| protector.waits(&p.domain).unwrap_or_else(complain);
        if !demotions.is_empty() && programs.iter().any(wait) {
            self.demote_all(&demotions, kernel);
        }
    }

    /// Interactive tasks were parked for memory for `time` more: a program grows.
    pub fn parked(&mut self, time: Duration, now: Instant, kernel: &mut dyn Kernel) {
        self.open_growth_buffer(now, kernel);
        self.waited(time, now, kernel);
    }

    /// They were parked for memory, or waited for pages in swap, for `time` more. If they wait for
    /// memory by that, and need more than their cap, demote some. (For pages in swap no growth
    /// buffer is opened: it would take such pages from others that need them as much.)
    pub fn waited(&mut self, time: Duration, now: Instant, kernel: &mut dyn Kernel) {
        if !self.waits.add(time, now) {
            return;
        }
        self.measure_again(now);
        let Some(protector) = &self.protector else {
            return;
        };
        let programs = demands(protector, self.programs.by_pid());
        let demotions = demotion::demote(&programs, self.caps());
        self.demote_all(&demotions, kernel);
    }

    fn demote_all(&mut self, demotions: &[Demotion], kernel: &mut dyn Kernel) {
        for demotion in demotions {
            self.demote(demotion, kernel);
        }
    }

    fn demote(&mut self, why: &Demotion, kernel: &mut dyn Kernel) {
        let short = Shortage {
            demand: why.demand.0,
            total: why.total.0,
            limit: why.limit.0,
        };
        let of_domain = self
            .programs
            .by_pid()
            .iter()
            .filter(|(_, p)| p.domain == why.domain);
        let pids: Vec<i32> = of_domain.map(|(pid, _)| *pid).collect();
        for pid in pids {
            match kernel.demote(pid, Some(short)) {
                Ok(()) => {
                    if let Some(kept) = self.withdraw(pid) {
                        self.demoted.insert(pid, kept);
                    }
                }
                // It has just exited, or was revoked: an event says so soon.
                Err(KernelError::NoProcess(_)) => debug!("process {pid} has no reservation"),
                Err(e) => warn!("process {pid} is not demoted: {e}"),
            }
        }
    }

    /// If a demoted program fits again, let the governor reactivate it. One at a time: the next one
    /// is looked at when this one is protected.
    pub(super) fn promote_if_room(&mut self, kernel: &mut dyn Kernel) {
        if self.demoted.is_empty() || !std::mem::take(&mut self.room_changed) {
            return;
        }
        let Some(protector) = &self.protector else {
            return;
        };
        let programs = demands(protector, self.programs.by_pid());
        let demoted = demands(protector, &self.demoted);
        let Some(back) = demotion::promote(&programs, &demoted, self.caps()) else {
            return;
        };
        let all = std::mem::take(&mut self.demoted).into_iter();
        let (back, others) = all.partition(|(_, p)| p.domain == back.domain);
        self.demoted = others;
        for (pid, _) in back {
            match kernel.demote(pid, None) {
                Ok(()) | Err(KernelError::NoProcess(_)) => {}
                Err(e) => warn!("process {pid} stays demoted: {e}"),
            }
        }
    }

    fn caps(&self) -> Caps {
        Caps {
            all: self.share(self.config.limit_ppm),
            user: self.share(self.config.user_limit_ppm),
        }
    }
}

/// What each domain of these programs demands. One is spared if any of its programs is.
fn demands(protector: &Protector, programs: &BTreeMap<i32, Kept>) -> Vec<Program> {
    let mut domains: BTreeMap<&DomainPath, Program> = BTreeMap::new();
    for kept in programs.values() {
        let entry = domains.entry(&kept.domain).or_insert_with(|| Program {
            domain: kept.domain.clone(),
            uid: kept.uid,
            demand: protector.demand(&kept.domain).unwrap_or_else(complain),
            spared: false,
        });
        entry.spared |= kept.spared;
    }
    domains.into_values().collect()
}

/// Without a file that should be there, a program demands nothing and does not wait.
fn complain<T: Default>(error: aplomb_memory::MemoryError) -> T {
    warn!("{error}");
    T::default()
}

#[cfg(test)]
mod tests {
    use super::super::usable::Usable;
    use super::*;
    use crate::config::MemoryConfig;
    use crate::daemon::testing::Fake;
    use aplomb_memory::{Bytes, Journal, Places};
    use std::path::Path;

    const MB: u64 = 1 << 20;

    /// A machine of 1,000 MB, 800 of which may be protected, 500 of them for one user.
    fn memory(dir: &Path) -> Memory {
        let places = Places {
            cgroup: dir.join("cgroup"),
            debugfs: dir.into(),
            lru_gen: dir.into(),
        };
        let mut journal = Journal::open(&dir.join("knobs")).unwrap();
        journal.recover();
        let mut memory = Memory::start(MemoryConfig::default(), None);
        memory.protector = Some(Protector::new(places, journal));
        memory.usable = Usable::fixed(Bytes(1000 * MB));
        memory
    }

    /// A program that uses so much, and whose tasks waited for `waits` percent of the last 10 s.
    fn add(memory: &mut Memory, dir: &Path, pid: i32, uid: u32, used_mb: u64, waits: &str) {
        let domain: DomainPath = format!("aplomb/{uid}/x-{pid}").parse().unwrap();
        let cgroup = dir.join("cgroup").join(domain.to_string());
        std::fs::create_dir_all(&cgroup).unwrap();
        let put = |name, text: &str| std::fs::write(cgroup.join(name), text).unwrap();
        put("memory.min", "0");
        put("memory.current", &(used_mb * MB / 2).to_string());
        put("memory.swap.current", &(used_mb * MB / 2).to_string());
        put("memory.pressure", &format!("some avg10={waits} avg60=0.00"));
        let protector = memory.protector.as_mut().unwrap();
        let protected = protector.protect(&domain, &[], Duration::from_secs(60), Instant::now());
        protected.unwrap();
        let spared = false;
        memory.programs.insert(
            pid,
            Kept {
                domain,
                uid,
                spared,
            },
        );
    }

    #[test]
    fn the_largest_goes_if_they_wait_and_comes_back_when_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let (mut memory, mut kernel) = (memory(dir.path()), Fake::new());
        add(&mut memory, dir.path(), 7, 0, 300, "0.00");
        add(&mut memory, dir.path(), 8, 0, 600, "5.00");
        memory.short(&mut kernel);
        assert!(kernel.seen.borrow().demoted.is_empty(), "nobody waits");
        add(&mut memory, dir.path(), 7, 0, 300, "40.00");
        memory.short(&mut kernel);
        let why = Shortage {
            demand: 600 * MB,
            total: 900 * MB,
            limit: 800 * MB,
        };
        assert_eq!(kernel.seen.borrow().demoted, [(8, Some(why))]);
        assert_eq!(memory.programs.by_pid().keys().collect::<Vec<_>>(), [&7]);
        let protection = dir.path().join("cgroup/aplomb/0/x-8/memory.min");
        assert_eq!(std::fs::read_to_string(protection).unwrap(), "0");
        memory.tick(None, Instant::now(), &mut kernel);
        assert_eq!(kernel.seen.borrow().demoted.len(), 1, "no room yet");
        memory.release(7);
        memory.tick(None, Instant::now(), &mut kernel);
        assert_eq!(kernel.seen.borrow().demoted[1..], [(8, None)]);
        assert!(memory.demoted.is_empty());
    }

    #[test]
    fn programs_that_are_parked_or_read_from_swap_wait_too() {
        let dir = tempfile::tempdir().unwrap();
        let (mut memory, mut kernel) = (memory(dir.path()), Fake::new());
        add(&mut memory, dir.path(), 7, 0, 300, "0.00");
        add(&mut memory, dir.path(), 8, 0, 600, "0.00");
        let (now, park) = (Instant::now(), Duration::from_millis(100));
        (0..3).for_each(|_| memory.parked(park, now, &mut kernel));
        (0..2).for_each(|_| memory.waited(park, now, &mut kernel)); // for pages in swap
        assert!(kernel.seen.borrow().demoted.is_empty(), "half a second");
        memory.parked(park, now, &mut kernel);
        assert_eq!(kernel.seen.borrow().demoted[0].0, 8);
    }

    #[test]
    fn a_user_pays_for_itself_and_a_spared_program_never() {
        let dir = tempfile::tempdir().unwrap();
        let (mut memory, mut kernel) = (memory(dir.path()), Fake::new());
        add(&mut memory, dir.path(), 7, 1000, 200, "40.00");
        for pid in [8, 9] {
            add(&mut memory, dir.path(), pid, 1001, 260, "40.00");
        }
        let mut spared = memory.programs.get(8).unwrap().clone();
        spared.spared = true;
        memory.programs.insert(8, spared);
        memory.short(&mut kernel);
        let demoted: Vec<i32> = kernel.seen.borrow().demoted.iter().map(|d| d.0).collect();
        assert_eq!(demoted, [9]);
        memory.release(9);
        assert!(memory.demoted.is_empty(), "it has exited");
    }
}
