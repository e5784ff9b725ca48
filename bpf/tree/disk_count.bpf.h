/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/disk_count.bpf.h - the table of device time: a row for each domain, disk and class.
 *
 * What is counted, and why so: disk/account.bpf.h. Here is how long a row lives.
 *
 * 1. Keys. A row has the id of the domain's cgroup in its key, not the domain's slot. A slot may
 *    get another domain while a request is at the disk; an id never does.
 *
 * 2. End of a domain. Its counts are added to its parent's, as those of io.stat are. Otherwise the
 *    sum of a domain and those below it would shrink:
 *
 *      aplomb_cgroup_exit: id leaves domain_of ---> rows are deleted, and added to the parent's
 *      disk_row_make:      row is inserted     ---> id is still in domain_of? If not, the row is
 *                                                   deleted, and the root is charged
 *
 *    So no row outlives its domain. What a request adds on another CPU while its domain's row is
 *    deleted is lost: the domain has no task then, but pages of it may still be written.
 *
 * Limits. MAX_DISK_COUNTS rows, and MAX_COUNTED_DISKS disks since the load: requests beyond are
 * counted in `disk_uncounted` only. A disk that is plugged in with the number of one that was
 * unplugged goes on with its counts.
 */
#ifndef APLOMB_DISK_COUNT_BPF_H
#define APLOMB_DISK_COUNT_BPF_H

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
VERIFIED_ONCE int disk_count_end(u64 id, u64 up)
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
static inline int disk_count_end(u64 id, u64 up)
{
	return 0;
}
#endif

#endif /* APLOMB_DISK_COUNT_BPF_H */
