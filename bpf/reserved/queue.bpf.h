/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/queue.bpf.h - the reserved layer's queues: EDF on each CPU. Theory: policy/edf.h, fcbs.h, wmr.h.
 *
 * Source: Redline section 6.2; Kato, Ishikawa and Rajkumar sections 4.2 and 5.2.
 *
 * 1. Queues. An eligible task of a server waits in the EDF queue of its server's CPU, ordered by the
 *    server's deadline. A task whose server waits for its next period is in the fair queue meanwhile, for
 *    spare time (Redline keeps it in both; a sched_ext task can be in one). A timer of the server moves it
 *    over when the period starts. With cbs-hard it is in the throttled queue instead, which nobody serves.
 *
 * 2. Slack. A server without budget may run on what others leave on its CPU, by that deadline
 *    (reserved/reclaim.bpf.h): at once if there is something, else when dispatch finds that there is.
 *
 * 3. Split servers move on at the end of each window, wherever their tasks are: the same timer is set for
 *    each window's end while a task is awake.
 *
 * 4. Exactness. The kernel looks at slices at ticks only (4 ms). So a task that becomes eligible preempts
 *    whoever has a later deadline, or none, at once; and a timer ends each budget (reserved/budget.bpf.h).
 *
 * 5. Preemption has a short way and a long one. The short way, straight to the head of the CPU's local
 *    queue, is for a task that wakes up while nothing reserved runs or waits there. All others go
 *    through the EDF queue and a kick. Since a local queue goes before any order of ours, a task that
 *    begins to run looks whether an earlier deadline has come in between.
 */
#ifndef APLOMB_RESERVED_BPF_H
#define APLOMB_RESERVED_BPF_H

#include "task/server.bpf.h"
#include "tree/fair.bpf.h"
#include "reserved/reclaim.bpf.h"
#include "kernel/migration.bpf.h"
#include "kernel/symbols.bpf.h"

/* Ineligible tasks at the head of an EDF queue that one dispatch sorts out. */
#define MAX_STALE 8
/* Throttled tasks that are released at a time; the rest a moment later. */
#define MAX_RELEASED 32

/* The server that @p may run on by right on @cpu, or NULL. */
static __always_inline struct server *right_on(const struct task_ctx *t, s32 cpu)
{
	struct server *s = server_of(t);

	return s && s->info.state == SERVER_ADMITTED && s->info.cpu == cpu ? s : NULL;
}

static __always_inline bool is_split(const struct server *s)
{
	return s->info.split.parts > 1;
}

/* Guaranteed, split or not: controlled by windows (wmr.h 3). */
static __always_inline bool is_guaranteed(const struct server *s)
{
	return s->info.split.parts > 0;
}

/* Does a thread of @s run on its budget now? What it has run so far is not charged yet. */
static __always_inline bool runs_on_budget(const struct server *s)
{
	const struct cpu_ctx *c = cpu_ctx(s->info.cpu);

	return c->reserved.slot == s->info.slot && c->by_right == RIGHT_OWN;
}

/* A wake-up, then Listing 1, or the same for windows; the server's CPU follows. Called with s->lock held. */
static __always_inline u32 server_assign(struct server *s, u64 now, bool wake)
{
	struct wmr_split *w = &s->info.split;
	u32 change, x;

	if (!is_guaranteed(s)) {
		if (wake)
			edf_wake(&s->info.edf, now);
		return edf_assign(&s->info.edf, now);
	}
	if (wake)
		wmr_wake(w, &s->info.edf, now);
	change = wmr_assign(w, &s->info.edf, now);
	x = w->window & (WMR_PARTS - 1);
	if (!time_before(now, s->info.edf.start) && s->info.cpu != w->cpu[x]) {
		s->info.cpu = w->cpu[x];
		s->info.migrations++;
	}
	return change;
}

/* Remember that thread @pid is to be moved at @s's next period or window. Called with s->lock held. */
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

/* When @s's timer has something to do next, while a task of it is awake. */
static __always_inline u64 timer_due(const struct server *s, u64 now)
{
	return time_before(now, s->info.edf.start) ? s->info.edf.start : s->info.edf.deadline;
}

/* Have thread @pid moved, from a fair queue or from spare time, when @s's next period starts. */
static __noinline void wait_for_period(struct server *s, s32 pid)
{
	u64 start;

	bpf_spin_lock(&s->lock);
	waiter_add(s, pid);
	start = s->info.edf.start;
	bpf_spin_unlock(&s->lock);
	bpf_timer_start(&s->timer, start, BPF_F_TIMER_ABS);
	reclaim_want(s, s->info.cpu);
}

