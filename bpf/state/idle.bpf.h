/* SPDX-License-Identifier: GPL-2.0 */
/*
 * state/idle.bpf.h - idle CPUs: how a task that waits for a busy CPU finds another that helps.
 */
#ifndef APLOMB_IDLE_BPF_H
#define APLOMB_IDLE_BPF_H

#include "state/state.bpf.h"

/*
 * Most CPUs that have gone off line and are skipped in one search for an idle one. If there are
 * more, the task gets no help now.
 */
#define MAX_GONE 8

/*
 * @p waits for a CPU that is busy: an idle CPU that @p may use is kicked, and takes @p or what goes
 * before it. Returns whether there is one. A CPU that is off line can still count as idle, until it
 * is picked once.
 */
static __noinline bool ask_idle(struct task_struct *p)
{
	TAKES_STACK(16);
	u32 i;

	bpf_for(i, 0, MAX_GONE) {
		s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (idle < 0)
			return false;
		if (cpu_ctx(idle)->online) {
			cpu_ctx(idle)->asked = p->pid;
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			return true;
		}
	}
	return false;
}

/*
 * A CPU was asked to help thread @pid and runs another task: before it chose, that one woke up
 * there. While an idle CPU is on its way to a choice, no other task may ask it, so without this
 * @pid would wait as long as that task runs, though further CPUs are idle.
 */
static __noinline void ask_another(s32 pid)
{
	TAKES_STACK(16);
	struct task_struct *p = bpf_task_from_pid(pid);

	if (!p)
		return;
	if ((p->scx.flags & SCX_TASK_QUEUED) && !scx_bpf_task_running(p))
		ask_idle(p);
	bpf_task_release(p);
}

/* @p begins to run on the CPU of @c. Was it the one that the CPU was to help? */
static __always_inline void help_ends(const struct task_struct *p, struct cpu_ctx *c)
{
	s32 asked = c->asked;

	if (!asked)
		return;
	c->asked = 0;
	if (asked != p->pid)
		ask_another(asked);
}

/*
 * With one CPU: tasks that a higher scheduling class has preempted, and that keep their place in
 * the local queue. Further ones wait in their queues: what is in the local queue runs before
 * anything else, the last one first.
 */
#define MAX_KEPT 2

/*
 * @p stops on @cpu, and could go on. If it has slice left, a task of a higher scheduling class
 * takes the CPU. The kernel would leave @p first in the CPU's local queue, where no other CPU can
 * take it, until that class is done: a real-time loop has the CPU for 0.95 s of each second. So the
 * slice ends: then the kernel enqueues @p, and another CPU may take it. (Not if @p may not stay:
 * then the higher class is the kernel's stopper, which migrates it.)
 *
 * Trade: beside a real-time task that runs for some microseconds only, another CPU that chooses in
 * this time may take @p, which loses its cache. Usually @p is the first of its queue, and goes on.
 */
static __always_inline void stop_for_higher_class(struct task_struct *p, u32 cpu)
{
	if (!p->scx.slice)
		return;
	if (nr_cpus > 1 ? bpf_cpumask_test_cpu(cpu, p->cpus_ptr)
			: scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON(cpu)) >= MAX_KEPT)
		task_set_slice(p, 0);
}

#endif /* APLOMB_IDLE_BPF_H */
