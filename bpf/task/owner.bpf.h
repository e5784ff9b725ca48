/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/owner.bpf.h - to which user a process belongs, for the daemon, whose limits for each user
 * then count as the scheduler's accounts do (kernel/owner.bpf.h).
 */
#ifndef APLOMB_TASK_OWNER_BPF_H
#define APLOMB_TASK_OWNER_BPF_H

#include "kernel/owner.bpf.h"

#ifdef __bpf__
/* So that the skeleton knows this type */
const volatile struct owner_args owner_args_layout;

SEC("syscall")
int owner_of(struct owner_args *args)
{
	struct task_struct *p = bpf_task_from_pid(args->pid);

	args->result = -ESRCH;
	if (!p)
		return 0;
	args->uid = task_uid(p);
	args->owner = task_owner(p);
	args->result = 0;
	bpf_task_release(p);
	return 0;
}
#endif

#endif /* APLOMB_TASK_OWNER_BPF_H */
