/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memory/low.bpf.h - memory is short: best-effort tasks that allocate are parked, interactive ones
 * draw on the reserve.
 *
 * Source: Redline section 4; Kato section 6.4 (an interactive task does not reclaim).
 *
 * 1. Where. The kernel calls wakeup_kswapd() for each page that a task asks for while every zone
 *    that the page may come from is below its low watermark. It does so before it looks for the
 *    page between `low` and `min`, and before the task would reclaim. Most of these calls find
 *    the reclaimer at work and wake no task, so the tracepoint of its wake-up comes too seldom.
 *
 * 2. Best-effort tasks are parked at their return to user mode (policy/bump.h), before free memory
 *    falls to `min`. A task that reclaims for itself nevertheless is parked as long as a park may
 *    be.
 *
 * 3. Interactive tasks take what is left between `low` and `min`: the reserve (policy/reserve.h).
 *    A program that takes it too fast is parked by PARK_RESERVE. Meanwhile best-effort tasks take
 *    next to nothing, so free memory rises. Its park ends at the top of the reserve, theirs at
 *    `high`. (The top is `low`, but while there is a growth buffer.)
 *
 *    Huge pages take another way through the kernel: on_huge_page().
 *
 * 4. The daemon is never parked: it is what protects memory.
 *
 * 5. Not reached: kernel threads, which never return to user mode; a task that takes many pages in
 *    one system call, until that call ends; kernels before 7.0, where no task lands.
 */
#ifndef APLOMB_MEMORY_LOW_BPF_H
#define APLOMB_MEMORY_LOW_BPF_H

#include "memory/account.bpf.h"
#include "memory/relief.bpf.h"
#include "memory/zone.bpf.h"
#include "park/park.bpf.h"
#include "policy/bump.h"
#include "policy/reserve.h"

/* Length of a park, ns, if memory is not there earlier. Redline's. */
#define BUMP_NS (100 * NSEC_PER_MSEC)

/* Pages of a huge page: of the middle page table, 2 MB where a page has 4 kB */
#define HUGE_PAGES 512

/*
 * The kernel's __GFP_DIRECT_RECLAIM: an allocation that may wait. One that may not is often made in
 * an interrupt, for another task than the current one. 0: unknown; all count.
 */
SETTING u32 gfp_may_reclaim;

/* Until when the last interactive task is parked by PARK_RESERVE */
u64 reserve_wanted_until;

/*
 * The part of the distance from `min` to `low` that is the growth buffer, ppm (policy/reserve.h 4).
 * The daemon sets it after it has moved the watermarks apart. 0: there is none.
 */
u32 growth_ppm;

/*
 * Parks @p, the current task, until @until, or until memory is there again: @m as relief_watch()
 * takes it. Returns false if it is not to be parked.
 */
static __always_inline bool memory_park(struct task_struct *p, u32 reason, u64 now, u64 until,
					const struct missing *m)
{
	if (!may_park(p) || park(p, reason, now, until))
		return false;
	relief_watch(reason, until, m);
	memory_count(reason == PARK_RESERVE ? MEMORY_INTERACTIVE : MEMORY_BEST_EFFORT,
		     MEMORY_PARKED);
	return true;
}

/* @p, a task of interactive program @s, takes @pages from the reserve. @m: as in memory_park(). */
static __always_inline void reserve_take(struct task_struct *p, struct server *s, u32 pages,
					 u64 now, const struct missing *m)
{
	u64 until = now + BUMP_NS, wait = reserve_draw(&s->reserve, pages, now);

	if (!wait)
		return;
	if (time_before(wait, until))
		until = wait;
	if (memory_park(p, PARK_RESERVE, now, until, m))
		reserve_wanted_until = until;
}

