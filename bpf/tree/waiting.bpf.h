/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/waiting.bpf.h - do tasks of the fair layer wait for a CPU, and which idle CPUs are woken for
 * them?
 */
#ifndef APLOMB_TREE_WAITING_BPF_H
#define APLOMB_TREE_WAITING_BPF_H

#include "state/state.bpf.h"
#include "tree/node.bpf.h"

/* Does a task wait in a lane of @cpu? */
VERIFIED_ONCE int pinned_waiting(u32 cpu)
{
	u32 k;

	bpf_for(k, 0, cpu_ctx(cpu)->tree.nr_lanes) {
		if (scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)))
			return true;
	}
	return false;
}

/* Does a task wait in a lane of any CPU? */
VERIFIED_ONCE int any_pinned_waiting(void)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		if (pinned_waiting(i))
			return true;
	}
	return false;
}

/*
 * Does a task of the fair layer wait that @cpu may take? (A pinned one in DSQ_FAIR: perhaps not.)
 */
static __always_inline bool fair_waiting(u32 cpu)
{
	if (tree_on ? branches[SLOT_ROOT].heap != 0 : scx_bpf_dsq_nr_queued(DSQ_FAIR) != 0)
		return true;
	return nr_cpus > 1 && pinned_waiting(cpu);
}

/*
 * fair_waiting() for a task that wakes up, without domains. To ask the kernel how many tasks a
 * queue has takes as long as all the rest of a wake-up here. So the answer "none" is kept until
 * this CPU's next tick, or until a task is enqueued that may wait for this CPU. Trade: a task that
 * came to the machine's queue on another CPU may be overtaken for one tick by pinned tasks that
 * wake up here.
 */
static __always_inline bool nobody_waits(u32 cpu, struct cpu_ctx *c)
{
	if (c->tree.straight)
		return false;
	if (tree_on)
		return !fair_waiting(cpu);
	if (!c->tree.unwanted)
		c->tree.unwanted = !fair_waiting(cpu);
	return c->tree.unwanted;
}

/*
 * Domains have time again: wakes one idle CPU for each task that waits. If tasks wait in lanes, it
 * wakes all idle CPUs, because it does not know here which of them may take those tasks.
 */
VERIFIED_ONCE int wake_idle(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 i, tasks;

	tree_released = 0; /* first: a domain that is released from now on is not seen below */
	tasks = tree_waiting + scx_bpf_dsq_nr_queued(DSQ_FAIR) + scx_bpf_dsq_nr_queued(DSQ_RESCUE);
	if (nr_cpus > 1 && any_pinned_waiting())
		tasks = nr_cpus;
	bpf_for(i, 0, nr_cpus) {
		s32 idle;

		if (!tasks)
			break;
		idle = scx_bpf_pick_idle_cpu(online, 0);
		if (idle < 0)
			break;
		if (!cpu_ctx(idle)->online) /* a CPU that goes off line still counts as idle */
			continue;
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		tasks--;
	}
	scx_bpf_put_cpumask(online);
	return 0;
}

#endif /* APLOMB_TREE_WAITING_BPF_H */
