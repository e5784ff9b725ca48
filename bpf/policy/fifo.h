/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fifo.h - first in, first out: the tasks of a leaf run in the order in which they came, each until it waits.
 *
 * Source: QLinux (Sundaram et al. 2000), section 2.1 (a leaf has whatever scheduler suits its class); the order is
 * SCHED_FIFO's of one priority (sched(7)).
 *
 * 1. Why. A batch of jobs is done soonest, on average, one after the other: taking turns only delays the first ones and
 *    empties the caches. Between domains it is of no use (who never waits would have all), so it is for leaves only.
 *
 * 2. Model. Who comes draws a number; the least runs.
 *
 *        wakes up, or is new     the next number
 *        has run, and goes on    keeps its number, for however long it ran
 *
 * 3. What it promises. Nobody overtakes who came before. Nobody is promised a time either: whoever does not wait keeps
 *    the others from the CPU for good, up to the bound that tree/rescue.bpf.h sets.
 */
#ifndef APLOMB_POLICY_FIFO_H
#define APLOMB_POLICY_FIFO_H

#include "types.h"

struct fifo_node {
	u64 arrivals; /* numbers given out so far */
};

/*
 * The number of one that comes to @n. It is beyond @now, the greatest key that ran there: keys of another policy, which a
 * node had before, may be greater than any number so far.
 */
static inline u64 fifo_arrive(struct fifo_node *n, u64 now)
{
	if (time_before(n->arrivals, now))
		n->arrivals = now;
	return ++n->arrivals;
}

/* The number of one that came as @number and has run for @ns. */
static inline u64 fifo_charge(u64 number, u64 ns)
{
	(void)ns;
	return number;
}

#endif /* APLOMB_POLICY_FIFO_H */
