/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/members.bpf.h - tasks as members of their domains: how they wait, run and are charged. How they are chosen:
 * tree/dispatch.bpf.h. Theory: tree/tree.bpf.h.
 *
 *     enqueue ---> [queue of its domain] ---> choice by the tree ---> taken, with time by cpu.max ---> running
 *        ^                                                                                               |
 *        +-------- its domain's throttled: SLOT_PASSING until it is parked (tree/limit.bpf.h) ---------- charged <-+
 */
#ifndef APLOMB_MEMBERS_BPF_H
#define APLOMB_MEMBERS_BPF_H

#include "tree/place.bpf.h"

/*
 * The domain + 1 in whose queue @t's thread waited, 0: none any more. Whoever gets it answers for its place in the count
 * of those who wait there, nobody else: two CPUs may see the same thread at the head of a queue.
 */
static __always_inline u32 unqueue(struct task_ctx *t)
{
	return __sync_lock_test_and_set(&t->queued, 0);
}

/* @p waits, or waited, in a domain's queue: it does no more. False: another CPU is taking it. */
VERIFIED_ONCE int tree_leave(struct task_ctx *t __arg_nonnull)
{
	u32 queued;

	bpf_spin_lock(&tree_lock);
	queued = unqueue(t);
	if (queued)
		leave(queued - 1);
	leaf_leave(t);
	bpf_spin_unlock(&tree_lock);
	return queued != 0;
}

/* @t's thread waits in the queue of domain @leaf. With tree_lock held. */
static __always_inline void enter_task(struct task_ctx *t, u32 leaf, bool wake, u32 running)
{
	u32 queued = unqueue(t);

	if (leaf_has_members(branch(leaf)))
		leaf_enter(t, leaf & (DOMAIN_SLOTS - 1), wake);
	if (!wake &&
	    queued ==
		    leaf + 1) { /* it was not chosen, and goes on waiting: its domain has not come anew */
		t->queued = queued;
		return;
	}
	if (queued)
		leave(queued - 1);
	enter(leaf, wake ? WAKES_UP : GOES_ON, running);
	t->queued = leaf + 1;
}

/* The same. @running: the domain of what runs there. True: it goes before that. */
VERIFIED_ONCE int tree_enter(struct task_ctx *t __arg_nonnull, u32 leaf, bool wake, u32 running)
{
	bool before = false;

	bpf_spin_lock(&tree_lock);
	enter_task(t, leaf, wake, running);
	if (wake && running < DOMAIN_SLOTS)
		before = goes_before(leaf, running, true);
	bpf_spin_unlock(&tree_lock);
	return before;
}

/* @p belongs to domain @slot from now on: its virtual time is that of a newcomer. */
static __always_inline void domain_join(struct task_struct *p, struct task_ctx *t, u32 slot)
{
	if (t->domain == slot)
		return;
	t->domain = slot;
	t->fair_vtime = branch_start(branch(slot));
	if (!t->by_right)
		p->scx.dsq_vtime = t->fair_vtime;
}

/* In which domain's queue @p waits: its own, or SLOT_PASSING while it may not be stopped (tree/limit.bpf.h 3). */
static __always_inline u32 leaf_for(struct task_struct *p, struct task_ctx *t)
{
	u32 slot = t->domain & (DOMAIN_SLOTS - 1);

	if (branch(slot)->limited && t->landing != LANDING_LANDED && path_throttled(slot) &&
	    land(p, t))
		return SLOT_PASSING;
	return slot;
}

/* The virtual time with which @p joins the queue of domain @leaf. */
static __always_inline u64 leaf_vtime(struct task_struct *p, const struct task_ctx *t, u32 leaf,
				      bool wake)
{
	struct branch *b = branch(leaf);

	if (leaf_has_members(b))
		return leaf_key(b, t);
	if (b->policy != DOMAIN_FIFO)
		return fair_vtime(p, DSQ_DOMAIN(leaf), b->now);
	return wake ? branch_start(b) : p->scx.dsq_vtime;
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

/* What runs on @cpu ran for @ran ns: its domain's part. @sleeps: it goes to sleep. @alone: nobody waits in that CPU's lanes. */
VERIFIED_ONCE int tree_charge(u32 cpu, u64 ran, bool sleeps, bool alone)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 slot = c->tree.leaf & (DOMAIN_SLOTS - 1);
	u64 now = branch(slot)->limited ? bpf_ktime_get_ns() : 0;
	u32 blocked = SLOT_NONE;

	bpf_spin_lock(&tree_lock);
	charge(slot, ran, sleeps, alone);
	if (c->tree.passing) {
		charge_member(branch(SLOT_PASSING), MEMBER_OWN(SLOT_PASSING), ran);
		charge_member(branch(0), MEMBER_OF(SLOT_PASSING), ran);
	}
	if (now)
		blocked = return_time(slot, now, c->tree.granted, ran);
	bpf_spin_unlock(&tree_lock);
	if (blocked != SLOT_NONE)
		limit_timer_start(blocked);
	if (tree_released)
		wake_idle();
	c->tree.granted = 0;
	return 0;
}

