/* SPDX-License-Identifier: GPL-2.0 */
/*
 * disk/account.bpf.h - device time: how much of a disk's time each domain had, by class, and how
 * long its requests waited before.
 *
 * 1. What. For each domain, disk and class: the requests that were done, what they cost (device
 *    time), and how long they waited in the kernel's queues. All four counters only grow.
 *
 * 2. Device time. The cost of policy/cello.h, which cello_done() returns: the time from when the
 *    request was sent to the disk, or the one before it was done if that is later, until it is
 *    done. So the device times of one disk add up to the time in which it had a request, however
 *    many it serves at once.
 *
 * 3. Wait. From the creation of the request (start_time_ns) until it was sent to the disk. Of two
 *    requests that were merged the kernel keeps the earlier creation. The other times that the
 *    kernel has are not always there:
 *     - io_start_time_ns is set after the tracepoint block_rq_issue, and only while a user of
 *       QUEUE_FLAG_STATS is (writeback throttling, iocost). Our own time of that tracepoint is the
 *       same.
 *     - issue_time_ns of the bio is set only for io.latency. A time of our own would be one more
 *       map for each bio.
 *     - start_time_ns is set unless the disk's queue/iostats is 0. Then it is that of an earlier
 *       request at the same address. RQF_IO_STAT says that it is set; a request without it counts
 *       as a request, and not as one whose wait is known (`waits`).
 *    A task that is parked at a gate has no request yet: that is in its domain's parks.
 *
 * 4. Domain: that of the cgroup to which the bio is charged when the request is sent. For a page
 *    that is written back, that is the cgroup that the file's pages are accounted to
 *    (struct bdi_writeback), mostly the one that dirtied the page. Rows have the id of the domain's
 *    cgroup as their key. A slot may get another domain while a request is at the disk; an id never
 *    does.
 *
 * 5. End of a domain. Its counts are added to its parent's, as those of io.stat are. Otherwise the
 *    sum of a domain and those below it would shrink:
 *
 *      aplomb_cgroup_exit: id leaves domain_of ---> rows are added to the parent's, deleted
 *      disk_row_make:      row is inserted     ---> id is still in domain_of? If not, the row is
 *                                                   deleted, and the root is charged
 *
 *    So no row outlives its domain. What a request adds on another CPU between the addition and the
 *    deletion is lost: the domain has no task then, but pages of it may still be written.
 *
 * 6. Cost. One lookup in a hash of the kernel's, and four additions to memory of this CPU.
 *
 * Limits. MAX_DISK_COUNTS rows, and MAX_COUNTED_DISKS disks since the load: requests beyond are
 * counted in `disk_uncounted` only. A disk that is plugged in with the number of one that was
 * unplugged goes on with its counts. Not seen: requests without a bio (flushes; the data that a
 * flush belongs to is seen), disks that are not ordered, and the end of a request that comes while
 * its CPU is in the middle of on_request_done.
 */
#ifndef APLOMB_DISK_ACCOUNT_BPF_H
#define APLOMB_DISK_ACCOUNT_BPF_H

#include "intf.h"
#include "kernel/io.bpf.h"
#include "tree/domain_of.bpf.h"

#ifdef __bpf__
/*
 * By domain, disk and class. A row takes memory when it is made, on each CPU. The daemon makes this
 * map small where disks are not ordered.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_DISK_COUNTS);
	__type(key, struct disk_count_key);
	__type(value, struct disk_count);
} disk_counts SEC(".maps");

/* Requests that are in no row, because there was no room for one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} disk_uncounted SEC(".maps");

/* The disks that have rows (disk_number()), from the first on; 0: no further one. */
u32 counted_disks[MAX_COUNTED_DISKS];

/* The domain that a request of cgroup slot @slot is charged to. */
static __always_inline u64 disk_domain(u32 slot)
{
	u64 id = branch(slot)->cgid;

	return id ? id : branch(SLOT_ROOT)->cgid; /* 0: its cgroup has just gone */
}

/* Is disk @number in `counted_disks`? It is added if it is not; false: there is no room. */
static __noinline bool disk_is_counted(u32 number)
{
	TAKES_STACK(24);
	u32 i;

	bpf_for(i, 0, MAX_COUNTED_DISKS) {
		u32 *at = &counted_disks[i & (MAX_COUNTED_DISKS - 1)], was = *at;

		if (!was)
			was = __sync_val_compare_and_swap(at, 0, number);
		if (!was || was == number)
			return true;
	}
	return false;
}

