/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/limit.bpf.h - cpu.max: a domain and all below it get no more than a quota of CPU time in
 * each period.
 *
 * Source: Documentation/scheduler/sched-bwc.rst (what cpu.max promises); policy/quota.h. sched_ext
 * passes the limits on to its scheduler and enforces none of them. Before 6.17 it does not pass
 * them on.
 *
 * 1. Model. A CPU that takes a task of a limited domain claims time from the quota of that domain
 *    and of each limited one above it, at most a slice. A timer of the CPU ends the task when that
 *    time is over (state/timer.bpf.h). Unused time is given back. So all CPUs together never have
 *    more than the quota; what a task ran on because of a late timer is a debt.
 *
 * 2. Control. A domain whose quota is used up is throttled: it is removed from its parent's heap,
 *    so dispatch cannot reach it or any domain below it. A timer inserts it again when the next
 *    period starts.
 *
 *        in the heap --- quota used up ---> [throttled]
 *             ^                                  |
 *             +--- period starts, or time -------+
 *                  is given back
 *
 *    Two kinds of task start to run without a decision by the tree: pinned tasks, and tasks that
 *    resume after a higher scheduling class preempted them. They claim quota in ops.running. If
 *    none is left, they give up the CPU at once. Time that a reserved task runs by right is not
 *    claimed; it is a debt of its domain.
 *
 * 3. Where a task may be stopped. A task that was preempted in the kernel may hold a lock there
 *    that others need. So it has to go on, at its domain's expense, until it has landed
 *    (park/landing.bpf.h). Only landed tasks wait in a throttled domain's queue. The others wait in
 *    the queue of a pseudo-domain, SLOT_PASSING, which has the weight of one plain domain below the
 *    root. (Tasks that were queued before their domain was throttled: tree/passing.bpf.h.)
 */
#ifndef APLOMB_TREE_LIMIT_BPF_H
#define APLOMB_TREE_LIMIT_BPF_H

#include "park/account.bpf.h"
#include "state/timer.bpf.h"
#include "state/unstarted.bpf.h"
#include "tree/tree.bpf.h"
#include "tree/waiting.bpf.h"

/*
 * Longest turn of a SLOT_PASSING task, ns. After it the task is asked to land again, in case the
 * first request failed because a task work of the same thread id was not over. Longer: it computes
 * on at its domain's expense.
 */
#define PASSING_TURN_NS NSEC_PER_MSEC
/*
 * A throttled domain to which less than this is given back, ns, stays throttled until its next
 * period.
 */
#define LEAST_GRANT_NS (20 * NSEC_PER_USEC)

struct domain {
	struct domain_info info; /* first: this is what user space reads, after domain_refresh */
	struct bpf_timer timer;  /* ends its throttling */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_DOMAINS + 1);
	__type(key, u32);
	__type(value, struct domain);
} domains SEC(".maps");

/* Goes off when a domain is throttled in which tasks wait (tree/passing.bpf.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} pass_timer SEC(".maps");

/*
 * Domain @slot has no time left: it is removed from its parent's heap. Called with tree_lock held;
 * the caller then calls limit_timer_start(). Inline: see tree_dispatch.
 */
static __always_inline void throttle(u32 slot, u64 now)
{
	struct branch *b = branch(slot);

	if (b->throttled)
		return;
	b->throttled = 1;
	b->throttled_since = now;
	b->throttled_times++;
	if (in_heap(MEMBER_OF(slot))) {
		member_remove(branch(b->parent), MEMBER_OF(slot));
		sink(b->parent);
	}
}

/* Does the limit of domain @b hold back its tasks, now that so many CPUs are on line? */
static __always_inline bool is_bound(const struct branch *b)
{
	return quota_binds(&b->quota, nr_online ? nr_online : 1);
}

/*
 * Claims up to @want ns for a task of domain @slot. Returns 0 if the domain *@blocked has none
 * left, which is throttled now. Called with tree_lock held.
 */
static __noinline u64 claim_time(u32 slot, u64 now, u64 want, u32 *blocked)
{
	u32 k, at = slot;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		quota_roll(&b->quota, now);
		if (is_bound(b)) {
			if (quota_throttled(&b->quota)) {
				*blocked = at;
				throttle(at, now);
				return 0;
			}
			if (nr_cpus > 1 && quota_part(&b->quota) < want)
				want = quota_part(&b->quota);
			if (b->quota.left < (s64)want)
				want = b->quota.left;
		}
		if (!at)
			break;
		at = b->parent;
	}
	at = slot;
	bpf_for(k, 0, MAX_DEPTH + 1) {
		quota_claim(&branch(at)->quota, want);
		if (!at)
			break;
		at = branch(at)->parent;
	}
	return want;
}

/*
 * Domain @slot has time again. Called with tree_lock held. The domain keeps its place for a slice
 * (sfq_go_on): otherwise it could get its time so late that a part of it falls into the next
 * period.
 */
static __always_inline void unthrottle(u32 slot, u64 now)
{
	struct branch *b = branch(slot);

	b->throttled = 0;
	b->throttled_ns += now - b->throttled_since;
	b->released_at = now;
	tree_released = 1;
	member(MEMBER_OF(slot))->released = 1;
	if (b->heap)
		climb(slot, GOES_ON, SLOT_NONE);
	member(MEMBER_OF(slot))->released = 0;
}

