/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/rescue_tick.bpf.h - the look, once a second, for those who have waited too long. Theory: tree/rescue.bpf.h.
 *
 * Two kinds wait long, at the two ends of a queue that is ordered by virtual time. Where a round takes long, since the
 * domain gets little or its tasks are many, it is whoever is first, and everybody: the whole queue is looked through, but only
 * if a round at the pace of the last second takes too long. Where others are far heavier it is whoever is last: the last ones
 * are looked at each time.
 */
#ifndef APLOMB_TREE_RESCUE_TICK_BPF_H
#define APLOMB_TREE_RESCUE_TICK_BPF_H

#include "tree/domain.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"
#include "tree/waiting.bpf.h"

/* Tasks of one queue that one look from its first on takes out; the rest a second later. */
#define MAX_RESCUES 4096
/*
 * Tasks that a look from its last on looks at, so that it stays short: others of that CPU wait meanwhile. Of more than so many
 * weak ones those in between wait until enough of the others have been rescued or run.
 */
#define MAX_LAST 512

/*
 * Who has waited too long in @queue: that of domain @slot, or SLOT_NONE, one outside the tree; among the @most first ones, or
 * last ones. Whose CPU has gone would be taken from DSQ_RESCUE by nobody: it goes to that one's local queue, from which the
 * kernel takes it elsewhere.
 */
VERIFIED_ONCE int rescue_from(u64 queue, u32 slot, bool last, u32 most)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	bpf_rcu_read_lock(); /* see reactivate_one */
	if (!bpf_iter_scx_dsq_new(&it, queue, last ? SCX_DSQ_ITER_REV : 0)) {
		bpf_for(i, 0, most) {
			struct task_ctx *t;
			s32 home;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			if (waits_ns(p) < RESCUE_AFTER_NS)
				continue;
			t = task_ctx(p);
			if (slot != SLOT_NONE && (!t || !tree_leave(t)))
				continue; /* before the move: it may run the moment it is made */
			home = task_cpu(p);
			rescues = 1;
			scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
			if (!scx_bpf_dsq_move(&it, p,
					      cpu_ctx(home)->online ? DSQ_RESCUE
								    : SCX_DSQ_LOCAL_ON(home),
					      0) &&
			    slot != SLOT_NONE && t && !t->queued)
				tree_enter(t, slot, false, SLOT_NONE);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/* Would a round of @waiting tasks take longer than RESCUE_AFTER_NS, at the pace of @turns in the last second? */
static __always_inline bool too_slow(u32 waiting, u32 turns)
{
	return waiting > turns * (RESCUE_AFTER_NS / RESCUE_EVERY_NS);
}

/* All lanes. How many wait in them? */
VERIFIED_ONCE u32 rescue_from_lanes(void)
{
	u32 cpu, k, all = 0;

	if (nr_cpus == 1)
		return 0;
	bpf_for(cpu, 0, nr_cpus) {
		bpf_for(k, 0, cpu_ctx(cpu)->tree.nr_lanes) {
			struct lane *l = lane(cpu_ctx(cpu), k);
			u32 waiting = scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)), turns = l->turns;

			l->turns = 0;
			all += waiting;
			if (tree_on && too_slow(waiting, turns))
				rescue_from(DSQ_PINNED(cpu, k), SLOT_NONE, false, MAX_RESCUES);
			else if (waiting)
				rescue_from(DSQ_PINNED(cpu, k), SLOT_NONE, true, MAX_LAST);
		}
	}
	return all;
}

/* All domains' queues. */
VERIFIED_ONCE int rescue_from_domains(void)
{
	u32 i, used = nr_domain_slots;

	bpf_for(i, 0, used + 1) {
		u32 slot = i < used ? i & (DOMAIN_SLOTS - 1) : SLOT_PASSING;
		struct branch *b = branch(slot);
		u32 turns = b->turns;

		b->turns = 0;
		domain_bury(slot);
		if ((s32)b->waiting <= 0)
			continue;
		/* turns say how long a round is, but not in a fifo, where one task may have them all */
		if (b->policy == DOMAIN_FIFO || too_slow(b->waiting, turns))
			rescue_from(DSQ_DOMAIN(slot), slot, false, MAX_RESCUES);
		else
			rescue_from(DSQ_DOMAIN(slot), slot, true, MAX_LAST);
	}
	return 0;
}

static int rescue_tick(void *map, u32 *key, struct timer_slot *timer)
{
	u32 tied = rescue_from_lanes(), plain = scx_bpf_dsq_nr_queued(DSQ_FAIR);

	if (plain)
		rescue_from(DSQ_FAIR, SLOT_NONE, true, MAX_LAST);
	if (tree_on)
		rescue_from_domains();
	/*
	 * On as long as anybody waits, those rescued too: nobody serves their queue otherwise. Off first, then a look:
	 * who is enqueued in between starts the timer, or is seen here.
	 */
	__sync_lock_test_and_set(&rescue_armed, 0);
	rescues = scx_bpf_dsq_nr_queued(DSQ_RESCUE) != 0;
	if (rescues)
		wake_idle();
	else if (!tree_waiting && !tied && !scx_bpf_dsq_nr_queued(DSQ_FAIR))
		return 0;
	rescue_armed = 1;
	bpf_timer_start(&timer->timer, RESCUE_EVERY_NS, 0);
	return 0;
}

#endif /* APLOMB_TREE_RESCUE_TICK_BPF_H */
