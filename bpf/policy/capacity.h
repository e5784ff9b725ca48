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
 *    does. What a program asks for is *work*, by the time that it takes on the fastest CPU. All
 *    that a CPU has promised, its load, and a server's budget are *time* on that CPU. Work becomes
 *    time once, when a server is placed: C of work on a CPU of capacity 512 is a budget of 2 C. So
 *    admission, EDF, windows, slack and timers know nothing of capacity.
 *
 * 3. Rounding. The time for some work is rounded up, and the work of a time down. So a program that
 *    has the time for its work does all of it, and what fits into a CPU's time still fits when it
 *    is work that was made of that time.
 *
 * 4. Limits. The clock rate is not part of it: a CPU with a task of ours runs at the highest rate
 *    that its governor allows. A program may lose more, or less, on a slow core than its capacity
 *    says.
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
