/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/account.bpf.h - the CPU time of a task is charged in both layers.
 *
 * All CPU time counts in the fair layer, by right or not. So a reserved task gets spare time only
 * if its share is more than it has run by right. Time by right is charged to the server as well;
 * all other time counts towards what best-effort work is due.
 *
 * Accounts are settled when a task stops (ops.stopping). They are settled in ops.dispatch too, for
 * the task that might go on, so that it takes part in the choice as if it waited.
 */
#ifndef APLOMB_ACCOUNT_BPF_H
#define APLOMB_ACCOUNT_BPF_H

#include "reserved/run.bpf.h"
#include "task/server.bpf.h"
#include "tree/charge.bpf.h"

/* @prev, which has no server, runs on @cpu and might go on. */
static __always_inline void settle(struct task_struct *prev, u32 cpu, struct cpu_ctx *c)
{
	u64 ran = prev->se.sum_exec_runtime - c->exec_start;

	c->exec_start += ran;
	fair_charge(prev, cpu, c, ran, false, true);
	if (reserved_on)
		background_ran(c, ran);
}

/* @prev, which has a server, runs on @cpu, is in no queue and might go on. */
VERIFIED_ONCE int reserved_settle(struct task_struct *prev __arg_trusted, u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 ran = prev->se.sum_exec_runtime - c->exec_start;
	struct task_ctx *t = task_ctx(prev);
	struct server *s;

	fair_charge(prev, cpu, c, ran, false, true);
	reserved_stopping(t, cpu, ran, true);
	if (!c->by_right)
		background_ran(c, ran);
	if (t)
		window_charge(prev, t, ran);
	c->exec_start += ran;
	c->by_right = RIGHT_NONE;
	s = draws_on(t);
	if (s) { /* another one than before, if it executed a program meanwhile */
		awake_join(s, t);
		c->reserved.slot = t->slot;
		c->reserved.generation = t->generation;
	}
	return 0;
}

/* Has @prev, which started to run as best-effort work, got a server since (by exec)? */
static __always_inline bool became_reserved(struct task_struct *prev, struct cpu_ctx *c)
{
	struct task_ctx *t = task_ctx_if_any(prev);

	if (!draws_on(t))
		return false;
	c->reserved.slot = t->slot;
	c->reserved.generation = t->generation;
	return true;
}

/* @p, which has a server, stops on @cpu after @ran ns. */
static __always_inline void reserved_stop(struct task_struct *p, u32 cpu, struct cpu_ctx *c,
					  u64 ran, bool runnable)
{
	struct task_ctx *t = task_ctx(p);

	reserved_stopping(t, cpu, ran, runnable);
	if (!t)
		return;
	window_charge(p, t, ran);
	/* if a higher class preempted it, it runs again by right, without an enqueue */
	t->by_right = runnable ? c->by_right : RIGHT_NONE;
	t->fair_vtime = p->scx.dsq_vtime;
}

#endif /* APLOMB_ACCOUNT_BPF_H */
