//! The scheduler's policies on the host: the headers that run in the kernel, and tests of their
//! guarantees.
//!
//! `bpf/policy/*.h` is pure C: no kernel types, no maps, no clock. Clang compiles it to BPF, and
//! this crate compiles it with the host's compiler. So there is only one copy of each algorithm.
//! Each module wraps one header (`#[repr(C)]` structs and thin functions, no logic). Its tests are
//! beside it: examples of each branch, and theorems as properties over random workloads in virtual
//! time.
//!
//! | module | header | what is proved |
//! |---|---|---|
//! | [`edf`] | edf.h | feasibility, isolation, bandwidth bounds; the faults of Listing 1 |
//! | [`fcbs`] | fcbs.h | the paper's three rules; a lender loses nothing, no deadline is missed |
//! | [`wmr`] | wmr.h | admitted task sets miss no deadline on several CPUs; the demand bound |
//! | [`capacity`] | capacity.h | what fits as work fits as time; no work is lost by rounding |
//! | [`load`] | load.h | R_load and S_load, admission, the usage window |
//! | [`fair`] | fair.h | proportional shares, bounded credit and debt, the pair of queues |
//! | [`autogroup`] | autogroup.h | a session has one task's weight, and loses none with less |
//! | [`lift`] | lift.h | a kernel thread that always has work is lifted for a twentieth of it |
//! | [`heap`] | heap.h | the least key is on top, the shape is leftist, operations take O(log n) |
//! | [`sfq`] | sfq.h | the fairness bound, the delay of a member that wakes up |
//! | [`mtr`] | mtr.h | cumulative service, fairness, delay |
//! | [`fifo`] | fifo.h | no task overtakes another, across the wrap of its numbers too |
//! | [`wrr`] | wrr.h | shares of members that never sleep; what `mtr` has and it lacks |
//! | [`share`] | share.h | shares add up to the whole, and none is less than its reservation |
//! | [`quota`] | quota.h | no period has more than its quota, debts are repaid, no time is lost |
//! | [`background`] | background.h | best-effort work keeps its share and waits otherwise |
//! | [`park`] | park.h | several reasons; the bound that holds for all together |
//! | [`bump`] | bump.h | less free memory, fewer pages; free memory settles above `min` |
//! | [`cello`] | cello.h | shares of a disk, the disk is not idle, no task starves |
//! | [`hsfq`] | hsfq.h | shares of a link in bytes, room for newcomers, no packet is lost |
//! | [`codel`] | codel.h | bursts pass, a standing queue loses packets by the law |
//! | [`shaper`] | shaper.h | the rate is kept in any interval, and none of it is lost |
//! | [`dirty`] | dirty.h | the dirty pages of best-effort work are bounded, the device has work |
//! | [`reserve`] | reserve.h | the rate of an interactive program, Redline's inequality |
//!
//! The crate is for tests and the simulator; the daemon does not contain it.

pub mod autogroup;
pub mod background;
pub mod bump;
pub mod capacity;
pub mod cello;
pub mod codel;
pub mod dirty;
pub mod edf;
pub mod fair;
pub mod fcbs;
pub mod fifo;
pub mod heap;
pub mod hsfq;
pub mod lift;
pub mod load;
pub mod mtr;
pub mod park;
pub mod quota;
pub mod reserve;
pub mod sfq;
pub mod shaper;
pub mod share;
pub mod wmr;
pub mod wrr;

#[cfg(test)]
mod node;

/// Nanoseconds in a microsecond.
pub const US: u64 = 1_000;
/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const SEC: u64 = 1_000_000_000;
/// One whole CPU in parts per million (`PPM` of types.h).
pub const PPM: u64 = 1_000_000;
/// "Never" on the header's clock (`TIME_NEVER` of types.h).
pub const TIME_NEVER: u64 = 1 << 62;

/// Asserts that `$type` has the layout of the C struct: its size, and the offset of each field in
/// order.
#[cfg(test)]
macro_rules! assert_layout {
    ($c:ident, $type:ty, $($field:ident),+) => {{
        let rust = [std::mem::size_of::<$type>(), $(std::mem::offset_of!($type, $field)),+];
        extern "C" {
            static $c: [usize; 1 + [$(stringify!($field)),+].len()];
        }
        // SAFETY: a constant array of shim.c, as long as the list of fields there.
        assert_eq!(unsafe { $c }, rust, stringify!($c));
    }};
}
#[cfg(test)]
pub(crate) use assert_layout;
