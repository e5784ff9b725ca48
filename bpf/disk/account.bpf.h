/* SPDX-License-Identifier: GPL-2.0 */
/*
 * disk/account.bpf.h - requests at the disks: what each costs its group, and device time: how much
 * of a disk's time each domain had, by class, and how long its requests waited before.
 *
 * 1. What. For each domain, disk and class: the requests that were done, what they cost (device
 *    time), and how long they waited in the kernel's queues. All four counters only grow. The table
 *    is in tree/disk_count.bpf.h.
 *
 * 2. Device time. The cost of policy/cello.h, which cello_done() returns: the time from when the
 *    request was sent to the disk, or the one before it was done if that is later, until it is
 *    done. So no time of a disk counts twice, however many requests it serves at once. If requests
 *    are done in the order in which they were sent, device times add up to the time in which the
 *    disk had a request; otherwise to less: the time of a request that others overtake, before the
 *    last of them was sent, is no request's.
 *
 * 3. Wait. From the creation of the request (start_time_ns) until it was sent to the disk. Of two
 *    requests that were merged the kernel keeps the earlier creation. The other times that the
 *    kernel has are not always there:
 *     - io_start_time_ns is set after the tracepoint block_rq_issue, and only while a user of
 *       QUEUE_FLAG_STATS is (writeback throttling, iocost). Our own time of that tracepoint is the
 *       same.
 *     - issue_time_ns of the bio is set only for io.latency. A time of our own would be one more
 *       map, of bios.
 *     - start_time_ns is set unless the disk's queue/iostats is 0. Then it is that of an earlier
 *       request at the same address. RQF_IO_STAT says that it is set. A request without it counts
 *       in `requests`, and not in `waits`.
 *    A task that is parked at a gate, or waits until the disk's queue has room, has no request yet.
 *
 * 4. Domain: that of the cgroup to which the first bio is charged when the request is sent. For a
 *    page that is written back, that is the cgroup to whose writeback the file belongs: the one
 *    that wrote to it first, or most of late. A file system's own requests (the journal) are the
 *    root's. Where a cgroup has no io controller, the kernel charges the one above.
 *
 * 5. When. While disks are watched. With disk_counted_always the two programs stay attached in
 *    between. Then an end may belong to a request that was sent before the watch (`epoch`): it is
 *    counted, but not as one at the disk, since cello_begin() has begun without it. Of its cost the
 *    part before the watch is lost.
 *
 * 6. Cost. One lookup in a hash of the kernel's, and four additions to memory of this CPU.
 *
 * 7. Sends that were missed. The kernel runs no tracing program inside itself. A task may be
 *    preempted in the middle of on_request_sent, and what others send from that CPU is not seen
 *    until it goes on: 18 of 2,698 requests. With disk_counted_always such a request is counted at
 *    its end, as one that was sent when it was created: it has no wait, and device time only from
 *    the end of the one before. (A request that ends in parts, which few drivers do, then counts
 *    for each part.)
 *
 * Not seen: requests without a bio (flushes; the write that a flush belongs to is seen), and disks
 * that are not ordered.
 */
#ifndef APLOMB_DISK_ACCOUNT_BPF_H
#define APLOMB_DISK_ACCOUNT_BPF_H

#include "disk/order.bpf.h"
#include "tree/disk_count.bpf.h"

/* 1: on_request_sent and on_request_done see all requests, also while disks are not watched. */
SETTING u32 disk_counted_always;

/* Requests that are at all disks at a time. One more is not counted, and costs nothing. */
#define MAX_REQUESTS 16384

/* A request that is at a disk */
struct sent {
	u64 at;
	u64 domain; /* the id of its cgroup */
	u32 disk, group, epoch;
	u32 class; /* enum disk_class */
};

/* By the address of the struct request. The daemon makes this map small where it is not used. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_REQUESTS);
	__type(key, u64);
	__type(value, struct sent);
} requests SEC(".maps");

#ifdef __bpf__
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

/* Whose request @rq is, in @sent. False: it has no bio, or its disk is not ordered. */
static __always_inline bool request_is_of(struct request *rq, struct sent *sent)
{
	struct bio *bio = rq->bio;
	u32 disk = disk_index(rq->q->disk), slot, class;

	if (disk >= MAX_DISKS || !bio)
		return false;
	slot = bio_domain(bio);
	class = io_class(bio->bi_ioprio);
	sent->domain = disk_domain(slot);
	sent->disk = disk;
	sent->group = request_group(slot, class);
	sent->class = class == CELLO_REST ? DISK_REST : class;
	return true;
}

/* A request is sent to the disk: for the first time, or again after the disk refused it. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_request_sent, struct request *rq)
{
	struct sent sent = {}, *before;
	u64 key = (u64)rq;

	before = bpf_map_lookup_elem(&requests, &key);
	if ((before && before->epoch == disks_epoch) || !request_is_of(rq, &sent))
		return 0;
	sent.at = bpf_ktime_get_ns();
	sent.epoch = disks_epoch;
	if (bpf_map_update_elem(&requests, &key, &sent, 0))
		return 0;
	disk_group(sent.disk, sent.group)->seen = sent.at;
	__sync_fetch_and_add(&disk_group(sent.disk, sent.group)->at_disk, 1);
	return 0;
}

/* A request is done, or has failed. (A part of one ends it here: few drivers do that.) */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_request_done, struct request *rq)
{
	u64 key = (u64)rq;
	struct sent *found = bpf_map_lookup_elem(&requests, &key), sent = {};
	u64 now = bpf_ktime_get_ns(), cost;

	if (found) {
		sent = *found;
		/* of two CPUs that see the end of one request, one removes it */
		if (bpf_map_delete_elem(&requests, &key))
			return 0;
	} else {
		if (!disk_counted_always || !request_is_of(rq, &sent))
			return 0;
		sent.at = has_start_time(rq) ? rq->start_time_ns : now; /* 7 */
		sent.epoch = disks_epoch - 1; /* it was not counted as one at the disk */
	}
	/* that of an earlier watch may be of another request, whose end was not seen */
	if (sent.epoch != disks_epoch && !disk_counted_always)
		return 0;
	cost = cello_done(disk_at(sent.disk), sent.group, sent.at, now);
	disk_account(rq, sent.domain, sent.class, sent.at, cost);
	if (sent.epoch == disks_epoch)
		__sync_fetch_and_add(&disk_group(sent.disk, sent.group)->at_disk, -1);
	return 0;
}
#endif

#endif /* APLOMB_DISK_ACCOUNT_BPF_H */
