/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/cache.bpf.h - several caches: a task stays with its data unless that costs others too much.
 *
 * Source: ours. The kernel's load balancer and scx_layered have costs of a migration instead.
 *
 * 1. Why. Any CPU takes the first task of a domain's queue. Where all CPUs are busy, a task goes on
 *    at whichever is free first, in half of all cases beside another of two caches. So 17 loops on
 *    two caches of eight CPUs changed the cache 500 times a second, and found nothing there.
 *
 * 2. Model. A task that used up its slice waits for a CPU of the cache where it ran. A CPU of
 *    another cache passes it over: it takes the next one that ran beside its own cache, or lets its
 *    own task go on. It does so while the virtual time of that one is no more than CACHE_LAG_NS
 *    later than that of the first. If there is none, it takes the first all the same: no CPU is
 *    idle.
 *
 * 3. Bound. A CPU that passes a task over runs another one, whose virtual time grows. So after
 *    CACHE_LAG_NS of that at most, and a slice, the task is taken. One that is heavier than nice 0
 *    would run for longer for it, of nice -20 90 times as long: its lag is as much less. So each
 *    other one has CACHE_LAG_NS of CPU time and a slice at most before the task, also while all
 *    CPUs of its own cache are busy with other things. Where one cache has a loop more than
 *    another, each loop has what it is due, to that lag and a slice.
 *
 *    A task that wakes up is not passed over. It has little in the cache, and its work may be
 *    short: with a rule that passed over these too, tasks of 0.5 ms beside loops had a third of
 *    their CPU time.
 *
 * 4. Limits. Within a domain only, and with its tasks in order of virtual time: MTR-LS, WRR and
 *    fifo keep theirs. Which domain is next is not asked about caches.
 */
#ifndef APLOMB_TREE_CACHE_BPF_H
#define APLOMB_TREE_CACHE_BPF_H

#include "kernel/peek.bpf.h"
#include "tree/leaf.bpf.h"
#include "tree/place.bpf.h"

/*
 * Trade: with less, loops change the cache more often (17 on two caches of eight CPUs 30 times a
 * second with 4 ms, 10 times with 8); with more, those that wait stay first in the queue for
 * longer, and tasks that wake up do not overtake them: of 0.5 ms beside loops they had a fifth less
 * with 8.
 */
#define CACHE_LAG_NS FAIR_SLICE_NS

#define NO_CPU (~0ULL)

static __always_inline bool same_cache(u32 a, u32 b)
{
	return cpu_caches[a & (MAX_CPUS - 1)] == cpu_caches[b & (MAX_CPUS - 1)];
}

/* Where @p ran, if it waits for a CPU of the same cache; else NO_CPU. */
static __always_inline u64 cache_place(struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);

	return t && !t->woke ? (u32)task_cpu(p) : NO_CPU;
}

LOOK_AT_FIRST(first_cache_place, p, cache_place(p))

/* Does @p wait for a CPU of another cache than @cpu's? */
static __always_inline bool waits_elsewhere(struct task_struct *p, u32 cpu)
{
	u64 at = cache_place(p);

	return at != NO_CPU && !same_cache(at, cpu);
}

/*
 * @cpu has claimed domain @leaf. Returns 0 if it takes the first task there; else the virtual time
 * of that task, which it passes over if another one is no later than cache_limit().
 */
static __always_inline u64 cache_passes(u32 leaf, u32 cpu)
{
	u64 queue = DSQ_DOMAIN(leaf), at;

	if (!caches_differ || leaf == SLOT_PASSING || !leaf_is_fair(branch(leaf)))
		return 0;
	at = first_cache_place(queue, NO_CPU);
	if (at == NO_CPU || same_cache(at, cpu))
		return 0;
	return first_vtime(queue, 0);
}

/* The latest virtual time of a task of @weight for which a task with virtual time @first waits. */
static __always_inline u64 cache_limit(u64 first, u32 weight)
{
	return first + fair_scaled(CACHE_LAG_NS, weight);
}

#endif /* APLOMB_TREE_CACHE_BPF_H */
