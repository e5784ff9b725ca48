/* SPDX-License-Identifier: GPL-2.0 */
/*
 * park/park.bpf.h - what keeps a task off the CPU: reasons, how long, and the account of it.
 *
 * Theory: policy/park.h. One mechanism for all resources:
 *
 *     park(p, reason, until)     p lands (park/landing.bpf.h), then is held (park/holding.bpf.h)
 *     unpark(p, reason)          one reason less; p goes on with the last one
 *
 *        runnable --- park() ---> landing ---> held --- last reason over ---> runnable
 *
 * cpu.max is a reason too, but it stops a domain and not a task: its tasks wait in the domain's
 * queue, and nothing has to be done for each of them when the next period begins
 * (tree/limit.bpf.h). It uses landing and the account.
 */
#ifndef APLOMB_PARK_PARK_BPF_H
#define APLOMB_PARK_PARK_BPF_H

#include "park/account.bpf.h"
#include "park/landing.bpf.h"

/*
 * Longest park, ns, for all timed reasons together. Long enough that a task that uses too much of a
 * resource is slowed down to a hundredth (1 ms of work for each 100 ms), short enough that a
 * program which a user looks at still answers. cpu.max is not bound by it: its period is the
 * kernel's interface, and tree/rescue.bpf.h ends it after 10 s.
 */
SETTING u64 park_bound_ns = 100 * NSEC_PER_MSEC;

/*
 * The same for PARK_DISK, ns. A slow disk needs a second for a read of 20 MB, and the other
 * programs that read as much wait for it. A shorter park would let all of them go on.
 */
#define PARK_DISK_BOUND_NS (5 * NSEC_PER_SEC)

/* A park that ends within this, ns, is not worth two switches. */
#define LEAST_PARK_NS (50 * NSEC_PER_USEC)

u32 parks_on; /* 0: no task was parked so far, except by cpu.max */

s32 daemon_tgid; /* the daemon's process, as the kernel counts it; 0: unknown */

/* The daemon runs this at load. Its own number for itself may be that of a process namespace. */
SEC("syscall")
int know_daemon(void *unused)
{
	daemon_tgid = bpf_get_current_task_btf()->tgid;
	return 0;
}

/*
 * May a resource park @p, which runs? Not if it is not ours (a real-time task, say), nor the
 * daemon, on which the control of that resource depends.
 */
static __always_inline bool may_park(const struct task_struct *p)
{
	return p->scx.flags & SCX_TASK_QUEUED && p->tgid != daemon_tgid;
}

/*
 * Keeps @p off the CPU from its next return to user mode until @until, at most park_bound_ns (or
 * PARK_DISK_BOUND_NS) after the first request. Returns 0; -EINVAL for tasks that never return
 * there; -EOPNOTSUPP if this kernel cannot make a task land (before 7.0); -ENOMEM.
 */
static __always_inline s32 park(struct task_struct *p, u32 reason, u64 now, u64 until)
{
	struct task_ctx *t;

	if (p->flags & (PF_KTHREAD | PF_EXITING))
		return -EINVAL;
	if (!task_work_exists())
		return -EOPNOTSUPP;
	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return -ENOMEM;
	if (!park_ask(&t->park, reason, now, until,
		      reason == PARK_DISK ? PARK_DISK_BOUND_NS : park_bound_ns))
		__sync_fetch_and_add(&park_account(t->domain)->cut, 1);
	parks_on = 1;
	if (t->landing != LANDING_LANDED)
		land(p, t);
	return 0;
}

/* Is @p, of context @t, to be kept off the CPU by a timed reason? Returns until when, or 0. */
static __always_inline u64 park_due(struct task_struct *p, struct task_ctx *t, u64 now)
{
	u64 until;

	if (!t->park.reasons || (p->flags & PF_EXITING) || is_recalled(p))
		return 0;
	until = park_until(&t->park, now);
	return time_before(now + LEAST_PARK_NS, until) ? until : 0;
}

/*
 * In ops.tick of @p: if it has not landed yet it is asked again. A task that no other task preempts
 * is not enqueued, so ops.enqueue would not ask it.
 */
static __noinline void park_tick(struct task_struct *p)
{
	struct task_ctx *t = task_ctx(p);

	if (t && t->landing == LANDING_NONE && park_due(p, t, bpf_ktime_get_ns()))
		land(p, t);
}

#endif /* APLOMB_PARK_PARK_BPF_H */
