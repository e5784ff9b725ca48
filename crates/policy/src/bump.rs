//! `bump.h`: speed bumps, the pages that a best-effort task may take while memory is short.

/// Pages between two parks when free memory is just below `low` (`BUMP_PAGES`).
pub const PAGES: u64 = 32;
/// Pages between two parks while an interactive program waits for memory (`BUMP_FOR_OTHERS`).
pub const FOR_OTHERS: u64 = 1;

extern "C" {
    fn policy_bump_allowance(free: u64, min: u64, low: u64) -> u64;
    fn policy_bump_take(taken: *mut u32, pages: u32, allowance: u64) -> bool;
}

/// Pages that a task may take before it is parked. All arguments are in pages.
pub fn allowance(free: u64, min: u64, low: u64) -> u64 {
    // SAFETY: only numbers
    unsafe { policy_bump_allowance(free, min, low) }
}

/// A task takes `pages`; `taken` is what it took since its last park. Returns true if it is to be
/// parked now, because it may take no more than `allowance` pages.
pub fn take(taken: &mut u32, pages: u32, allowance: u64) -> bool {
    // SAFETY: the C function changes `*taken` only
    unsafe { policy_bump_take(taken, pages, allowance) }
}

#[cfg(test)]
mod tests;
