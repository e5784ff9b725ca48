/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/symbols.bpf.h - two of the kernel's variables, read by address: which CPUs are active, how
 * many pages are free.
 *
 * An extern __ksym would have libbpf read all of /proc/kallsyms in user space, which took longer
 * than the verifier. So the daemon runs find_symbols once, before attach. Without an address every
 * CPU counts as active, and memory as free.
 */
#ifndef APLOMB_SYMBOLS_BPF_H
#define APLOMB_SYMBOLS_BPF_H

#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"

static u64 active_mask; /* of __cpu_active_mask; 0: unknown */
static u64 zone_stat;   /* of vm_zone_stat, [0] of which is NR_FREE_PAGES; 0: unknown */

SEC("syscall")
int find_symbols(void *unused)
{
	static const char zones[] = "vm_zone_stat", active[] = "__cpu_active_mask";
	u64 address = 0;

	if (!bpf_kallsyms_lookup_name(zones, sizeof(zones), 0, &address))
		zone_stat = address;
	if (!bpf_kallsyms_lookup_name(active, sizeof(active), 0, &address))
		active_mask = address;
	return 0;
}

/*
 * Does the kernel still let @cpu take tasks? A CPU that goes off line becomes inactive first. Then
 * the kernel waits for all RCU readers (sched_cpu_deactivate), and calls ops.cpu_offline only after
 * that. Meanwhile the CPU takes no task from elsewhere (scx_rq_online). If a reader waited for this
 * CPU alone, it would never run, and the kernel would wait for it until the watchdog ends the
 * scheduler.
 */
static __always_inline bool cpu_active(u32 cpu)
{
	u64 word;

	if (!active_mask ||
	    bpf_probe_read_kernel(&word, sizeof(word), (void *)(active_mask + cpu / 64 * 8)))
		return true;
	return word >> (cpu % 64) & 1;
}

/*
 * The machine's free pages. The counter is approximate: it lags by a batch for each CPU, and can be
 * below 0 for that reason. 0: unknown.
 */
static __always_inline u64 free_pages(void)
{
	s64 free;

	if (!zone_stat || bpf_probe_read_kernel(&free, sizeof(free), (void *)zone_stat) || free < 0)
		return 0;
	return free;
}

/* Are there free pages for what @p would have to page in? Kernel threads have no memory. */
static __always_inline bool memory_is_there(struct task_struct *p)
{
	struct mm_struct *mm = p->mm;
	s64 resident;

	if (!mm || !zone_stat)
		return true;
	/* file, anonymous, shared; constant indices, since only those are relocated */
	resident = mm->rss_stat[MM_FILEPAGES].count;
	resident += mm->rss_stat[MM_ANONPAGES].count;
	resident += mm->rss_stat[MM_SHMEMPAGES].count;
	return (s64)mm->total_vm - resident < (s64)free_pages();
}

#endif /* APLOMB_SYMBOLS_BPF_H */
