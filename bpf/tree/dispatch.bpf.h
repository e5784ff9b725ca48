/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/dispatch.bpf.h - the fair layer's part of ops.dispatch: the next task for a CPU.
 *
 * Theory: policy/fair.h without domains, tree/tree.bpf.h with them (claims: 5, lanes: 7).
 *
 * With domains, one dispatch makes up to TREE_TRIES claims:
 *
 *        claim a domain (tree_claim) ---> take a task of it (tree_take) ---> sent
 *             ^                                |
 *             +---- no task there yet ---------+        at the end: tree_restore() puts the claims
 *                                                       that found no task back
 */
#ifndef APLOMB_TREE_DISPATCH_BPF_H
#define APLOMB_TREE_DISPATCH_BPF_H

#include "kernel/migration.bpf.h"
#include "state/idle.bpf.h"
#include "tree/alone.bpf.h"
#include "tree/cache.bpf.h"
#include "tree/lanes.bpf.h"
#include "tree/limit.bpf.h"
#include "tree/owed.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"
#include "tree/spread.bpf.h"

/*
 * Most claims of one dispatch. A claim finds no task if another CPU has counted one and not
 * inserted it yet, if another CPU puts the task back just now, or if the domain was throttled.
 */
#define TREE_TRIES 8
/*
 * A task that claims did not find may be in the queue a moment later. Meanwhile the CPU is idle,
 * and the CPU that inserts the task may have looked for an idle one before; or it runs a task of a
 * domain that is not next, for a whole slice. So the CPU chooses again at once, as many times in a
 * row as this: for some 100 us. More would help where CPUs stand still for longer than that (those
 * of virtual machines); each costs a switch.
 */
#define MAX_VAIN 16
/* Tasks at the head of a queue that other CPUs are taking. With more, the claim is put back. */
#define MAX_TAKEN 8

/* One dispatch with domains */
struct choice {
	u32 cpu;
	u32 mine;         /* the domain in which the running task waits meanwhile, or SLOT_NONE */
	u32 lanes;        /* tasks wait in lanes of this CPU: tree_cpu.heads is valid */
	u32 lane;         /* the lane that was chosen */
	struct pick pick; /* the domain that was claimed */
	u32 nr_failed;
	u32 failed[TREE_TRIES]; /* domains whose claim found no task */
};

/* The result of a claim */
enum claim {
	CLAIM_NONE = 0, /* no task waits */
	CLAIM_TASK = 1, /* a task of domain choice.pick.leaf is claimed */
	CLAIM_LANE = 2, /* lane choice.lane goes first; nothing is claimed */
	CLAIM_VAIN = 3  /* the domain has used up its cpu.max */
};

/*
 * Claims the domain whose task is next on @ch->cpu. @comes: context of the task that runs there and
 * waits from now on in domain @ch->mine, or NULL. It is counted under the same lock as the claim:
 * if it were counted before, another CPU that chooses at the same time (as CPUs do whose ticks
 * coincide) could claim it and find no task.
 */
