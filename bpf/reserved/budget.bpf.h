/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/budget.bpf.h - a reserved task on the CPU: its budget by timer, its accounts, and best-effort's turn.
 *
 * Source: Redline section 6.2; policy/edf.h, fcbs.h, background.h.
 *
 * The kernel looks at slices at ticks only, so a timer of the CPU is set for what ends first: the budget, the
 * slack, a child's window, or the time until best-effort work is due. Accounts are settled when the
 * task stops, and when dispatch lets it go on.
 */
#ifndef APLOMB_BUDGET_BPF_H
#define APLOMB_BUDGET_BPF_H

#include "reserved/dispatch.bpf.h"

/* Is best-effort work due on @cpu before anything reserved? (background.h) @runs: some runs now. */
static __always_inline bool background_due(u32 cpu, struct cpu_ctx *c, bool runs)
{
	u64 now = bpf_ktime_get_ns();

	background_roll(&c->reserved.background, now, PPM - r_max_ppm);
	return !background_laxity(&c->reserved.background, now) && (runs || fair_waiting(cpu));
}

/* Best-effort work begins its turn on @cpu. */
static __always_inline void turn_begin(u32 cpu, struct cpu_ctx *c)
{
	c->in_turn = 1;
	cpu_timer_start(cpu, bpf_ktime_get_ns(),
			c->reserved.background.owed > 0 ? c->reserved.background.owed : 1);
}

/* A best-effort task ran for @ran ns, or a reserved one on spare time. */
static __always_inline void background_ran(struct cpu_ctx *c, u64 ran)
{
	background_charge(&c->reserved.background, ran);
	if (c->in_turn) /* reserved tasks wanted this time: R_load shows it, or it could never exceed R_max */
		__sync_fetch_and_add(&c->reserved.ran_ns, ran);
}

static __always_inline u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

/*
 * A task with @deadline (TIME_NEVER: none) begins to run on @cpu. What the kernel had in the CPU's local
 * queue goes before any order of ours: has an earlier deadline come in between? So it is when a task of
 * a higher class has interrupted another, which is then put back there without a word to us.
 */
VERIFIED_ONCE int yield_to_earlier(u32 cpu, u64 deadline)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct bpf_iter_scx_dsq it;
	struct task_struct *head = NULL;

	if (c->reserved
		    .yielded) { /* never twice in a row: whoever is told to yield, somebody makes progress */
		c->reserved.yielded = 0;
		return 0;
	}
	if (!scx_bpf_dsq_nr_queued(DSQ_EDF(cpu)))
		return 0;
	if (!bpf_iter_scx_dsq_new(&it, DSQ_EDF(cpu), 0))
		head = bpf_iter_scx_dsq_next(&it);
	if (head && time_before(head->scx.dsq_vtime, deadline)) {
		c->reserved.yielded = 1;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

/* A task of @t's server begins to run by right: set the timer for what ends first. False: it has no right now. */
VERIFIED_ONCE int reserved_running(struct task_ctx *t __arg_nonnull, u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 now = bpf_ktime_get_ns(), limit, laxity, deadline;
	struct server *s = server_of(t);
	u32 right = RIGHT_OWN;

	if (!s)
		return false;
	deadline = s->info.edf.deadline;
	if (edf_eligible(&s->info.edf, now)) {
		limit = s->info.edf.budget;
	} else if (reclaims(s) && (deadline = reclaim_deadline(cpu, now, &limit))) {
		right = RIGHT_DRAWN;
	} else {
		return false;
	}
	c->by_right = right;
	c->reserved.deadline = deadline;
	if (t->window_ns)
		limit = least(limit, t->window_ns);
	background_roll(&c->reserved.background, now, PPM - r_max_ppm);
	laxity = background_laxity(&c->reserved.background, now);
	if (!laxity &&
	    !fair_waiting(cpu)) /* its turn is now, but it has nothing to run: look again later */
		laxity = c->reserved.background.window_end - now;
	limit = least(limit, laxity);
	cpu_timer_start(cpu, now, limit > NSEC_PER_USEC ? limit : NSEC_PER_USEC);
	reclaim_run(cpu, now, right, deadline);

	yield_to_earlier(cpu, deadline);
	if (nr_cpus > 1) {
		help_first(DSQ_EDF(cpu));
		help_first(tree_on ? DSQ_DOMAIN(0) : DSQ_FAIR);
		if (tree_on && tree_waiting)
			wake_idle();
	}
	return true;
}

/* From the timer at a budget's end to the stop there is some way, ns: that is no overrun to be paid back. */
#define SLIP_NS (10 * NSEC_PER_USEC)

/* What of @ran is charged to @s. Where deadlines are promised every ns is. */
static __always_inline u64 owed(const struct server *s, u64 ran)
{
	s64 over = (s64)ran - s->info.edf.budget;

	return !is_guaranteed(s) && over > 0 && over < (s64)SLIP_NS ? s->info.edf.budget : ran;
}

/* Does a thread of @s, of which another stops on @c's CPU, run by right where @s belongs? */
static __always_inline bool runs_at_home(const struct server *s, const struct cpu_ctx *c)
{
	const struct cpu_ctx *home = cpu_ctx(s->info.cpu);

	return home->by_right && home->reserved.slot == c->reserved.slot &&
	       home->reserved.generation == c->reserved.generation;
}

/* A task of the server that runs on @cpu, with context @t or NULL, stops after @ran ns: budget, Listing 1, books, slack. */
VERIFIED_ONCE int reserved_stopping(struct task_ctx *t, u32 cpu, u64 ran, bool runnable)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 now = bpf_ktime_get_ns(), given = 0, deadline = 0;
	u32 change = EDF_KEPT, right = c->by_right, home;
	struct server *s = server_at(c->reserved.slot);

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
	if (right == RIGHT_OWN) {
		edf_charge(&s->info.edf, owed(s, ran));
		change = server_assign(s, now, false);
		usage_add(&s->info.usage, sample_no, ran);
		s->info.served_ns += ran;
	} else if (right == RIGHT_DRAWN) {
		s->info.reclaimed_ns += ran;
	} else if (s->info.state == SERVER_ADMITTED && s->info.cpu != (s32)cpu &&
		   edf_eligible(&s->info.edf, now) && !runs_at_home(s, c)) {
		/*
		 * It had a right to its own CPU, but that was busy and another was not. As if it ran at home: or
		 * it would come back with all of its budget and little time, more than was promised there. Not while
		 * another thread uses the budget there, until a time that is set.
		 */
		ran = least(ran, now - s->info.edf.start);
		edf_charge(&s->info.edf, least(ran, s->info.edf.budget));
		change = server_assign(s, now, false);
	}
	if (!runnable && !s->awake) {
		if (is_guaranteed(s))
			wmr_sleep(&s->info.split, &s->info.edf, now);
		if (reclaims(s) && s->info.state == SERVER_ADMITTED &&
		    edf_eligible(&s->info.edf, now) && time_before(now, s->info.edf.deadline)) {
			given = s->info.edf.budget;
			deadline = s->info.edf.deadline;
			s->info.edf.budget = 0;
		}
	}
	home = s->info.cpu;
	bpf_spin_unlock(&s->lock);
	if (given) {
		reclaim_give(s, home, now, given, deadline);
		if (s->awake) { /* another thread woke up in between, and found nothing */
			bool lent;

			given = reclaim_back(s, now, &lent);
			bpf_spin_lock(&s->lock);
			s->info.edf.budget += given;
			bpf_spin_unlock(&s->lock);
		}
	}
	if (right && !s->info.guaranteed)
		__sync_fetch_and_add(&c->reserved.ran_ns, ran);
	if (change != EDF_KEPT)
		emit_change(c->reserved.slot, change, now);
	return 0;
}

