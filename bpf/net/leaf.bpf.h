/* SPDX-License-Identifier: GPL-2.0 */
/*
 * net/leaf.bpf.h - the leaf of a packet: by the cgroup of its sender, its queue, and its flow.
 *
 * Source: QLinux 2.3; its packet classifiers are the kernel's record of each socket's cgroup.
 *
 * 1. Which. The domain is the cgroup in which the process was when it made the socket. Packets
 *    without a socket (forwarded, or the kernel's own) are the domain 0, a member of the root.
 *
 * 2. The tree grows by need. A cgroup gets its node with its first packet, and so do the cgroups
 *    above it. User space has no part in it, so no packet waits for it. The way of a packet to its
 *    leaf is then one look-up, or none if the leaf had a packet not long ago (`recent`).
 *
 *        (id, FLOW_INNER)        what the cgroup and those below it send
 *        (id, FLOW_OWN)          what its own processes send: a leaf, or with `by_flow` the parent
 *        (id, FLOW_FIRST + n)    of the flows whose hash is n
 *
 *    A queue of the domain (net/select.bpf.h) is beside the domain's own packets: a node
 *    (queue's id, FLOW_OWN) below (id, FLOW_INNER), with its flows below it.
 *
 * 3. At the limit. The hand of a clock goes over the nodes, looks at NODES_LOOKED_AT of them, and
 *    takes the first one that is free or has nothing to remember (hsfq.h 5). If there is none, the
 *    packet goes to the leaf LEAF_OF_REST, which all such packets share, and is counted.
 *
 * All of it runs under the lock of the interface's qdisc.
 */
#ifndef APLOMB_NET_LEAF_BPF_H
#define APLOMB_NET_LEAF_BPF_H

#include "kernel/cgroup.bpf.h"
#include "net/select.bpf.h"
#include "net/types.bpf.h"
#include "policy/hsfq.h"

enum {
	FLOW_INNER = 0,
	FLOW_OWN = 1,
	FLOW_FIRST = 2,
	FLOWS = 1024,         /* of a domain: of 32 flows, two share a node in every second case */
	LEAF_OF_REST = 2,     /* its node; always there */
	RECENT = 256,         /* leaves that are found without a look-up, a power of two */
	NODES_LOOKED_AT = 64, /* for a new node: some microseconds at most */
};

struct node_key {
	u64 domain; /* or queue */
	u32 flow;
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HSFQ_NODES);
	__type(key, struct node_key);
	__type(value, u32);
} node_of SEC(".maps");

struct net_setting {
	u64 rate;   /* its ceiling, bytes a second; 0: none */
	u32 weight; /* 1 to HSFQ_MAX_WEIGHT */
	u32 unused;
};

/* What is set: of the cgroup, or queue, with that id. User space removes those of the dead. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096 + 1024); /* domains, and queues */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct net_setting);
} net_settings SEC(".maps");

SETTING u32 by_flow = 1; /* the flows of a domain share what it has; 0: one queue */

struct hsfq queue;
u32 hand;           /* the node that was looked at last */
u32 nodes;          /* nodes above this one were never in use */
u64 no_nodes;       /* packets that went to LEAF_OF_REST, because there was no node for them */
u32 recent[RECENT]; /* nodes; by domain and flow */
/* Of a node (id, FLOW_INNER): the domain has selectors, or had some. Of others it is not read. */
u8 has_selectors[HSFQ_NODES];

static __always_inline u32 find_node(u64 domain, u32 flow)
{
	struct node_key key = { .domain = domain, .flow = flow };
	u32 *i = bpf_map_lookup_elem(&node_of, &key);

	return i ? *i : 0;
}

/*
 * find_node() of the packets that came last: saves most look-ups, which are a tenth of a packet's
 * time here. A node that is another's by now says so itself.
 */
static __always_inline u32 find_recent(u64 domain, u32 flow)
{
	u32 at = (domain + flow) & (RECENT - 1), i = recent[at];
	struct hsfq_node *n = hsfq_node(&queue, i);

	if (n->domain == domain && n->flow == flow)
		return i;
	i = find_node(domain, flow);
	recent[at] = i;
	return i;
}

/* A node for another domain or flow; 0: there is none. */
static __noinline u32 take_node(void)
{
	TAKES_STACK(64);
	u32 k;

	bpf_for(k, 0, NODES_LOOKED_AT) {
		struct node_key key = {};
		struct hsfq_node *n;

		hand = hand < LEAF_OF_REST || hand >= HSFQ_NODES - 1 ? LEAF_OF_REST + 1 : hand + 1;
		n = hsfq_node(&queue, hand);
		if (!n->domain && !n->flow) {
			if (nodes < hand)
				nodes = hand;
			return hand;
		}
		if (!hsfq_forgettable(&queue, hand))
			continue;
		key.domain = n->domain;
		key.flow = n->flow;
		bpf_map_delete_elem(&node_of, &key);
		hsfq_forget(&queue, hand);
		return hand;
	}
	return 0;
}

static __always_inline void set_has_selectors(u32 i, bool has)
{
	barrier_var(i); /* else clang drops the mask, which the verifier needs up to 6.18 */
	has_selectors[i & (HSFQ_NODES - 1)] = has;
}