VERIFIED_ONCE int tree_claim(struct choice *ch __arg_nonnull, struct task_ctx *comes)
{
	struct cpu_ctx *c = cpu_ctx(ch->cpu);
	bool again = ch->nr_failed != 0, lanes = ch->lanes, limited = false;
	u64 now = bpf_ktime_get_ns(), claimed = FAIR_SLICE_NS, turn = FAIR_SLICE_NS;
	u32 leaf, mine = ch->mine, blocked = SLOT_NONE, k = MAX_LANES;

	bpf_spin_lock(&tree_lock);
	charge_owed(c);
	if (comes)
		enter_task(comes, mine, false, mine);
	leaf = choose_leaf(&turn, again || lanes);
	if (leaf == SLOT_PASSING && turn > PASSING_TURN_NS)
		turn = PASSING_TURN_NS;
	if (lanes) {
		lanes_wait(c);
		k = first_lane(c, leaf);
		if (k < MAX_LANES)
			leaf = c->tree.heads[k & (MAX_LANES - 1)];
		if (leaf < DOMAIN_SLOTS && !again)
			follow_choice(leaf);
	}
	if (leaf < DOMAIN_SLOTS && k >= MAX_LANES) {
		limited = branch(leaf)->limited;
		if (limited)
			claimed = claim_time(leaf, now, FAIR_SLICE_NS, &blocked);
		if (claimed) {
			waiting_drop(leaf);
			branch(leaf)->turns++;
		}
	}
	bpf_spin_unlock(&tree_lock);
	if (blocked != SLOT_NONE)
		limit_timer_start(blocked);
	ch->lane = k;
	ch->pick.leaf = leaf;
	ch->pick.granted = limited ? claimed : 0;
	ch->pick.turn_ns = turn < FAIR_SLICE_NS ? turn : 0;
	if (k < MAX_LANES)
		return CLAIM_LANE;
	if (leaf >= DOMAIN_SLOTS)
		return CLAIM_NONE;
	return claimed ? CLAIM_TASK : CLAIM_VAIN;
}

/*
 * Puts back the claims that found no task. This is done after the last try, so that the tries look
 * at different domains.
 */
VERIFIED_ONCE int tree_restore(const struct choice *ch __arg_nonnull)
{
	u32 k, n = ch->nr_failed;

	bpf_spin_lock(&tree_lock);
	bpf_for(k, 0, n)
		waiting_add(ch->failed[k & (TREE_TRIES - 1)] & (DOMAIN_SLOTS - 1), IS_PUT_BACK,
			    SLOT_NONE);
	bpf_spin_unlock(&tree_lock);
	return 0;
}

/* The claim on domain @leaf found no task. */
static __always_inline void put_back(struct choice *ch, u32 leaf)
{
	ch->failed[ch->nr_failed & (TREE_TRIES - 1)] = leaf;
	ch->nr_failed++;
}

/* What a claimed domain's queue held */
enum take {
	TAKE_NONE = 0, /* no task: the claim is to be put back */
	TAKE_SENT = 1, /* a task, which was sent to this CPU */
	TAKE_GONE = 2  /* a task that cannot run here: the claim is settled */
};

/*
 * @p, at @it, may not run on this CPU after all: moves it to its lane of CPU @home. Returns whether
 * it was still in the queue.
 */
static __always_inline bool move_home(struct bpf_iter_scx_dsq *it, struct task_struct *p,
				      struct task_ctx *t, s32 home)
{
	u32 was = t->clock, k = lane_of(home, t->domain);
	u64 v = lane_vtime(t, p->scx.dsq_vtime, fair_weight(p), home, k);
	bool moved;

	if (!change_begin(t, home, k, v))
		return false;
	scx_bpf_dsq_move_set_vtime(it, v);
	if (cpu_ctx(home)->online)
		moved = scx_bpf_dsq_move_vtime(it, p, DSQ_PINNED(home, k), 0);
	else /* from a local queue the kernel moves it to another CPU */
		moved = scx_bpf_dsq_move(it, p, SCX_DSQ_LOCAL_ON(home), 0);
	change_end(t, was, moved);
	if (moved) {
		scx_bpf_kick_cpu(home, SCX_KICK_IDLE);
		ask_idle(p);
	}
	return moved;
}

/*
 * Sends the first task of domain @leaf, which @cpu has claimed, to @cpu. If @first is not 0, the
 * first one that does not wait for another cache, of the first MAX_TAKEN. Its virtual time is no
 * later than @before, and within its cache_limit().
 */
