/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/lanes.bpf.h - a CPU's lanes: the choice among them and the tree, and how another CPU helps.
 *
 * Theory: tree/tree.bpf.h 7; tree/place.bpf.h says which tasks wait in a lane.
 */
#ifndef APLOMB_TREE_LANES_BPF_H
#define APLOMB_TREE_LANES_BPF_H

#include "tree/place.bpf.h"
#include "tree/tree.bpf.h"

/* The domain of the first task in @queue, or SLOT_NONE. */
static __noinline u32 head_of(u64 queue)
{
	TAKES_STACK(64);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = NULL;
	u32 domain = SLOT_NONE;

	if (!bpf_iter_scx_dsq_new(&it, queue, 0))
		p = bpf_iter_scx_dsq_next(&it);
	if (p)
		domain = domain_of_task(p);
	bpf_iter_scx_dsq_destroy(&it);
	return domain;
}

/*
 * Who is first in each lane of @cpu: cpu_ctx.heads. @running: the domain of what runs there, is tied and may go on, or
 * SLOT_NONE. False: nobody.
 */
VERIFIED_ONCE int look_at_lanes(u32 cpu, u32 running)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 k, found = 0, mine = running < DOMAIN_SLOTS ? lane_of(cpu, running) : MAX_LANES;

	bpf_for(k, 0, c->tree.nr_lanes) {
		u32 head = SLOT_NONE;

		if (scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)))
			head = head_of(DSQ_PINNED(cpu, k));
		if (head == SLOT_NONE && k == mine)
			head = running;
		c->tree.heads[k & (MAX_LANES - 1)] = head;
		found |= head != SLOT_NONE;
	}
	return found;
}

/*
 * Tasks of domain @slot wait in a lane (tree/tree.bpf.h 7): those on the way up that are in no heap keep their place, as ever.
 */
static __noinline void wait_in_lane(u32 slot)
{
	TAKES_STACK(64);
	u32 k, at = slot, i = MEMBER_OWN(slot);

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		if (!in_heap(i))
			member_wake(b, i, GOES_ON);
		if (!at)
			break;
		i = MEMBER_OF(at);
		at = b->parent;
	}
}

/*
 * Of the lanes of @c's CPU, as look_at_lanes() has seen them, the one whose first task goes before all and before domain
 * @leaf, the tree's choice (or SLOT_NONE); MAX_LANES: none does. With tree_lock held.
 */
static __noinline u32 first_lane(struct cpu_ctx *c, u32 leaf)
{
	TAKES_STACK(64);
	u32 k, best = MAX_LANES, first = leaf;

	bpf_for(k, 0, c->tree.nr_lanes) {
		u32 head = c->tree.heads[k & (MAX_LANES - 1)];

		if (head >= DOMAIN_SLOTS)
			continue;
		wait_in_lane(head);
		if (first >= DOMAIN_SLOTS || goes_before(head, first, false) ||
		    (head == first && best == MAX_LANES && fair_pair_pick(&lane(c, k)->pair))) {
			best = k;
			first = head;
		}
	}
	return best;
}

/* Any task in a lane of @cpu that may run on this one. */
VERIFIED_ONCE int lanes_take(u32 cpu)
{
	u32 k;

	bpf_for(k, 0, cpu_ctx(cpu)->tree.nr_lanes) {
		if (scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)) &&
		    dsq_move_to_local(DSQ_PINNED(cpu, k)))
			return true;
	}
	return false;
}

/* An idle CPU helps out: a task that may run on some CPUs only, and waits for another of them. */
VERIFIED_ONCE int pinned_steal(u32 cpu)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		if (i != cpu && lanes_take(i))
			return true;
	}
	return false;
}

#endif /* APLOMB_TREE_LANES_BPF_H */
