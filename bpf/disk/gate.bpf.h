/* SPDX-License-Identifier: GPL-2.0 */
/*
 * disk/gate.bpf.h - the gates of a disk: a task whose group is not to use the disk now is parked
 * before its next request.
 *
 * Theory: policy/cello.h. Which disks and groups: disk/order.bpf.h.
 *
 * 1. Where. A task stands at the gate when it returns to user mode: it holds no kernel lock there,
 *    neither of a file nor of a journal. Two ways lead there:
 *     - It has waited for a request, and runs again.
 *     - It has sent a request and does not wait for it (libaio, io_uring), or not yet.
 *    So the first request of a flood is not held, and one system call may send many (a read of
 *    20 MB); what they cost is taken off the group's next share.
 *
 * 2. States of a task (task_ctx.gate_state, state/state.bpf.h):
 *
 *      NONE --- sleeps until a request is done ---> WAITS --- runs, the gate is open ---> NONE
 *        |                                         ^  |
 *        |             sleeps for the next request |  | runs, the gate is closed
 *        |                                         |  v
 *        +--- sends a request, the gate is closed -> PARKED --- released, or its park is over ---> RELEASED
 *
 *    A task that is RELEASED waits for a CPU, and counts as one that waits for the disk: it will
 *    send a request. When it runs it is NONE.
 *
 * 3. A page fault (a mapped file, swap) is counted and never parked: the task may have a lock of
 *    user mode that all others of its program need, and it has not asked for input.
 *
 * Not reached: kernel threads, among them the poller of io_uring's SQPOLL.
 */
#ifndef APLOMB_DISK_GATE_BPF_H
#define APLOMB_DISK_GATE_BPF_H

#include "disk/order.bpf.h"
#include "park/park.bpf.h"

/* task_ctx.gate: the disk and the group of the task's last request. 0: it has sent none. */
#define GATE(disk, group) (1U << 16 | (disk) << 8 | (group))
#define GATE_FAULT (1U << 17) /* by a page fault */
#define GATE_DISK(gate) ((gate) >> 8 & 0xff)

u32 gates_used; /* tasks that are not GATE_NONE */

static __always_inline struct cello_group *gate_group(u32 gate)
{
	return disk_group(GATE_DISK(gate), gate);
}

/* Is the gate closed? */
static __always_inline bool gate_closed(u32 gate)
{
	u32 disk = GATE_DISK(gate), open = disk_at(disk)->open;

	return disks_watched && disk < DISK_UNKNOWN &&
	       !(open & CELLO_BIT(gate & (NR_CELLO_GROUPS - 1)));
}

static __always_inline void gate_enter(struct task_ctx *t, u32 gate)
{
	t->gate_state = GATE_WAITS;
	t->gate_at = gate & ~GATE_FAULT;
	__sync_fetch_and_add(&gate_group(t->gate_at)->waiting, 1);
	__sync_fetch_and_add(&gates_used, 1);
}

/* The task is no longer at the gate. Several CPUs may say so: the one that does it counts. */
static __always_inline void gate_pass(struct task_ctx *t)
{
	if (__sync_val_compare_and_swap(&t->gate_state, GATE_PARKED, GATE_WAITS) == GATE_PARKED)
		__sync_fetch_and_add(&gate_group(t->gate_at)->parked, -1);
}

static __always_inline void gate_leave(struct task_ctx *t, u64 now)
{
	if (t->gate_state == GATE_NONE)
		return;
	gate_pass(t);
	park_end(&t->park, PARK_DISK);
	t->gate_state = GATE_NONE;
	gate_group(t->gate_at)->seen = now;
	__sync_fetch_and_add(&gate_group(t->gate_at)->waiting, -1);
	__sync_fetch_and_add(&gates_used, -1);
}

