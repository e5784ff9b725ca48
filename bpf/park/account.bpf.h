/* SPDX-License-Identifier: GPL-2.0 */
/*
 * park/account.bpf.h - for how long tasks were parked: by domain and reason, and as an event.
 */
#ifndef APLOMB_PARK_ACCOUNT_BPF_H
#define APLOMB_PARK_ACCOUNT_BPF_H

#include "policy/park.h"
#include "state/events.bpf.h"
#include "state/state.bpf.h"

/* The parks of one domain's own tasks. */
struct park_account {
	u64 ns[NR_PARK_REASONS];
	u64 times[NR_PARK_REASONS];
	u64 cut;                      /* requests for longer than park_bound_ns */
	u64 told_ns[NR_PARK_REASONS]; /* of these, what events have reported */
	u64 told_times[NR_PARK_REASONS];
	u64 told_second[NR_PARK_REASONS]; /* of the last event */
};

struct park_account park_accounts[DOMAIN_SLOTS] SEC(".bss.parks") __hidden;

static __always_inline struct park_account *park_account(u32 domain)
{
	return &park_accounts[domain & (DOMAIN_SLOTS - 1)];
}

/*
 * @p, of context @t, was parked for @ns by @reason. This is counted, and reported by an event at
 * most once a second for each domain and reason. Parks by cpu.max and at a program's start are only
 * counted: every throttled container has some in each period, and the daemon knows of each start.
 */
static __always_inline void park_charge(struct task_struct *p, struct task_ctx *t, u32 reason,
					u64 ns, u64 now)
{
	struct park_account *a = park_account(t->domain);
	u64 second = now / NSEC_PER_SEC;

	if (reason >= NR_PARK_REASONS)
		return;
	__sync_fetch_and_add(&a->ns[reason], ns);
	__sync_fetch_and_add(&a->times[reason], 1);
	if (reason == PARK_CPU_MAX || reason == PARK_START || a->told_second[reason] == second)
		return;
	a->told_second[reason] = second;
	emit_task(EV_PARKED, p, 0, reason, a->ns[reason] - a->told_ns[reason],
		  a->times[reason] - a->told_times[reason]);
	a->told_ns[reason] = a->ns[reason];
	a->told_times[reason] = a->times[reason];
}

#endif /* APLOMB_PARK_ACCOUNT_BPF_H */
