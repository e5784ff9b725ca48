/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reserved/owner.bpf.h - one account for all programs of a user: of the machine's CPU time that is
 * reserved, and of the table of servers.
 *
 * 1. Why. A spec matches by file. If one user starts a program that has a spec forty times, forty
 *    reservations are asked for, and by load all are admitted that fit (reserved/admission.bpf.h
 *    1). Forty shells that compute would leave nothing for another user's film.
 *
 * 2. Model. An account has a load, as a CPU has (policy/load.h), in ppm of one CPU: what the user's
 *    servers used by right over the last four seconds on all CPUs, and what was launched. Its limit
 *    is a part of all CPUs together: seat_limit_ppm for a user whose session is the active one of a
 *    seat, owner_limit_ppm for another. Root's account is row 0. It has no limit, nor have kernel
 *    threads, domains, and reservations that root has asked for.
 *
 * 3. Control.
 *     - Admission: the program is refused that would exceed the limit. It waits, as one for which
 *       the CPU has no room.
 *     - Each second: if the account's use is above its limit by an eighth (as R_max is above R_hi),
 *       servers are revoked as on an overloaded CPU (reserved/governor.bpf.h).
 *     - Beyond their budgets, cbs-soft servers: reserved/soft.bpf.h.
 *     - Revocation, for whichever reason: a program of an account with a limit that never sleeps
 *       is no interactive one, whatever its spec says (server_loops()).
 *     - The table: at most MAX_OWNED servers; from half of that on none waits in it. Nor do more
 *       than MAX_WAITING that are inherited: a process that forks eight children at once (a zygote,
 *       a browser) has some that do not fit at that moment, and they wait until they do; but a fork
 *       bomb of such a program would fill the table.
 *
 * 4. Cost. None at a wake-up or a switch. What an account used is added up once a second, from what
 *    its servers have counted.
 *
 * Limits. MAX_OWNERS accounts. The users of further ones share the last.
 */
#ifndef APLOMB_RESERVED_OWNER_BPF_H
#define APLOMB_RESERVED_OWNER_BPF_H

#include "kernel/owner.bpf.h"
#include "reserved/soft.bpf.h"
#include "state/state.bpf.h"

/* Parts of all CPUs together, ppm. Trade: more for one user's own programs, or for the others'. */
SETTING u64 owner_limit_ppm = 200000;
SETTING u64 seat_limit_ppm = 600000;

#define MAX_WAITING 32 /* inherited servers of an account; one more child stays best-effort */
#define LAST_ACCOUNT (MAX_OWNERS - 1)
#define NO_OWNER (~0U) /* the uid of the last account: several users' */

struct owner {
	u32 uid;
	u32 servers; /* in the table, in any state */
	u32 waiting; /* of these, inherited and never admitted; changed atomically */
	u32 pad;
	u64 promised_ppm; /* to guaranteed ones */
	u64 used_ns;      /* work, by servers that have gone, in this second; then by all */
	struct load load; /* by load */
};

struct owner owners[MAX_OWNERS]; /* under governor_lock */
u32 seat_users[MAX_SEATS];       /* written by the daemon; 0: none */
u32 seats_known;                 /* 0: each user counts as one of a seat */

static __always_inline struct owner *owner_at(u32 row)
{
	return &owners[row & (MAX_OWNERS - 1)];
}

/* Has the user @uid the active session of a seat? */
static __always_inline bool has_seat(u32 uid)
{
	u32 i, found = !seats_known;

	bpf_for(i, 0, MAX_SEATS) {
		if (seat_users[i & (MAX_SEATS - 1)] == uid)
			found = 1;
	}
	return found;
}

/* What the programs of account @row may use together, ppm of one CPU. */
static __noinline u64 owner_limit(u32 row)
{
	TAKES_STACK(24);
	u32 cpus = nr_online ? nr_online : 1;

	if (row == NO_ACCOUNT)
		return TIME_NEVER;
	return (has_seat(owner_at(row)->uid) ? seat_limit_ppm : owner_limit_ppm) * cpus;
}

/* What all programs of @o use, or will, ppm of one CPU. */
static __always_inline u64 owner_expected(const struct owner *o)
{
	return o->promised_ppm + load_expected(&o->load);
}

