/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/domain_set.bpf.h - what the daemon asks for: a domain's policy and reservation, and a look at all domains.
 *
 * They are extended attributes of the cgroup's directory, which the daemon reads; the kernel knows nothing of them.
 * The daemon runs the two programs (BPF_PROG_RUN); answers are in the arguments, and in the map `domains`. A change
 * that is refused changes nothing.
 */
#ifndef APLOMB_TREE_DOMAIN_SET_BPF_H
#define APLOMB_TREE_DOMAIN_SET_BPF_H

#include "tree/limit.bpf.h"
#include "tree/queue.bpf.h"

/* Tasks that one change of a policy puts in its order; more keep the places they had. */
#define MAX_REQUEUED (1 << 16)

/* Order the members of @slot by @policy from now on. */
VERIFIED_ONCE int set_policy(u32 slot, u32 policy)
{
	struct branch *b = branch(slot);
	u32 i, used = nr_domain_slots;

	bpf_spin_lock(&tree_lock);
	bpf_for(i, 0, used) {
		u32 m = i == slot ? MEMBER_OWN(slot) : MEMBER_OF(i);

		if (i != slot && (branch(i)->parent != slot || !i))
			continue;
		member(m)->mtr.token = 0; /* whoever was a member under MTR before joins anew */
		if (in_heap(m)) {
			member_remove(b, m);
			member(m)->reordered = 1;
		}
	}
	b->policy = policy;
	b->reordered = 1;
	b->leaf_epoch = ++leaf_epochs;
	b->own_sum = 0;
	b->own_sfq.now = 0;
	b->own_sfq.last = 0;
	bpf_for(i, 0, used) {
		u32 m = i == slot ? MEMBER_OWN(slot) : MEMBER_OF(i);

		if ((i != slot && (branch(i)->parent != slot || !i)) || !member(m)->reordered)
			continue;
		member(m)->reordered = 0;
		member_wake(b, m, WAKES_UP);
		member_insert(b, m);
	}
	bpf_spin_unlock(&tree_lock);
	return 0;
}

/*
 * The tasks that wait in @slot's queue get the places that its policy, which is new, gives them: what they had is in other
 * units, and who is behind by those might be so for ever.
 */
VERIFIED_ONCE int requeue(u32 slot)
{
	struct branch *b = branch(slot);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 i;

	bpf_rcu_read_lock(); /* a sleepable program has it not */
	if (!bpf_iter_scx_dsq_new(&it, DSQ_DOMAIN(slot), 0)) {
		bpf_for(i, 0, MAX_REQUEUED) {
			struct task_ctx *t;
			u32 queued;
			u64 key;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_ctx(p);
			queued = t ? unqueue(t)
				   : 0; /* nobody takes it meanwhile; it stays counted */
			if (!queued)
				continue;
			bpf_spin_lock(&tree_lock);
			leaf_enter(t, slot & (DOMAIN_SLOTS - 1), true);
			key = leaf_has_members(b) ? leaf_key(b, t) : branch_start(b);
			bpf_spin_unlock(&tree_lock);
			scx_bpf_dsq_move_set_vtime(&it, key);
			if (scx_bpf_dsq_move_vtime(&it, p, DSQ_DOMAIN(slot), 0) &&
			    !__sync_val_compare_and_swap(&t->queued, 0, queued))
				continue;
			bpf_spin_lock(&tree_lock); /* it left, and came back counted if it did */
			leave(queued - 1);
			bpf_spin_unlock(&tree_lock);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/* @told: what others have reserved beside it, and the most that may be, ppm. */
static __always_inline s32 set_fraction(u32 slot, u64 id, u32 ppm, u32 told[2])
{
	struct member *m = member(MEMBER_OF(slot));
	struct branch *b = branch(slot), *up = branch(b->parent);
	u32 taken, limit;
	s32 err = 0;

	bpf_spin_lock(&tree_lock);
	taken = up->reserved_sum - m->reserved_ppm;
	limit = b->depth == 1 ? SHARE_LIMIT_PPM : member(MEMBER_OF(b->parent))->reserved_ppm;
	if (b->cgid != id) { /* it has just gone */
		err = -ENOENT;
	} else if (ppm && !share_fits(taken, ppm, limit)) {
		err = -ENOSPC;
	} else if (ppm < b->reserved_sum) { /* what is below it has been promised more */
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

/* Bring what user space sees of all domains (map `domains`) up to date. */
SEC("syscall")
int domain_refresh(void *unused)
{
	u32 i, used = nr_domain_slots;

	bpf_for(i, 0, used) {
		u32 slot = i, k, at = i;
		struct domain *d = bpf_map_lookup_elem(&domains, &slot);
		struct branch *b = branch(slot);
		u64 share = PPM;

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
		bpf_for(k, 0, MAX_DEPTH + 1) {
			struct branch *up = branch(branch(at)->parent);

			if (!at)
				break;
			/* own tasks of a domain with children count as a member once there are any */
			share = share *
				share_ppm(member(MEMBER_OF(at))->reserved_ppm, up->reserved_sum,
					  branch_ppm(up), member(MEMBER_OF(at))->weight,
					  up->weight_sum) /
				PPM;
			at = branch(at)->parent;
		}
		d->info.share_ppm = share;
	}
	return 0;
}

#endif /* APLOMB_TREE_DOMAIN_SET_BPF_H */
