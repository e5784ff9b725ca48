/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserve.h - the rate-controlled reserve: how fast an interactive program may take the free pages
 * that are kept for interactive programs.
 *
 * Source: Redline section 4, "Rate-controlled reserve".
 *
 * 1. Why. An interactive program that has to reclaim memory itself waits for the disk. So a few
 *    megabytes stay free for such programs while best-effort tasks wait (policy/bump.h). But one
 *    interactive program that allocates without end must not take them from the others.
 *
 * 2. Model. A program has a budget of b pages, and t_f is the time at which it took the first of
 *    them. Each page costs c, about the time of one disk access: the time that the kernel needs to
 *    free another one.
 *
 * 3. Control. When the budget is used up at time t, and t_f + b c < t, then the program has taken
 *    its pages no faster than they can be freed: it gets the next budget. Otherwise it waits,
 *    until then, or until free memory is above the reserve.
 *
 *        t_f                      t                t_f + b c
 *         |---- b pages taken ----|-- waits --------->|   next budget
 *
 * 4. Growth buffer. A program that starts or grows beside others that fill memory needs more than
 *    the reserve, and each page that it lacks costs it a wait for the disk. The kernel frees pages
 *    ahead of it only if its watermarks are farther apart. So while an interactive program takes
 *    pages below `low`, the daemon moves `low` and `high` up by the growth buffer:
 *
 *        min        top of the reserve             low            high
 *         |-- reserve --|----- growth buffer ------|---------------|--- free
 *          by budget       at will
 *
 *    Best-effort tasks are parked below `low` as always, so what the kernel frees there is for the
 *    program.
 */
#ifndef APLOMB_POLICY_RESERVE_H
#define APLOMB_POLICY_RESERVE_H

#include "types.h"

#define RESERVE_PAGES 256                /* b: 1 MB. Redline's default */
#define RESERVE_PAGE_NS (5 * 1000000ULL) /* c: 5 ms a page. Redline's default */

/* The budget of one program. All zero: it took nothing so far. */
struct reserve_budget {
	u64 first; /* t_f, ns */
	u32 left;  /* pages */
	u32 begun; /* first is valid */
};

/*
 * The program takes @pages from the reserve at time @now. Returns 0, or until when it has to wait
 * before it may take more.
 */
static inline u64 reserve_draw(struct reserve_budget *b, u32 pages, u64 now)
{
	u64 end = b->first + RESERVE_PAGES * RESERVE_PAGE_NS;

	if (!b->begun || (!b->left && time_before(end, now))) {
		b->begun = 1;
		b->first = now;
		b->left = RESERVE_PAGES;
	}
	if (!b->left)
		return end;
	b->left = b->left > pages ? b->left - pages : 0;
	return 0;
}

/*
 * The top of the reserve, below which an interactive program draws on its budget, where the
 * kernel's watermarks are @min and @low, in pages. @growth_ppm: the part of their distance that is
 * the growth buffer, at most a million.
 */
static inline u64 reserve_top(u64 min, u64 low, u32 growth_ppm)
{
	return low - (low - min) * growth_ppm / PPM;
}

#endif /* APLOMB_POLICY_RESERVE_H */
