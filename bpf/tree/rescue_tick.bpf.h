/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/rescue_tick.bpf.h - the look, once a second, for tasks that have waited too long.
 *
 * Theory: tree/rescue.bpf.h.
 *
 * Tasks wait long at two ends of a queue that is ordered by virtual time:
 *  - At its head, and everywhere in it, if a round takes long, since the domain gets little or has
 *    many tasks. Then the whole queue is looked through, from its head; but only if a round at the
 *    pace of the last second would take longer than RESCUE_AFTER_NS.
 *  - At its tail, if other tasks are far heavier. The last tasks are looked at each time.
 */
#ifndef APLOMB_TREE_RESCUE_TICK_BPF_H
#define APLOMB_TREE_RESCUE_TICK_BPF_H

#include "tree/domain.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"
#include "tree/waiting.bpf.h"

/* Tasks that one look from the head of a queue takes out. The rest follows a second later. */
#define MAX_RESCUES 4096
/*
 * Tasks that a look from the tail looks at, so that it stays short: other tasks of that CPU wait
 * meanwhile. Of more light tasks than this, those in between wait until enough of the others have
 * been rescued or have run.
 */
#define MAX_LAST 512

/*
 * @p, at @it in the queue of domain @slot (SLOT_NONE: in a queue outside the tree), has waited too
 * long. If its CPU is off line, a pinned task would stay in DSQ_RESCUE for ever; so it moves to
 * that CPU's local queue, from which the kernel moves it to another CPU.
 */
static __always_inline void rescue_task(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					u32 slot)
{
	struct task_ctx *t = task_ctx(p);
	s32 home = task_cpu(p);
	u64 to = cpu_ctx(home)->online ? DSQ_RESCUE : SCX_DSQ_LOCAL_ON(home);
	u32 was = 0;

	/*
	 * Before the move: after it the task may run at once. If it is not counted, another CPU is
	 * taking it, or would have to be: it is rescued in either case.
	 */
	if (slot != SLOT_NONE && t)
		was = tree_leave(t, 0);
	rescues = 1;
	scx_bpf_dsq_move_set_slice(it, FAIR_SLICE_NS);
	if (!scx_bpf_dsq_move(it, p, to, 0) && was && t)
		tree_rejoin(t, was, queued_in(was));
}

/*
 * Rescues the tasks in @queue that have waited too long, among the @most first ones, or the @most
 * last ones if @last. @slot: as in rescue_task().
 */
VERIFIED_ONCE int rescue_from(u64 queue, u32 slot, bool last, u32 most)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	bpf_rcu_read_lock(); /* up to 6.18 a timer of a sleepable program counts as sleepable */
	if (!bpf_iter_scx_dsq_new(&it, queue, last ? SCX_DSQ_ITER_REV : 0)) {
		bpf_for(i, 0, most) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			if (waits_ns(p) >= RESCUE_AFTER_NS)
				rescue_task(&it, p, slot);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/* Would a round of @waiting tasks take longer than RESCUE_AFTER_NS, with @turns in a second? */
static __always_inline bool too_slow(u32 waiting, u32 turns)
{
	return waiting > turns * (RESCUE_AFTER_NS / RESCUE_EVERY_NS);
}

/* Looks at all lanes. Returns how many tasks wait in them. */
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

/*
 * Looks at all domains' queues, and frees the slots of domains that have gone. Returns how many
 * tasks wait in them, by the queues: a task that the tree does not count is seen, too.
 */
VERIFIED_ONCE u32 rescue_from_domains(void)
{
	u32 i, used = nr_domain_slots, all = 0;

	bpf_for(i, 0, used + 1) {
		u32 slot = i < used ? i & (DOMAIN_SLOTS - 1) : SLOT_PASSING;
		struct branch *b = branch(slot);
		u32 turns = b->turns;
		s32 waiting;

		b->turns = 0;
		domain_bury(slot);
		waiting = scx_bpf_dsq_nr_queued(DSQ_DOMAIN(slot));
		if (waiting <= 0)
			continue;
		all += waiting;
		/*
		 * Under FIFO one task may have all turns, so they do not show how long a round is.
		 */
		if (b->policy == DOMAIN_FIFO || too_slow(waiting, turns))
			rescue_from(DSQ_DOMAIN(slot), slot, false, MAX_RESCUES);
		else
			rescue_from(DSQ_DOMAIN(slot), slot, true, MAX_LAST);
	}
	return all;
}

static int rescue_tick(void *map, u32 *key, struct timer_slot *timer)
{
	u32 waiting = rescue_from_lanes(), plain = scx_bpf_dsq_nr_queued(DSQ_FAIR);

	if (plain)
		rescue_from(DSQ_FAIR, SLOT_NONE, true, MAX_LAST);
	if (tree_on)
		waiting += rescue_from_domains();
	/*
	 * The timer runs as long as any task waits, rescued ones included: no CPU is kicked for
	 * their queue otherwise. First the switch is set to off, then the queues are looked at: a
	 * task that is enqueued in between starts the timer, or is seen here.
	 */
	__sync_lock_test_and_set(&rescue_armed, 0);
	rescues = scx_bpf_dsq_nr_queued(DSQ_RESCUE) != 0;
	if (rescues)
		wake_idle();
	else if (!tree_waiting && !waiting && !scx_bpf_dsq_nr_queued(DSQ_FAIR))
		return 0;
	rescue_armed = 1;
	bpf_timer_start(&timer->timer, RESCUE_EVERY_NS, 0);
	return 0;
}

static __always_inline s32 rescue_init(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&rescue_timer, &zero);

	return slot ? bpf_timer_set_callback(&slot->timer, rescue_tick) : -EINVAL;
}

#endif /* APLOMB_TREE_RESCUE_TICK_BPF_H */
