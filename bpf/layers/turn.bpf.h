/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/turn.bpf.h - the turn of best-effort work before reserved tasks, and the start of a run by
 * right, which lasts until that turn at most. Theory: policy/background.h.
 *
 *     reserved task runs ---- laxity is used up ----> [turn: best-effort work] ---- what it is owed is
 *            ^                                                                  used up (timer) ----+
 *            +--------------------------------------------------------------------------------------+
 */
#ifndef APLOMB_TURN_BPF_H
#define APLOMB_TURN_BPF_H

#include "reserved/run.bpf.h"
#include "tree/dispatch.bpf.h"
#include "tree/waiting.bpf.h"

/* Is best-effort work due on @cpu before any reserved task? @runs: a best-effort task runs now. */
static __always_inline bool turn_due(u32 cpu, struct cpu_ctx *c, bool runs)
{
	return !laxity(c, bpf_ktime_get_ns()) && (runs || fair_waiting(cpu));
}

/* Best-effort work begins its turn on @cpu. */
static __always_inline void turn_begin(u32 cpu, struct cpu_ctx *c)
{
	s64 owed = c->reserved.background.owed;

	c->in_turn = 1;
	cpu_timer_start(cpu, bpf_ktime_get_ns(), owed > 0 ? owed : 1);
}

/*
 * If best-effort work is due, it goes before reserved tasks now. @plain: the best-effort task that
 * runs, or NULL. True: the choice is made.
 */
static __always_inline bool turn_dispatch(u32 cpu, struct cpu_ctx *c, struct task_struct *plain)
{
	enum fair_choice choice;

	if (!turn_due(cpu, c, plain))
		return false;
	c->next.in_turn = 1;
	choice = fair_dispatch(cpu, c, plain);
	if (choice == FAIR_TAKEN)
		return true;
	c->next.in_turn = 0;
	if (choice != FAIR_KEPT)
		return false;
	if (!c->in_turn)
		turn_begin(cpu, c);
	return true;
}

/* @t's task begins to run on @cpu by right of its server. False: it has no right now. */
VERIFIED_ONCE int run_by_right(struct task_ctx *t __arg_nonnull, u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 now = bpf_ktime_get_ns(), until_turn;
	struct server *s = draws_on(t);
	struct grant g;

	if (!s)
		return false;
	g = reserved_grant(s, cpu, now);
	if (!g.right)
		return false;
	until_turn = laxity(c, now);
	if (!until_turn && !fair_waiting(cpu)) /* no work for the turn: look again later */
		until_turn = c->reserved.background.window_end - now;
	reserved_begin(t, cpu, now, &g, until_turn);
	if (nr_cpus > 1) {
		help_first(DSQ_EDF(cpu));
		help_first(tree_on ? DSQ_DOMAIN(0) : DSQ_FAIR);
		if (tree_on && tree_waiting)
			wake_idle();
	}
	return true;
}

/*
 * @prev, with @deadline, goes on by right. False: another task waits with no later deadline, or it
 * has no right now. Tasks with the same deadline are threads of one server. They take turns, so a
 * thread that waits for another one by sched_yield() lets that one run.
 */
VERIFIED_ONCE int keep_by_right(struct task_struct *prev __arg_trusted, u32 cpu, u64 deadline)
{
	struct task_ctx *t = task_ctx(prev);
	struct server *s = right_on(t, cpu);

	if (!t || !s || earlier_waits(cpu, deadline + 1))
		return false;
	task_set_slice(prev, s->info.edf.runtime + FAIR_SLICE_NS);
	return run_by_right(t, cpu);
}

#endif /* APLOMB_TURN_BPF_H */
