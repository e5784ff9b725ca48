/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rescue.bpf.h - nobody waits for ever in a domain's queue, whatever its weight or its cpu.max.
 *
 * Source: ours. 1. Why. A domain may be due a ten-thousandth of a CPU, by its weight or its limit, and hold a thousand
 * tasks that want to run. By shares each would wait for hours. But a task that is not run for 30 s makes the kernel end
 * the scheduler (its watchdog), for everybody.
 *
 * 2. Control. Once a second, while anybody waits, each domain's queue is looked at whose tasks take more than
 * RESCUE_AFTER_NS for a round at the pace of that second. Who has waited for so long goes to a queue that is served
 * before all domains, and runs for RESCUE_SLICE_NS; it is charged to its domain as always, throttled or not.
 *
 * 3. What it costs the others: 200 us in 10 s for each task that nobody would serve, 2 % of a CPU for a thousand.
 */
#ifndef APLOMB_RESCUE_BPF_H
#define APLOMB_RESCUE_BPF_H

#include "domain.bpf.h"

/* A third of the kernel's patience: another 10 s for the queue of those who are rescued. */
#define RESCUE_AFTER_NS (10 * NSEC_PER_SEC)
/* Tasks of one domain that one look takes out; the rest a second later. */
#define MAX_RESCUES 4096

/*
 * Who has waited too long in @queue: that of domain @slot, or NO_LEAF, a lane. Whose CPU has gone would be taken from DSQ_RESCUE
 * by nobody: it goes to that one's local queue, from which the kernel takes it elsewhere.
 */
VERIFIED_ONCE int rescue_from(u64 queue, u32 slot, u64 now)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	bpf_rcu_read_lock(); /* see reactivate_one */
	if (!bpf_iter_scx_dsq_new(&it, queue, 0)) {
		bpf_for(i, 0, MAX_RESCUES) {
			struct task_ctx *t;
			s32 home;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_ctx(p);
			if (!t || !t->waits_since || time_before(now, t->waits_since + RESCUE_AFTER_NS))
				continue;
			if (slot != NO_LEAF &&
			    !tree_leave(t)) /* before the move: it may run the moment it is made */
				continue;
			home = task_cpu(p);
			scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
			if (!scx_bpf_dsq_move(
				    &it, p, cpu_ctx(home)->online ? DSQ_RESCUE : SCX_DSQ_LOCAL_ON(home), 0) &&
			    slot != NO_LEAF && !t->queued)
				tree_enter(t, slot, false, NO_LEAF);
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
VERIFIED_ONCE u32 rescue_from_lanes(u64 now)
{
	u32 cpu, k, all = 0;

	if (nr_cpus == 1)
		return 0;
	bpf_for(cpu, 0, nr_cpus) {
		bpf_for(k, 0, cpu_ctx(cpu)->nr_lanes) {
			struct lane *l = lane(cpu_ctx(cpu), k);
			u32 waiting = scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)), turns = l->turns;

			l->turns = 0;
			all += waiting;
			if (too_slow(waiting, turns))
				rescue_from(DSQ_PINNED(cpu, k), NO_LEAF, now);
		}
	}
	return all;
}

/* The look at all domains, once a second. */
static int rescue_tick(void *map, u32 *key, struct timer_slot *timer)
{
	u64 now = bpf_ktime_get_ns();
	u32 i, used = nr_domain_slots, tied = rescue_from_lanes(now);

	bpf_for(i, 0, used + 1) {
		u32 slot = i < used ? i & (DOMAIN_SLOTS - 1) : PASSING;
		struct branch *b = branch(slot);
		u32 turns = b->turns;

		b->turns = 0;
		domain_bury(slot);
		/* turns say how long a round is, but not in a fifo, where one task may have them all */
		if ((s32)b->waiting > 0 && (b->policy == DOMAIN_FIFO || too_slow(b->waiting, turns)))
			rescue_from(DSQ_DOMAIN(slot), slot, now);
	}
	/*
	 * On as long as anybody waits, those rescued too: nobody serves their queue otherwise. Off first, then a look:
	 * who is enqueued in between starts the timer, or is seen here.
	 */
	__sync_lock_test_and_set(&rescue_armed, 0);
	if (scx_bpf_dsq_nr_queued(DSQ_RESCUE))
		wake_idle();
	else if (!tree_waiting && !tied)
		return 0;
	rescue_armed = 1;
	bpf_timer_start(&timer->timer, RESCUE_EVERY_NS, 0);
	return 0;
}

#endif /* APLOMB_RESCUE_BPF_H */
