/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/timer.bpf.h - each CPU's timer: it makes the CPU choose again at an exact time, not at a
 * tick of the kernel.
 *
 * 1. Why not the tick: it comes every 4 ms or so, and a budget ends to the microsecond.
 * 2. Why not always a timer. All callbacks run with interrupts off. There, from 7.0 on, a start is
 *    put off to an interrupt of its own and a cancel is refused, so that a frame of 1 ms with a
 *    budget of 5 would pay for two interrupts more: 4 us of 33 (kato/overhead). A start is
 *    therefore left to the last tick before the time has come. Most jobs are over by then.
 *
 *          running --- ends within a tick -------------------> [timer set] --- fires ---> choose again
 *             |                                                     ^
 *             +------- later ---> [due] --- tick, and soon now -----+
 */
#ifndef APLOMB_TIMER_BPF_H
#define APLOMB_TIMER_BPF_H

#include "state/state.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct timer_slot);
} cpu_timers SEC(".maps");

/*
 * Brings the clock of @cpu's run queue up to date, by which the kernel counts CPU time. It does so
 * when a CPU begins to choose; but from 7.0 on it skips that in the first choice after an idle
 * time, because local_dsq_post_enq() calls wakeup_preempt() in the middle of the choice before. In
 * such a choice the task's time since the last tick is missing, and the kernel adds it to the next
 * task's: a budget of 6 ms was overrun by 3.5 ms. The kernel has no function for this alone. This
 * one also sets the speed that the task may ask of the CPU, to what it is in any case.
 */
static __always_inline void update_clock(u32 cpu)
{
#ifdef __bpf__
	scx_bpf_cpuperf_set(cpu, SCX_CPUPERF_ONE);
#endif
}

/*
 * A budget, a child's exec window, or the best-effort turn ends: makes the CPU choose again. Does
 * nothing if the task for which it was set has stopped since. From 7.0 on the timer cannot be
 * cancelled then, because interrupts are off in all callbacks.
 */
static int cpu_timer(void *map, u32 *cpu, struct timer_slot *slot)
{
	struct cpu_ctx *c = cpu_ctx(*cpu);

	if (!time_before(bpf_ktime_get_ns(), c->timer_due)) {
		c->timer_due = TIME_NEVER;
		update_clock(*cpu);
		scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* When the scheduler is loaded: -EINVAL if the timer of @cpu is missing. */
static __always_inline s32 cpu_timer_init(u32 cpu)
{
	struct timer_slot *slot = bpf_map_lookup_elem(&cpu_timers, &cpu);

	return slot ? bpf_timer_set_callback(&slot->timer, cpu_timer) : -EINVAL;
}

static __noinline void cpu_timer_set(u32 cpu, u64 ns)
{
	struct timer_slot *slot = bpf_map_lookup_elem(&cpu_timers, &cpu);

	if (!slot)
		return;
	bpf_timer_set_callback(&slot->timer, cpu_timer); /* before 7.x a cancel clears it */
	/* if it cannot be started (state/unstarted.bpf.h), the next tick does */
	cpu_ctx(cpu)->timer_set = !bpf_timer_start(&slot->timer, ns, BPF_F_TIMER_CPU_PIN);
}

/* Makes @cpu choose again in @ns from @now. Called on that CPU. */
static __always_inline void cpu_timer_start(u32 cpu, u64 now, u64 ns)
{
	struct cpu_ctx *c = cpu_ctx(cpu);

	c->timer_due = now + ns;
	c->timer_set = 0;
	if (ns <= tick_ns)
		cpu_timer_set(cpu, ns);
}

/* The task for which the timer was set has stopped. */
static __always_inline void cpu_timer_cancel(u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	struct timer_slot *slot;

	c->timer_due = TIME_NEVER;
	if (!c->timer_set)
		return;
	c->timer_set = 0;
	slot = bpf_map_lookup_elem(&cpu_timers, &cpu);
	if (slot)
		bpf_timer_cancel(&slot->timer); /* saves an interrupt, where it works */
}

/*
 * A tick on @cpu: sets the timer if its time comes before the next tick, or a little later, since
 * ticks may be late.
 */
static __always_inline void cpu_timer_tick(u32 cpu)
{
	struct cpu_ctx *c = cpu_ctx(cpu);
	u64 now, soon;

	if (c->timer_set || c->timer_due == TIME_NEVER)
		return;
	now = bpf_ktime_get_ns();
	soon = now + tick_ns + tick_ns / 8;
	if (time_before(soon, c->timer_due))
		return;
	cpu_timer_set(cpu, time_before(now, c->timer_due) ? c->timer_due - now : 1);
}

#endif /* APLOMB_TIMER_BPF_H */
