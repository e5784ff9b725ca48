/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/move.bpf.h - a task that waits moves from one layer to the other.
 *
 * Source: Redline section 6.2, Listing 1; Kato, Ishikawa and Rajkumar section 4.2.
 *
 *                       raise: its period or window starts, or there is slack
 *     [queue of the fair layer] -----------------------------------------------> [EDF queue of a CPU]
 *                               <-----------------------------------------------
 *                       lower: at the head of the EDF queue, and without a right to run
 *
 * 1. Why lower. A thread in the EDF queue loses its right when another thread of its server uses
 *    up the budget, and when the server is revoked or moves. It stays in the queue until it is at
 *    the head; there ops.dispatch finds it (reserved_dispatch).
 *
 * 2. Why the order of steps. A task may run the moment it is in another queue. So the tree's count
 *    of waiting tasks (tree/tree.bpf.h 5) and the task's own fields are changed before the move,
 *    and put back if the kernel refuses it; but not if the task has been enqueued or has begun to
 *    run since, with fields of its own: then task_ctx.stay is another number.
 */
#ifndef APLOMB_MOVE_BPF_H
#define APLOMB_MOVE_BPF_H

#include "reserved/queue.bpf.h"
#include "tree/clock.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/waiting.bpf.h"

/*
 * Ineligible tasks at the head of an EDF queue that one dispatch moves away; the next one goes on.
 */
#define MAX_STALE 8

/* --- to the reserved layer ------------------------------------------------------------------- */

/* The queue in which @p waits. If it waits by right, the EDF queue of @cpu. */
static __always_inline u64 queue_of(const struct task_struct *p, const struct task_ctx *t, u32 cpu)
{
	if (t->by_right)
		return DSQ_EDF(cpu);
	if (t->queued)
		return DSQ_DOMAIN(queued_in(t->queued));
	if (!pinned(p))
		return DSQ_FAIR;
	return DSQ_PINNED(t->clock ? t->clock - 1 : task_cpu(p), t->lane);
}