/*
 * Makes the row @key, unless there is no room. If the domain has gone meanwhile, @key becomes the
 * root's (5).
 */
static __noinline int disk_row_make(struct disk_count_key *key)
{
	u64 id = key->domain, root = branch(SLOT_ROOT)->cgid;
	struct disk_count none = {};

	if (!disk_is_counted(key->disk))
		return 0;
	bpf_map_update_elem(&disk_counts, key, &none, BPF_NOEXIST);
	if (id == root || bpf_map_lookup_elem(&domain_of, &id))
		return 0;
	bpf_map_delete_elem(&disk_counts, key);
	key->domain = root;
	bpf_map_update_elem(&disk_counts, key, &none, BPF_NOEXIST);
	return 0;
}

/* Adds @n to the row @key. */
static __always_inline void disk_count_add(struct disk_count_key *key, const struct disk_count *n)
{
	struct disk_count *row = bpf_map_lookup_elem(&disk_counts, key);
	u32 zero = 0;
	u64 *lost;

	if (!row) {
		disk_row_make(key);
		row = bpf_map_lookup_elem(&disk_counts, key);
	}
	if (!row) {
		lost = bpf_map_lookup_elem(&disk_uncounted, &zero);
		if (lost)
			__sync_fetch_and_add(lost, n->requests);
		return;
	}
	/* atomically: a domain may end on this CPU between two instructions of a request's end */
	__sync_fetch_and_add(&row->requests, n->requests);
	__sync_fetch_and_add(&row->device_ns, n->device_ns);
	__sync_fetch_and_add(&row->wait_ns, n->wait_ns);
	__sync_fetch_and_add(&row->waits, n->waits);
}

/*
 * Request @rq of @class and of domain @domain, which was sent to the disk at @sent, is done and has
 * cost @cost.
 */
static __always_inline void disk_account(struct request *rq, u64 domain, u32 class, u64 sent,
					 u64 cost)
{
	struct disk_count_key key = {
		.domain = domain,
		.disk = disk_number(rq->q->disk),
		.class = class,
	};
	struct disk_count n = { .requests = 1, .device_ns = cost };

	if (has_start_time(rq) && !time_before(sent, rq->start_time_ns)) {
		n.wait_ns = sent - rq->start_time_ns;
		n.waits = 1;
	}
	disk_count_add(&key, &n);
}

/* Adds the row of domain @id, disk @number and @class, if it is there, to that of domain @up. */
static __noinline int disk_row_pass_on(u64 id, u64 up, u32 number, u32 class)
{
	TAKES_STACK(128);
	struct disk_count_key key = { .domain = id, .disk = number, .class = class };
	struct disk_count sum = {};
	u32 cpu;

	if (!bpf_map_lookup_elem(&disk_counts, &key))
		return 0;
	bpf_for(cpu, 0, nr_cpus) {
		struct disk_count *n = bpf_map_lookup_percpu_elem(&disk_counts, &key, cpu);

		if (!n)
			break;
		sum.requests += n->requests;
		sum.device_ns += n->device_ns;
		sum.wait_ns += n->wait_ns;
		sum.waits += n->waits;
	}
	bpf_map_delete_elem(&disk_counts, &key); /* first, so that there is room */
	key.domain = up;
	disk_count_add(&key, &sum);
	return 0;
}

/* Domain @id, which is no longer in domain_of, ends; its parent is @up. */
VERIFIED_ONCE int disk_account_end(u64 id, u64 up)
{
	u32 i;

	bpf_for(i, 0, MAX_COUNTED_DISKS * NR_DISK_CLASSES) {
		u32 number = counted_disks[i / NR_DISK_CLASSES & (MAX_COUNTED_DISKS - 1)];

		if (!number)
			break;
		disk_row_pass_on(id, up, number, i % NR_DISK_CLASSES);
	}
	return 0;
}
#else /* the simulator has no disks */
static inline int disk_account_end(u64 id, u64 up)
{
	return 0;
}
#endif

#endif /* APLOMB_DISK_ACCOUNT_BPF_H */
