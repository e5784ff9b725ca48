/* SPDX-License-Identifier: GPL-2.0 */
/*
 * timer.bpf.h - each CPU's timer: it has the CPU choose again at a time of ours, not at a tick of the kernel's.
 */
#ifndef APLOMB_TIMER_BPF_H
#define APLOMB_TIMER_BPF_H

#include "state.bpf.h"

/*
 * End of a budget, of a child's window, or of the best-effort turn: have the CPU choose again. Not if what it
 * was set for has stopped since: from 7.0 on a timer cannot be cancelled where interrupts are off, as they
 * are in all callbacks.
 */
static int cpu_timer(void *map, u32 *cpu, struct timer_slot *slot)
{
	if (!time_before(bpf_ktime_get_ns(), cpu_ctx(*cpu)->timer_due))
		scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

static __always_inline void cpu_timer_start(u32 cpu, u64 ns)
{
	struct timer_slot *slot = bpf_map_lookup_elem(&cpu_timers, &cpu);

	if (!slot)
		return;
	cpu_ctx(cpu)->timer_due = bpf_ktime_get_ns() + ns;
	bpf_timer_set_callback(&slot->timer, cpu_timer); /* before 7.x a cancel takes it away */
	bpf_timer_start(&slot->timer, ns, BPF_F_TIMER_CPU_PIN);
}

static __always_inline void cpu_timer_cancel(u32 cpu)
{
	struct timer_slot *slot = bpf_map_lookup_elem(&cpu_timers, &cpu);

	cpu_ctx(cpu)->timer_due = TIME_NEVER;
	if (slot)
		bpf_timer_cancel(&slot->timer); /* saves an interrupt, where it works */
}

#endif /* APLOMB_TIMER_BPF_H */
