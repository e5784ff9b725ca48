/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/domain_of.bpf.h - which domain a cgroup has.
 */
#ifndef APLOMB_TREE_DOMAIN_OF_BPF_H
#define APLOMB_TREE_DOMAIN_OF_BPF_H

#include "tree/node.bpf.h"

/*
 * The domain of each cgroup: cgroup id to slot. Beyond the limits several cgroups have the same
 * one. The map has room for four times as many cgroups as there are slots; more belong to the root.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * MAX_DOMAINS);
	__type(key, u64);
	__type(value, u32);
} domain_of SEC(".maps");

/* The domain of the cgroup with this id. */
static __always_inline u32 slot_of_id(u64 id)
{
	u32 *slot = bpf_map_lookup_elem(&domain_of, &id);

	return slot ? *slot : SLOT_ROOT;
}

static __always_inline u32 slot_of(struct cgroup *cgrp)
{
	return slot_of_id(cgrp->kn->id);
}

#endif /* APLOMB_TREE_DOMAIN_OF_BPF_H */
