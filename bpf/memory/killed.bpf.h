/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memory/killed.bpf.h - memory has run out, and the kernel kills a process: which one, and by what.
 *
 * The kernel marks its victim before it sends SIGKILL to the next one. What it compared is read
 * here: memory, and oom_score_adj (crates/memory, oom.rs). Without this program the kernel's log is
 * the only place that tells.
 */
#ifndef APLOMB_MEMORY_KILLED_BPF_H
#define APLOMB_MEMORY_KILLED_BPF_H

#include "memory/account.bpf.h"

/* log2 of the size of a page on every machine that sched_ext supports with pages of 4 KiB */
#define PAGE_BITS 12

/* Pages of @mm that are resident or swapped. The counters lag by some dozen pages a CPU. */
static __always_inline u64 mm_pages(const struct mm_struct *mm)
{
	s64 pages = mm->rss_stat[MM_FILEPAGES].count + mm->rss_stat[MM_ANONPAGES].count +
		    mm->rss_stat[MM_SWAPENTS].count + mm->rss_stat[MM_SHMEMPAGES].count;

	return pages > 0 ? pages : 0;
}

SEC("tp_btf/mark_victim")
int BPF_PROG(on_killed, struct task_struct *victim)
{
	const struct task_struct___shared *shared = (const void *)victim;
	struct mm_struct *mm = victim->mm;
	struct server *s = interactive_server(task_ctx(victim));
	u64 bytes = 0;

	if (victim->flags & PF_EXITING)
		return 0; /* not killed: it gets memory so that it can end by itself */
	if (mm)
		bytes = (mm_pages(mm) << PAGE_BITS) + mm->pgtables_bytes.counter;
	emit_task(EV_KILLED, victim, s ? s->info.spec.id : 0, bytes, memory_class(s),
		  (s64)shared->signal->oom_score_adj);
	return 0;
}

#endif /* APLOMB_MEMORY_KILLED_BPF_H */
