//! `share.h`: the share of a domain's member, by its reservation and its weight (Eclipse, section
//! 6).

/// The part of the machine that all domains together may reserve, ppm (`SHARE_LIMIT_PPM`).
pub const LIMIT: u64 = 950_000;
/// [`Due::weight`] of a member with a weight of 1 and no reservation (`SHARE_UNIT`).
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

/// A member and its siblings. All reservations are in ppm of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// The member's reservation.
    pub reserved: u32,
    /// Sum of the reservations of all members, including this one.
    pub reserved_sum: u32,
    /// The parent's reservation; 0: the parent has the whole machine.
    pub parent: u32,
    /// `cpu.weight`, 1 to 10,000.
    pub weight: u32,
    /// Sum of the weights of all members, including this one.
    pub weight_sum: u64,
}

impl Due {
    /// The member's share, ppm of its parent's time, 1 to 1,000,000.
    pub fn ppm(&self) -> u32 {
        // SAFETY: pure arithmetic on the arguments; so are the next two.
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

    /// A weight for policies like SFQ: the weights of two members have the same ratio as their
    /// shares.
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

/// Can `add` be reserved beside `reserved_sum` without exceeding `limit`? All in ppm.
pub fn fits(reserved_sum: u64, add: u64, limit: u64) -> bool {
    unsafe { policy_share_fits(reserved_sum, add, limit) }
}

#[cfg(test)]
mod tests;
