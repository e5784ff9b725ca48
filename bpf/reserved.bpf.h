/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved.bpf.h - the reserved layer: EDF on each CPU, budgets by timer. Theory: policy/edf.h.
 *
 * Source: Redline section 6.2.
 *
 * 1. Queues. An eligible task of a server waits in its CPU's EDF queue, ordered by the server's
 *    deadline. A task whose server waits for its next period is in the fair queue meanwhile, for spare
 *    time (Redline keeps it in both; a sched_ext task can be in one). A timer of the server moves it
 *    over when the period starts.
 *
 * 2. Exactness. The kernel looks at slices at ticks only (4 ms). So a timer of the CPU is set for the
 *    end of the budget when a reserved task begins to run, and a task that becomes eligible preempts
 *    whoever has a later deadline, or none, at once.
 *
 * 3. Preemption has a short way and a long one. The short way, straight to the head of the CPU's local
 *    queue, is for a task that wakes up while nothing reserved runs or waits there. All others go
 *    through the EDF queue and a kick. Since a local queue goes before any order of ours, a task that
 *    begins to run looks whether an earlier deadline has come in between.
 */
#ifndef APLOMB_RESERVED_BPF_H
#define APLOMB_RESERVED_BPF_H

#include "server.bpf.h"
#include "fair.bpf.h"

/* Ineligible tasks at the head of an EDF queue that one dispatch sorts out. */
#define MAX_STALE 8

/* The server that @p may run on by right on @cpu, or NULL. */
static __always_inline struct server *right_on(const struct task_ctx *t, s32 cpu)
{
	struct server *s = server_of(t);

	return s && s->info.state == SERVER_ADMITTED && s->info.cpu == cpu ? s : NULL;
}

/* Remember that thread @pid waits in a fair queue for @s's next period. Called with s->lock held. */
static __always_inline void waiter_add(struct server *s, s32 pid)
{
	s32 i, empty = -1;

	for (i = WAITERS - 1; i >= 0; i--) {
		if (s->waiter[i] == pid)
			return;
		if (!s->waiter[i])
			empty = i;
	}
	if (empty >= 0)
		s->waiter[empty] = pid;
}

/* Have thread @pid moved, from a fair queue or from spare time, when @s's next period starts. */
static __always_inline void wait_for_period(struct server *s, s32 pid)
{
	u64 start;

	bpf_spin_lock(&s->lock);
	waiter_add(s, pid);
	start = s->info.edf.start;
	bpf_spin_unlock(&s->lock);
	bpf_timer_start(&s->timer, start, BPF_F_TIMER_ABS);
}

/* Does best-effort work have its turn on this CPU, or is about to? */
static __always_inline bool best_effort_turn(const struct cpu_ctx *c)
{
	return c->turn || c->in_turn;
}

