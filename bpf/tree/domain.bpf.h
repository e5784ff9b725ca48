/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/domain.bpf.h - the table of domains: a cgroup gets one, its weight and limit change, it
 * goes.
 *
 * A domain is a cgroup v2 directory with the CPU controller; there is no second tree beside the
 * kernel's. tree/cgroups.bpf.h has the callbacks. The policy and the reservation of a domain come
 * from the daemon, which reads them from the directory's extended attributes
 * (tree/domain_set.bpf.h, layers/domain_server.bpf.h).
 *
 * Limits: beyond MAX_DOMAINS cgroups, beyond MAX_OWNED_DOMAINS of one user, or deeper than
 * MAX_DEPTH, a cgroup has no domain of its own. Its tasks are members of the nearest ancestor's
 * domain (EV_LIMIT).
 */
#ifndef APLOMB_TREE_DOMAIN_BPF_H
#define APLOMB_TREE_DOMAIN_BPF_H

#include "park/account.bpf.h"
#include "tree/domain_of.bpf.h"
#include "tree/limit.bpf.h"
#include "tree/owner.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_DOMAINS);
	__type(value, u32);
} free_domains SEC(".maps");

static __always_inline u32 scaled_weight(u32 weight, bool idle)
{
	return idle ? WEIGHT_IDLE : weight * WEIGHT_UNIT;
}

/* Has domain @slot, or one above it, a cpu.max? Called with tree_lock held. */
static __noinline bool is_limited(u32 slot)
{
	TAKES_STACK(16);
	u32 k, at = slot;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		if (branch(at)->quota.quota_ns)
			return true;
		if (!at)
			break;
		at = branch(at)->parent;
	}
	return false;
}

/*
 * Sets the cpu.max of domain @slot, and `limited` of all domains: limits change seldom. (A domain
 * that is created meanwhile is among these, or sees the new limit itself, under the same lock.)
 */
VERIFIED_ONCE int domain_limit(u32 slot, u64 now, u64 period_us, u64 quota_us, u64 burst_us)
{
	struct branch *b = branch(slot);
	u64 quota = quota_us >= ~0ULL / NSEC_PER_USEC ? 0 : quota_us * NSEC_PER_USEC;
	u32 i, used;
	bool release;

	bpf_spin_lock(&tree_lock);
	quota_set(&b->quota, now, quota, period_us * NSEC_PER_USEC, burst_us * NSEC_PER_USEC);
	release = b->throttled && !quota_throttled(&b->quota);
	if (release)
		unthrottle(slot, now);
	used = nr_domain_slots;
	bpf_spin_unlock(&tree_lock);
	bpf_for(i, 0, used) {
		bpf_spin_lock(&tree_lock);
		branch(i)->limited = is_limited(i);
		bpf_spin_unlock(&tree_lock);
	}
	if (release)
		wake_idle();
	return 0;
}

/* Domain @slot begins as a child of @parent. Called with tree_lock held. */
static __always_inline void branch_init(u32 slot, u64 id, u32 parent, u32 weight, bool idle)
{
	struct branch *b = branch(slot), *up = branch(parent);

	__builtin_memset(b, 0, sizeof(*b));
	__builtin_memset(park_account(slot), 0, sizeof(struct park_account));
	__builtin_memset(member(MEMBER_OF(slot)), 0, sizeof(struct member));
	__builtin_memset(member(MEMBER_OWN(slot)), 0, sizeof(struct member));
	b->cgid = id;
	b->slot = slot;
	b->parent = parent;
	b->depth = up->depth + 1;
	b->state = DOMAIN_LIVE;
	b->cpu_weight = weight;
	b->idle = idle;
	b->limited = is_limited(parent);
	b->draws_on = up->draws_on;
	b->disk_group = up->disk_group;
	b->leaf_epoch = ++leaf_epochs;
	ran_alone[slot & (DOMAIN_SLOTS - 1)].ns = 0;
	member(MEMBER_OWN(slot))->weight = WEIGHT_OWN;
	member(MEMBER_OF(slot))->weight = scaled_weight(weight, idle);
	up->weight_sum += scaled_weight(weight, idle);
	up->children++;
}

/*
 * Creates a domain for cgroup @id below @parent, which counts in row @owner. Returns its slot, or 0
 * if none is left.
 */
