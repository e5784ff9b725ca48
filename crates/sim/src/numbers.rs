//! The simulated kernel's numbers: flags and queue ids of sched_ext, which differ from version to
//! version.
//!
//! The scheduler takes them from the running kernel (bpf/kernel/enums.bpf.h), so a simulation must
//! give the same result whatever the numbers are. In [`Numbers::OTHER`] each number differs from
//! that of every kernel. So a number that was copied into the scheduler's source changes the result
//! there.

use std::cell::UnsafeCell;

/// `struct sim_numbers` of host/bpf/bpf_core_read.h, member by member.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub(crate) dsq_local: u64,
    pub(crate) dsq_local_on: u64,
    pub(crate) enq_wakeup: u64,
    pub(crate) enq_head: u64,
    pub(crate) enq_cpu_selected: u64,
    pub(crate) enq_preempt: u64,
    pub(crate) enq_last: u64,
    pub(crate) task_queued: u64,
    pub(crate) kick_idle: u64,
    pub(crate) kick_preempt: u64,
    pub(crate) dsq_iter_rev: u64,
    pub(crate) exit_error: u64,
    pub(crate) ecode_rsn_hotplug: u64,
    pub(crate) ecode_act_restart: u64,
    vm_fault_major: u64,
    cpu_cgrp_id: u64,
}

impl Numbers {
    /// Linux 6.19 to 7.3.
    pub const SINCE_6_19: Self = Self {
        dsq_local: 1 << 63 | 2,
        dsq_local_on: 1 << 63 | 1 << 62,
        enq_wakeup: 1,
        enq_head: 1 << 16,
        enq_cpu_selected: 1 << 20,
        enq_preempt: 1 << 32,
        enq_last: 1 << 41,
        task_queued: 1,
        kick_idle: 1,
        kick_preempt: 2,
        dsq_iter_rev: 1 << 16,
        exit_error: 1024,
        ecode_rsn_hotplug: 1 << 32,
        ecode_act_restart: 1 << 48,
        vm_fault_major: 4,
        cpu_cgrp_id: 1,
    };

    /// Linux 6.12 to 6.18.
    pub const BEFORE_6_19: Self = Self {
        enq_head: 1 << 4,
        enq_cpu_selected: 1 << 10,
        ..Self::SINCE_6_19
    };

    /// The numbers of no kernel: each differs from that of every kernel. The lower 32 bits of a
    /// local queue's id are the CPU, as in all kernels.
    pub const OTHER: Self = Self {
        dsq_local: 1 << 62 | 1,
        dsq_local_on: 1 << 63 | 1 << 61,
        enq_wakeup: 1 << 3,
        enq_head: 1 << 5,
        enq_cpu_selected: 1 << 22,
        enq_preempt: 1 << 35,
        enq_last: 1 << 44,
        task_queued: 1 << 6,
        kick_idle: 1 << 4,
        kick_preempt: 1 << 7,
        dsq_iter_rev: 1 << 19,
        exit_error: 1 << 14,
        ecode_rsn_hotplug: 1 << 37,
        ecode_act_restart: 1 << 53,
        vm_fault_major: 8,
        cpu_cgrp_id: 5,
    };
}

impl Default for Numbers {
    /// The numbers of the newest kernel.
    fn default() -> Self {
        Self::SINCE_6_19
    }
}

/// The variable that the scheduler's source reads.
#[repr(transparent)]
pub(crate) struct Shared(UnsafeCell<Numbers>);
// SAFETY: written by `set` only, before the scheduler's first callback, under the guard of one
// simulation at a time.
unsafe impl Sync for Shared {}

#[no_mangle]
#[allow(non_upper_case_globals)] // the name in host/bpf/bpf_core_read.h
static sim_numbers: Shared = Shared(UnsafeCell::new(Numbers::SINCE_6_19));

/// Set the simulated kernel's numbers. The caller holds the guard of [`crate::Simulation`], and no
/// callback runs.
pub(crate) fn set(numbers: Numbers) {
    // SAFETY: see Shared
    unsafe { *sim_numbers.0.get() = numbers };
}
