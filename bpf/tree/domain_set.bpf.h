/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/domain_set.bpf.h - what the daemon asks of a domain: its policy, its fraction of the
 * machine, and a look at all domains.
 *
 * Policy and reservation are extended attributes of the cgroup's directory. The daemon reads them;
 * the kernel knows nothing of them. The program that the daemon runs to change them is domain_set
 * (layers/domain_server.bpf.h), since a reservation may need a server too. A change that is refused
 * changes nothing.
 */
#ifndef APLOMB_TREE_DOMAIN_SET_BPF_H
#define APLOMB_TREE_DOMAIN_SET_BPF_H

#include "tree/disk_share.bpf.h"
#include "tree/limit.bpf.h"
#include "tree/queue.bpf.h"

/* Tasks that one change of a policy gives new places. More tasks keep the places that they had. */
#define MAX_REQUEUED (1 << 16)

/*
 * Is domain @i domain @slot itself, or a child of it? Either gives @slot a member: its own tasks,
 * or the child (set_policy()).
 */
static __always_inline bool is_in(u32 i, u32 slot)
{
	return i == slot || (i && branch(i)->parent == slot);
}

/* From now on @policy orders the members of domain @slot. */
VERIFIED_ONCE int set_policy(u32 slot, u32 policy)
{
	struct branch *b = branch(slot);
	u32 i, used = nr_domain_slots;

	bpf_spin_lock(&tree_lock);
	bpf_for(i, 0, used) {
		u32 m = i == slot ? MEMBER_OWN(slot) : MEMBER_OF(i);

		if (!is_in(i, slot))
			continue;
		member(m)->mtr.token = 0; /* members join anew if MTR-LS is chosen again */
		if (in_heap(m)) {
			member_remove(b, m);
			member(m)->reinsert = 1;
		}
	}
	b->policy = policy;
	b->reordered = 1;
	tree_ordered |= policy == DOMAIN_MTR || policy == DOMAIN_WRR;
	b->leaf_epoch = ++leaf_epochs;
	b->own_sum = 0;
	b->own_sfq.now = 0;
	b->own_sfq.last = 0;
	bpf_for(i, 0, used) {
		u32 m = i == slot ? MEMBER_OWN(slot) : MEMBER_OF(i);

		if (!is_in(i, slot) || !member(m)->reinsert)
			continue;
		member(m)->reinsert = 0;
		member_wake(b, m, WAKES_UP);
		member_insert(b, m);
	}
	bpf_spin_unlock(&tree_lock);
	return 0;
}

/*
 * @p, at @it in the queue of domain @slot, gets the place that the domain's policy, which is new,
 * gives it. While its `queued` flag is cleared no other CPU takes it; it stays counted.
 */
static __always_inline void requeue_task(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					 u32 slot)
{
	struct task_ctx *t = task_ctx(p);
	struct branch *b = branch(slot);
	u32 queued = t ? unqueue(t) : 0;
	u64 key;

	if (!queued)
		return;
	bpf_spin_lock(&tree_lock);
	leaf_enter(t, slot & (DOMAIN_SLOTS - 1), true);
	key = leaf_has_members(b) ? leaf_key(b, t) : branch_start(b);
	bpf_spin_unlock(&tree_lock);
	scx_bpf_dsq_move_set_vtime(it, key);
	scx_bpf_dsq_move_vtime(it, p, DSQ_DOMAIN(slot), 0);
	tree_untake(t, queued); /* it is there still, moved or not */
}

/*
 * After set_policy(), gives the tasks in domain @slot's queue new places. Their virtual times are
 * those of the old policy, with which a task might never be first under the new one.
 */
