/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/leaf.bpf.h - the order of a domain's own tasks under SFQ, MTR-LS and WRR.
 *
 * Source: QLinux, section 2.1 (a leaf has a scheduler of its own, as any node has); Eclipse,
 * section 4, whose members are processes. The policies are the same as among domains:
 * policy/sfq.h, mtr.h, wrr.h.
 *
 * 1. Model. Under these policies each task is a member of its domain's own tasks, as a domain is a
 *    member of its parent. Its part is its weight (nice) among the own tasks that are awake. A
 *    queue of sched_ext orders by a number, so the member's key is the task's virtual time: a start
 *    tag, the stamp of its first token, or its turn. Under the other policies the virtual time is
 *    that of policy/fair.h or fifo.h, and a task needs no state here.
 *
 * 2. Control. A task joins when it first waits under this policy (`leaf_epoch` tells). It wakes up
 *    in tree_enter() and is charged in leaf_charge(), both under tree_lock. Under MTR-LS a task
 *    that wakes up preempts the running task of its domain if its key is less. Under SFQ and WRR a
 *    turn ends with its slice.
 *
 * 3. Beside tasks in lanes (tree/place.bpf.h 3) the domain needs a virtual time as that of
 *    policy/fair.h: what its own tasks ran, over their number. With each CPU running one of them,
 *    that is (waiting + CPUs).
 */
#ifndef APLOMB_TREE_LEAF_BPF_H
#define APLOMB_TREE_LEAF_BPF_H

#include "state/state.bpf.h"
#include "tree/node.bpf.h"

/* Returns the part of the time of @b's own tasks that is due to @t's thread, ppm. */
static __always_inline u64 leaf_ppm(const struct branch *b, const struct task_ctx *t)
{
	u64 sum = b->own_sum + (t->own_weight ? 0 : t->weight);

	return sum > t->weight ? t->weight * PPM / sum : PPM;
}

/* The key of @t's thread: its virtual time. */
static __always_inline u64 leaf_key(const struct branch *b, const struct task_ctx *t)
{
	switch (b->policy) {
	case DOMAIN_MTR:
		return mtr_key(&t->leaf.mtr);
	case DOMAIN_WRR:
		return t->leaf.wrr.turn;
	default:
		return t->leaf.sfq.start;
	}
}

/* @t's thread goes to sleep, or leaves the domain. Called with tree_lock held. */
static __always_inline void leaf_leave(struct task_ctx *t)
{
	struct branch *b = branch(t->leaf_slot);

	if (b->leaf_epoch == t->leaf_epoch)
		b->own_sum -= t->own_weight;
	t->own_weight = 0;
}

/*
 * @t's thread is to wait among the own tasks of domain @slot, or runs without having waited. @wake:
 * it slept. Called with tree_lock held.
 */
static __always_inline void leaf_enter(struct task_ctx *t, u32 slot, bool wake)
{
	struct branch *b = branch(slot);
	bool new = t->leaf_slot != slot || t->leaf_epoch != b->leaf_epoch;

	if (new) {
		leaf_leave(t);
		t->leaf_slot = slot;
		t->leaf_epoch = b->leaf_epoch;
	}
	switch (b->policy) {
	case DOMAIN_MTR:
		if (new)
			mtr_join(&t->leaf.mtr, &b->own_mtr, nr_cpus * leaf_ppm(b, t));
		else if (wake)
			mtr_wake(&t->leaf.mtr, &b->own_mtr);
		break;
	case DOMAIN_WRR:
		if (new || wake)
			wrr_wake(&t->leaf.wrr, &b->own_wrr, wrr_quantum(leaf_ppm(b, t)));
		break;
	case DOMAIN_SFQ:
		if (new)
			t->leaf.sfq.start = b->own_sfq.now;
		sfq_wake(&t->leaf.sfq, &b->own_sfq);
		break;
	default:
		break;
	}
	b->own_sum += t->weight - t->own_weight;
	t->own_weight = t->weight;
}

/* Returns the virtual time @key after a run of @ns, for a @b whose own tasks are no members. */
static __always_inline u64 leaf_cost(const struct branch *b, u64 key, u64 ns, u32 weight)
{
	return b->policy == DOMAIN_FIFO ? fifo_charge(key, ns) : key + fair_cost(ns, weight);
}

/*
 * @t's thread, an own task of domain @slot with virtual time @key, ran for @ns. @sleeps: it goes to
 * sleep. Returns its new virtual time.
 */
VERIFIED_ONCE u64 leaf_charge(struct task_ctx *t __arg_nonnull, u32 slot, u64 ns, bool sleeps,
			      u64 key)
{
	struct branch *b = branch(slot);
	bool new = t->leaf_slot != slot || t->leaf_epoch != b->leaf_epoch;

	bpf_spin_lock(&tree_lock);
	if (new) /* it never waited here, or the policy is new: @key is of another order */
		leaf_enter(t, slot, true);
	switch (b->policy) {
	case DOMAIN_MTR:
		mtr_resize(&t->leaf.mtr, nr_cpus * leaf_ppm(b, t));
		mtr_charge(&t->leaf.mtr, &b->own_mtr, ns);
		break;
	case DOMAIN_WRR:
		wrr_charge(&t->leaf.wrr, &b->own_wrr, ns, wrr_quantum(leaf_ppm(b, t)));
		break;
	case DOMAIN_SFQ:
		sfq_charge(&t->leaf.sfq, ns, t->weight);
		if (sleeps)
			sfq_sleep(&t->leaf.sfq, &b->own_sfq, nr_cpus == 1 && !b->waiting);
		break;
	default:
		key = leaf_cost(b, new ? branch_start(b) : key, ns, t->weight);
	}
	if (sleeps)
		leaf_leave(t);
	if (leaf_has_members(b))
		key = leaf_key(b, t);
	if (!leaf_is_fair(b))
		b->served += ns / (nr_cpus + ((s32)b->waiting > 0 ? b->waiting : 0));
	bpf_spin_unlock(&tree_lock);
	return key;
}

/* @t's thread, one of @b's own, begins to run. */
static __always_inline void leaf_run(struct branch *b, const struct task_ctx *t)
{
	if (b->policy == DOMAIN_SFQ && t->leaf_epoch == b->leaf_epoch)
		sfq_run(&t->leaf.sfq, &b->own_sfq);
}

#endif /* APLOMB_TREE_LEAF_BPF_H */
