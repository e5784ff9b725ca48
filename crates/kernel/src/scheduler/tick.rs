//! The kernel's tick, as user space can learn it.

/// The time between two ticks of a CPU, ns. It equals the resolution of the clock that ticks
/// advance.
pub(super) fn period_ns() -> u64 {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes only this struct.
    let status = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    let known = status == 0 && resolution.tv_sec == 0 && resolution.tv_nsec > 0;
    // HZ is 100 to 1000, so 10 ms is the longest tick. If a tick is assumed too long, more timers
    // are set, which costs some time but does no harm.
    if known {
        resolution.tv_nsec as u64
    } else {
        10_000_000
    }
}
