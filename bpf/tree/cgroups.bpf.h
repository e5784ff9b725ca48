/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/cgroups.bpf.h - the tree follows the cgroups: those with the CPU controller come, and change their settings.
 *
 * cpu.weight, cpu.max and cpu.idle come from the kernel, by ops.cgroup_*, as they are written. A cgroup that goes also gives
 * back its domain's server: layers/domain_server.bpf.h.
 */
#ifndef APLOMB_TREE_CGROUPS_BPF_H
#define APLOMB_TREE_CGROUPS_BPF_H

#include "kernel/kernel.bpf.h"
#include "state/events.bpf.h"
#include "tree/domain.bpf.h"
#include "tree/queue.bpf.h"

s32 OPS_SLEEPABLE(aplomb_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	u64 id = cgrp->kn->id, up_id;
	u32 slot = 0, parent;
	struct cgroup *up;

	if (!cgrp->level) {
		branches[0].cgid = id;
		bpf_map_update_elem(&domain_of, &id, &slot, 0);
		return 0;
	}
	up = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (!up)
		return 0; /* it is the root's, for want of better knowledge */
	parent = slot_of(up);
	up_id = up->kn->id;
	bpf_cgroup_release(up);
	/*
	 * Below a cgroup that has no domain itself there are none either: order and depth would be another. What is not
	 * in the map counts as the root's: mkdir is never refused.
	 */
	if (!bpf_map_update_elem(&domain_of, &id, &parent, 0) && branch(parent)->cgid == up_id)
		slot = domain_create(id, parent, args->weight, cgroup_is_idle(cgrp));
	if (!slot) {
		emit_plain(EV_LIMIT, branch(parent)->depth >= MAX_DEPTH ? MAX_DEPTH : MAX_DOMAINS,
			   id, branch(parent)->cgid);
		return 0;
	}
	bpf_map_update_elem(&domain_of, &id, &slot, 0);
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
 * @p is about to be moved to another cgroup: what it will need is made ready here, where there may be waiting for memory and
 * a refusal. (It stays with the task: there is nothing to undo if the move is cancelled.)
 */
s32 OPS_SLEEPABLE(aplomb_cgroup_prep_move, struct task_struct *p, struct cgroup *from,
		  struct cgroup *to)
{
	return bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

/* @p is in another cgroup, and will be enqueued there if it is runnable. */
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
