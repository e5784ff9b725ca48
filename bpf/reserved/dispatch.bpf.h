/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/dispatch.bpf.h - which reserved task a CPU takes: the first by deadline that has a right to run (Redline,
 * Listing 1), who overran and may have slack (policy/fcbs.h), and, on a CPU that would be idle, who waits elsewhere.
 */
#ifndef APLOMB_RESERVED_DISPATCH_BPF_H
#define APLOMB_RESERVED_DISPATCH_BPF_H

#include "reserved/queue.bpf.h"

/* @p, at the head of @cpu's EDF queue, has no right to run now: to the queue where it waits for one. */
static __always_inline void demote(struct bpf_iter_scx_dsq *it, struct task_struct *p,
				   struct task_ctx *t, struct server *s, u32 cpu)
{
	if (s && throttled(p, s)) {
		t->by_right = RIGHT_OWN; /* that of its next period */
		scx_bpf_dsq_move_set_vtime(it, s->info.edf.start);
		scx_bpf_dsq_move_vtime(it, p, DSQ_THROTTLED(cpu), 0);
	} else {
		t->by_right = RIGHT_NONE;
		scx_bpf_dsq_move_set_slice(it, FAIR_SLICE_NS);
		if (tree_on && !pinned(p)) {
			u32 leaf = t->domain & (DOMAIN_SLOTS - 1);

			tree_enter(t, leaf, false, SLOT_NONE);
			scx_bpf_dsq_move_set_vtime(
				it, leaf_has_members(branch(leaf))
					    ? leaf_key(branch(leaf), t)
					    : fair_place(t->fair_vtime, branch(leaf)->now));
			scx_bpf_dsq_move_vtime(it, p, DSQ_DOMAIN(leaf), 0);
		} else {
			u64 queue = DSQ_FAIR, now = fair_now;

			if (pinned(p)) {
				t->lane = lane_of(cpu, t->domain);
				queue = DSQ_PINNED(cpu, t->lane);
				now = lane(cpu_ctx(cpu), t->lane)->now;
			}
			scx_bpf_dsq_move_set_vtime(it, fair_place(t->fair_vtime, now));
			if (pinned(p) &&
			    !cpu_ctx(cpu)->online) /* from there the kernel takes it elsewhere */
				scx_bpf_dsq_move(it, p, SCX_DSQ_LOCAL_ON(cpu), 0);
			else
				scx_bpf_dsq_move_vtime(it, p, queue, 0);
		}
		ask_idle(p);
	}
	if (s)
		wait_for_period(s, p->pid);
}

/*
 * Look at the head of @cpu's EDF queue. 1: it may run. 0: its server has no budget left (another
 * thread used it), was revoked, or moved on; it was moved away. -1: nothing there.
 */
static __noinline s32 head_is_eligible(s32 cpu, u64 now)
{
	TAKES_STACK(96);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = NULL;
	s32 verdict = -1;
	u64 slack;

	if (!bpf_iter_scx_dsq_new(&it, DSQ_EDF(cpu), 0))
		p = bpf_iter_scx_dsq_next(&it);
	if (p) {
		struct task_ctx *t = task_ctx(p);
		struct server *s = right_on(t, cpu);

		verdict = 1;
		if (t && !(s && edf_eligible(&s->info.edf, now)) &&
		    !(s && t->by_right == RIGHT_DRAWN && reclaim_deadline(cpu, now, &slack))) {
			demote(&it, p, t, s, cpu);
			verdict = 0;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return verdict;
}

/* There may be slack on @cpu: the overrunning server that waits here with the earliest deadline may have it. */
VERIFIED_ONCE int offer_slack(u32 cpu)
{
	u64 now = bpf_ktime_get_ns(), slack = 0;
	struct standing at = { .cpu = cpu, .right = RIGHT_DRAWN };
	struct server *s;
	u32 i;

	at.deadline = reclaim_deadline(cpu, now, &slack);
	if (!at.deadline)
		return 0;
	at.slice = slack + FAIR_SLICE_NS;
	s = reclaim_pick(cpu, now);
	if (!s)
		return 0;
	bpf_for(i, 0, WAITERS) {
		struct task_struct *p = bpf_task_from_pid(s->waiter[i % WAITERS]);
		struct task_ctx *t;

		if (!p)
			continue;
		t = task_ctx(p);
		if (t && server_of(t) == s && !t->by_right &&
		    bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			promote(p, t, queue_of(p, t, cpu), &at); /* this CPU is choosing: no kick */
		bpf_task_release(p);
	}
	return 0;
}

/* Take the eligible task with the earliest deadline. */
VERIFIED_ONCE int reserved_dispatch(u32 cpu)
{
	u64 now = bpf_ktime_get_ns();
	u32 i;

	bpf_for(i, 0, MAX_STALE) {
		s32 verdict = head_is_eligible(cpu, now);

		if (verdict > 0)
			return dsq_move_to_local(DSQ_EDF(cpu));
		if (verdict < 0)
			return false;
	}
	return false;
}

/*
 * A reserved task takes a CPU that seemed free to who waits first in @queue, or was picked to help him while it
 * was idle: another one may.
 */
VERIFIED_ONCE int help_first(u64 queue)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *head = NULL;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	if (!bpf_iter_scx_dsq_new(&it, queue, 0))
		head = bpf_iter_scx_dsq_next(&it);
	if (head)
		ask_idle(head);
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

/* An idle CPU helps out: a reserved task that waits elsewhere runs here, on spare time. */
VERIFIED_ONCE int reserved_steal(u32 cpu)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		if (i != cpu && scx_bpf_dsq_nr_queued(DSQ_EDF(i)) &&
		    dsq_move_to_local(DSQ_EDF(i))) {
			help_first(DSQ_EDF(
				i)); /* several came at once: the next idle CPU has the next one */
			return true;
		}
	}
	return false;
}

#endif /* APLOMB_RESERVED_DISPATCH_BPF_H */
