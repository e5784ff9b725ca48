/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memory/account.bpf.h - what happens to tasks while memory is short, counted by class.
 */
#ifndef APLOMB_MEMORY_ACCOUNT_BPF_H
#define APLOMB_MEMORY_ACCOUNT_BPF_H

#include "intf.h"
#include "reserved/server.bpf.h"

/* How often: [enum memory_class * NR_MEMORY_COUNTS + enum memory_count] */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NR_MEMORY_CLASSES *NR_MEMORY_COUNTS);
	__type(key, u32);
	__type(value, u64);
} memory_counts SEC(".maps");

static __always_inline u32 memory_class(const struct server *interactive)
{
	return interactive ? MEMORY_INTERACTIVE : MEMORY_BEST_EFFORT;
}

static __always_inline void memory_count(u32 class, u32 what)
{
	u32 key = class * NR_MEMORY_COUNTS + what;
	u64 *n = bpf_map_lookup_elem(&memory_counts, &key);

	if (n)
		*n += 1;
}

#endif /* APLOMB_MEMORY_ACCOUNT_BPF_H */
