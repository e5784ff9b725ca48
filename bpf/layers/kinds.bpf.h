/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/kinds.bpf.h - CPUs that differ: on which idle CPU a task wakes up, and when it leaves one
 * of the wrong kind.
 *
 * Source: ours; misfit tasks are EEVDF's (kernel/sched/fair.c, check_misfit_status). What a
 * reservation is on a slow CPU: policy/capacity.h; where it is placed: reserved/room.bpf.h 2.
 *
 * 1. Why. The kernel's choice of an idle CPU (scx_bpf_select_cpu_dfl) knows cores and caches, not
 *    capacities. A game that wakes up while all CPUs are idle may run on a slow one, and a loop
 *    that got one stays there for as long as it does not sleep.
 *
 * 2. Model. There are two kinds of CPUs. Fast ones are nearer to the fastest than to the slowest;
 *    the others are slow. Background work (SCHED_IDLE, cpu.idle) belongs on slow CPUs, all other
 *    tasks on fast ones.
 *
 * 3. Control. A task that wakes up gets an idle CPU of its kind, chosen among these as the kernel
 *    would, or else any idle one: no task waits for its kind. At a tick, a task on a CPU of the
 *    other kind leaves, if one of its kind is idle:
 *
 *        runs ---- tick, such a CPU is idle: claimed ----> [leaves] ---- enqueued ----> runs there
 *                                                             |
 *                                                             +-- sleeps, is parked or reserved:
 *                                                                 the claimed CPU looks again
 *
 * 4. Limits. A task with an affinity mask does not leave at a tick: a search for an idle CPU within
 *    two masks is allowed at a wake-up only. While no CPU is idle, no task leaves: loops that have
 *    a slow CPU each do less work than those on fast ones, as under EEVDF.
 */
#ifndef APLOMB_LAYERS_KINDS_BPF_H
#define APLOMB_LAYERS_KINDS_BPF_H

#include "kernel/migration.bpf.h"
#include "state/state.bpf.h"
#include "tree/place.bpf.h"
#include "tree/queue.bpf.h"

struct bpf_cpumask __kptr *fast_cpus SEC(".data.kinds") __hidden __attribute__((aligned(8)));
struct bpf_cpumask __kptr *slow_cpus SEC(".data.kinds") __hidden __attribute__((aligned(8)));

u32 fast_from; /* the least capacity of a fast CPU */

static __always_inline bool is_fast(u32 cpu)
{
	return capacity_of(cpu) >= fast_from;
}

/* The mask of all fast CPUs, or of all slow ones. NULL: there is no memory. */
static __noinline struct bpf_cpumask *mask_of_kind(bool fast)
{
	TAKES_STACK(8);
	struct bpf_cpumask *mask = bpf_cpumask_create();
	u32 cpu;

	if (!mask)
		return NULL;
	bpf_for(cpu, 0, nr_cpus) {
		if (is_fast(cpu) == fast)
			bpf_cpumask_set_cpu(cpu, mask);
	}
	return mask;
}

/* When the scheduler is loaded: which CPUs are of which kind. Returns 0 or -ENOMEM. */
static __always_inline s32 kinds_init(void)
{
	u32 cpu, least = CAPACITY_FULL;
	struct bpf_cpumask *fast, *slow;

	if (!cpus_differ)
		return 0;
	bpf_for(cpu, 0, nr_cpus) {
		if (capacity_of(cpu) < least)
			least = capacity_of(cpu);
	}
	fast_from = (CAPACITY_FULL + least + 1) / 2;
	fast = bpf_kptr_xchg(&fast_cpus, mask_of_kind(true));
	if (fast)
		bpf_cpumask_release(fast);
	slow = bpf_kptr_xchg(&slow_cpus, mask_of_kind(false));
	if (slow)
		bpf_cpumask_release(slow);
	return fast_cpus && slow_cpus ? 0 : -ENOMEM;
}

/* Is @p background work, which belongs on slow CPUs? */
static __always_inline bool in_background(struct task_struct *p)
{
	return p->policy == SCHED_IDLE || (tree_on && branch(domain_of_task(p))->idle);
}

/* The CPUs on which @p belongs. Not NULL once kinds_init() has succeeded; the verifier asks. */
static __always_inline struct bpf_cpumask *kind_of(struct task_struct *p)
{
	return in_background(p) ? slow_cpus : fast_cpus;
}

/* The idle CPU on which @p wakes up. *@idle: there is one; else the CPU where it waits. */
static __always_inline s32 select_idle(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				       bool *idle)
{
	struct bpf_cpumask *kind = cpus_differ ? kind_of(p) : NULL;
	s32 cpu = -1;

	if (kind)
		cpu = select_cpu_among(p, prev_cpu, wake_flags, (const struct cpumask *)kind);
	*idle = cpu >= 0;
	return *idle ? cpu : scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, idle);
}

/*
 * @cpu was claimed for a task, which does not come: it looks again, and counts as idle then. None,
 * below 0: nothing.
 */
static __always_inline void unclaim(s32 cpu)
{
	if (cpus_differ && cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* A tick on @cpu, with context @c, where @p runs: does it leave for an idle CPU of its kind? */
static __always_inline void kinds_tick(struct task_struct *p, u32 cpu, struct cpu_ctx *c)
{
	struct bpf_cpumask *kind = kind_of(p);
	s32 to;

	if (!kind || bpf_cpumask_test_cpu(cpu, (const struct cpumask *)kind) || c->leaves_pid ||
	    c->by_right || (u32)p->nr_cpus_allowed < nr_cpus || stays(p) ||
	    (tree_on && branch(domain_of_task(p))->limited))
		return;
	to = scx_bpf_pick_idle_cpu((const struct cpumask *)kind, 0);
	if (to < 0)
		return;
	c->leaves_pid = p->pid;
	c->leaves_to = to;
	task_set_slice(p, 0);
}

/* Does @p, which runs on @c's CPU, leave it? Then it has to be enqueued, even if it may go on. */
static __always_inline bool is_leaving(struct task_struct *p, const struct cpu_ctx *c)
{
	return cpus_differ && c->leaves_pid == p->pid;
}

/* @p comes to a queue, or stops and sleeps: the CPU that was claimed for it, or -1. */
static __always_inline s32 claimed_for(struct task_struct *p)
{
	struct cpu_ctx *c = cpu_ctx(task_cpu(p));

	if (!is_leaving(p, c))
		return -1;
	c->leaves_pid = 0;
	return c->leaves_to;
}

/* @p goes to CPU @to, which was claimed for it, if it may. Returns whether it does. */
static __always_inline bool goes_to(struct task_struct *p, s32 to, u64 enq_flags)
{
	struct task_ctx *t = tree_on ? task_ctx(p) : NULL;

	if (!cpu_ctx(to)->online || stays(p) || !bpf_cpumask_test_cpu(to, p->cpus_ptr)) {
		unclaim(to);
		return false;
	}
	if (t)
		tree_not_in(t);
	dsq_insert(p, SCX_DSQ_LOCAL_ON(to), FAIR_SLICE_NS, enq_flags);
	return true;
}

#endif /* APLOMB_LAYERS_KINDS_BPF_H */
