/* SPDX-License-Identifier: GPL-2.0 */
/*
 * park/request.bpf.h - root parks a thread (aplomb park): the reason PARK_REQUEST. The daemon ends
 * that park, or the one at the start of a program (memory/start.bpf.h).
 *
 * The daemon runs this program (BPF_PROG_RUN) after it has checked the caller's rights. The answer
 * is in the arguments.
 */
#ifndef APLOMB_PARK_REQUEST_BPF_H
#define APLOMB_PARK_REQUEST_BPF_H

#include "park/holding.bpf.h"

/* So that the skeleton knows this type */
const volatile struct park_args park_args_layout;

SEC("syscall")
int park_request(struct park_args *args)
{
	struct task_struct *p = bpf_task_from_pid(args->pid);
	u64 now = bpf_ktime_get_ns(), ns = args->for_ns;

	args->result = -ESRCH;
	if (!p)
		return 0;
	if (ns) {
		args->result = park(p, PARK_REQUEST, now, now + ns);
	} else {
		unpark(p, PARK_REQUEST);
		unpark(p, PARK_START);
		args->result = 0;
	}
	bpf_task_release(p);
	return 0;
}

#endif /* APLOMB_PARK_REQUEST_BPF_H */
