/* SPDX-License-Identifier: GPL-2.0 */
/*
 * park/recall.bpf.h - a parked task is recalled: it has to run now, if only for a moment.
 *
 * Source: ours. A task is recalled
 *  - to die or to freeze (kernel/signal.bpf.h): both happen at its return to user mode, where it is
 *    parked or on its way to;
 *  - to move to another CPU, if it was parked where it may not migrate (park/landing.bpf.h 3).
 *    Until it has moved, the system call that changed its affinity waits for it.
 *
 * A stack of thread ids and a timer, because the recall may come while the lock of the task's run
 * queue is held. The timer's callback (tree/recall.bpf.h) takes the task out of the queue in which
 * it waits.
 */
#ifndef APLOMB_PARK_RECALL_BPF_H
#define APLOMB_PARK_RECALL_BPF_H

#include "kernel/migration.bpf.h"
#include "kernel/signal.bpf.h"
#include "park/landing.bpf.h"
#include "state/unstarted.bpf.h"

/* Threads that are recalled at once. More wait for their domain's next period. */
#define MAX_RECALLED 4096
/* A task is recalled at most once in this time, ns: RESCUE_SLICE_NS of it is 4 % of a CPU. */
#define RECALL_EVERY_NS (5 * NSEC_PER_MSEC)
/*
 * A task that is on its way into the queue, or whose affinity is changing just now, is looked at
 * again after this, ns.
 */
#define RECALL_AGAIN_NS (200 * NSEC_PER_USEC)

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_RECALLED);
	__type(value, s32);
} recalled SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} recall_timer SEC(".maps");

/*
 * Thread @pid is to run in @ns from now. The caller may hold a run queue's lock, so a timer moves
 * it.
 */
static __always_inline void recall(s32 pid, u64 ns)
{
	struct timer_slot *timer;
	u32 zero = 0;

	bpf_map_push_elem(&recalled, &pid, 0);
	timer = bpf_map_lookup_elem(&recall_timer, &zero);
	if (timer)
		timer_start(&timer->timer, TIMER_ONE, TIMER_RECALL, ns, 0);
}

/*
 * Has @p been recalled since it began to wait? Called by its enqueue, after its place in the queue
 * is visible to other CPUs.
 */
static __always_inline void look_for_recall(struct task_struct *p, struct task_ctx *t)
{
	/*
	 * A barrier. The kernel marks the task, and then on_freeze() reads what enqueue wrote.
	 * Enqueue writes, and then the mark is read here. So at least one of the two sees the
	 * other.
	 */
	__sync_fetch_and_add(&t->refused, 0);
	if (is_recalled(p))
		recall(p->pid, RECALL_AGAIN_NS);
}

/*
 * The kernel has changed the affinity of @p, or has left it as it was because @p may not migrate
 * now. The callback's arguments do not tell which.
 */
static __always_inline void recall_set_cpumask(struct task_struct *p, struct task_ctx *t)
{
	if (t->landing == LANDING_LANDED && stays(p))
		recall(p->pid, RECALL_AGAIN_NS);
}

#endif /* APLOMB_PARK_RECALL_BPF_H */
