/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sfq.h - start-time fair queueing: the members of a node share its time by weight.
 *
 * Source: QLinux (Sundaram et al. 2000), section 2.2; Goyal, Vin and Cheng, "Start-time fair queuing" (1996).
 *
 * 1. Why. A domain is to have w / (w_1 + .. + w_n) of what its parent has, however much that is at the moment:
 *    reservations and other domains take what they take. SFQ needs no rate of the server and no length of a
 *    quantum known in advance, and what one member leaves goes to the others by their weights.
 *
 * 2. Model. Each member has a start tag, in virtual time. The runnable member with the least start tag runs. What it
 *    ran, over its weight, is added to its tag. The node's virtual time is the start tag of whoever runs.
 *
 *        wakes up     start = max(start, node's virtual time)      no credit for time asleep
 *        goes on      start = max(start, node's virtual time - c)  some, if it did not sleep: it was held back, or could not
 *                                                                  use its weight (one thread, on several CPUs)
 *        is chosen    node's virtual time = start                 (and again as it runs on, if nobody else waits)
 *        has run r    start += r * SFQ_SCALE / weight               (its finish tag, the next one's start)
 *        all sleep    node's virtual time = the greatest finish tag  (Goyal: the end of a busy period)
 *
 *    Without the last rule, who ran alone before everybody slept would wait for it when all wake up: later than 3 says.
 *
 *    A member may change its weight at any time: what it has run was paid for at the old one.
 *
 * 3. What it promises. While two members both have something to run (the paper's fairness bound, with q the longest
 *    that a member runs between two choices):
 *
 *        | W_f / w_f - W_g / w_g | <= q_f / w_f + q_g / w_g
 *
 *    and one that wakes up runs at once if it is behind the others, and else as if it had a CPU of its own with its share
 *    of the speed, later by one q of each other member at most (the delay bound: in Goyal's words, a quantum of l that
 *    is expected at t is done at t + l + the sum of the others' q). For one that goes on (quota.h, tree/tree.bpf.h 4) the others' q
 *    become q + c, once each time: it goes before them for as long.
 *
 * Members are in a tree ordered by start tag (heap.h), so that a choice among n is O(log n).
 */
#ifndef APLOMB_POLICY_SFQ_H
#define APLOMB_POLICY_SFQ_H

#include "types.h"

/*
 * Virtual time of 1 ns at a weight of 1: what is rounded up, less than one for each charge, is below 1 us at weights to
 * 2^30. Weights are share.h's (share_weight()), 64 to 640,000 and more with reservations; only ratios matter.
 */
#define SFQ_SCALE (1ULL << 20)
/* Charged at once at most, ns (2.4 hours): beyond, the product would overflow. */
#define SFQ_MOST_NS (1ULL << 43)
/*
 * Who wakes up is no further ahead of its node: 10 s at the default weight, 100 ms at the least. Virtual time wraps (in
 * years, or in days of the least weight alone), and who slept for half of that would seem to be ahead.
 */
#define SFQ_LEAD (1ULL << 41)

struct sfq_node {
	u64 now;  /* virtual time; never goes back */
	u64 last; /* the greatest finish tag of those who went to sleep */
};

struct sfq_member {
	u64 start; /* start tag; while it sleeps: its last finish tag */
};

/* @m has something to run again, or is new. */
static inline void sfq_wake(struct sfq_member *m, const struct sfq_node *n)
{
	if (m->start - n->now > SFQ_LEAD) /* behind; or so far ahead that it is behind */
		m->start = n->now;
}

/*
 * @m, of @weight, waits again without having slept. It keeps its place, but is behind by @credit_ns of its own running at most.
 */
static inline void sfq_go_on(struct sfq_member *m, const struct sfq_node *n, u64 credit_ns,
			     u32 weight)
{
	u64 behind = n->now - m->start, credit = credit_ns * SFQ_SCALE / (weight ? weight : 1);

	if (credit > SFQ_LEAD)
		credit = SFQ_LEAD;
	if (behind <= credit)
		return;
	sfq_wake(m, n);
	if (m->start == n->now)
		m->start -= credit;
}

/* @m is chosen. */
static inline void sfq_run(const struct sfq_member *m, struct sfq_node *n)
{
	if (time_before(n->now, m->start))
		n->now = m->start;
}

/* @m has nothing to run any more (after sfq_charge()). @all: nobody else has. */
static inline void sfq_sleep(const struct sfq_member *m, struct sfq_node *n, bool all)
{
	if (time_before(n->last, m->start))
		n->last = m->start;
	if (all && time_before(n->now, n->last))
		n->now = n->last;
}

/* @m, of @weight, ran for @ns. Rounded up: who runs in small pieces gains nothing by it. */
static inline void sfq_charge(struct sfq_member *m, u64 ns, u32 weight)
{
	u64 w = weight ? weight : 1;

	if (ns > SFQ_MOST_NS)
		ns = SFQ_MOST_NS;
	m->start += (ns * SFQ_SCALE + w - 1) / w;
}

#endif /* APLOMB_POLICY_SFQ_H */