/*
 * A task of domain @slot ran for @used ns of the @granted. Called with tree_lock held. Of the
 * domains on the way up that have no time left, the lowest is throttled and returned, or SLOT_NONE.
 * Only one, because the caller starts its timer; those above are throttled at their next claim.
 */
static __noinline u32 return_time(u32 slot, u64 now, u64 granted, u64 used)
{
	u32 k, at = slot, blocked = SLOT_NONE;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		if (b->quota.quota_ns) {
			quota_roll(&b->quota, now);
			quota_return(&b->quota, granted, used);
			if (b->throttled && b->quota.left >= (s64)LEAST_GRANT_NS) {
				unthrottle(at, now);
			} else if (blocked == SLOT_NONE && !b->throttled && used > granted &&
				   is_bound(b) && quota_throttled(&b->quota)) {
				throttle(at, now);
				blocked = at;
			}
		}
		if (!at)
			break;
		at = b->parent;
	}
	return blocked;
}

/*
 * The thread of @t waits in the queue of a throttled domain: it is parked.
 */
static __always_inline void throttled_begin(struct task_ctx *t)
{
	if (!t->throttled_since)
		t->throttled_since = bpf_ktime_get_ns();
}

/*
 * @p, which was parked by cpu.max, begins to run: charges the time until its domain was released.
 * A task that was rescued or recalled before that was parked until now.
 */
VERIFIED_ONCE int throttled_end(struct task_struct *p __arg_trusted)
{
	struct task_ctx *t = task_ctx(p);
	u64 now = bpf_ktime_get_ns(), end = 0;
	u32 k, at;

	if (!t)
		return 0;
	at = t->domain;
	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		if (!end || time_before(end, b->released_at))
			end = b->released_at;
		if (b->throttled)
			end = now;
		if (!at)
			break;
		at = b->parent;
	}
	if (!time_before(t->throttled_since, end))
		end = now;
	park_charge(p, t, PARK_CPU_MAX, end - t->throttled_since, now);
	t->throttled_since = 0;
	return 0;
}

/* The next period of a throttled domain begins, or its limit was removed. */
static int limit_timer(void *map, u32 *slot, struct domain *d)
{
	struct branch *b = branch(*slot);
	u64 now = bpf_ktime_get_ns(), again = 0;

	bpf_spin_lock(&tree_lock);
	quota_roll(&b->quota, now);
	if (b->throttled) {
		if (quota_throttled(&b->quota))
			again = b->quota.refill;
		else
			unthrottle(*slot, now);
	}
	bpf_spin_unlock(&tree_lock);
	if (again)
		bpf_timer_start(&d->timer, again, BPF_F_TIMER_ABS);
	else
		wake_idle();
	return 0;
}

/*
 * Domain @slot is throttled: starts its timer for the next period, and the look at its waiting
 * tasks (tree/passing.bpf.h).
 */
static __noinline void limit_timer_start(u32 slot)
{
	struct domain *d = bpf_map_lookup_elem(&domains, &slot);
	struct timer_slot *pass;
	u32 zero = 0;

	if (d)
		timer_start(&d->timer, TIMER_LIMIT, slot, branch(slot)->quota.refill,
			    BPF_F_TIMER_ABS);
	if (!task_work_exists() || !branch(slot)->heap)
		return;
	pass = bpf_map_lookup_elem(&pass_timer, &zero);
	if (pass)
		timer_start(&pass->timer, TIMER_ONE, TIMER_PASS, 0, 0);
}

/* Gives back time that was claimed for domain @slot and is not needed. */
VERIFIED_ONCE int tree_return(u32 slot, u64 granted)
{
	u64 now = bpf_ktime_get_ns();

	bpf_spin_lock(&tree_lock);
	return_time(slot, now, granted, 0);
	bpf_spin_unlock(&tree_lock);
	if (tree_released)
		wake_idle();
	return 0;
}

/*
 * A task of domain @slot, which has a cpu.max, begins to run without a choice of the tree: after a
 * higher scheduling class preempted it, or from a queue of one CPU. It claims its time now. Returns
 * the ns that it may run; 0: none.
 */
VERIFIED_ONCE u64 tree_resume(u32 slot)
{
	u64 now = bpf_ktime_get_ns(), granted;
	u32 blocked = SLOT_NONE;

	bpf_spin_lock(&tree_lock);
	granted = claim_time(slot, now, FAIR_SLICE_NS, &blocked);
	bpf_spin_unlock(&tree_lock);
	if (blocked != SLOT_NONE)
		limit_timer_start(blocked);
	return granted;
}

/*
 * The task that the tree chose begins to run on @c's CPU, or goes on there. If its time by cpu.max
 * or its turn is limited, the CPU's timer ends it. A grant that is not charged yet (fair_charge(),
 * no time run) adds to the new one.
 */
static __always_inline void grant_begin(struct cpu_ctx *c, u32 cpu, const struct pick *pick)
{
	u64 turn = pick->turn_ns, granted = pick->granted;
	u64 ends = turn && (!granted || turn < granted) ? turn : granted;

	c->tree.granted += granted;
	c->tree.limited = ends != 0;
	if (ends)
		cpu_timer_start(cpu, bpf_ktime_get_ns(), ends);
}

#endif /* APLOMB_TREE_LIMIT_BPF_H */
