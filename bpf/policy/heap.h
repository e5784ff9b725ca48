/* SPDX-License-Identifier: GPL-2.0 */
/*
 * heap.h - a leftist heap: the member with the least key, out of thousands.
 *
 * Source: Crane, "Linear lists and priority queues as balanced binary trees" (1972); Knuth, The Art
 * of Computer Programming 3, 5.2.3 (leftist trees). Here: to choose among the members of a node in
 * O(log n), as Eclipse 5.2 says.
 *
 * 1. Why. A system slice has hundreds of services, and a choice must not look at all of them. The
 *    kernel's own trees are no help: a red-black tree of BPF has no key that changes, no peek on
 *    all kernels, and one allocation for each member. This heap is an array of 16-byte nodes that
 *    are linked by index. So it is verified as plain memory, works under one spin lock, and any
 *    number of heaps share one array: a heap is the index of its root.
 *
 * 2. Model. A binary tree in which no node's key is before its parent's. The rank of a node is the
 *    length of the way down to the nearest missing child: 1 + min(rank left, rank right); that of a
 *    missing child is 0. The tree is leftist: rank left >= rank right. So the way to the nearest
 *    missing child is always the one to the right (the right spine), and a node of rank r has all
 *    of its first r levels:
 *
 *        n >= 2^r - 1, so a right spine has log2(n + 1) nodes at most: 14 of HEAP_SIZE - 1
 *
 *    Ways to the left may be as long as n, but no function walks down to the left.
 *
 * 3. Operations. Two heaps are merged along their right spines, like sorted lists. On the way back
 *    up ranks are corrected, and children exchanged where the right one has become the higher.
 *    Insert: merge with a heap of one node. Remove: merge the two children into the node's place,
 *    and correct ranks upwards.
 *
 *    The way up of a removal stops where a rank stays as it is. That is after 15 steps at most,
 *    though the root may be thousands of nodes away: a rank changes only if the child that changed
 *    is the lower one, and is then that child's rank plus one (its new rank if ranks fall, its old
 *    one if they rise). So ranks grow by one with each step, and 14 is the highest.
 *
 * There is no recursion and no loop without a bound. An index is masked wherever it is used, so
 * that the verifier knows that it is inside the array. If a heap could be broken, the result would
 * be a wrong choice, not a wrong address.
 */
#ifndef APLOMB_POLICY_HEAP_H
#define APLOMB_POLICY_HEAP_H

#include "types.h"

/* Nodes of the array, a power of two. Index 0 means none: it stays zero and is never inserted. */
#define HEAP_SIZE 16384
/*
 * The highest rank, log2(HEAP_SIZE) = 14, plus one: a loop along a right spine that sees its end.
 */
#define HEAP_RANKS 15

struct heap_node {
	u64 key;             /* compared by time_before(): all keys of a heap are within 2^63 */
	u16 left, right, up; /* indices; 0: none */
	u8 rank;             /* see 2; without children: 1 */
	u8 in;               /* 1: it is in a heap */
};

static inline struct heap_node *heap_at(struct heap_node *at, u32 i)
{
	return &at[i & (HEAP_SIZE - 1)];
}

/* Makes @n leftist again, if its children are. Returns whether its rank has changed. */
static inline bool heap_mend(struct heap_node *at, struct heap_node *n)
{
	u8 left = heap_at(at, n->left)->rank, right = heap_at(at, n->right)->rank;
	u8 rank = (left < right ? left : right) + 1;
	u16 child = n->left;

	if (left < right) {
		n->left = n->right;
		n->right = child;
	}
	if (n->rank == rank)
		return false;
	n->rank = rank;
	return true;
}

/* Merges the heaps with roots @a and @b (0: an empty heap). Returns the root. */
static inline policy_own_frame u32 heap_merge(struct heap_node *at, u32 a, u32 b)
{
	policy_takes_stack(32);
	u32 root = 0, last = 0, next, k;
	struct heap_node *n;

	policy_for(k, 0, 2 * HEAP_RANKS)
	{
		if (!a || !b)
			break;
		if (time_before(heap_at(at, b)->key, heap_at(at, a)->key)) {
			next = a;
			a = b;
			b = next;
		}
		n = heap_at(at, a);
		n->up = last;
		if (last)
			heap_at(at, last)->right = a;
		else
			root = a;
		last = a;
		a = n->right;
	}
	next = a ? a : b; /* the rest of one of them, as it is */
	if (next)
		heap_at(at, next)->up = last;
	if (!last)
		return next;
	heap_at(at, last)->right = next;
	policy_for(k, 0, 2 * HEAP_RANKS)
	{
		if (!last)
			break;
		n = heap_at(at, last);
		heap_mend(at, n);
		last = n->up;
	}
	return root;
}

/*
 * Inserts @i, 1 to HEAP_SIZE - 1, with @key into the heap with root *@root (0: it is empty). If @i
 * is in a heap already, nothing happens. Afterwards at[*root].key is the least key. Equal keys are
 * in any order.
 */
static inline void heap_insert(struct heap_node *at, u32 *root, u32 i, u64 key)
{
	struct heap_node *n = heap_at(at, i);

	if (n->in)
		return;
	n->key = key;
	n->left = 0;
	n->right = 0;
	n->up = 0;
	n->rank = 1;
	n->in = 1;
	*root = *root ? heap_merge(at, *root, i) : i; /* most heaps of the tree are empty then */
}

/* Removes @i from the heap with root *@root. If @i is in no heap, nothing happens. */
static inline void heap_remove(struct heap_node *at, u32 *root, u32 i)
{
	struct heap_node *n = heap_at(at, i);
	u32 up = n->up, child, k;

	if (!n->in)
		return;
	child = n->left ? heap_merge(at, n->left, n->right) : 0; /* without a left one, no right */
	n->left = 0;
	n->right = 0;
	n->up = 0;
	n->rank = 0;
	n->in = 0;
	if (!up) {
		*root = child;
		return;
	}
	if (child)
		heap_at(at, child)->up = up;
	n = heap_at(at, up);
	if (n->left == i)
		n->left = child;
	else
		n->right = child;
	policy_for(k, 0, HEAP_RANKS)
	{
		n = heap_at(at, up);
		if (!heap_mend(at, n))
			break;
		up = n->up;
		if (!up)
			break;
	}
}

#endif /* APLOMB_POLICY_HEAP_H */