VERIFIED_ONCE u32 tree_take(u32 leaf, u32 cpu, u64 first, u64 before)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = NULL;
	struct task_ctx *t = NULL;
	bool moved = false, here = false;
	u32 i, was = 0;

	if (!bpf_iter_scx_dsq_new(&it, DSQ_DOMAIN(leaf), 0)) {
		bpf_for(i, 0, MAX_TAKEN) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			if (first && time_before(before, p->scx.dsq_vtime))
				break;
			if (first && waits_elsewhere(p, cpu))
				continue;
			t = task_ctx(p);
			if (first && t &&
			    time_before(cache_limit(first, t->weight), p->scx.dsq_vtime))
				continue;
			/* before the move: after it the task may run and be queued again at once */
			was = t ? unqueue(t) : 0;
			if (was)
				break;
		}
	}
	if (was && p && t) {
		s32 home = task_cpu(p);

		here = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && (home == (s32)cpu || !stays(p));
		scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
		if (here)
			moved = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON(cpu), 0);
		else
			moved = move_home(&it, p, t, home);
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (was && !moved && t)
		tree_untake(t, was);
	if (!moved)
		return TAKE_NONE;
	return here ? TAKE_SENT : TAKE_GONE;
}

/*
 * Lane @k of @cpu goes first: sends its first task, or lets @prev go on, which runs there. @prev is
 * NULL if it cannot go on.
 */
VERIFIED_ONCE u32 lane_take(u32 cpu, u32 k, struct task_struct *prev __arg_trusted __arg_nullable)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 queue;
	u32 head;

	k &= MAX_LANES - 1;
	queue = DSQ_PINNED(cpu, k);
	head = c->tree.heads[k];
	if (prev && pinned(prev) && domain_of_task(prev) == head && !path_throttled(head) &&
	    still_first(prev, queue)) {
		task_set_slice(prev, FAIR_SLICE_NS);
		return FAIR_KEPT;
	}
	if (dsq_move_to_local(queue)) {
		lane(c, k)->turns++;
		c->tree.from_lane = head;
		return FAIR_TAKEN;
	}
	c->tree.heads[k] = SLOT_NONE; /* another CPU, which was idle, has taken the task */
	return FAIR_AGAIN;
}

/*
 * @prev, of context @t, goes on: it was in no queue, and the tree chose its domain, claimed in @ch.
 */
static __always_inline void keep(struct choice *ch, struct task_struct *prev, struct task_ctx *t)
{
	const struct pick *pick = &ch->pick;
	struct cpu_ctx *c = cpu_ctx(ch->cpu);
	struct branch *b = branch(pick->leaf);

	/* If another CPU has settled its claim with @prev's flag, this claim is another task's. */
	if (!unqueue(t))
		put_back(ch, pick->leaf);
	leaf_run(b, t);
	c->tree.leaf_key = leaf_key(b, t);
	task_set_slice(prev, FAIR_SLICE_NS);
	c->tree.passing = pick->leaf == SLOT_PASSING;
	grant_begin(c, ch->cpu, pick);
}

/*
 * @prev, which is pinned, comes first in lane @k and goes on. If its domain has a cpu.max, it needs
 * a grant of the quota; otherwise it does not go on.
 */
static __always_inline u32 keep_pinned(u32 cpu, u32 k)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct pick pick = { .leaf = c->tree.heads[k & (MAX_LANES - 1)] };

	if (!branch(pick.leaf)->limited)
		return FAIR_KEPT;
	pick.granted = tree_resume(pick.leaf);
	if (!pick.granted) {
		c->tree.heads[k & (MAX_LANES - 1)] = SLOT_NONE;
		return FAIR_AGAIN;
	}
	grant_begin(c, cpu, &pick);
	return FAIR_KEPT;
}

/*
 * One try. @t: context of @prev if @prev is not pinned, else NULL; @comes: @t in the first try,
 * else NULL.
 */
static __noinline u32 tree_try(struct choice *ch, struct task_struct *prev, struct task_ctx *t,
			       struct task_ctx *comes)
{
	TAKES_STACK(64);
	u32 claim = tree_claim(ch, comes), leaf = ch->pick.leaf, taken = TAKE_NONE;
	bool own; /* @prev is one of the domain's tasks */
	u64 first, before;

