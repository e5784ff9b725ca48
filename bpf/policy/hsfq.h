/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hsfq.h - hierarchical start-time fair queueing of packets: the domains share a link by weight.
 *
 * Source: QLinux (Sundaram et al. 2000), section 2.3; Goyal, Vin and Cheng, "Start-time fair
 * queuing" (1996); for section 4 Choudhury and Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches" (1998).
 *
 * 1. Why. A link has one sender at a time. Without an order that knows the domains, a program that
 *    sends as much as it can decides how long all others wait. With SFQ at each node of the tree a
 *    domain has w / (w_1 + .. + w_n) of what its parent has, in bytes, whatever the size of its
 *    packets. What a domain leaves goes to its neighbours by their weights.
 *
 * 2. Model. The nodes are linked by index in one array. Node HSFQ_ROOT is the root. An inner node
 *    has members, in a heap by start tag (heap.h, sfq.h). A leaf has packets, in the order in which
 *    they came. A node is in its parent's heap exactly while a packet in it or below it may leave.
 *
 *        root --- user.slice --- app-mail.scope --- own --- flow 17    a leaf
 *             \-- system.slice ...                      \-- flow 802   a leaf
 *
 *        a packet comes     hsfq_admit(), hsfq_add(): the leaf and each ancestor that was idle wake
 *        the link is free   hsfq_first(), hsfq_pop(), hsfq_charge(): from the root down to a leaf,
 *                           at each node the member with the least start tag; its bytes are charged
 *                           on the way back up
 *
 *    A flow is a node like any other, so the flows of a domain share what it has by the same rule.
 *
 * 3. What it promises. While two members f and g of a node both have packets (l_f, l_g: the longest
 *    packet of each):
 *
 *        | W_f / w_f - W_g / w_g | <= l_f / w_f + l_g / w_g        (bytes W over weight w)
 *
 *    A member that was idle comes into the heap by its start tag less one full packet of its own
 *    (HSFQ_FIRST). That adds HSFQ_FIRST / w to the bound, once and not each time, since the member
 *    is charged as ever. And if it keeps to its share within a packet, it goes before all members
 *    that were not idle, because no start tag of theirs is before the node's virtual time. It waits
 *    for the packet that the link sends, and for others that were idle. By start tags alone it
 *    would wait for a packet of nearly each: senders that always have packets of one size have the
 *    same tag, and the last small packet has put the thin flow behind them until their next round.
 *
 * 4. Room. The packets of all nodes share HSFQ_ROOM bytes. A sender that fills them must not leave
 *    a newcomer without room, but one that is alone should have nearly all. So a member may hold
 *    four fifths (HSFQ_PART) of what its neighbours leave of the room of its parent:
 *
 *        room(root) = HSFQ_ROOM
 *        room(m)    = 4/5 * (room(parent) - what the parent's other members hold)
 *
 *    A sender that is alone has 80 % at each level. With n that fill theirs, one more still has
 *    0.8 / (4 n + 1): 104 kB beside 64. A packet that does not fit is dropped, and counted at its
 *    leaf. A packet counts as HSFQ_LEAST bytes at least, which also bounds their number.
 *
 * 5. Nodes that are forgotten. An idle leaf without members whose start tag is not ahead of its
 *    parent's virtual time has nothing to remember: it would wake up with that virtual time in any
 *    case. So such a node may be given to another domain or flow (hsfq_forgettable()), and no share
 *    changes by it.
 *
 * 6. Ceilings. A node may have a rate that it does not exceed (shaper.h), however free the link is.
 *
 *        idle --- a packet comes ---> ready, in its parent's heap --- its clock is ahead ---> late
 *        late, in the heap of late nodes by their clocks --- the time comes ---> ready
 *
 *    A late node is to its parent as one without packets: it gains nothing by waiting. If it was
 *    the only ready member, its parent is not ready either. A node with a ceiling is not forgotten.
 *
 * 7. A packet that is alone. On a link that keeps up, most packets come when no other one waits. As
 *    such a packet leaves, the busy period ends at each node on its way, and all members are even
 *    (sfq.h 2), as they were when it came. So it goes past the heaps, and no tag changes. If
 *    another packet comes meanwhile, it takes its place in its leaf first, as if it had done so at
 *    once. Not where there was ever a ceiling, whose clock counts each packet.
 *
 * 8. Counts are kept where the packets were, so a packet costs the same at any depth. The one that
 *    reads them adds up what is below a node. A node that is forgotten leaves its counts to its
 *    parent.
 */
#ifndef APLOMB_POLICY_HSFQ_H
#define APLOMB_POLICY_HSFQ_H

#include "types.h"
#include "codel.h"
#include "heap.h"
#include "sfq.h"
#include "shaper.h"

enum {
	HSFQ_NODES = HEAP_SIZE, /* of one interface; 0 means none */
	HSFQ_PACKETS = 16384,   /* of one interface, a power of two; 0 means none */
	HSFQ_LEVELS =
		20, /* the root, 16 levels of domains, a domain's own packets, a flow; one spare */
	HSFQ_ROOT = 1,
	HSFQ_LEAST =
		2048, /* bytes that a packet counts as at least: what the kernel holds for it */
	HSFQ_FIRST =
		1514, /* bytes by which a member that was idle may go first (3): a full packet */
	HSFQ_WEIGHT = 100, /* of a node for which none is set */
	HSFQ_MAX_WEIGHT = 10000,
	HSFQ_RELEASED = 64, /* late nodes of one dequeue: some tens of microseconds */
};

/* Bytes that all packets of one interface may count: so that there is a slot for each. */
#define HSFQ_ROOM ((HSFQ_PACKETS - 1) * HSFQ_LEAST)

struct hsfq_packet {
	u64 since; /* when it came, ns */
	u32 bytes; /* on the link */
	u32 next;  /* behind it in its leaf, or the next free slot; 0: none */
};

struct hsfq_node {
	struct sfq_node order;    /* of its members; a leaf's is unused */
	struct sfq_member member; /* of its parent */
	u32 members;              /* the root of the heap of those with packets; 0: none */
	u32 children;             /* all nodes whose parent it is */
	u32 up;                   /* its parent; of the root 0 */
	u32 weight;               /* 1 to HSFQ_MAX_WEIGHT */
	u32 first, last;          /* a leaf's packets: slots; 0: none */
	u32 packets;              /* in it and below */
	u32 held;                 /* of the room, bytes */
	/* which domain (cgroup id), and which of its flows (net/leaf.bpf.h); both 0: it is free */
	u64 domain;
	u32 flow;
	u32 is_leaf;
	struct shaper ceiling; /* its rate is 0: none */
	/* so far; of a leaf, or of those that were below it and are forgotten (8) */
	u64 sent_bytes, sent_packets;
	u64 dropped;  /* packets that did not fit, or waited for too long (codel.h) */
	u64 delay_ns; /* of all packets that were sent, summed */
	u64 most_ns;  /* the longest of these */
	struct codel codel;
};

struct hsfq {
	u32 free;  /* the first free slot that was in use before; 0: none */
	u32 fresh; /* slots above this one were never in use */
	u32 late;  /* the root of the heap of late nodes, by when each may send; 0: none */
	u32 alone; /* the slot of a packet that is alone (7), which no node counts; 0: none */
	u32 leaf_of_alone;
	u32 ceilings; /* a node had a ceiling */
	struct heap_node heap[HSFQ_NODES];
	struct hsfq_node node[HSFQ_NODES];
	struct hsfq_packet packet[HSFQ_PACKETS];
};

static inline struct hsfq_node *hsfq_node(struct hsfq *q, u32 i)
{
	return &q->node[i & (HSFQ_NODES - 1)];
}

static inline struct hsfq_packet *hsfq_packet(struct hsfq *q, u32 slot)
{
	return &q->packet[slot & (HSFQ_PACKETS - 1)];
}

/* What a packet of @bytes takes of the room. */
static inline u32 hsfq_counts(u32 bytes)
{
	return bytes < HSFQ_LEAST ? HSFQ_LEAST : bytes;
}

/*
 * Do @bytes fit into the room of @leaf (4)? room(leaf) is linear in room(root), so it is found on
 * the way up: room(leaf) = part * room(at) - less, part in 1/2^16.
 */
static inline policy_own_frame bool hsfq_fits(struct hsfq *q, u32 leaf, u32 bytes)
{
	policy_takes_stack(48);
	u64 part = 1 << 16, less = 0;
	u32 i = leaf, k, held = hsfq_node(q, leaf)->held;

	policy_for(k, 0, HSFQ_LEVELS)
	{
		struct hsfq_node *n = hsfq_node(q, i);
		u32 up = n->up;

		if (!up)
			break;
		part = part * 4 / 5;
		less += part * (hsfq_node(q, up)->held - n->held);
		i = up;
	}
	return part * HSFQ_ROOM >= less + ((u64)held + hsfq_counts(bytes)) * (1 << 16);
}

/* Is there room for a packet of @bytes at @leaf? In an empty tree it takes none from any member. */
static inline bool hsfq_admit(struct hsfq *q, u32 leaf, u32 bytes)
{
	return !hsfq_node(q, HSFQ_ROOT)->packets || hsfq_fits(q, leaf, bytes);
}

/* A free slot for a packet. Never 0 after hsfq_admit(): the room has a slot for each packet. */
static inline u32 hsfq_slot(struct hsfq *q)
{
	u32 slot = q->free;

	if (slot) {
		q->free = hsfq_packet(q, slot)->next;
		return slot;
	}
	if (q->fresh >= HSFQ_PACKETS - 1)
		return 0;
	return ++q->fresh;
}

/* Gives @slot back: its packet has left its leaf, or never came there. */
static inline void hsfq_free(struct hsfq *q, u32 slot)
{
	hsfq_packet(q, slot)->next = q->free;
	q->free = slot;
}

/*
 * heap_insert() and heap_remove() with frames of their own. Inlined twice into one function, clang
 * joins their two accesses to the heap into one, behind the mask of the index, and the kernel no
 * longer sees a bound.
 */
static inline policy_own_frame void hsfq_insert(struct hsfq *q, u32 *root, u32 i, u64 key)
{
	policy_takes_stack(48);
	heap_insert(q->heap, root, i, key);
}

static inline policy_own_frame void hsfq_remove(struct hsfq *q, u32 *root, u32 i)
{
	policy_takes_stack(48);
	heap_remove(q->heap, root, i);
}

/*
 * Node @i, which has something to send, is ready or late. If it is ready, so is its parent, up to
 * the first ancestor that is ready or late already.
 */
static inline policy_own_frame void hsfq_ready(struct hsfq *q, u32 i, u64 now)
{
	policy_takes_stack(48);
	u32 k;

	policy_for(k, 0, HSFQ_LEVELS)
	{
		struct hsfq_node *n = hsfq_node(q, i), *up;

		if (!n->up || heap_at(q->heap, i)->in)
			break;
		if (!shaper_is_open(&n->ceiling, now)) {
			hsfq_insert(q, &q->late, i, n->ceiling.next);
			break;
		}
		up = hsfq_node(q, n->up);
		sfq_wake(&n->member, &up->order);
		hsfq_insert(q, &up->members, i, n->member.start - sfq_cost(HSFQ_FIRST, n->weight));
		i = n->up;
	}
}

/* The packet in @slot is now the last one of @leaf. */
static inline policy_own_frame void hsfq_enter(struct hsfq *q, u32 leaf, u32 slot, u64 now)
{
	policy_takes_stack(48);
	struct hsfq_packet *p = hsfq_packet(q, slot);
	struct hsfq_node *n = hsfq_node(q, leaf);
	u32 i = leaf, k, counts = hsfq_counts(p->bytes);

	p->next = 0;
	if (n->last)
		hsfq_packet(q, n->last)->next = slot;
	else
		n->first = slot;
	n->last = slot;
	policy_for(k, 0, HSFQ_LEVELS)
	{
		n = hsfq_node(q, i);
		n->packets++;
		n->held += counts;
		if (!n->up)
			break;
		i = n->up;
	}
	hsfq_ready(q, leaf, now);
}

/* The packet in @slot, of @bytes, comes to @leaf, behind those that are there. */
static inline void hsfq_add(struct hsfq *q, u32 leaf, u32 slot, u32 bytes, u64 now)
{
	u32 alone = q->alone;

	hsfq_packet(q, slot)->since = now;
	hsfq_packet(q, slot)->bytes = bytes;
	if (!alone && !hsfq_node(q, HSFQ_ROOT)->packets && !q->ceilings) {
		q->alone = slot;
		q->leaf_of_alone = leaf;
		return;
	}
	if (alone) {
		q->alone = 0;
		hsfq_enter(q, q->leaf_of_alone, alone, now);
	}
	hsfq_enter(q, leaf, slot, now);
}

/*
 * Late nodes whose time has come are ready again. At most HSFQ_RELEASED at once: the next call goes
 * on.
 */
static inline policy_own_frame void hsfq_release(struct hsfq *q, u64 now)
{
	policy_takes_stack(48);
	u32 k;

	policy_for(k, 0, HSFQ_RELEASED)
	{
		u32 i = q->late;

		if (!i || time_before(now, heap_at(q->heap, i)->key))
			break;
		hsfq_remove(q, &q->late, i);
		hsfq_ready(q, i, now);
	}
}

/* When the first late node may send; 0: there is none. */
static inline u64 hsfq_late(struct hsfq *q)
{
	return q->late ? heap_at(q->heap, q->late)->key : 0;
}

/* The leaf whose packet is next. 0: there is no packet. */
static inline policy_own_frame u32 hsfq_first(struct hsfq *q)
{
	policy_takes_stack(32);
	u32 i = HSFQ_ROOT, k;

	if (q->alone)
		return q->leaf_of_alone;
	policy_for(k, 0, HSFQ_LEVELS)
	{
		struct hsfq_node *n = hsfq_node(q, i);

		if (n->is_leaf)
			return n->first ? i : 0;
		i = n->members;
		if (!i)
			break;
	}
	return 0;
}

/*
 * Takes the first packet from @leaf, which has one. Returns its slot, which is still in use: the
 * caller frees it. hsfq_charge() has to follow.
 */
static inline u32 hsfq_pop(struct hsfq *q, u32 leaf)
{
	struct hsfq_node *n = hsfq_node(q, leaf);
	u32 slot = n->first;

	if (q->alone)
		return q->alone;
	n->first = hsfq_packet(q, slot)->next;
	if (!n->first)
		n->last = 0;
	return slot;
}

/* Counts a packet of the leaf @n: it was sent after @delay ns, or dropped. */
static inline void hsfq_count(struct hsfq_node *n, bool is_sent, u32 bytes, u64 delay)
{
	if (!is_sent) {
		n->dropped++;
		return;
	}
	n->sent_bytes += bytes;
	n->sent_packets++;
	n->delay_ns += delay;
	if (n->most_ns < delay)
		n->most_ns = delay;
}

/* A packet was not admitted to @leaf. */
static inline void hsfq_refused(struct hsfq *q, u32 leaf)
{
	hsfq_node(q, leaf)->dropped++;
}

/* A packet of @bytes has left @leaf, and all nodes above it. */
static inline policy_own_frame void hsfq_leave(struct hsfq *q, u32 leaf, u32 bytes, bool is_sent,
					       u64 now)
{
	policy_takes_stack(96);
	u32 i = leaf, k;

	policy_for(k, 0, HSFQ_LEVELS)
	{
		struct hsfq_node *n = hsfq_node(q, i), *up;

		n->packets--;
		n->held -= hsfq_counts(bytes);
		if (!n->up)
			break;
		up = hsfq_node(q, n->up);
		hsfq_remove(q, &up->members, i);
		if (is_sent) {
			sfq_run(&n->member, &up->order);
			sfq_charge(&n->member, bytes, n->weight);
			if (n->ceiling.rate)
				shaper_sent(&n->ceiling, bytes, now);
		}
		if (!n->first && !n->members)
			sfq_sleep(&n->member, &up->order, !up->members);
		else if (shaper_is_open(&n->ceiling, now))
			hsfq_insert(q, &up->members, i, n->member.start);
		else {
			hsfq_insert(q, &q->late, i, n->ceiling.next);
			sfq_sleep(&n->member, &up->order, !up->members);
		}
		i = n->up;
	}
}

/* hsfq_charge() of the packet that is alone. */
static inline void hsfq_charge_alone(struct hsfq *q, u32 leaf, u32 slot, bool is_sent, u64 now)
{
	const struct hsfq_packet *p = hsfq_packet(q, slot);

	hsfq_count(hsfq_node(q, leaf), is_sent, p->bytes, now - p->since);
	q->alone = 0;
}

/*
 * The packet in @slot, which was popped from @leaf, is sent at @now (@is_sent), or dropped. A
 * dropped packet costs its domain nothing.
 */
static inline void hsfq_charge(struct hsfq *q, u32 leaf, u32 slot, bool is_sent, u64 now)
{
	bool is_alone = q->alone;

	hsfq_charge_alone(q, leaf, slot, is_sent, now);
	if (!is_alone)
		hsfq_leave(q, leaf, hsfq_packet(q, slot)->bytes, is_sent, now);
}

/* May node @i be given to another domain or flow (5)? The root may not. */
static inline bool hsfq_forgettable(struct hsfq *q, u32 i)
{
	const struct hsfq_node *n = hsfq_node(q, i);

	if (q->alone && q->leaf_of_alone == i)
		return false;
	return n->up && !n->children && !n->packets && !n->ceiling.rate &&
	       !time_before(hsfq_node(q, n->up)->order.now, n->member.start);
}

/*
 * Node @i, which is free, is now @domain's (and @flow's), a member of @up. Its start tag is that of
 * a node that was idle for long.
 */
static inline void hsfq_become(struct hsfq *q, u32 i, u32 up, u64 domain, u32 flow, u32 weight,
			       bool is_leaf)
{
	struct hsfq_node *n = hsfq_node(q, i);

	__builtin_memset(n, 0, sizeof(*n));
	n->up = up;
	n->domain = domain;
	n->flow = flow;
	n->weight = weight;
	n->is_leaf = is_leaf;
	if (up) {
		n->member.start = hsfq_node(q, up)->order.now;
		hsfq_node(q, up)->children++;
	}
}

/* From now on node @i sends @rate bytes a second at most; 0: as many as it can. */
static inline void hsfq_set_ceiling(struct hsfq *q, u32 i, u64 rate)
{
	if (rate)
		q->ceilings = 1;
	hsfq_node(q, i)->ceiling.rate = rate;
}

/* Node @i, which has a parent and no members, is free. Its counts are its parent's (8). */
static inline void hsfq_forget(struct hsfq *q, u32 i)
{
	struct hsfq_node *n = hsfq_node(q, i), *up = hsfq_node(q, n->up);

	up->children--;
	up->sent_bytes += n->sent_bytes;
	up->sent_packets += n->sent_packets;
	up->dropped += n->dropped;
	up->delay_ns += n->delay_ns;
	if (up->most_ns < n->most_ns)
		up->most_ns = n->most_ns;
	__builtin_memset(n, 0, sizeof(*n));
}

#endif /* APLOMB_POLICY_HSFQ_H */
