/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/domain_of.bpf.h - which domain a cgroup has.
 *
 * A cgroup without a domain of its own (cgroup_domain()) has no row in the map either: otherwise
 * one user could fill the map with such cgroups, and those that come later would have no domain.
 * The domain of such a cgroup is that of its nearest ancestor with a domain. The ancestors are
 * asked each time, at most MAX_DEPTH of them: where there is a domain there is one at each level
 * above it.
 */
#ifndef APLOMB_TREE_DOMAIN_OF_BPF_H
#define APLOMB_TREE_DOMAIN_OF_BPF_H

#include "kernel/cgroup.bpf.h"
#include "tree/node.bpf.h"

_Static_assert(CGROUP_LEVELS == MAX_DEPTH + 1, "the levels of all domains, and the root's");

/* Cgroup id to slot, of the cgroups that have a domain of their own, and the root */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DOMAINS + 1);
	__type(key, u64);
	__type(value, u32);
} domain_of SEC(".maps");

/* The domain of the nearest of @cgrp's ancestors that has one. */
static __noinline u32 slot_above(struct cgroup *cgrp)
{
	TAKES_STACK(48);
	u32 i, level = cgrp->level, below = level < CGROUP_LEVELS ? level : CGROUP_LEVELS;

	bpf_for(i, 1, CGROUP_LEVELS) {
		struct cgroup *up = i < below ? cgroup_above(cgrp, below - i) : NULL;
		u64 id;
		u32 *slot;

		if (!up)
			break;
		id = BPF_CORE_READ(up, kn, id);
		slot = bpf_map_lookup_elem(&domain_of, &id);
		if (slot)
			return *slot;
	}
	return SLOT_ROOT;
}

/* The domain to which the tasks of @cgrp belong. */
static __always_inline u32 slot_of(struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	u32 *slot = bpf_map_lookup_elem(&domain_of, &id);

	return slot ? *slot : slot_above(cgrp);
}

#endif /* APLOMB_TREE_DOMAIN_OF_BPF_H */
