/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mtr.h - move-to-rear list scheduling (MTR-LS): shares that hold for members that sleep, too.
 *
 * Source: Eclipse (Bruno, Gabber, Ozden, Silberschatz 1998), sections 4 and 5, Figs. 2 to 5, and
 * the appendix.
 *
 * 1. Why. A member with a share a is to be as well off as on a CPU of its own with the speed a.
 *    Fair queueing promises that to members that always have something to run. A member that
 *    computes for 1 ms, waits for a disk and comes back is delayed a little each time, and these
 *    delays add up: it may get a tenth of its share (wrr.h). MTR-LS bounds the sum of all its
 *    delays, ever: its cumulative service guarantee.
 *
 * 2. Model. The time of all members is on one list, as tokens. The tokens of member i are a_i T in
 *    all, and those of all members are T or less, the service cycle. The first member on the list
 *    that has something to run runs. What it has used moves to the rear. A member that sleeps keeps
 *    its place, while the others move behind it:
 *
 *        list     A A B C B     A ran one token:     A B C B A     A asleep, B ran one: A C B A B
 *                 ^ runs                             ^ runs        A wakes up: first again
 *
 * 3. The list itself is not kept. Each token has a stamp, the number of its move. A member's key is
 *    the stamp of its first token, and the member with the least key is first on the list (5.2, and
 *    the appendix). So the members are in a heap by key, and a choice among n is O(log n) (the
 *    caller's), where the appendix looks at all.
 *
 * 4. Where we differ. A member's a_i T is MTR_TOKENS equal tokens in a ring. They are not one for
 *    each tick (appendix: up to 50), nor cut at any length (Fig. 3), since the list would have no
 *    bound then. A token moves when all of it is used. Until then it keeps its place. So a member
 *    can be ahead by what it used of one token, a_i T / MTR_TOKENS.
 *
 *    And a member that wakes up may use one token early: before all members that are not early. The
 *    reason: a member that wants more than its share would now and then find the list used up just
 *    when it wakes up, and wait for half a cycle, at the moment when a person notices it most. It
 *    gets no more time for it: the token goes to the rear as all do, and the member is not early
 *    again until it has run by its place. It may also be early again if the token was due, which
 *    means that the list went past its place while it slept. So a member that uses less than its
 *    share can be early whenever it wakes up, and goes before all others, since its tokens are the
 *    oldest. An early turn ends with its token (mtr_turn): until the next tick it would be several
 *    tokens long.
 *
 *        [by its place] --- wakes up ---> [early] --- used up a token not due ---> [was early] --+
 *              ^                             |                                                   |
 *              +--- used up one that was due +----------------------- runs by its place ---------+
 *
 * 5. What it promises, with shares that add up to 1 at most, and preemption as soon as a member
 *    comes that is before the running one (5.3; crates/policy/src/mtr has the theorems as tests).
 *    Over any interval let w be the time in which a member waited, and s the time in which it ran,
 *    both only while it has something to run:
 *
 *        cumulative service    w + s <= s / a + T (1 + 2 / MTR_TOKENS)
 *        fairness              | s_i / a_i - s_j / a_j | <= T (1 + 2 / MTR_TOKENS), both with
 *                                                           something to run
 *        delay                 a job of d ns is done after d / a + T (1 + 2 / MTR_TOKENS)
 *
 *    These are the paper's bounds, but for the one token that is partly used, and each member's
 *    early token. Why they hold: between two turns of one of i's tokens each other member moves
 *    each of its own tokens once at most, since those that it has moved are behind. With all of its
 *    MTR_TOKENS, in the time of a_i T that i itself runs, the others have had no more than (1 -
 *    a_i) T. This counts tokens, so it also holds while members come (at the rear) and go, if the
 *    shares never add up to more than 1. If a share grows by g, its tokens grow where they are,
 *    before i's: each such change may cost i another g T, once.
 *
 *    A member that uses less than its share has its tokens at the front: it runs at once when it
 *    wakes up, before all members that use more. It need not be declared interactive.
 */
#ifndef APLOMB_POLICY_MTR_H
#define APLOMB_POLICY_MTR_H

#include "types.h"

/*
 * T, the service cycle (Eclipse: half a second). Trade: with a longer one there are fewer switches,
 * and a member that uses a little less than its share is rarely late; with a shorter one the bounds
 * are tighter. (With 100 ms a sleeper that uses 90 % of its share woke up 1.6 ms late, not 0.03.)
 */
#define MTR_CYCLE_NS (500 * NSEC_PER_MSEC)
/*
 * Tokens of each member. Trade: more make a finer list and a larger member. With 16 the bounds are
 * within 13 % of the paper's.
 */
#define MTR_TOKENS 16
/*
 * A token is no shorter than this, ns, since each is a decision. Shares below 0.032 % count as
 * that, and T is longer by the difference.
 */
#define MTR_LEAST_NS (10 * NSEC_PER_USEC)

struct mtr_node {
	u64 moves; /* so far: the next stamp is one more */
	u64 front; /* the latest place that has run: a member before it slept meanwhile */
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

/*
 * MTR_BEHIND is a bit of its own so that mtr_key() has no branch: the kernel's verifier follows
 * each branch, at every place where it is used.
 */
enum mtr_early {
	MTR_EARLY = 0, /* it woke up: its first token goes before all members that are not early */
	MTR_BEHIND = 1,
	MTR_BY_PLACE = MTR_BEHIND,
	MTR_WAS_EARLY = MTR_BEHIND | 2, /* it has used that token */
};
/* Stamps count moves and stay far below this: MTR_BEHIND puts a key behind all without it. */
#define MTR_BEHIND_SHIFT 62

/*
 * The length of a token for a share of @ppm of the node. With n CPUs the list moves n times as
 * fast: there the caller passes n times the share, so that the list still comes round in T.
 */
static inline u64 mtr_token(u64 ppm)
{
	u64 ns = MTR_CYCLE_NS / MTR_TOKENS * ppm / PPM;

	return ns < MTR_LEAST_NS ? MTR_LEAST_NS : ns;
}

/* The place of @m on the list: the least is first. */
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
 * The share of @m is @ppm from now on: its tokens stay where they are, and become shorter or
 * longer. The same part of the first one is left.
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
 * @m ran for @ns: the tokens that it used up go to the rear. What it ran beyond all of its tokens
 * (by a late tick, or since the least time that a task runs is longer than its part of a cycle)
 * counts the next time, up to one cycle.
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

/*
 * For how long @m may run before it has to be charged, if another member waits: until its place
 * changes.
 */
static inline u64 mtr_slice(const struct mtr_member *m)
{
	return m->left;
}

/*
 * For how long @m, which is chosen, keeps its place. By its place: until another member comes, for
 * its tokens are near each other, and each end of one would be a switch. Early: for one token,
 * however long a slice is.
 */
static inline u64 mtr_turn(const struct mtr_member *m)
{
	return m->early & MTR_BEHIND ? TIME_NEVER : m->left;
}

#endif /* APLOMB_POLICY_MTR_H */
