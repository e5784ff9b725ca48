/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/enqueue.bpf.h - the fair layer's part of ops.enqueue: in which queue a task waits, and which
 * CPU is told.
 *
 * Theory: tree/place.bpf.h.
 *
 * A task that wakes up where no task waits, and that no other CPU could take, is next on its CPU in
 * any case. It goes straight to the CPU's local queue, which saves a sorted insert and a dispatch.
 * This is done at wake-ups only, and for one task at a time: several would take turns there without
 * regard to weight.
 */
#ifndef APLOMB_TREE_ENQUEUE_BPF_H
#define APLOMB_TREE_ENQUEUE_BPF_H

#include "park/recall.bpf.h"
#include "state/idle.bpf.h"
#include "state/timer.bpf.h"
#include "tree/clock.bpf.h"
#include "tree/limit.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"
#include "tree/spread.bpf.h"
#include "tree/waiting.bpf.h"

/* @t's thread is held, ends, or goes to another class: the fair layer has it no more. */
static __always_inline void fair_leave(struct task_ctx *t)
{
	if (!t)
		return;
	session_leave(t);
	tree_not_in(t);
}

/*
 * Is an idle CPU to be asked to help with a task of domain @leaf that waits for @c's CPU? Not if
 * ops.select_cpu has @looked for one. But for a task of a limited domain select_cpu leaves the idle
 * CPU that it found to the choice: if that CPU is busy now, it has gone off line.
 */
static __always_inline bool needs_help(const struct cpu_ctx *c, u32 leaf, bool looked)
{
	return !looked || (branch(leaf)->limited && c->tree.leaf != SLOT_NONE);
}

/* @p has no context, since memory is short: it waits in the machine's queue, for any CPU. */
static __always_inline void enqueue_without_context(struct task_struct *p, u64 enq_flags)
{
	dsq_insert_vtime(p, DSQ_FAIR, FAIR_SLICE_NS, fair_vtime(p, DSQ_FAIR, &fair_all), enq_flags);
	tree_legacy = 1;
	ask_idle(p);
}

/* @p, of domain @leaf, wakes up: may it go straight to the local queue of @c's CPU? */
static __always_inline bool goes_straight(struct task_struct *p, struct cpu_ctx *c, u32 leaf)
{
	return nr_cpus == 1 && !tree_waiting && !c->tree.straight && leaf != SLOT_PASSING &&
	       !branch(leaf)->limited && !leaf_has_members(branch(leaf)) && is_next(p, c, leaf);
}

/*
 * @p, of domain @leaf, wakes up and is next on @c's CPU. Returns the flag with which it preempts
 * the running task, or 0. If a reserved task was sent to this CPU it is 0, since with the flag @p
 * would go before that task.
 */
static __always_inline u64 preempt_flag(struct task_struct *p, struct cpu_ctx *c, u32 leaf,
					u64 vtime, u64 now)
{
	if (!wake_preempts(p, c, leaf, vtime, now))
		return 0;
	return c->reserved.deadline == TIME_NEVER ? SCX_ENQ_PREEMPT : 0;
}

/* @p goes straight to the local queue of @c's CPU, with virtual time @vtime. */
static __always_inline void send_straight(struct task_struct *p, struct cpu_ctx *c, u64 vtime,
					  u64 enq_flags)
{
	task_set_vtime(p, vtime);
	if (!c->tree.straight++) /* else it goes before that one */
		c->tree.straight_vtime = vtime;
	dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
}

/* @p, of domain @leaf, wakes up and is next on @c's CPU. */
static __always_inline void wake_straight(struct task_struct *p, struct cpu_ctx *c, u32 leaf,
					  u64 enq_flags)
{
	const struct fair_queue *q = fair_queue_of(p, c);
	u64 vtime = fair_place(p->scx.dsq_vtime, q, fair_weight(p));

	if (!tree_on || leaf_is_fair(branch(leaf)))
		enq_flags |= preempt_flag(p, c, leaf, vtime, q->now);
	send_straight(p, c, vtime, enq_flags);
}

/* Does a task of domain @slot go before one of @running, which has run for @ran_ns? */
VERIFIED_ONCE int goes_before_unlocked(u32 slot, u32 running, u64 ran_ns)
{
	return preempts_domain(slot & (DOMAIN_SLOTS - 1), running & (DOMAIN_SLOTS - 1), ran_ns);
}