VERIFIED_ONCE u32 domain_create(u64 id, u32 parent, u32 weight, bool idle, u32 owner)
{
	u32 slot = 0;

	if (bpf_map_pop_elem(&free_domains, &slot))
		return 0;
	slot &= DOMAIN_SLOTS - 1;
	if (scx_bpf_dsq_nr_queued(DSQ_DOMAIN(slot)) < 0 &&
	    scx_bpf_create_dsq(DSQ_DOMAIN(slot), -1)) {
		bpf_map_push_elem(&free_domains, &slot, 0);
		return 0;
	}
	bpf_spin_lock(&tree_lock);
	branch_init(slot, id, parent, weight, idle);
	branch(slot)->owner = owner;
	if (nr_domain_slots <= slot)
		nr_domain_slots = slot + 1;
	bpf_spin_unlock(&tree_lock);
	return slot;
}

/* The root and SLOT_PASSING, when the scheduler is loaded. */
static __always_inline s32 domains_init(void)
{
	u32 i, passing = SLOT_PASSING;
	s32 err = scx_bpf_create_dsq(DSQ_DOMAIN(SLOT_ROOT), -1);

	if (!err)
		err = scx_bpf_create_dsq(DSQ_DOMAIN(SLOT_PASSING), -1);
	if (!err)
		err = scx_bpf_create_dsq(DSQ_RESCUE, -1);
	if (err)
		return err;
	branches[SLOT_ROOT].state = DOMAIN_LIVE;
	branches[SLOT_ROOT].cpu_weight = SHARE_WEIGHT;
	members[MEMBER_OWN(SLOT_ROOT)].weight = WEIGHT_OWN;
	nr_domain_slots = 1;
	bpf_for(i, 0, MAX_DOMAINS + 1) {
		u32 slot = MAX_DOMAINS - i; /* so that the lowest is taken first; 0 is the root's */
		struct domain *d = bpf_map_lookup_elem(&domains, &slot);

		if (!d)
			break;
		err = bpf_timer_set_callback(&d->timer, limit_timer);
		if (err)
			return err;
		if (slot && bpf_map_push_elem(&free_domains, &slot, 0))
			return -ENOSPC;
	}
	branch(passing)->slot = passing;
	branch(passing)->depth = 1;
	member(MEMBER_OF(passing))->weight = WEIGHT_OWN;
	member(MEMBER_OWN(passing))->weight = WEIGHT_OWN;
	return 0;
}

/* The cgroup of domain @slot has gone: its parent no longer counts it as a child. */
VERIFIED_ONCE int domain_detach(u32 slot)
{
	struct branch *b = branch(slot), *up = branch(b->parent);

	bpf_spin_lock(&tree_lock);
	up->children--;
	up->weight_sum -= member(MEMBER_OF(slot))->weight;
	up->reserved_sum -= member(MEMBER_OF(slot))->reserved_ppm;
	b->cgid = 0;
	bpf_spin_unlock(&tree_lock);
	return 0;
}

/* Frees the slot of a domain whose cgroup has gone, once none of its tasks waits any more. */
VERIFIED_ONCE int domain_bury(u32 slot)
{
	struct branch *b = branch(slot);
	u32 owner = b->owner;
	bool free;

	if (b->state != DOMAIN_GONE)
		return 0;
	bpf_spin_lock(&tree_lock);
	free = b->state == DOMAIN_GONE && !b->waiting && !b->heap;
	if (free) {
		b->state = DOMAIN_FREE;
		alone_inherit(slot);
	}
	bpf_spin_unlock(&tree_lock);
	if (free) {
		domain_owner_leave(owner);
		bpf_map_push_elem(&free_domains, &slot, 0);
	}
	return 0;
}

/* Sets cpu.weight and cpu.idle of domain @slot. */
VERIFIED_ONCE int reweigh(u32 slot, u32 weight, bool idle)
{
	struct member *m = member(MEMBER_OF(slot));
	struct branch *b = branch(slot), *up = branch(b->parent);

	bpf_spin_lock(&tree_lock);
	b->cpu_weight = weight;
	b->idle = idle;
	up->weight_sum -= m->weight;
	m->weight = scaled_weight(weight, idle);
	up->weight_sum += m->weight;
	bpf_spin_unlock(&tree_lock);
	return 0;
}

#endif /* APLOMB_TREE_DOMAIN_BPF_H */
