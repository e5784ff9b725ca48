/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/autogroup.bpf.h - which of the kernel's autogroups a task is in.
 *
 * The kernel puts a task into its session's autogroup only if no cgroup with the CPU controller has
 * it, and only while kernel.sched_autogroup_enabled is 1. sched_task_group says what came out of
 * that; the root's, and each cgroup's, has no autogroup. (A change of the sysctl reaches a task
 * with the next change of its group, as in the kernel.)
 */
#ifndef APLOMB_KERNEL_AUTOGROUP_BPF_H
#define APLOMB_KERNEL_AUTOGROUP_BPF_H

#include "kernel/types.bpf.h"

/* task_group.shares of nice 0, on 64 bits: 1,024 in fixed point of 10 bits */
#define SHARES_NICE_0 (1UL << 20)

#ifdef __bpf__

/* The number of @p's autogroup. 0: it is in none. */
static __always_inline u32 autogroup_of(struct task_struct *p)
{
	const struct task_struct___group *of = (const void *)p;
	struct autogroup *group;

	if (!bpf_core_field_exists(of->sched_task_group->autogroup))
		return 0;
	group = of->sched_task_group->autogroup;
	return group ? group->id : 0;
}

/* The weight of @p's autogroup, which it has, in sched_ext's units: by /proc/PID/autogroup. */
static __always_inline u32 autogroup_nice_weight(struct task_struct *p)
{
	const struct task_struct___group *of = (const void *)p;

	if (!bpf_core_field_exists(of->sched_task_group->shares))
		return FAIR_NICE_0;
	return of->sched_task_group->shares * FAIR_NICE_0 / SHARES_NICE_0;
}

#else

static inline u32 autogroup_of(struct task_struct *p)
{
	return p->session;
}

static inline u32 autogroup_nice_weight(struct task_struct *p)
{
	return FAIR_NICE_0;
}

#endif

#endif /* APLOMB_KERNEL_AUTOGROUP_BPF_H */
