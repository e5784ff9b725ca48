/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/charge.bpf.h - the fair layer's part of ops.stopping: a task and its domain are charged for
 * what it ran.
 *
 * Theory: tree/tree.bpf.h 2 (what is charged), tree/alone.bpf.h (which time is not) and
 * tree/owed.bpf.h (when).
 */
#ifndef APLOMB_TREE_CHARGE_BPF_H
#define APLOMB_TREE_CHARGE_BPF_H

#include "tree/alone.bpf.h"
#include "tree/leaf.bpf.h"
#include "tree/limit.bpf.h"
#include "tree/owed.bpf.h"
#include "tree/place.bpf.h"

/*
 * The turn of @ran ns on @cpu is over, of a task with a cpu.max, or of one that waited in the queue
 * of SLOT_PASSING: what it did not use goes back to the quota.
 */
VERIFIED_ONCE int tree_end_grant(u32 cpu, u64 ran)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 slot = c->tree.leaf & (DOMAIN_SLOTS - 1), blocked = SLOT_NONE;
	u64 now = branch(slot)->limited ? bpf_ktime_get_ns() : 0;

	bpf_spin_lock(&tree_lock);
	if (c->tree.passing) {
		charge_member(branch(SLOT_PASSING), MEMBER_OWN(SLOT_PASSING), ran);
		charge_member(branch(SLOT_ROOT), MEMBER_OF(SLOT_PASSING), ran);
	}
	if (now)
		blocked = return_time(slot, now, c->tree.granted, ran);
	bpf_spin_unlock(&tree_lock);
	if (blocked != SLOT_NONE)
		limit_timer_start(blocked);
	if (tree_released) {
		wake_idle();
		/*
		 * The kernel may have chosen already that @cpu will be idle, and marks it so only
		 * after this callback: wake_idle() does not find it.
		 */
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	c->tree.granted = 0;
	return 0;
}

/*
 * The domain of the task that runs on @cpu owes for @ran ns. @sleeps: the task goes to sleep.
 * @unwanted: no task waits in that CPU's lanes.
 */
static __always_inline void tree_ran(u32 cpu, struct cpu_ctx *c, u64 ran, bool sleeps,
				     bool unwanted)
{
	u32 slot = c->tree.leaf & (DOMAIN_SLOTS - 1);

	if (!ran && !sleeps && !branch(slot)->limited)
		return; /* dispatch has charged it, and chose another task */
	if (alone_ran(c, cpu, slot, &ran, sleeps))
		return;
	tree_settle(cpu, c);
	/* if it was not alone, its domain is placed first */
	owes(c, slot, ran, c->tree.alone, sleeps, unwanted);
	c->tree.alone = 0;
	if (branch(slot)->limited || c->tree.passing)
		tree_end_grant(cpu, ran);
	if (tree_ordered)
		tree_pay(cpu);
}

/* A pinned task of @slot goes to sleep on @cpu: if no task waits in its lane, all are even. */
static __always_inline void lane_sleeps(u32 cpu, struct cpu_ctx *c, u32 slot)
{
	u32 k = lane_of(cpu, slot);

	if (!c->tree.straight && !scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)))
		fair_none_waits(&lane(c, k)->fair);
}

/*
 * @p ran for @ran ns: charges its virtual time, and its domain. @sleeps: it goes to sleep.
 * @unasked: it may have run on for longer than a slice without a choice of the fair layer.
 */
static __always_inline void fair_charge(struct task_struct *p, u32 cpu, struct cpu_ctx *c, u64 ran,
					bool sleeps, bool unasked)
{
	struct branch *b = branch(c->tree.leaf);
	struct task_ctx *t = tree_on && b->reordered && !pinned(p) ? task_ctx(p) : NULL;

	/*
	 * In ops.dispatch the kernel may not have brought the running task's clock up to date
	 * (rq_clock_skip_update). A task that seems to have run for no time keeps its grant:
	 * returned, the grant would be claimed once more, and the task would run for it twice.
	 */
	if (!ran && unasked && !sleeps)
		return;
	if (t) {
		t->weight = fair_weight(p);
		task_set_vtime(p, leaf_charge(t, c->tree.leaf & (DOMAIN_SLOTS - 1), ran, sleeps,
					      p->scx.dsq_vtime));
	} else {
		task_set_vtime(p, p->scx.dsq_vtime + fair_cost(ran, fair_weight(p)));
	}
	if (p->flags & PF_KTHREAD)
		kthread_charge(p, ran);
	if (sleeps)
		session_sleeps(p);
	c->tree.vtime = p->scx.dsq_vtime;
	if (!tree_on || pinned(p) || leaf_is_fair(b))
		fair_ran(fair_queue_of(p, c), p->scx.dsq_vtime);
	if (tree_on && sleeps && !b->waiting && !c->tree.straight && !pinned(p) && leaf_is_fair(b))
		fair_none_waits(&b->fair);
	if (tree_on)
		tree_ran(cpu, c, ran, sleeps, !pinned(p) || (unasked && !pinned_waiting(cpu)));
	if (sleeps && pinned(p))
		lane_sleeps(cpu, c, c->tree.leaf & (DOMAIN_SLOTS - 1));
}

#endif /* APLOMB_TREE_CHARGE_BPF_H */
