/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/cgroup.bpf.h - what the kernel knows about a cgroup and does not pass to the callbacks.
 */
#ifndef APLOMB_CGROUP_BPF_H
#define APLOMB_CGROUP_BPF_H

#include "kernel/types.bpf.h"
#include "kernel/enums.bpf.h"
#include "kernel/program.bpf.h"

/* The present cpu.idle of @cgrp. The kernel passes only weight and limit to cgroup_init. */
static __always_inline bool cgroup_is_idle(struct cgroup *cgrp)
{
	void *group = NULL;
	int idle = 0;
	u64 at;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return false;
	at = bpf_core_field_offset(struct cgroup, subsys) +
	     bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id) * sizeof(void *);
	bpf_probe_read_kernel(&group, sizeof(group), (void *)cgrp + at);
	if (group && bpf_core_field_exists(struct task_group, idle))
		bpf_probe_read_kernel(&idle, sizeof(idle),
				      group + bpf_core_field_offset(struct task_group, idle));
	return idle > 0;
}

/*
 * The ancestor of @cgrp at @level, below CGROUP_LEVELS, which is not below @cgrp's. The pointer is
 * for BPF_CORE_READ() only.
 */
static __always_inline struct cgroup *cgroup_above(struct cgroup *cgrp, u32 level)
{
	struct cgroup *up = NULL;

	if (level < CGROUP_LEVELS)
		bpf_probe_read_kernel(&up, sizeof(up),
				      (void *)cgrp +
					      bpf_core_field_offset(struct cgroup, ancestors) +
					      level * sizeof(up));
	return up;
}

#endif /* APLOMB_CGROUP_BPF_H */