/* Make @cpu choose again if @deadline is earlier than what it runs; else find an idle one to help. */
static __always_inline void preempt(struct task_struct *p, s32 cpu, u64 deadline)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	if (time_before(deadline, c->deadline) && !best_effort_turn(c)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else if (nr_cpus > 1) {
		s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
}

/* Queue @p by right of its server. False: it has none here and now, and belongs in the fair layer. */
static __noinline bool reserved_enqueue(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	struct server *s = server_of(t);
	u64 now, deadline, start, slice;
	struct cpu_ctx *c;
	bool eligible;
	u32 change;
	s32 cpu;

	if (t->by_right) { /* it was queued by right, and taken out without running (nice, affinity) */
		t->by_right = 0;
		p->scx.dsq_vtime = t->fair_vtime;
	}
	if (!s || s->info.state != SERVER_ADMITTED)
		return false;
	cpu = s->info.cpu;
	if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	now = bpf_ktime_get_ns();

	bpf_spin_lock(&s->lock);
	if (enq_flags & SCX_ENQ_WAKEUP)
		edf_wake(&s->info.edf, now);
	change = edf_assign(&s->info.edf, now);
	eligible = edf_eligible(&s->info.edf, now);
	deadline = s->info.edf.deadline;
	start = s->info.edf.start;
	slice = s->info.edf.budget + FAIR_SLICE_NS; /* the timer is first, the tick a second net */
	if (!eligible)
		waiter_add(s, p->pid);
	bpf_spin_unlock(&s->lock);

	if (change != EDF_KEPT)
		emit_change(s, change, now);
	if (!eligible) {
		bpf_timer_start(&s->timer, start, BPF_F_TIMER_ABS);
		return false;
	}

	t->fair_vtime = p->scx.dsq_vtime;
	t->by_right = 1;
	c = cpu_ctx(cpu);
	if ((enq_flags & SCX_ENQ_WAKEUP) && c->deadline == TIME_NEVER && !best_effort_turn(c) &&
	    task_cpu(p) == cpu && !scx_bpf_dsq_nr_queued(DSQ_EDF(cpu))) {
		c->deadline = deadline;
		dsq_insert(p, SCX_DSQ_LOCAL, slice, enq_flags | SCX_ENQ_PREEMPT);
		return true;
	}
	dsq_insert_vtime(p, DSQ_EDF(cpu), slice, deadline, enq_flags);
	if (c->putting != p->pid) /* else the CPU is choosing already */
		preempt(p, cpu, deadline);
	return true;
}

/* Move @p from its fair queue to @s's EDF queue: its period has started. */
static __noinline void promote(struct task_struct *p, struct server *s, s32 cpu, u64 deadline)
{
	struct task_ctx *t = task_ctx(p);
	struct bpf_iter_scx_dsq it;
	bool running = false;

	if (!t || server_of(t) != s || t->by_right)
		return;
	if (!bpf_iter_scx_dsq_new(&it, pinned(p) ? DSQ_PINNED(cpu) : DSQ_FAIR, 0)) {
		/* before the move: the task may run the moment it is made */
		t->fair_vtime = p->scx.dsq_vtime;
		t->by_right = 1;
		scx_bpf_dsq_move_set_slice(&it, s->info.edf.runtime + FAIR_SLICE_NS);
		scx_bpf_dsq_move_set_vtime(&it, deadline);
		if (scx_bpf_dsq_move_vtime(&it, p, DSQ_EDF(cpu), 0))
			preempt(p, cpu, deadline);
		else
			t->by_right = 0; /* it runs, or sleeps: its next enqueue sees to it */
		running = !t->by_right && cpu_ctx(cpu)->slot == t->slot;
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (running) /* on spare time, here: have it go on by right */
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The next period of a server has started. */
static int server_timer(void *map, u32 *slot, struct server *s)
{
	u64 now = bpf_ktime_get_ns(), deadline, start;
	s32 waiter[WAITERS], cpu;
	bool eligible;
	u32 i;

	bpf_spin_lock(&s->lock);
	eligible = edf_eligible(&s->info.edf, now) && s->info.state == SERVER_ADMITTED;
	start = s->info.edf.start;
	deadline = s->info.edf.deadline;
	cpu = s->info.cpu;
	for (i = 0; i < WAITERS; i++) {
		waiter[i] = s->waiter[i];
		if (eligible)
			s->waiter[i] = 0;
	}
	bpf_spin_unlock(&s->lock);

	if (!eligible) {
		if (s->info.state == SERVER_ADMITTED && time_before(now, start))
			bpf_timer_start(&s->timer, start, BPF_F_TIMER_ABS);
		return 0;
	}
	for (i = 0; i < WAITERS; i++) {
		struct task_struct *p;

		if (!waiter[i])
			continue;
		p = bpf_task_from_pid(waiter[i]);
		if (!p)
			continue;
		bpf_rcu_read_lock(); /* see reactivate_one */
		promote(p, s, cpu, deadline);
		bpf_rcu_read_unlock();
		bpf_task_release(p);
	}
	return 0;
}

/*
 * Look at the head of @cpu's EDF queue. 1: it may run. 0: its server has no budget left (another
 * thread used it) or was revoked; it was moved to the fair queue. -1: nothing there.
 */
static __noinline s32 head_is_eligible(s32 cpu, u64 now)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = NULL;
	s32 verdict = -1;

	if (!bpf_iter_scx_dsq_new(&it, DSQ_EDF(cpu), 0))
		p = bpf_iter_scx_dsq_next(&it);
	if (p) {
		struct task_ctx *t = task_ctx(p);
		struct server *s = right_on(t, cpu);

		verdict = 1;
		if (t && (!s || !edf_eligible(&s->info.edf, now))) {
			t->by_right = 0;
			scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
			scx_bpf_dsq_move_set_vtime(&it, fair_place(t->fair_vtime, fair_now));
			scx_bpf_dsq_move_vtime(&it, p, pinned(p) ? DSQ_PINNED(cpu) : DSQ_FAIR, 0);
			if (s)
				wait_for_period(s, p->pid);
			verdict = 0;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return verdict;
}

/* Take the eligible task with the earliest deadline. */
static __noinline bool reserved_dispatch(u32 cpu)
{
	u64 now = bpf_ktime_get_ns();
	u32 i;

	bpf_for(i, 0, MAX_STALE) {
		s32 verdict;

		if (!scx_bpf_dsq_nr_queued(DSQ_EDF(cpu)))
			return false;
		verdict = head_is_eligible(cpu, now);
		if (verdict > 0)
			return dsq_move_to_local(DSQ_EDF(cpu));
		if (verdict < 0)
			return false;
	}
	return false;
}

/* An idle CPU helps out: a reserved task that waits elsewhere runs here, on spare time. */
static __noinline bool reserved_steal(u32 cpu)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		if (i != cpu && scx_bpf_dsq_nr_queued(DSQ_EDF(i)) && dsq_move_to_local(DSQ_EDF(i)))
			return true;
	}
	return false;
}

/* Is best-effort work due on @cpu before anything reserved? (background.h) @runs: some runs now. */
static __always_inline bool background_due(u32 cpu, struct cpu_ctx *c, bool runs)
{
	u64 now = bpf_ktime_get_ns();

	background_roll(&c->background, now, PPM - r_max_ppm);
	return !background_laxity(&c->background, now) && (runs || fair_waiting(cpu));
}

/* End of a budget, of a child's window, or of the best-effort turn: have the CPU choose again. */
static int cpu_timer(void *map, u32 *cpu, struct timer_slot *slot)
{
	scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

static __always_inline void cpu_timer_start(u32 cpu, u64 ns)
{
	struct timer_slot *slot = bpf_map_lookup_elem(&cpu_timers, &cpu);

	if (!slot)
		return;
	bpf_timer_set_callback(&slot->timer, cpu_timer); /* before 7.x a cancel takes it away */
	bpf_timer_start(&slot->timer, ns, BPF_F_TIMER_CPU_PIN);
}

static __always_inline void cpu_timer_cancel(u32 cpu)
{
	struct timer_slot *slot = bpf_map_lookup_elem(&cpu_timers, &cpu);

	if (slot)
		bpf_timer_cancel(&slot->timer);
}

/* Best-effort work begins its turn on @cpu. */
static __always_inline void turn_begin(u32 cpu, struct cpu_ctx *c)
{
	c->in_turn = 1;
	cpu_timer_start(cpu, c->background.owed > 0 ? c->background.owed : 1);
}

/* A best-effort task ran for @ran ns, or a reserved one on spare time. */
static __always_inline void background_ran(struct cpu_ctx *c, u64 ran)
{
	background_charge(&c->background, ran);
	if (c->in_turn) /* reserved tasks wanted this time: R_load shows it, or it could never exceed R_max */
		__sync_fetch_and_add(&c->reserved_ns, ran);
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
static __noinline void yield_to_earlier(u32 cpu, u64 deadline)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct bpf_iter_scx_dsq it;
	struct task_struct *head = NULL;

	if (c->yielded) { /* never twice in a row: whoever is told to yield, somebody makes progress */
		c->yielded = 0;
		return;
	}
	if (!scx_bpf_dsq_nr_queued(DSQ_EDF(cpu)))
		return;
	if (!bpf_iter_scx_dsq_new(&it, DSQ_EDF(cpu), 0))
		head = bpf_iter_scx_dsq_next(&it);
	if (head && time_before(head->scx.dsq_vtime, deadline)) {
		c->yielded = 1;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	bpf_iter_scx_dsq_destroy(&it);
}

/* @p begins to run by right of @s: set the timer for what ends first. */
static __noinline void reserved_running(struct task_struct *p, struct task_ctx *t, struct server *s, u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 now = bpf_ktime_get_ns(), limit, laxity;

	c->by_right = 1;
	c->deadline = s->info.edf.deadline;
	limit = s->info.edf.budget > 0 ? s->info.edf.budget : 1;
	if (t->window_ns)
		limit = least(limit, t->window_ns);
	background_roll(&c->background, now, PPM - r_max_ppm);
	laxity = background_laxity(&c->background, now);
	if (!laxity && !fair_waiting(cpu)) /* its turn is now, but it has nothing to run: look again later */
		laxity = c->background.window_end - now;
	limit = least(limit, laxity);
	cpu_timer_start(cpu, limit > NSEC_PER_USEC ? limit : NSEC_PER_USEC);

	yield_to_earlier(cpu, c->deadline);
}

/* A task of @s stops on @cpu after @ran ns: budget, Listing 1, books. */
static __noinline void reserved_stopping(struct server *s, u32 cpu, u64 ran, bool runnable)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 now = bpf_ktime_get_ns();
	u32 change = EDF_KEPT;

	if (c->by_right)
		cpu_timer_cancel(cpu);
	bpf_spin_lock(&s->lock);
	if (!runnable)
		edf_sleep(&s->info.edf);
	if (c->by_right) {
		edf_charge(&s->info.edf, ran);
		change = edf_assign(&s->info.edf, now);
		usage_add(&s->info.usage, sample_no, ran);
		s->info.served_ns += ran;
	}
	bpf_spin_unlock(&s->lock);
	if (c->by_right)
		__sync_fetch_and_add(&c->reserved_ns, ran);
	if (change != EDF_KEPT)
		emit_change(s, change, now);
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
 * Nobody else wants @cpu, so the kernel lets @prev go on without a word: this is the place to settle
 * accounts. If its time by right is up it goes on on spare time, and anything may preempt it; if its
 * next period has started, by right.
 */
static __noinline void reserved_continue(struct task_struct *prev, u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 ran = prev->se.sum_exec_runtime - c->exec_start, now = bpf_ktime_get_ns();
	struct server *s = server_at(c->slot);
	struct task_ctx *t = task_ctx(prev);

	fair_charge(prev, cpu, c, ran);
	if (s && s->info.generation == c->generation)
		reserved_stopping(s, cpu, ran, true);
	if (!c->by_right)
		background_charge(&c->background, ran);
	if (t)
		window_charge(prev, t, ran);
	c->exec_start = prev->se.sum_exec_runtime;
	c->by_right = 0;
	s = right_on(t, cpu);
	if (!t || !s)
		return;
	if (edf_eligible(&s->info.edf, now)) {
		c->slot = t->slot;
		c->generation = t->generation;
		reserved_running(prev, t, s, cpu);
	} else {
		wait_for_period(s, prev->pid);
	}
}

#endif /* APLOMB_RESERVED_BPF_H */
