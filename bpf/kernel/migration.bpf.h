/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/migration.bpf.h - is migration of a task disabled at the moment, whatever its affinity?
 *
 * The kernel may disable migration of the current task for the callback itself (__bpf_prog_enter).
 * That must not count, because it ends with the callback.
 */
#ifndef APLOMB_MIGRATION_BPF_H
#define APLOMB_MIGRATION_BPF_H

#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"

/*
 * How often the kernel has disabled migration of the current task for the callback itself: once on
 * all kernels before 6.18, later only with preemptible RCU. If a current task has a count of 0,
 * this kernel does not do it.
 */
u32 disabled_by_callback = 1; /* not static: clang would make it a bool, but u32 in its BTF */

/* Called in ops.enable, which comes before all other callbacks of a task. */
static __always_inline void look_at_callback(void)
{
	if (!bpf_get_current_task_btf()->migration_disabled)
		disabled_by_callback = 0;
}

/* Does @p have to stay on its CPU for a moment (migrate_disable), whatever its affinity? */
static __always_inline bool stays(struct task_struct *p)
{
	u32 own = p == bpf_get_current_task_btf() ? disabled_by_callback : 0;

	return p->migration_disabled > own;
}

/*
 * @p's affinity, for a choice that outlives the moment. While a task that may not migrate for the
 * moment is off its CPU, p->cpus_ptr names that CPU only (migrate_disable_switch() of the kernel's
 * scheduler). A task that is preempted in our BPF program at its exec is such a one, so admission
 * must not look at cpus_ptr.
 */
static __always_inline const cpumask_t *affinity(const struct task_struct *p)
{
#ifndef __bpf__ /* there a task may always migrate */
	return p->cpus_ptr;
#else
	return &p->cpus_mask;
#endif
}

/*
 * Does a system call that changed @p's affinity wait until @p, which may not migrate for the
 * moment, has moved?
 */
static __always_inline bool waits_to_move(const struct task_struct *p)
{
#ifndef __bpf__
	return false;
#else
	return bpf_core_field_exists(p->migration_pending) && p->migration_pending;
#endif
}

#endif /* APLOMB_MIGRATION_BPF_H */
