//! `share.h`: the share of a member of a domain, by its reservation and its weight.

/// The part of the machine that all domains may reserve together, ppm (`SHARE_LIMIT_PPM`).
pub const LIMIT: u64 = 950_000;
/// The value of [`Due::weight`] for a weight of 1 (`SHARE_UNIT`).
pub const UNIT: u32 = 64;

extern "C" {
    fn policy_share_ppm(
        reserved: u32,
        reserved_sum: u32,
        parent: u32,
        weight: u32,
        weight_sum: u64,
    ) -> u32;
    fn policy_share_weight(
        reserved: u32,
        reserved_sum: u32,
        parent: u32,
        weight: u32,
        weight_sum: u64,
    ) -> u32;
    fn policy_share_fits(reserved_sum: u64, add: u64, limit: u64) -> bool;
}

/// A member beside its siblings. All reservations are in ppm of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// Its reservation.
    pub reserved: u32,
    /// Sum of the reservations of all members, itself included.
    pub reserved_sum: u32,
    /// The parent's reservation; 0: the whole machine.
    pub parent: u32,
    /// `cpu.weight`, 1 to 10,000.
    pub weight: u32,
    /// Sum of the weights of all members, itself included.
    pub weight_sum: u64,
}

impl Due {
    /// Its share, ppm of its parent, 1 to 1,000,000.
    pub fn ppm(&self) -> u32 {
        // SAFETY: pure arithmetic on its arguments, as are the next two
        unsafe {
            policy_share_ppm(
                self.reserved,
                self.reserved_sum,
                self.parent,
                self.weight,
                self.weight_sum,
            )
        }
    }

    /// A weight: the ratio of two members' weights is that of their shares.
    pub fn weight(&self) -> u32 {
        unsafe {
            policy_share_weight(
                self.reserved,
                self.reserved_sum,
                self.parent,
                self.weight,
                self.weight_sum,
            )
        }
    }
}

/// May `add` be reserved beside `reserved_sum` within `limit`? All in ppm.
pub fn fits(reserved_sum: u64, add: u64, limit: u64) -> bool {
    unsafe { policy_share_fits(reserved_sum, add, limit) }
}

#[cfg(test)]
mod tests;
