/* SPDX-License-Identifier: GPL-2.0 */
/*
 * park.h - for how long a task is kept off the CPU, when several resources ask for it.
 *
 * Source: ours.
 *
 * 1. Model. A park has a reason: the resource that asks for it. Each timed reason has an end of its
 *    own. The task goes on when the last one is over. PARK_CPU_MAX has no end here: the domain's
 *    period says it (tree/limit.bpf.h).
 *
 * 2. Bound. Together the timed reasons keep a task off the CPU for no longer than a bound, from the
 *    first request on until it runs again. A request for longer is cut. So a resource that always
 *    asks again cannot stop a task for good, and the kernel's watchdog (30 s) never sees a parked
 *    task.
 *
 *        first request                        later request
 *             |---------- reason A ----------------| (cut)
 *             |----------------- bound ------------|
 */
#ifndef APLOMB_POLICY_PARK_H
#define APLOMB_POLICY_PARK_H

#include "types.h"

enum park_reason {
	PARK_CPU_MAX = 0, /* its domain, or one above, has used up cpu.max */
	PARK_REQUEST = 1, /* root asked for it (aplomb park) */
	PARK_MEMORY = 2,  /* it takes memory while that is short (memory/low.bpf.h) */
	PARK_RESERVE = 3, /* it is interactive, and took the reserve too fast (policy/reserve.h) */
	PARK_START = 4,   /* it waits for its memory domain (memory/start.bpf.h) */
	PARK_DIRTY = 5,   /* its domain has too many dirty pages on a disk (policy/dirty.h) */
	PARK_DISK = 6,    /* a disk is for others now (policy/cello.h) */
	NR_PARK_REASONS = 7
};

#define PARK_BIT(reason) (1U << (reason))

/* What keeps one task off the CPU. */
struct park {
	u32 reasons;                /* PARK_BIT() of each timed reason that was asked for */
	u64 began;                  /* time of the first request, while there is one */
	u64 until[NR_PARK_REASONS]; /* end of each */
};

/*
 * @reason asks that the task is kept off the CPU until @until. A later end replaces an earlier one
 * of the same reason. Returns false if the request was cut to @bound ns from the first one.
 */
static inline bool park_ask(struct park *p, u32 reason, u64 now, u64 until, u64 bound)
{
	u64 latest;
	bool whole;

	if (reason >= NR_PARK_REASONS)
		return false;
	if (!p->reasons)
		p->began = now;
	latest = p->began + bound;
	whole = !time_before(latest, until);
	if (!whole)
		until = latest;
	if (!(p->reasons & PARK_BIT(reason)) || time_before(p->until[reason], until))
		p->until[reason] = until;
	p->reasons |= PARK_BIT(reason);
	return whole;
}

/* @reason is over, before its end. */
static inline void park_end(struct park *p, u32 reason)
{
	p->reasons &= ~PARK_BIT(reason);
}

/* Until when is the task kept off the CPU? Not after @now: it is not. */
static inline u64 park_until(const struct park *p, u64 now)
{
	u64 last = now;
	u32 i;

	for (i = 0; i < NR_PARK_REASONS; i++)
		if ((p->reasons & PARK_BIT(i)) && time_before(last, p->until[i]))
			last = p->until[i];
	return last;
}

/*
 * Of the time from @since to @now, in which the task was kept off the CPU, how much was for
 * @reason?
 */
static inline u64 park_time(const struct park *p, u32 reason, u64 since, u64 now)
{
	u64 end;

	if (reason >= NR_PARK_REASONS || !(p->reasons & PARK_BIT(reason)))
		return 0;
	end = time_before(p->until[reason], now) ? p->until[reason] : now;
	return time_before(since, end) ? end - since : 0;
}

/* The task runs again: those reasons that are over are forgotten. */
static inline void park_settle(struct park *p, u64 now)
{
	u32 i;

	for (i = 0; i < NR_PARK_REASONS; i++)
		if ((p->reasons & PARK_BIT(i)) && !time_before(now, p->until[i]))
			p->reasons &= ~PARK_BIT(i);
}

#endif /* APLOMB_POLICY_PARK_H */
