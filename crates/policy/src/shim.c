/* SPDX-License-Identifier: GPL-2.0 */
/*
 * shim.c - the policy headers as functions that Rust can link: names and layouts, no logic.
 *
 * BPF needs static inline functions, which cannot be linked. So each function is repeated here with
 * the prefix `policy_`, and each struct as an array of its size and the offsets of its fields.
 */
#include <stddef.h>

#include "background.h"
#include "capacity.h"
#include "edf.h"
#include "fair.h"
#include "fcbs.h"
#include "load.h"
#include "wmr.h"

#define AT(type, field) offsetof(struct type, field)

/* edf.h */
const size_t policy_layout_edf_server[] = {
	sizeof(struct edf_server), AT(edf_server, runtime),  AT(edf_server, period),
	AT(edf_server, start),     AT(edf_server, deadline), AT(edf_server, budget),
	AT(edf_server, slept),     AT(edf_server, late),     AT(edf_server, policy),
	AT(edf_server, pad),
};

u64 policy_edf_bandwidth(u64 runtime, u64 period)
{
	return edf_bandwidth(runtime, period);
}

u64 policy_edf_density(u64 runtime, u64 period, u32 policy)
{
	return edf_density(runtime, period, policy);
}

void policy_edf_init(struct edf_server *s, u64 now, u64 runtime, u64 period)
{
	edf_init(s, now, runtime, period);
}

bool policy_edf_eligible(const struct edf_server *s, u64 now)
{
	return edf_eligible(s, now);
}

void policy_edf_charge(struct edf_server *s, u64 ns)
{
	edf_charge(s, ns);
}

void policy_edf_sleep(struct edf_server *s)
{
	edf_sleep(s);
}

void policy_edf_succeed(struct edf_server *s, const struct edf_server *old, u64 now)
{
	edf_succeed(s, old, now);
}

void policy_edf_wake(struct edf_server *s, u64 now)
{
	edf_wake(s, now);
}

u32 policy_edf_assign(struct edf_server *s, u64 now)
{
	return edf_assign(s, now);
}

/* load.h */
const size_t policy_layout_load[] = {
	sizeof(struct load), AT(load, sample_ppm), AT(load, r_ppm), AT(load, s_ppm),
	AT(load, fresh_ppm), AT(load, next),       AT(load, pad),
};

const size_t policy_layout_usage[] = { sizeof(struct usage), AT(usage, second), AT(usage, ns) };

const u64 policy_load_samples = LOAD_SAMPLES;
const u64 policy_load_sample_ns = LOAD_SAMPLE_NS;

u64 policy_load_expected(const struct load *l)
{
	return load_expected(l);
}

bool policy_load_fits(const struct load *l, u64 bw_ppm, u64 r_hi_ppm)
{
	return load_fits(l, bw_ppm, r_hi_ppm);
}

void policy_load_launch(struct load *l, u64 bw_ppm)
{
	load_launch(l, bw_ppm);
}

void policy_load_leave(struct load *l, u64 bw_ppm, u64 age_s)
{
	load_leave(l, bw_ppm, age_s);
}

void policy_load_sample(struct load *l, u64 used_ns, u64 interval_ns)
{
	load_sample(l, used_ns, interval_ns);
}

void policy_load_forget(struct load *l, u64 use_ppm)
{
	load_forget(l, use_ppm);
}

void policy_usage_add(struct usage *u, u64 second, u64 ns)
{
	usage_add(u, second, ns);
}

u64 policy_usage_ppm(struct usage *u, u64 second)
{
	return usage_ppm(u, second);
}

u64 policy_usage_part_ppm(u64 use_ppm, u64 bw_ppm, u64 age_ns)
{
	return usage_part_ppm(use_ppm, bw_ppm, age_ns);
}

/* fair.h */
const size_t policy_layout_fair_queue[] = { sizeof(struct fair_queue), AT(fair_queue, now),
					    AT(fair_queue, last), AT(fair_queue, floor) };

const size_t policy_layout_fair_pair[] = { sizeof(struct fair_pair), AT(fair_pair, even) };

const u64 policy_fair_weight = FAIR_NICE_0;
const u64 policy_fair_unit = FAIR_UNIT;
const u64 policy_fair_slice_ns = FAIR_SLICE_NS;
const u64 policy_fair_credit_ns = FAIR_CREDIT_NS;
const u64 policy_fair_debt_ns = FAIR_DEBT_NS;
const u64 policy_fair_guard_ns = FAIR_GUARD_NS;

u64 policy_fair_cost(u64 ran_ns, u32 weight)
{
	return fair_cost(ran_ns, weight);
}

void policy_fair_begins(struct fair_queue *q, u64 v)
{
	fair_begins(q, v);
}

void policy_fair_ran(struct fair_queue *q, u64 v)
{
	fair_ran(q, v);
}

void policy_fair_none_waits(struct fair_queue *q)
{
	fair_none_waits(q);
}

u64 policy_fair_place(u64 v, const struct fair_queue *q, u32 weight)
{
	return fair_place(v, q, weight);
}

bool policy_fair_preempts(u64 v, u32 weight, u64 other)
{
	return fair_preempts(v, weight, other);
}

bool policy_fair_guarded(u64 ran_ns, u32 weight, u32 wakes)
{
	return fair_guarded(ran_ns, weight, wakes);
}

u64 policy_fair_turn_left(u64 ran_ns, u32 weight, u32 wakes)
{
	return fair_turn_left(ran_ns, weight, wakes);
}

bool policy_fair_rested_preempts(u64 v, u32 weight, u64 now)
{
	return fair_rested_preempts(v, weight, now);
}

