/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/passing.bpf.h - tasks that wait in a domain's queue when it is throttled, and may hold a
 * lock.
 *
 * Source: ours; theory in tree/limit.bpf.h 3. A task that runs when its domain is throttled goes to
 * SLOT_PASSING at its next enqueue (leaf_for). A task that was preempted earlier, and waits when
 * another task of its domain uses up the quota, has no next enqueue: with three tasks that write to
 * one file at 2ms/100ms, a writer outside waited for 250 ms. So a timer that fires at once looks at
 * all tasks that wait in throttled domains. (The callback that throttles may not move them between
 * queues.)
 */
#ifndef APLOMB_PASSING_BPF_H
#define APLOMB_PASSING_BPF_H

#include "tree/limit.bpf.h"
#include "tree/queue.bpf.h"

/*
 * Tasks of one domain that one look moves. The rest waits for the next period, as all tasks do
 * before kernel 7.0.
 */
#define MAX_PASSING 4096

/* land() by thread id: the verifier wants a reference to the task. */
static __noinline bool land_pid(s32 pid, struct task_ctx *t)
{
	TAKES_STACK(32);
	struct task_struct *p = bpf_task_from_pid(pid);
	bool lands = p && land(p, t);

	if (p)
		bpf_task_release(p);
	return lands;
}

/* Moves all tasks in the queue of domain @slot that have not landed to SLOT_PASSING. */
VERIFIED_ONCE int pass_from(u32 slot)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	bpf_rcu_read_lock(); /* up to 6.18 a timer of a sleepable program counts as sleepable */
	if (!bpf_iter_scx_dsq_new(&it, DSQ_DOMAIN(slot), 0)) {
		bpf_for(i, 0, MAX_PASSING) {
			struct task_ctx *t;
			u32 was;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_ctx(p);
			if (!t)
				continue;
			if (t->landing == LANDING_LANDED || !land_pid(p->pid, t)) {
				throttled_begin(t); /* it stays */
				continue;
			}
			was = tree_leave(t, 0);
			if (!was) /* another CPU is taking it */
				continue;
			scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
			scx_bpf_dsq_move_set_vtime(&it, fair_place(p->scx.dsq_vtime,
								   &branch(SLOT_PASSING)->fair,
								   fair_weight(p)));
			if (scx_bpf_dsq_move_vtime(&it, p, DSQ_DOMAIN(SLOT_PASSING), 0))
				tree_rejoin(t, was, SLOT_PASSING);
			else
				tree_rejoin(t, was, queued_in(was));
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/* A domain is throttled in which tasks wait. */
static int pass_tick(void *map, u32 *key, struct timer_slot *timer)
{
	u32 i;

	bpf_for(i, 1, nr_domain_slots) {
		struct branch *b = branch(i);

		if ((s32)b->waiting > 0 && b->limited && path_throttled(i))
			pass_from(i);
	}
	wake_idle();
	return 0;
}

static __always_inline s32 passing_init(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&pass_timer, &zero);

	return slot ? bpf_timer_set_callback(&slot->timer, pass_tick) : -EINVAL;
}

#endif /* APLOMB_PASSING_BPF_H */
