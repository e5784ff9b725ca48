/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/tree.bpf.h - the domain tree: selects the domain whose task is next, by the policy of each
 * node on the way down from the root.
 *
 * Source: QLinux (Sundaram et al. 2000), sections 2.1, 2.2 and 3.2 (H-SFQ: a tree of schedulers,
 * each free in its policy); Eclipse (Bruno et al. 1998), section 4. The policies are in
 * policy/sfq.h, mtr.h and wrr.h.
 *
 * 1. Why. CPU time that is not reserved belongs to users, slices and services, not to tasks. A user
 *    with a thousand threads is to get no more of the machine than a user with one thread. The
 *    tree is the cgroup tree (tree/cgroups.bpf.h).
 *
 * 2. Model. Each domain is a node. Its members are its child domains and, as one more, its own
 *    tasks. Those members that have a task waiting in or below them are in the node's heap, by the
 *    key that its policy gives them:
 *
 *        root ---- heap: [own tasks] [user.slice] [system.slice]
 *                                         |
 *                                         +---- heap: [app-1.scope] [app-2.scope]
 *                                                          |
 *                                                          +---- heap: [own tasks] ---> tasks,
 *                                                                            by virtual time
 *
 *    A choice goes down from the root, always to the member with the least key, until it comes to
 *    the own tasks of a domain: the leaf. It costs O(depth log members). What a task runs is
 *    charged to its domain and to each domain above.
 *
 * 3. Waiting and running. When the last waiting task of a member starts to run, the member leaves
 *    the heap. It comes back when that task stops. Its place is kept: only a member that wakes up
 *    after a sleep is placed anew.
 *
 * 4. Several CPUs take tasks from one tree, so shares hold for the machine. A weight that cannot be
 *    used (one thread with 90 % of two CPUs) needs no correction of weights: the start tag of a
 *    member that comes back is lifted to the node's virtual time, so it gains no credit for what it
 *    could not use. It may stay behind by goes_on_ns(), or it would now and then lose its CPU to
 *    members that are not charged yet for what they run on other CPUs.
 *
 * 5. Claims. A CPU that takes a task of a domain claims it under the lock: the count of waiting
 *    tasks goes down at the choice, not when the task has been moved. An enqueue counts before its
 *    task can be seen in the queue. A CPU that comes in between finds no task, puts its claim back
 *    and chooses again.
 *
 *    A claim reserves one task of the domain, not a particular one. The CPU that clears a task's
 *    `queued` flag (unqueue()) settles one claim with it. Each claim must be settled exactly once;
 *    otherwise a task waits without being counted and is never dispatched. If the kernel refuses to
 *    move the task whose flag was cleared, that is undone, and the claim put back (tree_untake()).
 *
 *    `waiting` can be negative for a moment: ops.dispatch on CPU A counts its running task as
 *    waiting, CPU B claims it, and A then takes the count back. It must not stop at 0: the claim
 *    that B puts back would be counted once too often, and a domain that counts a task too many is
 *    never placed anew.
 *
 * 6. There is one lock, since every choice starts at the root. It is held for about a microsecond,
 *    and not taken at all while the root is the only domain (tree_on), nor while no task waits
 *    (tree/alone.bpf.h). A slice takes it once, with the choice (tree/owed.bpf.h); a sleep and a
 *    wake-up take it once more where no other task of the domain waits (tree_joins()).
 *
 * 7. Pinned tasks are in no heap, where each other CPU would have to skip them: such a task waits
 *    in a lane of one CPU (tree/place.bpf.h). That CPU compares the first task of each of its lanes
 *    with the tree's choice as if all were in the heaps: at the node where the ways of two domains
 *    meet, the member with the lesser key goes first. Their time is charged to the same tags, so a
 *    share does not depend on whether its tasks are pinned. MTR-LS's bound on how long a sleeper
 *    waits does not hold for them, because no member is placed anew while its task waits in a lane.
 */
#ifndef APLOMB_TREE_BPF_H
#define APLOMB_TREE_BPF_H

#include "tree/node.bpf.h"

/* All functions below are called with tree_lock held; preempts_domain() may be without. */

/* --- the heaps ------------------------------------------------------------------------------ */

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

/* Is @leaf domain @slot, or below it? */
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