u64 policy_fair_debt(u64 waiting, u32 weight)
{
	return fair_debt(waiting, weight);
}

u64 policy_fair_start(const struct fair_queue *q)
{
	return fair_start(q);
}

s64 policy_fair_pair_ahead(struct fair_pair *f, u64 pinned, u64 others)
{
	return fair_pair_ahead(f, pinned, others);
}

void policy_fair_pair_wakes(struct fair_pair *f, u64 pinned, u64 others)
{
	fair_pair_wakes(f, pinned, others);
}

/* background.h */
const size_t policy_layout_background[] = {
	sizeof(struct background),
	AT(background, window_end),
	AT(background, owed),
};

const u64 policy_background_window_ns = BACKGROUND_WINDOW_NS;

void policy_background_roll(struct background *b, u64 now, u64 share_ppm)
{
	background_roll(b, now, share_ppm);
}

void policy_background_charge(struct background *b, u64 ran_ns)
{
	background_charge(b, ran_ns);
}

u64 policy_background_laxity(const struct background *b, u64 now)
{
	return background_laxity(b, now);
}

/* fcbs.h */
const size_t policy_layout_fcbs_bank[] = {
	sizeof(struct fcbs_bank), AT(fcbs_bank, slack), AT(fcbs_bank, deadline),
	AT(fcbs_bank, stamp),     AT(fcbs_bank, used),  AT(fcbs_bank, frozen),
	AT(fcbs_bank, drawn),
};

const size_t policy_layout_fcbs_loan[] = { sizeof(struct fcbs_loan), AT(fcbs_loan, lent),
					   AT(fcbs_loan, used) };

const u64 policy_fcbs_least_ns = FCBS_LEAST_NS;

void policy_fcbs_freeze(struct fcbs_bank *b, u64 now, u64 deadline)
{
	fcbs_freeze(b, now, deadline);
}

void policy_fcbs_draw(struct fcbs_bank *b, u64 now)
{
	fcbs_draw(b, now);
}

void policy_fcbs_thaw(struct fcbs_bank *b, u64 now)
{
	fcbs_thaw(b, now);
}

u64 policy_fcbs_slack(const struct fcbs_bank *b, u64 now)
{
	return fcbs_slack(b, now);
}

void policy_fcbs_give(struct fcbs_bank *b, struct fcbs_loan *l, u64 now, u64 budget, u64 deadline)
{
	fcbs_give(b, l, now, budget, deadline);
}

u64 policy_fcbs_take_back(struct fcbs_bank *b, struct fcbs_loan *l, u64 now)
{
	return fcbs_take_back(b, l, now);
}

/* wmr.h */
const size_t policy_layout_wmr_split[] = {
	sizeof(struct wmr_split), AT(wmr_split, runtime),  AT(wmr_split, cpu),
	AT(wmr_split, release),   AT(wmr_split, slept_at), AT(wmr_split, kept),
	AT(wmr_split, parts),     AT(wmr_split, window),
};

const size_t policy_layout_wmr_member[] = {
	sizeof(struct wmr_member), AT(wmr_member, runtime), AT(wmr_member, window),
	AT(wmr_member, period),    AT(wmr_member, slot),
};

const size_t policy_layout_wmr_roster[] = {
	sizeof(struct wmr_roster),
	AT(wmr_roster, member),
	AT(wmr_roster, members),
	AT(wmr_roster, pad),
};

const u64 policy_wmr_parts = WMR_PARTS;
const u64 policy_wmr_members = WMR_MEMBERS;
const u64 policy_wmr_least_ns = WMR_LEAST_NS;

void policy_wmr_release(struct wmr_split *w, struct edf_server *s, u64 now)
{
	wmr_release(w, s, now);
}

void policy_wmr_sleep(struct wmr_split *w, const struct edf_server *s, u64 now)
{
	wmr_sleep(w, s, now);
}

void policy_wmr_wake(struct wmr_split *w, struct edf_server *s, u64 now)
{
	wmr_wake(w, s, now);
}

u32 policy_wmr_assign(struct wmr_split *w, struct edf_server *s, u64 now)
{
	return wmr_assign(w, s, now);
}

u64 policy_wmr_demand(const struct wmr_member *m, u64 length)
{
	return wmr_demand(m, length);
}

u64 policy_wmr_bandwidth(u64 runtime, u64 period)
{
	return wmr_bandwidth(runtime, period);
}

u64 policy_wmr_promised(const struct wmr_roster *r)
{
	return wmr_promised(r);
}

u64 policy_wmr_room(const struct wmr_roster *r, u64 period, u64 window, u64 most_ppm)
{
	return wmr_room(r, period, window, most_ppm);
}

u32 policy_wmr_first(u64 period, u32 cpus, u64 promised_ppm)
{
	return wmr_first(period, cpus, promised_ppm);
}

u32 policy_wmr_number(u32 first, u32 i)
{
	return wmr_parts(first, i);
}

void policy_wmr_offer(struct wmr_split *w, u32 n, s32 cpu, u64 room)
{
	wmr_offer(w, n, cpu, room);
}

bool policy_wmr_complete(struct wmr_split *w, u32 n, u64 runtime)
{
	return wmr_complete(w, n, runtime);
}

void policy_wmr_join(struct wmr_roster *r, u64 slot, u64 runtime, u64 window, u64 period)
{
	wmr_join(r, slot, runtime, window, period);
}

void policy_wmr_leave(struct wmr_roster *r, u64 slot)
{
	wmr_leave(r, slot);
}

/* capacity.h */
u64 policy_capacity_work(u64 time, u32 capacity)
{
	return capacity_work(time, capacity);
}

u64 policy_capacity_time(u64 work, u32 capacity)
{
	return capacity_time(work, capacity);
}
