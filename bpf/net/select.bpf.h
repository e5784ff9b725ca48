/* SPDX-License-Identifier: GPL-2.0 */
/*
 * net/select.bpf.h - queues: members of a domain that take some of the domain's own packets.
 *
 * Source: QLinux 2.3 (hsfq_link_createq, hsfq_link_attachq).
 *
 * 1. Which packets. A selector is a domain, a kind and a value. A packet whose sender's cgroup is
 *    that domain, and no other, goes to the selector's queue if its socket has that mark (SO_MARK)
 *    or priority (SO_PRIORITY). The domain is a part of the key. So no process can choose a queue
 *    of another domain, whatever it writes on its sockets.
 *
 * 2. Attached sockets. User space gives a socket a priority of the range ATTACHED, which takes
 *    CAP_NET_ADMIN or CAP_NET_RAW. It is selected as any other priority is. So the kernel side has
 *    no list of sockets, and nothing is left of one that was closed.
 *
 * 3. Several that fit: the attachment goes before the mark, and the mark before the priority.
 *
 * 4. What it costs. Without any selector: nothing. With some: a domain that has none looks once
 *    more at the node of a known flow (leaf.bpf.h), and in the map for a new one. A domain with
 *    queues looks into the map up to three times for each packet.
 */
#ifndef APLOMB_NET_SELECT_BPF_H
#define APLOMB_NET_SELECT_BPF_H

#include "net/types.bpf.h"

/* The id of a queue has this bit, which no cgroup's id has. */
#define QUEUE_ID (1ULL << 63)
/* Priorities of attached sockets: all that begin with these 20 bits. */
#define ATTACHED 0xa9100U

enum {
	SELECT_ALL = 0, /* not a selector: how many selectors the domain has; its value is 0 */
	SELECT_MARK = 1,
	SELECT_PRIORITY = 2,
	/* of 1,024 queues: an attachment, mark and priority each; a count for each domain */
	SELECTORS = 4096,
};

struct selector {
	u64 domain; /* a cgroup's id */
	u32 kind;
	u32 value;
};

/* The queue's id, or of SELECT_ALL the count. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SELECTORS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct selector);
	__type(value, u64);
} net_selectors SEC(".maps");

u64 selectors; /* in the map, of all domains. User space changes it, one call at a time. */

static __always_inline bool is_queue(u64 id)
{
	return id & QUEUE_ID;
}

/* What @kind and @value select in @domain; 0: nothing. */
static __always_inline u64 selected(u64 domain, u32 kind, u32 value)
{
	struct selector key = { .domain = domain, .kind = kind, .value = value };
	u64 *found = bpf_map_lookup_elem(&net_selectors, &key);

	return found ? *found : 0;
}

/* The queue for a packet of @domain's own; 0: it has none. */
static __noinline u64 queue_of(u64 domain, u32 mark, u32 priority)
{
	TAKES_STACK(64);
	u64 queue = 0;

	if (!selected(domain, SELECT_ALL, 0))
		return 0;
	if (priority >> 12 == ATTACHED)
		queue = selected(domain, SELECT_PRIORITY, priority);
	if (!queue && mark)
		queue = selected(domain, SELECT_MARK, mark);
	if (!queue && priority)
		queue = selected(domain, SELECT_PRIORITY, priority);
	return queue;
}

/* @key selects @queue from now on; 0: nothing. Returns 0, or -errno. */
static __noinline s32 select_queue(struct selector *key, u64 queue)
{
	TAKES_STACK(96);
	struct selector all = { .domain = key->domain, .kind = SELECT_ALL };
	u64 before = selected(key->domain, key->kind, key->value), count;
	s32 failed = 0;

	if (queue)
		failed = bpf_map_update_elem(&net_selectors, key, &queue, 0);
	else if (before)
		bpf_map_delete_elem(&net_selectors, key);
	if (failed || !before == !queue)
		return failed;
	count = selected(key->domain, SELECT_ALL, 0) + (queue ? 1 : -1);
	selectors += queue ? 1 : -1;
	if (count)
		return bpf_map_update_elem(&net_selectors, &all, &count, 0);
	bpf_map_delete_elem(&net_selectors, &all);
	return 0;
}

#endif /* APLOMB_NET_SELECT_BPF_H */