/*
 * @p, of @domain, wakes up, but no heap changes by it: does it preempt the task of another domain
 * that runs on @c's CPU? The tree decides, but the tags are read without the lock. Those of a
 * domain with tasks in lanes only may be from before its sleep, too. If the answer is wrong, the
 * CPU chooses once too often or too late, and that choice is made with the lock. If none follows,
 * see precedes_others().
 */
static __always_inline bool woken_goes_before(struct task_struct *p, const struct cpu_ctx *c,
					      u32 domain)
{
	return tree_on && c->tree.leaf < DOMAIN_SLOTS && !undisturbed(c) &&
	       goes_before_unlocked(domain, c->tree.leaf, ran_beyond_lead(p, c));
}

/*
 * @p, of domain @leaf and with virtual time @v, wakes up while @c's CPU runs a task of another
 * domain: does it go before all others, so that it is sent to the CPU's local queue? Not if a task
 * waits in the tree, which may go before it. But if others went straight to the local queue, the
 * CPU makes no choice in the tree before they have run, and @p would wait for a whole slice of each
 * of them. Which of their domains goes first is not looked at: they did not preempt the running
 * task, and @p does.
 *
 * To tell the CPU is not enough. If a reserved task interrupts the running one first, that one may
 * keep its turn (keeps_turn()), and @p would wait for its slice.
 *
 * Not with MTR-LS or WRR: their keys of a domain that slept are from before its sleep, and no
 * choice with the lock follows. SFQ's start tag is from before, too. But to place the domain anew
 * moves it up to the virtual time at most, which is at most the running one's tag: the answer is
 * the same.
 */
static __always_inline bool precedes_others(struct task_struct *p, struct cpu_ctx *c, u32 leaf,
					    u64 v)
{
	return nr_cpus == 1 && !tree_ordered && (c->tree.straight || (s32)tree_waiting <= 0) &&
	       woken_goes_before(p, c, leaf) && straight_there(p, c) >= 0 &&
	       fair_overtakes(v, fair_weight(p), first_vtime(DSQ_DOMAIN(leaf), v));
}

/*
 * @p, of context @t and domain @leaf, wakes up. If it preempts @c's CPU, and overtakes those that
 * wait in its domain's queue, it is sent there. Returns whether it is.
 */
static __always_inline bool goes_at_once(struct task_struct *p, struct task_ctx *t,
					 struct cpu_ctx *c, u32 leaf, u64 enq_flags)
{
	struct branch *b = branch(leaf);
	bool first;
	u64 vtime;

	if (leaf == SLOT_PASSING || b->limited || !leaf_is_fair(b))
		return false;
	if (leaf != c->tree.leaf && nr_cpus > 1)
		return false;
	vtime = fair_vtime(p, DSQ_DOMAIN(leaf), &b->fair);
	if (leaf == c->tree.leaf)
		first = wake_preempts(p, c, leaf, vtime, b->fair.now) &&
			overtakes(p, c, DSQ_DOMAIN(leaf), vtime);
	else
		first = precedes_others(p, c, leaf, vtime);
	if (!first)
		return false;
	tree_not_in(t);
	send_straight(p, c, vtime, enq_flags | SCX_ENQ_PREEMPT);
	return true;
}

/*
 * @p, which could go on, stops on @c's CPU, and belongs in a queue at @now: does it keep its turn?
 * It does if it woke up, went before those that wait, and was interrupted by another such task, or
 * by a reserved one, before it had run for FAIR_LEAD_NS. In its queue it would wait for a round of
 * all others: the kernel's rcu_preempt, interrupted 10 us after its wake-up, waited for 87 ms among
 * 50 loops, and each grace period of RCU with it. It keeps its turn only while its wake-up would
 * preempt (policy/fair.h 3), so it has no more than its share.
 *
 * Not if a reserved task waits in the EDF queue and none was sent: then the CPU goes on to another
 * task of its local queue, without a choice. If @p were put there too, the two would take turns
 * before the reserved task.
 */
static __always_inline bool keeps_turn(struct task_struct *p, const struct cpu_ctx *c, u64 now,
				       u64 enq_flags)
{
	if ((enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_LAST)) || (s32)c->tree.turn_pid != p->pid ||
	    c->reserved.stopped_pid != p->pid || scx_bpf_now() - c->tree.began >= FAIR_LEAD_NS ||
	    !fair_rested_preempts(p->scx.dsq_vtime, fair_weight(p), now))
		return false;
	return c->reserved.deadline != TIME_NEVER || !scx_bpf_dsq_nr_queued(DSQ_EDF(task_cpu(p)));
}

