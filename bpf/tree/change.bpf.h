/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/change.bpf.h - a CPU moves a waiting task to a lane with another clock.
 *
 * 1. Why. The kernel gives the task its new virtual time in the same moment in which it moves the
 *    task, or refuses the move because another CPU has taken the task. Either way the task may run
 *    at once, before the CPU that moves it can say by which clock its virtual time counts. Taken by
 *    the wrong clock it would be far behind, and keep the CPU from the others for as long, or far
 *    ahead.
 *
 * 2. Control. The mover announces the change: the clock, and the virtual time that the task has if
 *    it was moved. Each look at the task's clock (tree/clock.bpf.h) compares them first. Of two
 *    movers the first announces; the other leaves the task where it is.
 *
 *        change_begin() --> scx_bpf_dsq_move_vtime() --> change_end()
 *                            |
 *                            +--> it runs: change_seen()
 */
#ifndef APLOMB_TREE_CHANGE_BPF_H
#define APLOMB_TREE_CHANGE_BPF_H

#include "state/state.bpf.h"

/*
 * @t's thread is to move to lane @k of @cpu, and has virtual time @v there. False: another CPU is
 * moving it.
 */
static __always_inline bool change_begin(struct task_ctx *t, u32 cpu, u32 k, u64 v)
{
	if (__sync_val_compare_and_swap(&t->change.clock, 0, cpu + 1))
		return false;
	t->change.lane = k;
	t->change.vtime = v;
	return true;
}

/* @p begins to run, or is enqueued: was it moved, by a CPU that has not said so yet? */
static __always_inline void change_seen(const struct task_struct *p, struct task_ctx *t)
{
	u32 clock = t->change.clock;

	if (clock && p->scx.dsq_vtime == t->change.vtime) {
		t->lane = t->change.lane;
		t->clock = clock;
	}
}

/* @t's thread, whose clock was @was, was @moved, or the kernel has refused. */
VERIFIED_ONCE int change_end(struct task_ctx *t __arg_nonnull, u32 was, bool moved)
{
	u32 clock = t->change.clock, lane = t->change.lane;

	/* not if the thread has run since, by a clock that is another one now */
	if (moved && __sync_val_compare_and_swap(&t->clock, was, clock) == was)
		t->lane = lane;
	t->change.clock = 0;
	return 0;
}

#endif /* APLOMB_TREE_CHANGE_BPF_H */
