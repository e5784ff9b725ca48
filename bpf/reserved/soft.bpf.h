/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/soft.bpf.h - how long cbs-soft servers of one account may go on beyond their budgets.
 *
 * Source: Abeni and Buttazzo's soft reservations (policy/edf.h 5). The account is ours
 * (reserved/owner.bpf.h).
 *
 * 1. Why. A cbs-soft server goes before best-effort work for as long as its tasks do not sleep. A
 *    loop had nine tenths of its CPU until the governor revoked it after three seconds, and again
 *    each time that it was reactivated, or started anew.
 *
 * 2. Model. In each of the governor's seconds an account has the time that its limit leaves: the
 *    limit, less what is promised, less what its servers used of their budgets in the second
 *    before. A budget that a cbs-soft server would have before its period is taken from that. If
 *    it is not there, the server waits for its next period, as under redline. So an account has no
 *    more than its limit, and one budget of each server, however many servers are started, revoked
 *    and reactivated.
 *
 * 3. Control. An account whose servers had to wait in SOFT_SECONDS seconds in a row uses too much:
 *    the governor revokes the one that does most.
 */
#ifndef APLOMB_RESERVED_SOFT_BPF_H
#define APLOMB_RESERVED_SOFT_BPF_H

#include "kernel/program.bpf.h"

#define MAX_OWNERS 256 /* a power of two: rows of accounts (reserved/owner.bpf.h) */
#define NO_ACCOUNT 0   /* the row without a limit */

/* Trade: with one, a short burst would be enough; with more, a loop keeps its right for longer. */
#define SOFT_SECONDS 2

struct soft {
	u64 most_ns; /* in this second */
	u64 ran_ns;  /* of these, taken; changed atomically */
	u32 waited;  /* a server had to wait in this second */
	u16 waits;   /* the same: seconds in a row */
	u16 known;   /* most_ns is the account's */
};

struct soft softs[MAX_OWNERS]; /* by account */

static __always_inline struct soft *soft_at(u32 row)
{
	return &softs[row & (MAX_OWNERS - 1)];
}

/* CPU time in one second, ns, at @ppm of one CPU. */
static __always_inline u64 soft_second(u64 ppm)
{
	return ppm * (NSEC_PER_SEC / PPM);
}

/* May a server of account @row have its next budget of @ns before its period? */
static __always_inline bool soft_goes_on(u32 row, u64 ns)
{
	struct soft *f = soft_at(row);

	if (row == NO_ACCOUNT)
		return true;
	if (f->ran_ns + ns > f->most_ns) {
		f->waited = 1;
		return false;
	}
	__sync_fetch_and_add(&f->ran_ns, ns);
	return true;
}

/*
 * A second of account @row is over, in which its servers used @used_ns by right. @left_ppm: its
 * limit, less what is promised.
 */
static __always_inline void soft_sample(u32 row, u64 used_ns, u64 left_ppm)
{
	struct soft *f = soft_at(row);
	u64 most = soft_second(left_ppm), budgets = used_ns > f->ran_ns ? used_ns - f->ran_ns : 0;

	f->most_ns = most > budgets ? most - budgets : 0;
	f->ran_ns = 0;
	f->waits = f->waited ? f->waits + 1 : 0;
	f->waited = 0;
	f->known = 1;
}

/* Account @row is free: its next owner begins with a whole second. */
static __always_inline void soft_forget(u32 row)
{
	soft_at(row)->known = 0;
}

/* Had account @row's servers to wait again and again? */
static __always_inline bool soft_waits(u32 row)
{
	return soft_at(row)->waits >= SOFT_SECONDS;
}

#endif /* APLOMB_RESERVED_SOFT_BPF_H */
