//! What happened to tasks while memory was short, as the kernel side counts it
//! (bpf/memory/account.bpf.h).

use libbpf_rs::{MapCore, MapFlags};

use crate::layout::types as raw;
use crate::KernelError;

/// The counts of one class of tasks, since the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryCounts {
    /// "interactive" or "best-effort".
    pub class: &'static str,
    /// Allocations while memory was below the kernel's low watermark.
    pub asked: u64,
    /// Parks because of these.
    pub parked: u64,
    /// Times that a task had to reclaim memory itself.
    pub reclaimed: u64,
    /// The same, because its cgroup had reached a limit (memory.high, memory.max).
    pub reclaimed_limit: u64,
    /// Page faults that waited for a page from swap.
    pub swapped_in: u64,
}

/// Names of `enum memory_class`, in its order.
const CLASSES: [&str; raw::memory_class::NR_MEMORY_CLASSES.0 as usize] =
    ["interactive", "best-effort"];
const COUNTS: u32 = raw::memory_count::NR_MEMORY_COUNTS.0;

impl MemoryCounts {
    pub(crate) fn read(map: &impl MapCore) -> Result<Vec<Self>, KernelError> {
        let count = |key: u32| -> Result<u64, KernelError> {
            let per_cpu = map
                .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
                .map_err(|source| KernelError::Call {
                    doing: "reading the counts of memory",
                    source,
                })?
                .unwrap_or_default();
            let words = per_cpu.iter().filter_map(|v| v.as_slice().try_into().ok());
            Ok(words.map(u64::from_ne_bytes).sum())
        };
        let class = |(number, class): (u32, &'static str)| {
            let of = |what: raw::memory_count| count(number * COUNTS + what.0);
            Ok(Self {
                class,
                asked: of(raw::memory_count::MEMORY_ASKED)?,
                parked: of(raw::memory_count::MEMORY_PARKED)?,
                reclaimed: of(raw::memory_count::MEMORY_RECLAIMED)?,
                reclaimed_limit: of(raw::memory_count::MEMORY_RECLAIMED_LIMIT)?,
                swapped_in: of(raw::memory_count::MEMORY_SWAPPED_IN)?,
            })
        };
        (0..).zip(CLASSES).map(class).collect()
    }
}
