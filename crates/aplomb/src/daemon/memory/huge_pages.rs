//! While the growth buffer is open (`growth`), only tasks that ask for huge pages with madvise()
//! get any. This file says on which machines the daemon may set that.
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

use aplomb_memory::cgroup;
use tracing::debug;

pub const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SIZE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
const ZONES: &str = "/proc/zoneinfo";
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
/// What the kernel recommends to keep free in each zone, huge pages: two, and one for each pair of
/// its three kinds of blocks. (`set_recommended_min_free_kbytes()`)
const BLOCKS: u64 = 2 + 3 * 3;
/// But at most this part of memory. The kernel's limit is a twentieth of the pages above the high
/// watermarks, as these were when it last looked. That is never less than a 24th of all pages in
/// the machines of the lab. Trade: where a value between the two was set by hand, which matters
/// below 1 GB, the kernel raises it by a tenth; with a twentieth here, such machines would never
/// qualify.
const LARGEST_PART: u64 = 24;

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
    fn no_zone_is_no_recommendation() {
        assert_eq!(recommended_kb("", HUGE_KB), None);
        assert_eq!(recommended_kb(&zone("DMA", 0), HUGE_KB), None);
        assert_eq!(recommended_kb("Node 0, zone DMA\n", HUGE_KB), None);
    }
}
