/* SPDX-License-Identifier: GPL-2.0 */
/*
 * codel.h - controlled delay: a queue that stays long has packets dropped, so that its sender slows
 * down.
 *
 * Source: Nichols and Jacobson, "Controlling queue delay" (2012); RFC 8289.
 *
 * 1. Why. A bulk transfer fills whatever room its leaf has, and its own packets (an answer to a key
 *    press over the same connection) wait behind that. A short queue that comes and goes is useful;
 *    one that stays is only delay. So not its length counts, but the least time that a packet waits
 *    in it within an interval of 100 ms.
 *
 * 2. Model.
 *
 *        calm --- packets waited for more than the target for an interval ---> dropping (drop one)
 *        dropping --- a packet waited for less, or the queue is short ---> calm
 *        dropping, next drop is due --- drop one; the next is due interval / sqrt(count) later
 *
 *    With that law the rate of a sender that obeys TCP's falls evenly. If the queue becomes long
 *    again soon, the count goes on near where it was.
 *
 * It asks about each packet as it leaves (codel_drops()). Of a sender that does not react to losses
 * it drops ever more; what bounds that sender's queue in the end is its room (hsfq.h 4).
 */
#ifndef APLOMB_POLICY_CODEL_H
#define APLOMB_POLICY_CODEL_H

#include "types.h"

/* RFC 8289, 4.4 and 4.3: a twentieth of the interval; the longest round trip in use. */
#define CODEL_TARGET_NS (5 * NSEC_PER_MSEC)
#define CODEL_INTERVAL_NS (100 * NSEC_PER_MSEC)

struct codel {
	u64 above;   /* since when packets wait too long, plus an interval; 0: they do not */
	u64 next;    /* when the next drop is due */
	u32 count;   /* of drops since it is dropping */
	u32 entry;   /* count when it last began */
	u32 inverse; /* 1 / sqrt(count), in 1/2^32 */
	u32 is_dropping;
};

/*
 * c->count has changed by little: so does c->inverse, by Newton's steps y (3 - count y^2) / 2. From
 * 1 to 2, the greatest change, three steps are exact to 2 %. An exact root has a branch for each
 * bit, and verifiers follow each.
 */
static inline void codel_follow(struct codel *c)
{
	int k;

	for (k = 0; k < 3; k++) {
		u64 square = (u64)c->inverse * c->inverse >> 32;
		u64 rest = (3ULL << 32) - c->count * square;

		c->inverse = (rest >> 2) * c->inverse >> 31;
	}
}

/* When the next drop is due after one that was due at @at. */
static inline u64 codel_after(const struct codel *c, u64 at)
{
	return at + (CODEL_INTERVAL_NS * c->inverse >> 32);
}

/*
 * Is the packet that leaves the queue at @now, after it waited for @waited ns, to be dropped?
 * @target: ns, CODEL_TARGET_NS or on a slow link more. @is_short: no packet waits behind it.
 */
static inline bool codel_drops(struct codel *c, u64 waited, u64 now, u64 target, bool is_short)
{
	bool is_late = false;

	if (waited < target || is_short)
		c->above = 0;
	else if (!c->above)
		c->above = now + CODEL_INTERVAL_NS;
	else
		is_late = !time_before(now, c->above);

	if (c->is_dropping) {
		if (!is_late) {
			c->is_dropping = 0;
			return false;
		}
		if (time_before(now, c->next))
			return false;
		c->count++;
		codel_follow(c);
		c->next = codel_after(c, c->next);
		return true;
	}
	if (!is_late)
		return false;
	c->is_dropping = 1;
	/* it was dropping lately: go on with the rate that was right then */
	if (c->count - c->entry > 1 && time_before(now, c->next + 16 * CODEL_INTERVAL_NS)) {
		c->count -= c->entry;
		codel_follow(c);
	} else {
		c->count = 1;
		c->inverse = ~0U;
	}
	c->entry = c->count;
	c->next = codel_after(c, now);
	return true;
}

#endif /* APLOMB_POLICY_CODEL_H */
