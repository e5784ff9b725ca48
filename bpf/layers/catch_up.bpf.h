/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/catch_up.bpf.h - timers that could not be started are started at the next tick or choice.
 *
 * Theory: state/unstarted.bpf.h.
 */
#ifndef APLOMB_CATCH_UP_BPF_H
#define APLOMB_CATCH_UP_BPF_H

#include "park/holding.bpf.h"
#include "park/recall.bpf.h"
#include "reserved/server.bpf.h"
#include "state/unstarted.bpf.h"
#include "tree/limit.bpf.h"

/* Timers that one tick or choice starts. More wait for the next one. */
#define STARTS_AT_ONCE 16

/* Returns timer @number of TIMER_ONE. */
static __always_inline struct timer_slot *one_timer(u32 number)
{
	u32 zero = 0;

	switch (number) {
	case TIMER_GOVERNOR:
		return bpf_map_lookup_elem(&governor_timer, &zero);
	case TIMER_RECALL:
		return bpf_map_lookup_elem(&recall_timer, &zero);
	default:
		return bpf_map_lookup_elem(&pass_timer, &zero);
	}
}

/* Starts timer @number of @kind, to fire at once. Returns what bpf_timer_start() does. */
static __noinline long start_now(u32 kind, u32 number)
{
	struct timer_slot *slot;
	struct domain *d;
	struct server *s;

	switch (kind) {
	case TIMER_LIMIT:
		d = bpf_map_lookup_elem(&domains, &number);
		return d ? bpf_timer_start(&d->timer, 0, 0) : 0;
	case TIMER_SERVER:
		s = bpf_map_lookup_elem(&servers, &number);
		return s ? bpf_timer_start(&s->timer, 0, 0) : 0;
	case TIMER_HELD:
		slot = bpf_map_lookup_elem(&held_timers, &number);
		break;
	default:
		slot = one_timer(number);
	}
	return slot ? bpf_timer_start(&slot->timer, 0, 0) : 0;
}

/* Starts timers that were not started, until one fails again. */
VERIFIED_ONCE int start_unstarted(void)
{
	u32 i, at;

	any_unstarted = 0; /* first: a start that fails meanwhile sets it again */
	bpf_for(i, 0, STARTS_AT_ONCE) {
		if (bpf_map_pop_elem(&unstarted, &at))
			return 0;
		at &= NR_TIMERS - 1;
		/* before the start: one that fails from here on puts it on the stack again */
		__sync_lock_test_and_set(&is_unstarted[at], 0);
		if (start_now(at / TIMERS_OF_KIND, at % TIMERS_OF_KIND)) {
			timer_unstarted(at / TIMERS_OF_KIND, at % TIMERS_OF_KIND);
			return 0;
		}
	}
	any_unstarted = 1;
	return 0;
}

/* In ops.tick, and when a CPU chooses. */
static __always_inline void catch_up(void)
{
	if (any_unstarted)
		start_unstarted();
}

#endif /* APLOMB_CATCH_UP_BPF_H */
