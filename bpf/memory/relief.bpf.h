/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memory/relief.bpf.h - when is memory there again, so that the parks for it end early?
 *
 * Why. A park of 100 ms is right while the reclaimer waits for a slow disk. With compressed swap it
 * needs a millisecond, and then the tasks that wait for memory may go on.
 *
 * One timer looks while such tasks may be parked, and not otherwise. When free memory has reached
 * the top of the reserve, it releases the interactive tasks (PARK_RESERVE), for which the kernel
 * has pages without the reserve then. At the high watermark, where the reclaimer stops, it releases
 * all others (PARK_MEMORY).
 */
#ifndef APLOMB_MEMORY_RELIEF_BPF_H
#define APLOMB_MEMORY_RELIEF_BPF_H

#include "kernel/symbols.bpf.h"
#include "policy/park.h"
#include "state/timer.bpf.h"

/* Time between two looks, ns. Trade: a fast swap device idles for half of it at each relief. */
#define RELIEF_LOOK_NS (2 * NSEC_PER_MSEC)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} relief_timer SEC(".maps");

/* When the parks of one reason end */
struct relief {
	u64 free;  /* when so many pages of the machine are free */
	u64 until; /* no task is parked for the reason after this */
	u32 more;  /* of relief_look(): tasks that held_end() may release */
};

struct relief relief_memory, relief_reserve;
u32 relief_armed; /* relief_timer is started */

static __always_inline void relief_timer_start(void)
{
	struct timer_slot *timer;
	u32 zero = 0;

	timer = bpf_map_lookup_elem(&relief_timer, &zero);
	if (timer && bpf_timer_start(&timer->timer, RELIEF_LOOK_NS, 0))
		relief_armed = 0;
}

/* Pages that are missing in the zone that a task asked for: to the top of the reserve, to `high` */
struct missing {
	u64 to_reserve, to_high;
};

/*
 * A task is parked by @reason, PARK_MEMORY or PARK_RESERVE, until @until. The park ends early when
 * @m more pages are free than now; NULL: when as many are free as was said last.
 */
static __always_inline void relief_watch(u32 reason, u64 until, const struct missing *m)
{
	if (m) {
		u64 free = free_pages();

		relief_reserve.free = free + m->to_reserve;
		relief_memory.free = free + m->to_high;
	}
	if (reason == PARK_RESERVE)
		relief_reserve.until = until;
	else
		relief_memory.until = until;
	if (relief_armed)
		return;
	relief_armed = 1;
	relief_timer_start();
}

#endif /* APLOMB_MEMORY_RELIEF_BPF_H */