/* @p, of context @t, which is GATE_WAITS, is to wait at the gate. False: it cannot. */
static __always_inline bool gate_park(struct task_struct *p, struct task_ctx *t, u64 now)
{
	if (!may_park(p) || park(p, PARK_DISK, now, now + PARK_DISK_BOUND_NS))
		return false;
	t->gate_state = GATE_PARKED;
	__sync_fetch_and_add(&gate_group(t->gate_at)->parked, 1);
	return true;
}

/*
 * May the sleep of @p matter, which waits for a disk? Nearly always not: no disk is watched, no
 * domain has a share, and the task has no priority.
 */
static __always_inline bool gate_matters(struct task_struct *p)
{
	return disks_watched || nr_disk_shares || io_priority(p);
}

/* In ops.stopping, if @p goes to sleep and gate_matters(). */
static __noinline void gate_sleeps(struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);
	u32 group = 0;

	if (t && t->gate_state == GATE_RELEASED) /* it has not waited for a CPU */
		gate_leave(t, bpf_ktime_get_ns());
	if (t && t->gate_state != GATE_NONE) {
		gate_pass(t); /* it is in a system call that sends many, and not at the gate yet */
		return;
	}
	if (disks_watched) {
		if (t && t->gate)
			gate_enter(t, t->gate);
		return;
	}
	if (tree_on)
		group = branch(t ? t->domain : 0)->disk_group;
	if (!group)
		group = io_class(io_priority(p));
	if (group == CELLO_REST)
		return;
	disk_want(group, bpf_ktime_get_ns());
	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t) {
		gate_enter(t, GATE(DISK_UNKNOWN, group));
		gate_group(t->gate_at)->seen = bpf_ktime_get_ns();
	}
}

/* In ops.running, while there are tasks at gates. @was_held: @p was parked until now. */
static __noinline void gate_runs(struct task_struct *p, bool was_held)
{
	struct task_ctx *t = task_ctx(p);
	u64 now;

	if (!t || t->gate_state == GATE_NONE)
		return;
	if (was_held) { /* it is enqueued by its policy now: park/holding.bpf.h 2 */
		gate_pass(t);
		park_end(&t->park, PARK_DISK);
		t->gate_state = GATE_RELEASED;
		return;
	}
	now = bpf_ktime_get_ns();
	if (t->gate_state != GATE_RELEASED && gate_closed(t->gate_at) && !(t->gate & GATE_FAULT)) {
		/* the park of a task that is long in the kernel may be over before it lands */
		if (t->gate_state == GATE_PARKED && t->park.reasons & PARK_BIT(PARK_DISK))
			return;
		gate_pass(t);
		if (gate_park(p, t, now))
			return;
	}
	gate_leave(t, now);
}

/* @p, of context @t, ends or leaves sched_ext. */
static __always_inline void gate_forget(struct task_ctx *t)
{
	if (gates_used && t)
		gate_leave(t, bpf_ktime_get_ns());
}

#ifdef __bpf__
/*
 * The current task sends a request, for a disk or a volume. It may be for a file system's own sake,
 * or another task's; then it counts for the task that sends it.
 */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_request_wanted, struct bio *bio)
{
	struct task_struct *p = bpf_get_current_task_btf();
	u32 disk = disk_index(bio->bi_bdev->bd_disk), group;
	struct task_ctx *t;
	u64 now;

	if (disk >= MAX_DISKS || p->flags & PF_KTHREAD)
		return 0;
	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	group = bio_group(bio);
	disk_group(disk, group)->seen = now;
	disk_want(group, now);
	t->gate = GATE(disk, group);
	if (!in_system_call(p)) {
		t->gate |= GATE_FAULT;
		return 0;
	}
	if (t->gate_state != GATE_NONE || !gate_closed(t->gate))
		return 0;
	gate_enter(t, t->gate);
	if (!gate_park(p, t, now))
		gate_leave(t, now);
	return 0;
}
#endif

#endif /* APLOMB_DISK_GATE_BPF_H */
