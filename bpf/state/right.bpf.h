/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/right.bpf.h - by what right a task waits, and which virtual time it has meanwhile.
 *
 * A task that waits by right has its deadline in dsq_vtime, and its virtual time in
 * task_ctx.fair_vtime. `by_deadline` says so. It is not the same as `by_right`: a CPU that moves
 * the task to the fair layer takes the right away before, and only after the kernel has made the
 * move is dsq_vtime a virtual time again (layers/move.bpf.h).
 *
 * task_ctx.stay tells such a CPU whether the task is still where it was.
 */
#ifndef APLOMB_STATE_RIGHT_BPF_H
#define APLOMB_STATE_RIGHT_BPF_H

#include "state/state.bpf.h"

/* @p, of context @t, waits by @right from now on; the caller sets its deadline. */
static __always_inline void right_begin(struct task_struct *p, struct task_ctx *t, u32 right)
{
	if (!t->by_deadline)
		t->fair_vtime = p->scx.dsq_vtime;
	t->by_deadline = 1;
	t->by_right = right;
}

/* @p, of context @t, is enqueued, or begins to run. Returns by what right it waited until now. */
static __always_inline u32 right_end(struct task_struct *p, struct task_ctx *t)
{
	u32 right = t->by_right;

	t->stay++;
	t->by_right = RIGHT_NONE;
	if (t->by_deadline) {
		t->by_deadline = 0;
		task_set_vtime(p, t->fair_vtime);
	}
	return right;
}

#endif /* APLOMB_STATE_RIGHT_BPF_H */
