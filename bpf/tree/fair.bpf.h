/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/fair.bpf.h - the fair layer: all that runs by no reservation. Theory: policy/fair.h, and tree/tree.bpf.h with domains.
 */
#ifndef APLOMB_FAIR_BPF_H
#define APLOMB_FAIR_BPF_H

#include "tree/dispatch.bpf.h"

/* @p, which may not run everywhere, waits for @cpu. */
static __always_inline void pinned_enqueue(struct task_struct *p, s32 cpu, u64 enq_flags,
					   bool looked)
{
	struct task_ctx *t = tree_on ? task_ctx(p) : NULL;
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 k = 0;

	if (!c->online) { /* from its local queue the kernel takes it elsewhere */
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
		return;
	}
	if (t) {
		k = lane_of(cpu, t->domain);
		t->lane = k;
		if (!rescue_armed)
			rescue_arm();
	}
	dsq_insert_vtime(p, DSQ_PINNED(cpu, k), FAIR_SLICE_NS,
			 fair_vtime(p, DSQ_PINNED(cpu, k), lane(c, k)->now), enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	if (p->nr_cpus_allowed > 1 && needs_help(c, t ? t->domain : 0, looked))
		ask_idle(p);
}

/*
 * Put @p, which waits nowhere, into its fair queue; wake a CPU for it if one is idle, unless somebody has
 * @looked for one just now.
 *
 * A task that wakes up where nobody waits, and that no other CPU could take, is next here anyway: it
 * goes straight to the CPU's local queue, which spares it a sorted insert and a dispatch. Only on
 * wake-up, or tasks that use up their slices would take turns there without regard to weight.
 */
static __always_inline void fair_enqueue(struct task_struct *p, u64 enq_flags, bool looked)
{
	s32 cpu = task_cpu(p);

	if (tree_on && tree_enqueue(p, enq_flags, looked))
		return;
	if ((enq_flags & SCX_ENQ_WAKEUP) && (nr_cpus == 1 || pinned(p)) && !fair_waiting(cpu)) {
		struct cpu_ctx *c = cpu_ctx(cpu);

		p->scx.dsq_vtime = fair_place(p->scx.dsq_vtime, *fair_clock(p, c));
		if (is_next(p, c, domain_of_task(p))) {
			dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
			return;
		}
	}
	if (pinned(p)) {
		pinned_enqueue(p, cpu, enq_flags, looked);
		return;
	}
	dsq_insert_vtime(p, DSQ_FAIR, FAIR_SLICE_NS, fair_vtime(p, DSQ_FAIR, fair_now), enq_flags);
	if (nr_cpus > 1 && !looked)
		ask_idle(p);
}

/* @p begins to run: the queue's virtual time follows. */
static __always_inline void fair_running(struct task_struct *p, struct cpu_ctx *c)
{
	u64 *now = fair_clock(p, c);

	if (time_before(*now, p->scx.dsq_vtime))
		*now = p->scx.dsq_vtime;
	c->tree.vtime = p->scx.dsq_vtime;
	c->tree.pinned = pinned(p);
}

/* @p ran for @ran ns on @cpu: of what its domain (or the machine) has of that CPU, those who may run nowhere else have had
 * this, or the others. */
static __always_inline void pair_charge(struct task_struct *p, u32 cpu, struct cpu_ctx *c, u64 ran)
{
	u32 slot = c->tree.leaf & (DOMAIN_SLOTS - 1), waiting, others, k = 0;

	if (!pinned(p) && c->tree.nr_lanes < 2 && !scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, 0)))
		return;
	if (tree_on)
		k = lane_of(cpu, slot);
	waiting = scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k));
	others = tree_on ? branch(slot)->waiting : scx_bpf_dsq_nr_queued(DSQ_FAIR);
	if (pinned(p))
		fair_pair_charge(&lane(c, k)->pair, 1, ran, waiting + 1);
	else if (waiting)
		fair_pair_charge(&lane(c, k)->pair, 0, ran, others / nr_cpus + 1);
}

/*
 * @p ran for @ran ns on @cpu, by right or not: all of it counts against its share. @sleeps: it goes to sleep; @unasked: it
 * might go on, or has gone on by right, where nobody was chosen in its place.
 */
static __always_inline void fair_charge(struct task_struct *p, u32 cpu, struct cpu_ctx *c, u64 ran,
					bool sleeps, bool unasked)
{
	struct branch *b = branch(c->tree.leaf);
	struct task_ctx *t = tree_on && b->reordered && !pinned(p) ? task_ctx(p) : NULL;

	if (t) {
		t->weight = fair_weight(p);
		p->scx.dsq_vtime = leaf_charge(t, c->tree.leaf & (DOMAIN_SLOTS - 1), ran, sleeps,
					       p->scx.dsq_vtime);
	} else {
		p->scx.dsq_vtime += fair_cost(ran, fair_weight(p));
	}
	if (tree_on)
		tree_charge(cpu, ran, sleeps, !pinned(p) || (unasked && !pinned_waiting(cpu)));
	if (nr_cpus > 1)
		pair_charge(p, cpu, c, ran);
}

/* Does @prev go on? Not one with a server, whose accounts are settled when it stops; nor between the two queues,
 * where fair_pair decides. */
static __always_inline bool fair_keeps(struct task_struct *prev, u32 cpu)
{
	if (nr_cpus > 1 && scx_bpf_dsq_nr_queued(pinned(prev) ? DSQ_FAIR : DSQ_PINNED(cpu, 0)))
		return false;
	return still_first(prev, pinned(prev) ? DSQ_PINNED(cpu, 0) : DSQ_FAIR);
}

/* Choose the next task for @cpu; @prev runs still, and could go on, or is NULL. */
static __always_inline enum fair_choice fair_dispatch(u32 cpu, struct cpu_ctx *c,
						      struct task_struct *prev)
{
	if (rescues && dsq_move_to_local(DSQ_RESCUE)) {
		c->next.rescued = 1;
		return FAIR_TAKEN;
	}
	if (tree_on) {
		u32 choice = domains_dispatch(cpu, prev);

		if (choice == FAIR_KEPT && prev)
			fair_running(prev, c);
		return choice;
	}
	if (prev && fair_keeps(prev, cpu)) {
		prev->scx.slice = FAIR_SLICE_NS;
		fair_running(prev, c);
		return FAIR_KEPT;
	}
	if (nr_cpus > 1 && scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, 0))) {
		u32 member = 1;

		if (scx_bpf_dsq_nr_queued(DSQ_FAIR))
			member = fair_pair_pick(&lane(c, 0)->pair);
		if (member == 0 && dsq_move_to_local(DSQ_FAIR))
			return FAIR_TAKEN;
		if (dsq_move_to_local(DSQ_PINNED(cpu, 0)))
			return FAIR_TAKEN;
	}
	return dsq_move_to_local(DSQ_FAIR) ? FAIR_TAKEN : FAIR_NONE;
}

#endif /* APLOMB_FAIR_BPF_H */
