//! `bump.h`: speed bumps, the pages that a best-effort task may take while memory is short.

/// Pages between two parks when free memory is just below `low` (`BUMP_PAGES`).
pub const PAGES: u64 = 32;

extern "C" {
    fn policy_bump_allowance(free: u64, min: u64, low: u64) -> u64;
    fn policy_bump_take(taken: *mut u32, pages: u32, free: u64, min: u64, low: u64) -> bool;
}

/// Pages that a task may take before it is parked. All arguments are in pages.
pub fn allowance(free: u64, min: u64, low: u64) -> u64 {
    // SAFETY: only numbers
    unsafe { policy_bump_allowance(free, min, low) }
}

/// A task takes `pages`; `taken` is what it took since its last park. Returns true if it is to be
/// parked now.
pub fn take(taken: &mut u32, pages: u32, free: u64, min: u64, low: u64) -> bool {
    // SAFETY: the C function changes `*taken` only
    unsafe { policy_bump_take(taken, pages, free, min, low) }
}

#[cfg(test)]
mod tests;
