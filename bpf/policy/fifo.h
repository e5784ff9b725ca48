/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fifo.h - first in, first out: the tasks of a leaf run in the order in which they came, each until
 * it sleeps.
 *
 * Source: QLinux (Sundaram et al. 2000), section 2.1 (a leaf has the scheduler that suits its
 * class). The order is that of SCHED_FIFO at one priority (sched(7)).
 *
 * 1. Why. A batch of jobs is done soonest, on average, if the jobs run one after the other: taking
 *    turns only delays the first ones and empties the caches. Between domains it is of no use,
 *    since a domain that never sleeps would have all the time. So it is for leaves only.
 *
 * 2. Model. A task that comes draws a number. The task with the least number runs.
 *
 *        wakes up, or is new     draws the next number
 *        has run, and goes on    keeps its number, for however long it ran
 *
 * 3. What it promises. No task overtakes a task that came before it. No task is promised a time: a
 *    task that does not sleep keeps the others from the CPU for good, up to the bound that
 *    tree/rescue.bpf.h sets.
 */
#ifndef APLOMB_POLICY_FIFO_H
#define APLOMB_POLICY_FIFO_H

#include "types.h"

struct fifo_node {
	u64 arrivals; /* numbers given out so far */
};

/*
 * The number of a task that comes to @n. It is beyond @now, the greatest key that ran there: keys
 * of the node's policy before may be greater than any number so far.
 */
static inline u64 fifo_arrive(struct fifo_node *n, u64 now)
{
	if (time_before(n->arrivals, now))
		n->arrivals = now;
	return ++n->arrivals;
}

/* The number of a task that came as @number and has run for @ns. */
static inline u64 fifo_charge(u64 number, u64 ns)
{
	(void)ns;
	return number;
}

#endif /* APLOMB_POLICY_FIFO_H */