/* @p, of context @t, waits in the queue of domain @leaf from now on; it may preempt @c's CPU. */
static __always_inline void enqueue_in_domain(struct task_struct *p, struct task_ctx *t,
					      struct cpu_ctx *c, u32 leaf, u64 enq_flags)
{
	bool wake = enq_flags & SCX_ENQ_WAKEUP, before = false;
	u64 vtime;

	t->weight = fair_weight(p);
	t->woke = wake;
	if (wake && tree_joins(t, leaf))
		before = woken_goes_before(p, c, leaf);
	else if (wake || !tree_stays(t, leaf))
		before = tree_enter(t, leaf, wake, c->tree.leaf, wake ? ran_beyond_lead(p, c) : 0);
	vtime = leaf_vtime(p, t, leaf, wake);
	/* of the same domain as the task that runs: its order says which goes first */
	if (wake && leaf == c->tree.leaf) {
		if (branch(leaf)->policy == DOMAIN_MTR)
			before = time_before(vtime, c->tree.leaf_key);
		else if (leaf_is_fair(branch(leaf)))
			before = wake_preempts(p, c, leaf, vtime, branch(leaf)->fair.now);
	}
	if (before && !undisturbed(c))
		scx_bpf_kick_cpu(task_cpu(p), SCX_KICK_PREEMPT);
	dsq_insert_vtime(p, DSQ_DOMAIN(leaf), FAIR_SLICE_NS, vtime, enq_flags);
	if (branch(leaf)->limited && path_throttled(leaf)) {
		throttled_begin(t);
		look_for_recall(p, t);
	}
	if (!rescue_armed)
		rescue_arm();
}

/* fair_enqueue() with domains. Returns false if @p belongs in a lane of its CPU. */
VERIFIED_ONCE int tree_enqueue(struct task_struct *p __arg_trusted, u64 enq_flags, bool looked)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	bool wake = enq_flags & SCX_ENQ_WAKEUP, last = enq_flags & SCX_ENQ_LAST;
	struct cpu_ctx *c = cpu_ctx(task_cpu(p));
	u32 leaf;

	if (!t) {
		enqueue_without_context(p, enq_flags);
		return true;
	}
	follow_clock(p, t, task_cpu(p));
	leaf = leaf_for(p, t);
	if (leaf != SLOT_PASSING)
		t->refused = 0;
	else if (!t->refused)
		t->refused = 1; /* it was asked to land: it runs until then */
	if (leaf == SLOT_PASSING || !branch(leaf)->limited || !path_throttled(leaf)) {
		if (pinned(p) || last || (wake && goes_straight(p, c, leaf))) {
			tree_not_in(t);
			if (pinned(p) && !last)
				return false;
			if (wake)
				wake_straight(p, c, leaf, enq_flags);
			else
				dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
			return true;
		}
	}
	session_waits(p);
	if (wake && !pinned(p) && goes_at_once(p, t, c, leaf, enq_flags))
		return true;
	if (!pinned(p) && leaf != SLOT_PASSING && !branch(leaf)->limited &&
	    leaf_is_fair(branch(leaf)) && keeps_turn(p, c, branch(leaf)->fair.now, enq_flags)) {
		tree_not_in(t);
		send_straight(p, c, p->scx.dsq_vtime, enq_flags);
		return true;
	}
	enqueue_in_domain(p, t, c, leaf, enq_flags);
	/* One CPU, idle: the task was held back in another domain, and the CPU was not told. */
	if (nr_cpus > 1 ? needs_help(c, leaf, looked) : !wake && c->tree.leaf == SLOT_NONE)
		ask_idle(p);
	return true;
}