	if (claim == CLAIM_LANE) {
		u32 result = lane_take(ch->cpu, ch->lane, prev);

		return result == FAIR_KEPT ? keep_pinned(ch->cpu, ch->lane) : result;
	}
	if (claim == CLAIM_NONE)
		return FAIR_NONE;
	if (claim == CLAIM_VAIN)
		return FAIR_AGAIN;
	own = prev && t && leaf == ch->mine;
	first = cache_passes(leaf, ch->cpu);
	before = cache_limit(first, own ? cpu_ctx(ch->cpu)->tree.weight : 0);
	if (own && time_before(prev->scx.dsq_vtime, before))
		before = prev->scx.dsq_vtime;
	else if (own)
		first = 0;
	if (first)
		taken = tree_take(leaf, ch->cpu, first, before);
	if (taken == TAKE_NONE && own && (first || still_first(prev, DSQ_DOMAIN(leaf)))) {
		keep(ch, prev, t);
		return FAIR_KEPT;
	}
	if (taken == TAKE_NONE)
		taken = tree_take(leaf, ch->cpu, 0, 0);
	if (taken == TAKE_SENT) {
		cpu_ctx(ch->cpu)->tree.next = ch->pick;
		return FAIR_TAKEN;
	}
	if (ch->pick.granted)
		tree_return(leaf, ch->pick.granted);
	if (taken == TAKE_NONE)
		put_back(ch, leaf);
	return FAIR_AGAIN;
}

/*
 * Chooses by the tree. @prev still runs on @ch->cpu and could go on, or is NULL. Inline: before 7.0
 * calls may be 8 deep, and this is the deepest place.
 */
static __always_inline u32 tree_dispatch(struct choice *ch, struct task_struct *prev,
					 bool prev_pinned)
{
	struct task_ctx *t = prev && !prev_pinned ? task_ctx(prev) : NULL;
	u32 k, result = FAIR_NONE;

	if (t)
		ch->mine = leaf_for(prev, t);
	bpf_for(k, 0, TREE_TRIES) {
		result = tree_try(ch, prev, t, k ? NULL : t);
		if (result != FAIR_AGAIN)
			break;
	}
	if (ch->nr_failed)
		tree_restore(ch);
	if (result == FAIR_TAKEN || result == FAIR_KEPT)
		return result;
	if (!t)
		return FAIR_NONE;
	if (path_throttled(t->domain))
		return FAIR_HELD;
	tree_leave(t, 0); /* it goes on */
	return FAIR_NONE;
}

/*
 * The choice for @cpu is made. If a claim found no task, and @cpu will be idle or runs a task of
 * another domain, it chooses again at once. @result: of tree_dispatch()
 */
static __always_inline void look_again(u32 cpu, const struct choice *ch, u32 result)
{
	bool runs = result == FAIR_TAKEN || result == FAIR_KEPT;
	bool vain = ch->nr_failed && (!runs || ch->failed[0] != ch->pick.leaf);
	struct cpu_ctx *c = cpu_ctx(cpu);

	c->tree.vain = vain ? c->tree.vain + 1 : 0;
	if (vain && c->tree.vain <= MAX_VAIN)
		scx_bpf_kick_cpu(cpu, runs ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
}

/*
 * No task waits in the tree, nor in a lane of @cpu: the choice without the lock. @prev, if it could
 * go on, does so; otherwise @cpu will be idle, and helps other CPUs.
 */
VERIFIED_ONCE u32 none_dispatch(u32 cpu, struct task_struct *prev __arg_trusted __arg_nullable)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct task_ctx *t = prev ? task_ctx(prev) : NULL;
	u32 slot = t ? t->domain & (DOMAIN_SLOTS - 1) : SLOT_ROOT;

	if (prev && (!t || c->tree.leaf != slot || !alone_goes_on(c, cpu, slot)))
		return FAIR_AGAIN;
	tree_settle(cpu, c);
	if (!prev)
		return pinned_steal(cpu) ? FAIR_TAKEN : FAIR_NONE;
	task_set_slice(prev, FAIR_SLICE_NS);
	return FAIR_KEPT;
}