/* A row without servers whose history is over is free. */
static __always_inline bool owner_is_free(const struct owner *o)
{
	return !o->servers && !o->load.r_ppm && !o->load.s_ppm;
}

/* The account of user @uid, which has one more server from now on. */
static __noinline u32 owner_join(u32 uid)
{
	TAKES_STACK(24);
	u32 i, row = NO_ACCOUNT, empty = LAST_ACCOUNT;

	if (!uid)
		return NO_ACCOUNT;
	bpf_spin_lock(&governor_lock);
	bpf_for(i, 0, MAX_OWNERS) {
		struct owner *o = owner_at(i);

		if (i == NO_ACCOUNT || i == LAST_ACCOUNT)
			continue;
		if (o->uid == uid)
			row = i;
		else if (empty == LAST_ACCOUNT && owner_is_free(o))
			empty = i;
	}
	if (row == NO_ACCOUNT)
		row = empty;
	owner_at(row)->uid = row == LAST_ACCOUNT ? NO_OWNER : uid;
	owner_at(row)->servers++;
	bpf_spin_unlock(&governor_lock);
	if (!soft_at(row)->known) /* the first second */
		soft_sample(row, 0, owner_limit(row));
	return row;
}

/* A server of account @row has gone, which used @used ns in this second. */
static __always_inline void owner_leave(u32 row, u64 used)
{
	if (row == NO_ACCOUNT)
		return;
	bpf_spin_lock(&governor_lock);
	owner_at(row)->servers--;
	owner_at(row)->used_ns += used;
	bpf_spin_unlock(&governor_lock);
}

/* May one more inherited server of account @row wait until it fits? Then it is counted. */
static __always_inline bool owner_waits(u32 row)
{
	if (owner_at(row)->waiting >= MAX_WAITING)
		return false;
	__sync_fetch_and_add(&owner_at(row)->waiting, 1);
	return true;
}

static __always_inline void owner_waits_no_more(u32 row)
{
	__sync_fetch_and_sub(&owner_at(row)->waiting, 1);
}

/* Is there room for @bw_ppm more in account @row, whose limit is @limit? */
static __always_inline bool owner_fits(u32 row, u64 limit, u64 bw_ppm)
{
	const struct owner *o = owner_at(row);

	return row == NO_ACCOUNT || load_fits(&o->load, o->promised_ppm + bw_ppm, limit);
}

/* Promises @bw_ppm to account @row, if there is room. */
static __noinline bool owner_promise(u32 row, u64 bw_ppm)
{
	u64 limit = owner_limit(row);
	bool fits;

	bpf_spin_lock(&governor_lock);
	fits = owner_fits(row, limit, bw_ppm);
	if (fits && row != NO_ACCOUNT)
		owner_at(row)->promised_ppm += bw_ppm;
	bpf_spin_unlock(&governor_lock);
	return fits;
}

static __always_inline void owner_promise_ends(u32 row, u64 bw_ppm)
{
	if (row == NO_ACCOUNT)
		return;
	bpf_spin_lock(&governor_lock);
	owner_at(row)->promised_ppm -= bw_ppm;
	bpf_spin_unlock(&governor_lock);
}

/* --- the governor's second -------------------------------------------------------------------- */

/*
 * One sample of account @row over @interval ns. @none: the machine has no server, so the account's
 * history ends, as each CPU's does: no second follows that would sample it. True: it uses too much.
 */
static __always_inline bool owner_sample(u32 row, u64 interval, bool none)
{
	struct owner *o = owner_at(row);
	u64 limit;

	if (owner_is_free(o) && !o->used_ns) {
		soft_forget(row);
		return false;
	}
	limit = owner_limit(row);
	bpf_spin_lock(&governor_lock);
	soft_sample(row, o->used_ns, limit > o->promised_ppm ? limit - o->promised_ppm : 0);
	load_sample(&o->load, o->used_ns, interval);
	o->used_ns = 0;
	if (none && !o->servers) /* else one was taken just now */
		__builtin_memset(&o->load, 0, sizeof(o->load));
	bpf_spin_unlock(&governor_lock);
	return o->load.r_ppm > limit + limit / 8 || soft_waits(row);
}

#endif /* APLOMB_RESERVED_OWNER_BPF_H */
