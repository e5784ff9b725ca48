//! The kernel's settings of huge pages that the daemon changes.
//!
//! 1. **khugepaged**, which joins pages into huge ones, scans eight huge pages' worth each 10 s. It
//!    has a reservation that is enough for a whole go, for programs wait for the mmap_lock that it
//!    holds (specs/kernel.toml). So an ordinary task that wakes up on its CPU waits for that go:
//!    beside four memory bombs for up to 46 ms. The daemon lets it scan one huge page's worth each
//!    1.25 s. It joins pages as fast as before, and its goes are shorter.
//!
//!    Trade: it wakes up more often, and before each go it has all CPUs hand in the pages that they
//!    collect (`lru_add_drain_all()`). Where there are many CPUs, that costs more, and it matters
//!    less that one of them is held. So this is for machines with few CPUs ([`FEW_CPUS`]).
//!
//! 2. **Huge pages on request only.** While the growth buffer is open (`growth`), only tasks that
//!    ask for them with madvise() get any, where the daemon may set that.
//!
//! Each time a setting of huge pages is written, the kernel raises vm.min_free_kbytes to what it
//! recommends for them, if less is set (mm/khugepaged.c, `start_stop_khugepaged()`). With "never"
//! the kernel ends khugepaged and lowers the value, and the daemon would raise it again at the
//! end. Usually the recommended value is in force, and "madvise" changes nothing. But where an
//! administrator has set less, all that is free would be below `min` at once: every task would
//! reclaim, and below half of `min` none can, for the kernel then has no page for the table of
//! what is in swap (mm/swapfile.c, `swap_cluster_alloc_table()`). A machine of one CPU stood still
//! so. There the setting stays as it is.

use std::fs::read_to_string;
use std::path::Path;

use aplomb_memory::{cgroup, Journal};
use tracing::{debug, warn};

use crate::domains::cpus;

pub const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
const ZONES: &str = "/proc/zoneinfo";
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
/// How many pages khugepaged scans at a time, and how long it sleeps then, ms.
const SCANNED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan";
const PAUSE: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
/// khugepaged sleeps for no less than this, ms. Where an administrator has set less than twice as
/// much, huge pages are wanted soon, and the settings stay.
const LEAST_PAUSE: u64 = 1000;
/// CPUs of the machines on which khugepaged scans in smaller goes. Measured with one CPU only; the
/// more there are, the sooner another one can take the task that wakes up.
const FEW_CPUS: u32 = 8;
/// What the kernel recommends to keep free in each zone, huge pages: two, and one for each pair of
/// its three kinds of blocks. (`set_recommended_min_free_kbytes()`)
const BLOCKS: u64 = 2 + 3 * 3;
/// But at most this part of memory. The kernel's limit is a twentieth of the pages above the high
/// watermarks, as these were when it last looked. That is never less than a 24th of all pages in
/// the machines of the lab. Trade: where a value between the two was set by hand, which matters
/// below 1 GB, the kernel raises it by a tenth; with a twentieth here, such machines would never
/// qualify.
const LARGEST_PART: u64 = 24;

/// Lets khugepaged scan less at a time and as much more often, where this serves (1).
pub fn scan_in_small_goes(journal: &mut Journal) {
    let number = |file| read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let now = || Some((number(SCANNED)?, number(PAUSE)?, number(SIZE)?));
    let Some((scanned, pause, size)) = now().filter(|_| cpus() <= FEW_CPUS) else {
        return; // or a kernel without huge pages
    };
    let Some((scanned, pause)) = smaller_goes(scanned, pause, size / cgroup::page_size().0) else {
        return;
    };
    // Fewer pages first: if the second fails, khugepaged does less than it did, not more.
    for (knob, value) in [(SCANNED, scanned), (PAUSE, pause)] {
        if let Err(e) = journal.set(Path::new(knob), &value.to_string()) {
            warn!("khugepaged does not scan in small goes: {e}");
            return;
        }
    }
}

/// What khugepaged is to scan at a time, pages, and its pause, ms, so that it scans as much in all.
/// `huge`: pages of a huge page. None: as they are.
fn smaller_goes(scanned: u64, pause: u64, huge: u64) -> Option<(u64, u64)> {
    let goes = scanned.checked_div(huge)?.min(pause / LEAST_PAUSE);
    (goes > 1).then(|| (scanned / goes, pause / goes))
}

