/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/limit.bpf.h - cpu.max: no more than a quota in each period, for a domain and all below it.
 *
 * Source: Documentation/scheduler/sched-bwc.rst (what cpu.max promises); policy/quota.h. sched_ext tells the limits to
 * its scheduler and enforces none of them.
 *
 * 1. Model. A CPU that takes a task of a limited domain claims time of it and of each limited one above, at most a
 *    slice, and a timer of the CPU ends it (state/timer.bpf.h). What was not used is given back. So all CPUs together
 *    never have more than there is; what a late timer ran too much is a debt.
 *
 * 2. Control. Who has nothing left is throttled: it leaves its parent's heap, so nobody comes to it or to what is below
 *    it, and a timer brings it back at the next period.
 *
 *        in the heap --- nothing is left ---> [throttled] --- period begins, or time is given back ---> in the heap
 *
 *    Tasks that run without a choice of the tree's claim when they begin: those that may run on some CPUs only, and those
 *    that a higher class of the kernel's had interrupted. If nothing is left they make way at once. What a reserved
 *    task runs by right is no claim: it is a debt.
 *
 * 3. Where a task may be stopped. One that was preempted in the kernel may hold a lock there that others need, so it
 *    has to go on, at its domain's expense, until it returns to user mode. There a task work parks it: only
 *    parked tasks wait in a throttled domain's queue. The others wait in that of a domain of their own, SLOT_PASSING (who was
 *    queued before: park/passing.bpf.h), which has the weight of one plain domain below the root. Kernels without task work for BPF (before 7.0)
 *    stop tasks where they are, as their own cpu.max did until then. Before 6.17 nobody tells us limits at all.
 */
#ifndef APLOMB_LIMIT_BPF_H
#define APLOMB_LIMIT_BPF_H

#include "state/timer.bpf.h"
#include "tree/tree.bpf.h"

/*
 * A turn of one of those ends after so long at most, ns, and it is asked for its park anew: the last time may have been in vain
 * (a task work of the same id was not over yet), and it would compute on at its domain's expense.
 */
#define PASSING_TURN_NS NSEC_PER_MSEC
/* With less than this left, ns, a domain that was throttled stays so until its next period. */
#define LEAST_GRANT_NS (20 * NSEC_PER_USEC)

struct domain {
	struct domain_info info; /* first: this is what user space reads, after domain_refresh */
	struct bpf_timer timer;  /* end of its throttling */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_DOMAINS + 1);
	__type(key, u32);
	__type(value, struct domain);
} domains SEC(".maps");

/* Task works under way, by thread id: of two with the same rest the later one is parked at its next turn. */
#define PARKS 4096

struct park {
	struct bpf_task_work work;
	s32 pid; /* whose work it is, or was last */
};

/* In task_ctx.parked: is the task known to be at its return to user mode, where cpu.max may keep it off the CPU? */
enum parked {
	PARK_NONE = 0,
	PARK_HERE = 1,   /* in park_here() */
	PARK_LEAVES = 2, /* it was; there still if its task work is not over */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PARKS);
	__type(key, u32);
	__type(value, struct park);
} parks SEC(".maps");

/*
 * The current task, at its return to user mode: it holds no lock, and gives up the CPU. It does so here, at the end of
 * bpf_preempt_enable(): a moment later it may be in its next system call. So for the whole park it is in a BPF
 * callback: what BPF frees may wait for it (rcu_tasks_trace; others' RCU does not), and it may not migrate.
 */
static int park_here(struct bpf_map *map, void *key, void *value)
{
	struct task_ctx *t = task_ctx(bpf_get_current_task_btf());

	if (!t)
		return 0;
	t->parked = PARK_HERE;
	bpf_preempt_disable(); /* the kick takes effect for this task, and where it is to */
	scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	bpf_preempt_enable();
	t->parked = PARK_LEAVES;
	return 0;
}

/*
 * Have @p parked when it returns to user mode. False: it is to stop where it is. This kernel cannot, or @p never returns there, or
 * is there: it got time, was preempted again before its last task work was over (the kernel puts it and sets it anew as it may
 * migrate again, and another CPU takes the rest of its time meanwhile), and cannot have another one yet.
 */
static __noinline bool park_later(struct task_struct *p, struct task_ctx *t)
{
	u32 i = p->pid & (PARKS - 1);
	struct park *park = bpf_map_lookup_elem(&parks, &i);
	int err;

	if (!park || (p->flags & (PF_KTHREAD | PF_EXITING)) || !task_work_exists())
		return false;
	err = task_work_resume(p, &park->work, &parks, park_here);
	if (!err) {
		park->pid = p->pid;
		t->parked = PARK_NONE;
	}
	/* any other failure is tried again at its next turn */
	return err != -EBUSY || park->pid != p->pid || t->parked != PARK_LEAVES;
}

