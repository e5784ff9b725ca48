/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/run.bpf.h - a task begins to run, and stops: the time it was granted, and what it is charged.
 */
#ifndef APLOMB_TREE_RUN_BPF_H
#define APLOMB_TREE_RUN_BPF_H

#include "tree/limit.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"

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

/* @p ran for @ran ns on @cpu: of what its domain (or the machine) has of that CPU, those who may run nowhere else have had
 * this, or the others. */
static __always_inline void pair_charge(struct task_struct *p, u32 cpu, struct cpu_ctx *c, u64 ran)
{
	u32 slot = c->tree.leaf & (DOMAIN_SLOTS - 1), waiting, others, k = 0;

	if (!pinned(p) && c->tree.nr_lanes < 2 && !scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, 0)))
		return;
	if (tree_on)
		k = lane_of(cpu, slot);
	waiting = scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k));
	others = tree_on ? branch(slot)->waiting : scx_bpf_dsq_nr_queued(DSQ_FAIR);
	if (pinned(p))
		fair_pair_charge(&lane(c, k)->pair, 1, ran, waiting + 1);
	else if (waiting)
		fair_pair_charge(&lane(c, k)->pair, 0, ran, others / nr_cpus + 1);
}

/*
 * @p ran for @ran ns on @cpu, by right or not: all of it counts against its share. @sleeps: it goes to sleep; @unasked: it
 * might go on, or has gone on by right, where nobody was chosen in its place.
 */
static __always_inline void fair_charge(struct task_struct *p, u32 cpu, struct cpu_ctx *c, u64 ran,
					bool sleeps, bool unasked)
{
	struct branch *b = branch(c->tree.leaf);
	struct task_ctx *t = tree_on && b->reordered && !pinned(p) ? task_ctx(p) : NULL;

	if (t) {
		t->weight = fair_weight(p);
		p->scx.dsq_vtime = leaf_charge(t, c->tree.leaf & (DOMAIN_SLOTS - 1), ran, sleeps,
					       p->scx.dsq_vtime);
	} else {
		p->scx.dsq_vtime += fair_cost(ran, fair_weight(p));
	}
	if (tree_on)
		tree_charge(cpu, ran, sleeps, !pinned(p) || (unasked && !pinned_waiting(cpu)));
	if (nr_cpus > 1)
		pair_charge(p, cpu, c, ran);
}

#endif /* APLOMB_TREE_RUN_BPF_H */
