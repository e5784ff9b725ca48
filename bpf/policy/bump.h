/* SPDX-License-Identifier: GPL-2.0 */
/*
 * bump.h - speed bumps: how many pages a best-effort task may take while memory is short, before it
 * is parked for a moment.
 *
 * Source: Redline section 4, "Setting speed-bump pages". Redline takes the access to a page away
 * and stops the task when it touches that page. Stock Linux has no such page, so the task is
 * stopped for the pages that it allocates.
 *
 * 1. Why. A task that fills memory faster than the kernel can free it ends in direct reclaim, and
 *    so does every other task that needs a page then. It has to be slowed down before free memory
 *    is used up.
 *
 * 2. Model. The kernel has three watermarks of free memory. Below `low` it wakes up its own
 *    reclaimer (kswapd), which works until `high`. Below `min` tasks reclaim for themselves. What
 *    lies between `min` and `low` is the reserve of interactive tasks (policy/reserve.h).
 *
 * 3. Control. Below `low` a best-effort task is parked after each `allowance` of pages. The
 *    allowance falls with free memory, from BUMP_PAGES at `low` to one page at `min`:
 *
 *        pages
 *     BUMP_PAGES |              ________
 *                |         ____/
 *              1 |________/
 *                +-------|-------|------- free
 *                       min     low
 *
 *    So free memory settles where the tasks take as much as the reclaimer frees, however fast the
 *    swap device is, and however many tasks there are. A shell that needs a few pages runs on.
 *
 * 4. Interactive programs first. There, between `min` and `low`, an interactive program that has
 *    used up its budget of the reserve would wait for good. So while one waits, the allowance is
 *    one page, and what the reclaimer frees is for that program.
 */
#ifndef APLOMB_POLICY_BUMP_H
#define APLOMB_POLICY_BUMP_H

#include "types.h"

/*
 * Pages that a task may take between two parks when free memory has just fallen below `low`: with
 * parks of 100 ms, 1.3 MB/s. Trade: a larger number lets small programs pass without a park, and
 * takes more of the reserve before the parks begin.
 */
#define BUMP_PAGES 32

/* The allowance while an interactive program waits for memory, pages. */
#define BUMP_FOR_OTHERS 1

/* Pages that a task may take before it is parked. All in pages. */
static inline u64 bump_allowance(u64 free, u64 min, u64 low)
{
	if (free >= low)
		return BUMP_PAGES;
	if (free <= min)
		return 1;
	/* low - min is at least 1 here, and free - min less than that */
	return 1 + (BUMP_PAGES - 1) * (free - min) / (low - min);
}

/*
 * A task takes @pages. *@taken: what it took since its last park. @allowance: bump_allowance(), or
 * BUMP_FOR_OTHERS. Returns whether it is to be parked now.
 */
static inline bool bump_take(u32 *taken, u32 pages, u64 allowance)
{
	u64 sum = (u64)*taken + pages;

	if (sum < allowance) {
		*taken = sum;
		return false;
	}
	*taken = 0;
	return true;
}

#endif /* APLOMB_POLICY_BUMP_H */
