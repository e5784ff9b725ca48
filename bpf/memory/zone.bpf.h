/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memory/zone.bpf.h - how many pages a zone of memory has free, and the levels at which the kernel
 * acts.
 */
#ifndef APLOMB_MEMORY_ZONE_BPF_H
#define APLOMB_MEMORY_ZONE_BPF_H

#include "kernel/enums.bpf.h"
#include "kernel/types.bpf.h"

/*
 * The watermarks and free pages of a zone, in pages. The kernel raises all watermarks for a while
 * (watermark_boost) when it had to mix pages that can be moved with others, by up to one and a half
 * times `high`; tasks then reclaim for themselves below the raised `min`.
 */
struct zone_level {
	u64 free, min, low, high;
};

static __always_inline struct zone_level zone_level(const struct zone *zone)
{
	u64 boost = zone->watermark_boost;
	struct zone_level l = {
		.free = zone->vm_stat[NR_FREE_PAGES].counter,
		.min = zone->_watermark[WMARK_MIN] + boost,
		.low = zone->_watermark[WMARK_LOW] + boost,
		.high = zone->_watermark[WMARK_HIGH] + boost,
	};

	if ((s64)l.free < 0) /* the counter lags */
		l.free = 0;
	return l;
}

#endif /* APLOMB_MEMORY_ZONE_BPF_H */
