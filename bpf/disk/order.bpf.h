/* SPDX-License-Identifier: GPL-2.0 */
/*
 * disk/order.bpf.h - the disks whose requests are ordered: which they are, and to which group a
 * request belongs. What it costs: disk/account.bpf.h.
 *
 * Theory: policy/cello.h.
 *
 * 1. Groups. A request belongs to the share of the domain that it is charged to, if that has one.
 *    Otherwise to a class, which is its priority: real-time of levels 0 to 4 is soft real-time,
 *    real-time of levels 5 to 7 is interactive, all else is the rest. The kernel lets only root
 *    have a real-time priority. The daemon gives interactive programs levels 5 to 7
 *    (crates/disk/src/priority.rs).
 *
 *    So the kernel's own schedulers of disks (mq-deadline, BFQ) see the same classes. They order
 *    what is at the disk; what may come there is decided here.
 *
 * 2. Volumes. The daemon tells of each disk and each volume on it (LVM, dm-crypt, md, loop) the
 *    same index: a request for the volume is one for the disk.
 *
 * 3. Watching. Tracing programs see each request. They cost some percent of a fast disk's requests,
 *    so they are attached only while a task needs them:
 *
 *      not watched --- a task of the first groups waits for a disk (EV_DISK) ---> watched
 *           ^                                                                       |
 *           +------------ the daemon: none has waited for 3 s ----------------------+
 *
 *    With `account = true` on_request_sent and on_request_done stay attached in between, so that
 *    all requests are counted (disk/account.bpf.h). No gate closes then, and no timer runs.
 */
#ifndef APLOMB_DISK_ORDER_BPF_H
#define APLOMB_DISK_ORDER_BPF_H

#include "kernel/io.bpf.h"
#include "policy/cello.h"
#include "state/events.bpf.h"
#include "tree/disk_share.bpf.h"
#include "tree/domain_of.bpf.h"

/* Real-time priorities from this level on are of the interactive class. */
#define IO_LEVEL_INTERACTIVE 5

/* A task of the first groups says at most once in this time, ns, that it waits. */
#define DISK_ASK_NS NSEC_PER_SEC

/*
 * A task of the first groups that began to wait before the disks were watched waits for one that is
 * not known. It counts here, and its group wants all disks until it runs.
 */
#define DISK_UNKNOWN MAX_DISKS

struct cello disks[2 * MAX_DISKS]; /* a power of two above DISK_UNKNOWN */
/* as disk_set() was told: */
u32 nr_disks; /* those in `disk_of` have lower indices */
u64 disk_round_ns;
u32 disk_weight_soft_real_time, disk_weight_interactive, disk_weight_rest;

u32 disks_watched; /* set by disk_watch() */
u32 disks_epoch;   /* how often they were watched so far */
u64 disk_wanted;   /* when a task of the first groups waited last */
u64 disk_asked;    /* when EV_DISK was sent last */

/* Number of a disk or a volume (disk_number()): index in `disks`. Written by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_VOLUMES);
	__type(key, u32);
	__type(value, u32);
} disk_of SEC(".maps");

static __always_inline struct cello *disk_at(u32 disk)
{
	return &disks[disk & (2 * MAX_DISKS - 1)];
}

static __always_inline struct cello_group *disk_group(u32 disk, u32 group)
{
	return &disk_at(disk)->groups[group & (NR_CELLO_GROUPS - 1)];
}

/* The class of a request of @priority (ioprio_get()). */
static __always_inline u32 io_class(u32 priority)
{
	if (priority >> IOPRIO_CLASS_SHIFT != IOPRIO_CLASS_RT)
		return CELLO_REST;
	return (priority & IOPRIO_LEVEL_MASK) < IO_LEVEL_INTERACTIVE ? CELLO_SOFT_REAL_TIME
								     : CELLO_INTERACTIVE;
}

/*
 * A task of @group waits for a disk. If it is of the first ones, the daemon is told, so that it
 * watches the disks.
 */
static __always_inline void disk_want(u32 group, u64 now)
{
	if (group == CELLO_REST)
		return;
	disk_wanted = now;
	if (disks_watched || time_before(now, disk_asked + DISK_ASK_NS))
		return;
	disk_asked = now;
	emit_plain(EV_DISK, group, 0, 0);
}

#ifdef __bpf__
/* The index of a disk or a volume; MAX_DISKS: it is not ordered. */
static __always_inline u32 disk_index(struct gendisk *disk)
{
	u32 number = disk_number(disk), *index = bpf_map_lookup_elem(&disk_of, &number);

	return index ? *index : MAX_DISKS;
}

/* The group of a request of domain @slot and @class. */
static __always_inline u32 request_group(u32 slot, u32 class)
{
	u32 group = branch(slot)->disk_group;

	return group ? group : class;
}

/* The domain that @bio is charged to. */
static __always_inline u32 bio_domain(struct bio *bio)
{
	struct cgroup *cgrp = bio_cgroup(bio);

	return cgrp ? slot_of(cgrp) : SLOT_ROOT;
}

static __always_inline u32 bio_group(struct bio *bio)
{
	return request_group(bio_domain(bio), io_class(bio->bi_ioprio));
}
#endif

#endif /* APLOMB_DISK_ORDER_BPF_H */