/* The node of @domain (or queue) and @flow, made if need be below @up; 0: no room for it. */
static __noinline u32 node_below(u32 up, u64 domain, u32 flow)
{
	TAKES_STACK(96);
	struct node_key key = { .domain = domain, .flow = flow };
	u32 i = find_node(domain, flow);
	struct net_setting *set = NULL;
	bool is_leaf = flow != FLOW_INNER && (flow != FLOW_OWN || !by_flow);

	if (i || !up)
		return i;
	hsfq_node(&queue, up)->children++; /* so that it is not the one that is taken */
	i = take_node();
	hsfq_node(&queue, up)->children--;
	if (!i)
		return 0;
	set_has_selectors(i, false); /* before aplomb_net_select() can find the node */
	if (bpf_map_update_elem(&node_of, &key, &i, 0))
		return 0;
	if (flow == FLOW_INNER || (flow == FLOW_OWN && is_queue(domain)))
		set = bpf_map_lookup_elem(&net_settings, &domain);
	if (flow == FLOW_INNER && selectors && selected(domain, SELECT_ALL, 0))
		set_has_selectors(i, true);
	hsfq_become(&queue, i, up, domain, flow, set ? set->weight : HSFQ_WEIGHT, is_leaf);
	if (set)
		hsfq_set_ceiling(&queue, i, set->rate);
	return i;
}

/* The leaf of @flow of @domain (or queue), whose node FLOW_OWN is @own. */
static __always_inline u32 leaf_below(u32 own, u64 domain, u32 flow)
{
	u32 leaf = by_flow ? node_below(own, domain, flow) : own;

	if (leaf)
		return leaf;
	no_nodes++;
	return LEAF_OF_REST;
}

/*
 * The first packet of a flow: makes its leaf, and all nodes above that are not there yet. @member:
 * the id of the cgroup, or of its queue.
 */
static __noinline u32 make_leaf(struct cgroup *cgrp, u64 member, u32 flow)
{
	u32 level, i, up = HSFQ_ROOT;

	if (!member)
		return leaf_below(node_below(HSFQ_ROOT, 0, FLOW_OWN), 0, flow);
	level = BPF_CORE_READ(cgrp, level);
	bpf_for(i, 1, CGROUP_LEVELS) {
		struct cgroup *above = i <= level ? cgroup_above(cgrp, i) : NULL;

		if (!above)
			break;
		up = node_below(up, BPF_CORE_READ(above, kn, id), FLOW_INNER);
	}
	return leaf_below(node_below(up, member, FLOW_OWN), member, flow);
}

/* The cgroup of the process that made @skb's socket. NULL: it has none. */
static __always_inline struct cgroup *sender(const struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	u8 state;

	if (!sk)
		return NULL;
	state = sk->__sk_common.skc_state;
	if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV)
		return NULL;
	return sk->sk_cgrp_data.cgroup;
}

/* May a domain have selectors, of which @leaf is an own one? 0: it has none yet. */
static __always_inline bool may_be_selected(u32 leaf)
{
	u32 own = by_flow ? hsfq_node(&queue, leaf)->up : leaf;

	return !leaf || has_selectors[hsfq_node(&queue, own)->up & (HSFQ_NODES - 1)];
}

/* The leaf of @skb: never 0. */
static __always_inline u32 leaf_of(struct sk_buff *skb)
{
	struct cgroup *cgrp = sender(skb);
	u32 flow = by_flow ? FLOW_FIRST + bpf_skb_get_hash(skb) % FLOWS : FLOW_OWN;
	u64 member = cgrp ? cgrp->kn->id : 0;
	u32 leaf = find_recent(member, flow);

	if (selectors && member && may_be_selected(leaf)) {
		u64 id = queue_of(member, skb->mark, skb->priority);

		if (id) {
			member = id;
			leaf = find_recent(member, flow);
		}
	}
	return leaf ? leaf : make_leaf(cgrp, member, flow);
}

/* All nodes are forgotten, but the root and LEAF_OF_REST. */
static __noinline void forget_all(void)
{
	TAKES_STACK(32);
	u32 i;

	bpf_for(i, 1, HSFQ_NODES) {
		struct hsfq_node *n;
		struct node_key key = { 0 };

		barrier_var(i); /* else clang drops the mask, which the verifier needs up to 6.18 */
		n = hsfq_node(&queue, i);
		key.domain = n->domain;
		key.flow = n->flow;
		if (i > nodes && i > LEAF_OF_REST)
			break;
		bpf_map_delete_elem(&node_of, &key);
		__builtin_memset(n, 0, sizeof(*n));
		__builtin_memset(heap_at(queue.heap, i), 0, sizeof(struct heap_node));
	}
	queue.free = 0;
	queue.fresh = 0;
	queue.late = 0;
	queue.alone = 0;
	queue.ceilings = 0;
	nodes = LEAF_OF_REST;
	hand = LEAF_OF_REST;
	hsfq_become(&queue, HSFQ_ROOT, 0, 1, FLOW_INNER, HSFQ_WEIGHT, false);
	hsfq_become(&queue, LEAF_OF_REST, HSFQ_ROOT, 0, FLOW_OWN, HSFQ_WEIGHT, true);
}

#endif /* APLOMB_NET_LEAF_BPF_H */
