/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/session.bpf.h - the crowd of each session: the weights of its tasks that compete, in sum.
 *
 * Theory: policy/autogroup.h. When a task competes: tree/place.bpf.h.
 *
 * 1. Model. A crowd is a word of the session's number and the sum of weights, in a table with a
 *    place for each of the last SESSIONS sessions, by number. A session whose place another one has
 *    takes one of the next SESSION_PROBES - 1; if all have tasks that compete, the two share one.
 *    A place is free while its sum is 0. No lock: a sum changes by one atomic addition, and a place
 *    is taken by one atomic exchange of the whole word.
 *
 * 2. What is approximate. Two CPUs may take two places for one session at the same time: it has
 *    twice its weight until one of the crowds is empty. A task's weight counts as it was when it
 *    joined.
 *
 * 3. Cost. All CPUs that run tasks of one session change one word, when a task begins to wait and
 *    when it sleeps.
 */
#ifndef APLOMB_TREE_SESSION_BPF_H
#define APLOMB_TREE_SESSION_BPF_H

#include "kernel/program.bpf.h"

/* A power of two. Numbers only grow, so sessions meet only if one is 4,096 older: 256 kB. */
#define SESSIONS 4096
/* Trade: with more, each join takes longer; with fewer, more sessions share a crowd. */
#define SESSION_PROBES 4

/* The number of a session, and below it its crowd */
struct session {
	u64 crowd;
} __attribute__((aligned(64))); /* a line for each: CPUs of other sessions do not wait for it */

struct session sessions[SESSIONS];
u32 sessions_used; /* a task has joined one: all skip this part until then */

static __always_inline u64 *crowd_at(u32 place)
{
	return &sessions[place & (SESSIONS - 1)].crowd;
}

static __always_inline bool is_crowd_of(u64 crowd, u32 id)
{
	return crowd >> 32 == id && (u32)crowd;
}

/* Adds @weight to the crowd of session @id in @place, if it is there. */
static __always_inline bool crowd_join(u32 place, u32 id, u32 weight)
{
	u64 *at = crowd_at(place);

	if (!is_crowd_of(*at, id))
		return false;
	if (is_crowd_of(__sync_fetch_and_add(at, weight), id))
		return true;
	__sync_fetch_and_sub(at, weight); /* it became empty, and another session took the place */
	return false;
}

/* Takes @place, if it is empty, for session @id with a crowd of @weight. */
static __always_inline bool crowd_begin(u32 place, u32 id, u32 weight)
{
	u64 *at = crowd_at(place), was = *at;

	return !(u32)was && __sync_val_compare_and_swap(at, was, (u64)id << 32 | weight) == was;
}

/* A task of @weight in session @id competes from now on. Returns the place of its crowd. */
static __noinline u32 session_place(u32 id, u32 weight)
{
	TAKES_STACK(48);
	u32 k;

	bpf_for(k, 0, SESSION_PROBES) {
		if (crowd_join(id + k, id, weight))
			return id + k;
	}
	bpf_for(k, 0, SESSION_PROBES) {
		if (crowd_begin(id + k, id, weight) || crowd_join(id + k, id, weight))
			return id + k;
	}
	__sync_fetch_and_add(crowd_at(id), weight);
	return id;
}

/* A task that joined @place with @weight competes no more. */
static __always_inline void crowd_leave(u32 place, u32 weight)
{
	__sync_fetch_and_sub(crowd_at(place), weight);
}

/* The sum of the weights in @place. */
static __always_inline u32 crowd_of(u32 place)
{
	return *crowd_at(place);
}

#endif /* APLOMB_TREE_SESSION_BPF_H */
