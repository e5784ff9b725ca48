/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/tree.bpf.h - the domain tree: who of all that wait is next, by the policy of each node on the way down.
 *
 * Source: QLinux (Sundaram et al. 2000), sections 2.1, 2.2 and 3.2 (H-SFQ: a tree of schedulers, each free in its
 * policy); Eclipse (Bruno et al. 1998), section 4. The policies are in policy/sfq.h, mtr.h, wrr.h.
 *
 * 1. Why. What nobody has reserved belongs to users, slices and services, not to tasks: who starts a thousand threads is
 *    to have no more of the machine than who starts one. The tree is the cgroup tree (tree/domain.bpf.h).
 *
 * 2. Model. Each domain is a node. Its members are its child domains and, as one more, its own tasks. Those members
 *    that have a task waiting in or below them are in the domain's heap, by the key that its policy gives them:
 *
 *        root ---- heap: [own tasks] [user.slice] [system.slice]
 *                                         |
 *                                         +---- heap: [app-1.scope] [app-2.scope]
 *                                                          |
 *                                                          +---- heap: [own tasks] ---> queue of tasks, by virtual time
 *
 *    A choice goes down from the root, always to the least key, which is O(depth log members). What a task runs is
 *    charged to its domain and to each above.
 *
 * 3. What waits and what runs. The last member of a heap may run while nothing of it waits; then it is in no heap, and
 *    comes back when its task stops. Its place is kept: only who wakes up after a sleep is placed anew.
 *
 * 4. Several CPUs take from one tree, so shares hold for the machine. A weight that cannot be used (one thread with 90 %
 *    of two CPUs) needs little care: the start tag of a member that comes back is lifted to the node's virtual
 *    time, so it gains no credit from what it could not use; but for a little (GOES_ON_NS), or it would lose its CPU now
 *    and then to those who are not charged yet for what they run elsewhere.
 *
 * 5. Who takes a task of a domain claims it under the lock: the count of waiting tasks goes down at the choice, not
 *    when it has been moved. An enqueue counts before its task can be seen in the queue; who comes in between finds
 *    nothing, puts its claim back and looks again. A claim is for anyone of the domain; which task it was for is settled
 *    by who gets that task's `queued` (unqueue), and each claim is settled by one: else a task waits uncounted, for ever.
 *    So the count may be below 0 for a moment: one CPU has claimed what another has queued in its mind only (what runs
 *    there, and may go on), and that one takes it back first. It must not stop at 0: the claim that is put back would then be
 *    one too many, and a domain that counts one too many is never placed anew.
 *
 * 6. One lock, since a choice passes the root. It is held for a microsecond or so, and not taken at all while there is
 *    no domain but the root (tree_on).
 *
 * 7. Who may not run everywhere is in no heap, where every other CPU would have to step over it: it waits in a lane of
 *    one CPU (tree/place.bpf.h). That CPU compares the first task of each of its lanes, and the tree's choice, as if all were
 *    in the heaps: where the ways of two domains meet, the one whose member has the lesser key goes first. Their time is
 *    charged to the same tags, so a share is the same whether or not somebody is tied to a CPU. MTR-LS's bound on how
 *    long a sleeper waits is not theirs: nobody is placed anew while it waits in a lane.
 */
#ifndef APLOMB_TREE_BPF_H
#define APLOMB_TREE_BPF_H

#include "tree/node.bpf.h"

static __noinline void member_insert(struct branch *b, u32 i)
{
	TAKES_STACK(16);
	if (in_heap(i))
		return;
	member(i)->waits_with = own_weight(b, i);
	b->awake_sum += member(i)->waits_with;
	heap_insert(tree_nodes, &b->heap, i, member_key(b, i));
}

static __noinline void member_remove(struct branch *b, u32 i)
{
	TAKES_STACK(16);
	if (!in_heap(i))
		return;
	b->awake_sum -= member(i)->waits_with;
	heap_remove(tree_nodes, &b->heap, i);
}

/* Is domain @slot, or one below it, what runs on this CPU? */
static __always_inline bool runs_below(u32 slot, u32 leaf)
{
	u32 k, at = leaf;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		if (at == slot || !at)
			break;
		at = branch(at)->parent;
	}
	return at == slot;
}

/* Something waits in domain @slot or below: so it does in those above. @running: leaf of what runs here, or none. */
static __noinline void climb(u32 slot, enum coming how, u32 running)
{
	TAKES_STACK(80);
	u32 k, at = slot;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at), *up;
		bool runs;

		if (!at || b->throttled || in_heap(MEMBER_OF(at)))
			return;
		up = branch(b->parent);
		runs = how == WAKES_UP && up->policy == DOMAIN_WRR && runs_below(at, running);
		member_wake(up, MEMBER_OF(at), runs ? GOES_ON : how);
		member_insert(up, MEMBER_OF(at));
		at = b->parent;
	}
}