/* Is domain @slot, or one above it, throttled? Without the lock: a guess, for who will ask again. */
VERIFIED_ONCE int path_throttled(u32 slot)
{
	u32 k, at = slot, found = 0;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		found = branch(at)->throttled;
		if (found || !at)
			break;
		at = branch(at)->parent;
	}
	return found;
}

/* Domain @slot has no time left: out of its parent's heap. With tree_lock held; then limit_timer_start(). Inline: see
 * tree_dispatch. */
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

/*
 * Claim up to @want ns for a task of domain @slot. 0: the domain *@blocked has none, and is throttled now. Called
 * with tree_lock held.
 */
static __noinline u64 claim_time(u32 slot, u64 now, u64 want, u32 *blocked)
{
	u32 k, at = slot;

	bpf_for(k, 0, MAX_DEPTH + 1) {
		struct branch *b = branch(at);

		quota_roll(&b->quota, now);
		if (quota_throttled(&b->quota)) {
			*blocked = at;
			throttle(at, now);
			return 0;
		}
		if (b->quota.quota_ns && b->quota.left < (s64)want)
			want = b->quota.left;
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
 * Domain @slot has time again. With tree_lock held. It keeps its place for a slice (sfq_go_on): else it might get its time
 * so late that a part of it falls into the next period.
 */
static __always_inline void unthrottle(u32 slot, u64 now)
{
	struct branch *b = branch(slot);

	b->throttled = 0;
	b->throttled_ns += now - b->throttled_since;
	tree_released = 1;
	member(MEMBER_OF(slot))->released = 1;
	if (b->heap)
		climb(slot, GOES_ON, SLOT_NONE);
	member(MEMBER_OF(slot))->released = 0;
}

/*
 * A task of domain @slot ran for @used ns of the @granted. With tree_lock held. The lowest domain on the way that has no
 * time left is throttled and returned (one: each needs its timer; those above follow at their next claim); or SLOT_NONE.
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
				   quota_throttled(&b->quota)) {
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

/* Does anybody wait in a lane of @cpu? */
VERIFIED_ONCE int pinned_waiting(u32 cpu)
{
	u32 k;

	bpf_for(k, 0, cpu_ctx(cpu)->tree.nr_lanes) {
		if (scx_bpf_dsq_nr_queued(DSQ_PINNED(cpu, k)))
			return true;
	}
	return false;
}

/* Does anybody in a lane of any CPU? */
VERIFIED_ONCE int tied_wait(void)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		if (pinned_waiting(i))
			return true;
	}
	return false;
}

/*
 * Domains have time again: wake idle CPUs, one for each task that waits for any CPU, if there are; or all, if some wait in
 * lanes: which CPUs may take those is not known here.
 */
VERIFIED_ONCE int wake_idle(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	struct cpu_ctx *c = cpu_ctx(bpf_get_smp_processor_id());
	u32 i;

	tree_released = 0; /* first: who is released from now on is not seen here */
	c->tree.to_wake =
		tree_waiting + scx_bpf_dsq_nr_queued(DSQ_FAIR) + scx_bpf_dsq_nr_queued(DSQ_RESCUE);
	if (nr_cpus > 1 && tied_wait())
		c->tree.to_wake = nr_cpus;
	bpf_for(i, 0, nr_cpus) {
		s32 idle;

		if (!c->tree.to_wake)
			break;
		idle = scx_bpf_pick_idle_cpu(online, 0);
		if (idle < 0)
			break;
		if (!cpu_ctx(idle)->online) /* about to go, it counts as idle still */
			continue;
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		c->tree.to_wake--;
	}
	scx_bpf_put_cpumask(online);
	return 0;
}

/* The next period of a throttled domain begins, or it is no more limited. */
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

/* Domain @slot is throttled: its timer goes off when it need not be; and those that wait in it are looked at (park/passing.bpf.h). */
static __noinline void limit_timer_start(u32 slot)
{
	struct domain *d = bpf_map_lookup_elem(&domains, &slot);
	struct timer_slot *pass;
	u32 zero = 0;

	if (d)
		bpf_timer_start(&d->timer, branch(slot)->quota.refill, BPF_F_TIMER_ABS);
	if (!task_work_exists() || !branch(slot)->heap)
		return;
	pass = bpf_map_lookup_elem(&pass_timer, &zero);
	if (pass)
		bpf_timer_start(&pass->timer, 0, 0);
}

#endif /* APLOMB_LIMIT_BPF_H */
