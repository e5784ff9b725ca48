/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/enqueue.bpf.h - a best-effort task begins to wait: in which queue, where in it, and which CPU is told.
 */
#ifndef APLOMB_TREE_ENQUEUE_BPF_H
#define APLOMB_TREE_ENQUEUE_BPF_H

#include "state/idle.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"
#include "tree/waiting.bpf.h"

/*
 * Is an idle CPU to be asked to help with a task of domain @leaf that waits for @c's? Not if select_cpu has @looked for one.
 * But for a limited domain it leaves the one that it found to the choice: if that is busy now, it has gone off line.
 */
static __always_inline bool needs_help(const struct cpu_ctx *c, u32 leaf, bool looked)
{
	return !looked || (branch(leaf)->limited && c->tree.leaf != SLOT_NONE);
}

/* fair_enqueue() with domains. False: @p belongs in a queue of its CPU. */
VERIFIED_ONCE int tree_enqueue(struct task_struct *p __arg_trusted, u64 enq_flags, bool looked)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	bool wake = enq_flags & SCX_ENQ_WAKEUP;
	s32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);
	bool before;
	u32 leaf;

	if (!t) { /* no memory: any CPU may take it */
		dsq_insert_vtime(p, DSQ_FAIR, FAIR_SLICE_NS, fair_vtime(p, DSQ_FAIR, fair_now),
				 enq_flags);
		tree_legacy = 1;
		ask_idle(p);
		return true;
	}
	t->refused = 0; /* we are asked: the kernel has not put it back by itself */
	leaf = leaf_for(p, t);
	if (leaf == SLOT_PASSING || !branch(leaf)->limited || !path_throttled(leaf)) {
		bool direct = wake && !branch(leaf)->limited && leaf != SLOT_PASSING &&
			      nr_cpus == 1 && !tree_waiting && !leaf_has_members(branch(leaf)) &&
			      is_next(p, c, leaf);

		if (pinned(p) || direct || (enq_flags & SCX_ENQ_LAST)) {
			if (t->queued)
				tree_leave(t);
			if (pinned(p) && !(enq_flags & SCX_ENQ_LAST))
				return false;
			if (wake)
				p->scx.dsq_vtime = fair_place(p->scx.dsq_vtime, branch(leaf)->now);
			dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
			return true;
		}
	}
	t->weight = fair_weight(p);
	before = tree_enter(t, leaf, wake, c->tree.leaf);
	if (wake && leaf == c->tree.leaf &&
	    branch(leaf)->policy == DOMAIN_MTR) /* the ways meet at the leaf */
		before = time_before(leaf_key(branch(leaf), t), c->tree.leaf_key);
	if (before && !c->by_right && !c->in_turn)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	dsq_insert_vtime(p, DSQ_DOMAIN(leaf), FAIR_SLICE_NS, leaf_vtime(p, t, leaf, wake),
			 enq_flags);
	if (!rescue_armed)
		rescue_arm();
	/* with one CPU, idle: whoever comes was held back in another domain until now, which nobody was told */
	if (nr_cpus > 1 ? needs_help(c, leaf, looked) : !wake && c->tree.leaf == SLOT_NONE)
		ask_idle(p);
	return true;
}

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

#endif /* APLOMB_TREE_ENQUEUE_BPF_H */