/* Nothing waits in domain @slot or below any more, if its heap is empty; and so on up. */
static __noinline void sink(u32 slot)
{
	TAKES_STACK(16);
	u32 k, at = slot;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		if (!at || b->heap || !in_heap(MEMBER_OF(at)))
			return;
		member_remove(branch(b->parent), MEMBER_OF(at));
		at = b->parent;
	}
}

/* A task of domain @slot waits. @running: the leaf of what runs there, or none. */
static __always_inline void enter(u32 slot, enum coming how, u32 running)
{
	struct branch *b = branch(slot);

	tree_waiting++;
	if (++b->waiting != 1)
		return;
	member_wake(b, MEMBER_OWN(slot), how == WAKES_UP && slot == running ? GOES_ON : how);
	member_insert(b, MEMBER_OWN(slot));
	climb(slot, how, running);
}

/* One that waited there does no more. */
static __always_inline void leave(u32 slot)
{
	struct branch *b = branch(slot);

	tree_waiting--;
	if (--b->waiting)
		return;
	member_remove(b, MEMBER_OWN(slot));
	sink(slot);
}

/*
 * The domain whose task is next, or SLOT_NONE. *@turn: ns after which it is to choose again, if before the slice ends.
 * @again: claims of this choice were in vain, and whoever is before the rest may be out for the moment: the virtual time
 * stays, or he would lose his place to it.
 */
static __noinline u32 choose(u64 *turn, bool again)
{
	u32 k, at = 0;

	bpf_for(k, 0, MAX_DEPTH + 2) {
		struct branch *b = branch(at);
		u32 i = b->heap;

		if (!i)
			return SLOT_NONE;
		if (b->policy != DOMAIN_MTR && b->policy != DOMAIN_WRR && !again)
			sfq_run(&member(i)->sfq, &b->sfq);
		else if (b->policy == DOMAIN_MTR && mtr_turn(&member(i)->mtr) < *turn)
			*turn = mtr_turn(&member(i)->mtr);
		at = i / 2;
		if (i & 1)
			return at;
	}
	return SLOT_NONE;
}

/* Member @i of @b ran for @ns: its place is another. */
static __noinline void charge_member(struct branch *b, u32 i, u64 ns)
{
	TAKES_STACK(48);
	bool waits = in_heap(i);

	if (waits)
		member_remove(b, i);
	member_charge(b, i, ns);
	if (waits)
		member_insert(b, i);
}

/*
 * A task of domain @slot ran for @ns: each domain on the way up is charged. @sleeps: it does not wait now. With several
 * CPUs others may run of whom nobody waits, so that it cannot be said when all sleep. Who goes on where nobody waits is as
 * good as chosen: by right it may go on without a choice, for seconds, and is not to owe them to who comes. @alone: nor
 * does anybody wait in a lane, as who was tied to this CPU and has just lost it to another will.
 */
static __noinline void charge(u32 slot, u64 ns, bool sleeps, bool alone)
{
	u32 k, at = slot, i = MEMBER_OWN(slot);

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		b->ran_ns += ns;
		charge_member(b, i, ns);
		if (sleeps && !in_heap(i))
			sfq_sleep(&member(i)->sfq, &b->sfq, nr_cpus == 1 && !b->heap);
		else if (alone && !b->heap)
			sfq_run(&member(i)->sfq, &b->sfq);
		if (!at)
			break;
		i = MEMBER_OF(at);
		at = b->parent;
	}
}

/*
 * A task of domain @slot is chosen otherwise than by choose(): the virtual times on its way go with it. @alone: it runs
 * without having waited, since a CPU was idle. That counts as chosen only where nobody waits.
 */
static __noinline void chosen(u32 slot, bool alone)
{
	TAKES_STACK(16);
	u32 k, at = slot, i = MEMBER_OWN(slot);

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		if (!(alone && b->heap))
			sfq_run(&member(i)->sfq, &b->sfq);
		if (!at)
			break;
		i = MEMBER_OF(at);
		at = b->parent;
	}
}

/*
 * Where the ways of leaves @a and @b meet, who is first there? True: @a is. @at_once: by a policy under which it takes
 * the CPU from @b (mtr.h 5).
 */
static __noinline bool goes_before(u32 a, u32 b, bool at_once)
{
	TAKES_STACK(40);
	u32 k, i = MEMBER_OWN(a), j = MEMBER_OWN(b);
	struct branch *top;

	bpf_for(k, 0, 2 * MAX_DEPTH + 2) {
		if (a == b)
			break;
		if (branch(a)->depth >= branch(b)->depth) {
			i = MEMBER_OF(a);
			a = branch(a)->parent;
		} else {
			j = MEMBER_OF(b);
			b = branch(b)->parent;
		}
	}
	top = branch(a);
	if (a != b || i == j || (at_once && top->policy != DOMAIN_MTR))
		return false;
	return time_before(member_key(top, i), member_key(top, j));
}

#endif /* APLOMB_TREE_BPF_H */
