/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/recall.bpf.h - tasks that are recalled from a throttled domain, or from a holding queue.
 *
 * Why, and how they come here: park/recall.bpf.h. A task of a throttled domain runs through
 * DSQ_RESCUE: next of the fair layer, for RESCUE_SLICE_NS. Its domain is charged as always, so what
 * the task gets is a debt of its cpu.max.
 *
 *      throttled domain's queue --- recall(), recall_tick() ---> [DSQ_RESCUE] ---> runs
 *
 * A user that freezes a cgroup again and again gets no more of the CPU by that than a fraction:
 * RECALL_EVERY_NS.
 */
#ifndef APLOMB_TREE_RECALL_BPF_H
#define APLOMB_TREE_RECALL_BPF_H

#include "park/holding.bpf.h"
#include "park/recall.bpf.h"
#include "tree/queue.bpf.h"
#include "tree/rescue.bpf.h"
#include "tree/waiting.bpf.h"

/* Does the thread of @t wait in the queue of a throttled domain? */
static __always_inline bool waits_throttled(const struct task_ctx *t)
{
	u32 queued = t->queued;

	return queued && branch(queued_in(queued))->limited && path_throttled(queued_in(queued));
}

/*
 * The kernel has marked @p as frozen or traced, and has woken it up if it slept. The kernel holds a
 * lock of @p's process, with interrupts off. (For signals the kernel's compiler may have inlined
 * this function: see on_kill.)
 */
SEC("fexit/signal_wake_up_state")
int BPF_PROG(on_freeze, struct task_struct *p, unsigned int state)
{
	struct task_ctx *t = tree_on || parks_on ? task_ctx(p) : NULL;

	if (t && (t->queued || t->held) && is_recalled(p))
		recall(p->pid, 0);
	return 0;
}

/*
 * A signal was sent to @p, or to its process. If it is fatal, the kernel has marked all threads of
 * the process. The timer recalls them, because a tracing program may not iterate over threads.
 */
SEC("tp_btf/signal_generate")
int BPF_PROG(on_kill, int signal, struct kernel_siginfo *info, struct task_struct *p)
{
	if ((tree_on || parks_on) && is_recalled(p))
		recall(-p->tgid, 0);
	return 0;
}

/* All threads of process @pid are recalled. */
VERIFIED_ONCE int recall_process(s32 pid)
{
	struct task_struct *leader = bpf_task_from_pid(pid), *p;
	struct bpf_iter_task it;
	u32 i;

	if (!leader)
		return 0;
	bpf_rcu_read_lock();
	bpf_iter_task_new(&it, leader, BPF_TASK_ITER_PROC_THREADS);
	bpf_for(i, 0, MAX_RECALLED) {
		struct task_ctx *t;
		s32 tid;

		p = bpf_iter_task_next(&it);
		if (!p)
			break;
		tid = p->pid;
		t = task_ctx(p);
		if (t && (t->queued || t->held))
			bpf_map_push_elem(&recalled, &tid, 0);
	}
	bpf_iter_task_destroy(&it);
	bpf_rcu_read_unlock();
	bpf_task_release(leader);
	return 0;
}

/* Moves @p from the queue of domain @slot to DSQ_RESCUE. False: it is not in it (yet). */
static __noinline bool recall_move(struct task_struct *p, struct task_ctx *t, u32 slot)
{
	TAKES_STACK(64);
	struct bpf_iter_scx_dsq it;
	s32 home = task_cpu(p);
	bool moved = false;
	u32 was = 0;

	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, DSQ_DOMAIN(slot), 0))
		was = tree_leave(t, 0);
	if (was) {
		rescues = 1;
		scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
		/* if the CPU has gone: from its local queue the kernel moves it to another CPU */
		moved = scx_bpf_dsq_move(
			&it, p, cpu_ctx(home)->online ? DSQ_RESCUE : SCX_DSQ_LOCAL_ON(home), 0);
		if (!moved)
			tree_rejoin(t, was, queued_in(was));
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return moved;
}

/* Lets thread @pid run, if it is held and recalled. True: look again. */
VERIFIED_ONCE int recall_one(s32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	u64 now = bpf_ktime_get_ns();
	struct task_ctx *t;
	bool again = false;

	if (!p)
		return false;
	t = task_ctx(p);
	if (t && t->held)
		held_let_go(p, t);
	if (t && waits_throttled(t) && (is_recalled(p) || (stays(p) && waits_to_move(p))) &&
	    now - t->recalled_ns >= RECALL_EVERY_NS) {
		u32 slot = queued_in(t->queued);

		t->recalled_ns = now;
		again = !recall_move(p, t, slot);
		if (again)
			t->recalled_ns = 0;
	}
	bpf_task_release(p);
	return again;
}

static int recall_tick(void *map, u32 *key, struct timer_slot *timer)
{
	u32 i, again = 0;
	s32 pid;

	bpf_for(i, 0, MAX_RECALLED) {
		if (bpf_map_pop_elem(&recalled, &pid))
			break;
		if (pid < 0) {
			recall_process(-pid);
		} else if (recall_one(pid)) {
			again = pid;
			break; /* else the next round would take it from the stack again */
		}
	}
	wake_idle();
	if (again)
		recall(again, RECALL_AGAIN_NS);
	else if (i == MAX_RECALLED)
		bpf_timer_start(&timer->timer, 0, 0);
	return 0;
}

static __always_inline s32 recall_init(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&recall_timer, &zero);

	return slot ? bpf_timer_set_callback(&slot->timer, recall_tick) : -EINVAL;
}

#endif /* APLOMB_TREE_RECALL_BPF_H */
