/* SPDX-License-Identifier: GPL-2.0 */
/*
 * wrr.h - weighted round-robin: the members of a node take turns, each for a quantum by its weight.
 *
 * Source: Eclipse (Bruno et al. 1998), sections 4 (Example 1) and 7: what MTR-LS (mtr.h) is
 * compared with.
 *
 * 1. Model. The members form a line.
 *
 *        wakes up, or used up its quantum     goes to the end of the line, with a new quantum
 *        is chosen                            the first in the line
 *
 * 2. What it promises. Members that always have something to run share the time by weight. A member
 *    that sleeps joins the end of the line when it wakes up, and waits for a quantum of each other
 *    member every time. So a task that needs 1 ms between two waits for the disk gets far less than
 *    its share: there is no cumulative service guarantee.
 */
#ifndef APLOMB_POLICY_WRR_H
#define APLOMB_POLICY_WRR_H

#include "types.h"

/*
 * One turn of all members, with shares that add up to 1: ten slices of 10 ms, as in Example 1.
 * (Eclipse's own WRR gives out time by ticks, up to a share of its service cycle of half a second:
 * section 6.2. A member that wakes up waits for as long.)
 */
#define WRR_CYCLE_NS (100 * NSEC_PER_MSEC)
/* A quantum is no shorter than this, ns: each ends with a switch. */
#define WRR_LEAST_NS (100 * NSEC_PER_USEC)

/* The quantum for a share of @ppm of the node (share_ppm()). */
static inline u64 wrr_quantum(u64 ppm)
{
	u64 ns = WRR_CYCLE_NS / PPM * ppm;

	return ns < WRR_LEAST_NS ? WRR_LEAST_NS : ns;
}

struct wrr_node {
	u64 turns; /* given out so far: the end of the line */
};

struct wrr_member {
	u64 turn; /* the least is first in line */
	u64 left; /* of its quantum, ns */
};

/* @m wakes up, or is new: it goes to the end of the line, with @quantum ns. */
static inline void wrr_wake(struct wrr_member *m, struct wrr_node *n, u64 quantum)
{
	m->turn = ++n->turns;
	m->left = quantum ? quantum : 1;
}

/* @m ran for @ns. Returns whether its turn is over: then it is at the end of the line. */
static inline bool wrr_charge(struct wrr_member *m, struct wrr_node *n, u64 ns, u64 quantum)
{
	if (ns < m->left) {
		m->left -= ns;
		return false;
	}
	wrr_wake(m, n, quantum);
	return true;
}

#endif /* APLOMB_POLICY_WRR_H */
