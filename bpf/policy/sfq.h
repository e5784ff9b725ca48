/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sfq.h - start-time fair queueing: the members of a node share its time by weight.
 *
 * Source: QLinux (Sundaram et al. 2000), section 2.2; Goyal, Vin and Cheng, "Start-time fair
 * queuing" (1996).
 *
 * 1. Why. A domain is to have w / (w_1 + .. + w_n) of what its parent has, however much that is at
 *    the moment: reservations and other domains take their time first. SFQ does not have to know
 *    the rate of the server, nor the length of a quantum, in advance. What one member leaves goes
 *    to the others by their weights.
 *
 * 2. Model. Each member has a start tag, in virtual time. The runnable member with the least start
 *    tag runs. What it ran, over its weight, is added to its tag. The node's virtual time is the
 *    start tag of the member that runs.
 *
 *        wakes up     start = max(start, node's virtual time)      no credit for time asleep
 *        goes on      start = max(start, v - c)                    some credit: held back, or
 *                                                                  could not use its weight (one
 *                                                                  thread, on several CPUs); v is
 *                                                                  the node's virtual time (5)
 *        is chosen    node's virtual time = start                  (and again as it runs on, if no
 *                                                                  other member waits)
 *        has run r    start += r * SFQ_SCALE / weight              (its finish tag; the next start)
 *        all sleep    node's virtual time = the greatest finish tag   (Goyal: end of a busy period)
 *
 *    Without the last rule, a member that ran alone before all slept would have to wait for that
 *    when all wake up: later than 3 says.
 *
 *    A member may change its weight at any time: what it has run was paid for at the old weight.
 *
 * 3. What it promises. While two members f and g both have something to run (the paper's fairness
 *    bound, with q the longest that a member runs between two choices):
 *
 *        | W_f / w_f - W_g / w_g | <= q_f / w_f + q_g / w_g
 *
 *    A member that wakes up runs at once if it is behind the others. Otherwise it runs as if it had
 *    a CPU of its own with its share of the speed, later by one q of each other member at most (the
 *    delay bound; in Goyal's words, a quantum of l that is expected at t is done at t + l + the sum
 *    of the others' q). For a member that goes on (quota.h, tree/tree.bpf.h 4), the others' q
 *    become q + c, once each time: the member goes before them for as long.
 *
 * 4. Preemption. A member that wakes up need not wait until the quantum of the running member ends.
 *    It preempts the running member if its start tag is less than that member's would be, if what
 *    that member has run of its quantum were charged now. So the order is that of the next choice,
 *    only earlier.
 *
 * 5. Several CPUs. A member's tasks may all run for a moment, or be on their way into a queue,
 *    while a CPU chooses. That CPU then takes another member out of turn, and the node's virtual
 *    time steps to that member's start tag, which may be a slice at a light weight later. So for a
 *    member that goes on, v is the virtual time before the last step: otherwise the step would take
 *    from it what it is due. (On four CPUs whose ticks coincide, a member due 90 % lost 0.4 points
 *    so.) Its credit becomes c and that step. Of two steps while it is away it still loses the
 *    first.
 *
 * The members are in a heap ordered by start tag (heap.h), so a choice among n is O(log n).
 */
#ifndef APLOMB_POLICY_SFQ_H
#define APLOMB_POLICY_SFQ_H

#include "types.h"

/*
 * Virtual time of 1 ns at a weight of 1. What is rounded up, less than 1 for each charge, is then
 * below 1 us at weights up to 2^30. Weights are those of share.h (share_weight()): 64 to 640,000,
 * and more with reservations. Only their ratios matter.
 */
#define SFQ_SCALE (1ULL << 20)
/* The most that is charged at once, ns (2.4 hours): beyond it the product would overflow. */
#define SFQ_MOST_NS (1ULL << 43)
/*
 * A member that wakes up is no further ahead of its node than this: 10 s at the default weight,
 * 100 ms at the least. Virtual time wraps (after years; with the least weight alone, after days). A
 * member that slept for half of that time would seem to be ahead.
 */
#define SFQ_LEAD (1ULL << 41)

struct sfq_node {
	u64 now;    /* virtual time; never goes back */
	u64 before; /* virtual time before its last step; `now`, after all slept */
	u64 last;   /* the greatest finish tag of members that went to sleep */
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
 * @m, of @weight, waits again without having slept. It keeps its place, but is behind virtual time
 * @v, the node's `now` or `before`, by @credit_ns of its own running at most.
 */
static inline void sfq_go_on(struct sfq_member *m, u64 v, u64 credit_ns, u32 weight)
{
	u64 credit = credit_ns * SFQ_SCALE / (weight ? weight : 1);

	if (credit > SFQ_LEAD)
		credit = SFQ_LEAD;
	/* behind by more; or so far ahead that it is behind */
	if (v - m->start > credit && m->start - v > SFQ_LEAD)
		m->start = v - credit;
}

/* @m is chosen. */
static inline void sfq_run(const struct sfq_member *m, struct sfq_node *n)
{
	if (time_before(n->now, m->start)) {
		n->before = n->now;
		n->now = m->start;
	}
}

/* @m goes to sleep (after sfq_charge()). @all: all other members sleep too. */
static inline void sfq_sleep(const struct sfq_member *m, struct sfq_node *n, bool all)
{
	if (time_before(n->last, m->start))
		n->last = m->start;
	if (!all)
		return;
	if (time_before(n->now, n->last))
		n->now = n->last;
	n->before = n->now;
}

/* The virtual time that @ns cost a member of @weight: rounded up. */
static inline u64 sfq_cost(u64 ns, u32 weight)
{
	u64 w = weight ? weight : 1;

	if (ns > SFQ_MOST_NS)
		ns = SFQ_MOST_NS;
	return (ns * SFQ_SCALE + w - 1) / w;
}

/* @m, of @weight, ran for @ns. Rounded up, so that many short runs are no cheaper. */
static inline void sfq_charge(struct sfq_member *m, u64 ns, u32 weight)
{
	m->start += sfq_cost(ns, weight);
}

/* Does @m, which wakes up, preempt @other, of @weight, which has run for @ns since its choice? */
static inline bool sfq_preempts(const struct sfq_member *m, const struct sfq_member *other, u64 ns,
				u32 weight)
{
	return time_before(m->start, other->start + sfq_cost(ns, weight));
}

#endif /* APLOMB_POLICY_SFQ_H */
