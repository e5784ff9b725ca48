/* SPDX-License-Identifier: GPL-2.0 */
/*
 * autogroup.h - all tasks of one session together weigh no more than one task of nice 0.
 *
 * Source: the kernel's autogroup (kernel/sched/autogroup.c; sched(7)). It groups tasks by session
 * (setsid(2)) where no cgroup with the CPU controller does, so that the 16 jobs of a build in one
 * terminal do not leave a seventeenth of the CPU to the player in another.
 *
 * 1. Why. sched_ext gets no callback for autogroups, and a scheduler that shares among tasks alone
 *    takes away what a user of the stock kernel has.
 *
 * 2. Model. The crowd of a session is the sum of the weights of its tasks that compete for a CPU:
 *    each counts from the time that it has to wait for one until it sleeps. W is the weight of nice
 *    0, and G that of the autogroup: W too, unless /proc/PID/autogroup says otherwise. A task of
 *    weight w has
 *
 *        w * min(1, max(W, w) / crowd) * G / W
 *
 *    So the tasks of the session together have G at most, or what the heaviest of them has, and a
 *    session with little to run loses nothing. One level needs no tree: the tasks of all sessions
 *    are in one queue, each with the weight that its session leaves it.
 *
 * 3. Where this differs from the kernel's. There the session has the weight G in any case, so nice
 *    counts within a session only: a compiler of nice 19 takes half of the CPU from an editor in
 *    another terminal, and a player of nice -20 gains nothing. Here a session of nice 19 weighs
 *    what its tasks weigh, and a task of negative nice, which takes a privilege, is not held below
 *    its own weight.
 *
 * 4. Limit. A task of a crowd of 1,250 or more has more than its part, because no task waits for
 *    longer than fair_debt() allows: 5 s of the session's time.
 */
#ifndef APLOMB_POLICY_AUTOGROUP_H
#define APLOMB_POLICY_AUTOGROUP_H

#include "fair.h"

/*
 * The weight, in 1/@unit of sched_ext's (nice 0: 100) and at least 1, of a task of @weight, in the
 * same unit, in an autogroup of weight @group with @crowd, both in sched_ext's.
 */
static inline u32 autogroup_weight(u32 weight, u32 group, u32 crowd, u32 unit)
{
	u64 most = weight / unit > FAIR_NICE_0 ? weight / unit : FAIR_NICE_0;
	u64 own = (u64)weight * group / FAIR_NICE_0;

	if (crowd > most)
		own = own * most / crowd;
	return own ? own : 1;
}

#endif /* APLOMB_POLICY_AUTOGROUP_H */
