/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memory/relief_tick.bpf.h - the timer of memory/relief.bpf.h: looks at free memory, and releases
 * the tasks that are parked for memory.
 */
#ifndef APLOMB_MEMORY_RELIEF_TICK_BPF_H
#define APLOMB_MEMORY_RELIEF_TICK_BPF_H

#include "memory/relief.bpf.h"
#include "park/holding.bpf.h"

/*
 * Releases the tasks that are parked by @reason if memory is there. Returns whether some may be
 * left.
 */
static __noinline bool relief_look(struct relief *r, u32 reason, u64 free, u64 now)
{
	u32 i;

	if (!time_before(now, r->until + park_bound_ns))
		return false;
	if (free < r->free)
		return true;
	r->more = ~0U;
	bpf_for(i, 0, nr_cpus) {
		if (__sync_fetch_and_add(&held_cpu(i)->nr, 0))
			held_end(i, reason, 0, &r->more, now);
	}
	return false;
}

static int relief_tick(void *map, u32 *key, struct timer_slot *timer)
{
	u64 now = bpf_ktime_get_ns(), free = free_pages();
	bool left;

	relief_armed = 0; /* first: a task that is parked from now on starts the timer again */
	left = relief_look(&relief_reserve, PARK_RESERVE, free, now);
	left |= relief_look(&relief_memory, PARK_MEMORY, free, now);
	if (left && !relief_armed) {
		relief_armed = 1;
		bpf_timer_start(&timer->timer, RELIEF_LOOK_NS, 0);
	}
	return 0;
}

static __always_inline s32 relief_init(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&relief_timer, &zero);

	return slot ? bpf_timer_set_callback(&slot->timer, relief_tick) : -EINVAL;
}

#endif /* APLOMB_MEMORY_RELIEF_TICK_BPF_H */
