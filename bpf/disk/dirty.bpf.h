/* SPDX-License-Identifier: GPL-2.0 */
/*
 * disk/dirty.bpf.h - dirty limits by class: where they act, and on what.
 *
 * Theory: policy/dirty.h.
 *
 * 1. Where. The kernel calls balance_dirty_pages_ratelimited_flags() after each folio that a task
 *    writes to through the page cache, and for each page of a mapped file that it makes dirty. Most
 *    calls end with the comparison of the stock with the limit; they cost 3 % of a write of 4 kB.
 *    balance_dirty_pages() is called for many pages at once, but gets the bdi_writeback of the
 *    task's cgroup: a file that another cgroup wrote first is in another stock.
 *
 * 2. What. The stock is that of the inode's struct bdi_writeback: of the memory cgroup that dirties
 *    the file, on the file's device. Where the file system or the controllers (memory and io) know
 *    no writeback by cgroup, it is the device's own: then all tasks that write to the device have
 *    one stock. A file system in memory has none.
 *
 * 3. The task is parked at its return to user mode, after its write. There it holds no page lock,
 *    no inode lock and no handle of a journal, so neither an fsync() nor a commit waits for it. A
 *    task that dirties many pages in one system call is not reached before that call ends; the
 *    kernel's own limit (vm.dirty_ratio) holds it.
 *
 * 4. The kernel's flusher writes the pages back. While tasks are parked here, the daemon has it
 *    come often and write nearly all (crates/aplomb/src/daemon/disk.rs).
 *
 * Not reached: kernel threads (nfsd, loop devices); kernels before 7.0, where no task lands.
 */
#ifndef APLOMB_DISK_DIRTY_BPF_H
#define APLOMB_DISK_DIRTY_BPF_H

#include "park/park.bpf.h"
#include "policy/dirty.h"
#include "reserved/server.bpf.h"

/* The limits of one domain on one device, pages, by class. The first is not below the second. */
SETTING u64 dirty_limit_interactive;
SETTING u64 dirty_limit_best_effort;

/*
 * The rates of stocks that were above a limit, by the address of the bdi_writeback. It is only a
 * number here: a later bdi_writeback at that address begins with a wrong estimate, which is soon
 * right. Beyond so many the least recently used is forgotten.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct dirty_rate);
} dirty_rates SEC(".maps");

/* Pages of one kind. A CPU's last few are not in the sum yet, so it can be below 0. */
static __always_inline u64 wb_pages(const struct percpu_counter *stat)
{
	s64 count = stat->count;

	return count > 0 ? count : 0;
}

/* Pages a second that the device writes of the stock of @wb; 0: not known. */
static __noinline u64 wb_rate(const struct bdi_writeback *wb, u64 written, u64 estimate, u64 now)
{
	u64 key = (u64)wb;
	struct dirty_rate none = {}, *r = bpf_map_lookup_elem(&dirty_rates, &key);

	if (!r) {
		bpf_map_update_elem(&dirty_rates, &key, &none, BPF_NOEXIST);
		r = bpf_map_lookup_elem(&dirty_rates, &key);
	}
	return r ? dirty_rate_look(r, now, written, estimate) : estimate;
}

/* The current task has written to a page of a file, through the page cache or a mapping. */
SEC("fentry/balance_dirty_pages_ratelimited_flags")
int BPF_PROG(on_dirty, struct address_space *mapping)
{
	struct task_struct *p = bpf_get_current_task_btf();
	const struct bdi_writeback *wb = mapping->host->i_wb;
	u64 dirty, limit, now, rate, ns;
	struct task_ctx *t;

	if (!wb)
		return 0;
	dirty = wb_pages(&wb->stat[WB_RECLAIMABLE]) + wb_pages(&wb->stat[WB_WRITEBACK]);
	if (dirty <= dirty_limit_best_effort)
		return 0;
	t = task_ctx(p);
	limit = interactive_server(t) ? dirty_limit_interactive : dirty_limit_best_effort;
	now = bpf_ktime_get_ns();
	if (dirty <= limit || !may_park(p) ||
	    (t && t->park.reasons & PARK_BIT(PARK_DIRTY) &&
	     time_before(now, t->park.until[PARK_DIRTY])))
		return 0;
	rate = wb_rate(wb, wb_pages(&wb->stat[WB_WRITTEN]), wb->avg_write_bandwidth, now);
	ns = dirty_park(dirty, dirty_limit(limit, rate), rate);
	if (ns)
		park(p, PARK_DIRTY, now, now + ns);
	return 0;
}

#endif /* APLOMB_DISK_DIRTY_BPF_H */
