/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/dispatch.bpf.h - the choice for a CPU among the tasks of all domains: a claim by the tree, and whom it takes.
 * Theory: tree/tree.bpf.h, claims there in 5.
 */
#ifndef APLOMB_TREE_DISPATCH_BPF_H
#define APLOMB_TREE_DISPATCH_BPF_H

#include "kernel/migration.bpf.h"
#include "state/idle.bpf.h"
#include "tree/lanes.bpf.h"
#include "tree/limit.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"

/* Tasks at the head of a queue that other CPUs are taking, and that one passes over. One more, and it looks again. */
#define MAX_TAKEN 8

/*
 * Take the first task of domain @leaf, which this CPU has claimed. 1: it is sent to @cpu. 0: there is none yet, and the
 * claim is to be put back. -1: it may not run on this CPU after all and waits for its own now, or the kernel took it out:
 * the claim was its.
 */
static __noinline s32 tree_take(u32 leaf, u32 cpu, u64 slice)
{
	TAKES_STACK(96);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = NULL;
	struct task_ctx *t = NULL;
	bool moved = false, here = false, found = false;
	s32 home = 0;
	u32 i;

	if (!bpf_iter_scx_dsq_new(&it, DSQ_DOMAIN(leaf), 0)) {
		bpf_for(i, 0, MAX_TAKEN) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_ctx(p);
			found = t &&
				unqueue(t); /* before the move: it may run and be queued again the moment it is made */
			if (found)
				break;
		}
	}
	if (found && p && t) {
		home = task_cpu(p);
		here = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && (home == (s32)cpu || !stays(p));
		scx_bpf_dsq_move_set_slice(&it, slice);
		if (here) {
			moved = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON(cpu), 0);
		} else {
			u32 k = lane_of(home, t->domain);

			t->lane = k;
			scx_bpf_dsq_move_set_vtime(
				&it, fair_place(p->scx.dsq_vtime, lane(cpu_ctx(home), k)->now));
			if (cpu_ctx(home)->online)
				moved = scx_bpf_dsq_move_vtime(&it, p, DSQ_PINNED(home, k), 0);
			else /* from its local queue the kernel takes it elsewhere */
				moved = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON(home), 0);
			if (moved) {
				scx_bpf_kick_cpu(home, SCX_KICK_IDLE);
				ask_idle(p);
			}
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (!found)
		return 0;
	return moved && here ? 1 : -1;
}

/*
 * One choice for @cpu, and its time: cpu_ctx.claimed. SLOT_NONE: nothing waits; above: LANE_CHOSEN and a lane of that CPU,
 * nothing is claimed. 0 ns claimed: it was in vain, go on.
 * @t, or NULL: what runs there waits like all others from now on, in domain @mine. Not before: another CPU that chooses at
 * the same time, as they do where ticks come together, would claim it and find nobody, and this one choose another.
 */
#define LANE_CHOSEN (DOMAIN_SLOTS + 1)

VERIFIED_ONCE int tree_claim(u32 cpu, struct task_ctx *t, u32 mine)
{
	u32 leaf, blocked = SLOT_NONE, k = MAX_LANES;
	bool again = cpu_ctx(cpu)->tree.nr_failed != 0, lanes = cpu_ctx(cpu)->tree.has_heads;
	u64 now = bpf_ktime_get_ns(), claimed = FAIR_SLICE_NS, turn = FAIR_SLICE_NS;

	bpf_spin_lock(&tree_lock);
	if (t)
		enter_task(t, mine, false, mine);
	leaf = choose(&turn, again || lanes);
	if (leaf == SLOT_PASSING && turn > PASSING_TURN_NS)
		turn = PASSING_TURN_NS;
	if (lanes) {
		k = first_lane(cpu_ctx(cpu), leaf);
		if (k < MAX_LANES)
			leaf = cpu_ctx(cpu)->tree.heads[k & (MAX_LANES - 1)];
		if (leaf < DOMAIN_SLOTS && !again)
			chosen(leaf, false);
	}
	if (leaf < DOMAIN_SLOTS && k >= MAX_LANES) {
		if (branch(leaf)->limited)
			claimed = claim_time(leaf, now, FAIR_SLICE_NS, &blocked);
		if (claimed) {
			leave(leaf);
			branch(leaf)->turns++;
		}
	}
	bpf_spin_unlock(&tree_lock);
	cpu_ctx(cpu)->tree.claimed = claimed;
	cpu_ctx(cpu)->tree.turn_ns = turn < FAIR_SLICE_NS ? turn : 0;
	if (blocked != SLOT_NONE)
		limit_timer_start(blocked);
	return k < MAX_LANES ? LANE_CHOSEN + k : leaf;
}

/* What one try of tree_dispatch comes to, beside enum fair_choice: nothing, but another may. */
#define TRY_AGAIN 4

/* Lane @k of @cpu is chosen; @prev runs there still and could go on, or is NULL. */
static __noinline u32 lane_take(u32 cpu, u32 k, struct task_struct *prev)
{
	TAKES_STACK(32);
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 queue;

	k &= MAX_LANES - 1;
	queue = DSQ_PINNED(cpu, k);
	if (prev && pinned(prev) && domain_of_task(prev) == c->tree.heads[k] &&
	    !path_throttled(c->tree.heads[k]) && still_first(prev, queue)) {
		prev->scx.slice = FAIR_SLICE_NS;
		return FAIR_KEPT;
	}
	if (dsq_move_to_local(queue)) {
		lane(c, k)->turns++;
		return FAIR_TAKEN;
	}
	c->tree.heads[k] = SLOT_NONE; /* another CPU, which was idle, has taken it */
	return TRY_AGAIN;
}

