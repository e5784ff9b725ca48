//! `reserve.h`: the budget with which one interactive program takes pages from the reserve.

/// Pages of a budget (`RESERVE_PAGES`).
pub const PAGES: u32 = 256;
/// Cost of a page, ns (`RESERVE_PAGE_NS`).
pub const PAGE_NS: u64 = 5 * crate::MS;

/// The budget of one program (`struct reserve_budget`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// When the first page of the budget was taken, ns; valid if `begun`.
    pub first: u64,
    /// Pages that are left.
    pub left: u32,
    pub begun: u32,
}

extern "C" {
    fn policy_reserve_draw(budget: *mut Budget, pages: u32, now: u64) -> u64;
    fn policy_reserve_top(min: u64, low: u64, growth_ppm: u32) -> u64;
}

/// The free pages below which a program draws on its budget, where the kernel's watermarks are
/// `min` and `low`, pages. `growth_ppm`: the part of their distance that is the growth buffer, at
/// most 1,000,000.
pub fn top(min: u64, low: u64, growth_ppm: u32) -> u64 {
    // SAFETY: pure arithmetic on its arguments
    unsafe { policy_reserve_top(min, low, growth_ppm) }
}

impl Budget {
    /// The program takes `pages` at `now`, ns. Returns the time until which it has to wait before
    /// it may take more, or None.
    pub fn draw(&mut self, pages: u32, now: u64) -> Option<u64> {
        // SAFETY: the C function changes `*self` only, whose layout a test compares
        let until = unsafe { policy_reserve_draw(self, pages, now) };
        (until != 0).then_some(until)
    }
}

#[cfg(test)]
mod tests;