VERIFIED_ONCE int requeue(u32 slot)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	bpf_rcu_read_lock(); /* a sleepable program does not hold it */
	if (!bpf_iter_scx_dsq_new(&it, DSQ_DOMAIN(slot), 0)) {
		bpf_for(i, 0, MAX_REQUEUED) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			requeue_task(&it, p, slot);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * Reserves @ppm of the machine for domain @slot, of cgroup @id. Returns 0; -ENOENT: the cgroup has
 * just gone; -ENOSPC: there is no room; -EINVAL: the domains below it have reserved more. @told:
 * what others have reserved beside it, and the most that may be reserved there, ppm.
 */
static __always_inline s32 set_fraction(u32 slot, u64 id, u32 ppm, u32 told[2])
{
	struct member *m = member(MEMBER_OF(slot));
	struct branch *b = branch(slot), *up = branch(b->parent);
	u32 taken, limit;
	s32 err = 0;

	bpf_spin_lock(&tree_lock);
	taken = up->reserved_sum - m->reserved_ppm;
	limit = b->depth == 1 ? SHARE_LIMIT_PPM : member(MEMBER_OF(b->parent))->reserved_ppm;
	if (b->cgid != id) {
		err = -ENOENT;
	} else if (ppm && !share_fits(taken, ppm, limit)) {
		err = -ENOSPC;
	} else if (ppm < b->reserved_sum) {
		err = -EINVAL;
	} else {
		up->reserved_sum = taken + ppm;
		m->reserved_ppm = ppm;
	}
	bpf_spin_unlock(&tree_lock);
	told[0] = taken;
	told[1] = limit;
	return err;
}

/*
 * The fraction of the machine that is due to domain @slot while all others want theirs too, ppm.
 * (Own tasks of a domain with children count as a member only while there are any.)
 */
static __always_inline u64 domain_share(u32 slot)
{
	u64 share = PPM;
	u32 k, at = slot;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		const struct member *m = member(MEMBER_OF(at));
		struct branch *up = branch(branch(at)->parent);

		if (!at)
			break;
		share = share *
			share_ppm(m->reserved_ppm, up->reserved_sum, branch_ppm(up), m->weight,
				  up->weight_sum) /
			PPM;
		at = branch(at)->parent;
	}
	return share;
}

/* What domain @slot ran alone is CPU time of it and of all above it. */
static __noinline int show_alone(u32 slot)
{
	TAKES_STACK(16);
	u64 ns = ran_alone[slot & (DOMAIN_SLOTS - 1)].ns;
	u32 k, at = slot;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct domain *d = bpf_map_lookup_elem(&domains, &at);

		if (d)
			d->info.ran_ns += ns;
		if (!at)
			break;
		at = branch(at)->parent;
	}
	return 0;
}

/* Brings what user space sees of all domains (map `domains`) up to date. */
SEC("syscall")
int domain_refresh(void *unused)
{
	u32 i, used = nr_domain_slots;

	bpf_for(i, 0, used) {
		u32 slot = i;
		struct domain *d = bpf_map_lookup_elem(&domains, &slot);
		struct branch *b = branch(slot);

		if (!d)
			break;
		d->info.cgid = b->cgid;
		d->info.ran_ns = b->ran_ns;
		d->info.throttled_ns = b->throttled_ns;
		d->info.throttled = b->throttled_times;
		d->info.quota_ns = b->quota.quota_ns;
		d->info.period_ns = b->quota.period_ns;
		d->info.burst_ns = b->quota.burst_ns;
		d->info.runtime_ns = b->runtime_ns;
		d->info.interval_ns = b->interval_ns;
		d->info.disk_ppm = disk_shares[b->disk_own & (NR_CELLO_GROUPS - 1)].ppm;
		d->info.reserved_ppm = slot ? member(MEMBER_OF(slot))->reserved_ppm : 0;
		d->info.weight = b->cpu_weight;
		d->info.idle = b->idle;
		d->info.policy = b->policy;
		d->info.state = b->state;
		d->info.slot = slot;
		d->info.parent = b->parent;
		d->info.depth = b->depth;
		d->info.children = b->children;
		d->info.waiting = (s32)b->waiting > 0 ? b->waiting : 0;
		d->info.is_throttled = b->throttled;
		d->info.share_ppm = domain_share(slot);
		__builtin_memcpy(d->info.parked_ns, park_account(slot)->ns,
				 sizeof(d->info.parked_ns));
		__builtin_memcpy(d->info.parked, park_account(slot)->times, sizeof(d->info.parked));
		d->info.parks_cut = park_account(slot)->cut;
	}
	bpf_for(i, 0, used)
		if (branch(i)->state != DOMAIN_FREE)
			show_alone(i);
	return 0;
}

#endif /* APLOMB_TREE_DOMAIN_SET_BPF_H */
