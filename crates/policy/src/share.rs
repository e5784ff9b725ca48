//! `share.h`: what a member of a domain is due, by its reservation and its weight.

/// Of the machine, what all domains may reserve together, ppm (`SHARE_LIMIT_PPM`).
pub const LIMIT: u64 = 950_000;
/// What [`Due::weight`] makes of a weight of 1 (`SHARE_UNIT`).
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
    /// What it has reserved.
    pub reserved: u32,
    /// What all members have, itself included.
    pub reserved_sum: u32,
    /// What the parent has; 0: all of the machine.
    pub parent: u32,
    /// `cpu.weight`, 1 to 10,000.
    pub weight: u32,
    /// Of all members, itself included.
    pub weight_sum: u64,
}

impl Due {
    /// What it is due, in ppm of its parent, 1 to 1,000,000.
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

    /// The weight whose ratio to the other members' is that of what they are due.
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

/// May `add` be reserved beside `reserved_sum`, where `limit` is the most? All in ppm.
pub fn fits(reserved_sum: u64, add: u64, limit: u64) -> bool {
    unsafe { policy_share_fits(reserved_sum, add, limit) }
}

#[cfg(test)]
mod tests;
