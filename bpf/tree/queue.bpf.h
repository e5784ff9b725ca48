/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/queue.bpf.h - a task in its domain's queue: how it comes to wait there, and how it leaves.
 *
 * Theory: tree/tree.bpf.h, claims in 5.
 *
 * task_ctx.queued says in which queue a task waits, and which of its stays in queues that is:
 *
 *      31      stay      16 15    domain + 1     0
 *
 * Why the number of the stay: a CPU takes a task out of a queue in two steps. It clears `queued`,
 * then the kernel moves the task. The kernel refuses the move if the task has left its place in the
 * queue since the CPU looked, even if it is back in the same queue now. The stay tells whether that
 * was before the CPU cleared `queued` or after it. Before: the task waits there, and `queued` is to
 * be set again, or no CPU would ever take it. After: it came back with a count of its own.
 */
#ifndef APLOMB_TREE_QUEUE_BPF_H
#define APLOMB_TREE_QUEUE_BPF_H

#include "park/landing.bpf.h"
#include "tree/leaf.bpf.h"
#include "tree/place.bpf.h"
#include "tree/tree.bpf.h"

#define QUEUED_DOMAIN 0xffff
_Static_assert(DOMAIN_SLOTS < QUEUED_DOMAIN, "a domain fits in task_ctx.queued");

/* The domain in whose queue a task waits by @queued, which is not 0. */
static __always_inline u32 queued_in(u32 queued)
{
	return ((queued & QUEUED_DOMAIN) - 1) & (DOMAIN_SLOTS - 1);
}

/*
 * Clears `queued` of @t's thread. Returns what it was; 0: another CPU has cleared it before, since
 * two CPUs may see the same task at the head of a queue. The caller that gets the domain settles
 * one count of waiting tasks there.
 */
static __always_inline u32 unqueue(struct task_ctx *t)
{
	return __sync_lock_test_and_set(&t->queued, 0);
}

/*
 * @t's thread does not wait in a domain's queue any more: settles its count, and it is no member.
 * Not if `queued` is not @only meanwhile; 0: in any case. Returns `queued` as it was; 0: it waited
 * nowhere, another CPU is taking it, or it came to a queue again.
 */
VERIFIED_ONCE u32 tree_leave(struct task_ctx *t __arg_nonnull, u32 only)
{
	u32 queued;

	bpf_spin_lock(&tree_lock);
	if (only && !__sync_bool_compare_and_swap(&t->queued, only, 0)) {
		bpf_spin_unlock(&tree_lock);
		return 0;
	}
	queued = only ? only : unqueue(t);
	if (queued)
		waiting_drop(queued_in(queued));
	leaf_leave(t);
	bpf_spin_unlock(&tree_lock);
	return queued;
}

/*
 * @t's thread runs, or waits elsewhere than in a domain's queue from now on. A CPU that wanted to
 * take it out of its queue before does not count it there again.
 */
static __always_inline void tree_not_in(struct task_ctx *t)
{
	if (!t)
		return;
	t->stay++;
	if (t->queued)
		tree_leave(t, 0);
}

/*
 * The kernel has refused to move @t's thread, whose `queued` was @was before unqueue(): undoes
 * that. If the thread has come to a queue by itself since, with a count of its own, drops the old
 * count.
 */
VERIFIED_ONCE int tree_untake(struct task_ctx *t __arg_nonnull, u32 was)
{
	bpf_spin_lock(&tree_lock);
	/* by exchange: tree_joins() takes no lock */
	if (t->stay != was >> 16 || __sync_val_compare_and_swap(&t->queued, 0, was))
		waiting_drop(queued_in(was));
	bpf_spin_unlock(&tree_lock);
	return 0;
}

/*
 * @t's thread, whose `queued` was @was before tree_leave(), waits in the queue of domain @leaf: a
 * move out of there was refused, or one to there was made. Counts it there, unless it has come to a
 * queue by itself since, or runs.
 */
