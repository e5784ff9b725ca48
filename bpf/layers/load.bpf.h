/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layers/load.bpf.h - what the layers need when the scheduler is loaded: timers, and the state of
 * each CPU.
 *
 * 1. Timers are made before. bpf_timer_init() takes memory and does not wait for it (from 6.18 on:
 *    kmalloc_nolock()). So it fails where programs have filled memory, and there a daemon that was
 *    killed has to start again. A timer that was not made never fires: without that of a holding
 *    queue a parked task did not run for 30 s, and the kernel ended the scheduler.
 *
 * 2. A BPF program cannot wait for memory either. So the daemon makes the timers, again and again
 *    until none is missing, and attaches the scheduler only then:
 *
 *        make_timers() --- -ENOMEM: a few ms later, again
 *             |
 *             0 ---> attach ---> ops.init: callbacks; fails if a timer is missing
 */
#ifndef APLOMB_LAYERS_LOAD_BPF_H
#define APLOMB_LAYERS_LOAD_BPF_H

#include "park/holding.bpf.h"
#include "reserved/server.bpf.h"
#include "state/timer.bpf.h"
#include "tree/domain.bpf.h"
#include "tree/run.bpf.h"

/* --- before it is attached -------------------------------------------------------------------- */

/* bpf_timer_init() returned @err. -EBUSY: an earlier try made the timer. Returns 0 or -ENOMEM. */
static __always_inline long timer_made(long err)
{
	return err == -EBUSY ? 0 : err;
}

/* Makes the timer of entry @number of @map, if there is such an entry. Returns 0 or -ENOMEM. */
#define TIMER_MADE(map, number)                                                                    \
	({                                                                                         \
		u32 key_ = number;                                                                 \
		typeof((map).value) entry_ = bpf_map_lookup_elem(&(map), &key_);                   \
		entry_ ? timer_made(bpf_timer_init(&entry_->timer, &(map), CLOCK_MONOTONIC)) : 0;  \
	})

static __noinline long make_timers_of_cpus(void)
{
	long err = 0;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		err = TIMER_MADE(cpu_timers, i);
		if (!err)
			err = TIMER_MADE(held_timers, i);
		if (err)
			break;
	}
	return err;
}

static __noinline long make_timers_of_domains(void)
{
	long err = 0;
	u32 i;

	bpf_for(i, 0, MAX_DOMAINS + 1) {
		err = TIMER_MADE(domains, i);
		if (err)
			break;
	}
	return err;
}

static __noinline long make_timers_of_servers(void)
{
	long err = 0;
	u32 i;

	bpf_for(i, 1, MAX_SERVERS) {
		err = TIMER_MADE(servers, i);
		if (err)
			break;
	}
	return err;
}

/* Makes the timers of CPUs, domains and servers that are still missing. Returns 0 or -ENOMEM. */
static __always_inline long make_many_timers(void)
{
	long err = make_timers_of_cpus();

	if (!err)
		err = make_timers_of_domains();
	return err ? err : make_timers_of_servers();
}

/* --- in ops.init ------------------------------------------------------------------------------ */

/* The state of @cpu, its queues and its timer. */
static __always_inline s32 cpu_init(u32 cpu, const struct cpumask *online)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u32 k;
	s32 err;

	c->reserved.deadline = TIME_NEVER;
	c->timer_due = TIME_NEVER;
	tree_cpu_init(c);
	c->online = bpf_cpumask_test_cpu(cpu, online);
	nr_online += c->online;
	err = scx_bpf_create_dsq(DSQ_EDF(cpu), -1);
	bpf_for(k, 0, nr_cpus > 1 ? MAX_LANES : 1) {
		if (!err)
			err = scx_bpf_create_dsq(DSQ_PINNED(cpu, k), -1);
	}
	if (!err)
		err = scx_bpf_create_dsq(DSQ_THROTTLED(cpu), -1);
	if (!err)
		err = holding_init(cpu);
	return err ? err : cpu_timer_init(cpu);
}

static __always_inline s32 cpus_init(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 i;
	s32 err = 0;

	bpf_for(i, 0, nr_cpus) {
		err = cpu_init(i, online);
		if (err)
			break;
	}
	scx_bpf_put_cpumask(online);
	return err;
}

#endif /* APLOMB_LAYERS_LOAD_BPF_H */
