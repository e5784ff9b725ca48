/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/queue.bpf.h - a task in its domain's queue: how it comes to wait there, and how it leaves.
 *
 * Theory: tree/tree.bpf.h, claims in 5.
 */
#ifndef APLOMB_TREE_QUEUE_BPF_H
#define APLOMB_TREE_QUEUE_BPF_H

#include "park/landing.bpf.h"
#include "tree/leaf.bpf.h"
#include "tree/place.bpf.h"
#include "tree/tree.bpf.h"

/*
 * Clears the `queued` flag of @t's thread. Returns the domain + 1 in whose queue it waited, or 0 if
 * another CPU has cleared the flag before: two CPUs may see the same task at the head of a queue.
 * The caller that gets the domain settles one count of waiting tasks there.
 */
static __always_inline u32 unqueue(struct task_ctx *t)
{
	return __sync_lock_test_and_set(&t->queued, 0);
}

/*
 * @t's thread does not wait in a domain's queue any more. Returns false if it did not, or if
 * another CPU is taking it.
 */
VERIFIED_ONCE int tree_leave(struct task_ctx *t __arg_nonnull)
{
	u32 queued;

	bpf_spin_lock(&tree_lock);
	queued = unqueue(t);
	if (queued)
		waiting_drop(queued - 1);
	leaf_leave(t);
	bpf_spin_unlock(&tree_lock);
	return queued != 0;
}

/*
 * @t's thread waits in the queue of domain @leaf from now on. @wake: it slept. @running: see
 * climb(). Called with tree_lock held.
 */
static __always_inline void enter_task(struct task_ctx *t, u32 leaf, bool wake, u32 running)
{
	u32 queued = unqueue(t);

	if (leaf_has_members(branch(leaf)))
		leaf_enter(t, leaf & (DOMAIN_SLOTS - 1), wake);
	if (!wake && queued == leaf + 1) { /* it was not chosen, and its domain waits all along */
		t->queued = queued;
		return;
	}
	if (queued)
		waiting_drop(queued - 1);
	waiting_add(leaf, wake ? WAKES_UP : GOES_ON, running);
	t->queued = leaf + 1;
}

/*
 * The same, with the lock. Returns whether @t's thread preempts the running task of @running, which
 * has run for @ran_ns since the choice.
 */
VERIFIED_ONCE int tree_enter(struct task_ctx *t __arg_nonnull, u32 leaf, bool wake, u32 running,
			     u64 ran_ns)
{
	bool before = false;

	bpf_spin_lock(&tree_lock);
	enter_task(t, leaf, wake, running);
	if (wake && running < DOMAIN_SLOTS)
		before = preempts_domain(leaf, running, ran_ns);
	bpf_spin_unlock(&tree_lock);
	return before;
}

/* @p belongs to domain @slot from now on: its virtual time is that of a new task there. */
static __always_inline void domain_join(struct task_struct *p, struct task_ctx *t, u32 slot)
{
	if (t->domain == slot)
		return;
	t->domain = slot;
	t->fair_vtime = branch_start(branch(slot));
	if (!t->by_right)
		task_set_vtime(p, t->fair_vtime);
}

/*
 * Does @p end, or is it to die or to freeze? Then it goes on although its domain is throttled. What
 * it runs is a debt of the domain's cpu.max.
 */
static __always_inline bool passes(const struct task_struct *p)
{
	return (p->flags & PF_EXITING) || is_recalled(p);
}

/*
 * Returns the domain in whose queue @p waits: its own, or SLOT_PASSING while its domain is
 * throttled and @p has not landed (tree/limit.bpf.h 3), or passes.
 */
static __always_inline u32 leaf_for(struct task_struct *p, struct task_ctx *t)
{
	u32 slot = t->domain & (DOMAIN_SLOTS - 1);

	if (!branch(slot)->limited || !path_throttled(slot))
		return slot;
	if (passes(p) || (t->landing != LANDING_LANDED && land(p, t)))
		return SLOT_PASSING;
	return slot;
}

/* Returns the virtual time with which @p joins the queue of domain @leaf. */
static __always_inline u64 leaf_vtime(struct task_struct *p, const struct task_ctx *t, u32 leaf,
				      bool wake)
{
	struct branch *b = branch(leaf);

	if (leaf_has_members(b))
		return leaf_key(b, t);
	if (b->policy != DOMAIN_FIFO)
		return fair_vtime(p, DSQ_DOMAIN(leaf), &b->fair);
	return wake ? branch_start(b) : p->scx.dsq_vtime;
}

#endif /* APLOMB_TREE_QUEUE_BPF_H */