/*
 * A task waits in domain @slot or below: inserts that domain and those above it into their parents'
 * heaps. @running: the domain of the task that runs on this CPU, or SLOT_NONE.
 */
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
		/* under WRR a member with a task on this CPU has not slept */
		runs = how == WAKES_UP && up->policy == DOMAIN_WRR && runs_below(at, running);
		member_wake(up, MEMBER_OF(at), runs ? GOES_ON : how);
		member_insert(up, MEMBER_OF(at));
		at = b->parent;
	}
}

/*
 * If the heap of domain @slot is empty, no task waits in it or below: removes that domain from its
 * parent's heap, and so on up.
 */
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

/* --- waiting tasks -------------------------------------------------------------------------- */

/*
 * The counts change by atomic steps, since tree_joins() counts without the lock. It does so only
 * where tasks of the domain wait, so the heaps change with the lock alone.
 */

/* One more task waits in domain @slot. @running: the domain of the task that runs there. */
static __always_inline void waiting_add(u32 slot, enum coming how, u32 running)
{
	struct branch *b = branch(slot);

	__sync_fetch_and_add(&tree_waiting, 1);
	__sync_fetch_and_add(&tree_entries, 1);
	if (__sync_fetch_and_add(&b->waiting, 1))
		return;
	member_wake(b, MEMBER_OWN(slot), how == WAKES_UP && slot == running ? GOES_ON : how);
	member_insert(b, MEMBER_OWN(slot));
	climb(slot, how, running);
}

/* One task less waits in domain @slot. */
static __always_inline void waiting_drop(u32 slot)
{
	struct branch *b = branch(slot);

	__sync_fetch_and_sub(&tree_waiting, 1);
	if (__sync_fetch_and_sub(&b->waiting, 1) != 1)
		return;
	member_remove(b, MEMBER_OWN(slot));
	sink(slot);
}

/* --- the choice, and the virtual times ------------------------------------------------------ */

/*
 * Returns the domain whose task is next, or SLOT_NONE. *@turn: ns after which the CPU is to choose
 * again, if that is before the slice ends. @again: earlier claims of this dispatch found no task.
 * Then members with lesser keys may be out of the heaps for a moment, so the nodes' virtual times
 * stay as they are: otherwise these members would lose their places.
 */
static __noinline u32 choose_leaf(u64 *turn, bool again)
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

/* Member @i of @b ran for @ns: it is charged and gets another place in the heap. */
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
 * A task of domain @slot was chosen, but not by choose_leaf(): the virtual times of the nodes on
 * its way follow.
 */
static __noinline void follow_choice(u32 slot)
{
	TAKES_STACK(16);
	u32 k, at = slot, i = MEMBER_OWN(slot);

	bpf_for(k, 0, MAX_DEPTH + 1) {
		sfq_run(&member(i)->sfq, &branch(at)->sfq);
		if (!at)
			break;
		i = MEMBER_OF(at);
		at = branch(at)->parent;
	}
}

/*
 * The node where the ways of domains @a and @b to the root meet, as a slot. *@mine and *@others:
 * its members by which they do. SLOT_NONE: there is no such node, or @a and @b are one.
 */
static __always_inline u32 meet(u32 a, u32 b, u32 *mine, u32 *others)
{
	u32 k, i = MEMBER_OWN(a), j = MEMBER_OWN(b);

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
	*mine = i;
	*others = j;
	return a == b && i != j ? a : SLOT_NONE;
}

/* Does domain @a go before domain @b, at the node where their ways meet? */
static __noinline bool goes_before(u32 a, u32 b)
{
	TAKES_STACK(40);
	u32 i, j, at = meet(a, b, &i, &j);

	if (at == SLOT_NONE)
		return false;
	return time_before(member_key(branch(at), i), member_key(branch(at), j));
}

/*
 * A task of domain @a wakes up: does it preempt a task of domain @b that has run for @ran_ns since
 * the choice? As the policy of the node says where their ways meet (mtr.h 5, sfq.h 4).
 */
static __noinline bool preempts_domain(u32 a, u32 b, u64 ran_ns)
{
	TAKES_STACK(56);
	u32 i, j, at = meet(a, b, &i, &j);
	struct branch *top = branch(at);

	if (at == SLOT_NONE || top->policy == DOMAIN_WRR)
		return false;
	if (top->policy == DOMAIN_MTR)
		return time_before(member_key(top, i), member_key(top, j));
	return ran_ns &&
	       sfq_preempts(&member(i)->sfq, &member(j)->sfq, ran_ns, member_weight(top, j));
}

#endif /* APLOMB_TREE_BPF_H */
