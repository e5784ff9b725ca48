/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/run.bpf.h - a reserved task on the CPU: its budget by timer, and its accounts.
 *
 * Source: Redline section 6.2; Kato, Ishikawa and Rajkumar section 4.2. Theory: policy/edf.h,
 * fcbs.h.
 *
 * 1. Start. The kernel looks at slices at ticks only, so a timer of the CPU is set for what ends
 *    first: the budget, the slack, a child's exec window, or the time until best-effort work is
 *    due.
 *
 * 2. Stop. What the task ran is charged to its server's budget, or to the bank, or to neither if it
 *    ran on spare time. If it was the server's last awake thread, its job is complete: what is left
 *    of the budget is lent (fcbs). Accounts are settled when a task stops, and when ops.dispatch
 *    might let it go on.
 */
#ifndef APLOMB_RESERVED_RUN_BPF_H
#define APLOMB_RESERVED_RUN_BPF_H

#include "kernel/peek.bpf.h"
#include "reserved/background.bpf.h"
#include "reserved/reclaim.bpf.h"
#include "state/idle.bpf.h"
#include "state/timer.bpf.h"

/* --- it starts ------------------------------------------------------------------------------- */

/* Does a task with a deadline before @deadline wait on @cpu? */
static __always_inline bool earlier_waits(u32 cpu, u64 deadline)
{
	return scx_bpf_dsq_nr_queued(DSQ_EDF(cpu)) &&
	       time_before(first_vtime(DSQ_EDF(cpu), deadline), deadline);
}

/*
 * A task with @deadline (TIME_NEVER: none) begins to run on @cpu. If a task with an earlier
 * deadline waits there, makes the CPU choose again. That can happen because the kernel runs the
 * tasks in the local queue before it calls ops.dispatch. It also puts a task back there, without a
 * callback, that a task of a higher class has preempted.
 */