/* Does best-effort work have its turn on this CPU, or is about to? */
static __always_inline bool best_effort_turn(const struct cpu_ctx *c)
{
	return c->next.in_turn || c->in_turn;
}

/* Something reserved is sent to @cpu: if it is idle, nobody else is to pick it. */
static __always_inline void claim(s32 cpu)
{
	if (nr_cpus > 1)
		scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* Make @cpu choose again if @deadline is earlier than what it runs; else find an idle one to help. */
static __always_inline void preempt(struct task_struct *p, s32 cpu, u64 deadline)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	if (time_before(deadline, c->reserved.deadline) && !best_effort_turn(c)) {
		claim(cpu);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else if (nr_cpus > 1) {
		ask_idle(p);
	}
}

/* Does @p, whose server @s has no budget, wait off the CPU? */
static __always_inline bool throttled(struct task_struct *p, const struct server *s)
{
	return s->info.edf.policy == POLICY_CBS_HARD && !(p->flags & PF_KTHREAD) && !stays(p);
}

/* What the enqueue of a task of @s finds. */
struct standing {
	u64 deadline, start, due;
	u64 slice; /* ns that it may run: the timer is first, the tick a second net */
	s32 cpu;
	u32 right; /* enum right */
};

/* Thread @pid, of @t's server, is runnable: Listing 1, and by what right it may run now. */
VERIFIED_ONCE int stand(struct task_ctx *t __arg_nonnull, s32 pid, bool wake,
			struct standing *at __arg_nonnull)
{
	u64 now = bpf_ktime_get_ns(), back = 0, slack = 0;
	struct server *s = server_of(t);
	bool lent = false;
	u32 change = EDF_KEPT;

	if (!s)
		return 0;
	if (wake)
		back = reclaim_back(s, now, &lent);
	awake_join(s, t);
	bpf_spin_lock(&s->lock);
	if (lent) /* past its deadline what it lent is gone, as its budget would be; but it had one */
		s->info.edf.budget += back || time_before(now, s->info.edf.deadline) ? back : 1;
	if (!runs_on_budget(s)) /* else when that thread stops */
		change = server_assign(s, now, wake);
	at->right = edf_eligible(&s->info.edf, now) ? RIGHT_OWN : RIGHT_NONE;
	at->deadline = s->info.edf.deadline;
	at->start = s->info.edf.start;
	at->slice = s->info.edf.budget + FAIR_SLICE_NS;
	at->due = timer_due(s, now);
	at->cpu = s->info.cpu;
	if (!at->right || is_split(s))
		waiter_add(s, pid);
	bpf_spin_unlock(&s->lock);

	if (lent && change == EDF_EXHAUSTED)
		change = EDF_RENEWED; /* others used it, it did not overrun */
	if (change != EDF_KEPT)
		emit_change(t->slot, change, now);
	if (!at->right || is_split(s))
		bpf_timer_start(&s->timer, at->due, BPF_F_TIMER_ABS);
	if (at->right || !reclaims(s))
		return 0;
	at->deadline = reclaim_deadline(at->cpu, now, &slack);
	if (at->deadline) {
		at->right = RIGHT_DRAWN;
		at->slice = slack + FAIR_SLICE_NS;
	} else {
		reclaim_want(s, at->cpu);
	}
	return 0;
}

/* Queue @p by right of its server. False: it has none here and now, and belongs in the fair layer. */
VERIFIED_ONCE int reserved_enqueue(struct task_struct *p __arg_trusted,
				   struct task_ctx *t __arg_nonnull, u64 enq_flags)
{
	struct server *s = server_of(t);
	struct standing at = {};
	struct cpu_ctx *c;

	if (t->by_right) { /* it was queued by right, and taken out without running (nice, affinity) */
		t->by_right = RIGHT_NONE;
		task_set_vtime(p, t->fair_vtime);
	}
	if (!s || s->info.state != SERVER_ADMITTED)
		return false;
	stand(t, p->pid, enq_flags & SCX_ENQ_WAKEUP, &at);
	if (!bpf_cpumask_test_cpu(at.cpu, p->cpus_ptr))
		return false;
	/* where it is it may always run; the other CPU may leave, or it may not leave this one for a moment */
	if (task_cpu(p) != at.cpu && (stays(p) || !cpu_active(at.cpu)))
		return false;
	if (!at.right) {
		if (!throttled(p, s))
			return false;
		t->fair_vtime = p->scx.dsq_vtime;
		t->by_right = RIGHT_OWN; /* that of its next period */
		dsq_insert_vtime(p, DSQ_THROTTLED(at.cpu), at.slice, at.start, enq_flags);
		return true;
	}
	t->fair_vtime = p->scx.dsq_vtime;
	t->by_right = at.right;
	c = cpu_ctx(at.cpu);
	if ((enq_flags & SCX_ENQ_LAST) && task_cpu(p) == at.cpu) {
		/* dispatch did not let it go on, but its period began just now */
		dsq_insert(p, SCX_DSQ_LOCAL, at.slice, enq_flags);
		return true;
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && c->reserved.deadline == TIME_NEVER &&
	    !best_effort_turn(c) && task_cpu(p) == at.cpu &&
	    !scx_bpf_dsq_nr_queued(DSQ_EDF(at.cpu))) {
		c->reserved.deadline = at.deadline;
		claim(at.cpu);
		dsq_insert(p, SCX_DSQ_LOCAL, at.slice, enq_flags | SCX_ENQ_PREEMPT);
		return true;
	}
	dsq_insert_vtime(p, DSQ_EDF(at.cpu), at.slice, at.deadline, enq_flags);
	if (!(enq_flags & SCX_ENQ_WAKEUP) && task_cpu(p) == at.cpu &&
	    c->reserved.stopped_pid == p->pid && !c->next.best_effort)
		ask_idle(p); /* this CPU has chosen already, somebody with an earlier deadline */
	else
		preempt(p, at.cpu, at.deadline);
	if (task_cpu(p) != at.cpu && cpu_ctx(task_cpu(p))->reserved.stopped_pid == p->pid)
		scx_bpf_kick_cpu(task_cpu(p),
				 SCX_KICK_IDLE); /* it ran there; nobody else may want to */
	return true;
}

/*
 * Move @p, which waits in queue @from, to the EDF queue of @s's CPU: its period or window has started, or
 * there is slack for it. False: it is not there.
 */
static __noinline bool promote(struct task_struct *p, struct task_ctx *t, u64 from,
			       const struct standing *at)
{
	u32 before = t->by_right;
	u64 vtime = t->fair_vtime;
	struct bpf_iter_scx_dsq it;
	u32 queued = t->queued;
	bool moved = false;

	/* before the move: the task may run the moment it is made */
	if (queued && !tree_leave(t))
		queued = 0;
	if (!bpf_iter_scx_dsq_new(&it, from, 0)) {
		if (!before)
			t->fair_vtime = p->scx.dsq_vtime;
		t->by_right = at->right;
		scx_bpf_dsq_move_set_slice(&it, at->slice);
		scx_bpf_dsq_move_set_vtime(&it, at->deadline);
		moved = scx_bpf_dsq_move_vtime(&it, p, DSQ_EDF(at->cpu), 0);
		if (!moved) { /* it runs, or sleeps: its next enqueue sees to it */
			t->by_right = before;
			t->fair_vtime = vtime;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (queued && !moved &&
	    !t->queued) /* to count it once too often does no harm (tree/tree.bpf.h 5) */
		tree_enter(t, queued - 1, false, SLOT_NONE);
	return moved;
}

/* The queue in which @p waits if it does not wait by right; else the one of @cpu. */
static __always_inline u64 queue_of(const struct task_struct *p, const struct task_ctx *t, u32 cpu)
{
	if (t->by_right)
		return DSQ_EDF(cpu);
	if (t->queued)
		return DSQ_DOMAIN(t->queued - 1);
	return pinned(p) ? DSQ_PINNED(task_cpu(p), t->lane) : DSQ_FAIR;
}

/* Thread @pid of the server in @slot, which was on @before until now, may run by right of @at. */
VERIFIED_ONCE int promote_thread(u32 slot, s32 pid, u32 before,
				 const struct standing *at __arg_nonnull)
{
	struct server *s = server_at(slot);
	struct task_struct *p;
	struct task_ctx *t;

	if (!s)
		return 0;
	p = bpf_task_from_pid(pid);
	if (!p)
		return 0;
	bpf_rcu_read_lock(); /* see reactivate_one */
	t = task_ctx(p);
	if (t && server_of(t) == s && bpf_cpumask_test_cpu(at->cpu, p->cpus_ptr) &&
	    (task_cpu(p) == at->cpu || (!stays(p) && cpu_active(at->cpu))) &&
	    !(t->by_right && before == (u32)at->cpu)) {
		if (promote(p, t, queue_of(p, t, before), at))
			preempt(p, at->cpu, at->deadline);
		else if (cpu_ctx(task_cpu(p))->reserved.slot == t->slot &&
			 (task_cpu(p) == at->cpu || is_split(s) || fair_waiting(task_cpu(p))))
			scx_bpf_kick_cpu(task_cpu(p),
					 SCX_KICK_PREEMPT); /* it runs: have it go on by right */
	}
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return 0;
}

/* Throttled tasks of @cpu whose next period has started, or that need not wait any more, go on. */
VERIFIED_ONCE int throttled_release(u32 cpu, u64 now)
{
	u32 i;

	bpf_for(i, 0, MAX_RELEASED) {
		struct standing at = { .cpu = cpu, .right = RIGHT_OWN };
		struct bpf_iter_scx_dsq it;
		struct task_struct *p = NULL;
		struct server *s = NULL;
		bool more = false;

		bpf_rcu_read_lock(); /* see reactivate_one */
		if (!bpf_iter_scx_dsq_new(&it, DSQ_THROTTLED(cpu), 0))
			p = bpf_iter_scx_dsq_next(&it);
		if (p) {
			struct task_ctx *t = task_ctx(p);

			s = server_of(t);
			if (s && s->info.state == SERVER_ADMITTED)
				at.cpu = s->info.cpu;
			else
				s = NULL;
			more = !s || !time_before(now, s->info.edf.start);
			if (t && more) {
				at.deadline = s ? s->info.edf.deadline : now;
				scx_bpf_dsq_move_set_slice(&it,
							   s ? s->info.edf.runtime + FAIR_SLICE_NS
							     : FAIR_SLICE_NS);
				scx_bpf_dsq_move_set_vtime(&it, at.deadline);
				/* without a server dispatch finds it stale, and moves it to the fair queue */
				more = scx_bpf_dsq_move_vtime(&it, p, DSQ_EDF(at.cpu), 0);
				preempt(p, at.cpu, at.deadline);
			}
		}
		bpf_iter_scx_dsq_destroy(&it);
		bpf_rcu_read_unlock();
		if (!more)
			break;
	}
	return 0;
}

/* The next period or window of a server has started. */
static int server_timer(void *map, u32 *slot, struct server *s)
{
	u64 now = bpf_ktime_get_ns(), due;
	struct standing at = {};
	s32 waiter[WAITERS];
	u32 i, before, change = EDF_KEPT;
	bool again;

	before = s->info.cpu;
	if (is_split(s) && runs_on_budget(s)) {
		/* its window ends while it runs: accounts first, and the enqueue after that moves it */
		scx_bpf_kick_cpu(before, SCX_KICK_PREEMPT);
		return 0;
	}
	bpf_spin_lock(&s->lock);
	before = s->info.cpu;
	if (is_split(s) && s->info.state == SERVER_ADMITTED && s->awake)
		change = server_assign(s, now, false);
	if (edf_eligible(&s->info.edf, now) && s->info.state == SERVER_ADMITTED)
		at.right = RIGHT_OWN;
	at.deadline = s->info.edf.deadline;
	at.slice = s->info.edf.runtime + FAIR_SLICE_NS;
	at.cpu = s->info.cpu;
	due = timer_due(s, now);
	again = s->info.state == SERVER_ADMITTED && (is_split(s) ? s->awake > 0 : !at.right);
	for (i = 0; i < WAITERS; i++) {
		waiter[i] = s->waiter[i];
		if (at.right && !is_split(s))
			s->waiter[i] = 0;
	}
	bpf_spin_unlock(&s->lock);

	if (change != EDF_KEPT)
		emit_change(*slot, change, now);
	if (again && time_before(now, due))
		bpf_timer_start(&s->timer, due, BPF_F_TIMER_ABS);
	if (s->info.edf.policy == POLICY_CBS_HARD)
		throttled_release(before, now);
	if (!at.right)
		return 0;
	for (i = 0; i < WAITERS; i++)
		if (waiter[i])
			promote_thread(*slot, waiter[i], before, &at);
	return 0;
}

#endif /* APLOMB_RESERVED_BPF_H */
