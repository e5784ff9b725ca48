/* SPDX-License-Identifier: GPL-2.0 */
/*
 * share.h - what a member of a domain is due: its reservation, and its part of the rest.
 *
 * Source: Eclipse (Bruno et al. 1998), section 6: the unreserved part is split evenly among all
 * domains. Here it is split by weight (cpu.weight), which is evenly as long as no weight is set.
 *
 * 1. Model. A parent has R of the machine (the root has all of it). Its members have reserved r_i
 *    of the machine and have weights w_i. Of the parent's time, each is due
 *
 *        a_i = r_i / R + (1 - sum r / R) w_i / sum w,            sum a_i = 1,   a_i >= r_i / R
 *
 *    share_ppm() is a_i: for MTR-LS, WRR and for people. A policy like SFQ wants weights:
 *    share_weight() has the same ratios, without the rounding of a_i (a weight of 1 beside 300 of
 *    10,000 is a third of a ppm):
 *
 *        weight_i ~ w_i + r_i (sum w) / (R - sum r)   (a_i, multiplied by R (sum w) / (R - sum r))
 *
 *    So without a reservation it is w_i itself, whichever members come and go: virtual times keep
 *    their pace.
 *
 * 2. Admission. Reservations may add up to a limit. At the root that is SHARE_LIMIT_PPM, so that
 *    domains without a reservation have some time left. In a domain it is what the domain has
 *    reserved itself.
 */
#ifndef APLOMB_POLICY_SHARE_H
#define APLOMB_POLICY_SHARE_H

#include "types.h"

/* The part of the machine that all domains may reserve together. */
#define SHARE_LIMIT_PPM 950000
/* cpu.weight unless it is set; 1 to 10,000. */
#define SHARE_WEIGHT 100
/*
 * What share_weight() makes of a weight of 1. Without reservations all weights are then below 2^20,
 * and with them exact to 1/64 of the least.
 */
#define SHARE_UNIT 64
/*
 * A parent counts as having at least this part of its time unreserved (1/1024), since weights are
 * bounded. If it has less, members with a reservation get that much less, the others that much.
 */
#define SHARE_FREE_SHIFT 10
/* The sum of weights counts up to this: 10,000 for each of 400,000 members. */
#define SHARE_SUM_MOST (1ULL << 32)

/*
 * What a member is due, in ppm of its parent, 1 to 1,000,000, rounded down. It has reserved
 * @reserved_ppm of the machine; all members of the parent, itself included, have reserved
 * @reserved_sum_ppm. The parent has @parent_ppm (0: all). The member's weight is @weight, that of
 * all members @weight_sum. If more is reserved than there is, all get less in proportion.
 */
static inline u32 share_ppm(u32 reserved_ppm, u32 reserved_sum_ppm, u32 parent_ppm, u32 weight,
			    u64 weight_sum)
{
	u64 whole = parent_ppm ? parent_ppm : PPM, free = 0, due;

	if (reserved_sum_ppm < reserved_ppm)
		reserved_sum_ppm = reserved_ppm;
	if (weight_sum < weight)
		weight_sum = weight;
	if (whole > reserved_sum_ppm)
		free = whole - reserved_sum_ppm;
	else
		whole = reserved_sum_ppm;
	due = reserved_ppm * PPM / whole;
	if (weight_sum)
		due += free * PPM / whole * weight / weight_sum;
	return due ? (u32)due : 1;
}

/*
 * The weight, 1 to 2^32 - 1, whose ratio to those of the other members is that of what they are
 * due. Arguments as above.
 */
static inline u32 share_weight(u32 reserved_ppm, u32 reserved_sum_ppm, u32 parent_ppm, u32 weight,
			       u64 weight_sum)
{
	u64 whole = parent_ppm ? parent_ppm : PPM, free, least, due;

	weight = weight ? weight : 1;
	if (!reserved_ppm)
		return weight < ~0U / SHARE_UNIT ? weight * SHARE_UNIT : ~0U;
	if (reserved_sum_ppm < reserved_ppm)
		reserved_sum_ppm = reserved_ppm;
	if (weight_sum < weight)
		weight_sum = weight;
	if (weight_sum > SHARE_SUM_MOST)
		weight_sum = SHARE_SUM_MOST;
	free = whole > reserved_sum_ppm ? whole - reserved_sum_ppm : 0;
	least = (whole >> SHARE_FREE_SHIFT) + 1;
	if (free < least)
		free = least;
	if (reserved_ppm > PPM)
		reserved_ppm = PPM;
	due = (u64)weight * SHARE_UNIT + (reserved_ppm * weight_sum * SHARE_UNIT + free - 1) / free;
	return due < ~0U ? (u32)due : ~0U;
}

/* May @add_ppm be reserved beside @reserved_sum_ppm, up to @limit_ppm in all? */
static inline bool share_fits(u64 reserved_sum_ppm, u64 add_ppm, u64 limit_ppm)
{
	return reserved_sum_ppm <= limit_ppm && add_ppm <= limit_ppm - reserved_sum_ppm;
}

#endif /* APLOMB_POLICY_SHARE_H */
