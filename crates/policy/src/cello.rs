//! `cello.h`: shares of a disk, by rounds.

/// Groups of a disk (`NR_CELLO_GROUPS`).
pub const GROUPS: usize = 16;
/// The group of soft real-time programs (`CELLO_SOFT_REAL_TIME`).
pub const SOFT_REAL_TIME: usize = 0;
/// The group of interactive programs (`CELLO_INTERACTIVE`).
pub const INTERACTIVE: usize = 1;
/// The first group of a domain with a reservation (`CELLO_DOMAINS`).
pub const DOMAINS: usize = 2;
/// The group of all the rest (`CELLO_REST`).
pub const REST: usize = 15;
/// All gates (`CELLO_ALL`).
pub const ALL: u32 = (1 << GROUPS) - 1;
/// Without a request for so long the disk is idle, ns (`CELLO_IDLE_NS`).
pub const IDLE_NS: u64 = 4_000_000;
/// For so long a group without a request still wants the disk, ns (`CELLO_ANTICIPATE_NS`).
pub const ANTICIPATE_NS: u64 = 1_000_000;
/// Time between two looks, ns (`CELLO_LOOK_NS`).
pub const LOOK_NS: u64 = 2_000_000;
/// Tasks of one group that a look lets wait for the disk (`CELLO_ACTIVE`).
pub const ACTIVE: u32 = 16;

/// How long the disk may need for a turn of each task of the rest, ns (`CELLO_QUEUE_NS`).
pub const QUEUE_NS: u64 = 10_000_000;
/// So many may wait in any case (`CELLO_LEAST_ACTIVE`).
pub const LEAST_ACTIVE: u32 = 2;

/// One group (`struct cello_group`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    /// Of a round, ppm.
    pub share_ppm: u64,
    /// Of this round, ns; below 0: taken off the next.
    pub left: i64,
    /// When it had a request last, ns.
    pub seen: u64,
    /// Requests at the disk.
    pub at_disk: u32,
    /// Tasks that wait for a request, or at the gate.
    pub waiting: u32,
    /// Of these, at the gate.
    pub parked: u32,
    /// Of the others, if there may not be more; 0: as many as want.
    pub most: u32,
}

/// One disk (`struct cello`).
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Cello {
    /// Length of a round, ns.
    pub round_ns: u64,
    /// When this round ends, ns.
    pub round_end: u64,
    /// When a request was done last, ns.
    pub done: u64,
    /// What a request costs on average, ns; 0: not known.
    pub service: u64,
    /// Spent by the rest while tasks stood at its gate, ns, ...
    pub spent: u64,
    /// ... in so many turns of its tasks.
    pub turns: u64,
    /// Since when no two groups want it, ns; 0: they do.
    pub alone: u64,
    /// Gates that are open: bit n is group n.
    pub open: u32,
    /// The groups.
    pub groups: [Group; GROUPS],
}

extern "C" {
    fn policy_cello_begin(c: *mut Cello, now: u64, round_ns: u64);
    fn policy_cello_done(c: *mut Cello, group: u32, sent: u64, now: u64) -> u64;
    fn policy_cello_look(c: *mut Cello, now: u64) -> u32;
    fn policy_cello_admits(c: *mut Cello, group: u32) -> u32;
    fn policy_cello_released(c: *mut Cello, group: u32, nr: u32);
    fn policy_cello_share(c: *mut Cello, soft_real_time: u64, interactive: u64, rest: u64);
}

impl Cello {
    /// A disk of which nothing is known, at `now`, with rounds of `round_ns`.
    pub fn begin(&mut self, now: u64, round_ns: u64) {
        // SAFETY: this and the functions below change `*self` only
        unsafe { policy_cello_begin(self, now, round_ns) }
    }

    /// A request of `group`, below [`GROUPS`], that was sent to the disk at `sent` is done at
    /// `now`. Returns what it cost, ns.
    pub fn done(&mut self, group: usize, sent: u64, now: u64) -> u64 {
        // SAFETY: see above
        unsafe { policy_cello_done(self, group as u32, sent, now) }
    }

    /// Decides which gates are open, and returns them.
    pub fn look(&mut self, now: u64) -> u32 {
        // SAFETY: see above
        unsafe { policy_cello_look(self, now) }
    }

    /// How many tasks at the gate of `group`, below [`GROUPS`], are let through.
    pub fn admits(&mut self, group: usize) -> u32 {
        // SAFETY: see above
        unsafe { policy_cello_admits(self, group as u32) }
    }

    /// `nr` tasks at the gate of `group`, below [`GROUPS`], are let through.
    pub fn released(&mut self, group: usize, nr: u32) {
        // SAFETY: see above
        unsafe { policy_cello_released(self, group as u32, nr) }
    }

    /// Shares what the domains leave by these weights.
    pub fn share(&mut self, soft_real_time: u64, interactive: u64, rest: u64) {
        // SAFETY: see above
        unsafe { policy_cello_share(self, soft_real_time, interactive, rest) }
    }
}

#[cfg(test)]
mod tests;
