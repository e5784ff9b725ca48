//! The machine's memory: what programs can have of it, and the watermark scale that keeps the
//! reserve free.

use anyhow::{Context, Result};
use aplomb_memory::meminfo::{field, PATH as MEMINFO};
use aplomb_memory::Bytes;

/// What all of the machine's memory is for vm.watermark_scale_factor.
const SCALE: u64 = 10_000;
/// Its largest value.
pub const MAX_SCALE: u64 = 3000;
/// The mounts of this machine.
pub const MOUNTS: &str = "/proc/self/mountinfo";
const VMSTAT: &str = "/proc/vmstat";
pub const SCALE_FACTOR: &str = "/proc/sys/vm/watermark_scale_factor";

/// What the kernel says of the machine's memory.
#[derive(Debug, Default, Clone)]
pub struct Counters {
    /// /proc/meminfo
    pub info: String,
    /// /proc/vmstat
    pub stat: String,
}

impl Counters {
    pub fn read() -> Result<Self> {
        let read = |path| std::fs::read_to_string(path).with_context(|| format!("reading {path}"));
        Ok(Self {
            info: read(MEMINFO)?,
            stat: read(VMSTAT)?,
        })
    }

    /// All that the machine has, bytes.
    pub fn all(&self) -> Result<u64> {
        field(&self.info, "MemTotal:").with_context(|| format!("{MEMINFO}: no MemTotal"))
    }

    /// What zram and zswap keep their compressed pages in, bytes. 0 where the kernel has neither.
    pub fn compressed(&self) -> u64 {
        let mut lines = self.stat.lines();
        let pages = lines.find_map(|l| l.strip_prefix("nr_zspages "));
        let pages: u64 = pages.and_then(|text| text.parse().ok()).unwrap_or(0);
        pages.saturating_mul(rustix::param::page_size() as u64)
    }
}

/// The memory that programs can have: what is available, and what programs have already. Without
/// what the kernel itself, its drivers and reserved huge pages keep.
pub fn usable_memory(info: &str) -> Option<Bytes> {
    let in_use = ["Active(anon):", "Inactive(anon):"].map(|f| field(info, f).unwrap_or(0));
    let in_use = in_use[0].saturating_add(in_use[1]);
    Some(Bytes(field(info, "MemAvailable:")?.saturating_add(in_use)))
}

/// True if the cgroup tree is mounted with memory_recursiveprot, by /proc/self/mountinfo: the
/// kernel shares the protection of a cgroup that its children do not claim.
pub fn is_recursive(mounts: &str) -> bool {
    let of_tree = |line: &str| {
        let (_, after) = line.split_once(" - ")?;
        let mut fields = after.split(' ');
        (fields.next() == Some("cgroup2")).then(|| fields.nth(1).unwrap_or("").to_owned())
    };
    let mut options = mounts.lines().filter_map(of_tree);
    options.any(|all| all.split(',').any(|o| o == "memory_recursiveprot"))
}

/// The vm.watermark_scale_factor that is in force, and the one at which `reserve` bytes lie between
/// two watermarks; None if the machine has that much there already.
pub fn scale_factor(reserve: u64, total: u64) -> Result<(u64, Option<u64>)> {
    let text =
        std::fs::read_to_string(SCALE_FACTOR).with_context(|| format!("reading {SCALE_FACTOR}"))?;
    let now: u64 = text
        .trim()
        .parse()
        .with_context(|| format!("{SCALE_FACTOR}: \"{}\"", text.trim()))?;
    let wanted = wanted_scale(reserve, total);
    Ok((now, (wanted > now).then_some(wanted)))
}

/// The scale factor at which `reserve` of `total` bytes lie between two watermarks.
pub fn wanted_scale(reserve: u64, total: u64) -> u64 {
    let scale = u128::from(reserve) * u128::from(SCALE);
    let wanted = scale.div_ceil(u128::from(total.max(1)));
    u64::try_from(wanted).unwrap_or(MAX_SCALE).min(MAX_SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_part_of_memory() {
        assert_eq!(wanted_scale(8 << 20, 768 << 20), 105); // 1 %
        assert_eq!(wanted_scale(8 << 20, 64 << 30), 2);
        assert_eq!(wanted_scale(0, 64 << 30), 0);
        assert_eq!(wanted_scale(1 << 30, 1 << 30), MAX_SCALE);
        let text = "MemTotal: 9999 kB\nMemAvailable:  1024 kB\nActive(anon): 3 kB\n";
        assert_eq!(usable_memory(text), Some(Bytes(1027 << 10)));
        assert_eq!(usable_memory("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_option_of_the_tree_is_found() {
        let mount = |options: &str| {
            format!("22 1 0:5 / /proc rw - proc proc rw\n30 22 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 {options}\n")
        };
        assert!(is_recursive(&mount("rw,nsdelegate,memory_recursiveprot")));
        assert!(!is_recursive(&mount("rw,nsdelegate")));
        assert!(!is_recursive(
            "30 22 0:26 / /x rw - ext4 /dev/a rw,memory_recursiveprot\n"
        ));
        assert!(!is_recursive("30 - cgroup2\n"));
    }
}
