/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/queue.bpf.h - the reserved layer's queues: EDF on each CPU. Theory: policy/edf.h,
 * fcbs.h, wmr.h.
 *
 * Source: Redline section 6.2; Kato, Ishikawa and Rajkumar sections 4.2 and 5.2.
 *
 * 1. Queues. An eligible task waits in the EDF queue of its server's CPU, ordered by the server's
 *    deadline. A task whose server waits for its next period is in a queue of the fair layer, for
 *    spare time (Redline keeps it in both queues; a sched_ext task can be in one). The server's
 *    timer moves it over when the period starts (layers/move.bpf.h). With cbs-hard it is in the
 *    throttled queue instead, from which no CPU takes tasks.
 *
 * 2. Slack. A server without budget may run on what others leave on its CPU, with the deadline of
 *    what they leave (reserved/reclaim.bpf.h): at once if there is slack, else when ops.dispatch
 *    finds some.
 *
 * 3. Split servers move on at the end of each window, wherever their tasks are: while a task is
 *    awake the same timer is set for each window's end.
 *
 * 4. Exactness. The kernel looks at slices at ticks only (4 ms). So a task that becomes eligible
 *    preempts a running task with a later deadline, or with none, at once; and a timer ends each
 *    budget (reserved/run.bpf.h).
 *
 * 5. Two ways to the CPU. The short one, straight to the head of the CPU's local queue, is for a
 *    task that wakes up while nothing reserved runs or waits there. All other tasks go through the
 *    EDF queue and a kick. The kernel runs a local queue before it calls ops.dispatch. So when a
 *    task begins to run, it is checked whether an earlier deadline waits (yield_to_earlier).
 */
#ifndef APLOMB_RESERVED_QUEUE_BPF_H
#define APLOMB_RESERVED_QUEUE_BPF_H

#include "kernel/symbols.bpf.h"
#include "reserved/background.bpf.h"
#include "reserved/reclaim.bpf.h"
#include "state/idle.bpf.h"
#include "state/right.bpf.h"

/* Throttled tasks that are released at a time. The rest follows a moment later. */
#define MAX_RELEASED 32

/* A reserved task is sent to @cpu. If @cpu is idle, no other task may pick it from now on. */
static __always_inline void claim_cpu(s32 cpu)
{
	if (nr_cpus > 1)
		scx_bpf_test_and_clear_cpu_idle(cpu);
}

/*
 * Makes @cpu choose again if @deadline, which is that of @p, is earlier than that of the task that
 * runs there. Otherwise asks an idle CPU to run @p.
 */
static __always_inline void preempt(struct task_struct *p, s32 cpu, u64 deadline)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	if (time_before(deadline, c->reserved.deadline) && !best_effort_turn(c)) {
		claim_cpu(cpu);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else if (nr_cpus > 1) {
		ask_idle(p);
	}
}

/* By what right, on which CPU and by when a task of a server may run now. */
struct standing {
	u64 deadline, start;
	u64 due;   /* when the server's timer has something to do next */
	u64 slice; /* ns that it may run: the timer is first, the tick a second net */
	s32 cpu;
	u32 right; /* enum right */
};

/* Fills in *@at by the server's own budget. With s->lock held, after server_assign(). */
static __always_inline void stand_on_budget(const struct server *s, u64 now, struct standing *at)
{
	at->right = edf_eligible(&s->info.edf, now) ? RIGHT_OWN : RIGHT_NONE;
	at->deadline = s->info.edf.deadline;
	at->start = s->info.edf.start;
	at->slice = s->info.edf.budget + FAIR_SLICE_NS;
	at->due = timer_due(s, now);
	at->cpu = s->info.cpu;
}

/* @s has no budget: fills in *@at by slack of its CPU. Without slack it waits for its period. */
static __always_inline void stand_on_slack(struct server *s, u64 now, struct standing *at)
{
	struct slack slack = reclaim_slack(at->cpu, now);

	at->deadline = slack.deadline;
	if (slack.deadline) {
		at->right = RIGHT_DRAWN;
		at->slice = slack.ns + FAIR_SLICE_NS;
	} else {
		reclaim_want(s, at->cpu);
	}
}

/* Thread @pid, of @t's server, is runnable: takes back a loan, renews the period, returns *at. */
VERIFIED_ONCE int stand(struct task_ctx *t __arg_nonnull, s32 pid, bool wake,
			struct standing *at __arg_nonnull)
{
	u64 now = bpf_ktime_get_ns();
	struct server *s = server_of(t);
	struct repaid repaid = {};
	u32 change = EDF_KEPT;

