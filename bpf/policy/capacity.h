/* SPDX-License-Identifier: GPL-2.0 */
/*
 * capacity.h - CPUs that differ: how much work a CPU does in a time.
 *
 * Source: Documentation/scheduler/sched-capacity.rst; SCHED_DEADLINE scales its budgets so
 * (kernel/sched/deadline.c, dl_scaled_delta_exec).
 *
 * 1. Why. A reservation says how long a program needs the CPU. On a slow core the same frame takes
 *    twice as long. So a budget in plain CPU time is over before the frame is, and a guarantee on a
 *    slow core is a guarantee of less.
 *
 * 2. Model. A CPU's capacity is the work that it does in a time, in 1024ths of what the fastest CPU
 *    does. A reservation, its budget and what is left of it are *work*: the time that it takes on
 *    the fastest CPU. What a CPU promises, its load, and all that a timer waits for are *time* on
 *    that CPU. Work becomes time where a server is placed and where its run is bounded, and time
 *    becomes work where a run is charged.
 *
 * 3. Rounding. The time for some work is rounded up, and the work of a time down. So a task that
 *    ran for the time of its budget has used it up, and none is charged for more than it had.
 *
 * 4. Limits. The clock rate is not part of it: a reserved task runs at the highest rate that the
 *    CPU has. A program may lose more, or less, on a slow core than the capacity says.
 */
#ifndef APLOMB_POLICY_CAPACITY_H
#define APLOMB_POLICY_CAPACITY_H

#include "types.h"

/* The fastest CPU's capacity, as in the kernel (SCHED_CAPACITY_SCALE) */
#define CAPACITY_SHIFT 10
#define CAPACITY_FULL (1U << CAPACITY_SHIFT)

/* The work, ns, that a CPU with @capacity, 1 to CAPACITY_FULL, does in @time ns, below 2^54. */
static inline u64 capacity_work(u64 time, u32 capacity)
{
	return time * capacity >> CAPACITY_SHIFT;
}

/* The time, ns, that a CPU with @capacity, 1 to CAPACITY_FULL, takes for @work ns, below 2^53. */
static inline u64 capacity_time(u64 work, u32 capacity)
{
	return ((work << CAPACITY_SHIFT) + capacity - 1) / capacity;
}

#endif /* APLOMB_POLICY_CAPACITY_H */
