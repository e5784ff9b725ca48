/* SPDX-License-Identifier: GPL-2.0 */
/* shim_memory.c - the policies of memory for the host: see shim.c. */
#include <stddef.h>

#include "bump.h"
#include "reserve.h"

#define AT(type, field) offsetof(struct type, field)

/* bump.h */
u64 policy_bump_allowance(u64 free, u64 min, u64 low)
{
	return bump_allowance(free, min, low);
}

bool policy_bump_take(u32 *taken, u32 pages, u64 allowance)
{
	return bump_take(taken, pages, allowance);
}

/* reserve.h */
const size_t policy_layout_reserve_budget[] = {
	sizeof(struct reserve_budget),
	AT(reserve_budget, first),
	AT(reserve_budget, left),
	AT(reserve_budget, begun),
};

u64 policy_reserve_top(u64 min, u64 low, u32 growth_ppm)
{
	return reserve_top(min, low, growth_ppm);
}

u64 policy_reserve_draw(struct reserve_budget *b, u32 pages, u64 now)
{
	return reserve_draw(b, pages, now);
}
