//! The kernel's tick, as user space can learn it.

/// Between two ticks of a CPU, ns: the resolution of the clock that ticks drive.
pub(super) fn period_ns() -> u64 {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the struct
    let status = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    let known = status == 0 && resolution.tv_sec == 0 && resolution.tv_nsec > 0;
    // HZ is 100 to 1000; a tick that is taken for too long costs timers and nothing else
    if known {
        resolution.tv_nsec as u64
    } else {
        10_000_000
    }
}
