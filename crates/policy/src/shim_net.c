/* SPDX-License-Identifier: GPL-2.0 */
/* shim_net.c - the policies of packets for the host: see shim.c. */
#include <stddef.h>
#include <stdlib.h>

#include "codel.h"
#include "hsfq.h"
#include "shaper.h"

#define AT(type, field) offsetof(struct type, field)

const size_t policy_layout_codel[] = {
	sizeof(struct codel), AT(codel, above),   AT(codel, next),        AT(codel, count),
	AT(codel, entry),     AT(codel, inverse), AT(codel, is_dropping),
};

bool policy_codel_drops(struct codel *c, u64 waited, u64 now, u64 target, bool is_short)
{
	return codel_drops(c, waited, now, target, is_short);
}

const size_t policy_layout_shaper[] = {
	sizeof(struct shaper),
	AT(shaper, rate),
	AT(shaper, overhead),
	AT(shaper, next),
};

bool policy_shaper_is_open(const struct shaper *s, u64 now)
{
	return shaper_is_open(s, now);
}

void policy_shaper_sent(struct shaper *s, u32 bytes, u64 now)
{
	shaper_sent(s, bytes, now);
}

const u32 policy_hsfq_constants[] = { HSFQ_ROOM, HSFQ_LEAST, HSFQ_PACKETS, HSFQ_LEVELS };

struct hsfq *policy_hsfq_new(void)
{
	return calloc(1, sizeof(struct hsfq));
}

void policy_hsfq_drop(struct hsfq *q)
{
	free(q);
}

/* The leaf of the packet that is alone, or 0; *bytes: the packet's. */
u32 policy_hsfq_alone(struct hsfq *q, u32 *bytes)
{
	*bytes = hsfq_packet(q, q->alone)->bytes;
	return q->alone ? q->leaf_of_alone : 0;
}

const struct hsfq_node *policy_hsfq_node(struct hsfq *q, u32 i)
{
	return hsfq_node(q, i);
}

const size_t policy_layout_hsfq_node[] = {
	sizeof(struct hsfq_node),  AT(hsfq_node, packets), AT(hsfq_node, held),
	AT(hsfq_node, sent_bytes), AT(hsfq_node, dropped), AT(hsfq_node, delay_ns),
};

void policy_hsfq_become(struct hsfq *q, u32 i, u32 up, u32 weight, bool is_leaf)
{
	hsfq_become(q, i, up, i, 0, weight, is_leaf);
}

bool policy_hsfq_forget(struct hsfq *q, u32 i)
{
	if (!hsfq_forgettable(q, i))
		return false;
	hsfq_forget(q, i);
	return true;
}

/* As a packet comes: returns its slot, 0 if it was refused, or ~0 if there was room but no slot. */
u32 policy_hsfq_come(struct hsfq *q, u32 leaf, u32 bytes, u64 now)
{
	u32 slot;

	if (!hsfq_admit(q, leaf, bytes)) {
		hsfq_refused(q, leaf);
		return 0;
	}
	slot = hsfq_slot(q);
	if (!slot)
		return ~0U;
	hsfq_add(q, leaf, slot, bytes, now);
	return slot;
}

void policy_hsfq_ceiling(struct hsfq *q, u32 i, u64 rate)
{
	hsfq_set_ceiling(q, i, rate);
}

u64 policy_hsfq_late(struct hsfq *q)
{
	return hsfq_late(q);
}

/* As the link is free: returns the leaf, 0 if there is no packet; *slot: that of the packet. */
u32 policy_hsfq_go(struct hsfq *q, bool is_sent, u64 now, u32 *slot)
{
	u32 leaf;

	hsfq_release(q, now);
	leaf = hsfq_first(q);
	if (!leaf)
		return 0;
	*slot = hsfq_pop(q, leaf);
	hsfq_charge(q, leaf, *slot, is_sent, now);
	hsfq_free(q, *slot);
	return leaf;
}
