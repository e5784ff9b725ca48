//! The text of /proc/meminfo.

use crate::Bytes;

/// Where the kernel has it.
pub const PATH: &str = "/proc/meminfo";

/// A field, such as "MemTotal:", in bytes. None: there is none, or it has another form.
pub fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    let kb: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kb.checked_mul(1024)
}

/// What the machine has in swap and not in memory. None: the text is not the kernel's.
pub fn swapped(text: &str) -> Option<Bytes> {
    let total = field(text, "SwapTotal:")?;
    let free = field(text, "SwapFree:")?;
    let both = field(text, "SwapCached:")?;
    Some(Bytes(total.saturating_sub(free).saturating_sub(both)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_bytes() {
        let text = "MemTotal:       16384 kB\nSwapCached:  8 kB\nHugePages_Total:   3\n";
        assert_eq!(field(text, "MemTotal:"), Some(16 << 20));
        assert_eq!(field(text, "HugePages_Total:"), None, "no amount");
        assert_eq!(field(text, "MemFree:"), None);
        assert_eq!(
            field("MemTotal: 99999999999999999999 kB\n", "MemTotal:"),
            None
        );
        assert_eq!(
            field("MemTotal: 18446744073709551615 kB\n", "MemTotal:"),
            None
        );
    }

    #[test]
    fn what_is_in_memory_too_does_not_count() {
        let text = "SwapCached:        8 kB\nSwapTotal:     1024 kB\nSwapFree:       1000 kB\n";
        assert_eq!(swapped(text), Some(Bytes(16 << 10)));
        assert_eq!(swapped("SwapTotal: 1 kB\n"), None);
    }
}
