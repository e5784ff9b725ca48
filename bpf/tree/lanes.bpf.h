/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/lanes.bpf.h - the lanes of a CPU in dispatch: which of them goes first, and how an idle CPU
 * helps.
 *
 * Theory: tree/tree.bpf.h 7. Which tasks wait in a lane: tree/place.bpf.h.
 *
 * A choice looks at the lanes in two steps, since the queues may not be read while tree_lock is
 * held: look_at_lanes() notes the domain of the first task in each, first_lane() compares these
 * domains under the lock.
 */
#ifndef APLOMB_TREE_LANES_BPF_H
#define APLOMB_TREE_LANES_BPF_H

#include "tree/place.bpf.h"
#include "tree/tree.bpf.h"

/* The domain of the first task of a queue. */
LOOK_AT_FIRST(first_domain, p, domain_of_task(p))

/*
 * Notes the domain of the first task in each lane of @cpu in tree_cpu.heads. @running: the domain
 * of a pinned task that runs there and may go on, or SLOT_NONE; in its lane it counts as waiting.
 * Returns whether there is any task.
 */
VERIFIED_ONCE int look_at_lanes(u32 cpu, u32 running)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 k, found = 0, mine = running < DOMAIN_SLOTS ? lane_of(cpu, running) : MAX_LANES;

	bpf_for(k, 0, c->tree.nr_lanes) {
		u32 head = SLOT_NONE;

		if (scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)))
			head = first_domain(DSQ_PINNED(cpu, k), SLOT_NONE);
		if (head == SLOT_NONE && k == mine)
			head = running;
		c->tree.heads[k & (MAX_LANES - 1)] = head;
		found |= head != SLOT_NONE;
	}
	return found;
}

/*
 * Tasks of domain @slot wait in a lane. The members on the way up that are in no heap are placed as
 * members that go on. Called with tree_lock held.
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
 * Places the domains of @c's lanes. Called with tree_lock held, after look_at_lanes(). A loop of
 * its own: within first_lane() the verifier would follow it once for each result found so far.
 */
static __noinline void lanes_wait(struct cpu_ctx *c)
{
	TAKES_STACK(32);
	u32 k;

	bpf_for(k, 0, c->tree.nr_lanes) {
		u32 head = c->tree.heads[k & (MAX_LANES - 1)];

		if (head < DOMAIN_SLOTS)
			wait_in_lane(head);
	}
}

/*
 * Returns the lane of @c's CPU whose first task goes before those of all other lanes and before
 * domain @leaf, the tree's choice (or SLOT_NONE); MAX_LANES: none does. Called with tree_lock held,
 * after lanes_wait().
 */
static __noinline u32 first_lane(struct cpu_ctx *c, u32 leaf)
{
	TAKES_STACK(64);
	u32 k, best = MAX_LANES, first = leaf;

	bpf_for(k, 0, c->tree.nr_lanes) {
		u32 head = c->tree.heads[k & (MAX_LANES - 1)];

		if (head >= DOMAIN_SLOTS)
			continue;
		if (first >= DOMAIN_SLOTS || goes_before(head, first) ||
		    (head == first && best == MAX_LANES && lane_ahead(lane(c, k), head) < 0)) {
			best = k;
			first = head;
		}
	}
	return best;
}

/* Sends any task in a lane of @cpu that may run on the current CPU. */
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

/* @cpu is idle: it takes a task that may run on several CPUs and waits for another of them. */
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
