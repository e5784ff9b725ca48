/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/owner.bpf.h - how many domains the cgroups of one user have.
 *
 * 1. Why. A user to which a cgroup is delegated may create as many below it as it likes. Without a
 *    limit it could take all MAX_DOMAINS slots. Then a container that starts later has no domain,
 *    and its cpu.max no effect.
 *
 * 2. Model. Each domain counts for the user that cgroup_owner() finds when the domain begins, until
 *    the domain's slot is free again. The domain's branch keeps the row, so a chown in between
 *    changes nothing. Root's row is 0, which has no limit.
 *
 * Limits. DOMAIN_OWNERS rows. The users of further ones share the last, and its limit.
 * (reserved/owner.bpf.h has the same for servers. The rows are others, since folders that are
 * neighbours share nothing.)
 */
#ifndef APLOMB_TREE_OWNER_BPF_H
#define APLOMB_TREE_OWNER_BPF_H

#include "intf.h"
#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"

#define DOMAIN_OWNERS 256 /* a power of two */
#define OWNER_ROOT 0      /* the row without a limit */
#define OWNER_LAST (DOMAIN_OWNERS - 1)
#define OWNER_FULL DOMAIN_OWNERS /* no row: the user has MAX_OWNED_DOMAINS domains */

struct domain_owner {
	u32 uid;
	u32 domains; /* 0: the row is free */
};

/* Protects `domain_owners`. Not tree_lock: a look at all rows would keep each switch waiting. */
struct bpf_spin_lock domain_owners_lock SEC(".data.owners") __hidden __attribute__((aligned(8)));
struct domain_owner domain_owners[DOMAIN_OWNERS];

static __always_inline struct domain_owner *domain_owner_at(u32 row)
{
	return &domain_owners[row & (DOMAIN_OWNERS - 1)];
}

/* The row of user @uid, which has one more domain from now on; OWNER_FULL: it may have no more. */
static __always_inline u32 domain_owner_join(u32 uid)
{
	u32 i, row = OWNER_ROOT, empty = OWNER_LAST;

	if (!uid)
		return OWNER_ROOT;
	bpf_spin_lock(&domain_owners_lock);
	bpf_for(i, 0, OWNER_LAST) {
		const struct domain_owner *o = domain_owner_at(i);

		if (i == OWNER_ROOT)
			continue;
		if (!o->domains)
			empty = empty == OWNER_LAST ? i : empty;
		else if (o->uid == uid)
			row = i;
	}
	if (row == OWNER_ROOT)
		row = empty;
	if (domain_owner_at(row)->domains >= MAX_OWNED_DOMAINS) {
		row = OWNER_FULL;
	} else {
		domain_owner_at(row)->uid = uid;
		domain_owner_at(row)->domains++;
	}
	bpf_spin_unlock(&domain_owners_lock);
	return row;
}

/* A domain that counted in @row has ended. */
static __always_inline void domain_owner_leave(u32 row)
{
	if (row == OWNER_ROOT)
		return;
	bpf_spin_lock(&domain_owners_lock);
	domain_owner_at(row)->domains--;
	bpf_spin_unlock(&domain_owners_lock);
}

#endif /* APLOMB_TREE_OWNER_BPF_H */