	if (!s)
		return 0;
	if (wake)
		reclaim_back(s, now, &repaid);
	awake_join(s, t);
	bpf_spin_lock(&s->lock);
	/* past its deadline the loan is lost like the budget; 1 ns: it was not used up */
	if (repaid.lent)
		s->info.edf.budget +=
			repaid.back || time_before(now, s->info.edf.deadline) ? repaid.back : 1;
	if (!runs_on_budget(s)) /* else this is done when that thread stops */
		change = server_assign(s, now, wake);
	stand_on_budget(s, now, at);
	if (!at->right || is_split(s))
		waiter_add(s, pid);
	bpf_spin_unlock(&s->lock);

	if (repaid.lent && change == EDF_EXHAUSTED)
		change = EDF_RENEWED; /* others used the budget: no overrun */
	if (change != EDF_KEPT)
		emit_change(t->slot, change, now);
	if (!at->right || is_split(s))
		timer_start(&s->timer, TIMER_SERVER, t->slot, at->due, BPF_F_TIMER_ABS);
	if (!at->right && reclaims(s))
		stand_on_slack(s, now, at);
	return 0;
}

/* Inserts @p, with standing @at, by the long way (5), and kicks the CPU concerned. */
static __always_inline void edf_insert(struct task_struct *p, const struct standing *at,
				       u64 enq_flags)
{
	s32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(at->cpu);

	dsq_insert_vtime(p, DSQ_EDF(at->cpu), at->slice, at->deadline, enq_flags);
	if (!(enq_flags & SCX_ENQ_WAKEUP) && cpu == at->cpu && c->reserved.stopped_pid == p->pid &&
	    !c->next.best_effort)
		ask_idle(p); /* this CPU has already chosen a task with an earlier deadline */
	else
		preempt(p, at->cpu, at->deadline);
	if (cpu != at->cpu && cpu_ctx(cpu)->reserved.stopped_pid == p->pid)
		scx_bpf_kick_cpu(cpu,
				 SCX_KICK_IDLE); /* @p ran there; the CPU may have other work */
}

/* May @p take the short way to @at's CPU (5)? */
static __always_inline bool is_alone(struct task_struct *p, const struct standing *at)
{
	const struct cpu_ctx *c = cpu_ctx(at->cpu);

	return c->reserved.deadline == TIME_NEVER && !best_effort_turn(c) &&
	       task_cpu(p) == at->cpu && !scx_bpf_dsq_nr_queued(DSQ_EDF(at->cpu));
}

/*
 * Queues @p by right of its server. False: it has none here and now, and belongs in the fair layer.
 */
VERIFIED_ONCE int reserved_enqueue(struct task_struct *p __arg_trusted,
				   struct task_ctx *t __arg_nonnull, u64 enq_flags)
{
	struct server *s = server_of(t);
	struct standing at = {};

	right_end(p, t); /* it may have been queued by right and taken out (nice, affinity) */
	if (!s || is_minor(p, t, s) || s->info.state != SERVER_ADMITTED)
		return false;
	stand(t, p->pid, enq_flags & SCX_ENQ_WAKEUP, &at);
	if (!bpf_cpumask_test_cpu(at.cpu, p->cpus_ptr)) {
		if (!is_split(s)) /* it may run in another of the windows */
			emit_elsewhere(s, p->pid, task_cpu(p), bpf_ktime_get_ns());
		return false;
	}
	/*
	 * The task may always run where it is. On another CPU it may not if it cannot migrate now,
	 * or if that CPU leaves.
	 */
	if (task_cpu(p) != at.cpu && (stays(p) || !cpu_active(at.cpu)))
		return false;
	if (!at.right) {
		if (!throttled(p, s))
			return false;
		right_begin(p, t, RIGHT_OWN); /* that of its next period */
		dsq_insert_vtime(p, DSQ_THROTTLED(at.cpu), at.slice, at.start, enq_flags);
		return true;
	}
	right_begin(p, t, at.right);
	if ((enq_flags & SCX_ENQ_LAST) && task_cpu(p) == at.cpu) {
		/* ops.dispatch did not let it go on, but its period has begun since */
		dsq_insert(p, SCX_DSQ_LOCAL, at.slice, enq_flags);
		return true;
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && is_alone(p, &at)) {
		cpu_ctx(at.cpu)->reserved.deadline = at.deadline;
		claim_cpu(at.cpu);
		dsq_insert(p, SCX_DSQ_LOCAL, at.slice, enq_flags | SCX_ENQ_PREEMPT);
		return true;
	}
	edf_insert(p, &at, enq_flags);
	return true;
}

/*
 * Releases throttled tasks of @cpu whose next period has started, or that need not wait any more.
 */
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
				/* without a server, dispatch moves it on to the fair layer */
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

#endif /* APLOMB_RESERVED_QUEUE_BPF_H */
