/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/disk_share.bpf.h - shares of the disks that are reserved for domains: which domain has which
 * group of policy/cello.h.
 *
 * Source: Eclipse (Bruno et al. 1998), section 6.3.
 *
 * A domain below one with a share draws on that share, unless it has one itself. The shares count
 * on each disk. The daemon sets them (domain_set in layers/domain_server.bpf.h) from the
 * attributes of the cgroup's directory.
 */
#ifndef APLOMB_TREE_DISK_SHARE_BPF_H
#define APLOMB_TREE_DISK_SHARE_BPF_H

#include "policy/cello.h"
#include "tree/node.bpf.h"

/* 1: disks are ordered. Otherwise nothing of this file and of disk/ but dirty limits runs. */
SETTING u32 disk_order;

struct disk_share {
	u32 slot; /* of the domain; 0: the group is free */
	u32 ppm;  /* of a disk's time */
};

/* Indices: the groups. Only those of domains are used. Under tree_lock. */
struct disk_share disk_shares[NR_CELLO_GROUPS];
u32 nr_disk_shares;      /* domains with one */
u32 disk_shares_version; /* another after each change */

/* Finds the group on which each domain draws. Called after each change. */
VERIFIED_ONCE int disk_share_pass_on(void)
{
	u32 i, used = nr_domain_slots;

	bpf_for(i, 0, used) {
		u32 k, at = i, group = 0;

		bpf_for(k, 0, MAX_DEPTH + 1) {
			group = branch(at)->disk_own;
			if (group || !at)
				break;
			at = branch(at)->parent;
		}
		branch(i)->disk_group = group;
	}
	__sync_fetch_and_add(&disk_shares_version, 1);
	return 0;
}

/*
 * Reserves @ppm of each disk's time for domain @slot, of cgroup @id; 0: none. Returns 0; -ENOENT:
 * the cgroup has just gone; -ENOSPC: others have reserved too much; -EMFILE: all groups are taken.
 * @told: what others have reserved, and the most that may be, ppm.
 */
static __always_inline s32 disk_share_set(u32 slot, u64 id, u32 ppm, u32 told[2])
{
	u32 i, taken = 0, group = 0;
	struct branch *b = branch(slot);
	s32 err = 0;

	bpf_spin_lock(&tree_lock);
	bpf_for(i, 0, NR_CELLO_GROUPS) {
		struct disk_share *s = &disk_shares[i & (NR_CELLO_GROUPS - 1)];

		if (!cello_is_domain(i))
			continue;
		if (!s->slot && !group)
			group = i;
		if (s->slot && s->slot != slot)
			taken += s->ppm;
	}
	if (b->disk_own)
		group = b->disk_own;
	if (b->cgid != id) {
		err = -ENOENT;
	} else if (ppm && !cello_fits(taken, ppm)) {
		err = -ENOSPC;
	} else if (ppm && !group) {
		err = -EMFILE;
	} else if (ppm || b->disk_own) {
		struct disk_share *s = &disk_shares[group & (NR_CELLO_GROUPS - 1)];

		nr_disk_shares += (ppm != 0) - (b->disk_own != 0);
		s->slot = ppm ? slot : 0;
		s->ppm = ppm;
		b->disk_own = ppm ? group : 0;
	}
	bpf_spin_unlock(&tree_lock);
	told[0] = taken;
	told[1] = CELLO_LIMIT_PPM;
	if (!err)
		disk_share_pass_on();
	return err;
}

/* Domain @slot ends: its share is free. */
VERIFIED_ONCE int disk_share_end(u32 slot)
{
	struct branch *b = branch(slot);
	struct disk_share *s;

	bpf_spin_lock(&tree_lock);
	s = &disk_shares[b->disk_own & (NR_CELLO_GROUPS - 1)];
	if (b->disk_own) {
		nr_disk_shares--;
		s->slot = 0;
		s->ppm = 0;
		b->disk_own = 0;
	}
	bpf_spin_unlock(&tree_lock);
	disk_share_pass_on();
	return 0;
}

#endif /* APLOMB_TREE_DISK_SHARE_BPF_H */
