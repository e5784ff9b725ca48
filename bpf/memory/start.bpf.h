/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memory/start.bpf.h - a program that is to get a memory domain of its own waits for it.
 *
 * 1. Why. The kernel charges a page to the cgroup that the task is in when it touches the page, and
 *    never moves the charge. The daemon hears of a new program some time after its exec: half a
 *    millisecond on a quiet machine, many of them on a loaded one. What the program touched until
 *    then, such as its first huge page, would stay charged to the root, and so unprotected.
 *
 * 2. So a program that was matched in the root cgroup is parked at its first return to user mode
 *    (PARK_START). The daemon moves it and ends the park. If the daemon is late, the park ends by
 *    itself after START_NS.
 *
 * 3. A program in another cgroup is not moved, and does not wait. Before Linux 7.0 no task can be
 *    parked so.
 */
#ifndef APLOMB_MEMORY_START_BPF_H
#define APLOMB_MEMORY_START_BPF_H

#include "park/park.bpf.h"

/*
 * Longest wait, ns: as long as a park may be. Usually it is half a millisecond. Trade: with 20 ms,
 * of four programs that were started together beside others two had run before the daemon did; a
 * user hardly notices 100 ms.
 */
#define START_NS (100 * NSEC_PER_MSEC)

SETTING u32 programs_move; /* the daemon moves programs into domains of their own */

/* After on_exec (task/exec.bpf.h) at the same tracepoint. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_start, struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);
	u64 now;

	if (!t || !t->starts)
		return 0;
	t->starts = 0;
	if (!programs_move || BPF_CORE_READ(p, cgroups, dfl_cgrp, level))
		return 0;
	now = bpf_ktime_get_ns();
	park(p, PARK_START, now, now + START_NS);
	return 0;
}

#endif /* APLOMB_MEMORY_START_BPF_H */