/* A forked child has used @ran ns of the window in which it may still exec. */
static __always_inline void window_charge(struct task_struct *p, struct task_ctx *t, u64 ran)
{
	if (!t->window_ns)
		return;
	if (ran + 10 * NSEC_PER_USEC >= t->window_ns) /* what is left would not be worth a timer */
		window_settle(p, t);
	else
		t->window_ns -= ran;
}

/*
 * Dispatch chooses for @cpu, where @prev, which has a server, runs and is in no queue: settle its accounts,
 * so that it takes part in the choice as if it waited.
 */
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
	s = server_of(t);
	if (s) { /* another one than before, if it executed a program meanwhile */
		awake_join(s, t);
		c->reserved.slot = t->slot;
		c->reserved.generation = t->generation;
	}
	return 0;
}

/* By which deadline @s's task might run on @cpu by right now; TIME_NEVER: it has no right. */
static __always_inline u64 right_until(const struct server *s, u32 cpu)
{
	u64 now = bpf_ktime_get_ns(), slack, deadline;

	if (edf_eligible(&s->info.edf, now))
		return s->info.edf.deadline;
	deadline = reclaims(s) ? reclaim_deadline(cpu, now, &slack) : 0;
	return deadline ? deadline : TIME_NEVER;
}

/* The deadline that @prev, whose accounts are settled, has on @cpu; TIME_NEVER: none. */
static __always_inline u64 running_deadline(struct task_struct *prev, u32 cpu)
{
	struct server *s = right_on(task_ctx(prev), cpu);

	return s ? right_until(s, cpu) : TIME_NEVER;
}

/* Does @prev, with @deadline, go on by right? Not if an earlier deadline waits. */
VERIFIED_ONCE int reserved_keeps(struct task_struct *prev __arg_trusted, u32 cpu, u64 deadline)
{
	struct task_ctx *t = task_ctx(prev);
	struct server *s = right_on(t, cpu);
	struct bpf_iter_scx_dsq it;
	struct task_struct *head = NULL;
	bool earlier;

	if (!t || !s)
		return false;
	if (scx_bpf_dsq_nr_queued(DSQ_EDF(cpu))) {
		if (!bpf_iter_scx_dsq_new(&it, DSQ_EDF(cpu), 0))
			head = bpf_iter_scx_dsq_next(&it);
		earlier = head && time_before(head->scx.dsq_vtime, deadline);
		bpf_iter_scx_dsq_destroy(&it);
		if (earlier)
			return false;
	}
	task_set_slice(prev, s->info.edf.runtime + FAIR_SLICE_NS);
	return reserved_running(t, cpu);
}

/*
 * Nobody else wants @cpu: @prev, which has no right to it now, goes on in spare time. False: cbs-hard, or it
 * is its window on another CPU.
 */
VERIFIED_ONCE int reserved_continue(struct task_struct *prev __arg_trusted)
{
	struct task_ctx *t = task_ctx(prev);
	struct server *s = server_of(t);

	if (!s || s->info.state != SERVER_ADMITTED)
		return true;
	if (edf_eligible(&s->info.edf, bpf_ktime_get_ns()))
		return !is_split(s) || !bpf_cpumask_test_cpu(s->info.cpu, prev->cpus_ptr);
	if (throttled(prev, s))
		return false;
	wait_for_period(s, prev->pid);
	return true;
}

#endif /* APLOMB_BUDGET_BPF_H */