/* @p, the current task, asks for 1 << @order pages, which would come from @zone first. */
static __always_inline void memory_asked(struct task_struct *p, u32 order, const struct zone *zone)
{
	struct zone_level l = zone_level(zone);
	u64 now, allowance;
	u32 pages = 1U << (order & 15), growth = growth_ppm;
	u64 top = reserve_top(l.min, l.low, growth);
	struct missing m = { .to_reserve = top - l.free, .to_high = l.high - l.free };
	struct task_ctx *t;
	struct server *s;

	if (l.free >= l.low || (p->flags & (PF_KTHREAD | PF_EXITING)))
		return; /* no shortage: large blocks may be missing while small ones are free */
	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t || (t->park.reasons & (PARK_BIT(PARK_MEMORY) | PARK_BIT(PARK_RESERVE))))
		return;
	s = interactive_server(t);
	memory_count(memory_class(s), MEMORY_ASKED);
	now = bpf_ktime_get_ns();
	if (s) {
		s->swap.zone = (u64)zone;
		if (l.free < top)
			reserve_take(p, s, pages, now, &m);
		return;
	}
	allowance = growth || time_before(now, reserve_wanted_until)
			    ? BUMP_FOR_OTHERS
			    : bump_allowance(l.free, l.min, l.low);
	if (bump_take(&t->bumped, pages, allowance))
		memory_park(p, PARK_MEMORY, now, now + BUMP_NS, &m);
}

SEC("fentry/wakeup_kswapd")
int BPF_PROG(on_low_memory, struct zone *zone, unsigned int gfp, int order)
{
	if (!gfp_may_reclaim || gfp & gfp_may_reclaim)
		memory_asked(bpf_get_current_task_btf(), order, zone);
	return 0;
}

/*
 * The current task touches memory for which the kernel may take a huge page. That wakes no
 * reclaimer, whatever is left (GFP_TRANSHUGE_LIGHT), so on_low_memory() does not see it. While
 * others are parked for memory, a best-effort task takes one and is parked until `high`. Below
 * `low`, an interactive task takes all of its budget with one.
 */
SEC("fentry/do_huge_pmd_anonymous_page")
int BPF_PROG(on_huge_page)
{
	u64 now = bpf_ktime_get_ns(), free;
	struct task_struct *p;
	struct task_ctx *t;
	struct server *s;

	if (!time_before(now, relief_memory.until) && !time_before(now, relief_reserve.until))
		return 0;
	p = bpf_get_current_task_btf();
	t = task_ctx(p);
	s = interactive_server(t);
	free = free_pages();
	if (p->flags & (PF_KTHREAD | PF_EXITING) ||
	    free >= (s ? relief_reserve.free : relief_memory.free) ||
	    (t && t->park.reasons & (PARK_BIT(PARK_MEMORY) | PARK_BIT(PARK_RESERVE))))
		return 0;
	memory_count(memory_class(s), MEMORY_ASKED);
	if (s)
		reserve_take(p, s, HUGE_PAGES, now, NULL);
	else
		memory_park(p, PARK_MEMORY, now, now + BUMP_NS, NULL);
	return 0;
}

/* The current task reclaims for itself: free memory is below `min`. */
SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(on_direct_reclaim)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);
	struct server *s = interactive_server(t);
	u64 now;

	if (p->flags & PF_KTHREAD)
		return 0;
	memory_count(memory_class(s), MEMORY_RECLAIMED);
	if (s || (t && t->park.reasons & PARK_BIT(PARK_MEMORY)))
		return 0;
	now = bpf_ktime_get_ns();
	memory_park(p, PARK_MEMORY, now, now + BUMP_NS, NULL);
	return 0;
}

/* The current task reclaims because a cgroup has reached a limit (memory.high, memory.max). */
SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(on_memcg_reclaim)
{
	struct task_struct *p = bpf_get_current_task_btf();

	if (!(p->flags & PF_KTHREAD))
		memory_count(memory_class(interactive_server(task_ctx(p))), MEMORY_RECLAIMED_LIMIT);
	return 0;
}

#endif /* APLOMB_MEMORY_LOW_BPF_H */
