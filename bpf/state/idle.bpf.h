/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/idle.bpf.h - idle CPUs: how a task that waits for a busy CPU finds another that helps.
 */
#ifndef APLOMB_IDLE_BPF_H
#define APLOMB_IDLE_BPF_H

#include "state/state.bpf.h"

/*
 * Most CPUs that have gone off line and are skipped in one search for an idle one. If there are
 * more, the task gets no help now.
 */
#define MAX_GONE 8

/*
 * @p waits for a CPU that is busy: kicks an idle CPU that @p may use. A CPU that is off line can
 * still count as idle, until it is picked once.
 */
static __noinline void ask_idle(struct task_struct *p)
{
	TAKES_STACK(16);
	u32 i;

	bpf_for(i, 0, MAX_GONE) {
		s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (idle < 0)
			return;
		if (cpu_ctx(idle)->online) {
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			return;
		}
	}
}

#endif /* APLOMB_IDLE_BPF_H */
