/* SPDX-License-Identifier: GPL-2.0 */
/* shim_disk.c - the policies of disks for the host: see shim.c. */
#include <stddef.h>

#include "cello.h"
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

const size_t policy_layout_cello_group[] = {
	sizeof(struct cello_group), AT(cello_group, share_ppm), AT(cello_group, left),
	AT(cello_group, seen),      AT(cello_group, at_disk),   AT(cello_group, waiting),
	AT(cello_group, parked),    AT(cello_group, most),
};

const size_t policy_layout_cello[] = {
	sizeof(struct cello), AT(cello, round_ns), AT(cello, round_end), AT(cello, done),
	AT(cello, service),   AT(cello, spent),    AT(cello, turns),     AT(cello, alone),
	AT(cello, open),      AT(cello, groups),
};

void policy_cello_begin(struct cello *c, u64 now, u64 round_ns)
{
	cello_begin(c, now, round_ns);
}

u64 policy_cello_done(struct cello *c, u32 group, u64 sent, u64 now)
{
	return cello_done(c, group, sent, now);
}

u32 policy_cello_look(struct cello *c, u64 now)
{
	return cello_look(c, now);
}

u32 policy_cello_admits(struct cello *c, u32 group)
{
	return cello_admits(c, group);
}

void policy_cello_released(struct cello *c, u32 group, u32 nr)
{
	cello_released(c, group, nr);
}

void policy_cello_share(struct cello *c, u64 soft_real_time, u64 interactive, u64 rest)
{
	cello_share(c, soft_real_time, interactive, rest);
}
