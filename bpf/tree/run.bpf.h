/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/run.bpf.h - the fair layer's part of ops.running: a task starts on the time that was claimed
 * for it.
 *
 * Theory: tree/tree.bpf.h, tree/limit.bpf.h.
 */
#ifndef APLOMB_TREE_RUN_BPF_H
#define APLOMB_TREE_RUN_BPF_H

#include "tree/alone.bpf.h"
#include "tree/clock.bpf.h"
#include "tree/limit.bpf.h"
#include "tree/owed.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"

/* The scheduler comes: no task of ours runs on @c's CPU, and nothing is claimed for it or owed. */
static __always_inline void tree_cpu_init(struct cpu_ctx *c)
{
	c->tree.leaf = SLOT_NONE;
	c->tree.next.leaf = SLOT_NONE;
	c->tree.owed.slot = SLOT_NONE;
	c->tree.from_lane = SLOT_NONE;
	c->tree.nr_lanes = 1;
}

/*
 * How the domain of a task comes to run that did not wait in the tree. @held: the task was parked,
 * which counts as sleep. A task that runs by right has waited for that instead, so its domain keeps
 * its place. With several CPUs other tasks of the domain may run, so it is not known to have slept.
 */
static __always_inline u32 comes_alone(const struct task_ctx *t, bool held)
{
	if (t && t->by_right)
		return IS_PUT_BACK;
	return held || nr_cpus == 1 ? WAKES_UP : GOES_ON;
}

/* A longer tail is none: the task ran in another scheduling class in between. */
#define MAX_TAIL_NS FAIR_SLICE_NS

/*
 * A task that goes to sleep is charged when it leaves the run queue, but the kernel adds to its CPU
 * time what passes until another task runs, the choice of that task included. This tail is charged
 * with the task's next turn. (Of the CPU time of 34 services that wake up ten times a second it was
 * an eighth: tree/containers-smp.) @ran: the task's total CPU time when that turn begins.
 */
static __always_inline u64 tail(struct task_ctx *t, u64 ran)
{
	u64 ns = ran - t->charged_to;

	return t->charged_to && ns < MAX_TAIL_NS ? ns : 0;
}

/*
 * Takes what dispatch claimed for the task that it sent. If that was for another domain than @slot,
 * the domain of the task that runs, the time is given back. @how: comes_alone(). Returns whether
 * *@got is this task's.
 */
static __always_inline bool take_pick(struct cpu_ctx *c, u32 cpu, u32 slot, u32 how,
				      struct pick *got)
{
	*got = c->tree.next;
	c->tree.next.leaf = SLOT_NONE;
	c->tree.next.granted = 0;
	c->tree.alone = 0;
	if (got->leaf == slot || got->leaf == SLOT_PASSING)
		return true;
	if (got->leaf != SLOT_NONE) {
		if (got->granted)
			tree_return(got->leaf, got->granted);
	} else if (!alone_begin(c, cpu, slot, how)) {
		tree_alone(cpu, c, slot, how);
	}
	got->granted = 0;
	got->turn_ns = 0;
	return false;
}

/* @p, of context @t and domain @slot, begins to run on @c's CPU. */
static __always_inline void member_run(struct cpu_ctx *c, struct task_ctx *t, u32 slot)
{
	if (!t->slot) /* not to a server's budget: the tail was not run by right */
		c->exec_start -= tail(t, c->exec_start);
	t->charged_to = 0;
	landing_leave(t);
	tree_not_in(t); /* it is counted still if the kernel moved it here without a callback */
	leaf_run(branch(slot), t);
	c->tree.leaf_key = leaf_key(branch(slot), t);
}

/*
 * First turn, ns, of a task that has no time by cpu.max and has been told so: enough to leave the
 * kernel on a real machine, and little beyond the quota. Each further turn without landing is twice
 * as long, up to REFUSED_DOUBLINGS times, because on an emulated machine a switch may take all of
 * the first (0.06 to 0.2 ms were seen).
 */
#define REFUSED_TURN_NS (200 * NSEC_PER_USEC)
#define REFUSED_DOUBLINGS 3

/*
 * A task of domain @slot, which has a cpu.max, begins to run without a claim: it claims now. If no
 * time is left, a task that was not told so yet gives up the CPU at once, and ops.enqueue decides.
 * Otherwise it has a turn, at its domain's expense: a pinned task that exits, or was asked to land,
 * waits in a lane, and no claim is made for it. Without a turn it would never leave the kernel,
 * where it may hold a lock or be an RCU reader.
 */
static __always_inline void claim_late(u32 cpu, struct task_ctx *t, u32 slot, struct pick *got)
{
	u32 turns = t->refused;

	got->granted = tree_resume(slot);
	if (got->granted) {
		t->refused = 0;
		return;
	}
	if (turns) {
		if (turns > REFUSED_DOUBLINGS)
			turns = REFUSED_DOUBLINGS + 1;
		got->turn_ns = REFUSED_TURN_NS << (turns - 1);
	} else {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	t->refused = turns + 1;
}

/* @p begins to run on @cpu. @held: it was parked until now. */
VERIFIED_ONCE int tree_running(struct task_struct *p __arg_trusted, u32 cpu, bool held)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct task_ctx *t = task_ctx(p);
	u32 slot = t ? t->domain & (DOMAIN_SLOTS - 1) : SLOT_ROOT;
	struct pick got;
	bool claimed = take_pick(c, cpu, slot, comes_alone(t, held), &got);

	tree_settle(cpu, c); /* if neither the choice nor take_pick() has */
	c->tree.leaf = slot;
	c->tree.limited = 0;
	c->tree.granted = 0;
	c->tree.passing = got.leaf == SLOT_PASSING;
	if (t) {
		if (claimed)
			t->refused = 0;
		if (t->throttled_since)
			throttled_end(p);
		follow_clock(p, t, cpu);
		member_run(c, t, slot);
	}
	if (c->next.rescued)
		rescue_begin(cpu, c);
	else if (!claimed && branch(slot)->limited && t && !t->by_right)
		claim_late(cpu, t, slot, &got);
	if (got.granted || got.turn_ns)
		grant_begin(c, cpu, &got);
	return 0;
}

/* @p gets @c's CPU, and was not rescued: the virtual time of its queue follows. */
static __always_inline void fair_comes(struct task_struct *p, struct cpu_ctx *c)
{
	fair_running(p, c);
	c->tree.came = c->tree.began;
	c->tree.wanted = 0;
}

/*
 * The tick: @p, which runs on @c's CPU, was guarded from a task that woke up. However long it has
 * run, the CPU chooses anew.
 */
static __always_inline void guard_ends(struct task_struct *p, struct cpu_ctx *c)
{
	c->tree.wanted = 0;
	if (!undisturbed(c))
		task_set_slice(p, 0);
}

#endif /* APLOMB_TREE_RUN_BPF_H */