/* @p may not run everywhere: it waits in a lane of @cpu. */
static __always_inline void pinned_enqueue(struct task_struct *p, s32 cpu, u64 enq_flags,
					   bool looked)
{
	struct task_ctx *t = task_ctx(p);
	u32 k = 0, domain = t ? t->domain & (DOMAIN_SLOTS - 1) : SLOT_ROOT;
	bool before, wake = enq_flags & SCX_ENQ_WAKEUP;
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 vtime;

	if (!c->online) { /* from a local queue the kernel moves it to another CPU */
		dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, enq_flags);
		return;
	}
	if (t && tree_on && !wake) {
		cpu = emptiest_cpu(p, cpu, domain);
		c = cpu_ctx(cpu);
		follow_clock(p, t, cpu);
	}
	if (t) {
		k = lane_of(cpu, domain);
		t->lane = k;
	}
	if (wake)
		lane_wakes(cpu, k, domain);
	if (tree_on && !rescue_armed)
		rescue_arm();
	vtime = fair_vtime(p, DSQ_PINNED(cpu, k), &lane(c, k)->fair);
	before = wake &&
		 (c->tree.leaf == domain ? wake_preempts(p, c, domain, vtime, lane(c, k)->fair.now)
					 : woken_goes_before(p, c, domain));
	if (before && c->tree.leaf == domain && overtakes(p, c, DSQ_PINNED(cpu, k), vtime)) {
		send_straight(p, c, vtime, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	dsq_insert_vtime(p, DSQ_PINNED(cpu, k), FAIR_SLICE_NS, vtime, enq_flags);
	scx_bpf_kick_cpu(cpu, before ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
	if (p->nr_cpus_allowed > 1 && needs_help(c, domain, looked))
		ask_idle(p);
}

/* Inserts @p, which waits nowhere, into its queue of the fair layer. @looked: fair_enqueue(). */
static __always_inline void fair_insert(struct task_struct *p, u64 enq_flags, bool looked)
{
	s32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);
	bool before;
	u64 vtime;

	if (tree_on && tree_enqueue(p, enq_flags, looked))
		return;
	if (pinned(p) && !tree_on) {
		struct task_ctx *t = task_ctx(p);

		if (t)
			follow_clock(p, t, cpu);
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && (nr_cpus == 1 || pinned(p)) && nobody_waits(cpu, c)) {
		const struct fair_queue *q = fair_queue_of(p, c);
		u32 leaf = domain_of_task(p);

		task_set_vtime(p, fair_place(p->scx.dsq_vtime, q, fair_weight(p)));
		if (is_next(p, c, leaf)) {
			wake_straight(p, c, leaf, enq_flags);
			return;
		}
	}
	c->tree.unwanted = 0;
	session_waits(p);
	if (pinned(p)) {
		pinned_enqueue(p, cpu, enq_flags, looked);
		return;
	}
	if (keeps_turn(p, c, fair_all.now, enq_flags)) {
		send_straight(p, c, p->scx.dsq_vtime, enq_flags);
		return;
	}
	vtime = fair_vtime(p, DSQ_FAIR, &fair_all);
	before =
		(enq_flags & SCX_ENQ_WAKEUP) && wake_preempts(p, c, SLOT_ROOT, vtime, fair_all.now);
	if (before && overtakes(p, c, DSQ_FAIR, vtime)) {
		send_straight(p, c, vtime, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	dsq_insert_vtime(p, DSQ_FAIR, FAIR_SLICE_NS, vtime, enq_flags);
	if (before)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if (nr_cpus > 1 && !looked)
		ask_idle(p);
}

/*
 * A task has woken up that would preempt the one that runs on @cpu, but that is guarded: the CPU
 * chooses anew when it has had its turn. (With a wait for the tick, a task that sleeps for less
 * than the guard waits for 4 ms at each wake-up: pairs of tasks that use a futex took ten times as
 * long.) No timer is set from another CPU, nor if one is set already, which ends the running task's
 * time.
 */
static __always_inline void wait_for_turn(struct cpu_ctx *c, u32 cpu)
{
	if (c->timer_due == TIME_NEVER && cpu == bpf_get_smp_processor_id())
		cpu_timer_start(cpu, bpf_ktime_get_ns(), c->tree.turn_left);
	c->tree.turn_left = 0;
}

/*
 * @p, which waits nowhere, comes to its queue of the fair layer. An idle CPU is asked to help
 * unless ops.select_cpu has @looked for one just now.
 */
static __always_inline void fair_enqueue(struct task_struct *p, u64 enq_flags, bool looked)
{
	u32 cpu = task_cpu(p);
	struct cpu_ctx *c = cpu_ctx(cpu);

	fair_insert(p, enq_flags, looked);
	if (c->tree.turn_left)
		wait_for_turn(c, cpu);
}

#endif /* APLOMB_TREE_ENQUEUE_BPF_H */