/* fair_dispatch() with domains. */
VERIFIED_ONCE u32 domains_dispatch(u32 cpu, struct task_struct *prev __arg_trusted __arg_nullable)
{
	struct choice ch = { .cpu = cpu, .mine = SLOT_NONE };
	bool prev_pinned = prev && pinned(prev);
	u32 result, running = SLOT_NONE;

	if (tree_legacy) {
		if (dsq_move_to_local(DSQ_FAIR))
			return FAIR_TAKEN;
		tree_legacy = scx_bpf_dsq_nr_queued(DSQ_FAIR) != 0;
	}
	if (nr_cpus > 1 && (prev_pinned || pinned_waiting(cpu))) {
		if (prev_pinned && !path_throttled(domain_of_task(prev)))
			running = domain_of_task(prev);
		if (running != SLOT_NONE)
			fetch_behind(prev, cpu);
		ch.lanes = look_at_lanes(cpu, running);
	}
	if (!ch.lanes && !prev_pinned && !branches[SLOT_ROOT].heap) {
		result = none_dispatch(cpu, prev);
		look_again(cpu, &ch, result);
		if (result != FAIR_AGAIN)
			return result;
	}
	result = tree_dispatch(&ch, prev, prev_pinned);
	look_again(cpu, &ch, result);
	if (nr_cpus == 1 || result == FAIR_TAKEN || result == FAIR_KEPT)
		return result;
	if (prev_pinned && path_throttled(domain_of_task(prev)))
		result = FAIR_HELD;
	/* if @prev may not go on, this CPU will be idle: then it helps other CPUs */
	if (lanes_take(cpu) || ((!prev || result == FAIR_HELD) && pinned_steal(cpu)))
		return FAIR_TAKEN;
	return result;
}

/* Without domains: is the lane of @c's CPU next, if both it and the machine's queue have tasks? */
static __always_inline bool lane_next(struct cpu_ctx *c)
{
	return lane_ahead(lane(c, 0), SLOT_ROOT) < 0;
}

/*
 * Does @prev go on, without domains? Not if the other kind of queue has tasks and is next.
 */
static __always_inline bool fair_keeps(struct task_struct *prev, u32 cpu, struct cpu_ctx *c)
{
	bool own = pinned(prev);

	if (nr_cpus > 1 && scx_bpf_dsq_nr_queued(own ? DSQ_FAIR : DSQ_PINNED(cpu, 0)) &&
	    lane_next(c) != own)
		return false;
	return still_first(prev, own ? DSQ_PINNED(cpu, 0) : DSQ_FAIR);
}

/* Chooses the next task for @cpu. @prev still runs there and could go on, or is NULL. */
static __always_inline enum fair_choice fair_dispatch(u32 cpu, struct cpu_ctx *c,
						      struct task_struct *prev)
{
	if (rescues && dsq_move_to_local(DSQ_RESCUE)) {
		c->next.rescued = 1;
		return FAIR_TAKEN;
	}
	if (tree_on) {
		u32 result = domains_dispatch(cpu, prev);

		if (result == FAIR_KEPT && prev)
			fair_running(prev, c);
		return result;
	}
	if (prev && fair_keeps(prev, cpu, c)) {
		task_set_slice(prev, FAIR_SLICE_NS);
		fair_running(prev, c);
		return FAIR_KEPT;
	}
	if (nr_cpus > 1 && scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, 0))) {
		if (scx_bpf_dsq_nr_queued(DSQ_FAIR) && !lane_next(c) && dsq_move_to_local(DSQ_FAIR))
			return FAIR_TAKEN;
		if (dsq_move_to_local(DSQ_PINNED(cpu, 0)))
			return FAIR_TAKEN;
	}
	return dsq_move_to_local(DSQ_FAIR) ? FAIR_TAKEN : FAIR_NONE;
}

#endif /* APLOMB_TREE_DISPATCH_BPF_H */
