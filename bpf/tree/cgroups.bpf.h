/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/cgroups.bpf.h - the tree follows the cgroups: ops.cgroup_* of those with the CPU controller.
 *
 * The kernel calls them when such a cgroup is created, when a task is moved, and when cpu.weight,
 * cpu.max or cpu.idle is written. ops.cgroup_exit is in layers/domain_server.bpf.h, since the
 * removal of a cgroup also gives back its domain's server.
 */
#ifndef APLOMB_TREE_CGROUPS_BPF_H
#define APLOMB_TREE_CGROUPS_BPF_H

#include "kernel/cgroup_owner.bpf.h"
#include "kernel/kfuncs.bpf.h"
#include "kernel/ops.bpf.h"
#include "state/events.bpf.h"
#include "tree/domain.bpf.h"
#include "tree/queue.bpf.h"

/*
 * Is @cgrp the one below which the daemon keeps memory domains (MEMORY_CGROUP)? Programs are moved
 * there for their memory alone. It is no domain, so they keep their place in the tree of shares,
 * also where the root gives its children the CPU controller.
 */
static __always_inline bool is_memory_only(struct cgroup *cgrp)
{
	char name[sizeof(MEMORY_CGROUP)] = {};

	return cgrp->level == 1 &&
	       bpf_probe_read_kernel_str(name, sizeof(name), cgrp->kn->name) == sizeof(name) &&
	       !__builtin_memcmp(name, MEMORY_CGROUP, sizeof(name));
}

/*
 * Creates a domain for @cgrp, a child of cgroup @up_id, whose domain is @parent. Returns its slot.
 * 0: there is none, and the tasks of @cgrp belong to its nearest ancestor's (slot_of()). mkdir is
 * never refused.
 */
static __always_inline u32 cgroup_domain(struct cgroup *cgrp, u64 up_id, u32 parent, u32 weight)
{
	u32 slot = 0, limit = 0, owner, uid = cgroup_owner(cgrp);
	u64 id = cgrp->kn->id;

	/*
	 * Below a cgroup without a domain of its own no cgroup gets one: otherwise order and depth
	 * of the tree would differ from those of the cgroups.
	 */
	if (branch(parent)->depth >= MAX_DEPTH) {
		limit = MAX_DEPTH;
	} else if (branch(parent)->cgid == up_id) {
		owner = domain_owner_join(uid);
		limit = owner == OWNER_FULL ? MAX_OWNED_DOMAINS : MAX_DOMAINS;
		if (owner != OWNER_FULL)
			slot = domain_create(id, parent, weight, cgroup_is_idle(cgrp), owner);
		if (owner != OWNER_FULL && !slot)
			domain_owner_leave(owner);
	}
	if (slot && bpf_map_update_elem(&domain_of, &id, &slot, 0)) {
		domain_detach(slot);
		branch(slot)->state = DOMAIN_GONE;
		domain_bury(slot);
		slot = 0;
	}
	if (!slot)
		emit_plain(EV_LIMIT, (u64)uid << 32 | limit, id, branch(parent)->cgid);
	return slot;
}

s32 OPS_SLEEPABLE(aplomb_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	u64 id = cgrp->kn->id, up_id;
	u32 slot = SLOT_ROOT, parent;
	struct cgroup *up;

	if (!cgrp->level) {
		branches[SLOT_ROOT].cgid = id;
		bpf_map_update_elem(&domain_of, &id, &slot, 0);
		return 0;
	}
	if (is_memory_only(cgrp))
		return 0; /* its tasks are the root's */
	up = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (!up)
		return 0; /* its tasks are the root's */
	parent = slot_of(up);
	up_id = up->kn->id;
	bpf_cgroup_release(up);
	slot = cgroup_domain(cgrp, up_id, parent, args->weight);
	if (!slot)
		return 0;
	if (!tree_on) {
		tree_legacy = 1;
		tree_on = 1;
	}
	if (bpf_core_field_exists(args->bw_quota_us) && args->bw_quota_us != ~0ULL)
		domain_limit(slot, bpf_ktime_get_ns(), args->bw_period_us, args->bw_quota_us,
			     args->bw_burst_us);
	return 0;
}

/*
 * @p is about to be moved to another cgroup. Its context is allocated here, where that may sleep
 * and fail. (It stays with the task, so there is nothing to undo if the move is cancelled.)
 */
s32 OPS_SLEEPABLE(aplomb_cgroup_prep_move, struct task_struct *p, struct cgroup *from,
		  struct cgroup *to)
{
	return bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

/* @p is in another cgroup. If it is runnable it is enqueued there next. */
void OPS(aplomb_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *t = task_ctx(p);

	if (t)
		domain_join(p, t, slot_of(to));
}

void OPS(aplomb_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	u32 slot = slot_of(cgrp);

	if (slot && branch(slot)->cgid == cgrp->kn->id)
		reweigh(slot, weight, branch(slot)->idle);
}

void OPS(aplomb_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	u32 slot = slot_of(cgrp);

	if (slot && branch(slot)->cgid == cgrp->kn->id)
		reweigh(slot, branch(slot)->cpu_weight, idle);
}

void OPS(aplomb_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
	 u64 burst_us)
{
	u32 slot = slot_of(cgrp);

	if (slot && branch(slot)->cgid == cgrp->kn->id)
		domain_limit(slot, bpf_ktime_get_ns(), period_us, quota_us, burst_us);
}

#endif /* APLOMB_TREE_CGROUPS_BPF_H */
