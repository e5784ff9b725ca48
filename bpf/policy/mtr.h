/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mtr.h - move-to-rear list scheduling (MTR-LS): shares that hold for those who sleep, too.
 *
 * Source: Eclipse (Bruno, Gabber, Ozden, Silberschatz 1998), sections 4 and 5, Figs. 2 to 5, and the appendix.
 *
 * 1. Why. A member with a share a is to be as well off as on a CPU of its own with the speed a. Fair queueing says so
 *    of those who always have something to run. One that computes for 1 ms, waits for a disk and comes back is
 *    delayed a little each time, and the little adds up: it may get a tenth of its share (wrr.h). MTR-LS
 *    bounds the sum of all its delays, ever: its cumulative service guarantee.
 *
 * 2. Model. All members' time is on one list, as tokens: those of member i are a_i T, and all are T or less, the
 *    service cycle. The first member on the list that has something to run runs, and what it has used moves to
 *    the rear. Whoever sleeps keeps its place, while the others move behind it:
 *
 *        list     A A B C B        A ran one token:     A B C B A        A asleep, B ran one:     A C B A B
 *                 ^ runs                                ^ runs           A wakes up: first again
 *
 * 3. The list need not be there. Each token has a stamp, the number of its move; a member's key is the stamp of its
 *    first token, and who has the least key is first on the list (5.2, and the appendix). So the members are in
 *    a tree by key, and a choice among n is O(log n) (the caller's), where the appendix looks at all.
 *
 * 4. Where we differ. A member's a_i T is MTR_TOKENS equal tokens in a ring, not one for each tick (appendix: up to 50),
 *    nor cut at any length (Fig. 3): the list would have no bound. A token moves when all of it is used; until then it
 *    keeps its place. So a member can be ahead by what it used of one token, a_i T / MTR_TOKENS.
 *
 *    And one that wakes up may use one token before its place, before all that are not early. Else who wants more than its
 *    share would find the list used up now and then just when it wakes up, and wait for half a cycle to begin, where a
 *    person notices it most. It has no more for it: the token goes to the rear as all do, and there is no other one until
 *    it has run by its place again. That it has, too, if its turn was due: it slept while the list went past its place. So
 *    who uses less than its share can be early whenever it wakes up, and before all others, for its tokens are the oldest.
 *    The turn of one that is early ends with that token (mtr_turn): to the next tick it would be several.
 *
 *        [by its place] --- wakes up ---> [early] --- a token is used up that was not due ---> [was early] ---+
 *              ^                             |                                                                |
 *              +------ one that was due -----+----------------------------- runs by its place ----------------+
 *
 * 5. What it promises, with shares that add up to 1 at most and preemption as soon as somebody comes who is before
 *    the one that runs (5.3; crates/policy/src/mtr has the theorems as tests). Over any interval, w: time in which it
 *    waited, s: in which it ran, both only while it has something to run:
 *
 *        cumulative service    w + s <= s / a + T (1 + 2 / MTR_TOKENS)
 *        fairness              | s_i / a_i - s_j / a_j | <= T (1 + 2 / MTR_TOKENS), both with something to run
 *        delay                 a job of d ns is done after d / a + T (1 + 2 / MTR_TOKENS)
 *
 *    The paper's bounds, but for the one token that is partly used, and each other's early one. Why: between two turns
 *    of one of i's tokens each other member moves each of its own once at most, for those it has moved are behind; and
 *    with all of its MTR_TOKENS in the time of a_i T that i itself runs, the others have had no more than (1 - a_i) T.
 *    This counts tokens, so it holds too as members come (at the rear) and go, if the shares never add up to more than
 *    1. Where a share grows by g its tokens do where they are, before i's: each time may cost i another g T, once.
 *
 *    A member that uses less than its share has its tokens at the front: it runs at once when it wakes up, before all
 *    who use more. Nobody has to say who is interactive.
 */
#ifndef APLOMB_POLICY_MTR_H
#define APLOMB_POLICY_MTR_H

#include "types.h"

/*
 * T, the service cycle (Eclipse: half a second). Trade: longer, fewer switches, and who uses a little less than its share is
 * rarely late; shorter, tighter bounds. (With 100 ms a sleeper that uses 90 % of its share woke up 1.6 ms late, not 0.03.)
 */
#define MTR_CYCLE_NS (500 * NSEC_PER_MSEC)
/* Tokens of each member. Trade: more, a finer list and a larger member; 16 put the bounds within 13 % of the paper's. */
#define MTR_TOKENS 16
/* A token is no shorter than this, ns: each is a decision. Shares below 0.032 % count as that, and T is longer by it. */
#define MTR_LEAST_NS (10 * NSEC_PER_USEC)

struct mtr_node {
	u64 moves; /* so far: the next stamp is one more */
	u64 front; /* the latest place that has run: who is before it slept meanwhile */
};

struct mtr_member {
	u64 stamp[MTR_TOKENS]; /* a ring, the first token's at `first` */
	u64 left;              /* of the first token, ns */
	u64 token;             /* length of each, ns */
	u64 debt;              /* ran beyond all of its tokens, ns */
	u32 first;
	u32 early; /* enum mtr_early */
	u32 due;   /* its first token was before the front when it woke up */
	u32 pad;
};

/* MTR_BEHIND is a bit of its own, so that a key takes no branch: the kernel's verifier follows each, at every place. */
enum mtr_early {
	MTR_EARLY = 0, /* it woke up: its first token goes before all that are not early */
	MTR_BEHIND = 1,
	MTR_BY_PLACE = MTR_BEHIND,
	MTR_WAS_EARLY = MTR_BEHIND | 2, /* it has used that one */
};
/* Stamps count moves and never get that far: MTR_BEHIND puts all it is added to behind all others. */
#define MTR_BEHIND_SHIFT 62

/*
 * The length of a token for a share of @ppm of the node. With n CPUs the list moves n times as fast: there @ppm is n times
 * the share, so that it comes round in T all the same.
 */
static inline u64 mtr_token(u64 ppm)
{
	u64 ns = MTR_CYCLE_NS / MTR_TOKENS * ppm / PPM;

	return ns < MTR_LEAST_NS ? MTR_LEAST_NS : ns;
}

/* Its place on the list: the least is first. */
static inline u64 mtr_key(const struct mtr_member *m)
{
	return m->stamp[m->first % MTR_TOKENS] + ((u64)(m->early & MTR_BEHIND) << MTR_BEHIND_SHIFT);
}

/* @m has something to run again. */
static inline void mtr_wake(struct mtr_member *m, const struct mtr_node *n)
{
	if (m->early != MTR_BY_PLACE)
		return;
	m->early = MTR_EARLY;
	m->due = m->stamp[m->first % MTR_TOKENS] < n->front;
}

/* @m is new, with a share of @ppm: all its tokens are at the rear. */
static inline void mtr_join(struct mtr_member *m, struct mtr_node *n, u64 ppm)
{
	u32 i;

	n->moves++;
	policy_for(i, 0, MTR_TOKENS)
	{
		m->stamp[i] = n->moves;
	}
	m->first = 0;
	m->early = MTR_WAS_EARLY;
	m->due = 0;
	m->token = mtr_token(ppm);
	m->left = m->token;
	m->debt = 0;
}

/*
 * Its share is @ppm from now on: its tokens stay where they are, and are shorter or longer; of the first, the same part
 * is left.
 */
static inline void mtr_resize(struct mtr_member *m, u64 ppm)
{
	u64 token = mtr_token(ppm);

	if (token == m->token)
		return;
	m->left = m->token ? (m->left * token + m->token - 1) / m->token : token;
	m->token = token;
}

/*
 * @m ran for @ns: what it used up goes to the rear. What it ran beyond all of its tokens (a late tick, or the least that
 * runs is longer than its part of a cycle) counts the next time, up to a cycle's worth.
 */
static inline policy_own_frame void mtr_charge(struct mtr_member *m, struct mtr_node *n, u64 ns)
{
	policy_takes_stack(16);
	bool early = m->early == MTR_EARLY;
	u32 i;

	ns += m->debt;
	m->debt = 0;
	if (!ns) /* it did not run: the front is not at its place */
		return;
	if (early) {
		if (ns >= m->left)
			m->early = m->due ? MTR_BY_PLACE : MTR_WAS_EARLY;
	} else {
		m->early = MTR_BY_PLACE;
		if (n->front < m->stamp[m->first % MTR_TOKENS])
			n->front = m->stamp[m->first % MTR_TOKENS];
	}
	policy_for(i, 0, MTR_TOKENS)
	{
		if (ns < m->left)
			break;
		ns -= m->left;
		m->left = m->token;
		m->stamp[m->first % MTR_TOKENS] = ++n->moves;
		m->first = (m->first + 1) % MTR_TOKENS;
	}
	if (ns < m->left)
		m->left -= ns;
	else
		m->debt = ns < m->token * MTR_TOKENS ? ns : m->token * MTR_TOKENS;
}

/* For how long @m may run before it has to be charged, if another member waits: until its place changes. */
static inline u64 mtr_slice(const struct mtr_member *m)
{
	return m->left;
}

/*
 * For how long @m, which is chosen, keeps its place for sure. By its place: until somebody comes, for its tokens are near
 * each other, and each end would be a switch. But early only for one token, however long a slice is.
 */
static inline u64 mtr_turn(const struct mtr_member *m)
{
	return m->early & MTR_BEHIND ? TIME_NEVER : m->left;
}

#endif /* APLOMB_POLICY_MTR_H */
