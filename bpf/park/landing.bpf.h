/* SPDX-License-Identifier: GPL-2.0 */
/*
 * park/landing.bpf.h - the way of a task to the place where it may be kept off the CPU: its return
 * to user mode.
 *
 * Source: ours; the kernel's own cpu.max does the same since 6.18 (throttle_cfs_rq_work).
 *
 * 1. Why. A task that is preempted in the kernel may hold a lock there that other tasks need. A
 *    park that kept it off the CPU there would park them too. A task at its return to user mode
 *    holds none.
 *
 * 2. Mechanism. land() adds a task work to the task. The kernel calls it (landed()) at the task's
 *    next return to user mode. There the task gives up the CPU at once: a moment later it could be
 *    in its next system call.
 *
 *        runnable --- land() ---> landing --- landed() ---> LANDED: may be held --- runs again ---> LEAVES ---> runnable
 *
 *    Between LEAVES and its next instruction in user mode the task still holds no lock, but its
 *    task work is not over. The kernel refuses a second one until then (-EBUSY).
 *
 * 3. Kernels without task work for BPF (before 7.0) give land() no choice: tasks are held where
 *    they are preempted.
 */
#ifndef APLOMB_LANDING_BPF_H
#define APLOMB_LANDING_BPF_H

#include "state/state.bpf.h"

/*
 * Task works under way, by thread id. Of two threads with the same rest the later one lands at its
 * next turn.
 */
#define LANDINGS 4096

struct landing {
	struct bpf_task_work work;
	s32 pid; /* the thread that the task work is for, or was last */
};

/* task_ctx.landing: may the park keep the task off the CPU where it is? */
enum landing_state {
	LANDING_NONE = 0,   /* not known: it may hold a lock */
	LANDING_LANDED = 1, /* yes: in landed() */
	LANDING_LEAVES = 2, /* it was there, and still is if its task work is not over */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANDINGS);
	__type(key, u32);
	__type(value, struct landing);
} landings SEC(".maps");

/*
 * The current task is at its return to user mode: it holds no lock, and gives up the CPU at the end
 * of bpf_preempt_enable(). So for the whole park it is in a BPF callback: what BPF frees may wait
 * for it (rcu_tasks_trace; other kinds of RCU do not), and it may not migrate.
 */
static int landed(struct bpf_map *map, void *key, void *value)
{
	struct task_ctx *t = task_ctx(bpf_get_current_task_btf());

	if (!t)
		return 0;
	t->landing = LANDING_LANDED;
	bpf_preempt_disable(); /* until the kick has taken effect, for this task and on this CPU */
	scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	bpf_preempt_enable();
	t->landing = LANDING_LEAVES;
	return 0;
}

/*
 * Have @p land at its return to user mode. Returns false if @p has to be held where it is, because
 *  - this kernel has no task work for BPF (before 7.0), or
 *  - @p never returns to user mode (kernel thread, exiting), or
 *  - @p has landed: it was preempted again before its last task work was over, so the kernel
 *    refuses another one.
 */
static __noinline bool land(struct task_struct *p, struct task_ctx *t)
{
	u32 i = p->pid & (LANDINGS - 1);
	struct landing *landing = bpf_map_lookup_elem(&landings, &i);
	int err;

	if (!landing || (p->flags & (PF_KTHREAD | PF_EXITING)) || !task_work_exists())
		return false;
	err = task_work_resume(p, &landing->work, &landings, landed);
	if (!err) {
		landing->pid = p->pid;
		t->landing = LANDING_NONE;
	}
	/* any other failure is tried again at its next turn */
	return err != -EBUSY || landing->pid != p->pid || t->landing != LANDING_LEAVES;
}

#endif /* APLOMB_LANDING_BPF_H */
