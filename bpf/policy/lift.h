/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lift.h - how long a kernel thread counts for more than its nice value says.
 *
 * 1. Why. A kernel thread may hold a lock that other tasks need, and be preempted in the middle of
 *    its work. Its nice value says how little that work matters by itself. So it has the weight of
 *    ten tasks while it holds others up (tree/place.bpf.h). But the scheduler does not see whether
 *    a task waits for it. A thread that always has work would have ten shares for good: ksmd, at
 *    nice 5, had 91 % of a CPU beside a loop of nice 0.
 *
 * 2. Model. Work that others wait for is short, and comes seldom. A lift is LIFT_NS of CPU time in
 *    a window of LIFT_WINDOW_NS, which begins when the thread runs and the last one is over. What
 *    it uses beyond that, until the window is over, counts by its own weight.
 *
 * 3. Bound. So a thread has LIFT_NS and a slice of each window before tasks of nice 0, and its own
 *    share of the rest: beside a loop of nice 0 one of nice 5 has at most 5 % + a quarter.
 */
#ifndef APLOMB_POLICY_LIFT_H
#define APLOMB_POLICY_LIFT_H

#include "types.h"

/*
 * Trade: with less, a thread that collapses pages or writes a journal is preempted in the middle of
 * it; with more, one that always has work takes more from all others.
 */
#define LIFT_NS (50 * NSEC_PER_MSEC)
#define LIFT_WINDOW_NS NSEC_PER_SEC

struct lift {
	u64 from; /* when this window began, ns; 0: none has */
	u64 used; /* CPU time in it, ns */
};

static inline bool lift_is_over(const struct lift *l, u64 now)
{
	return !l->from || !time_before(now, l->from + LIFT_WINDOW_NS);
}

/* Is the thread lifted at @now? */
static inline bool lifted(const struct lift *l, u64 now)
{
	return l->used < LIFT_NS || lift_is_over(l, now);
}

/* The thread ran for @ran ns until @now. */
static inline void lift_charge(struct lift *l, u64 now, u64 ran)
{
	if (lift_is_over(l, now)) {
		l->from = now;
		l->used = 0;
	}
	l->used += ran;
}

#endif /* APLOMB_POLICY_LIFT_H */
