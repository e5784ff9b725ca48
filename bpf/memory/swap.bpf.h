/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memory/swap.bpf.h - for how long interactive programs wait for pages in swap.
 *
 * Source: Redline section 4 (demotion).
 *
 * 1. Why. Programs whose working sets do not fit take each other's pages, and read them back all
 *    the time. Then the daemon demotes one, so that the others run smoothly. By the kernel's
 *    pressure stall information it cannot see that: the kernel counts a read from swap only if the
 *    page is marked as one of a working set (swap_read_folio() in mm/page_io.c), and the
 *    multi-generational LRU takes that mark away when it makes a page young (folio_update_gen() in
 *    mm/vmscan.c). In the lab a program read 10 MB a second from swap for half a minute beside
 *    another one, and the kernel said that it waited for 2 % of the time.
 *
 * 2. What counts. The time of a page fault that had to read from swap. Memory was short meanwhile
 *    if the reclaimer is at work at its end: fewer pages than `high` are free in the zone that
 *    lacked pages for the program last. A program whose pages went to swap some time ago waits for
 *    them, too, on a machine that has memory again. No other has to go for that.
 *
 * 3. Report. An event for each program, at most once a second, and not for less than SWAP_TOLD_NS.
 *
 * 4. Not counted: reads of file pages that were given up.
 */
#ifndef APLOMB_MEMORY_SWAP_BPF_H
#define APLOMB_MEMORY_SWAP_BPF_H

#include "memory/account.bpf.h"
#include "memory/zone.bpf.h"

/*
 * Waits of less than this in all are no event yet, ns. Trade: more delays a demotion; less wakes
 * the daemon for what no person sees.
 */
#define SWAP_TOLD_NS (50 * NSEC_PER_MSEC)

/* Is the reclaimer at work in the zone at this address? */
static __always_inline bool zone_is_short(u64 address)
{
	const struct zone *zone = bpf_core_cast((const void *)address, struct zone);
	struct zone_level l = zone_level(zone);

	return l.free < l.high;
}

/* A thread of @s waited for @ns for a page in swap. */
static __always_inline void swap_waited(struct server *s, u64 ns, u64 now)
{
	u64 second = now / NSEC_PER_SEC;

	if (s->swap.zone && zone_is_short(s->swap.zone))
		s->swap.short_ns += ns;
	s->swap.ns += ns;
	s->swap.times++;
	if (s->swap.ns < SWAP_TOLD_NS || s->swap.told_second == second)
		return;
	s->swap.told_second = second;
	emit(EV_SWAPPED, s, s->swap.ns, s->swap.times, s->swap.short_ns);
	s->swap.short_ns = 0;
	s->swap.ns = 0;
	s->swap.times = 0;
}

/* The current task has a page fault for a page in swap. */
SEC("fentry/do_swap_page")
int BPF_PROG(on_swap_fault)
{
	struct task_ctx *t = task_ctx(bpf_get_current_task_btf());

	if (t && interactive_server(t))
		t->swap_since = bpf_ktime_get_ns();
	return 0;
}

/* That is over. It was a major one if the page had to be read. */
SEC("fexit/do_swap_page")
int BPF_PROG(on_swap_in, const void *fault, unsigned int result)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);
	struct server *s = interactive_server(t);
	u64 since = t ? t->swap_since : 0, now;

	if (t)
		t->swap_since = 0;
	if (!(result & VM_FAULT_MAJOR) || p->flags & PF_KTHREAD)
		return 0;
	memory_count(memory_class(s), MEMORY_SWAPPED_IN);
	if (!s || !since)
		return 0;
	now = bpf_ktime_get_ns();
	swap_waited(s, now - since, now);
	return 0;
}

#endif /* APLOMB_MEMORY_SWAP_BPF_H */
