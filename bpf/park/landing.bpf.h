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
 *        runnable --- land() ---> landing --- landed() ---> LANDED: may be held
 *           ^                                                      |
 *           +------- task work over -------- LEAVES <--- runs -----+
 *
 *    Between LEAVES and its next instruction in user mode the task still holds no lock, but its
 *    task work is not over. The kernel refuses a second one until then (-EBUSY).
 *
 * 3. Where exactly. The kernel disables migration around landed(). A task that gave up the CPU in
 *    there could not be moved: a change of its affinity, or of the cpuset of its cgroup, would wait
 *    for the end of the park, with the kernel's cpuset_mutex held. So landed() only asks for the
 *    CPU to be given up. It ends with interrupts off across the place where the kernel would do so,
 *    and the next such place is the end of the kernel's migrate_enable(). If an interrupt comes
 *    between the two, the task gives up the CPU too early: park/recall.bpf.h.
 *
 * 4. Kernels without task work for BPF (before 7.0): land() returns false, and a task is held where
 *    it was preempted.
 */
#ifndef APLOMB_LANDING_BPF_H
#define APLOMB_LANDING_BPF_H

#include "kernel/signal.bpf.h"
#include "state/state.bpf.h"

/*
 * Threads that have been asked to land and have not ended. That is more than are throttled at once
 * on any machine seen, for 1 MB of hash buckets. A task beyond it does not land: it goes on in
 * turns, at its domain's expense (PASSING_TURN_NS).
 */
#define LANDINGS 65536

struct landing {
	struct bpf_task_work work;
};

/* task_ctx.landing: may the park keep the task off the CPU where it is? */
enum landing_state {
	LANDING_NONE = 0,   /* not known: it may hold a lock */
	LANDING_LANDED = 1, /* yes: it gives up the CPU, or waits, at the end of its task work */
	LANDING_LEAVES = 2, /* it had landed, and still has if its task work is not over */
};

u32 landings_on; /* 0: no task was asked to land so far */
u64 landing_ids; /* given to threads so far */

/*
 * By task_ctx.landing_id. Each thread has an entry of its own: the work of a thread that sleeps in
 * the kernel is not over until it wakes up, and must not keep another thread from landing. The
 * kernel allows task works in hash maps and arrays only, so the entry cannot be in task_ctx. Thread
 * ids are no keys: an exec changes them, and users can choose them.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LANDINGS);
	__type(key, u64);
	__type(value, struct landing);
} landings SEC(".maps");

/*
 * How often landed() checks whether its kick has arrived. The checks are some nanoseconds apart,
 * and an interrupt that a CPU sends itself takes less than a microsecond. If the kick has not
 * arrived by the last check, the task does not land, and is asked again at its next turn or tick.
 */
#define KICK_LOOKS 1000

/*
 * Has the running task been asked to give up the CPU? Then its slice has been set to 0. This is a
 * function of its own because the compiler does not know that an interrupt changes the slice.
 */
static __noinline bool kick_arrived(struct task_struct *p)
{
	u32 i;

	bpf_for(i, 0, KICK_LOOKS) {
		if (!p->scx.slice)
			return true;
	}
	return false;
}

/*
 * The current task is at its return to user mode and holds no lock. It gives up the CPU when the
 * kernel has enabled migration again (3). A task that is to die or to freeze goes on.
 *
 * While the task is parked, it is still in the kernel's function that called this one. What BPF
 * frees may have to wait for that function's end (rcu_tasks_trace; other kinds of RCU do not).
 */
static int landed(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx(p);
	unsigned long flags;

	if (!t || is_recalled(p))
		return 0;
	bpf_preempt_disable(); /* until the kick has taken effect, for this task and on this CPU */
	scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	t->landing = kick_arrived(p) ? LANDING_LANDED : LANDING_NONE;
	bpf_local_irq_save(&flags);
	bpf_preempt_enable(); /* with interrupts off the kernel does not switch tasks here */
	bpf_local_irq_restore(&flags);
	return 0;
}

/*
 * Has @prev, which runs, landed? Then it has to go through a queue even if it may go on, because
 * only ops.running sets LANDING_LEAVES.
 */
static __always_inline bool has_landed(struct task_struct *prev)
{
	struct task_ctx *t = landings_on ? task_ctx(prev) : NULL;

	return t && t->landing == LANDING_LANDED;
}

/* The thread of @t begins to run: if it has landed, it leaves. */
static __always_inline void landing_leave(struct task_ctx *t)
{
	if (t->landing == LANDING_LANDED)
		t->landing = LANDING_LEAVES;
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
	struct landing none = {}, *landing;
	u64 id;
	int err;

	if ((p->flags & (PF_KTHREAD | PF_EXITING)) || !task_work_exists())
		return false;
	if (!t->landing_id)
		t->landing_id = __sync_fetch_and_add(&landing_ids, 1) + 1;
	id = t->landing_id;
	landing = bpf_map_lookup_elem(&landings, &id);
	if (!landing) {
		bpf_map_update_elem(&landings, &id, &none, BPF_NOEXIST);
		landing = bpf_map_lookup_elem(&landings, &id);
	}
	if (!landing) /* no memory, or LANDINGS: it is asked again at its next turn or tick */
		return true;
	err = task_work_resume(p, &landing->work, &landings, landed);
	if (!err) {
		landings_on = 1;
		t->landing = LANDING_NONE;
	}
	return err != -EBUSY || t->landing != LANDING_LEAVES;
}

/* The thread of @t has ended. */
static __always_inline void landing_forget(const struct task_ctx *t)
{
	u64 id = t->landing_id;

	if (id)
		bpf_map_delete_elem(&landings, &id);
}

#endif /* APLOMB_LANDING_BPF_H */
