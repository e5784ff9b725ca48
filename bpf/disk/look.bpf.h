/* SPDX-License-Identifier: GPL-2.0 */
/*
 * disk/look.bpf.h - the timer that opens and closes the gates of all disks, while they are watched.
 */
#ifndef APLOMB_DISK_LOOK_BPF_H
#define APLOMB_DISK_LOOK_BPF_H

#include "disk/gate.bpf.h"
#include "park/holding.bpf.h"
#include "state/timer.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} disk_timer SEC(".maps");

u32 disk_shares_seen; /* the version of the shares that the disks have */

/* Gives @disk the shares of domains and classes. */
VERIFIED_ONCE int disk_take_shares(u32 disk)
{
	u32 i;

	bpf_for(i, 0, NR_CELLO_GROUPS) {
		if (cello_is_domain(i))
			disk_group(disk, i)->share_ppm = disk_shares[i & (NR_CELLO_GROUPS - 1)].ppm;
	}
	cello_share(disk_at(disk), disk_weight_soft_real_time, disk_weight_interactive,
		    disk_weight_rest);
	return 0;
}

u32 gate_more; /* of gate_release(), which the one timer runs */

/*
 * Releases at most @most tasks at the gate @gate. From now on they count as tasks that wait for the
 * disk, and not only when they run: they may wait long for a CPU, and the next look would release
 * as many again.
 */
VERIFIED_ONCE int gate_release(u32 gate, u32 most, u64 now)
{
	u32 i;

	gate_more = most;
	bpf_for(i, 0, nr_cpus) {
		if (!gate_more)
			break;
		if (__sync_fetch_and_add(&held_cpu(i)->nr, 0))
			held_end(i, PARK_DISK, gate, &gate_more, now);
	}
	__sync_fetch_and_add(&gate_group(gate)->parked, gate_more - most);
	cello_released(disk_at(GATE_DISK(gate)), gate, most - gate_more);
	return 0;
}

/*
 * Groups with tasks that wait for an unknown disk want this one, too. Not for long: a task may wait
 * for a file system of the network.
 */
static __always_inline void disk_want_unknown(u32 disk, u64 now)
{
	u32 group;

	bpf_for(group, 0, CELLO_REST) {
		struct cello_group *unknown = disk_group(DISK_UNKNOWN, group);

		if (unknown->waiting && cello_seen(unknown, now, CELLO_RECENT_NS))
			disk_group(disk, group)->seen = now;
	}
}

/* All gates of @disk open. Returns how many tasks are at them. */
VERIFIED_ONCE int disk_open(u32 disk, u64 now)
{
	u32 group, parked = 0;

	disk_at(disk)->open = CELLO_ALL;
	bpf_for(group, 0, NR_CELLO_GROUPS) {
		if (disk_group(disk, group)->parked)
			gate_release(GATE(disk, group), ~0U, now);
		parked += disk_group(disk, group)->parked;
	}
	return parked;
}

/*
 * Opens and closes the gates of @disk. Returns how many tasks are at them. The disks stay watched
 * while a task of the first groups waits: a request behind a flood, or a park, may take seconds.
 */
VERIFIED_ONCE int disk_look(u32 disk, u64 now)
{
	u32 group, parked = 0;

	if (!disks_watched)
		return disk_open(disk, now);
	disk_want_unknown(disk, now);
	cello_look(disk_at(disk), now);
	bpf_for(group, 0, NR_CELLO_GROUPS) {
		u32 most = cello_admits(disk_at(disk), group);

		if (most)
			gate_release(GATE(disk, group), most, now);
		parked += disk_group(disk, group)->parked;
		if (group != CELLO_REST && disk_group(disk, group)->waiting)
			disk_wanted = now;
	}
	return parked;
}

static int disk_tick(void *map, u32 *key, struct timer_slot *timer)
{
	u64 now = bpf_ktime_get_ns();
	u32 version = disk_shares_version, parked = 0, i;
	bool fresh = version != disk_shares_seen;

	bpf_for(i, 0, MAX_DISKS) {
		if (i >= nr_disks) { /* it is ordered no longer */
			parked += disk_open(i, now);
			continue;
		}
		if (fresh) {
			disk_at(i)->round_ns = disk_round_ns;
			disk_take_shares(i);
		}
		parked += disk_look(i, now);
	}
	disk_shares_seen = version;
	/* after the disks are not watched any more, until the last task at a gate has passed */
	if (disks_watched || parked)
		bpf_timer_start(&timer->timer, CELLO_LOOK_NS, 0);
	return 0;
}

/* The daemon runs this before disks are watched, and to change a setting. */
SEC("syscall")
int disk_set(struct disk_set_args *set)
{
	u64 round = set->round_ns;
	u32 known = set->disks, srt = set->soft_real_time, iact = set->interactive;
	u32 rest = set->rest;

	if (round)
		disk_round_ns = round;
	nr_disks = known < MAX_DISKS ? known : MAX_DISKS;
	if (srt && iact && rest) {
		disk_weight_soft_real_time = srt;
		disk_weight_interactive = iact;
		disk_weight_rest = rest;
	}
	__sync_fetch_and_add(&disk_shares_version, 1);
	return 0;
}

/*
 * The daemon runs this with @watch->on before it attaches the tracing programs, and again when it
 * has: on a busy machine that takes seconds, in which no request is seen. And without, after it has
 * detached them.
 */
SEC("syscall")
int disk_watch(struct disk_watch_args *watch)
{
	u64 now = bpf_ktime_get_ns();
	struct timer_slot *timer;
	u32 zero = 0, on = watch->on, i;

	if (on)
		disk_wanted = now;
	if (on == disks_watched)
		return 0;
	if (on) {
		bpf_for(i, 0, nr_disks) {
			cello_begin(disk_at(i), now, disk_round_ns);
			disk_take_shares(i);
		}
		disks_epoch++;
	}
	disks_watched = on;
	timer = bpf_map_lookup_elem(&disk_timer, &zero);
	if (on && timer)
		bpf_timer_start(&timer->timer, CELLO_LOOK_NS, 0);
	return 0;
}

static __always_inline s32 disk_order_init(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&disk_timer, &zero);

	if (!disk_order)
		return 0;
	return slot ? bpf_timer_set_callback(&slot->timer, disk_tick) : -EINVAL;
}

#endif /* APLOMB_DISK_LOOK_BPF_H */