/* A claim on domain @leaf that found nothing: see tree_restore. */
static __always_inline void put_back(struct cpu_ctx *c, u32 leaf)
{
	c->tree.failed[c->tree.nr_failed & (TREE_TRIES - 1)] = leaf;
	c->tree.nr_failed++;
}

/* One choice by the tree. @t: of @prev, unless it is tied to CPUs; @mine: the domain in which it waits meanwhile, or
 * SLOT_NONE; @comes: @t, if from now on. */
static __noinline u32 tree_try(u32 cpu, struct task_struct *prev, struct task_ctx *t, u32 mine,
			       struct task_ctx *comes)
{
	TAKES_STACK(64);
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 leaf = tree_claim(cpu, comes, mine);
	u64 granted = c->tree.claimed;
	bool limited;
	s32 taken;

	if (leaf >= LANE_CHOSEN)
		return lane_take(cpu, leaf - LANE_CHOSEN, prev);
	if (leaf >= DOMAIN_SLOTS)
		return FAIR_NONE;
	if (!granted)
		return TRY_AGAIN;
	limited = branch(leaf)->limited;
	if (prev && t && leaf == mine && still_first(prev, DSQ_DOMAIN(leaf))) {
		/* else a CPU that had seen it in the queue before has taken its place in the count: this claim is another's */
		if (!unqueue(t))
			put_back(c, leaf);
		leaf_run(branch(leaf), t);
		c->tree.leaf_key = leaf_key(branch(leaf), t);
		prev->scx.slice = FAIR_SLICE_NS;
		c->tree.passing = leaf == SLOT_PASSING;
		grant_begin(c, cpu, limited ? granted : 0);
		return FAIR_KEPT;
	}
	taken = tree_take(leaf, cpu, FAIR_SLICE_NS);
	if (taken > 0) {
		c->tree.next_leaf = leaf;
		c->tree.next_granted = limited ? granted : 0;
		return FAIR_TAKEN;
	}
	if (limited)
		tree_return(leaf, granted);
	if (!taken)
		put_back(c, leaf);
	return TRY_AGAIN;
}

/* Claims that found nothing are put back: only now, so that others were looked at in between. */
VERIFIED_ONCE int tree_restore(u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 k, n = c->tree.nr_failed;

	c->tree.nr_failed = 0;
	bpf_spin_lock(&tree_lock);
	bpf_for(k, 0, n)
		enter(c->tree.failed[k & (TREE_TRIES - 1)] & (DOMAIN_SLOTS - 1), IS_PUT_BACK,
		      SLOT_NONE);
	bpf_spin_unlock(&tree_lock);
	return 0;
}

/* Choose the next task for @cpu by the tree; @prev runs still, and could go on, or is NULL. (Inline: before 7.0 calls
 * may be 8 deep, and this is the deepest place.) */
static __always_inline u32 tree_dispatch(u32 cpu, struct cpu_ctx *c, struct task_struct *prev,
					 bool tied)
{
	struct task_ctx *t = prev && !tied ? task_ctx(prev) : NULL;
	u32 k, choice = FAIR_NONE, mine = SLOT_NONE;

	if (t)
		mine = leaf_for(prev, t);
	bpf_for(k, 0, TREE_TRIES) {
		choice = tree_try(cpu, prev, t, mine, k ? NULL : t);
		if (choice != TRY_AGAIN)
			break;
	}
	if (c->tree.nr_failed)
		tree_restore(cpu);
	if (choice == FAIR_TAKEN || choice == FAIR_KEPT)
		return choice;
	if (!t)
		return FAIR_NONE;
	if (path_throttled(t->domain))
		return FAIR_HELD;
	tree_leave(t); /* it goes on */
	return FAIR_NONE;
}

/* fair_dispatch() with domains. */
VERIFIED_ONCE u32 domains_dispatch(u32 cpu, struct task_struct *prev __arg_trusted __arg_nullable)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	bool tied = prev && pinned(prev);
	u32 choice, running = SLOT_NONE;

	if (tree_legacy) {
		if (dsq_move_to_local(DSQ_FAIR))
			return FAIR_TAKEN;
		tree_legacy = scx_bpf_dsq_nr_queued(DSQ_FAIR) != 0;
	}
	c->tree.has_heads = 0;
	if (nr_cpus > 1 && (tied || pinned_waiting(cpu))) {
		if (tied && !path_throttled(domain_of_task(prev)))
			running = domain_of_task(prev);
		c->tree.has_heads = look_at_lanes(cpu, running);
	}
	choice = tree_dispatch(cpu, c, prev, tied);
	if (nr_cpus == 1 || choice == FAIR_TAKEN || choice == FAIR_KEPT)
		return choice;
	if (tied && path_throttled(domain_of_task(prev)))
		choice = FAIR_HELD;
	/* this CPU is idle soon if what runs there may not go on */
	if (lanes_take(cpu) || ((!prev || choice == FAIR_HELD) && pinned_steal(cpu)))
		return FAIR_TAKEN;
	return choice;
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

#endif /* APLOMB_TREE_DISPATCH_BPF_H */
