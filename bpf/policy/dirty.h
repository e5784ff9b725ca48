/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dirty.h - dirty limits: for how long a task that has dirtied pages is parked.
 *
 * Source: Redline section 5, "Journaling": a limit for each class of tasks, so small for
 * best-effort tasks that no transaction of a journaling file system becomes large.
 *
 * 1. Why. fsync() of a small file waits until the device has written what is queued before it, and
 *    in a journaling file system also the pages of other files that belong to the same transaction.
 *    Both are pages that other tasks have dirtied. The kernel lets them dirty a fifth of memory:
 *    an editor then waits for as long as the device needs to write that much.
 *
 * 2. Model. The dirty pages of one domain on one device are one stock, which the kernel counts
 *    (struct bdi_writeback): d pages that wait for the device or are being written. The device
 *    writes b pages a second. A task adds to the stock and is looked at after each page.
 *
 * 3. Control. If d is above the limit L of its class, the task is parked until the device has
 *    brought the stock down to half of L:
 *
 *        d
 *      L |     /|     /|     /|        / the task writes      \ the task is parked
 *        |    / \    / \    / \
 *    L/2 |   /   \__/   \__/   \
 *        |  /
 *        +------------------------ time
 *
 *    Half of L is still there when the park ends. So the device always has work, and best-effort
 *    work loses no throughput. It is a half, and not nearly all of it, so that parks are few.
 *
 *    Redline's 2 MB were what a disk of its time wrote in 50 ms (40 MB/s). A faster device has L
 *    grow with its rate: an fsync() waits for the same time, and the kernel's flusher, which comes
 *    every 10 ms, finds enough to do.
 *
 * 4. The rate b is not known. The kernel's estimate begins at 100 MB/s for each domain and follows
 *    the device within tens of seconds. A stock has its own estimate (struct dirty_rate), by the
 *    kernel's count of pages written, from one look to a later one:
 *     - A higher rate moves the estimate by half of the difference. What was written is written.
 *     - A lower one by an eighth: the device may have had nothing to do.
 *    An estimate that is too low makes parks too long, the device writes all of L in them, and so
 *    the estimate grows by half in each: after six it is right for a device ten times as fast. One
 *    that is too high makes parks too short, and L too large, until it is right.
 *
 * 5. Bounds. The stock is at most L and what tasks add before they return to user mode: that of one
 *    system call each; of two, until the device's rate is known and a second later. A park is at
 *    most DIRTY_LONGEST_NS.
 */
#ifndef APLOMB_POLICY_DIRTY_H
#define APLOMB_POLICY_DIRTY_H

#include "types.h"

/* What the device writes in this time, ns, is not above the limit. */
#define DIRTY_LIMIT_NS (50 * NSEC_PER_MSEC)
/* A park is at least this long, ns: a shorter one would cost more in switches than it is worth. */
#define DIRTY_LEAST_NS (200 * NSEC_PER_USEC)
/* The longest park, ns. It is what all parks together may be (park/park.bpf.h). */
#define DIRTY_LONGEST_NS (100 * NSEC_PER_MSEC)
/* No device writes more pages a second (32 TB), and the arithmetic below has room for so many. */
#define DIRTY_MAX_RATE (1ULL << 33)
/*
 * Least time between two looks at the rate, ns: pages are counted as written when a request is
 * done, of which a slow disk completes one in 5 ms. Less: the estimate jumps by requests.
 */
#define DIRTY_RATE_NS (20 * NSEC_PER_MSEC)
/* After this time, ns, what was written says nothing about the rate: the tasks may have paused. */
#define DIRTY_RATE_LONGEST_NS NSEC_PER_SEC

/* How fast the device writes one stock. All 0: not known yet. */
struct dirty_rate {
	u64 at;      /* time of the last look, ns */
	u64 written; /* pages written by then, in all */
	u64 rate;    /* pages a second */
};

/*
 * A look at @now. @written: pages of the stock that the device has written in all; @estimate: the
 * kernel's, pages a second. Returns the rate, pages a second.
 */
static inline u64 dirty_rate_look(struct dirty_rate *r, u64 now, u64 written, u64 estimate)
{
	u64 time = now - r->at, pages = written - r->written, seen;

	if (!r->at) {
		r->rate = estimate;
	} else if (time < DIRTY_RATE_NS) {
		return r->rate;
	} else if (time < DIRTY_RATE_LONGEST_NS && pages < DIRTY_MAX_RATE) {
		seen = pages * NSEC_PER_SEC / time;
		if (seen > r->rate)
			r->rate += (seen - r->rate) / 2;
		else
			r->rate -= (r->rate - seen) / 8;
	}
	r->at = now;
	r->written = written;
	return r->rate;
}

/*
 * The limit of a stock, pages. @limit: of its class; @rate: pages a second that the device writes,
 * 0: unknown.
 */
static inline u64 dirty_limit(u64 limit, u64 rate)
{
	u64 part;

	if (rate > DIRTY_MAX_RATE)
		rate = DIRTY_MAX_RATE;
	part = rate / (NSEC_PER_SEC / DIRTY_LIMIT_NS);
	return part > limit ? part : limit;
}

/*
 * A task has dirtied pages. @dirty: the stock; @limit: dirty_limit(); both in pages. @rate:
 * pages a second that the device writes, 0: unknown. Returns for how long the task is to be parked,
 * ns; 0: not at all.
 */
static inline u64 dirty_park(u64 dirty, u64 limit, u64 rate)
{
	u64 over, ns;

	if (dirty <= limit)
		return 0;
	if (rate > DIRTY_MAX_RATE)
		rate = DIRTY_MAX_RATE;
	over = dirty - limit / 2;
	/* over / rate seconds are DIRTY_LONGEST_NS or more */
	if (over >= rate / (NSEC_PER_SEC / DIRTY_LONGEST_NS))
		return DIRTY_LONGEST_NS;
	ns = over * NSEC_PER_SEC / rate;
	return ns > DIRTY_LEAST_NS ? ns : DIRTY_LEAST_NS;
}

#endif /* APLOMB_POLICY_DIRTY_H */
