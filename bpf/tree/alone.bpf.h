/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/alone.bpf.h - while no task waits, none is charged: a sleep and a wake-up take no lock.
 *
 * Source: ours. The busy period of start-time fair queueing, for a machine.
 *
 * 1. Why. Each start and stop of a task changes the tags of its domain and of all above, under
 *    tree_lock, which all CPUs share. That is some 300,000 sleeps and wake-ups a second for a
 *    machine of any size. With one CPU it is a tenth of a switch in a domain at depth 4. But tags
 *    matter only to tasks that wait.
 *
 * 2. Model. A task runs alone if it did not wait for the CPU itself, and from then on no task came
 *    to wait: tree_waiting is 0 in the end and tree_entries what it was. All that it ran was time
 *    that no other wanted. So it owes nothing for it, and tags stay as they are.
 *
 * 3. Control. When such a task begins to run, its CPU notes how its domain is to be placed, and
 *    tree_entries. When it stops, or is charged while it goes on, and still no task waits, only its
 *    CPU time is counted, by its own domain (`ran_alone`). Otherwise the domain is placed and
 *    charged then.
 *
 * 4. Time that others sleep through is to take their debt away: a domain of weight 1 that ran for
 *    1 ms would owe for 0.1 s. So a task that runs alone for ALONE_NS for each CPU of the machine
 *    is charged all the same, and the nodes' virtual time follows.
 *
 * 5. Not for a domain with a cpu.max; nor once any domain had MTR-LS or WRR, whose tokens and turns
 *    count time alone, too. Nor while tasks wait in lanes of this CPU. Those of other CPUs do not
 *    want it.
 */
#ifndef APLOMB_TREE_ALONE_BPF_H
#define APLOMB_TREE_ALONE_BPF_H

#include "tree/waiting.bpf.h"

/* CPU time that own tasks of each domain ran alone, ns; each on a cache line of its own. */
struct alone_time {
	u64 ns;
} __attribute__((aligned(64)));
struct alone_time ran_alone[DOMAIN_SLOTS] SEC(".bss.alone") __hidden;

/*
 * For each CPU of the machine, so that these charges take the lock 250 times a second whatever the
 * machine's size. Trade: with less, more often; with more, a debt stays for longer: 1 s on 256
 * CPUs.
 */
#define ALONE_NS (4 * NSEC_PER_MSEC)

/* Does no task wait that could want @cpu, on which a task of domain @slot runs? */
static __always_inline bool none_waits(u32 cpu, u32 slot)
{
	return (s32)tree_waiting <= 0 && !tree_ordered && !branch(slot)->limited &&
	       (nr_cpus == 1 || !pinned_waiting(cpu));
}

/*
 * A task of domain @slot, which did not wait in the tree, begins to run on @cpu. Returns whether it
 * runs alone. If not, its domain is to be placed at once, as @how says.
 */
static __always_inline bool alone_begin(struct cpu_ctx *c, u32 cpu, u32 slot, u32 how)
{
	c->tree.entries = tree_entries;
	c->tree.alone_ns = 0;
	c->tree.alone = none_waits(cpu, slot) ? how + 1 : 0;
	return c->tree.alone;
}

/*
 * The task of domain @slot that runs on @cpu ran for *@ran ns. Returns whether it ran alone, so
 * that it is not to be charged. If it has run alone for long and goes on, it is to be charged for
 * *@ran ns, which is all of that time.
 */
static __always_inline bool alone_ran(struct cpu_ctx *c, u32 cpu, u32 slot, u64 *ran, bool sleeps)
{
	u64 *shown = &ran_alone[slot & (DOMAIN_SLOTS - 1)].ns, before = c->tree.alone_ns;

	if (!c->tree.alone || c->tree.entries != tree_entries || !none_waits(cpu, slot))
		return false;
	c->tree.alone_ns = before + *ran;
	if (sleeps || c->tree.alone_ns < nr_cpus * ALONE_NS) {
		__sync_fetch_and_add(shown, *ran);
		return true;
	}
	__sync_fetch_and_sub(shown, before);
	*ran = c->tree.alone_ns;
	return false;
}

/*
 * @cpu's running task, of domain @slot, could go on: does it run alone from now on, charged before
 * or not? The domain may have got a cpu.max meanwhile.
 */
static __always_inline bool alone_goes_on(struct cpu_ctx *c, u32 cpu, u32 slot)
{
	if (c->tree.alone)
		return none_waits(cpu, slot);
	return alone_begin(c, cpu, slot, IS_PUT_BACK);
}

/*
 * Domain @slot ends: what it ran alone counts for those above it from now on. Called with tree_lock
 * held.
 */
static __noinline void alone_inherit(u32 slot)
{
	TAKES_STACK(16);
	u64 ns = ran_alone[slot & (DOMAIN_SLOTS - 1)].ns;
	u32 k, at = slot;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		if (!at)
			break;
		at = branch(at)->parent;
		branch(at)->ran_ns += ns;
	}
}

#endif /* APLOMB_TREE_ALONE_BPF_H */
