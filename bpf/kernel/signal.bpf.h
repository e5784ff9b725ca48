/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/signal.bpf.h - what the kernel wants of a task that is not running: to die, or to freeze.
 *
 * A fatal signal is delivered to each thread of the process as SIGKILL (complete_signal).
 * cgroup.freeze sets a bit in each task's jobctl (cgroup_freeze_task). After either the kernel
 * calls signal_wake_up_state(), which does nothing for a task that is runnable and waits for a CPU.
 * The task dies or freezes when it next runs, at its return to user mode.
 */
#ifndef APLOMB_KERNEL_SIGNAL_BPF_H
#define APLOMB_KERNEL_SIGNAL_BPF_H

#include "kernel/types.bpf.h"

/* include/linux/sched/jobctl.h; the same bit since it came with 5.2 */
#define JOBCTL_TRAP_FREEZE (1UL << 23)
#define SIGKILL 9

/* Must @p go to its return to user mode, to die or to freeze there? */
static __always_inline bool is_recalled(const struct task_struct *p)
{
#ifndef __bpf__
	return false;
#else
	return (p->jobctl & JOBCTL_TRAP_FREEZE) ||
	       (p->pending.signal.sig[0] & (1UL << (SIGKILL - 1)));
#endif
}

#endif /* APLOMB_KERNEL_SIGNAL_BPF_H */
