/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/unstarted.bpf.h - timers that the kernel could not start.
 *
 * 1. Why. The callbacks of a scheduler run with interrupts off. There, from 7.0 on, the kernel puts
 *    the start of a timer off to an interrupt, and takes a little memory for that, without waiting
 *    for it (kmalloc_nolock() in its bpf_async_schedule_op()). If it gets none, the start fails.
 *    That is rare: beside programs that filled memory none of 12,000 starts did. But a parked task
 *    whose timer is not started would never run again, and a throttled domain only when its tasks
 *    are rescued (tree/rescue.bpf.h).
 *
 * 2. Model. The callback of each timer here goes by the state that it finds. If it comes too early
 *    it starts the timer again, which cannot fail there, since interrupts are on. So a timer that
 *    was not started may be started at any later time, to fire at once.
 *
 * 3. Control. Such a timer is put on a stack, once, so there is room for all. Each tick and each
 *    choice of any CPU starts some of them (layers/catch_up.bpf.h). Where nothing runs at all, no
 *    memory is taken either, and no start fails.
 *
 * 4. Not here: timers that are started again and again while there is work for them (rescue,
 *    relief, a CPU's). If their start fails, they count as not started.
 */
#ifndef APLOMB_UNSTARTED_BPF_H
#define APLOMB_UNSTARTED_BPF_H

#include "kernel/program.bpf.h"

/* Whose timer it is: the kind, and a number below TIMERS_OF_KIND */
enum timer_kind {
	TIMER_HELD,   /* of a CPU: park/holding.bpf.h */
	TIMER_LIMIT,  /* of a domain's slot: tree/limit.bpf.h */
	TIMER_SERVER, /* of a server's slot: layers/move.bpf.h */
	TIMER_ONE,    /* enum one_timer */
	NR_TIMER_KINDS
};

enum one_timer {
	TIMER_GOVERNOR,
	TIMER_RECALL,
	TIMER_PASS
};

#define TIMERS_OF_KIND 8192 /* at least MAX_CPUS, DOMAIN_SLOTS, MAX_SERVERS */
#define NR_TIMERS (NR_TIMER_KINDS * TIMERS_OF_KIND)

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, NR_TIMERS);
	__type(value, u32);
} unstarted SEC(".maps");

u32 is_unstarted[NR_TIMERS] SEC(".bss.unstarted") __hidden;
u32 any_unstarted; /* there may be some on the stack */

/* A start of timer @number of @kind has failed. */
static __noinline int timer_unstarted(u32 kind, u32 number)
{
	u32 at = (kind * TIMERS_OF_KIND + number) & (NR_TIMERS - 1);

	if (!__sync_lock_test_and_set(&is_unstarted[at], 1))
		bpf_map_push_elem(&unstarted, &at, 0);
	any_unstarted = 1;
	return 0;
}

/*
 * Starts @timer, number @number of @kind, now or as soon as the kernel can. @ns, @flags: as
 * bpf_timer_start() takes them.
 */
static __always_inline void timer_start(struct bpf_timer *timer, u32 kind, u32 number, u64 ns,
					u64 flags)
{
	if (bpf_timer_start(timer, ns, flags))
		timer_unstarted(kind, number);
}

#endif /* APLOMB_UNSTARTED_BPF_H */
