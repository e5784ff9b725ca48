/* SPDX-License-Identifier: GPL-2.0 */
/*
 * background.h - what best-effort work keeps, whatever is reserved.
 *
 * Source: ours. Redline 6.1 promises best-effort tasks what R_max leaves, but enforces it only by
 * revocation, which looks at the last four seconds. Until then, and if only irrevocable tasks are
 * left, EDF's precedence would starve them.
 *
 * 1. Model. Of every window of 100 ms, best-effort work is owed 1 - R_max if it has a task to run.
 *    What it gets anyway counts.
 *
 * 2. Control. Reserved tasks go first for as long as the debt can still be paid. Best-effort work
 *    gets its turn at zero laxity, when the rest of the window is just what it is owed. Without an
 *    overload that moment never comes. (The kernel's deferred dl_server does the same for
 *    SCHED_FIFO.)
 *
 *        |-- reserved tasks run ----------------------|== its turn ==|
 *        window begins                          end - owed          end
 */
#ifndef APLOMB_POLICY_BACKGROUND_H
#define APLOMB_POLICY_BACKGROUND_H

#include "types.h"

/* Short enough that a starved shell reacts, long enough not to disturb periods of 30 ms. */
#define BACKGROUND_WINDOW_NS (100 * NSEC_PER_MSEC)

struct background {
	u64 window_end; /* ns */
	s64 owed;       /* of the current window, ns */
};

/*
 * Begins a new window if the last one is over. @share_ppm is 1 - R_max. The window begins now, not
 * where the last one ended: in between no reserved task ran (dispatch would have asked), so
 * best-effort work lost no time. In the rest of a window that began earlier it would be due at
 * once.
 */
static inline void background_roll(struct background *b, u64 now, u64 share_ppm)
{
	if (time_before(now, b->window_end))
		return;
	b->window_end = now + BACKGROUND_WINDOW_NS;
	b->owed = (s64)(BACKGROUND_WINDOW_NS / 1000 * share_ppm / 1000);
}

static inline void background_charge(struct background *b, u64 ran_ns)
{
	b->owed -= (s64)ran_ns;
}

/*
 * For how many ns may reserved tasks run before this has to be asked again, after background_roll()
 * at the same @now? 0: best-effort work must run. If it has had its part: to the end of the window,
 * since it is owed another part then.
 */
static inline u64 background_laxity(const struct background *b, u64 now)
{
	s64 lax = (s64)(b->window_end - now) - (b->owed > 0 ? b->owed : 0);

	return lax > 0 ? (u64)lax : 0;
}

#endif /* APLOMB_POLICY_BACKGROUND_H */