/* A task of domain @slot begins to run without having waited. */
VERIFIED_ONCE int tree_alone(u32 slot)
{
	bpf_spin_lock(&tree_lock);
	chosen(slot, true);
	bpf_spin_unlock(&tree_lock);
	return 0;
}

/* Time that was claimed for domain @slot is not needed. */
VERIFIED_ONCE int tree_return(u32 slot, u64 granted)
{
	u64 now = bpf_ktime_get_ns();

	bpf_spin_lock(&tree_lock);
	return_time(slot, now, granted, 0);
	bpf_spin_unlock(&tree_lock);
	if (tree_released)
		wake_idle();
	return 0;
}

/*
 * A task of domain @slot, which has a cpu.max, goes on without having been chosen: a higher class of the kernel's had
 * interrupted it, or it comes from a CPU's own queue. It claims its time now. 0: there is none.
 */
VERIFIED_ONCE u64 tree_resume(u32 slot)
{
	u64 now = bpf_ktime_get_ns(), granted;
	u32 blocked = SLOT_NONE;

	bpf_spin_lock(&tree_lock);
	granted = claim_time(slot, now, FAIR_SLICE_NS, &blocked);
	bpf_spin_unlock(&tree_lock);
	if (blocked != SLOT_NONE)
		limit_timer_start(blocked);
	return granted;
}

/*
 * What the tree chose for @c's CPU begins to run there. It has @granted ns by its domain's cpu.max, 0: it has none; and
 * its turn may end before its slice. For either the CPU's timer is set.
 */
static __always_inline void grant_begin(struct cpu_ctx *c, u32 cpu, u64 granted)
{
	u64 ends = c->tree.turn_ns && (!granted || c->tree.turn_ns < granted) ? c->tree.turn_ns
									      : granted;

	c->tree.granted = granted;
	c->tree.limited = ends != 0;
	if (ends)
		cpu_timer_start(cpu, bpf_ktime_get_ns(), ends);
}

/* A tail that is longer is none: it has run in another class meanwhile. (Or a host stopped us just then: that is lost.) */
#define MAX_TAIL_NS FAIR_SLICE_NS

/*
 * Who goes to sleep is charged when it leaves the queue, but the kernel counts as its own what passes until another task
 * runs, our choice of that one too. It is charged with its next turn: of what 34 services used that wake up ten times a
 * second it was an eighth (tree/containers-smp). @ran: its total CPU time, at the beginning of that turn.
 */
static __always_inline u64 tail(struct task_ctx *t, u64 ran)
{
	u64 ns = ran - t->charged_to;

	return t->charged_to && ns < MAX_TAIL_NS ? ns : 0;
}

/* Who has no time by cpu.max and was told to make way in vain runs for so long. Enough to get on with what keeps it. */
#define REFUSED_TURN_NS (200 * NSEC_PER_USEC)

/* @p, of some domain, begins to run on @cpu: on the time that dispatch has claimed, if it is whom dispatch meant. */
VERIFIED_ONCE int tree_running(struct task_struct *p __arg_trusted, u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct task_ctx *t = task_ctx(p);
	u32 slot = t ? t->domain & (DOMAIN_SLOTS - 1) : 0, meant = c->tree.next_leaf;
	bool claimed = meant == slot || meant == SLOT_PASSING;
	u64 granted = c->tree.next_granted;

	if (meant == SLOT_NONE)
		tree_alone(slot);
	else if (!claimed && granted)
		tree_return(meant, granted);
	if (!claimed) {
		granted = 0;
		c->tree.turn_ns = 0;
	}
	c->tree.leaf = slot;
	c->tree.limited = 0;
	c->tree.granted = 0;
	c->tree.next_granted = 0;
	c->tree.next_leaf = SLOT_NONE;
	c->tree.passing = meant == SLOT_PASSING;
	if (t) {
		if (!t->slot) /* budgets are of what is run by right: the tail is not */
			c->exec_start -= tail(t, c->exec_start);
		t->charged_to = 0;
		if (claimed)
			t->refused = 0;
		if (t->queued) /* by a way of the kernel's own */
			tree_leave(t);
		leaf_run(branch(slot), t);
		c->tree.leaf_key = leaf_key(branch(slot), t);
	}
	if (c->next.rescued)
		rescue_begin(cpu, c);
	if (!claimed && branch(slot)->limited && t && !t->by_right && !c->tree.limited) {
		granted = tree_resume(slot);
		/*
		 * Not twice in a row: the kernel puts a task that exits back into the CPU's local queue without asking us, and
		 * the CPU would do nothing else.
		 */
		t->refused = !granted && !t->refused;
		if (t->refused)
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		else if (!granted)
			c->tree.turn_ns = REFUSED_TURN_NS;
	}
	if (granted || c->tree.turn_ns)
		grant_begin(c, cpu, granted);
	return 0;
}

#endif /* APLOMB_MEMBERS_BPF_H */