/* Moves @p from queue @from to the EDF queue of @at's CPU. False: it is not there. */
static __noinline bool raise(struct task_struct *p, struct task_ctx *t, u64 from,
			     const struct standing *at)
{
	u32 before = t->by_right, by_deadline = t->by_deadline;
	u16 stay = t->stay;
	struct bpf_iter_scx_dsq it;
	u32 was = t->queued ? tree_leave(t, 0) : 0;
	bool moved = false;

	if (!bpf_iter_scx_dsq_new(&it, from, 0)) {
		right_begin(p, t, at->right);
		scx_bpf_dsq_move_set_slice(&it, at->slice);
		scx_bpf_dsq_move_set_vtime(&it, at->deadline);
		moved = scx_bpf_dsq_move_vtime(&it, p, DSQ_EDF(at->cpu), 0);
		if (!moved && t->stay == stay) {
			t->by_right = before;
			t->by_deadline = by_deadline;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (was && !moved)
		tree_rejoin(t, was, queued_in(was));
	return moved;
}

/*
 * Thread @pid may run by right of @at. It draws on the server in @slot, whose CPU was @before until
 * now.
 */
VERIFIED_ONCE int raise_thread(u32 slot, s32 pid, u32 before,
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
	if (t && draws_on(t) == s && bpf_cpumask_test_cpu(at->cpu, p->cpus_ptr) &&
	    (task_cpu(p) == at->cpu || (!stays(p) && cpu_active(at->cpu))) &&
	    !(t->by_right && before == (u32)at->cpu)) {
		if (raise(p, t, queue_of(p, t, before), at))
			preempt(p, at->cpu, at->deadline);
		else if (cpu_ctx(task_cpu(p))->reserved.slot == t->slot &&
			 (task_cpu(p) == at->cpu || is_split(s) || fair_waiting(task_cpu(p))))
			/* the thread runs: the CPU chooses again, so that it goes on by right */
			scx_bpf_kick_cpu(task_cpu(p), SCX_KICK_PREEMPT);
	}
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return 0;
}

/* The next period or window of a server has started. */
static int server_timer(void *map, u32 *slot, struct server *s)
{
	u64 now = bpf_ktime_get_ns();
	struct standing at = {};
	s32 waiter[WAITERS];
	u32 i, before, change = EDF_KEPT;
	bool again;

	before = s->info.cpu;
	if (is_split(s) && runs_on_budget(s)) {
		/*
		 * The window ends while a thread runs on the budget. The thread is charged first;
		 * the enqueue after that moves it.
		 */
		scx_bpf_kick_cpu(before, SCX_KICK_PREEMPT);
		return 0;
	}
	bpf_spin_lock(&s->lock);
	before = s->info.cpu;
	if (is_split(s) && s->info.state == SERVER_ADMITTED && s->awake)
		change = server_assign(s, now, false);
	stand_on_budget(s, now, &at);
	at.slice = s->info.edf.runtime + FAIR_SLICE_NS;
	if (s->info.state != SERVER_ADMITTED)
		at.right = RIGHT_NONE;
	again = s->info.state == SERVER_ADMITTED && (is_split(s) ? s->awake > 0 : !at.right);
	for (i = 0; i < WAITERS; i++) {
		waiter[i] = s->waiter[i];
		if (at.right && !is_split(s))
			s->waiter[i] = 0;
	}
	bpf_spin_unlock(&s->lock);

	if (change != EDF_KEPT)
		emit_change(*slot, change, now);
	if (again && time_before(now, at.due))
		bpf_timer_start(&s->timer, at.due, BPF_F_TIMER_ABS);
	if (s->info.edf.policy == POLICY_CBS_HARD)
		throttled_release(before, now);
	if (!at.right)
		return 0;
	for (i = 0; i < WAITERS; i++)
		if (waiter[i])
			raise_thread(*slot, waiter[i], before, &at);
	return 0;
}

/* When the scheduler is loaded: all slots are free, and each server's timer has its callback. */
static __always_inline s32 servers_init(void)
{
	u32 i;

	nr_slots = 1;
	bpf_for(i, 1, MAX_SERVERS) {
		u32 slot = MAX_SERVERS - i; /* the lowest is pushed last and taken first */
		struct server *s = bpf_map_lookup_elem(&servers, &slot);
		s32 err;

		if (!s)
			break;
		err = bpf_timer_set_callback(&s->timer, server_timer);
		if (!err)
			err = bpf_map_push_elem(&free_slots, &slot, 0);
		if (err)
			return err;
	}
	return 0;
}

/*
 * If there is slack on @cpu, gives it to the overrunning server that waits there with the earliest
 * deadline.
 */
VERIFIED_ONCE int offer_slack(u32 cpu)
{
	u64 now = bpf_ktime_get_ns();
	struct slack slack = reclaim_slack(cpu, now);
	struct standing at = { .cpu = cpu,
			       .right = RIGHT_DRAWN,
			       .deadline = slack.deadline,
			       .slice = slack.ns + FAIR_SLICE_NS };
	struct server *s;
	u32 i;

	if (!slack.deadline)
		return 0;
	s = reclaim_pick(cpu, now);
	if (!s)
		return 0;
	bpf_for(i, 0, WAITERS) {
		struct task_struct *p = bpf_task_from_pid(s->waiter[i % WAITERS]);
		struct task_ctx *t;

		if (!p)
			continue;
		t = task_ctx(p);
		if (t && draws_on(t) == s && !t->by_right && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			raise(p, t, queue_of(p, t, cpu), &at); /* this CPU is choosing: no kick */
		bpf_task_release(p);
	}
	return 0;
}

/* --- to the fair layer ----------------------------------------------------------------------- */

/*
 * Moves @p, the first task in @it, to its domain's queue. False: it has left its place. *@stay: the
 * number of its stay, from now on another one. What takes the task away after it was counted drops
 * the count: an enqueue, or its run. If that was before, the count is dropped here.
 */
static __always_inline bool lower_to_domain(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					    struct task_ctx *t, u16 *stay)
{
	u32 leaf = t->domain & (DOMAIN_SLOTS - 1);
	u32 counted = tree_count(t, leaf);
	struct branch *b = branch(leaf);

	*stay = t->stay;
	scx_bpf_dsq_move_set_vtime(
		it, leaf_has_members(b) ? leaf_key(b, t)
					: fair_place(t->fair_vtime, &b->fair, fair_weight(p)));
	if (scx_bpf_dsq_move_vtime(it, p, DSQ_DOMAIN(leaf), 0))
		return true;
	if (counted)
		tree_uncount(t, counted);
	return false;
}

/* The same for @p, a pinned task on @cpu, to its lane there. */
static __always_inline bool lower_to_lane(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					  struct task_ctx *t, u32 cpu)
{
	if (t->clock != cpu + 1)
		t->fair_vtime = by_clock(t, t->fair_vtime, cpu + 1);
	t->lane = lane_of(cpu, t->domain);
	scx_bpf_dsq_move_set_vtime(
		it, fair_place(t->fair_vtime, &lane(cpu_ctx(cpu), t->lane)->fair, fair_weight(p)));
	if (cpu_ctx(cpu)->online)
		return scx_bpf_dsq_move_vtime(it, p, DSQ_PINNED(cpu, t->lane), 0);
	/* from the local queue the kernel moves it to another CPU */
	return scx_bpf_dsq_move(it, p, SCX_DSQ_LOCAL_ON(cpu), 0);
}

/* The same for any task. */
static __always_inline bool lower_to_fair(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					  struct task_ctx *t, u32 cpu, u16 *stay)
{
	scx_bpf_dsq_move_set_slice(it, FAIR_SLICE_NS);
	if (pinned(p))
		return lower_to_lane(it, p, t, cpu);
	if (tree_on)
		return lower_to_domain(it, p, t, stay);
	scx_bpf_dsq_move_set_vtime(it, fair_place(t->fair_vtime, &fair_all, fair_weight(p)));
	return scx_bpf_dsq_move_vtime(it, p, DSQ_FAIR, 0);
}

/*
 * @p, at the head of @cpu's EDF queue, has no right to run now: moves it to the queue in which it
 * waits for one.
 */
static __always_inline void lower(struct bpf_iter_scx_dsq *it, struct task_struct *p,
				  struct task_ctx *t, struct server *s, u32 cpu)
{
	u16 stay = t->stay;
	u32 before = t->by_right;
	bool held = s && throttled(p, s), moved;

	if (!before)
		return; /* another CPU has taken it out of the queue since the look: look again */
	if (held) {
		t->by_right = RIGHT_OWN; /* that of its next period */
		scx_bpf_dsq_move_set_vtime(it, s->info.edf.start);
		moved = scx_bpf_dsq_move_vtime(it, p, DSQ_THROTTLED(cpu), 0);
	} else {
		t->by_right = RIGHT_NONE;
		moved = lower_to_fair(it, p, t, cpu, &stay);
	}
	if (!moved) {
		if (t->stay == stay)
			t->by_right = before;
		return;
	}
	if (!held) {
		if (t->stay == stay)
			t->by_deadline = 0;
		ask_idle(p);
	}
	if (s)
		wait_for_period(s, p->pid);
}

/* What is at the head of an EDF queue */
enum head {
	HEAD_NONE,
	HEAD_ELIGIBLE,
	HEAD_STALE /* it had no right to run, and was moved away */
};

static __noinline u32 look_at_head(s32 cpu, u64 now)
{
	TAKES_STACK(144);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = NULL;
	u32 head = HEAD_NONE;

	if (!bpf_iter_scx_dsq_new(&it, DSQ_EDF(cpu), 0))
		p = bpf_iter_scx_dsq_next(&it);
	if (p) {
		struct task_ctx *t = task_ctx(p);
		struct server *s = right_on(t, cpu);

		head = HEAD_ELIGIBLE;
		if (t && !(s && edf_eligible(&s->info.edf, now)) &&
		    !(s && t->by_right == RIGHT_DRAWN && reclaim_slack(cpu, now).ns)) {
			lower(&it, p, t, s, cpu);
			head = HEAD_STALE;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return head;
}

/* Takes the eligible task with the earliest deadline. */
VERIFIED_ONCE int reserved_dispatch(u32 cpu)
{
	u64 now = bpf_ktime_get_ns();
	u32 i;

	bpf_for(i, 0, MAX_STALE) {
		u32 head = look_at_head(cpu, now);

		if (head == HEAD_ELIGIBLE)
			return dsq_move_to_local(DSQ_EDF(cpu));
		if (head == HEAD_NONE)
			return false;
	}
	return false;
}

#endif /* APLOMB_MOVE_BPF_H */
