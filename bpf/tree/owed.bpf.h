/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/owed.bpf.h - domains are charged for what their tasks ran under the lock of the next choice.
 *
 * 1. Why. All CPUs share tree_lock. A CPU whose task stops chooses another one within
 *    microseconds, under that lock. A charge of its own would take the lock once more for each
 *    sleep and each slice.
 *
 * 2. Control. What a domain owes is noted on the CPU, and paid by the first of:
 *
 *        the task stops ---> owed ---> the CPU chooses in the tree     tree_claim()
 *                                      it goes on, or becomes idle     none_dispatch()
 *                                      a task runs that did not wait   tree_running()
 *                                      there is more to charge         tree_ran()
 *
 *    Until then the tags of the domain are those from before its turn, as they were all through
 *    the turn. If a task of another scheduling class comes next, the charge is as late as that one
 *    stops: one turn for each CPU.
 *
 * 3. All are charged at once, once any domain has had MTR-LS or WRR, whose bounds hold for each
 *    turn. So is the quota of a cpu.max (tree/charge.bpf.h), for time that was not used goes back.
 */
#ifndef APLOMB_TREE_OWED_BPF_H
#define APLOMB_TREE_OWED_BPF_H

#include "tree/tree.bpf.h"

/* Charges what is owed on @c's CPU. Called with tree_lock held. */
static __always_inline void charge_owed(struct cpu_ctx *c)
{
	struct owed *o = &c->tree.owed;
	u32 slot = o->slot;

	if (slot >= DOMAIN_SLOTS)
		return;
	o->slot = SLOT_NONE;
	if (branch(slot)->cgid != o->cgid) /* it has gone, and took one turn at most with it */
		return;
	if (o->comes)
		runs_alone(slot, o->comes - 1);
	charge_path(slot, o->ns, o->sleeps, o->unwanted);
}

/* No choice follows: charges what is owed on @cpu. */
VERIFIED_ONCE int tree_pay(u32 cpu)
{
	bpf_spin_lock(&tree_lock);
	charge_owed(cpu_ctx(cpu));
	bpf_spin_unlock(&tree_lock);
	return 0;
}

/* The same, if anything is owed. */
static __always_inline void tree_settle(u32 cpu, struct cpu_ctx *c)
{
	if (c->tree.owed.slot != SLOT_NONE)
		tree_pay(cpu);
}

/* Domain @slot owes for a turn of @ran ns on @c's CPU. @comes, @sleeps, @unwanted: struct owed. */
static __always_inline void owes(struct cpu_ctx *c, u32 slot, u64 ran, u32 comes, bool sleeps,
				 bool unwanted)
{
	c->tree.owed = (struct owed){
		.ns = ran,
		.cgid = branch(slot)->cgid,
		.slot = slot,
		.comes = comes,
		.sleeps = sleeps,
		.unwanted = unwanted,
	};
}

/*
 * A task of domain @slot begins to run on @cpu without having waited in the tree, while others
 * wait. @how: as in runs_alone().
 */
static __always_inline void tree_alone(u32 cpu, struct cpu_ctx *c, u32 slot, u32 how)
{
	tree_settle(cpu, c);
	owes(c, slot, 0, how + 1, false, false);
	tree_settle(cpu, c);
}

#endif /* APLOMB_TREE_OWED_BPF_H */