VERIFIED_ONCE int tree_rejoin(struct task_ctx *t __arg_nonnull, u32 was, u32 leaf)
{
	u32 queued;

	leaf &= DOMAIN_SLOTS - 1;
	queued = (was & ~QUEUED_DOMAIN) | (leaf + 1);
	bpf_spin_lock(&tree_lock);
	if (t->stay == was >> 16 && !__sync_val_compare_and_swap(&t->queued, 0, queued)) {
		if (leaf_has_members(branch(leaf)))
			leaf_enter(t, leaf, false);
		waiting_add(leaf, IS_PUT_BACK, SLOT_NONE);
	}
	bpf_spin_unlock(&tree_lock);
	return 0;
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
	t->stay++;
	t->queued = (u32)t->stay << 16 | (leaf + 1);
	if (!wake && queued && queued_in(queued) == leaf)
		return; /* it was not chosen, and its domain waits all along */
	if (queued)
		waiting_drop(queued_in(queued));
	waiting_add(leaf, wake ? WAKES_UP : GOES_ON, running);
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

/*
 * @t's thread, which slept, joins others that wait in the queue of domain @leaf: no heap changes,
 * so this takes no lock. False: none waits there, another CPU changes the count just now, or the
 * thread has a place of its own in the domain's order.
 */
static __always_inline bool tree_joins(struct task_ctx *t, u32 leaf)
{
	struct branch *b = branch(leaf);
	u32 waiting = b->waiting;

	if ((s32)waiting <= 0 || leaf_has_members(b))
		return false;
	/* first its stay: a CPU that wanted to take it before may undo that now (tree_untake()) */
	t->stay++;
	if (__sync_val_compare_and_swap(&t->queued, 0, (u32)t->stay << 16 | (leaf + 1)))
		return false;
	if (__sync_val_compare_and_swap(&b->waiting, waiting, waiting + 1) != waiting) {
		unqueue(t);
		return false;
	}
	__sync_fetch_and_add(&tree_waiting, 1);
	__sync_fetch_and_add(&tree_entries, 1);
	return true;
}

/*
 * @t's thread is to move to the queue of domain @leaf: counts it there. Returns `queued`, as it is
 * now; 0: it is counted in a queue already.
 */
VERIFIED_ONCE u32 tree_count(struct task_ctx *t __arg_nonnull, u32 leaf)
{
	u32 was, queued;

	bpf_spin_lock(&tree_lock);
	was = t->queued;
	enter_task(t, leaf & (DOMAIN_SLOTS - 1), false, SLOT_NONE);
	queued = t->queued;
	bpf_spin_unlock(&tree_lock);
	return was ? 0 : queued;
}

/* The move was refused: undoes tree_count(), which returned @queued, if nothing came after it. */
static __always_inline void tree_uncount(struct task_ctx *t, u32 queued)
{
	tree_leave(t, queued);
}

/*
 * @t's thread, which the choice counted in @leaf and did not take, comes to that queue: it is
 * counted already, so this takes no lock. False: another CPU has claimed that count.
 */
static __always_inline bool tree_stays(struct task_ctx *t, u32 leaf)
{
	u32 was = t->queued;

	if (!was || queued_in(was) != leaf || leaf_has_members(branch(leaf)))
		return false;
	/* before the exchange, whose new value another CPU may take at once (tree_untake()) */
	t->stay++;
	return __sync_val_compare_and_swap(&t->queued, was, (u32)t->stay << 16 | (leaf + 1)) == was;
}

/* @p belongs to domain @slot from now on: its virtual time is that of a new task there. */
static __always_inline void domain_join(struct task_struct *p, struct task_ctx *t, u32 slot)
{
	if (t->domain == slot)
		return;
	t->domain = slot;
	t->clock = 0;
	t->fair_vtime = branch_start(branch(slot));
	if (!t->by_deadline)
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
