/* SPDX-License-Identifier: GPL-2.0 */
/*
 * shim_tree.c - the policy headers of the domain tree as functions for Rust, as in shim.c.
 *
 * The rounds of the headers' loops are counted. So tests can bound the length of an operation
 * without a clock.
 */
#include <stddef.h>

static _Thread_local unsigned long long rounds;

#define policy_for(i, from, to) for ((i) = (from); (i) < (to) && ++rounds; (i)++)

#include "autogroup.h"
#include "fifo.h"
#include "heap.h"
#include "lift.h"
#include "mtr.h"
#include "park.h"
#include "quota.h"
#include "sfq.h"
#include "share.h"
#include "wrr.h"

#define AT(type, field) offsetof(struct type, field)

/* Rounds of all loops in this thread since the last call. */
u64 policy_rounds(void)
{
	u64 n = rounds;

	rounds = 0;
	return n;
}

/* lift.h */
const size_t policy_layout_lift[] = { sizeof(struct lift), AT(lift, from), AT(lift, used) };

u32 policy_autogroup_weight(u32 weight, u32 group, u32 crowd, u32 unit)
{
	return autogroup_weight(weight, group, crowd, unit);
}

bool policy_lifted(const struct lift *l, u64 now)
{
	return lifted(l, now);
}

void policy_lift_charge(struct lift *l, u64 now, u64 ran)
{
	lift_charge(l, now, ran);
}

/* fifo.h */
const size_t policy_layout_fifo_node[] = { sizeof(struct fifo_node), AT(fifo_node, arrivals) };

u64 policy_fifo_arrive(struct fifo_node *n, u64 now)
{
	return fifo_arrive(n, now);
}

u64 policy_fifo_charge(u64 number, u64 ns)
{
	return fifo_charge(number, ns);
}

/* heap.h */
const size_t policy_layout_heap_node[] = {
	sizeof(struct heap_node), AT(heap_node, key),  AT(heap_node, left), AT(heap_node, right),
	AT(heap_node, up),        AT(heap_node, rank), AT(heap_node, in),
};
const u64 policy_heap_size = HEAP_SIZE;

void policy_heap_insert(struct heap_node *at, u32 *root, u32 i, u64 key)
{
	heap_insert(at, root, i, key);
}

void policy_heap_remove(struct heap_node *at, u32 *root, u32 i)
{
	heap_remove(at, root, i);
}

/* park.h */
const size_t policy_layout_park[] = {
	sizeof(struct park),
	AT(park, reasons),
	AT(park, began),
	AT(park, until),
};

bool policy_park_ask(struct park *p, u32 reason, u64 now, u64 until, u64 bound)
{
	return park_ask(p, reason, now, until, bound);
}

void policy_park_end(struct park *p, u32 reason)
{
	park_end(p, reason);
}

u64 policy_park_until(const struct park *p, u64 now)
{
	return park_until(p, now);
}

u64 policy_park_time(const struct park *p, u32 reason, u64 since, u64 now)
{
	return park_time(p, reason, since, now);
}

void policy_park_settle(struct park *p, u64 now)
{
	park_settle(p, now);
}

/* quota.h */
const size_t policy_layout_quota[] = {
	sizeof(struct quota), AT(quota, period_ns), AT(quota, quota_ns),
	AT(quota, burst_ns),  AT(quota, left),      AT(quota, refill),
};
const u64 policy_quota_most = QUOTA_MOST;
const u64 policy_quota_debt_ns = QUOTA_DEBT_NS;

void policy_quota_set(struct quota *q, u64 now, u64 quota_ns, u64 period_ns, u64 burst_ns)
{
	quota_set(q, now, quota_ns, period_ns, burst_ns);
}

void policy_quota_roll(struct quota *q, u64 now)
{
	quota_roll(q, now);
}

u64 policy_quota_claim(struct quota *q, u64 want)
{
	return quota_claim(q, want);
}

void policy_quota_return(struct quota *q, u64 granted, u64 used)
{
	quota_return(q, granted, used);
}

bool policy_quota_throttled(const struct quota *q)
{
	return quota_throttled(q);
}

/* share.h */
const u64 policy_share_limit_ppm = SHARE_LIMIT_PPM;
const u64 policy_share_unit = SHARE_UNIT;

u32 policy_share_ppm(u32 reserved, u32 reserved_sum, u32 parent, u32 weight, u64 weight_sum)
{
	return share_ppm(reserved, reserved_sum, parent, weight, weight_sum);
}

u32 policy_share_weight(u32 reserved, u32 reserved_sum, u32 parent, u32 weight, u64 weight_sum)
{
	return share_weight(reserved, reserved_sum, parent, weight, weight_sum);
}

bool policy_share_fits(u64 reserved_sum, u64 add, u64 limit)
{
	return share_fits(reserved_sum, add, limit);
}

/* sfq.h */
const size_t policy_layout_sfq_node[] = { sizeof(struct sfq_node), AT(sfq_node, now),
					  AT(sfq_node, before), AT(sfq_node, last) };
const u64 policy_sfq_scale = SFQ_SCALE;

void policy_sfq_wake(struct sfq_member *m, const struct sfq_node *n)
{
	sfq_wake(m, n);
}

void policy_sfq_go_on(struct sfq_member *m, u64 v, u64 credit_ns, u32 weight)
{
	sfq_go_on(m, v, credit_ns, weight);
}

void policy_sfq_run(const struct sfq_member *m, struct sfq_node *n)
{
	sfq_run(m, n);
}

void policy_sfq_sleep(const struct sfq_member *m, struct sfq_node *n, bool all)
{
	sfq_sleep(m, n, all);
}

void policy_sfq_charge(struct sfq_member *m, u64 ns, u32 weight)
{
	sfq_charge(m, ns, weight);
}

/* wrr.h */
const size_t policy_layout_wrr_member[] = {
	sizeof(struct wrr_member),
	AT(wrr_member, turn),
	AT(wrr_member, left),
};

const u64 policy_wrr_cycle_ns = WRR_CYCLE_NS;

u64 policy_wrr_quantum(u64 ppm)
{
	return wrr_quantum(ppm);
}

void policy_wrr_wake(struct wrr_member *m, struct wrr_node *n, u64 quantum)
{
	wrr_wake(m, n, quantum);
}

bool policy_wrr_charge(struct wrr_member *m, struct wrr_node *n, u64 ns, u64 quantum)
{
	return wrr_charge(m, n, ns, quantum);
}

/* mtr.h */
const size_t policy_layout_mtr_member[] = {
	sizeof(struct mtr_member), AT(mtr_member, stamp), AT(mtr_member, left),
	AT(mtr_member, token),     AT(mtr_member, first), AT(mtr_member, early),
	AT(mtr_member, due),
};
const u64 policy_mtr_cycle_ns = MTR_CYCLE_NS;
const u64 policy_mtr_tokens = MTR_TOKENS;

u64 policy_mtr_key(const struct mtr_member *m)
{
	return mtr_key(m);
}

void policy_mtr_join(struct mtr_member *m, struct mtr_node *n, u64 ppm)
{
	mtr_join(m, n, ppm);
}

void policy_mtr_wake(struct mtr_member *m, const struct mtr_node *n)
{
	mtr_wake(m, n);
}

void policy_mtr_resize(struct mtr_member *m, u64 ppm)
{
	mtr_resize(m, ppm);
}

void policy_mtr_charge(struct mtr_member *m, struct mtr_node *n, u64 ns)
{
	mtr_charge(m, n, ns);
}

u64 policy_mtr_slice(const struct mtr_member *m)
{
	return mtr_slice(m);
}
