/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/guard.bpf.h - when the running task is not preempted by one that wakes up. Theory:
 * policy/fair.h 3.
 *
 *      it gets the CPU --- guarded ---> a task wakes up that would preempt it ---> [wanted]
 *                                                                                     |
 *                                 the CPU chooses anew: by a timer, or at the tick <--+
 */
#ifndef APLOMB_TREE_GUARD_BPF_H
#define APLOMB_TREE_GUARD_BPF_H

#include "kernel/types.bpf.h"
#include "policy/fair.h"
#include "state/timer.bpf.h"

/* Does @c's CPU run something that no task of the fair layer preempts when it wakes up? */
static __always_inline bool undisturbed(const struct cpu_ctx *c)
{
	return c->by_right || c->in_turn || c->tree.rescued || c->exec.busy;
}

/*
 * A task that wakes up would preempt the one that runs on @cpu, which is guarded. In @left ns the
 * CPU chooses anew; 0: at the tick. A timer is not set from another CPU, nor where it ends the
 * task's time.
 */
static __noinline int wait_for_guard(struct cpu_ctx *c, u32 cpu, u64 left)
{
	c->tree.wanted = 1;
	if (left && c->timer_due == TIME_NEVER && cpu == bpf_get_smp_processor_id())
		cpu_timer_start(cpu, bpf_ktime_get_ns(), left);
	return 0;
}

/*
 * The tick: @p, which runs on @c's CPU, was guarded from a task that woke up. However long it has
 * run, the CPU chooses anew.
 */
static __always_inline void guard_ends(struct task_struct *p, struct cpu_ctx *c)
{
	c->tree.wanted = 0;
	if (!undisturbed(c))
		task_set_slice(p, 0);
}

#endif /* APLOMB_TREE_GUARD_BPF_H */
