/* SPDX-License-Identifier: GPL-2.0 */
/* shim_disk.c - the policies of disks for the host: see shim.c. */
#include <stddef.h>

#include "dirty.h"

#define AT(type, field) offsetof(struct type, field)

const size_t policy_layout_dirty_rate[] = {
	sizeof(struct dirty_rate),
	AT(dirty_rate, at),
	AT(dirty_rate, written),
	AT(dirty_rate, rate),
};

u64 policy_dirty_rate_look(struct dirty_rate *r, u64 now, u64 written, u64 estimate)
{
	return dirty_rate_look(r, now, written, estimate);
}

u64 policy_dirty_limit(u64 limit, u64 rate)
{
	return dirty_limit(limit, rate);
}

u64 policy_dirty_park(u64 dirty, u64 limit, u64 rate)
{
	return dirty_park(dirty, limit, rate);
}