VERIFIED_ONCE int yield_to_earlier(u32 cpu, u64 deadline)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	if (c->reserved.yielded) { /* never twice in a row: one of the tasks makes progress */
		c->reserved.yielded = 0;
		return 0;
	}
	if (earlier_waits(cpu, deadline)) {
		c->reserved.yielded = 1;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/*
 * Tasks of a queue for which one search for help looks for an idle CPU. Trade: each look delays the
 * reserved task that begins to run; with fewer, tasks behind several that have to stay wait until
 * the CPU chooses.
 */
#define MAX_HELPED 4

/*
 * A reserved task takes a CPU that was to run the first task in @queue: the CPU seemed free, or it
 * was idle and was kicked for that task. Asks another idle CPU to run that task, or the next one:
 * the first may have to stay here while the next need not.
 */
VERIFIED_ONCE int help_first(u64 queue)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	if (!bpf_iter_scx_dsq_new(&it, queue, 0)) {
		bpf_for(i, 0, MAX_HELPED) {
			p = bpf_iter_scx_dsq_next(&it);
			/* where a task that may run anywhere finds no idle CPU, there is none */
			if (!p || ask_idle(p) || (u32)p->nr_cpus_allowed >= nr_online)
				break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

/* By what right a task of a server may run now */
struct grant {
	u64 limit;    /* it may run for so long, ns */
	u64 deadline; /* it goes before tasks with a later one */
	u32 right;    /* enum right; RIGHT_NONE: it may not */
};

static __always_inline struct grant reserved_grant(const struct server *s, u32 cpu, u64 now)
{
	struct grant g = {};

	if (edf_eligible(&s->info.edf, now)) {
		g.right = RIGHT_OWN;
		g.limit = s->info.edf.budget;
		g.deadline = s->info.edf.deadline;
	} else if (reclaims(s)) {
		struct slack slack = reclaim_slack(cpu, now);

		if (slack.deadline) {
			g.right = RIGHT_DRAWN;
			g.limit = slack.ns;
			g.deadline = slack.deadline;
		}
	}
	return g;
}

/*
 * @t's task begins to run on @cpu by right of @g. The timer is set for what ends first. @laxity:
 * time until it has to be checked whether best-effort work is due, ns.
 */
static __always_inline void reserved_begin(const struct task_ctx *t, u32 cpu, u64 now,
					   const struct grant *g, u64 laxity)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 limit = g->limit;

	c->by_right = g->right;
	c->reserved.deadline = g->deadline;
	if (t->window_ns)
		limit = least(limit, t->window_ns);
	limit = least(limit, laxity);
	cpu_timer_start(cpu, now, limit > NSEC_PER_USEC ? limit : NSEC_PER_USEC);
	reclaim_run(cpu, now, g->right, g->deadline);
	yield_to_earlier(cpu, g->deadline);
}

/*
 * The deadline that @t's task, whose accounts are settled, has on @cpu now; TIME_NEVER: no right.
 */
static __always_inline u64 running_deadline(const struct task_ctx *t, u32 cpu)
{
	struct server *s = right_on(t, cpu);
	struct grant g;

	if (!s)
		return TIME_NEVER;
	g = reserved_grant(s, cpu, bpf_ktime_get_ns());
	return g.right ? g.deadline : TIME_NEVER;
}

/* --- it stops -------------------------------------------------------------------------------- */

/* Time from the timer at a budget's end to the task's stop, ns. It is not charged as an overrun. */
#define SLIP_NS (10 * NSEC_PER_USEC)

/* Returns how much of @ran, ns, is charged to @s. To a guaranteed server all of it is. */
static __always_inline u64 owed(const struct server *s, u64 ran)
{
	s64 over = (s64)ran - s->info.edf.budget;

	return !is_guaranteed(s) && over > 0 && over < (s64)SLIP_NS ? s->info.edf.budget : ran;
}

/*
 * A task ran for @ran ns on the budget of @s. Returns enum edf_change. With s->lock held, like the
 * next three.
 */
static __always_inline u32 charge_budget(struct server *s, u64 now, u64 ran)
{
	u32 change;

	edf_charge(&s->info.edf, owed(s, ran));
	change = server_assign(s, now, false);
	usage_add(&s->info.usage, sample_no, ran);
	s->info.served_ns += ran;
	return change;
}

/* A thread of @s stops on @c's CPU. Does another one run by right on the CPU of @s, its home? */
static __always_inline bool runs_at_home(const struct server *s, const struct cpu_ctx *c)
{
	const struct cpu_ctx *home = cpu_ctx(s->info.cpu);

	return home->by_right && home->reserved.slot == c->reserved.slot &&
	       home->reserved.generation == c->reserved.generation;
}

/*
 * A task ran for @ran ns on spare time of @cpu, with context @c. If its server had a right to its
 * home, which was busy, the task is charged as if it had run at home. Otherwise it would come back
 * home with the whole budget and little time until the deadline, which is more than was promised
 * there. Nothing is charged while another thread runs on the budget at home, because the timer is
 * already set for the end of that budget.
 */
static __always_inline u32 charge_off_home(struct server *s, const struct cpu_ctx *c, u32 cpu,
					   u64 now, u64 ran)
{
	if (s->info.state != SERVER_ADMITTED || s->info.cpu == (s32)cpu ||
	    !edf_eligible(&s->info.edf, now) || runs_at_home(s, c))
		return EDF_KEPT;
	ran = least(ran, now - s->info.edf.start);
	edf_charge(&s->info.edf, least(ran, s->info.edf.budget));
	return server_assign(s, now, false);
}

/* What a server lends when its job is complete */
struct lending {
	u64 ns; /* 0: nothing */
	u64 deadline;
};

/* All threads of @s sleep, so its job is complete. Returns what @s lends. */
static __always_inline struct lending complete_job(struct server *s, u64 now)
{
	struct lending lent = {};

	if (is_guaranteed(s))
		wmr_sleep(&s->info.split, &s->info.edf, now);
	if (reclaims(s) && s->info.state == SERVER_ADMITTED && edf_eligible(&s->info.edf, now) &&
	    time_before(now, s->info.edf.deadline)) {
		lent.ns = s->info.edf.budget;
		lent.deadline = s->info.edf.deadline;
		s->info.edf.budget = 0;
	}
	return lent;
}

/* Lends @lent to the bank of @cpu. If a thread of @s woke up meanwhile, takes it back. */
static __always_inline void lend(struct server *s, u32 cpu, u64 now, const struct lending *lent)
{
	struct repaid repaid;

	reclaim_give(s, cpu, now, lent->ns, lent->deadline);
	if (!s->awake)
		return;
	reclaim_back(s, now, &repaid); /* that thread has found no budget */
	bpf_spin_lock(&s->lock);
	s->info.edf.budget += repaid.back;
	bpf_spin_unlock(&s->lock);
}

/* A task of the server that runs on @cpu, with context @t or NULL, stops after @ran ns. */
VERIFIED_ONCE int reserved_stopping(struct task_ctx *t, u32 cpu, u64 ran, bool runnable)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 now = bpf_ktime_get_ns();
	u32 change = EDF_KEPT, right = c->by_right, home;
	struct server *s = server_at(c->reserved.slot);
	struct lending lent = {};

	if (!s || s->info.generation != c->reserved.generation)
		return 0;
	if (right) {
		cpu_timer_cancel(cpu);
		reclaim_stop(cpu, now);
	}
	bpf_spin_lock(&s->lock);
	if (!runnable) {
		edf_sleep(&s->info.edf);
		if (t && t->awake) {
			t->awake = 0;
			s->awake -= s->awake > 0;
		}
	}
	if (right == RIGHT_OWN)
		change = charge_budget(s, now, ran);
	else if (right == RIGHT_DRAWN)
		s->info.reclaimed_ns += ran;
	else
		change = charge_off_home(s, c, cpu, now, ran);
	if (!runnable && !s->awake) {
		lent = complete_job(s, now);
		s->asleep_since = now;
	}
	home = s->info.cpu;
	bpf_spin_unlock(&s->lock);
	if (lent.ns)
		lend(s, home, now, &lent);
	if (right && !s->info.guaranteed) /* the governor's sample */
		__sync_fetch_and_add(&c->reserved.ran_ns, ran);
	if (change != EDF_KEPT)
		emit_change(c->reserved.slot, change, now);
	return 0;
}

/* --- no other task wants the CPU ------------------------------------------------------------- */

/*
 * @prev has no right to this CPU now. May it go on in spare time? Not if it is throttled
 * (cbs-hard), or if its server has its window on another CPU.
 */
VERIFIED_ONCE int reserved_continue(struct task_struct *prev __arg_trusted)
{
	struct task_ctx *t = task_ctx(prev);
	struct server *s = draws_on(t);

	if (!s || s->info.state != SERVER_ADMITTED)
		return true;
	if (edf_eligible(&s->info.edf, bpf_ktime_get_ns()))
		return !is_split(s) || !bpf_cpumask_test_cpu(s->info.cpu, prev->cpus_ptr);
	if (throttled(prev, s))
		return false;
	wait_for_period(s, prev->pid);
	return true;
}

/* An idle CPU helps: a reserved task that waits elsewhere runs here, on spare time. */
VERIFIED_ONCE int reserved_steal(u32 cpu)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		if (i != cpu && scx_bpf_dsq_nr_queued(DSQ_EDF(i)) &&
		    dsq_move_to_local(DSQ_EDF(i))) {
			help_first(DSQ_EDF(
				i)); /* several came at once: the next idle CPU takes the next */
			return true;
		}
	}
	return false;
}

#endif /* APLOMB_RESERVED_RUN_BPF_H */
