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

/*
 * A task of domain o->slot had a turn without having waited, since a CPU was idle. That counts as a
 * choice only at nodes where no task waits. Members of which no task waits are placed by o->comes,
 * as they would be if the task had waited.
 */
static __noinline void place_path(const struct owed *o)
{
	TAKES_STACK(32);
	u32 k, at = o->slot, i = MEMBER_OWN(at);

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		if (!in_heap(i) && b->policy != DOMAIN_MTR && b->policy != DOMAIN_WRR)
			member_wake(b, i, o->comes - 1);
		if (!b->heap)
			sfq_run(&member(i)->sfq, &b->sfq);
		if (!at)
			break;
		i = MEMBER_OF(at);
		at = b->parent;
	}
}

/*
 * A task of domain o->slot ran for o->ns: charges that domain and each domain above. Flags are read
 * from @o at each step: copies would make the verifier follow all steps once for each value.
 *
 * A node's busy period ends when all its members sleep. With several CPUs that cannot be said:
 * members of which no task waits may run on other CPUs.
 *
 * If the task goes on and no task waits in a node, nor in a lane of this CPU, the node's virtual
 * time follows as if the task had been chosen. Otherwise a task that goes on without a choice, for
 * seconds if it runs by right, would owe that time to members that come later.
 */
static __noinline void charge_path(const struct owed *o)
{
	u32 k, at = o->slot, i = MEMBER_OWN(at);

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		b->ran_ns += o->ns;
		charge_member(b, i, o->ns);
		if (o->sleeps && !in_heap(i))
			sfq_sleep(&member(i)->sfq, &b->sfq, nr_cpus == 1 && !b->heap);
		else if (o->unwanted && !b->heap)
			sfq_run(&member(i)->sfq, &b->sfq);
		if (!at)
			break;
		i = MEMBER_OF(at);
		at = b->parent;
	}
}

/* Charges what is owed on @c's CPU. Called with tree_lock held. */
static __always_inline void charge_owed(struct cpu_ctx *c)
{
	struct owed *o = &c->tree.owed;

	if (o->slot >= DOMAIN_SLOTS)
		return;
	if (branch(o->slot)->cgid == o->cgid) { /* else it has gone, with its last turn */
		if (o->comes)
			place_path(o);
		charge_path(o);
	}
	o->slot = SLOT_NONE;
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
 * wait. @how: it is placed so.
 */
static __always_inline void tree_alone(u32 cpu, struct cpu_ctx *c, u32 slot, u32 how)
{
	tree_settle(cpu, c);
	owes(c, slot, 0, how + 1, false, false);
	tree_settle(cpu, c);
}

#endif /* APLOMB_TREE_OWED_BPF_H */
