/* SPDX-License-Identifier: GPL-2.0 */
/*
 * background.h - what best-effort work keeps, whatever is reserved.
 *
 * Source: ours. Redline 6.1 promises best-effort tasks what R_max leaves, but enforces it only through
 * revocation, which looks at the last four seconds; until then, and when only irrevocable tasks are
 * left, EDF's precedence would starve them.
 *
 * 1. Model. Of every window of 100 ms, best-effort work is owed (1 - R_max) if it has work. What it
 *    gets anyway counts.
 *
 * 2. Control. Precedence stays with reserved tasks for as long as the debt can still be paid: best-effort
 *    work gets its turn at zero laxity, when the rest of the window is just what it is owed. Below an
 *    overload that moment never comes. (The kernel's deferred dl_server does the same for SCHED_FIFO.)
 *
 *        |-- reserved tasks run ----------------------|== its turn ==|
 *        window begins                          end - owed          end
 */
#ifndef APLOMB_POLICY_BACKGROUND_H
#define APLOMB_POLICY_BACKGROUND_H

#include "types.h"

/* Short enough that a starved shell feels alive, long enough to stay out of 30 ms periods' way. */
#define BACKGROUND_WINDOW_NS (100 * NSEC_PER_MSEC)

struct background {
	u64 window_end; /* ns */
	s64 owed;       /* ns of the current window */
};

/*
 * Begin a new window if the last one is over; @share_ppm is 1 - R_max. It begins now, not where the last
 * one ended: between the two nothing reserved ran (it would have asked), so best-effort work lost
 * nothing, and in the rest of a window it would be due at once.
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
 * For how many ns may reserved tasks run before this has to be asked again, after background_roll() at
 * the same @now? 0: best-effort work must run. If it has had its part: to the end of the window, since
 * it is owed another one then.
 */
static inline u64 background_laxity(const struct background *b, u64 now)
{
	s64 lax = (s64)(b->window_end - now) - (b->owed > 0 ? b->owed : 0);

	return lax > 0 ? (u64)lax : 0;
}

#endif /* APLOMB_POLICY_BACKGROUND_H */
