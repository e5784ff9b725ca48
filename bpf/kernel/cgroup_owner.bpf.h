/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/cgroup_owner.bpf.h - to which user a cgroup belongs.
 */
#ifndef APLOMB_CGROUP_OWNER_BPF_H
#define APLOMB_CGROUP_OWNER_BPF_H

#include "kernel/cgroup.bpf.h"

/*
 * To which user id @cgrp belongs: the owner of the highest directory on the way to it
 * that is not root's. That is the user to which root has delegated the tree, whichever of its
 * subordinate ids (subuid(5)) owns a directory further down. 0: all are root's.
 */
static __noinline u32 cgroup_owner(struct cgroup *cgrp)
{
	TAKES_STACK(48);
	u32 i, level = cgrp->level, uid = 0;

	bpf_for(i, 1, CGROUP_LEVELS) {
		struct cgroup *up = i <= level ? cgroup_above(cgrp, i) : NULL;
		struct kernfs_iattrs *attributes;

		if (!up)
			break;
		attributes = BPF_CORE_READ(up, kn, iattr);
		if (attributes)
			uid = BPF_CORE_READ(attributes, ia_uid.val);
		if (uid)
			break;
	}
	return uid;
}

#endif /* APLOMB_CGROUP_OWNER_BPF_H */