/// The value to write to [`ENABLED`], so that only tasks that ask for huge pages get any. None: it
/// stays as it is.
pub fn restrained() -> Option<&'static str> {
    let all_get_them = read_to_string(ENABLED).is_ok_and(|now| now.contains("[always]"));
    (all_get_them && keeps_min_free()).then_some("madvise")
}

/// Does the kernel leave vm.min_free_kbytes alone when the setting is written?
fn keeps_min_free() -> bool {
    let number = |file| read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let recommended = number(SIZE)
        .zip(read_to_string(ZONES).ok())
        .and_then(|(size, zones)| recommended_kb(&zones, size / 1024));
    let now = number(MIN_FREE);
    debug!("vm.min_free_kbytes {now:?}, recommended for huge pages {recommended:?}");
    recommended
        .zip(now)
        .is_some_and(|(least, now)| now >= least)
}

/// The vm.min_free_kbytes that the kernel recommends, kB, by /proc/zoneinfo. `huge`: the size of a
/// huge page, kB. None: no zone is known.
fn recommended_kb(zones: &str, huge: u64) -> Option<u64> {
    let page_kb = cgroup::page_size().0 / 1024;
    let (mut blocks, mut pages) = (0_u64, 0_u64);
    for zone in zones.split("\nNode ") {
        let field = |name: &str| {
            let mut words = zone.split_whitespace().skip_while(|w| *w != name);
            words.nth(1)?.parse::<u64>().ok()
        };
        let name = zone.lines().next()?.split_whitespace().last()?;
        // nothing else lies in these two, so blocks of several kinds do not mix
        if ["Movable", "Device"].contains(&name) || field("present")? == 0 {
            continue;
        }
        blocks += BLOCKS;
        pages = pages.saturating_add(field("managed")?);
    }
    let least = (pages / LARGEST_PART).checked_mul(page_kb)?;
    (blocks > 0).then(|| least.min(blocks.saturating_mul(huge)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE_KB: u64 = 2048;

    fn zone(name: &str, managed: u64) -> String {
        format!(
            "Node 0, zone {name:>8}\n  per-node stats\n      nr_inactive_anon 17\n  pages free     \
             1652\n        boost    0\n        min      102\n        spanned  4095\n        present  \
             {managed}\n        managed  {managed}\n        protection: (0, 1634, 1634)\n"
        )
    }

    #[test]
    fn what_the_kernel_recommends() {
        let large = zone("DMA", 3840) + &zone("DMA32", 440_000);
        // as a guest of 1.7 GB has it: 11 blocks of 2 MB in each of two zones
        assert_eq!(recommended_kb(&large, HUGE_KB), Some(45_056));
        let without_normal = large + &zone("Normal", 0) + &zone("Movable", 9000);
        assert_eq!(recommended_kb(&without_normal, HUGE_KB), Some(45_056));
        // a guest that has 29,908
        let small = zone("DMA", 3840) + &zone("DMA32", 156_042);
        assert_eq!(recommended_kb(&small, HUGE_KB), Some(26_644));
    }

    #[test]
    fn khugepaged_scans_as_much_in_smaller_goes() {
        assert_eq!(smaller_goes(4096, 10_000, 512), Some((512, 1250)), "kernel");
        assert_eq!(smaller_goes(4096, 3_500, 512), Some((1365, 1166)));
        // what an administrator has made small already, or wants soon
        assert_eq!(smaller_goes(1000, 10_000, 512), None);
        assert_eq!(smaller_goes(4096, 1_500, 512), None);
        assert_eq!(smaller_goes(4096, 0, 512), None);
        assert_eq!(smaller_goes(4096, 10_000, 0), None);
    }

    #[test]
    fn no_zone_is_no_recommendation() {
        assert_eq!(recommended_kb("", HUGE_KB), None);
        assert_eq!(recommended_kb(&zone("DMA", 0), HUGE_KB), None);
        assert_eq!(recommended_kb("Node 0, zone DMA\n", HUGE_KB), None);
    }
}
