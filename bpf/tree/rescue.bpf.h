/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/rescue.bpf.h - no task waits for ever in a queue of the fair layer, whatever its weight, its
 * domain's weight, or its domain's cpu.max.
 *
 * Source: ours.
 *
 * 1. Why. A domain may be due a ten-thousandth of a CPU, by its weight or its limit, and have a
 *    thousand runnable tasks. A task of nice 19 beside four of nice -20 is due a 20,000th. By
 *    shares each would wait for minutes or hours. But if a task waits for 30 s, the kernel's
 *    watchdog ends the scheduler, for all tasks.
 *
 * 2. Control. Once a second while any task waits, a timer looks at the queues
 *    (tree/rescue_tick.bpf.h). A task that has waited for RESCUE_AFTER_NS is rescued: it moves to a
 *    queue that is served before all others of the fair layer, and runs for RESCUE_SLICE_NS. That
 *    time is charged as always, whether the domain is throttled or not. But no virtual time follows
 *    it, because the task was far from its turn. No wake-up preempts it: it may have waited in the
 *    middle of the kernel, as a reader of RCU, say, and has to come out.
 *
 *        [its queue] --- 10 s ---> [DSQ_RESCUE] --- next choice ---> runs 0.2 ms ---> [its queue]
 *
 * 3. What it costs the others: 200 us in 10 s for each task that gets no turn by its share, which
 *    is 2 % of a CPU for a thousand tasks.
 */
#ifndef APLOMB_TREE_RESCUE_BPF_H
#define APLOMB_TREE_RESCUE_BPF_H

#include "state/timer.bpf.h"

/* A third of the watchdog's timeout: it leaves another 10 s for the queue of rescued tasks. */
#define RESCUE_AFTER_NS (10 * NSEC_PER_SEC)
/* Enough for some progress, and for a task that is to exit. */
#define RESCUE_SLICE_NS (200 * NSEC_PER_USEC)
#define RESCUE_EVERY_NS NSEC_PER_SEC

/* Fires once a second while tasks wait in the fair layer's queues. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} rescue_timer SEC(".maps");

u32 rescue_armed; /* rescue_timer is started */
u32 rescues;      /* tasks may be in DSQ_RESCUE */

/* For how long @p has waited, ns, to a tick. */
static __always_inline u64 waits_ns(const struct task_struct *p)
{
	return (bpf_jiffies64() - p->scx.runnable_at) * tick_ns;
}

/* A task waits: starts the timer. */
static __noinline void rescue_arm(void)
{
	struct timer_slot *timer;
	u32 zero = 0;

	rescue_armed = 1;
	timer = bpf_map_lookup_elem(&rescue_timer, &zero);
	if (timer && bpf_timer_start(&timer->timer, RESCUE_EVERY_NS, 0))
		rescue_armed = 0;
}

/*
 * Ticks in a row that find a task waiting before they start the timer. All ticks of 10 s find a
 * task that is to be rescued. On an idle machine two tasks meet for a tick once in a while, and the
 * timer would wake the CPU for them.
 */
#define RESCUE_TICKS 16

/* In ops.tick of @c's CPU, while the timer is not started. @waiting: a task waits for that CPU. */
static __always_inline void rescue_look(struct cpu_ctx *c, bool waiting)
{
	c->tree.waited = waiting ? c->tree.waited + 1 : 0;
	if (c->tree.waited < RESCUE_TICKS)
		return;
	c->tree.waited = 0;
	rescue_arm();
}

/* A task that dispatch sent from DSQ_RESCUE begins to run on @cpu. */
static __always_inline void rescue_begin(u32 cpu, struct cpu_ctx *c)
{
	c->tree.limited = 1;
	cpu_timer_start(cpu, bpf_ktime_get_ns(), RESCUE_SLICE_NS);
}

#endif /* APLOMB_TREE_RESCUE_BPF_H */
