/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/clock.bpf.h - the virtual time of a task that changes between queues with clocks of their
 * own.
 *
 * 1. Why. Each lane has a virtual time of its own, and so has each domain and, without domains, the
 *    machine's queue. They advance at different speeds: that of a lane with one task follows the
 *    time of day, that of 20 tasks on 2 CPUs a tenth of it. A task whose affinity is set and taken
 *    back would bring the lane's clock with it. It would wait until the others have caught up, and
 *    if it runs, the queue's clock jumps to its own.
 *
 * 2. Control. task_ctx.clock says by which clock a task's virtual time counts. If the task belongs
 *    to another queue now, it keeps its virtual time by the clock of its domain
 *    (tree/place.bpf.h 3). This is seen when its affinity changes, when it is enqueued and when it
 *    begins to run.
 *
 * 3. Without domains a task gets a context for this when its affinity changes, or if it is pinned
 *    when it is forked. If there is no memory for one, its clock is not known, and the bounds of
 *    policy/fair.h hold alone.
 */
#ifndef APLOMB_TREE_CLOCK_BPF_H
#define APLOMB_TREE_CLOCK_BPF_H

#include "tree/change.bpf.h"
#include "tree/place.bpf.h"

/*
 * What the virtual time of the queue of @clock, lane @k or that of @domain, is more than @domain's
 * when they are even.
 */
static __always_inline u64 even_of(u32 domain, u32 clock, u32 k)
{
	struct lane *l;

	if (!clock)
		return 0;
	l = lane(cpu_ctx(clock - 1), k);
	lane_ahead(l, domain); /* `even` follows */
	return l->pair.even;
}

/* Has the queue of @clock an order of its own, so that its fair_queue does not count? */
static __always_inline bool other_order(const struct task_ctx *t, u32 clock)
{
	return !clock && tree_on && !leaf_is_fair(branch(t->domain));
}

/* Returns the virtual time @v of @t's thread by its domain's clock. */
static __always_inline u64 by_domain(const struct task_ctx *t, u64 v)
{
	return other_order(t, t->clock) ? *beside_clock(t->domain)
					: v - even_of(t->domain, t->clock, t->lane);
}

/* @t's thread, with virtual time @v by its clock so far, comes to the queue of @clock. */
VERIFIED_ONCE u64 by_clock(struct task_ctx *t __arg_nonnull, u64 v, u32 clock)
{
	u64 common = by_domain(t, v);

	if (clock)
		t->lane = lane_of(clock - 1, t->domain);
	t->clock = clock;
	if (other_order(t, clock))
		return branch_start(branch(t->domain));
	return common + even_of(t->domain, clock, t->lane);
}

/* The virtual time with which @t's thread, of @weight and so far at @v, joins lane @k of @cpu. */
VERIFIED_ONCE u64 lane_vtime(const struct task_ctx *t __arg_nonnull, u64 v, u32 weight, u32 cpu,
			     u32 k)
{
	v = by_domain(t, v) + even_of(t->domain, cpu + 1, k);
	return fair_place(v, &lane(cpu_ctx(cpu), k)->fair, weight);
}

/* @p, of context @t, belongs to the queue of its affinity on @cpu: its virtual time follows (2). */
static __always_inline void follow_clock(struct task_struct *p, struct task_ctx *t, u32 cpu)
{
	u32 clock = pinned(p) ? cpu + 1 : 0;

	change_seen(p, t);
	if (t->clock == clock)
		return;
	if (t->by_deadline)
		t->fair_vtime = by_clock(t, t->fair_vtime, clock);
	else
		task_set_vtime(p, by_clock(t, p->scx.dsq_vtime, clock));
}

#endif /* APLOMB_TREE_CLOCK_BPF_H */
